//! A listing that owns the root it lists.
//!
//! ```text
//! Root + members ──▶ View ──iter──▶ &Object
//! ```
//!
//! Making one costs two counters, whatever it lists; walking it takes no lock and copies nothing.
//! It stays what it was while the store moves on, and keeps those objects alive: a view is for
//! walking, not for keeping.
//!
//! Upstream counterpart: the slices that `client-go:tools/cache` `List` and `ByIndex` copy.

use super::radix::{Cursor, Radix, WIDTH};
use super::root::Root;
use super::slots::{SlotIter, SlotSet};
use crate::object::Object;

// BOUND: objects looked up and touched before they are asked for. A processor has some twenty reads of memory under way;
// with six times as many, the time until the first arrives and that after the last left count little.
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
/// They are looked up some ahead: first all of their blocks, then all of their places in these, then all of their heads.
/// A processor overlaps the cache misses of reads that do not wait for each other, as many as there are among the
/// few hundred instructions that it sees at once; so each of these loops does nothing else.
#[derive(Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    // INVARIANT: those found stand at `..end`; those of them that were not handed out yet at `next..end`.
    found: [Option<&'a Object>; AHEAD],
    next: usize,
    end: usize,
    left: usize,
}

#[derive(Debug)]
enum Walk<'a> {
    All(&'a Radix<Object>, usize),
    Some(Cursor<'a, Object>, SlotIter<'a>),
}

impl View {
    pub(super) fn all(root: Root) -> Self {
        Self {
            root,
            members: Members::All,
        }
    }

    pub(super) fn of(root: Root, members: SlotSet) -> Self {
        Self {
            root,
            members: Members::Some(members),
        }
    }

    /// How many objects it lists.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.members {
            Members::All => self.root.len(),
            Members::Some(slots) => slots.len(),
        }
    }

    /// Whether it lists nothing.
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
            Members::Some(members) => Walk::Some(slots.cursor(), members.iter()),
        };
        Iter {
            walk,
            found: [None; AHEAD],
            next: 0,
            end: 0,
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
        if self.next == self.end {
            self.look_ahead();
        }
        // After the last, nothing is found any more.
        let object = self.found[..self.end].get(self.next).copied().flatten()?;
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
        (self.next, self.end) = (0, 0);
        let Self { found, end, .. } = self;
        match &mut self.walk {
            Walk::All(slots, next) => {
                // A block that is there holds something.
                while *end + WIDTH <= AHEAD
                    && let Some((base, block)) = slots.leaf_from(*next)
                {
                    *next = base + WIDTH;
                    for object in block.iter().flatten() {
                        found[*end] = Some(object);
                        *end += 1;
                    }
                }
            }
            Walk::Some(cursor, members) => {
                let mut slots = [0; AHEAD];
                for (place, slot) in slots.iter_mut().zip(members) {
                    *place = slot;
                    *end += 1;
                }
                cursor.get_all(&slots, *end, found);
            }
        }
        Object::touch(found[..*end].iter().copied().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;

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
}
