//! The frontier of a first list: keys that come in order are new without being looked for.
//!
//! ```text
//! key ──behind the greatest key stored?──▶ new: its hash and slot wait ──many at once──▶ directory
//!                       └── no ──▶ those that wait are entered, and the directory is asked
//! ```
//!
//! A server lists in the order of the paths that it stores objects under. While an edit that began empty is filled
//! in that order, a key behind the greatest one cannot be there. So it is not looked for, and its entry waits
//! for others: entered in the order of their hashes, neighbours go to one shard, where each by itself would wait for
//! memory that a large directory has nowhere near.
//!
//! INVARIANT: no key of the edit comes behind the greatest one; those that wait stand in order; a slot waits or is in
//! the directory, never both.
//! Upstream counterpart: none.

use kinform_api::KeyRef;

use super::directory::{Directory, Entry};
use super::state::State;

/// BOUND: entries that wait, of eight bytes each. Entering them takes some milliseconds, and longer where shards are
/// split, as entering one may.
const MAX_WAITING: usize = 1 << 16;

/// The end of what an edit holds, in the order of keys, and what waits to be entered.
#[derive(Debug, Clone)]
pub(super) struct Frontier {
    greatest: Greatest,
    waiting: Vec<Entry>,
}

/// The object with the greatest key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greatest {
    /// Nobody knows which it is.
    Unknown,
    /// There is no object.
    None,
    /// It is in this slot.
    At(u32),
}

impl Frontier {
    pub(super) fn of(state: &State) -> Self {
        let greatest = match state.keys.len() {
            0 => Greatest::None,
            _ => Greatest::Unknown,
        };
        Self {
            greatest,
            waiting: Vec::new(),
        }
    }

    /// Returns whether a key comes behind all stored keys.
    pub(super) fn is_passed_by(&self, state: &State, key: KeyRef<'_>) -> bool {
        match self.greatest {
            Greatest::Unknown => false,
            Greatest::None => true,
            Greatest::At(slot) => {
                let greatest = state.slots.get(slot as usize);
                greatest.is_some_and(|object| object.is_listed_before(key))
            }
        }
    }

    /// The slot of this key, whether it is in the directory or waits; for assertions: it enters nothing.
    pub(super) fn slot_of(&self, state: &State, key: KeyRef<'_>) -> Option<u32> {
        let object_at = |entry: &Entry| state.slots.get(entry.slot as usize);
        let at = self
            .waiting
            .partition_point(|entry| object_at(entry).is_some_and(|o| o.is_listed_before(key)));
        let waiting = self.waiting.get(at);
        let found = waiting.filter(|entry| object_at(entry).is_some_and(|o| o.has_key(key)));
        found.map(|entry| entry.slot).or_else(|| state.slot_of(key))
    }

    /// A key that passes the frontier is stored in this slot: it waits, and is the greatest one.
    pub(super) fn advance(&mut self, entry: Entry, keys: &mut Directory) {
        self.greatest = Greatest::At(entry.slot);
        self.waiting.push(entry);
        if self.waiting.len() >= MAX_WAITING {
            self.enter(keys);
        }
    }

    /// New keys do not come in order: comparing them would be in vain.
    pub(super) fn give_up(&mut self) {
        self.greatest = Greatest::Unknown;
    }

    /// Notes that the object in this slot is about to be removed, after all waiting keys are
    /// entered.
    pub(super) fn forget(&mut self, slot: u32) {
        if self.greatest == Greatest::At(slot) {
            self.greatest = Greatest::Unknown;
        }
    }

    /// Enters those that wait into the directory.
    pub(super) fn enter(&mut self, keys: &mut Directory) {
        if !self.waiting.is_empty() {
            keys.extend(&mut self.waiting);
        }
    }

    /// Returns the number of keys that wait.
    pub(super) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kinform_api::ObjectKey;
    use proptest::prelude::*;

    use crate::object::Object;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::{Edit, Seen};
    use crate::store::root::Root;

    fn object(namespace: &str, name: &str, version: usize) -> Object {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","resourceVersion":"{version}"}}}}"#
        );
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    /// Every key has its newest version, and no others are there.
    fn check(root: &Root, model: &BTreeMap<ObjectKey, usize>) {
        assert_eq!(root.len(), model.len());
        for (key, version) in model {
            let found = root.get(key.key_ref()).map(Object::revision);
            assert_eq!(found, Some(Some(*version as u64)), "{key}");
        }
        let listed = root.list();
        assert_eq!(listed.iter().count(), model.len());
        assert!(
            listed
                .iter()
                .all(|object| model.contains_key(&object.key()))
        );
    }

    #[derive(Debug, Clone)]
    enum Do {
        /// Puts the key this number of places behind the last one.
        Ahead(usize),
        Put(usize),
        Remove(usize),
        Get(usize),
        Commit,
        Fork,
    }

    // Namespaces of which one begins as another one does: paths are not in the order of pairs then.
    fn key(number: usize) -> (&'static str, String) {
        (["a-b", "a", "ab"][number / 40 % 3], format!("n{number:03}"))
    }

    fn step() -> impl Strategy<Value = Do> {
        prop_oneof![
            12 => (1..4_usize).prop_map(Do::Ahead),
            3 => (0..120_usize).prop_map(Do::Put),
            2 => (0..120_usize).prop_map(Do::Remove),
            2 => (0..120_usize).prop_map(Do::Get),
            1 => Just(Do::Commit),
            1 => Just(Do::Fork),
        ]
    }

    proptest! {
        #[test]
        fn in_whatever_order_keys_come_each_is_there_once(steps in prop::collection::vec(step(), 0..150)) {
            let mut edit = Edit::new(&Root::empty(Seed(3)));
            let (mut model, mut next) = (BTreeMap::new(), 0);
            for (version, step) in steps.into_iter().enumerate() {
                let mut put = |edit: &mut Edit, number: usize| {
                    let (namespace, name) = key(number);
                    let object = object(namespace, &name, version);
                    let was = model.insert(object.key(), version);
                    let old = edit.insert(object);
                    assert_eq!(old.and_then(|old| old.revision()), was.map(|was| was as u64));
                };
                match step {
                    Do::Ahead(by) => {
                        next = (next + by) % 120;
                        put(&mut edit, next);
                    }
                    Do::Put(number) => put(&mut edit, number),
                    Do::Remove(number) => {
                        let (namespace, name) = key(number);
                        let key = ObjectKey::new(Some(namespace), &name);
                        let was = model.remove(&key);
                        let old = edit.remove(key.key_ref());
                        prop_assert_eq!(old.and_then(|old| old.revision()), was.map(|was| was as u64));
                    }
                    Do::Get(number) => {
                        let (namespace, name) = key(number);
                        let key = ObjectKey::new(Some(namespace), &name);
                        let found = edit.get(key.key_ref()).and_then(Object::revision);
                        prop_assert_eq!(found, model.get(&key).map(|version| *version as u64));
                    }
                    Do::Commit => {
                        let root = edit.commit(0);
                        check(&root, &model);
                        edit = Edit::new(&root);
                    }
                    Do::Fork => check(&edit.fork().commit(0), &model),
                }
                prop_assert_eq!(edit.len(), model.len());
            }
            check(&edit.commit(0), &model);
        }
    }

    #[test]
    fn a_list_longer_than_what_may_wait_is_all_there() {
        let size = super::MAX_WAITING + super::MAX_WAITING / 2;
        let mut edit = Edit::new(&Root::empty(Seed(3)));
        let mut seen = Seen::default();
        for number in 0..size {
            let object = object("s", &format!("n{number:06}"), number);
            assert!(edit.mark(object.key_ref(), &mut seen).is_none());
            edit.insert_seen(object, None, None, &mut seen);
            assert!(edit.waiting_len() < super::MAX_WAITING);
        }
        assert_eq!(edit.count_unseen(&seen), 0);
        let root = edit.commit(0);
        for number in (0..size).step_by(97) {
            let name = format!("n{number:06}");
            let found = root.get(ObjectKey::new(Some("s"), &name).key_ref());
            assert_eq!(found.and_then(Object::revision), Some(number as u64));
        }
    }

    #[test]
    fn what_waits_is_found_when_it_is_said_again() {
        let mut edit = Edit::new(&Root::empty(Seed(3)));
        for name in ["a", "b", "c"] {
            edit.insert(object("s", name, 1));
        }
        assert_eq!(edit.waiting_len(), 3);
        // The greatest one again, and one before it.
        for name in ["c", "a"] {
            let old = edit.insert(object("s", name, 2));
            assert_eq!(old.and_then(|old| old.revision()), Some(1), "{name}");
        }
        assert_eq!((edit.len(), edit.waiting_len()), (3, 0));
    }
}
