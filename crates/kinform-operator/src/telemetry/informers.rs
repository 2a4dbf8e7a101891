//! Metrics of informers.
//!
//! ```text
//! InformerFactory → informers → informer_*, reflector_* (upstream's names), kinform_* (ours)
//! ```
//!
//! Upstream counterpart: `client-go:tools/cache` and the metrics that reflectors had there.

use kinform::{InformerFactory, InformerState, MemoryStep};

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
        Family::gauge(
            "kinform_store_held_bytes",
            "Memory of the cache with its tables, indexes and what an allocator adds.",
        ),
    ];
    let mut counters = [
        Family::counter("reflector_lists_total", "Lists stored."),
        Family::counter("reflector_watches_total", "Watches begun."),
        Family::counter("kinform_relists_total", "Lists after the first."),
        Family::counter("kinform_watch_events_total", "Events of watches."),
        Family::counter("kinform_wire_bytes_total", "Bytes of bodies read."),
        Family::counter("kinform_handler_panics_total", "Panics of handlers."),
    ];
    let mut budget = Budget::of(factory);
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
            stats.held_bytes,
        ];
        for (family, value) in gauges.iter_mut().zip(now) {
            family.set(&labels, value as f64);
        }
        budget.add(&labels, stats.memory);
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
    let families = gauges.into_iter().chain(counters);
    families.chain(budget.families()).collect()
}

/// The families of the memory budget: without samples, and so left out, if there is none.
struct Budget {
    has_one: bool,
    of_all: [Family; 4],
    step: Family,
}

impl Budget {
    fn of(factory: &InformerFactory) -> Self {
        let mut of_all = [
            Family::gauge(
                "kinform_memory_budget_bytes",
                "Memory that all caches may take together.",
            ),
            Family::gauge(
                "kinform_memory_budget_held_bytes",
                "Memory that all caches take, decoded values included.",
            ),
            Family::gauge(
                "kinform_memory_budget_decoded_bytes",
                "Of the memory that all caches take, decoded values.",
            ),
            Family::gauge(
                "kinform_memory_budget_over",
                "1 if the budget cannot be held: nothing is left to give up.",
            ),
        ];
        let usage = factory.memory();
        if let Some(usage) = usage {
            let over = u64::from(usage.is_over);
            let now = [usage.budget, usage.held, usage.decoded, over];
            for (family, value) in of_all.iter_mut().zip(now) {
                family.set(&Labels::new(), value as f64);
            }
        }
        Self {
            has_one: usage.is_some(),
            of_all,
            step: Family::gauge(
                "kinform_memory_budget_step",
                "1 for the step at which the cache is.",
            ),
        }
    }

    fn add(&mut self, labels: &Labels, step: MemoryStep) {
        if self.has_one {
            let mut labels = labels.clone();
            labels.push(("step", step.as_str().to_owned()));
            self.step.set(&labels, 1.0);
        }
    }

    fn families(self) -> impl Iterator<Item = Family> {
        self.of_all.into_iter().chain([self.step])
    }
}
