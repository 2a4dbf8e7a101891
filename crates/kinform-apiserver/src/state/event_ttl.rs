//! The times at which events end.
//!
//! ```text
//! set(key, time) ──▶ times in order ──due(now)──▶ keys that end
//! ```
//!
//! Upstream: `apiserver:pkg/storage/etcd3/lease_manager.go`.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// The end of each stored event.
#[derive(Debug, Default)]
pub(crate) struct EventTtl(Mutex<Ends>);

// BOUND: an entry for each stored event.
#[derive(Debug, Default)]
struct Ends {
    // INVARIANT: the same entries as in `of`.
    in_order: BTreeSet<(Timestamp, Box<str>)>,
    of: HashMap<Box<str>, Timestamp>,
}

impl EventTtl {
    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the end of an event; with `None`, the event is gone.
    pub(crate) fn set(&self, key: &str, end: Option<Timestamp>) {
        let mut ends = self.lock();
        if let Some(before) = ends.of.remove(key) {
            ends.in_order.remove(&(before, key.into()));
        }
        if let Some(end) = end {
            ends.of.insert(key.into(), end);
            ends.in_order.insert((end, key.into()));
        }
    }

    /// Returns whether an event has an end.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lock().of.contains_key(key)
    }

    /// Removes and returns the keys whose end has come.
    pub(crate) fn due(&self, now: Timestamp) -> Vec<Box<str>> {
        let ends = &mut *self.lock();
        let mut due = Vec::new();
        while ends.in_order.first().is_some_and(|(end, _)| *end <= now) {
            let Some((_, key)) = ends.in_order.pop_first() else {
                break;
            };
            ends.of.remove(&key);
            due.push(key);
        }
        due
    }
}
