//! Samples of the program's counters, taken while somebody looks.
//!
//! ```text
//! look ─▶ counters now ─▶ Sampled { now, two seconds ago, ten seconds ago } ─▶ views
//! ```
//!
//! A sample copies counters, never events. Viewers share it: it is taken once in 400 ms at most.
//! BOUND: seven samples, of the filled buckets of each histogram only; one histogram for each name of a
//! handler.
//!
//! Upstream counterpart: none.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinform::controller::ControllerStats;
use kinform::{Histogram, InformerStats};
use tokio::time::Instant;

use super::numbers::{Buckets, Latency, Rate, buckets};
use super::program::{Cache, Controller, Program};

/// BOUND: a sample is taken at most so often.
const FRESH: Duration = Duration::from_millis(400);
/// The distance of the samples that are kept.
const STEP: Duration = Duration::from_secs(2);
/// BOUND: samples kept; the oldest is ten to twelve seconds old.
const KEPT: usize = 6;
/// A sample that is older tells nothing about now.
const OLD: Duration = Duration::from_secs(15);

/// The counters at one instant.
#[derive(Debug)]
pub(super) struct Sample {
    at: Instant,
    pub(super) caches: Vec<(Cache, CacheSample)>,
    pub(super) controllers: Vec<(Controller, ControllerSample)>,
}

/// The counters of an informer.
#[derive(Debug)]
pub(super) struct CacheSample {
    pub(super) stats: InformerStats,
    /// Of all handlers.
    latency: Buckets,
    /// By name of the handler: among many quick calls, few slow ones do not show in the total.
    handlers: Named,
}

/// Handlers by their names.
type Named = BTreeMap<String, HandlerSample>;

/// The handlers of one name.
#[derive(Debug, Default)]
struct HandlerSample {
    lag: u64,
    latency: Buckets,
}

/// The counters of a controller; the histograms are apart.
#[derive(Debug)]
pub(super) struct ControllerSample {
    pub(super) stats: ControllerStats,
    waited: Buckets,
    took: Buckets,
}

/// The newest sample, and earlier ones to compare it with.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    pub(super) now: Arc<Sample>,
    /// For rates.
    recent: Option<Arc<Sample>>,
    /// For latencies.
    older: Option<Arc<Sample>>,
}

#[derive(Debug, Default)]
pub(super) struct Sampler {
    kept: Mutex<VecDeque<Arc<Sample>>>,
    newest: Mutex<Option<Arc<Sample>>>,
}

impl Sampler {
    /// The counters now.
    pub(super) fn look(&self, program: &Program) -> Sampled {
        let now = self.now(program);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|sample| now.at.duration_since(sample.at) < OLD);
        let recent = kept.iter().rev().find(|sample| sample.at + FRESH <= now.at);
        let sampled = Sampled {
            recent: recent.cloned(),
            older: kept.front().filter(|sample| sample.at < now.at).cloned(),
            now: Arc::clone(&now),
        };
        if kept.back().is_none_or(|last| last.at + STEP <= now.at) {
            if kept.len() >= KEPT {
                kept.pop_front();
            }
            kept.push_back(now);
        }
        sampled
    }

    fn now(&self, program: &Program) -> Arc<Sample> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(fresh) = newest.as_ref().filter(|sample| now < sample.at + FRESH) {
            return Arc::clone(fresh);
        }
        let sample = Arc::new(Sample::take(program, now));
        *newest = Some(Arc::clone(&sample));
        sample
    }

    /// Forgets the samples: nobody looks any more.
    pub(super) fn forget_old(&self) {
        let now = Instant::now();
        let is_fresh = |sample: &Arc<Sample>| now.duration_since(sample.at) < OLD;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.as_ref().is_some_and(|sample| !is_fresh(sample)) {
            *newest = None;
        }
        drop(newest);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(is_fresh);
    }
}

impl Sample {
    fn take(program: &Program, at: Instant) -> Self {
        let cache = |cache: Cache| {
            let mut latency = Histogram::new();
            let mut handlers = Named::new();
            for handler in cache.informer.handlers() {
                latency.merge(&handler.latency);
                let one = handlers.entry(handler.name).or_default();
                one.lag += handler.lag;
                for (end, count) in buckets(&handler.latency) {
                    *one.latency.entry(end).or_default() += count;
                }
            }
            let sample = CacheSample {
                stats: cache.informer.stats(),
                latency: buckets(&latency),
                handlers,
            };
            (cache, sample)
        };
        let controller = |controller: Controller| {
            let mut stats = controller.metrics.snapshot();
            let waited = buckets(&std::mem::take(&mut stats.queue.queue_latency));
            let took = buckets(&std::mem::take(&mut stats.queue.work_duration));
            let sample = ControllerSample {
                stats,
                waited,
                took,
            };
            (controller, sample)
        };
        Self {
            at,
            caches: program.caches().into_iter().map(cache).collect(),
            controllers: (program.controllers)()
                .into_iter()
                .map(controller)
                .collect(),
        }
    }

    fn cache(&self, id: &str) -> Option<&CacheSample> {
        let found = self.caches.iter().find(|(cache, _)| cache.id == id)?;
        Some(&found.1)
    }

    fn controller(&self, name: &str) -> Option<&ControllerSample> {
        let found = self.controllers.iter().find(|(one, _)| one.name == name)?;
        Some(&found.1)
    }
}

/// Compares the counters of one informer with those before.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheFlow<'a> {
    pub(super) stats: &'a InformerStats,
    before: Option<(&'a InformerStats, Duration)>,
    pub(super) latency: Latency,
    sample: &'a CacheSample,
    older: Option<&'a CacheSample>,
}

/// The same of a controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerFlow<'a> {
    pub(super) stats: &'a ControllerStats,
    before: Option<(&'a ControllerStats, Duration)>,
    pub(super) waited: Latency,
    pub(super) took: Latency,
}

impl<'a> CacheFlow<'a> {
    /// The handler with the longest latency at the 99th percentile, and that in milliseconds.
    pub(super) fn slowest(&self) -> Option<(&'a str, f64)> {
        slowest(&self.sample.handlers, self.older.map(|was| &was.handlers))
    }

    /// The rate of a counter.
    pub(super) fn rate(&self, of: impl Fn(&InformerStats) -> u64) -> Rate {
        Rate::new(of(self.stats), self.before.map(|(was, ago)| (of(was), ago)))
    }
}

impl ControllerFlow<'_> {
    /// The rate of a counter.
    pub(super) fn rate(&self, of: impl Fn(&ControllerStats) -> u64) -> Rate {
        Rate::new(of(self.stats), self.before.map(|(was, ago)| (of(was), ago)))
    }
}

impl Sampled {
    /// The time over which rates are taken.
    pub(super) fn window(&self) -> Option<Duration> {
        let recent = self.recent.as_ref()?;
        Some(self.now.at.duration_since(recent.at))
    }

    /// The informers, each with its flow.
    pub(super) fn caches(&self) -> impl Iterator<Item = (&Cache, CacheFlow<'_>)> {
        let window = self.window();
        self.now.caches.iter().map(move |(cache, sample)| {
            let recent = self.recent.as_ref().and_then(|was| was.cache(&cache.id));
            let older = self.older.as_ref().and_then(|was| was.cache(&cache.id));
            let flow = CacheFlow {
                stats: &sample.stats,
                before: recent.map(|was| &was.stats).zip(window),
                latency: Latency::since(&sample.latency, older.map(|was| &was.latency)),
                sample,
                older,
            };
            (cache, flow)
        })
    }

    /// The controllers, each with its flow.
    pub(super) fn controllers(&self) -> impl Iterator<Item = (&Controller, ControllerFlow<'_>)> {
        let window = self.window();
        self.now
            .controllers
            .iter()
            .map(move |(controller, sample)| {
                let name = &controller.name;
                let recent = self.recent.as_ref().and_then(|was| was.controller(name));
                let older = self.older.as_ref().and_then(|was| was.controller(name));
                let flow = ControllerFlow {
                    stats: &sample.stats,
                    before: recent.map(|was| &was.stats).zip(window),
                    waited: Latency::since(&sample.waited, older.map(|was| &was.waited)),
                    took: Latency::since(&sample.took, older.map(|was| &was.took)),
                };
                (controller, flow)
            })
    }
}

/// The name with the longest latency at the 99th percentile since `before`, and that in milliseconds.
///
/// A handler that lags far behind has few samples: without one in the window, all its samples count.
fn slowest<'a>(now: &'a Named, before: Option<&Named>) -> Option<(&'a str, f64)> {
    let latencies = now.iter().filter_map(|(name, now)| {
        let before = before.and_then(|was| was.get(name));
        let before = before.map(|was| &was.latency);
        let mut latency = Latency::since(&now.latency, before);
        if latency.count == 0 && now.lag > 0 {
            latency = Latency::since(&now.latency, None);
        }
        Some((name.as_str(), latency.p99_ms?))
    });
    latencies.max_by(|(_, a), (_, b)| a.total_cmp(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Handlers: name, lag, and a number of measurements of a number of microseconds.
    fn named(all: &[(&str, u64, u64, u64)]) -> Named {
        let one = |&(name, lag, count, micros): &(&str, u64, u64, u64)| {
            let latency = [(micros, count)].into();
            (name.to_owned(), HandlerSample { lag, latency })
        };
        all.iter().map(one).collect()
    }

    #[test]
    fn a_handler_that_is_slow_once_is_found_among_quick_ones() {
        let before = named(&[("quick", 0, 10, 100), ("slow", 0, 3, 2_000_000)]);
        let now = named(&[("quick", 0, 5_000, 100), ("slow", 0, 4, 2_000_000)]);
        assert_eq!(slowest(&now, Some(&before)), Some(("slow", 2_000.0)));
        // It counts for as long as the window only.
        let later = named(&[("quick", 0, 6_000, 100), ("slow", 0, 4, 2_000_000)]);
        assert_eq!(slowest(&later, Some(&now)), Some(("quick", 0.1)));
        assert_eq!(slowest(&later, Some(&later)), None);
    }

    #[test]
    fn a_handler_that_lags_and_was_not_measured_lately_is_as_slow_as_it_was() {
        let now = named(&[("quick", 0, 5_000, 100), ("slow", 40, 4, 2_000_000)]);
        assert_eq!(slowest(&now, Some(&now)), Some(("slow", 2_000.0)));
    }
}
