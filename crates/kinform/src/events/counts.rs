//! The numbers of a recorder.
//!
//! ```text
//! recorder, delivery → Counters (shared) → EventCounts, a copy
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of recorded events. Each event is in one of them once it is no longer queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Events sent to the server in a request of their own.
    pub sent: u64,
    /// Events of a series that were counted, and are sent as one count.
    pub merged: u64,
    /// Events that were dropped: the queue was full, delivery had ended, the object was noisy, or the
    /// server could not be reached.
    pub dropped: u64,
    /// Events that the server refused.
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: Counter,
    pub(super) merged: Counter,
    pub(super) dropped: Counter,
    pub(super) refused: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(super) fn snapshot(&self) -> EventCounts {
        EventCounts {
            sent: self.sent.value(),
            merged: self.merged.value(),
            dropped: self.dropped.value(),
            refused: self.refused.value(),
        }
    }
}
