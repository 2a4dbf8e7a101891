//! A key in the hands of a worker.
//!
//! ```text
//! get().await → Item → settle(verdict) | settle_and_get(verdict) → Get | dropped = failed
//! ```
//!
//! Upstream counterpart: `client-go:util/workqueue` (`Done`, `Forget`, `AddRateLimited`), which a
//! worker that panics never calls.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use kinform_core::causes::{Cause, Causes, Reasons};
use kinform_core::queue::{Next, Priority, Taken, Ticket, Verdict};

use super::{Get, WorkQueue};

/// A key that was handed out. Dropped without a verdict, it counts as failed and is retried.
pub struct Item<K: Eq + Hash + Clone> {
    // `None` once it was settled.
    held: Option<(WorkQueue<K>, Ticket)>,
    key: K,
    priority: Priority,
    failures: u32,
    waited: Duration,
    reasons: Reasons,
    causes: Option<Box<Causes>>,
}

impl<K: Eq + Hash + Clone> Item<K> {
    pub(super) fn new(queue: WorkQueue<K>, taken: Taken<K>) -> Self {
        Self {
            held: Some((queue, taken.ticket)),
            key: taken.key,
            priority: taken.priority,
            failures: taken.failures,
            waited: taken.waited,
            reasons: taken.reasons,
            causes: taken.causes,
        }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The lane that the key waited in. Retried, it waits in the same.
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// The number of failures in a row before this attempt.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The time that the key waited for a worker.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Takes the causes that were stated, and the reasons of the queue.
    pub(crate) fn take_causes(&mut self) -> (Option<Box<Causes>>, Reasons) {
        (self.causes.take(), self.reasons)
    }

    /// Takes back the adds since the hand-out, if `is_moot` holds for the causes of all.
    pub(crate) fn retract(&self, is_moot: impl FnMut(&Cause) -> bool) {
        if let Some((queue, ticket)) = &self.held {
            queue.change(|queue| queue.retract(ticket, is_moot));
        }
    }

    /// Settles the key.
    pub fn settle(mut self, verdict: Verdict) -> Next {
        match self.held.take() {
            Some((queue, ticket)) => queue.settle(ticket, verdict),
            None => Next::Nothing,
        }
    }

    /// Settles the key and waits for the next one, as [`settle`](Self::settle) and
    /// [`WorkQueue::get`] do one after the other, but under one lock. The key is settled when the
    /// future is first polled, or dropped.
    ///
    /// # Cancel safety
    /// As of [`WorkQueue::get`]; the key is settled in any case.
    pub fn settle_and_get(mut self, verdict: Verdict) -> Get<K> {
        let (queue, ticket) = self.held.take().unzip();
        Get::new(queue, ticket.map(|ticket| (ticket, verdict)))
    }
}

impl<K: Eq + Hash + Clone> Drop for Item<K> {
    fn drop(&mut self) {
        if let Some((queue, ticket)) = self.held.take() {
            queue.settle(ticket, Verdict::Retry);
        }
    }
}

impl<K: Eq + Hash + Clone + fmt::Debug> fmt::Debug for Item<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, failures, .. } = self;
        f.debug_struct("Item")
            .field("key", key)
            .field("failures", failures)
            .finish_non_exhaustive()
    }
}
