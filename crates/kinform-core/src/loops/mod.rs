//! Reconciles that start themselves, and controllers that fight over a field.
//!
//! ```text
//! own write of a key ─▶ wrote ──three in a minute──▶ followed: changes of its objects are compared
//! run begins, run ends ─▶ began, ended ─▶ Finding: a loop or a fight, once a key
//! ```
//!
//! A loop is ten runs in a minute that only own writes caused, that wrote again, and whose writes
//! repeat: the same fields became the same values, times not counted. So a reconcile that goes on step
//! by step is none, however many steps it has. A fight is one field that this controller and another
//! writer set in turns, five times, each always to its own value.
//! Never: a clock, an API; the caller compares objects only while a key is followed.
//! BOUND: 4,096 keys; of more, the one that was least recently written for leaves.
//!
//! Upstream counterpart: none (`openshift/hypershift#543` has one of its own).
//!
//! Complexity: O(log keys) a write, O(1) a run; O(fields of the last 12 changes) while a key is followed.

pub mod difference;
mod entry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kinform_api::{ObjectKey, mutant};

use self::difference::Difference;
use self::entry::Entry;
use crate::causes::Origin;
use crate::time::Instant;

/// BOUND: keys that are known.
const KEYS: usize = 4096;
/// The time in which writes and runs count.
const WINDOW: Duration = Duration::from_secs(60);
/// Own writes in that time after which a key is followed: a fight writes every other run.
const FOLLOWED_AT: usize = 2;
/// Runs of a loop before it is reported.
const RUNS: usize = 10;
/// Changes of one field by turns before they are a fight.
const FLIPS: usize = 5;

/// A change of an object that concerns a key.
#[derive(Clone, Debug)]
pub struct Change {
    /// The place of the object's source among those of the controller.
    pub source: u16,
    /// The object.
    pub object: ObjectKey,
    /// The version that the change made.
    pub version: u64,
    /// The writer, if it is known yet.
    pub origin: Origin,
    /// The fields.
    pub difference: Difference,
}

/// The mistake that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs that start each other by their own writes.
    Loop,
    /// Two writers that set one field by turns.
    Fight,
}

/// A finding about a key; there is one of each kind at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The mistake.
    pub kind: Kind,
    /// The place of the source of the object.
    pub source: u16,
    /// The object that is written.
    pub object: ObjectKey,
    /// The field, such as `status.lastSeen`.
    pub path: String,
    /// Runs of a loop, changes of a fight.
    pub times: usize,
}

/// The keys that a controller wrote for lately.
#[derive(Debug, Default)]
pub struct Loops {
    keys: HashMap<ObjectKey, Entry>,
    /// The keys by the number of their last write.
    by_use: BTreeMap<u64, ObjectKey>,
    uses: u64,
    followed: usize,
}

impl Loops {
    /// A run of `key` wrote something.
    pub fn wrote(&mut self, key: &ObjectKey, now: Instant) {
        self.uses += 1;
        let (uses, entry) = (self.uses, self.keys.entry(key.clone()).or_default());
        let before = std::mem::replace(&mut entry.last_use, uses);
        self.by_use.remove(&before);
        self.by_use.insert(uses, key.clone());
        let was = entry.is_followed;
        entry.wrote(now);
        match (was, entry.is_followed) {
            (false, true) => self.followed += 1,
            (true, false) => self.followed -= 1,
            _ => {}
        }
        if self.keys.len() > KEYS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.remove(&oldest);
        }
    }

    /// Returns whether any key is followed.
    #[must_use]
    pub fn follow_some(&self) -> bool {
        self.followed > 0
    }

    /// Returns whether changes that concern this key are to be compared.
    #[must_use]
    pub fn follows(&self, key: &ObjectKey) -> bool {
        self.keys.get(key).is_some_and(|entry| entry.is_followed)
    }

    /// Records a change that concerns a key that is followed.
    pub fn changed(&mut self, key: &ObjectKey, change: Change) {
        let entry = self.keys.get_mut(key).filter(|entry| entry.is_followed);
        if let Some(entry) = entry {
            entry.changed(change);
        }
    }

    /// A run of `key` begins. `origin` names the writers of changes that are not known yet.
    pub fn began(
        &mut self,
        key: &ObjectKey,
        origin: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        let entry = self.keys.get_mut(key)?;
        entry.has_written = false;
        entry.name(origin);
        entry.fight()
    }

    /// A run of `key` ended, which own writes alone have caused, if `is_own`.
    pub fn ended(
        &mut self,
        key: &ObjectKey,
        is_own: bool,
        now: Instant,
        origin: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        let entry = self.keys.get_mut(key)?;
        let was = entry.is_followed;
        if is_own && (entry.has_written || mutant!("Q6")) {
            entry.runs.add(now);
        }
        entry.name(origin);
        let found = entry.looping(now);
        entry.calm_down(now);
        self.followed -= usize::from(was && !entry.is_followed);
        found
    }

    /// The number of keys that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether no key is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn remove(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.keys.remove(key) {
            self.followed -= usize::from(entry.is_followed);
        }
    }
}
