//! The conflicts of a key's last runs: each gets a quick retry, but not for ever.
//!
//! ```text
//! 409 → Conflicts → the delay of a quick retry | enough: a failure
//! ```
//!
//! BOUND: a number for each key whose last run met a conflict; other keys have no entry.
//!
//! Upstream counterpart: none: a conflict is an ordinary failure there.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kinform_api::ObjectKey;

use crate::sync::lock;

/// BOUND: quick retries after conflicts in a row; then a conflict is a failure.
const QUICK: u32 = 5;
/// The delay of the first quick retry; each further one has twice the delay.
const QUICK_DELAY: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Conflicts {
    of: Mutex<HashMap<ObjectKey, u32>>,
    // The number of keys: most controllers never have one, and then never take the lock.
    number: AtomicUsize,
}

impl Conflicts {
    /// A run met a conflict. Returns the delay of a quick retry, unless there were enough.
    pub(super) fn met(&self, key: &ObjectKey) -> Option<Duration> {
        let mut of = lock(&self.of);
        let conflicts = of.entry(key.clone()).or_default();
        *conflicts += 1;
        let delay = (*conflicts <= QUICK).then(|| QUICK_DELAY * 2u32.pow(*conflicts - 1));
        self.number.store(of.len(), Ordering::Release);
        delay
    }

    /// Forgets all keys.
    pub(super) fn clear(&self) {
        let mut of = lock(&self.of);
        of.clear();
        self.number.store(0, Ordering::Release);
    }

    /// A run ended without a conflict, or the object is gone.
    pub(super) fn none(&self, key: &ObjectKey) {
        // A key's conflicts are counted by the one worker that has it.
        if self.number.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut of = lock(&self.of);
        of.remove(key);
        self.number.store(of.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_get_five_quick_retries_in_a_row() {
        let (conflicts, key) = (Conflicts::default(), ObjectKey::new(None, "x"));
        for _ in 0..2 {
            let delays: Vec<_> = (0..6).map(|_| conflicts.met(&key)).collect();
            let quick = [10, 20, 40, 80, 160].map(|ms| Some(Duration::from_millis(ms)));
            assert_eq!((&delays[..5], delays[5]), (&quick[..], None));
            conflicts.none(&key);
        }
        assert_eq!(conflicts.number.load(Ordering::Acquire), 0);
    }
}
