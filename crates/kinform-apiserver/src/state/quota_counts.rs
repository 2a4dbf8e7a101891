//! Namespaces whose quotas are to be counted, and usage that is reserved but not stored yet.
//!
//! ```text
//! object gone, quota written ─▶ namespace to count ─▶ counted, with the usage that is reserved but not stored
//! reservation ends ─▶ counted again, if a count met it
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::object::quantity::Quantity;

type Amounts = BTreeMap<String, Quantity>;

/// The namespaces whose quotas are to be counted, and the reservations in flight.
#[derive(Debug, Default)]
pub(crate) struct QuotaCounts {
    inner: Mutex<Inner>,
    woken: Notify,
}

// BOUND: names of namespaces that have quotas; reservations of requests in flight.
#[derive(Debug, Default)]
struct Inner {
    to_count: BTreeSet<String>,
    /// Namespaces that are counted again when a reservation ends.
    met: BTreeSet<String>,
    is_running: bool,
    /// Usage of each quota, by its key, that is reserved and perhaps not stored yet.
    reserved: BTreeMap<String, Vec<Amounts>>,
}

/// The next thing to do of the task that counts.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Count(String),
    /// Nothing until a reservation ends.
    Wait,
    End,
}

impl QuotaCounts {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the quotas of a namespace are to be counted. Returns whether a task must begin.
    pub(crate) fn mark(&self, namespace: &str) -> bool {
        let mut inner = self.lock();
        inner.to_count.insert(namespace.to_owned());
        self.woken.notify_one();
        !std::mem::replace(&mut inner.is_running, true)
    }

    /// Ends the task that was to begin.
    pub(crate) fn rest(&self) {
        self.lock().is_running = false;
    }

    /// Returns the next thing to do; the task ends with [`Next::End`].
    pub(crate) fn next(&self) -> Next {
        let mut inner = self.lock();
        match inner.to_count.pop_first() {
            Some(namespace) => Next::Count(namespace),
            None if !inner.met.is_empty() => Next::Wait,
            None => {
                inner.is_running = false;
                Next::End
            }
        }
    }

    /// Waits for a namespace to count.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Notes usage that is about to be reserved in a quota.
    pub(crate) fn reserve(&self, quota: &str, usage: &Amounts) {
        let mut inner = self.lock();
        let all = inner.reserved.entry(quota.to_owned()).or_default();
        all.push(usage.clone());
    }

    /// Forgets usage whose object is stored, or that was given back.
    pub(crate) fn release(&self, quota: &str, usage: &Amounts) {
        let mut inner = self.lock();
        if let Some(all) = inner.reserved.get_mut(quota) {
            if let Some(at) = all.iter().position(|one| one == usage) {
                all.swap_remove(at);
            }
            if all.is_empty() {
                inner.reserved.remove(quota);
            }
        }
        let namespace = quota.split('/').next().unwrap_or_default();
        if inner.met.remove(namespace) {
            inner.to_count.insert(namespace.to_owned());
            self.woken.notify_one();
        }
    }

    /// Returns the usage of a quota that is reserved and perhaps not stored yet. A count that meets
    /// some is done again when it ends.
    pub(crate) fn meet(&self, quota: &str) -> Vec<Amounts> {
        let mut inner = self.lock();
        let Some(all) = inner.reserved.get(quota).cloned() else {
            return Vec::new();
        };
        let namespace = quota.split('/').next().unwrap_or_default();
        inner.met.insert(namespace.to_owned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_met_a_reservation_is_done_again() {
        let counts = QuotaCounts::default();
        let usage = Amounts::from([("pods".to_owned(), Quantity::units(1))]);
        counts.reserve("a/q", &usage);
        assert!(counts.mark("a") && !counts.mark("a"));
        assert_eq!(counts.next(), Next::Count("a".to_owned()));
        assert_eq!(counts.meet("a/q"), std::slice::from_ref(&usage));
        assert_eq!(counts.next(), Next::Wait);
        counts.release("a/q", &usage);
        assert_eq!(counts.next(), Next::Count("a".to_owned()));
        assert!(counts.meet("a/q").is_empty());
        assert_eq!(counts.next(), Next::End);
        assert!(counts.mark("a"));
    }
}
