//! Counts and durations of requests, for `/metrics`.
//!
//! ```text
//! request ──begin──▶ Measured ──dropped at its end──▶ series: codes, durations     now: requests under way
//! ```
//!
//! A series is one verb of one resource in one scope, as upstream's labels tell them apart. A watch
//! counts when it ends, and until then among those that run.
//!
//! Complexity: a look-up for each request.
//!
//! Upstream: `apiserver:pkg/endpoints/metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::request::Parts;
use tokio::time::Instant;

use crate::clock;
use crate::http::query::Query;
use crate::http::route::Route;

/// BOUND: series; requests of further ones are not counted. Each takes less than 1 KB.
const MOST_SERIES: usize = 10_000;

/// Upper bounds of the histogram's buckets, in milliseconds.
pub(crate) const BUCKETS: [u64; 23] = [
    5, 25, 50, 100, 200, 400, 600, 800, 1000, 1250, 1500, 2000, 3000, 4000, 5000, 6000, 8000,
    10_000, 15_000, 20_000, 30_000, 45_000, 60_000,
];

/// Pages that are counted by their path.
const PAGES: [&str; 9] = [
    "/api",
    "/apis",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
];

/// Labels of a series.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    /// `resource`, `namespace`, `cluster`, or empty outside of the resources.
    pub(crate) scope: &'static str,
    pub(crate) is_dry_run: bool,
}

impl Labels {
    /// Returns the labels under which a request is counted.
    pub(crate) fn of(head: &Parts, query: &Query, (verb, route): (&str, &Route)) -> Self {
        let mut labels = Self {
            verb: match verb {
                "create" | "post" => "POST",
                "update" | "put" => "PUT",
                "patch" => "PATCH",
                "delete" => "DELETE",
                "deletecollection" => "DELETECOLLECTION",
                "watch" => "WATCH",
                "list" => "LIST",
                _ => "GET",
            },
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            is_dry_run: query.all("dryRun").any(|value| value == "All"),
        };
        let Route::Target(target) = route else {
            // Any other path is the client's invention, and its texts are no labels.
            let path = head.uri.path().trim_end_matches('/');
            if let Some(known) = PAGES.into_iter().find(|page| *page == path) {
                labels.subresource = known.to_owned();
            }
            return labels;
        };
        let resource = &target.resource;
        labels.group.clone_from(&resource.group);
        labels.version.clone_from(&resource.version);
        labels.resource.clone_from(&resource.plural);
        labels.subresource = target.subresource.clone().unwrap_or_default();
        labels.scope = match (&target.name, &target.namespace) {
            _ if verb == "create" => "resource",
            (Some(_), _) => "resource",
            (None, Some(_)) => "namespace",
            (None, None) => "cluster",
        };
        labels
    }
}

/// The requests of a series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Requests that ended, by status code.
    pub(crate) codes: BTreeMap<u16, u64>,
    /// Requests that ended within each bucket's bound, and not within the one before; the last entry
    /// has those that took longer.
    pub(crate) buckets: [u64; BUCKETS.len() + 1],
    /// Sum of their durations.
    pub(crate) total: Duration,
    /// Watches under way.
    pub(crate) running: u64,
}

/// Requests under way except watches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inflight {
    pub(crate) mutating: u64,
    pub(crate) read_only: u64,
}

#[derive(Debug, Default)]
struct Table {
    series: BTreeMap<Labels, Series>,
    inflight: Inflight,
}

impl Table {
    fn series(&mut self, labels: &Labels) -> Option<&mut Series> {
        if !self.series.contains_key(labels) {
            if self.series.len() >= MOST_SERIES {
                return None;
            }
            self.series.insert(labels.clone(), Series::default());
        }
        self.series.get_mut(labels)
    }

    /// Counts a request that begins or ends among those under way.
    fn count(&mut self, labels: &Labels, change: impl Fn(&mut u64)) {
        match labels.verb {
            "WATCH" => {
                if let Some(series) = self.series(labels) {
                    change(&mut series.running);
                }
            }
            "GET" | "LIST" => change(&mut self.inflight.read_only),
            _ => change(&mut self.inflight.mutating),
        }
    }
}

/// The counts of all requests.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    table: Mutex<Table>,
}

impl Metrics {
    /// Begins to measure a request.
    pub(crate) fn begin(self: &Arc<Self>, labels: Labels) -> Measured {
        self.table().count(&labels, |count| *count += 1);
        Measured {
            metrics: self.clone(),
            labels,
            started: clock::instant(),
            code: 0,
        }
    }

    /// Returns every series, by its labels.
    pub(crate) fn series(&self) -> Vec<(Labels, Series)> {
        let table = self.table();
        let series = table.series.iter();
        series
            .map(|(labels, series)| (labels.clone(), series.clone()))
            .collect()
    }

    /// Returns the requests under way.
    pub(crate) fn inflight(&self) -> Inflight {
        self.table().inflight
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way. Dropping it counts the request as ended.
#[derive(Debug)]
pub(crate) struct Measured {
    metrics: Arc<Metrics>,
    labels: Labels,
    started: Instant,
    code: u16,
}

impl Measured {
    pub(crate) fn answered(&mut self, code: u16) {
        self.code = code;
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        let took = clock::instant().saturating_duration_since(self.started);
        let mut table = self.metrics.table();
        table.count(&self.labels, |count| *count = count.saturating_sub(1));
        // A request without a code was dropped before its reply.
        let Some(series) = table.series(&self.labels).filter(|_| self.code != 0) else {
            return;
        };
        *series.codes.entry(self.code).or_default() += 1;
        let is_within = |bound: &u64| took <= Duration::from_millis(*bound);
        let bucket = BUCKETS.iter().position(is_within);
        series.buckets[bucket.unwrap_or(BUCKETS.len())] += 1;
        series.total += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(verb: &'static str, resource: &str) -> Labels {
        Labels {
            verb,
            group: String::new(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            scope: "cluster",
            is_dry_run: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_counts_at_its_end_and_until_then_among_those_under_way() {
        let metrics = Arc::new(Metrics::default());
        let mut list = metrics.begin(labels("LIST", "pods"));
        let mut watch = metrics.begin(labels("WATCH", "pods"));
        let write = metrics.begin(labels("POST", "pods"));
        let inflight = metrics.inflight();
        assert_eq!((inflight.read_only, inflight.mutating), (1, 1));
        let running = |metrics: &Metrics| -> u64 {
            let series = metrics.series();
            series.iter().map(|(_, series)| series.running).sum()
        };
        assert_eq!(running(&metrics), 1);
        tokio::time::advance(Duration::from_millis(30)).await;
        list.answered(200);
        watch.answered(200);
        drop((list, watch, write));
        let inflight = metrics.inflight();
        assert_eq!((inflight.read_only, inflight.mutating), (0, 0));
        assert_eq!(running(&metrics), 0);
        let ended: Vec<(&str, Vec<u64>, Duration)> = metrics
            .series()
            .iter()
            .map(|(labels, series)| {
                let buckets = series.buckets.iter().copied().take(4).collect();
                (labels.verb, buckets, series.total)
            })
            .collect();
        // The write was dropped before it had a code.
        let took = Duration::from_millis(30);
        let none = ("POST", vec![0, 0, 0, 0], Duration::ZERO);
        assert_eq!(
            ended,
            [
                ("LIST", vec![0, 0, 1, 0], took),
                none,
                ("WATCH", vec![0, 0, 1, 0], took),
            ]
        );
    }

    #[test]
    fn series_are_bounded() {
        let metrics = Arc::new(Metrics::default());
        for number in 0..MOST_SERIES + 5 {
            let mut one = metrics.begin(labels("GET", &number.to_string()));
            one.answered(404);
        }
        assert_eq!(metrics.series().len(), MOST_SERIES);
        assert_eq!(metrics.inflight().read_only, 0);
    }
}
