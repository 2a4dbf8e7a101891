//! Listings of a root: views that own the root they list.
//!
//! ```text
//! Root + members ──▶ View ──iter──▶ &Object
//! ```
//!
//! Making one costs two counters, whatever it lists; walking it takes no lock and copies no object.
//! It stays what it was while the store moves on, and keeps those objects alive: a view is for
//! walking, not for keeping.
//!
//! Upstream counterpart: the slices that `client-go:tools/cache` `List` and `ByIndex` copy.

use super::cursor::Cursor;
use super::radix::{Radix, WIDTH};
use super::root::{IndexId, Root};
use super::slots::{SlotIter, SlotSet};
use crate::object::Object;

// BOUND: objects looked up and touched before they are asked for. A processor has some twenty reads of memory under way;
// of six times as many, those that wait alone, at the beginning and at the end, are few.
const AHEAD: usize = 8 * WIDTH;

/// Some objects of one version of a store.
#[derive(Debug, Clone)]
pub struct View {
    root: Root,
    members: Members,
}

#[derive(Debug, Clone)]
enum Members {
    All,
    Some(SlotSet),
}

/// The objects of a view, in order of slots.
///
/// They are looked up some ahead, those of an index by a cursor, and then their heads are touched, in a loop of its own as
/// well. Those of a whole store lie one behind the other.
#[derive(Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    // INVARIANT: those at `next..`, which may be none, were not handed out yet.
    found: Vec<Option<&'a Object>>,
    next: usize,
    left: usize,
}

#[derive(Debug)]
enum Walk<'a> {
    All(&'a Radix<Object>, usize),
    Some(Cursor<'a, Object>, SlotIter<'a>),
}

impl Root {
    /// All objects.
    #[must_use]
    pub fn list(&self) -> View {
        View::all(self.clone())
    }

    /// All objects of a namespace; of the cluster, if it is empty.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> View {
        self.by(IndexId(0), namespace)
    }

    /// The objects under a value of an index.
    #[must_use]
    pub fn by(&self, index: IndexId, value: impl AsRef<[u8]>) -> View {
        let data = self.0.indexes.get(index.0);
        let members = data.and_then(|data| data.members(self.0.seed, value.as_ref()));
        View::of(self.clone(), members.cloned().unwrap_or_default())
    }

    /// The objects under any of some values of an index, each once.
    ///
    /// Upstream: `Indexer.Index`, given the values instead of an object that has them.
    ///
    /// # Complexity
    /// One value costs nothing; several are merged, O(members).
    #[must_use]
    pub fn by_any<V: AsRef<[u8]>>(
        &self,
        index: IndexId,
        values: impl IntoIterator<Item = V>,
    ) -> View {
        let members = self.0.indexes.get(index.0).map(|data| {
            let seed = self.0.seed;
            SlotSet::union(
                values
                    .into_iter()
                    .filter_map(|value| data.members(seed, value.as_ref())),
            )
        });
        View::of(self.clone(), members.unwrap_or_default())
    }
}

impl View {
    fn all(root: Root) -> Self {
        Self {
            root,
            members: Members::All,
        }
    }

    fn of(root: Root, members: SlotSet) -> Self {
        Self {
            root,
            members: Members::Some(members),
        }
    }

    /// Returns the number of objects that it lists.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.members {
            Members::All => self.root.len(),
            Members::Some(slots) => slots.len(),
        }
    }

    /// Returns whether it lists no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects, borrowed.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        let slots = &self.root.0.slots;
        let walk = match &self.members {
            Members::All => Walk::All(slots, 0),
            Members::Some(members) => Walk::Some(Cursor::new(slots), members.iter()),
        };
        Iter {
            walk,
            found: Vec::with_capacity(self.len().min(AHEAD)),
            next: 0,
            left: self.len(),
        }
    }

    /// The version of the store that this lists.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }
}

impl<'a> IntoIterator for &'a View {
    type Item = &'a Object;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Object;

    #[inline]
    fn next(&mut self) -> Option<&'a Object> {
        if self.next == self.found.len() {
            self.look_ahead();
        }
        // After the last, nothing is found any more.
        let object = (*self.found.get(self.next)?)?;
        self.next += 1;
        self.left = self.left.saturating_sub(1);
        Some(object)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl Iter<'_> {
    // One call for many objects.
    #[inline(never)]
    fn look_ahead(&mut self) {
        self.next = 0;
        let found = &mut self.found;
        found.clear();
        match &mut self.walk {
            Walk::All(slots, next) => {
                // A block that is there holds something.
                while found.len() + WIDTH <= AHEAD
                    && let Some((base, block)) = slots.leaf_from(*next)
                {
                    *next = base + WIDTH;
                    found.extend(block.iter().flatten().map(Some));
                }
            }
            Walk::Some(cursor, members) => cursor.get_all(members.next_few(AHEAD), found),
        }
        Object::touch(found.iter().copied().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;
    use kinform_api::ObjectKey;

    #[test]
    fn whatever_stands_ahead_a_walk_hands_out_each_object_once_and_in_order() {
        for size in (0..=4 * AHEAD + 1)
            .step_by(7)
            .chain([AHEAD, 2 * AHEAD, 3 * AHEAD])
        {
            let mut edit = Edit::new(&Root::empty(Seed(1)));
            let mut even = Vec::new();
            for number in 0..size {
                let space = ["even", "odd"][number % 2];
                let json =
                    format!(r#"{{"metadata":{{"name":"p{number}","namespace":"{space}"}}}}"#);
                edit.insert(Object::from_json(json.as_bytes(), &Projection::new()).unwrap());
                even.extend((number % 2 == 0).then(|| format!("p{number}")));
            }
            let root = edit.commit(1);
            let check = |view: View, names: &[String]| {
                let mut walk = view.iter();
                for (at, name) in names.iter().enumerate() {
                    assert_eq!(walk.len(), names.len() - at, "{size}");
                    assert_eq!(walk.next().map(Object::name), Some(&**name), "{size}");
                }
                assert!(walk.next().is_none() && walk.next().is_none(), "{size}");
            };
            let all: Vec<_> = (0..size).map(|number| format!("p{number}")).collect();
            check(root.list(), &all);
            check(root.in_namespace("even"), &even);
        }
    }

    #[test]
    fn a_store_with_holes_is_walked_whole() {
        const COUNT: usize = 24 * AHEAD;
        let key = |number: usize| ObjectKey::new(Some("s"), &format!("p{number}"));
        let mut edit = Edit::new(&Root::empty(Seed(1)));
        // Enough for an index to keep them in several blocks.
        for number in 0..COUNT {
            let key = key(number);
            let json = format!(
                r#"{{"metadata":{{"name":"{}","namespace":"s"}}}}"#,
                key.name()
            );
            edit.insert(Object::from_json(json.as_bytes(), &Projection::new()).unwrap());
        }
        // Single ones, and whole blocks of which some follow each other.
        let is_gone = |number: usize| {
            number.is_multiple_of(3) || [2, 9, 10, 11].contains(&(number / WIDTH % 13))
        };
        let (gone, left): (Vec<_>, Vec<_>) = (0..COUNT).partition(|number| is_gone(*number));
        for number in gone {
            edit.remove(key(number).key_ref());
        }
        let root = edit.commit(1);
        let left: Vec<_> = left.into_iter().map(key).collect();
        for view in [root.list(), root.in_namespace("s")] {
            assert_eq!(view.len(), left.len());
            let walked: Vec<_> = view.iter().map(Object::key).collect();
            assert_eq!(walked, left);
        }
    }
}
