//! Index functions, and the index itself: from a value to the slots of its objects.
//!
//! ```text
//! object ──Index::extract──▶ values ──▶ value id ──▶ members (sorted slots)
//!                                          ▲ slot ──▶ its value ids
//! ```
//!
//! An index is a function of what is stored, and of nothing else: after each write it equals one
//! built from scratch. Values are extracted before anything is written; a function that fails or
//! panics leaves its object stored, under no value of that index, and reported. A value without
//! members is removed. An update that keeps the values of its object writes nothing here.
//!
//! Upstream counterpart: `client-go:tools/cache/index.go` and the indices of
//! `client-go:tools/cache/thread_safe_store.go`.
//! Complexity: a write is O(values that change); a look-up is O(1).

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kinform_api::FieldPath;
use kinform_api::ObjectKey;

use super::directory::{Directory, Seed};
use super::radix::Radix;
use super::slots::SlotSet;
use crate::object::Object;
use crate::object::reduction::Reduction;

/// The name of the index that every store has.
pub const NAMESPACE: &str = "namespace";

// BOUND: values of one object in one index; a hostile object must not fill the index.
const MAX_VALUES: usize = 1024;
// BOUND: bytes of one value, which is copied out of its object.
const MAX_VALUE_BYTES: usize = 8 * 1024;

/// A function that names the values of an object: any bytes.
pub type IndexFunction = dyn Fn(&Object) -> Result<Vec<Vec<u8>>, IndexError> + Send + Sync;

/// A named way to find objects by something that they say.
///
/// Upstream: an entry of `Indexers`, a name and an `IndexFunc`.
#[derive(Clone)]
pub struct Index {
    name: Arc<str>,
    extract: Extract,
}

#[derive(Clone)]
enum Extract {
    Namespace,
    Path(Arc<FieldPath>),
    Label(Arc<str>),
    Owner,
    Function(Arc<IndexFunction>),
}

/// Why an object has no place in an index: one line, never content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexError(pub String);

/// An object that is stored, but under no value of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexFailure {
    /// The index.
    pub index: Arc<str>,
    /// The object.
    pub key: ObjectKey,
    /// Its version.
    pub version: String,
    /// Why.
    pub error: IndexError,
}

/// Two indexes of one store with one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexConflict {
    /// The name.
    pub name: Arc<str>,
}

impl Index {
    /// By namespace; objects of the cluster are under the empty value. Every store has it.
    #[must_use]
    pub fn namespace() -> Self {
        Self {
            name: NAMESPACE.into(),
            extract: Extract::Namespace,
        }
    }

    /// By the scalars at a path, under the path's own text as name.
    #[must_use]
    pub fn path(path: FieldPath) -> Self {
        Self {
            name: path.to_string().into(),
            extract: Extract::Path(Arc::new(path)),
        }
    }

    /// By the value of a label, under the name `label:KEY`.
    #[must_use]
    pub fn label(key: &str) -> Self {
        Self {
            name: format!("label:{key}").into(),
            extract: Extract::Label(key.into()),
        }
    }

    /// By the uid of each owner, under the name `owner`.
    #[must_use]
    pub fn owner() -> Self {
        Self {
            name: "owner".into(),
            extract: Extract::Owner,
        }
    }

    /// By the values that a function names. It runs in the task that writes, once for each new
    /// version of an object, and its panic is that object's failure.
    #[must_use]
    pub fn function(name: &str, function: Arc<IndexFunction>) -> Self {
        Self {
            name: name.into(),
            extract: Extract::Function(function),
        }
    }

    /// The same index under another name.
    #[must_use]
    pub fn with_name(self, name: &str) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// The name that it is asked for by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether it reads nothing of objects but what this reduction leaves of them.
    #[must_use]
    pub fn reads_only(&self, reduction: &Reduction) -> bool {
        match &self.extract {
            Extract::Namespace | Extract::Label(_) | Extract::Owner => true,
            Extract::Path(path) => reduction.has(path),
            Extract::Function(_) => false,
        }
    }

    /// The values of an object, sorted, each once.
    ///
    /// # Errors
    /// The function failed or panicked, or there are too many values, or too long ones.
    pub fn extract<'a>(&self, object: &'a Object) -> Result<Vec<Cow<'a, [u8]>>, IndexError> {
        let mut values: Vec<Cow<'a, [u8]>> = match &self.extract {
            Extract::Namespace => vec![object.key_ref().namespace.as_bytes().into()],
            Extract::Path(path) => object.at(path).into_iter().map(bytes_of).collect(),
            Extract::Label(key) => object.label(key).into_iter().map(bytes_of).collect(),
            Extract::Owner => object
                .owner_references()
                .into_iter()
                .map(|owner| Cow::Owned(owner.uid.into_bytes()))
                .collect(),
            Extract::Function(function) => call(&**function, object)?,
        };
        if values.len() > 1 {
            values.sort_unstable();
            values.dedup();
        }
        if values.len() > MAX_VALUES {
            return Err(IndexError(format!(
                "{} values, at most {MAX_VALUES}",
                values.len()
            )));
        }
        match values.iter().map(|value| value.len()).max() {
            Some(longest) if longest > MAX_VALUE_BYTES => Err(IndexError(format!(
                "a value of {longest} bytes, at most {MAX_VALUE_BYTES}"
            ))),
            _ => Ok(values),
        }
    }
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn call<'a>(
    function: &IndexFunction,
    object: &'a Object,
) -> Result<Vec<Cow<'a, [u8]>>, IndexError> {
    // Nothing of ours is half written when the function unwinds: it gets a shared object only.
    match catch_unwind(AssertUnwindSafe(|| function(object))) {
        Ok(Ok(values)) => Ok(values.into_iter().map(Cow::Owned).collect()),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(IndexError("the index function panicked".into())),
    }
}

/// One index over the slots of a store.
#[derive(Debug, Clone)]
pub(crate) struct IndexData {
    pub(crate) index: Index,
    // INVARIANT: a value has members; `by_name` holds exactly the ids in `values`.
    values: Radix<Value>,
    by_name: Directory,
    free: SlotSet,
    // INVARIANT: what stands under a slot here is what that slot is a member of, in order of the
    // values' names. Not kept for namespaces: the key of the object says it.
    of_slot: Radix<Ids>,
}

#[derive(Debug, Clone)]
struct Value {
    name: Arc<[u8]>,
    members: SlotSet,
}

#[derive(Debug, Clone)]
enum Ids {
    One(u32),
    Many(Arc<[u32]>),
}

impl Ids {
    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

impl IndexData {
    pub(crate) fn new(index: Index) -> Self {
        Self {
            index,
            values: Radix::default(),
            by_name: Directory::default(),
            free: SlotSet::default(),
            of_slot: Radix::default(),
        }
    }

    /// Returns whether this is the index by namespace, the one value that never changes.
    pub(crate) fn is_namespace(&self) -> bool {
        matches!(self.index.extract, Extract::Namespace)
    }

    /// The members of a value.
    pub(crate) fn members(&self, seed: Seed, value: &[u8]) -> Option<&SlotSet> {
        let id = self.id_of(seed, value)?;
        Some(&self.values.get(id as usize)?.members)
    }

    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The values from the one with the least id at or after `next`, with the number of their
    /// members.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&Arc<[u8]>, usize)> {
        self.values
            .iter()
            .map(|(_, value)| (&value.name, value.members.len()))
    }

    /// Puts a slot under exactly these values (sorted, each once).
    pub(crate) fn put(&mut self, seed: Seed, slot: u32, new: &[Cow<'_, [u8]>]) {
        if self.is_namespace() {
            for value in new {
                self.join(seed, slot, value);
            }
            return;
        }
        let before = self.of_slot.get(slot as usize).cloned();
        let before = before.as_ref().map_or(&[][..], Ids::as_slice);
        if before.len() == new.len() && before.iter().zip(new).all(|(id, new)| self.is(*id, new)) {
            return;
        }
        let ids: Vec<u32> = new
            .iter()
            .map(|value| self.join(seed, slot, value))
            .collect();
        for id in before.iter().filter(|id| !ids.contains(id)) {
            self.leave(seed, slot, *id);
        }
        match &ids[..] {
            [] => self.of_slot.take(slot as usize),
            [id] => self.of_slot.set(slot as usize, Ids::One(*id)),
            ids => self.of_slot.set(slot as usize, Ids::Many(ids.into())),
        };
    }

    /// Takes a slot out. `was` is the object that it held.
    pub(crate) fn remove(&mut self, seed: Seed, slot: u32, was: &Object) {
        if self.is_namespace() {
            if let Some(id) = self.id_of(seed, was.key_ref().namespace.as_bytes()) {
                self.leave(seed, slot, id);
            }
            return;
        }
        if let Some(ids) = self.of_slot.take(slot as usize) {
            for id in ids.as_slice() {
                self.leave(seed, slot, *id);
            }
        }
    }

    fn id_of(&self, seed: Seed, value: &[u8]) -> Option<u32> {
        self.by_name.find(seed.hash(value), |id| self.is(id, value))
    }

    fn is(&self, id: u32, value: &[u8]) -> bool {
        self.values
            .get(id as usize)
            .is_some_and(|known| *known.name == *value)
    }

    fn join(&mut self, seed: Seed, slot: u32, value: &[u8]) -> u32 {
        if let Some(id) = self.id_of(seed, value) {
            if let Some(known) = self.values.slot(id as usize) {
                known.members.insert(slot);
            }
            return id;
        }
        let id = self.free.last().unwrap_or(self.by_name.len() as u32);
        self.free.remove(id);
        self.by_name.insert(seed.hash(value), id);
        self.values.set(
            id as usize,
            Value {
                name: value.into(),
                members: SlotSet::One(slot),
            },
        );
        id
    }

    fn leave(&mut self, seed: Seed, slot: u32, id: u32) {
        let entry = self.values.slot(id as usize);
        let Some(value) = entry else { return };
        value.members.remove(slot);
        if value.members.is_empty() {
            let hash = seed.hash(&*value.name);
            self.values.take(id as usize);
            self.by_name.remove(hash, id);
            self.free.insert(id);
            if self.by_name.len() == 0 {
                self.free = SlotSet::default();
            }
        }
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for IndexError {}

impl fmt::Display for IndexFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            key,
            version,
            error,
        } = self;
        write!(
            f,
            "index {index} leaves out {key} at version {version}: {error}"
        )
    }
}

impl fmt::Display for IndexConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is an index named {} already", self.name)
    }
}

impl std::error::Error for IndexConflict {}
