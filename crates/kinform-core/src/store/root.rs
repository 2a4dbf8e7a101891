//! The root: one immutable version of a store, with its indexes.
//!
//! ```text
//! key ──directory──▶ slot ──radix──▶ object        value ──index──▶ slots ──radix──▶ objects
//! ```
//!
//! A clone is one counter. A root never changes, so whatever is asked of it, and of every view made
//! from it, is the state at one version of the server. Holding a root keeps its objects alive.
//!
//! Upstream counterpart: `client-go:tools/cache/store.go` (`Store`, `Indexer`), whose reads are
//! locked one by one and so never form a snapshot.
//! Complexity: `get` is O(1); listings cost nothing until they are walked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kinform_api::{KeyRef, ObjectKey};

use super::directory::{Directory, Seed};
use super::index::{Index, IndexData, NAMESPACE};
use super::radix::{Radix, WIDTH};
use super::slot_hint::SlotHint;
use super::slots::SlotSet;
use super::state::State;
use super::weight::Sizes;
use crate::delta::Quarantine;
use crate::object::Object;
use crate::object::reduction::{Reduced, Reduction};
use crate::scope::Scope;

/// One version of a store; cheap to clone.
///
/// # Order guarantees
/// Listings are in order of slots, neither sorted nor that of arrival: an object keeps its place while
/// it lives, and a new one may take the place of one that is gone. Upstream's order is random.
#[derive(Clone)]
pub struct Root(pub(super) Arc<State>);

/// Names an index of one store: its place among the indexes, the same in all later roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexId(pub(super) usize);

/// There is no index of this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIndex {
    /// The name that was asked for.
    pub name: String,
}

impl Root {
    /// An empty store with the namespace index, at no version, not synced.
    #[must_use]
    pub fn empty(seed: Seed) -> Self {
        Self(Arc::new(State {
            slots: Radix::default(),
            keys: Directory::default(),
            free: SlotSet::default(),
            indexes: vec![IndexData::new(Index::namespace())],
            seed,
            sizes: Sizes::default(),
            version: "".into(),
            synced: false,
            restored: false,
            position: 0,
            epoch: 0,
            scope: None,
            reduction: None,
            quarantined: Arc::default(),
        }))
    }

    /// An empty store of the same scope.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = Self::empty(self.0.seed);
        let state = Arc::get_mut(&mut empty.0);
        state
            .expect("it was made here")
            .scope
            .clone_from(&self.0.scope);
        empty
    }

    /// Returns the number of stored objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.keys.len()
    }

    /// Returns whether no object is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The object of this key.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.0.object_of(key).map(|(_, object)| object)
    }

    /// The object of this key, looked for first where the hint points: for readers that ask for
    /// many keys in about the order in which they were stored, as a relist does.
    #[must_use]
    pub fn get_with_hint(&self, key: KeyRef<'_>, hint: &mut SlotHint) -> Option<&Object> {
        hint.find(&self.0, key).map(|(_, object)| object)
    }

    /// The index of a name.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn index(&self, name: &str) -> Result<IndexId, UnknownIndex> {
        let at = self
            .0
            .indexes
            .iter()
            .position(|data| data.index.name() == name);
        at.map(IndexId).ok_or_else(|| UnknownIndex {
            name: name.to_owned(),
        })
    }

    /// The definitions of all indexes; the first is that of namespaces.
    pub fn indexes(&self) -> impl Iterator<Item = &Index> {
        self.0.indexes.iter().map(|data| &data.index)
    }

    /// The values of an index that have objects, with the number of objects; not sorted.
    ///
    /// Upstream: `ListIndexFuncValues`.
    pub fn index_values(&self, index: IndexId) -> impl Iterator<Item = (&Arc<[u8]>, usize)> {
        self.0
            .indexes
            .get(index.0)
            .into_iter()
            .flat_map(IndexData::values)
    }

    /// Returns the number of an index's values that have objects.
    #[must_use]
    pub fn index_len(&self, index: IndexId) -> usize {
        self.0.indexes.get(index.0).map_or(0, IndexData::len)
    }

    /// The version up to which everything said by the server is in here; empty before the first.
    ///
    /// Upstream: `LastSyncResourceVersion`.
    #[must_use]
    pub fn version(&self) -> &Arc<str> {
        &self.0.version
    }

    /// Returns the number of times that the server went back, as far as its lists showed it:
    /// versions of one epoch have no order with those of another.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Returns whether a complete list has been stored.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.0.synced
    }

    /// The part of the resource that is stored whole; `None` if that is all of it. An object outside of
    /// it is not stored, whether or not the server has it.
    #[must_use]
    pub fn scope(&self) -> Option<&Arc<Scope>> {
        self.0.scope.as_ref()
    }

    /// Returns whether its first objects came from a snapshot instead of a list. Until it
    /// [has synced](Self::has_synced), they may be older than what the server has.
    #[must_use]
    pub fn is_restored(&self) -> bool {
        self.0.restored
    }

    /// Bytes on the heap of the stored objects, what they decode into not counted.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.0.sizes.heap
    }

    /// The size that [`heap_size`](Self::heap_size) would have if no object were compressed.
    #[must_use]
    pub fn plain_size(&self) -> usize {
        self.0.sizes.plain
    }

    /// Bytes that the objects and the tables of the store take from the system: with indexes and what an
    /// allocator adds to each allocation; an estimate.
    ///
    /// # Complexity
    /// O(indexes).
    #[must_use]
    pub fn held_size(&self) -> usize {
        self.0.sizes.held() + self.0.tables()
    }

    /// Of these, bytes of the tables.
    pub(crate) fn tables_size(&self) -> usize {
        self.0.tables()
    }

    /// The size that [`held_size`](Self::held_size) would have if no object were compressed.
    #[must_use]
    pub fn plain_held_size(&self) -> usize {
        self.0.sizes.as_plain().held() + self.0.tables()
    }

    /// The reduced objects: their number and their bytes.
    #[must_use]
    pub fn reduced(&self) -> Reduced {
        self.0.sizes.reduced
    }

    /// The fields that are left of reduced objects; `None` if the store never reduces any.
    #[must_use]
    pub fn reduction(&self) -> Option<&Arc<Reduction>> {
        self.0.reduction.as_ref()
    }

    /// The first position of the ring whose changes are not in here.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.0.position
    }

    /// Keys whose newest version cannot be read: what is stored under them, if anything, is older.
    #[must_use]
    pub fn quarantined(&self) -> &BTreeMap<ObjectKey, Quarantine> {
        &self.0.quarantined
    }

    /// All objects, in the order of their slots.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.0.slots.iter().map(|(_, object)| object)
    }

    pub(crate) fn seed(&self) -> Seed {
        self.0.seed
    }

    /// Appends whole blocks of objects from slot `from` on until there are at least `enough`;
    /// returns where to go on, or nothing at the end.
    pub(crate) fn walk_into(
        &self,
        from: usize,
        out: &mut Vec<Object>,
        enough: usize,
    ) -> Option<usize> {
        let mut next = from;
        while out.len() < enough {
            let (base, block) = self.0.slots.leaf_from(next)?;
            out.extend(block.iter().flatten().cloned());
            next = base + WIDTH;
        }
        Some(next)
    }

    /// Returns whether both are the very same version.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Root")
            .field("len", &self.len())
            .field("version", &self.version())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for UnknownIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no index named {}; every store has {NAMESPACE}",
            self.name
        )
    }
}

impl std::error::Error for UnknownIndex {}
