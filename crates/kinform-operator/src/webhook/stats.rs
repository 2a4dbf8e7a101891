//! The counters of each path.
//!
//! ```text
//! call → begin → in flight → code, duration, panic → WebhookStats (a snapshot)
//! ```
//!
//! A call that is dropped (its server was cut) leaves no code, and is in flight no longer.
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/internal/metrics`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kinform::Histogram;

/// The counters of all webhooks of a program.
#[derive(Clone, Debug, Default)]
pub struct WebhookStats {
    /// The counters by path.
    pub paths: BTreeMap<String, PathStats>,
    /// The panics of admission webhooks.
    pub admission_panics: u64,
    /// The panics of conversion webhooks.
    pub conversion_panics: u64,
}

/// The counters of one path.
#[derive(Clone, Debug, Default)]
pub struct PathStats {
    /// The replies by HTTP code. A denial is a 200; 200 and 500 are always there.
    pub replies: BTreeMap<u16, u64>,
    /// The calls under way.
    pub in_flight: u64,
    /// The durations of the calls that were answered.
    pub latency: Histogram,
    /// The panics of the user's code.
    pub panics: u64,
}

/// The counters of one path, which its calls share.
#[derive(Debug)]
pub(super) struct Counters(Mutex<PathStats>);

impl Counters {
    pub(super) fn new() -> Arc<Self> {
        let replies = BTreeMap::from([(200, 0), (500, 0)]);
        Arc::new(Self(Mutex::new(PathStats {
            replies,
            ..PathStats::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, PathStats> {
        // They are numbers: a thread that panicked left them whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn snapshot(&self) -> PathStats {
        self.lock().clone()
    }

    /// Counts a call as in flight until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.lock().in_flight += 1;
        InFlight(self.clone())
    }
}

/// A call under way.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Counters>);

impl InFlight {
    pub(super) fn panicked(&self) {
        self.0.lock().panics += 1;
    }

    pub(super) fn answered(self, code: u16, duration: Duration) {
        let mut stats = self.0.lock();
        *stats.replies.entry(code).or_default() += 1;
        stats.latency.record(duration);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}
