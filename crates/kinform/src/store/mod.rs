//! Reading a cache: snapshots, listings, indexes.
//!
//! ```text
//! Store (follows the informer) → Snapshot (stands still) → Listing → ObjRef<K> → Obj<K>, to keep
//!   └── at(version) ──▶ Snapshot of a state that is over; changes_to another one → Differences
//! ```
//!
//! A [`Store`] answers from the newest root at each call. A [`Snapshot`] is one moment: several
//! reads from it fit together. A [`Listing`] owns its objects; iterating it decodes nothing.
//! With several namespaces there is one root for each, every one consistent in itself.
//! No read waits for the writer. A read of an index, a selection by labels and a page in order
//! take a mutex for the time of a look-up; other reads take none.
//! INVARIANT: read handles keep no task running and stay readable after the informer stopped.
//!
//! Upstream counterpart: `client-go:tools/cache/store.go` (`Store`, `Indexer`).

mod listing;
mod past;
mod select;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kinform_api::selector::LabelSelector;
use kinform_api::{KeyRef, ObjectKey};
use kinform_core::object::Object;
use kinform_core::store::index::{Index as CoreIndex, NAMESPACE};
use kinform_core::store::root::Root;

use self::listing::Part;
pub use self::listing::{Handles, Listing, Objects};
pub use self::past::Differences;
use crate::error::{Error, ErrorKind};
use crate::index_key::IndexKey;
use crate::informer::{Cores, Informer, Member};
use crate::object::{Lens, Obj};

/// A cache that follows its informer; cheap to clone.
#[doc(alias = "Indexer")]
pub struct Store<K> {
    cores: Cores,
    lens: Arc<Lens>,
    of: PhantomData<fn() -> K>,
}

/// A cache at one moment; cheap to clone. It keeps that moment's objects alive.
pub struct Snapshot<K> {
    // In the order of the informer's namespaces.
    roots: Arc<[Root]>,
    // INVARIANT: the watches whose roots these are, one for one.
    members: Arc<Vec<Member>>,
    cores: Cores,
    lens: Arc<Lens>,
    of: PhantomData<fn() -> K>,
}

impl<K> Informer<K> {
    /// The cache, readable at any time.
    pub fn store(&self) -> Store<K> {
        Store::new(self.cores().clone(), self.lens())
    }

    /// The cache as it is now.
    pub fn snapshot(&self) -> Snapshot<K> {
        self.store().snapshot()
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        // Without a `Store`, which clones two shared handles that this read does not need.
        let object = self.cores().get(key.key_ref())?;
        Some(Obj::new(object, self.lens()))
    }

    /// All objects.
    pub fn list(&self) -> Listing<K> {
        self.store().list()
    }
}

impl<K> Store<K> {
    pub(crate) fn new(cores: Cores, lens: &Arc<Lens>) -> Self {
        Self {
            cores,
            lens: Arc::clone(lens),
            of: PhantomData,
        }
    }

    /// The cache as it is now.
    pub fn snapshot(&self) -> Snapshot<K> {
        let members = self.cores.members();
        Snapshot {
            roots: members.iter().map(|member| member.core.root()).collect(),
            members: Arc::clone(&members),
            cores: self.cores.clone(),
            lens: Arc::clone(&self.lens),
            of: PhantomData,
        }
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.get_ref(key.key_ref())
    }

    /// The same for a borrowed key.
    pub fn get_ref(&self, key: KeyRef<'_>) -> Option<Obj<K>> {
        let object = self.cores.get(key)?;
        Some(Obj::new(object, &self.lens))
    }

    /// All objects.
    pub fn list(&self) -> Listing<K> {
        self.snapshot().list()
    }

    /// All objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Listing<K> {
        self.snapshot().in_namespace(namespace)
    }

    /// The objects under `value` of the index `name`.
    ///
    /// # Errors
    /// There is no index of that name.
    #[doc(alias = "ByIndex")]
    pub fn by_index(&self, name: &str, value: impl AsRef<[u8]>) -> Result<Listing<K>, Error> {
        self.snapshot().by_index(name, value)
    }

    /// The objects whose labels `selector` selects; see [`Snapshot::matching`].
    pub fn matching(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        self.snapshot().matching(selector)
    }

    /// Up to `limit` objects in the order of their keys; see [`Snapshot::page`].
    pub fn page(&self, after: Option<&ObjectKey>, limit: usize) -> Vec<Obj<K>> {
        self.snapshot().page(after, limit)
    }

    /// Up to `limit` objects of a namespace whose names begin with a prefix; see
    /// [`Snapshot::page_with_prefix`].
    pub fn page_with_prefix(
        &self,
        prefix: KeyRef<'_>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Vec<Obj<K>> {
        self.snapshot().page_with_prefix(prefix, after, limit)
    }

    /// Returns the number of stored objects.
    pub fn len(&self) -> usize {
        let members = self.cores.members();
        members.iter().map(|member| member.core.root().len()).sum()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<K> Snapshot<K> {
    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        let key = key.key_ref();
        let object = self.roots.iter().find_map(|root| root.get(key))?;
        Some(Obj::new(object.clone(), &self.lens))
    }

    /// All objects.
    pub fn list(&self) -> Listing<K> {
        self.listing(|root| Part::View(root.list()))
    }

    /// All objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Listing<K> {
        self.listing(|root| Part::View(root.in_namespace(namespace)))
    }

    /// The objects under `value` of the index `name`.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(&self, name: &str, value: impl AsRef<[u8]>) -> Result<Listing<K>, Error> {
        let value = value.as_ref();
        let index = self.definition(name)?;
        Ok(self.listing(|root| match root.index(name) {
            Ok(id) => Part::View(root.by(id, value)),
            Err(_) => Part::Found(look_for(root, &index, value)),
        }))
    }

    /// The values of the index `name` that have objects, in order, each with the number of its
    /// objects.
    ///
    /// # Errors
    /// There is no index of that name.
    #[doc(alias = "ListIndexFuncValues")]
    pub fn index_values(&self, name: &str) -> Result<BTreeMap<IndexKey, usize>, Error> {
        let index = self.definition(name)?;
        let mut values = BTreeMap::new();
        let mut count = |value: Arc<[u8]>, objects: usize| {
            *values.entry(IndexKey::new(value)).or_default() += objects;
        };
        for root in &*self.roots {
            match root.index(name) {
                Ok(id) => root
                    .index_values(id)
                    .for_each(|(value, objects)| count(Arc::clone(value), objects)),
                Err(_) => {
                    for object in &root.list() {
                        let object = object.thawed();
                        let values = index.extract(&object).unwrap_or_default();
                        values
                            .into_iter()
                            .for_each(|value| count((&*value).into(), 1));
                    }
                }
            }
        }
        Ok(values)
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.roots.iter().map(Root::len).sum()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version of each namespace's part; one part if all namespaces come in one watch.
    pub fn versions(&self) -> impl Iterator<Item = &str> {
        self.roots.iter().map(|root| &**root.version())
    }

    /// Returns whether it includes the first list of every part.
    pub fn has_synced(&self) -> bool {
        self.roots.iter().all(Root::has_synced)
    }

    /// The root that would hold an object of this key.
    pub(crate) fn root_of(&self, key: KeyRef<'_>) -> Option<&Root> {
        let mut parts = self.members.iter().zip(&*self.roots);
        parts
            .find(|(member, _)| member.core.may_hold(key))
            .map(|(_, root)| root)
    }

    /// A handle of an object that need not be stored.
    pub(crate) fn obj(&self, object: &Object) -> Obj<K> {
        Obj::new(object.clone(), &self.lens)
    }

    pub(crate) fn definition(&self, name: &str) -> Result<CoreIndex, Error> {
        if name == NAMESPACE {
            return Ok(CoreIndex::namespace());
        }
        self.cores.definition(name).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("there is no index named {name:?}"),
            )
        })
    }

    fn listing(&self, part: impl Fn(&Root) -> Part) -> Listing<K> {
        Listing {
            parts: self.roots.iter().map(part).collect(),
            lens: Arc::clone(&self.lens),
            of: PhantomData,
        }
    }
}

fn look_for(root: &Root, index: &CoreIndex, value: &[u8]) -> Vec<Object> {
    let has_value = |object: &&Object| {
        let object = object.thawed();
        let values = index.extract(&object).unwrap_or_default();
        values.iter().any(|has| **has == *value)
    };
    root.list().iter().filter(has_value).cloned().collect()
}

/// Reads one index.
pub struct IndexReader<K> {
    store: Store<K>,
    name: Arc<str>,
}

impl<K> IndexReader<K> {
    pub(crate) fn new(store: Store<K>, name: &str) -> Self {
        Self {
            store,
            name: name.into(),
        }
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects under `value`.
    pub fn get(&self, value: impl AsRef<[u8]>) -> Listing<K> {
        let snapshot = self.store.snapshot();
        // A definition never goes away: there is no other error.
        let listing = snapshot.by_index(&self.name, value);
        listing.unwrap_or_else(|_| snapshot.listing(|_| Part::Found(Vec::new())))
    }

    /// The values that have objects, in order, each with the number of its objects.
    pub fn values(&self) -> BTreeMap<IndexKey, usize> {
        let snapshot = self.store.snapshot();
        snapshot.index_values(&self.name).unwrap_or_default()
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self::new(self.cores.clone(), &self.lens)
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self {
            roots: Arc::clone(&self.roots),
            members: Arc::clone(&self.members),
            cores: self.cores.clone(),
            lens: Arc::clone(&self.lens),
            of: PhantomData,
        }
    }
}

impl<K> Clone for IndexReader<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            name: Arc::clone(&self.name),
        }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("roots", &self.roots)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for IndexReader<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexReader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
