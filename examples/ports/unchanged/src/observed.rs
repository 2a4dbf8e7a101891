//! The metrics of a controller, the time of its last run, and a trace for the harness.
//!
//! ```text
//! Observed::run(object) ─▶ Run ── finish(result) ─▶ runs, failures, duration │ last event │ a line of the trace
//! ```
//!
//! A run is one call of the reconcile function, or of the clean-up. The trace is written only if the
//! environment names a file.
//!
//! Upstream counterpart: `controller-rs:src/metrics.rs`, `controller-rs:src/controller.rs` (`Diagnostics`).

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use jiff::Timestamp;
use kube::{Resource, ResourceExt as _};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use serde_json::{Value, json};

/// The variable with the file of the trace.
const TRACE: &str = "PORTS_TRACE";
/// The upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 8] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0];

/// The metrics and the diagnostics of the controller. Clones share them.
#[derive(Clone, Debug)]
pub struct Observed {
    controller: &'static str,
    runs: Counter,
    failures: Family<Failure, Counter>,
    duration: Histogram,
    last_event: Arc<Mutex<Timestamp>>,
    trace: Option<Arc<File>>,
}

/// The labels of a failure.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failure {
    instance: String,
    error: String,
}

/// A run under way.
#[derive(Debug)]
pub struct Run {
    observed: Observed,
    began: (Instant, Timestamp),
    name: String,
    about: String,
}

impl Observed {
    /// The metrics and the diagnostics of the controller of this name.
    #[must_use]
    pub fn new(controller: &'static str) -> Self {
        let trace = std::env::var_os(TRACE);
        let open = |path| OpenOptions::new().append(true).create(true).open(path);
        Self {
            controller,
            runs: Counter::default(),
            failures: Family::default(),
            duration: Histogram::new(BUCKETS),
            last_event: Arc::new(Mutex::new(Timestamp::now())),
            trace: trace.and_then(|path| open(path).ok()).map(Arc::new),
        }
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("port_reconcile");
        registry.register("runs", "Runs", self.runs.clone());
        registry.register("failures", "Failed runs", self.failures.clone());
        let duration = self.duration.clone();
        registry.register_with_unit("duration", "Durations of runs", Unit::Seconds, duration);
    }

    /// The time of the last run, and the name of the controller.
    #[must_use]
    pub fn diagnostics(&self) -> Value {
        let last = self
            .last_event
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        json!({"last_event": last.to_string(), "reporter": self.controller})
    }

    /// A run for this object begins.
    #[must_use]
    pub fn run(&self, object: &impl Resource<DynamicType = ()>) -> Run {
        let now = Timestamp::now();
        *self
            .last_event
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = now;
        self.runs.inc();
        let version = object.resource_version().unwrap_or_default();
        let generation = object.meta().generation.unwrap_or_default();
        Run {
            observed: self.clone(),
            began: (Instant::now(), now),
            name: object.name_any(),
            about: format!("{} {generation} {version}", object.name_any()),
        }
    }
}

impl Run {
    /// The run ends with this result, which it returns.
    ///
    /// # Errors
    /// That of the result.
    pub fn finish<T, E: Error>(self, result: Result<T, E>) -> Result<T, E> {
        let Self {
            observed,
            began,
            name,
            about,
        } = self;
        observed.duration.observe(began.0.elapsed().as_secs_f64());
        if let Err(error) = &result {
            let error = root_cause(error);
            let failure = Failure {
                instance: name,
                error,
            };
            observed.failures.get_or_create(&failure).inc();
        }
        if let Some(mut trace) = observed.trace.as_deref() {
            let outcome = if result.is_ok() { "ok" } else { "failed" };
            let (began, ended) = (began.1.as_millisecond(), Timestamp::now().as_millisecond());
            let line = format!("{began} {ended} {about} {outcome}\n");
            // One write, so that lines of other threads do not mix with it.
            let _ = trace.write_all(line.as_bytes());
        }
        result
    }
}

/// The text of the error that has no cause.
fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
