//! The edit: how the one writer makes the next root.
//!
//! ```text
//! Root ──new──▶ Edit: insert, remove, sweep, install, meta ──commit──▶ Root'
//! ```
//!
//! An edit shares everything with the root that it began from and copies a block when it first
//! touches it. Until `commit` nobody sees it; dropping it undoes it. Values of indexes are extracted
//! before anything is written, so that a failing function leaves store and index consistent.
//!
//! An index that is added while the store runs is built from a root, anywhere and at leisure, and
//! then caught up by the difference from that root to the edit.
//!
//! Upstream counterpart: the write half of `client-go:tools/cache/thread_safe_store.go`.
//! Complexity: a write is O(log n) and a few copied blocks for each batch and block touched; keys that came in order are
//! entered into the directory together, by the first write or look-up that needs them there.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinform_api::{KeyRef, ObjectKey, mutant};

use super::diff::same_version;
use super::directory::Entry;
use super::frontier::Frontier;
use super::index::{Index, IndexConflict, IndexData, IndexError, IndexFailure};
use super::radix::WIDTH;
use super::root::{IndexId, Root};
use super::slot_hint::SlotHint;
use super::slots::SlotSet;
use super::state::State;
use crate::delta::Quarantine;
use crate::object::Object;
use crate::object::reduction::{Reduced, Reduction};
use crate::scope::Scope;

// BOUND: failures kept for the report of one batch; all are counted.
const KEPT_FAILURES: usize = 100;

/// The next version of a store, not published yet.
#[derive(Debug)]
pub struct Edit {
    // INVARIANT: its directory lacks exactly what waits at the frontier.
    state: State,
    frontier: Frontier,
    failures: Failures,
}

/// Objects that no index function could place: how many, and the first of them.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// The number of failures.
    pub count: usize,
    /// The first of them.
    pub first: Vec<IndexFailure>,
}

/// Slots that a list has named.
#[derive(Debug, Default)]
pub struct Seen {
    words: Vec<u64>,
    hint: SlotHint,
}

/// A stored object that was marked as seen.
#[derive(Debug, Clone, Copy)]
pub struct Marked<'a> {
    /// The object.
    pub object: &'a Object,
    /// True if it was marked before.
    pub was_seen: bool,
    pub(crate) slot: u32,
}

/// An index built from a root, to be installed.
#[derive(Debug, Clone)]
pub struct BuiltIndex {
    root: Root,
    data: IndexData,
    failures: Failures,
}

impl Edit {
    /// Begins from a root.
    #[must_use]
    pub fn new(root: &Root) -> Self {
        Self {
            state: State::clone(&root.0),
            frontier: Frontier::of(&root.0),
            failures: Failures::default(),
        }
    }

    /// A second edit that begins from what this one holds, with nothing to report yet.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            state: self.state.clone(),
            frontier: self.frontier.clone(),
            failures: Failures::default(),
        }
    }

    /// The object of this key, as it is in this edit. What waits to be entered is entered, if that may be it.
    #[must_use]
    pub fn get(&mut self, key: KeyRef<'_>) -> Option<&Object> {
        self.find(key).map(|(_, object)| object)
    }

    /// The same with its slot.
    pub(crate) fn find(&mut self, key: KeyRef<'_>) -> Option<(u32, &Object)> {
        if self.frontier.is_passed_by(&self.state, key) {
            return None;
        }
        self.settled().object_of(key)
    }

    /// The state with all of its keys in the directory.
    fn settled(&mut self) -> &mut State {
        self.frontier.enter(&mut self.state.keys);
        &mut self.state
    }

    /// Returns the number of objects in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.keys.len() + self.frontier.waiting_len()
    }

    /// Returns whether it holds no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores an object under its key and returns the one that was there.
    pub fn insert(&mut self, object: Object) -> Option<Object> {
        self.insert_as(object, None)
    }

    /// The same, storing its cold twin instead, if there is one: indexes look at the object.
    pub fn insert_as(&mut self, object: Object, cold: Option<Object>) -> Option<Object> {
        let known = self.find(object.key_ref()).map(|(slot, _)| slot);
        self.insert_found(object, cold, known)
    }

    /// The same where [`find`](Self::find) was just asked for the key, and the slot that it told.
    pub(crate) fn insert_found(
        &mut self,
        object: Object,
        cold: Option<Object>,
        known: Option<u32>,
    ) -> Option<Object> {
        self.insert_at(object, cold, known).1
    }

    /// The same where [`mark`](Self::mark) was just asked for the key, and the slot that it told; marks the key as seen.
    pub(crate) fn insert_seen(
        &mut self,
        object: Object,
        cold: Option<Object>,
        known: Option<u32>,
        seen: &mut Seen,
    ) -> Option<Object> {
        let (slot, old) = self.insert_at(object, cold, known);
        seen.mark(slot);
        old
    }

    /// Puts the cold twins of objects in their places, as far as `pack` makes some.
    ///
    /// # Complexity
    /// O(objects).
    pub fn compress(&mut self, mut pack: impl FnMut(&Object) -> Option<Object>) {
        let state = &mut self.state;
        let packed = state.slots.iter();
        let packed: Vec<_> = packed
            .filter_map(|(slot, object)| Some((slot, pack(object)?)))
            .collect();
        for (slot, cold) in packed {
            state.sizes.add(&cold);
            if let Some(old) = state.slots.set(slot, cold) {
                state.sizes.subtract(&old);
            }
        }
    }

    /// Puts other forms of objects in their places, as far as `reform` makes some: of `count` objects, from
    /// the slot `from` on. Returns where to go on; `None` at the end.
    ///
    /// # Complexity
    /// O(count).
    pub fn reform(
        &mut self,
        from: usize,
        count: usize,
        mut reform: impl FnMut(&Object) -> Option<Object>,
    ) -> Option<usize> {
        let state = &mut self.state;
        let (mut next, mut seen) = (from, 0);
        let mut reformed = Vec::new();
        while seen < count {
            let Some((base, block)) = state.slots.leaf_from(next) else {
                next = usize::MAX;
                break;
            };
            for (at, object) in block.iter().enumerate() {
                let Some(object) = object else { continue };
                seen += 1;
                if let Some(other) = reform(object) {
                    reformed.push((base + at, other));
                }
            }
            next = base + WIDTH;
        }
        for (slot, other) in reformed {
            state.sizes.add(&other);
            if let Some(old) = state.slots.set(slot, other) {
                state.sizes.subtract(&old);
            }
        }
        (next != usize::MAX).then_some(next)
    }

    /// All objects in it, in the order of their slots.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.state.slots.iter().map(|(_, object)| object)
    }

    /// The reduced objects in it.
    pub(crate) fn reduced(&self) -> Reduced {
        self.state.sizes.reduced
    }

    /// Says which fields are left of reduced objects.
    pub fn set_reduction(&mut self, reduction: Arc<Reduction>) {
        self.state.reduction = Some(reduction);
    }

    /// Bytes of what is in it: as [`Root::held_size`], and if no object were compressed.
    pub(crate) fn held_sizes(&self) -> (usize, usize) {
        let (sizes, tables) = (self.state.sizes, self.state.tables());
        (sizes.held() + tables, sizes.as_plain().held() + tables)
    }

    fn insert_at(
        &mut self,
        object: Object,
        cold: Option<Object>,
        known: Option<u32>,
    ) -> (u32, Option<Object>) {
        let count = self.len() as u32;
        let Self {
            state,
            frontier,
            failures,
        } = self;
        debug_assert_eq!(
            known,
            frontier.slot_of(state, object.key_ref()),
            "the slot of its key"
        );
        let slot = known.unwrap_or_else(|| state.free.last().unwrap_or(count));
        let was = known.and_then(|slot| state.slots.get(slot as usize));
        for data in &mut state.indexes {
            // A slot's key does not change while it is held.
            if data.is_namespace() && was.is_some() {
                continue;
            }
            let values = data.index.extract(&object).unwrap_or_else(|error| {
                failures.push(&data.index, &object, error);
                Vec::new()
            });
            if mutant!("B31") && values.is_empty() {
                continue;
            }
            data.put(state.seed, slot, &values);
        }
        if known.is_none() {
            state.free.remove(slot);
            let key = object.key_ref();
            let hash = state.seed.hash(key);
            if frontier.is_passed_by(state, key) {
                frontier.advance(Entry { hash, slot }, &mut state.keys);
            } else {
                frontier.give_up();
                state.keys.insert(hash, slot);
            }
        }
        let kept = cold.unwrap_or(object);
        state.sizes.add(&kept);
        let old = state.slots.set(slot as usize, kept);
        if let Some(old) = &old {
            state.sizes.subtract(old);
        }
        (slot, old)
    }

    /// Takes the object of this key away.
    pub fn remove(&mut self, key: KeyRef<'_>) -> Option<Object> {
        let (slot, _) = self.find(key)?;
        self.remove_at(slot)
    }

    fn remove_at(&mut self, slot: u32) -> Option<Object> {
        self.frontier.forget(slot);
        let state = self.settled();
        let old = state.slots.take(slot as usize)?;
        state.keys.remove(state.seed.hash(old.key_ref()), slot);
        for data in &mut state.indexes {
            data.remove(state.seed, slot, &old);
        }
        state.free.insert(slot);
        if state.keys.len() == 0 {
            // Slots are counted from the beginning again.
            state.free = SlotSet::default();
        }
        state.sizes.subtract(&old);
        Some(old)
    }

    /// Marks the stored object of this key as seen.
    pub fn mark<'a>(&'a mut self, key: KeyRef<'_>, seen: &mut Seen) -> Option<Marked<'a>> {
        if self.frontier.is_passed_by(&self.state, key) {
            return None;
        }
        let (slot, object) = seen.hint.find(self.settled(), key)?;
        let was_seen = seen.mark(slot);
        Some(Marked {
            object,
            was_seen,
            slot,
        })
    }

    /// Takes away every object that was not seen, and returns them.
    ///
    /// # Complexity
    /// O(objects).
    pub fn sweep(&mut self, seen: &Seen) -> Vec<Object> {
        let unseen: Vec<u32> = self.unseen(seen).collect();
        unseen
            .into_iter()
            .filter_map(|slot| self.remove_at(slot))
            .collect()
    }

    /// Takes away every object that `keeps` does not accept; returns the number of them.
    ///
    /// # Complexity
    /// O(objects).
    pub fn retain(&mut self, mut keeps: impl FnMut(&Object) -> bool) -> usize {
        let slots = self.state.slots.iter();
        let left = slots.filter(|(_, object)| !keeps(object));
        let left: Vec<u32> = left.map(|(slot, _)| slot as u32).collect();
        let count = left.len();
        for slot in left {
            self.remove_at(slot);
        }
        count
    }

    #[cfg(test)]
    pub(super) fn waiting_len(&self) -> usize {
        self.frontier.waiting_len()
    }

    /// Returns the number of objects that were not seen.
    #[must_use]
    pub fn count_unseen(&self, seen: &Seen) -> usize {
        self.unseen(seen).count()
    }

    fn unseen(&self, seen: &Seen) -> impl Iterator<Item = u32> {
        let slots = self.state.slots.iter().map(|(slot, _)| slot as u32);
        slots.filter(|slot| !seen.has(*slot))
    }

    /// Installs a built index, caught up to this edit.
    ///
    /// # Errors
    /// There is an index of that name.
    ///
    /// # Complexity
    /// O(what changed since the root that it was built from).
    pub fn install(&mut self, built: BuiltIndex) -> Result<IndexId, IndexConflict> {
        let BuiltIndex {
            root,
            mut data,
            failures,
        } = built;
        let state = &mut self.state;
        if let Some(taken) = state
            .indexes
            .iter()
            .find(|d| d.index.name() == data.index.name())
        {
            return Err(IndexConflict {
                name: taken.index.name().into(),
            });
        }
        self.failures.absorb(failures);
        let mut next = 0;
        while let Some((base, old, new)) = root.0.slots.differing_from(&state.slots, next) {
            for at in 0..WIDTH {
                let slot = (base + at) as u32;
                let old = old.and_then(|leaf| leaf[at].as_ref());
                let new = new.and_then(|leaf| leaf[at].as_ref());
                match (old, new) {
                    (Some(old), Some(new)) if is_indexed_as(old, new) => {}
                    (old, Some(new)) => {
                        if let Some(old) = old {
                            // The slot may have changed hands.
                            data.remove(state.seed, slot, old);
                        }
                        fill(&mut data, state, slot, new, &mut self.failures);
                    }
                    (Some(old), None) => data.remove(state.seed, slot, old),
                    (None, None) => {}
                }
            }
            next = base + WIDTH;
        }
        state.indexes.push(data);
        Ok(IndexId(state.indexes.len() - 1))
    }

    /// Returns the objects that no index function could place since the last call.
    pub fn take_failures(&mut self) -> Failures {
        std::mem::take(&mut self.failures)
    }

    /// The version of the server that the edit reaches.
    #[must_use]
    pub fn version(&self) -> &Arc<str> {
        &self.state.version
    }

    /// Says which version of the server the edit reaches.
    pub fn reach(&mut self, version: &str) {
        if *self.state.version != *version {
            self.state.version = version.into();
        }
    }

    /// Says that the server went back in time.
    pub fn begin_epoch(&mut self) {
        self.state.epoch += 1;
    }

    /// The part of the resource that is here whole.
    #[must_use]
    pub fn scope(&self) -> Option<&Arc<Scope>> {
        self.state.scope.as_ref()
    }

    /// Says which part of the resource is here whole.
    pub fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        self.state.scope = scope;
    }

    /// Says that the objects are those of a snapshot.
    pub fn mark_restored(&mut self) {
        self.state.restored = true;
    }

    /// Returns whether the objects are those of a snapshot that nothing has confirmed.
    pub(crate) fn is_unconfirmed(&self) -> bool {
        self.state.restored && !self.state.synced
    }

    /// Says that a whole list is stored.
    pub fn mark_synced(&mut self) {
        self.state.synced = true;
    }

    /// The keys whose newest version cannot be read.
    #[must_use]
    pub fn quarantined(&self) -> &BTreeMap<ObjectKey, Quarantine> {
        &self.state.quarantined
    }

    /// The same, to be changed.
    pub fn quarantined_mut(&mut self) -> &mut BTreeMap<ObjectKey, Quarantine> {
        Arc::make_mut(&mut self.state.quarantined)
    }

    /// The next root; `position` is the first position of the ring whose changes are not in it.
    #[must_use]
    pub fn commit(mut self, position: u64) -> Root {
        debug_assert!(self.state.position <= position, "the ring went back");
        self.settled().position = position;
        Root(Arc::new(self.state))
    }
}

impl BuiltIndex {
    /// Builds an index over all objects of a root.
    ///
    /// # Complexity
    /// One extraction an object: run it beside the writer, not in it.
    #[must_use]
    pub fn build(root: Root, index: Index) -> Self {
        let mut data = IndexData::new(index);
        let mut failures = Failures::default();
        for (slot, object) in root.0.slots.iter() {
            fill(&mut data, &root.0, slot as u32, object, &mut failures);
        }
        Self {
            root,
            data,
            failures,
        }
    }
}

impl Failures {
    fn push(&mut self, index: &Index, object: &Object, error: IndexError) {
        self.count += 1;
        if self.first.len() < KEPT_FAILURES {
            self.first.push(IndexFailure {
                index: index.name().into(),
                key: object.key(),
                version: object.resource_version().to_owned(),
                error,
            });
        }
    }

    fn absorb(&mut self, other: Self) {
        self.count += other.count;
        let room = KEPT_FAILURES.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(room));
    }
}

impl Seen {
    /// Returns whether it was marked before.
    fn mark(&mut self, slot: u32) -> bool {
        let word = slot as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let was_seen = self.has(slot);
        self.words[word] |= 1 << (slot % 64);
        was_seen
    }

    fn has(&self, slot: u32) -> bool {
        self.words
            .get(slot as usize / 64)
            .is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }
}

/// Returns whether what an index has of one form of an object is right for the other: all fields were there
/// when it was extracted.
fn is_indexed_as(old: &Object, new: &Object) -> bool {
    let is_twin = new.is_reduced() && !old.is_reduced();
    old.ptr_eq(new) || (is_twin && old.key_ref() == new.key_ref() && same_version(old, new))
}

fn fill(data: &mut IndexData, state: &State, slot: u32, object: &Object, failures: &mut Failures) {
    let is_there = match &state.reduction {
        Some(reduction) if object.is_reduced() => data.index.reads_only(reduction),
        _ => true,
    };
    if !is_there {
        let reason = "its fields were given up to hold the memory budget";
        return failures.push(&data.index, object, IndexError(reason.to_owned()));
    }
    match data.index.extract(&object.thawed()) {
        Ok(values) => data.put(state.seed, slot, &values),
        Err(error) => failures.push(&data.index, object, error),
    }
}
