//! The view *Problems*: what is wrong with the program, and what to do about it.
//!
//! ```text
//! states, quarantine, handlers, queues ─▶ ongoing ─┐
//! reports, warnings of controllers ─────▶ past ────┴▶ Problems, ongoing first, then the newest first
//! ```
//!
//! BOUND: 200 rows, 20 quarantined objects of a cache.
//! Upstream counterpart: none.

use std::time::Duration;

use kinform::controller::Warning;
use kinform::{InformerState, MemoryStep, ObjectKey, ReportEvent};
use serde::{Deserialize, Serialize};

use super::advice::advice;
use super::journal::Noted;
use super::numbers::{Head, ROWS};
use super::program::{Cache, Controller, Program};
use super::queues::sees_key;
use super::sampler::Sampled;
use super::sight::Sight;

/// BOUND: quarantined objects of a cache, and failing keys of a controller, that are named.
const NAMED: usize = 20;
/// A handler that is slower than this at the 99th percentile is a problem.
const SLOW_HANDLER_MS: f64 = 1_000.0;
/// A key that waits or is worked on for longer than this is a problem.
const LONG: Duration = Duration::from_secs(60);
/// Failures in a row that make a key a problem.
const FAILURES: u32 = 5;

/// The problems of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Problems {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The problems: those that go on first, then the newest first.
    pub problems: Vec<Problem>,
    /// Problems that are left out: the caller may not list their type, or there are too many.
    pub hidden: u64,
}

/// One problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Problem {
    /// One word: `forbidden`, `stale`, `quarantined`, `loop`, ... docs/inspector.md lists them.
    pub kind: String,
    /// `error`, `warning` or `info`.
    pub severity: String,
    /// It goes on now.
    pub is_ongoing: bool,
    /// The time at which it was seen, as in RFC 3339; `null` if only its presence is known.
    pub time: Option<String>,
    /// The cache, of a problem of an informer.
    pub cache: Option<String>,
    /// The controller, of a problem of one.
    pub controller: Option<String>,
    /// The namespace of the object.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: Option<String>,
    /// The problem, in one line.
    pub message: String,
    /// The remedy, in one line.
    pub advice: String,
}

/// The view for this caller. `noted` are reports, the newest first.
pub(super) fn problems(
    program: &Program,
    sampled: &Sampled,
    sight: &Sight,
    noted: &[Noted],
) -> Problems {
    let mut list = List {
        sight,
        found: Vec::new(),
        hidden: 0,
    };
    for (cache, flow) in sampled.caches() {
        if sight.sees_cache(cache.informer.resource()) {
            list.of_cache(cache, flow.slowest());
        } else if !cache.informer.state().is_synced() {
            list.hidden += 1;
        }
        for noted in noted.iter().filter(|noted| noted.cache == cache.id) {
            list.of_report(cache, noted);
        }
    }
    for (controller, flow) in sampled.controllers() {
        list.of_queue(controller, flow.stats.queue.longest_running);
        for warning in controller.metrics.warnings() {
            list.of_warning(controller, &warning);
        }
    }
    if let Some(lease) = (program.lease)().filter(|lease| !lease.is_leading) {
        list.add(Problem {
            severity: "info".to_owned(),
            is_ongoing: true,
            message: format!("this replica does not hold the lease {}", lease.name),
            ..of("standby")
        });
    }
    if let Some(usage) = program.factory.memory().filter(|usage| usage.is_over) {
        list.add(Problem {
            is_ongoing: true,
            message: format!("the memory budget cannot be held: {usage}"),
            ..of("memory-over-budget")
        });
    }
    let mut found = list.found;
    found.sort_by(|a, b| {
        let order = |problem: &Problem| (problem.is_ongoing, problem.time.clone());
        order(b).cmp(&order(a))
    });
    let rest = found.split_off(found.len().min(ROWS));
    Problems {
        head: Head::of(&program.name),
        problems: found,
        hidden: list.hidden + rest.len() as u64,
    }
}

/// A problem of this kind, as a warning.
fn of(kind: &str) -> Problem {
    Problem {
        kind: kind.to_owned(),
        severity: "warning".to_owned(),
        advice: advice(kind).to_owned(),
        ..Problem::default()
    }
}

/// A text about an object of this cache, unless it may have a secret in it.
fn shown(cache: &Cache, text: &str) -> String {
    match cache.holds_secrets() {
        true => "(hidden)".to_owned(),
        false => text.to_owned(),
    }
}

struct List<'a> {
    sight: &'a Sight,
    found: Vec<Problem>,
    hidden: u64,
}

impl List<'_> {
    fn add(&mut self, problem: Problem) {
        self.found.push(problem);
    }

    /// Adds a problem of an object of a cache, if the caller may list it.
    fn add_of(&mut self, cache: &Cache, key: Option<&ObjectKey>, problem: Problem) {
        let of = &cache.informer.resource().resource;
        let is_seen = match key {
            Some(key) => self.sight.sees(of, key.namespace()),
            None => self.sight.sees_cache(cache.informer.resource()),
        };
        if !is_seen {
            self.hidden += 1;
            return;
        }
        self.add(Problem {
            cache: Some(cache.id.clone()),
            namespace: key.and_then(ObjectKey::namespace).map(str::to_owned),
            name: key.map(|key| key.name().to_owned()),
            ..problem
        });
    }

    fn of_cache(&mut self, cache: &Cache, slowest: Option<(&str, f64)>) {
        let state = cache.informer.state();
        let kind = match &state {
            InformerState::Forbidden(_) => Some(("forbidden", "error")),
            InformerState::NoSuchKind(_) => Some(("no-such-kind", "error")),
            InformerState::Stale { .. } => Some(("stale", "error")),
            InformerState::Listing { trouble: Some(_) } => Some(("cannot-list", "error")),
            InformerState::Stopped => Some(("stopped", "info")),
            _ => None,
        };
        if let Some((kind, severity)) = kind {
            let time = match &state {
                InformerState::Stale { since, .. } => Some(since.to_string()),
                _ => None,
            };
            let problem = Problem {
                severity: severity.to_owned(),
                is_ongoing: true,
                time,
                message: state.to_string(),
                ..of(kind)
            };
            self.add_of(cache, None, problem);
        }
        for quarantine in cache.informer.quarantined(NAMED) {
            let why = match cache.holds_secrets() {
                true => "it cannot be parsed".to_owned(),
                false => format!("{} at {:?}", quarantine.reason, quarantine.path),
            };
            let problem = Problem {
                severity: "error".to_owned(),
                is_ongoing: true,
                message: format!("the object is quarantined: {why}"),
                ..of("quarantined")
            };
            self.add_of(cache, quarantine.key.as_ref(), problem);
        }
        for handler in cache.informer.handlers() {
            if handler.times_behind > 0 {
                let message = format!(
                    "handler {} fell behind {} times, and received differences instead",
                    handler.name, handler.times_behind
                );
                let problem = of("handler-behind");
                self.add_of(
                    cache,
                    None,
                    Problem {
                        is_ongoing: true,
                        message,
                        ..problem
                    },
                );
            }
        }
        if let Some((name, ms)) = slowest.filter(|(_, ms)| *ms > SLOW_HANDLER_MS) {
            let message =
                format!("handler {name} needs {ms:.0} ms for a change at the 99th percentile");
            let problem = of("slow-handler");
            self.add_of(
                cache,
                None,
                Problem {
                    is_ongoing: true,
                    message,
                    ..problem
                },
            );
        }
    }

    fn of_report(&mut self, cache: &Cache, noted: &Noted) {
        let told = |text: &str| shown(cache, text);
        let (kind, key, message) = match &noted.report.event {
            ReportEvent::Failed(trouble) => ("request-failed", None, trouble.message.clone()),
            ReportEvent::FellBack { reason } => {
                let message = format!("streaming lists are not used: {reason}");
                ("fell-back", None, message)
            }
            ReportEvent::Silent { quiet } => {
                let message = format!("the watch was silent for {quiet:.0?} and was closed");
                ("silent", None, message)
            }
            ReportEvent::ServerWentBack { from, to } => {
                let message = format!("the server's version went back from {from} to {to}");
                ("server-went-back", None, message)
            }
            ReportEvent::DeletionsWithheld { objects } => {
                let message = format!("a list did not name {objects} objects, which are kept");
                ("deletions-withheld", None, message)
            }
            ReportEvent::Mended { key, path } => {
                let message = format!("bytes that are not UTF-8 were replaced at {}", told(path));
                ("mended", Some(key), message)
            }
            ReportEvent::Unindexed { index, key, reason } => {
                let message = format!("the object is not in index {index}: {}", told(reason));
                ("unindexed", Some(key), message)
            }
            ReportEvent::Undecodable { key, reason } => {
                let message = format!("the object does not decode: {}", told(reason));
                ("undecodable", Some(key), message)
            }
            ReportEvent::HandlerPanicked { handler, key } => {
                let message = format!("handler {handler} panicked");
                ("handler-panicked", key.as_ref(), message)
            }
            ReportEvent::Compared {
                divergence: Some(found),
                ..
            } => {
                let message = format!(
                    "the cache was not what the server has: {} missing, {} different, {} extra",
                    found.missing, found.different, found.extra
                );
                ("diverged", None, message)
            }
            ReportEvent::Memory { step, usage } if *step > MemoryStep::Normal && !usage.is_over => {
                let message = format!("to hold the memory budget, {step}: {usage}");
                ("memory-given-up", None, message)
            }
            ReportEvent::SnapshotRefused { reason } => ("cache-not-used", None, told(reason)),
            ReportEvent::SnapshotFailed { reason } => ("cache-not-written", None, told(reason)),
            ReportEvent::StoreFailed { reason, .. } => ("store-failed", None, told(reason)),
            ReportEvent::Lost(reports) => {
                let message = format!("{reports} reports came too quickly, and were lost");
                ("reports-lost", None, message)
            }
            // A quarantine is shown as long as it lasts.
            _ => return,
        };
        self.add_of(
            cache,
            key,
            Problem {
                time: Some(noted.report.time.to_string()),
                message,
                ..of(kind)
            },
        );
    }

    fn of_queue(&mut self, controller: &Controller, longest_running: Duration) {
        let name = || Some(controller.name.clone());
        if longest_running > LONG {
            let message = format!("a reconcile has been running for {longest_running:.0?}");
            let problem = of("slow-reconcile");
            self.add(Problem {
                is_ongoing: true,
                controller: name(),
                message,
                ..problem
            });
        }
        let waiting = controller.metrics.waiting(ROWS);
        if let Some(age) = waiting.first().map(|one| one.waits.age())
            && age > LONG
        {
            let message = format!("a key has been waiting for a worker for {age:.0?}");
            let problem = of("queue-behind");
            self.add(Problem {
                is_ongoing: true,
                controller: name(),
                message,
                ..problem
            });
        }
        let failing = waiting.iter().filter(|one| one.failures >= FAILURES);
        for one in failing.take(NAMED) {
            let key = one.key();
            if !sees_key(self.sight, controller, key) {
                self.hidden += 1;
                continue;
            }
            self.add(Problem {
                is_ongoing: true,
                controller: name(),
                namespace: key.namespace().map(str::to_owned),
                name: Some(key.name().to_owned()),
                message: format!("the key failed {} times in a row", one.failures),
                ..of("failing")
            });
        }
    }

    fn of_warning(&mut self, controller: &Controller, warning: &Warning) {
        if !sees_key(self.sight, controller, &warning.key) {
            self.hidden += 1;
            return;
        }
        let times = warning.times;
        let (kind, what) = match warning.reason {
            "ReconcileLoop" => (
                "loop",
                "reconciles were caused by the controller's own writes",
            ),
            "FieldFight" => ("fight", "times two managers set a field in turns"),
            "HotLoop" => (
                "hot-loop",
                "reconciles in a row asked for the next one at once",
            ),
            "NoopWrites" => (
                "noop-writes",
                "reconciles in a row sent writes that changed nothing",
            ),
            "StaleView" => ("stale-view", "reconciles in a row needed a fresher view"),
            "PermanentError" => (
                "permanent-error",
                "reconcile failed, and is not tried again",
            ),
            "ReconcilePanic" => ("reconcile-panic", "reconcile panicked"),
            "ReconcileTimeout" => ("reconcile-timeout", "reconcile met its deadline"),
            "SlowReconcile" => ("slow-reconcile", "reconcile ran for more than a minute"),
            _ => ("warning", "runs were reported"),
        };
        let mut message = format!("{times} {what}");
        let of_field = warning
            .object
            .as_ref()
            .filter(|(info, key)| self.sight.sees(&info.resource, key.namespace()));
        if let (Some((info, _)), Some(path)) = (of_field, &warning.path) {
            let managers = warning.managers.join(", ");
            message.push_str(&format!(": {path} of {} (managers: {managers})", info.kind));
        }
        self.add(Problem {
            time: Some(warning.time.to_string()),
            controller: Some(controller.name.clone()),
            namespace: warning.key.namespace().map(str::to_owned),
            name: Some(warning.key.name().to_owned()),
            message,
            ..of(kind)
        });
    }
}
