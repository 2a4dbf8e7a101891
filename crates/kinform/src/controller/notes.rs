//! The memory of a key from one run to the next: its wake-up, its conflicts.
//!
//! ```text
//! Action::wake_at → Notes ──each end of a run──▶ the time left, until a run begins after it
//! 409 → Notes → the number of quick retries
//! ```
//!
//! The queue has one entry a key, so an event takes the place of a delayed run. A wake-up is kept
//! here instead and set anew at the end of each run, so no event loses it.
//!
//! BOUND: one note for each key with a wake-up to come or a conflict in its last run; none for
//! others.
//! Upstream counterpart: none: `RequeueAfter` is lost by an event in between.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kinform_api::{ObjectKey, mutant};
use kinform_core::time::Instant;

use crate::sync::lock;

/// BOUND: quick retries after conflicts in a row; then a conflict is a failure.
const QUICK: u32 = 5;
/// The delay of the first quick retry; each further one has twice the delay.
const QUICK_DELAY: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Notes {
    of: Mutex<HashMap<ObjectKey, Note>>,
    // The number of notes: most controllers never have one, and then never take the lock.
    number: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Note {
    wake_at: Option<Instant>,
    conflicts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrNew {
    Yes,
    No,
}

impl Notes {
    /// A run of the key begins: a wake-up that is due has happened.
    pub(super) fn begin(&self, key: &ObjectKey, now: Instant) {
        self.change(key, OrNew::No, |note| {
            note.wake_at = note.wake_at.filter(|at| *at > now);
        });
    }

    /// A run ended that asks for a wake-up, instead of an earlier one.
    pub(super) fn wake_at(&self, key: &ObjectKey, at: Instant) {
        self.change(key, OrNew::Yes, |note| note.wake_at = Some(at));
    }

    /// The time until the key's wake-up.
    pub(super) fn wakes_in(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let at = self.change(key, OrNew::No, |note| note.wake_at)??;
        if mutant!("K19") {
            self.forget(key);
        }
        Some(at.since(now))
    }

    /// A run met a conflict. Returns the delay of a quick retry, unless there were enough.
    pub(super) fn conflict(&self, key: &ObjectKey) -> Option<Duration> {
        let conflicts = self.change(key, OrNew::Yes, |note| {
            note.conflicts += 1;
            note.conflicts
        })?;
        (conflicts <= QUICK).then(|| QUICK_DELAY * 2u32.pow(conflicts - 1))
    }

    /// A run ended without a conflict.
    pub(super) fn no_conflict(&self, key: &ObjectKey) {
        self.change(key, OrNew::No, |note| note.conflicts = 0);
    }

    /// The object is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.change(key, OrNew::No, |note| *note = Note::default());
    }

    /// Changes a note, and drops one that says nothing.
    fn change<T>(
        &self,
        key: &ObjectKey,
        or_new: OrNew,
        change: impl FnOnce(&mut Note) -> T,
    ) -> Option<T> {
        // A key's notes are written by the one worker that has it.
        if or_new == OrNew::No && self.number.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut of = lock(&self.of);
        if or_new == OrNew::Yes && !of.contains_key(key) {
            of.insert(key.clone(), Note::default());
        }
        let note = of.get_mut(key)?;
        let changed = change(note);
        if *note == Note::default() {
            of.remove(key);
        }
        self.number.store(of.len(), Ordering::Release);
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1000 * seconds)
    }

    #[test]
    fn a_wake_up_is_kept_until_a_run_begins_after_it() {
        let (notes, key) = (Notes::default(), ObjectKey::new(None, "x"));
        assert_eq!(notes.wakes_in(&key, at(0)), None);
        notes.wake_at(&key, at(60));
        notes.begin(&key, at(20));
        assert_eq!(notes.wakes_in(&key, at(20)), Some(Duration::from_secs(40)));
        notes.wake_at(&key, at(90));
        notes.begin(&key, at(60));
        assert_eq!(notes.wakes_in(&key, at(60)), Some(Duration::from_secs(30)));
        notes.begin(&key, at(90));
        assert_eq!(notes.wakes_in(&key, at(90)), None);
        assert_eq!(
            lock(&notes.of).len(),
            0,
            "a note that says nothing is dropped"
        );
    }

    #[test]
    fn conflicts_get_five_quick_retries_in_a_row() {
        let (notes, key) = (Notes::default(), ObjectKey::new(None, "x"));
        for _ in 0..2 {
            let delays: Vec<_> = (0..6).map(|_| notes.conflict(&key)).collect();
            let quick = [10, 20, 40, 80, 160].map(|ms| Some(Duration::from_millis(ms)));
            assert_eq!((&delays[..5], delays[5]), (&quick[..], None));
            notes.no_conflict(&key);
        }
        notes.conflict(&key);
        notes.forget(&key);
        assert_eq!(notes.number.load(Ordering::Acquire), 0);
    }
}
