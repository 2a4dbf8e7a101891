//! Metrics of informers.
//!
//! ```text
//! InformerFactory → informers → informer_*, reflector_* (upstream's names), kinform_* (ours)
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache` and the metrics that reflectors had there.

use kinform::{InformerFactory, InformerState};

use super::family::{Family, Labels};

/// The families of all informers of a factory.
pub(crate) fn families(factory: &InformerFactory) -> Vec<Family> {
    let mut gauges = [
        Family::gauge("informer_queued_items", "Deltas that wait to be applied."),
        Family::gauge("kinform_store_objects", "Objects in the cache."),
        Family::gauge("kinform_store_bytes", "Memory of the cache."),
        Family::gauge(
            "kinform_informer_synced",
            "1 if the cache is complete and follows the server.",
        ),
        Family::gauge(
            "kinform_handler_pending",
            "Lag of the slowest handler, in batches.",
        ),
        Family::gauge("kinform_quarantined", "Objects that cannot be parsed."),
    ];
    let mut counters = [
        Family::counter("reflector_lists_total", "Lists stored."),
        Family::counter("reflector_watches_total", "Watches begun."),
        Family::counter("kinform_relists_total", "Lists after the first."),
        Family::counter("kinform_watch_events_total", "Events of watches."),
        Family::counter("kinform_wire_bytes_total", "Bytes of bodies read."),
        Family::counter("kinform_handler_panics_total", "Panics of handlers."),
    ];
    for informer in factory.informers() {
        let info = informer.resource();
        let resource = &info.resource;
        let labels: Labels = vec![
            ("name", info.to_string()),
            ("group", resource.group.clone()),
            ("version", resource.version.clone()),
            ("resource", resource.resource.clone()),
        ];
        let stats = informer.stats();
        let is_synced = matches!(informer.state(), InformerState::Synced { .. });
        let now = [
            stats.queue_depth,
            stats.objects,
            stats.heap_bytes,
            u64::from(is_synced),
            stats.handler_lag,
            stats.quarantined_now,
        ];
        for (family, value) in gauges.iter_mut().zip(now) {
            family.set(&labels, value as f64);
        }
        let so_far = [
            stats.lists,
            stats.watches,
            stats.relists,
            stats.events,
            stats.wire_bytes,
            stats.handler_panics,
        ];
        for (family, value) in counters.iter_mut().zip(so_far) {
            family.count(&labels, value);
        }
    }
    gauges.into_iter().chain(counters).collect()
}
