//! The page `/metrics`, in the text format of Prometheus, under upstream's names.
//!
//! ```text
//! state/metrics.rs, stored objects ──▶ families with their help and type ──▶ text
//! ```
//!
//! The families are those that dashboards and alerts of API servers read first: requests, their
//! durations, watches, requests under way, stored objects. Upstream has many more.
//!
//! Complexity: linear in the series, and in the resources.
//!
//! Upstream: `apiserver:pkg/endpoints/metrics`, `apiserver:pkg/storage/etcd3/metrics`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use crate::http::body::Body;
use crate::state::State;
use crate::state::metrics::{BUCKETS, Labels, Series};

/// The path of the page.
pub(super) const PATH: &str = "metrics";
const FORMAT: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");

/// Returns the page.
pub(super) fn page(state: &State) -> Response<Body> {
    let mut text = String::new();
    let series = state.metrics.series();
    requests(&mut text, &series);
    durations(&mut text, &series);
    watches(&mut text, &series);
    inflight(&mut text, state);
    objects(&mut text, state);
    let mut reply = Response::new(Body::full(text));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, FORMAT);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text cannot fail.
    _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Labels as text, with `more` in upstream's alphabetical places.
fn labels(of: &Labels, more: &[(&str, &str)]) -> String {
    let component = if of.scope.is_empty() { "" } else { "apiserver" };
    let mut labels = BTreeMap::from([
        ("component", component),
        ("group", of.group.as_str()),
        ("resource", of.resource.as_str()),
        ("scope", of.scope),
        ("subresource", of.subresource.as_str()),
        ("verb", of.verb),
        ("version", &of.version),
    ]);
    labels.extend(more.iter().copied());
    let labels = labels
        .iter()
        .map(|(name, value)| format!("{name}={}", quoted(value)));
    labels.collect::<Vec<_>>().join(",")
}

fn quoted(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", value.replace('\n', "\\n"))
}

fn dry_run(of: &Labels) -> (&'static str, &'static str) {
    ("dry_run", if of.is_dry_run { "All" } else { "" })
}

fn requests(text: &mut String, series: &[(Labels, Series)]) {
    const NAME: &str = "apiserver_request_total";
    let help = "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, \
                group, version, resource, scope, component, and HTTP response code.";
    family(text, NAME, "counter", help);
    for (of, series) in series {
        for (code, count) in &series.codes {
            let labels = labels(of, &[dry_run(of), ("code", &code.to_string())]);
            _ = writeln!(text, "{NAME}{{{labels}}} {count}");
        }
    }
}

fn durations(text: &mut String, series: &[(Labels, Series)]) {
    const NAME: &str = "apiserver_request_duration_seconds";
    let help = "[STABLE] Response latency distribution in seconds for each verb, dry run value, \
                group, version, resource, subresource, scope and component.";
    family(text, NAME, "histogram", help);
    for (of, series) in series {
        let labels = labels(of, &[dry_run(of)]);
        let mut below = 0;
        let ended: u64 = series.buckets.iter().sum();
        if ended == 0 {
            continue;
        }
        for (bound, count) in BUCKETS.iter().zip(&series.buckets) {
            below += count;
            let bound = std::time::Duration::from_millis(*bound).as_secs_f64();
            _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        _ = writeln!(text, "{NAME}_bucket{{{labels},le=\"+Inf\"}} {ended}");
        let total = series.total.as_secs_f64();
        _ = writeln!(text, "{NAME}_sum{{{labels}}} {total}");
        _ = writeln!(text, "{NAME}_count{{{labels}}} {ended}");
    }
}

fn watches(text: &mut String, series: &[(Labels, Series)]) {
    const NAME: &str = "apiserver_longrunning_requests";
    let help = "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, \
                group, version, resource, scope and component. Not all requests are tracked this way.";
    family(text, NAME, "gauge", help);
    for (of, series) in series.iter().filter(|(of, _)| of.verb == "WATCH") {
        let (labels, running) = (labels(of, &[]), series.running);
        _ = writeln!(text, "{NAME}{{{labels}}} {running}");
    }
}

fn inflight(text: &mut String, state: &State) {
    const NAME: &str = "apiserver_current_inflight_requests";
    let help = "[STABLE] Maximal number of currently used inflight request limit of this apiserver \
                per request kind in last second.";
    family(text, NAME, "gauge", help);
    let now = state.metrics.inflight();
    for (kind, count) in [("mutating", now.mutating), ("readOnly", now.read_only)] {
        _ = writeln!(text, "{NAME}{{request_kind=\"{kind}\"}} {count}");
    }
}

fn objects(text: &mut String, state: &State) {
    const NAME: &str = "apiserver_resource_objects";
    let help = "[ALPHA] Number of stored objects at the time of last check split by kind. In case \
                of a fetching error, the value will be -1.";
    family(text, NAME, "gauge", help);
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let entries = state.registry.entries();
    for entry in entries.iter().filter(|entry| entry.is_stored()) {
        let of = (entry.group.as_str(), entry.plural.as_str());
        // Both views of events are the objects of one shelf.
        if of != ("events.k8s.io", "events") {
            counts
                .entry(of)
                .or_insert_with(|| state.store.view(entry.shelf).snapshot.len());
        }
    }
    for ((group, resource), count) in counts {
        let (group, resource) = (quoted(group), quoted(resource));
        _ = writeln!(text, "{NAME}{{group={group},resource={resource}}} {count}");
    }
}
