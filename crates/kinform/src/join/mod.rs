//! Joins: the objects of one cache with those of another that they name.
//!
//! ```text
//! left.join(&right, index) ─▶ View ──snapshot──▶ JoinSnapshot: row of a key, rows, who names a key
//!                               └──changes──▶ rows that differ, by the differences of both roots
//! ```
//!
//! An index of the left informer has the names: each of its values names an object of the right one,
//! as `namespace/name`, or as a name alone, of the cluster or of the left object's namespace. So a
//! join keeps nothing of its own: a row is found by a look-up in each cache, the objects that name
//! another one by the index, and what changed by the differences of two pairs of roots.
//!
//! Each side is one moment of its server's; the two need not be the same moment.
//! Never: decodes, unless the index is a function.
//!
//! Upstream counterpart: none; controllers look up by hand what an event concerns
//! (`controller-runtime:pkg/handler`, `EnqueueRequestsFromMapFunc`).

mod changes;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kinform_api::{ObjectKey, Scope};

pub use self::changes::{RowChange, RowChanges};
use crate::error::Error;
use crate::index::Index;
use crate::informer::Informer;
use crate::object::Obj;
use crate::store::Snapshot;

/// Objects of `K` with the objects of `T` that they name. Cheap to clone.
pub struct View<K, T> {
    left: Informer<K>,
    right: Informer<T>,
    index: Arc<str>,
}

/// A view at one moment; it keeps the objects of that moment alive.
pub struct JoinSnapshot<K, T> {
    left: Snapshot<K>,
    right: Snapshot<T>,
    index: Arc<str>,
    scope: Scope,
}

/// An object with those that it names.
pub struct Row<K, T> {
    left: Obj<K>,
    right: Vec<Obj<T>>,
    missing: Vec<ObjectKey>,
}

impl<K> Informer<K>
where
    K: serde::de::DeserializeOwned + Send + Sync + 'static,
{
    /// Joins the objects of this informer with those of another one: `index`, which this adds here,
    /// has for each object the names of those in `other`.
    ///
    /// # Errors
    /// As of [`Informer::add_index`]; and the index reads fields that this informer's cache may
    /// [give up](crate::InformerBuilder::reducible_to).
    pub fn join<T: Send + Sync + 'static>(
        &self,
        other: &Informer<T>,
        index: Index<K>,
    ) -> Result<View<K, T>, Error> {
        let reader = self.add_index_of_what_stays(index)?;
        Ok(View {
            left: self.clone(),
            right: other.clone(),
            index: reader.name().into(),
        })
    }
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> View<K, T> {
    /// Both caches as they are now.
    pub fn snapshot(&self) -> JoinSnapshot<K, T> {
        JoinSnapshot {
            left: self.left.snapshot(),
            right: self.right.snapshot(),
            index: Arc::clone(&self.index),
            scope: self.right.resource().scope,
        }
    }

    /// The row of the object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Row<K, T>> {
        self.snapshot().get(key)
    }

    /// The objects that name this one, whether or not it exists: what a change of it concerns.
    pub fn naming(&self, key: &ObjectKey) -> Vec<Obj<K>> {
        self.snapshot().naming(key)
    }

    /// Returns whether both caches had their first list.
    pub fn has_synced(&self) -> bool {
        self.left.has_synced() && self.right.has_synced()
    }
}

impl<K, T> JoinSnapshot<K, T> {
    /// The left side.
    pub fn left(&self) -> &Snapshot<K> {
        &self.left
    }

    /// The right side.
    pub fn right(&self) -> &Snapshot<T> {
        &self.right
    }

    /// The row of the object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Row<K, T>> {
        Some(self.row(self.left.get(key)?))
    }

    /// All rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = Row<K, T>> {
        let all = self.left.list().to_objs().into_iter();
        all.map(|left| self.row(left))
    }

    /// The objects that name this one, whether or not it exists.
    ///
    /// # Complexity
    /// Two look-ups in the index.
    pub fn naming(&self, key: &ObjectKey) -> Vec<Obj<K>> {
        let by = |value: &str| self.left.by_index(&self.index, value);
        // A definition never goes away: there is no other error.
        let found = by(key.as_str()).map(|found| found.to_objs());
        let mut found = found.unwrap_or_default();
        if key.namespace().is_some()
            && let Ok(short) = by(key.name())
        {
            let of_its_namespace = |one: &Obj<K>| one.namespace() == key.namespace();
            found.extend(short.to_objs().into_iter().filter(of_its_namespace));
        }
        found
    }

    /// The keys that an object names, each once.
    fn names(&self, left: &Obj<K>) -> BTreeSet<ObjectKey> {
        let Ok(index) = self.left.definition(&self.index) else {
            return BTreeSet::new();
        };
        let values = index.extract(left.raw()).unwrap_or_default();
        let names = values
            .iter()
            .filter_map(|value| std::str::from_utf8(value).ok());
        names.map(|name| self.key_of(name, left)).collect()
    }

    fn key_of(&self, name: &str, left: &Obj<K>) -> ObjectKey {
        match (name.split_once('/'), self.scope) {
            (Some((namespace, name)), Scope::Namespaced) => ObjectKey::new(Some(namespace), name),
            (None, Scope::Namespaced) => ObjectKey::new(left.namespace(), name),
            (_, Scope::Cluster) => ObjectKey::new(None, name),
        }
    }

    fn row(&self, left: Obj<K>) -> Row<K, T> {
        let (mut right, mut missing) = (Vec::new(), Vec::new());
        for key in self.names(&left) {
            match self.right.get(&key) {
                Some(object) => right.push(object),
                None => missing.push(key),
            }
        }
        Row {
            left,
            right,
            missing,
        }
    }
}

impl<K, T> Row<K, T> {
    /// The object.
    pub fn left(&self) -> &Obj<K> {
        &self.left
    }

    /// The first of the objects that it names: for joins that name one.
    pub fn right(&self) -> Option<&Obj<T>> {
        self.right.first()
    }

    /// The objects that it names, in the order of their keys.
    pub fn all_right(&self) -> &[Obj<T>] {
        &self.right
    }

    /// The keys that it names of objects that do not exist, or are not cached.
    pub fn missing(&self) -> &[ObjectKey] {
        &self.missing
    }
}

impl<K, T> PartialEq for Row<K, T> {
    /// Returns whether both have the same states of the same objects.
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = self.right.iter().zip(&other.right);
        is_same(&self.left, &other.left)
            && self.missing == other.missing
            && self.right.len() == other.right.len()
            && pairs.all(|(one, other)| is_same(one, other))
    }
}

/// Compares two states. A server that went back may give one version to two: the content decides.
fn is_same<K>(one: &Obj<K>, other: &Obj<K>) -> bool {
    one.uid() == other.uid()
        && one.resource_version() == other.resource_version()
        // Of one version with fewer fields, nothing else is known.
        && (one.is_reduced() != other.is_reduced() || one.raw().same_content(other.raw()))
}

impl<K, T> Clone for View<K, T> {
    fn clone(&self) -> Self {
        Self {
            left: self.left.clone(),
            right: self.right.clone(),
            index: Arc::clone(&self.index),
        }
    }
}

impl<K, T> Clone for JoinSnapshot<K, T> {
    fn clone(&self) -> Self {
        Self {
            left: self.left.clone(),
            right: self.right.clone(),
            index: Arc::clone(&self.index),
            scope: self.scope,
        }
    }
}

impl<K, T> Clone for Row<K, T> {
    fn clone(&self) -> Self {
        Self {
            left: self.left.clone(),
            right: self.right.clone(),
            missing: self.missing.clone(),
        }
    }
}

impl<K, T> fmt::Debug for View<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl<K, T> fmt::Debug for JoinSnapshot<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSnapshot")
            .field("left", &self.left)
            .field("right", &self.right)
            .finish_non_exhaustive()
    }
}

impl<K, T> fmt::Debug for Row<K, T> {
    /// Keys and versions, never content.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row")
            .field("left", &self.left)
            .field("right", &self.right)
            .field("missing", &self.missing)
            .finish()
    }
}
