//! A listing: some objects of a cache at one moment, to be iterated or kept.
//!
//! ```text
//! roots (views, or objects that were found) → Listing → Handles (ObjRef<K>) | Objects
//!                                                     → typed() → Arc<K>
//! ```
//!
//! It owns its objects; iterating decodes nothing and counts no references.
//!
//! Upstream counterpart: the slices that `client-go:tools/cache` `List` and `ByIndex` copy.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use kinform_api::ObjectKey;
use kinform_core::object::Object;
use kinform_core::store::view::{self, View};
use serde::de::DeserializeOwned;

use crate::object::{Lens, Obj, ObjRef};

/// Some objects of a cache at one moment.
pub struct Listing<K> {
    pub(super) parts: Vec<Part>,
    pub(super) lens: Arc<Lens>,
    pub(super) of: PhantomData<fn() -> K>,
}

/// The objects of a [`Listing`], one borrowed handle after the other.
pub struct Handles<'a, K> {
    objects: Objects<'a>,
    lens: &'a Arc<Lens>,
    of: PhantomData<fn() -> K>,
}

/// The listed objects of one root.
#[derive(Clone)]
pub(super) enum Part {
    View(View),
    /// Found by looking at each object: the index is not built yet.
    Found(Vec<Object>),
}

/// The objects of a [`Listing`] without a type, borrowed.
pub struct Objects<'a> {
    part: PartIter<'a>,
    rest: slice::Iter<'a, Part>,
}

enum PartIter<'a> {
    View(view::Iter<'a>),
    Found(slice::Iter<'a, Object>),
}

impl Part {
    fn len(&self) -> usize {
        match self {
            Self::View(view) => view.len(),
            Self::Found(objects) => objects.len(),
        }
    }

    fn iter(&self) -> PartIter<'_> {
        match self {
            Self::View(view) => PartIter::View(view.iter()),
            Self::Found(objects) => PartIter::Found(objects.iter()),
        }
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a Object;

    #[inline]
    fn next(&mut self) -> Option<&'a Object> {
        loop {
            let next = match &mut self.part {
                PartIter::View(view) => view.next(),
                PartIter::Found(objects) => objects.next(),
            };
            if next.is_some() {
                return next;
            }
            self.part = self.rest.next()?.iter();
        }
    }
}

impl<'a, K> Iterator for Handles<'a, K> {
    type Item = ObjRef<'a, K>;

    #[inline]
    fn next(&mut self) -> Option<ObjRef<'a, K>> {
        let object = self.objects.next()?;
        Some(ObjRef::new(object, self.lens))
    }
}

impl<K> Listing<K> {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects, in no particular order, borrowed: no reference is counted. [`Listing::to_objs`]
    /// makes handles to keep.
    pub fn iter(&self) -> Handles<'_, K> {
        Handles {
            objects: self.objects(),
            lens: &self.lens,
            of: PhantomData,
        }
    }

    /// Handles that hold the objects, in the same order.
    pub fn to_objs(&self) -> Vec<Obj<K>> {
        self.held(self.objects())
    }

    /// The same objects without a type, borrowed: no reference is counted. In a compressed store,
    /// read more than keys and versions from [`Object::thawed`]: an object inflated in place stays
    /// inflated as long as it is stored.
    pub fn objects(&self) -> Objects<'_> {
        Objects {
            part: PartIter::Found([].iter()),
            rest: self.parts.iter(),
        }
    }

    /// Up to `limit` objects in the order of their keys, from the first one after `after` on.
    ///
    /// Pages of one [`Snapshot`](crate::Snapshot)'s listing fit together: each object is in one of
    /// them.
    ///
    /// # Complexity
    /// O(objects listed) a page: for pages of a whole cache, see
    /// [`Snapshot::page`](crate::Snapshot::page).
    pub fn page(&self, after: Option<&ObjectKey>, limit: usize) -> Vec<Obj<K>> {
        let by_key = |a: &&Object, b: &&Object| a.key_ref().cmp(&b.key_ref());
        let is_after =
            |object: &&Object| after.is_none_or(|after| object.key_ref() > after.key_ref());
        let mut page: Vec<&Object> = self.objects().filter(is_after).collect();
        if page.len() > limit {
            page.select_nth_unstable_by(limit, by_key);
            page.truncate(limit);
        }
        page.sort_unstable_by(by_key);
        self.held(page)
    }

    /// Handles of the objects that `keep` accepts; no handle is made of the others. `keep` reads
    /// from [`Object::thawed`].
    pub(crate) fn matching(&self, mut keep: impl FnMut(&Object) -> bool) -> Vec<Obj<K>> {
        self.held(self.objects().filter(|object| keep(object)))
    }

    fn held<'a>(&self, objects: impl IntoIterator<Item = &'a Object>) -> Vec<Obj<K>> {
        let held = |object: &Object| Obj::new(object.clone(), &self.lens);
        objects.into_iter().map(held).collect()
    }

    /// The keys, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<_> = self.objects().map(Object::key).collect();
        keys.sort_unstable();
        keys
    }
}

impl<K: DeserializeOwned + Any + Send + Sync> Listing<K> {
    /// The objects decoded; one that does not decode is left out, counted and reported.
    ///
    /// So is one whose fields the cache gave up ([`reducible_to`](crate::InformerBuilder::reducible_to)), but for
    /// the report: a program that allows that asks each object of [`iter`](Self::iter) for its value.
    pub fn typed(&self) -> impl Iterator<Item = Arc<K>> {
        self.iter().filter_map(|object| match object.typed() {
            Ok(typed) => Some(typed),
            Err(error) => {
                self.lens.undecodable(&error);
                None
            }
        })
    }
}

impl<'a, K> IntoIterator for &'a Listing<K> {
    type Item = ObjRef<'a, K>;
    type IntoIter = Handles<'a, K>;

    fn into_iter(self) -> Handles<'a, K> {
        self.iter()
    }
}

impl<K> Clone for Listing<K> {
    fn clone(&self) -> Self {
        Self {
            parts: self.parts.clone(),
            lens: Arc::clone(&self.lens),
            of: PhantomData,
        }
    }
}

impl<K> fmt::Debug for Listing<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Objects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for Handles<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handles").finish_non_exhaustive()
    }
}
