//! The counters of a controller, readable from outside while it runs.
//!
//! ```text
//! workers → Counters (atomics) → ControllerMetrics::snapshot() → ControllerStats
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/internal/controller/metrics` (names at the
//! fields).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinform_api::ObjectKey;
use kinform_core::queue::{QueueStats, Running, Waiting};

use super::causes::{Causes, History, RecentRun, WaitingKey};
use super::warnings::{Warning, Warnings};
use crate::source::ResourceInfo;
use crate::workqueue::WorkQueue;

/// A counter that many add to.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        // A number for people: it orders nothing.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) succeeded: Counter,
    pub(super) requeued: Counter,
    pub(super) failed: Counter,
    pub(super) panics: Counter,
    pub(super) timeouts: Counter,
    pub(super) gone: Counter,
    pub(super) undecodable: Counter,
    pub(super) parked: Counter,
    pub(super) elsewhere: Counter,
    pub(super) permanent: Counter,
    pub(super) conflicts: Counter,
    pub(super) throttled: Counter,
    pub(super) slow: Counter,
    pub(super) stale: Counter,
    pub(super) noop_writes: Counter,
    pub(super) elided: Counter,
    pub(super) loops: Counter,
    pub(super) fights: Counter,
    pub(super) hot: Counter,
    pub(super) history: History,
    pub(super) warnings: Warnings,
}

/// Reads a controller's numbers, before, during and after its run.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    pub(super) counters: Arc<Counters>,
    pub(super) queue: WorkQueue<ObjectKey>,
    /// The resources that it hears; the first is the one that is reconciled.
    pub(super) sources: Arc<[ResourceInfo]>,
}

/// A controller's numbers at one instant.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ControllerStats {
    /// Reconciles that ended well (`controller_runtime_reconcile_total{result="success"}`, without
    /// `requeued`).
    pub succeeded: u64,
    /// Those of them that asked for another run (`..{result="requeue_after"}`).
    pub requeued: u64,
    /// Reconciles that failed, panics and deadlines included (`..{result="error"}`).
    pub failed: u64,
    /// Those that panicked (`controller_runtime_reconcile_panics_total`).
    pub panics: u64,
    /// Those that met their deadline (`controller_runtime_reconcile_timeouts_total`).
    pub timeouts: u64,
    /// Keys whose object was gone, without a function for deleted objects.
    pub gone: u64,
    /// Keys whose object did not decode.
    pub undecodable: u64,
    /// Failures that are not retried (`controller_runtime_terminal_reconcile_errors_total`).
    pub permanent: u64,
    /// Runs that met a conflict (409) and were tried again quickly. They are no failures.
    pub conflicts: u64,
    /// Runs that the server throttled (429), tried again when it asked. They are no failures.
    pub throttled: u64,
    /// Runs that needed a fresher view ([`Ctx::require_fresh`](super::Ctx::require_fresh)), tried
    /// again after a second. They are no failures.
    pub stale: u64,
    /// Writes that changed nothing: the object has the version that it had before.
    pub noop_writes: u64,
    /// Applies that were not sent, since they would change nothing.
    pub elided: u64,
    /// Runs that took more than a minute, or do so now. Each is named in the log once.
    pub slow: u64,
    /// Keys whose runs started each other by their own writes, which repeated. Each is reported once.
    pub loops: u64,
    /// Keys with a field that this controller and another writer set by turns. Each is reported once.
    pub fights: u64,
    /// Runs that asked for the next one at once and wrote nothing. Ten in a row are reported.
    pub hot: u64,
    /// Times that a key was parked, since a cache had not seen its writes.
    pub parked: u64,
    /// Keys that were dropped since their shard is another replica's, also in the middle of a run.
    pub elsewhere: u64,
    /// The queue's numbers; its work duration is that of reconciles.
    pub queue: QueueStats,
}

impl ControllerStats {
    /// All reconciles that ended.
    #[must_use]
    pub fn reconciles(&self) -> u64 {
        self.succeeded + self.failed + self.conflicts + self.throttled + self.stale
    }
}

impl ControllerMetrics {
    /// The last runs, 1,024 at most, the oldest first: what was reconciled, why, and how it ended.
    #[must_use]
    pub fn recent_runs(&self) -> Vec<RecentRun> {
        self.counters.history.read()
    }

    /// The resources that it hears; the first is the one that is reconciled.
    #[must_use]
    pub fn resources(&self) -> &[ResourceInfo] {
        &self.sources
    }

    /// The keys that wait for a worker, the oldest first, then those that wait for their time, each
    /// with its causes so far. At most `limit`.
    ///
    /// # Complexity
    /// A pass over the keys in flight, under the lock of the queue.
    #[must_use]
    pub fn waiting(&self, limit: usize) -> Vec<WaitingKey> {
        let waiting = self.queue.waiting(limit).into_iter();
        waiting.map(|one| self.waiting_key(one)).collect()
    }

    /// The same, of one key; `None` if it does not wait.
    #[must_use]
    pub fn waiting_for(&self, key: &ObjectKey) -> Option<WaitingKey> {
        let waiting = self.queue.waiting_for(key)?;
        Some(self.waiting_key(waiting))
    }

    fn waiting_key(&self, waiting: Waiting<ObjectKey>) -> WaitingKey {
        let now = self.queue.env().now();
        WaitingKey {
            waits: waiting.waits,
            priority: waiting.priority,
            failures: waiting.failures,
            causes: Causes::so_far(waiting, &self.sources, now),
        }
    }

    /// The keys that workers have, the longest held first.
    #[must_use]
    pub fn running(&self) -> Vec<Running<ObjectKey>> {
        self.queue.running()
    }

    /// The last loops, fights and signs of trouble that were reported, 64 at most, the oldest first.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warning> {
        self.counters.warnings.read()
    }

    /// The numbers now.
    #[must_use]
    pub fn snapshot(&self) -> ControllerStats {
        ControllerStats {
            // Read first: it is never more than those that succeeded.
            requeued: self.counters.requeued.read(),
            succeeded: self.counters.succeeded.read(),
            failed: self.counters.failed.read(),
            panics: self.counters.panics.read(),
            timeouts: self.counters.timeouts.read(),
            gone: self.counters.gone.read(),
            undecodable: self.counters.undecodable.read(),
            parked: self.counters.parked.read(),
            elsewhere: self.counters.elsewhere.read(),
            permanent: self.counters.permanent.read(),
            conflicts: self.counters.conflicts.read(),
            throttled: self.counters.throttled.read(),
            slow: self.counters.slow.read(),
            stale: self.counters.stale.read(),
            loops: self.counters.loops.read(),
            fights: self.counters.fights.read(),
            hot: self.counters.hot.read(),
            noop_writes: self.counters.noop_writes.read(),
            elided: self.counters.elided.read(),
            queue: self.queue.stats(),
        }
    }
}
