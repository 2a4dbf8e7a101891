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

// BOUND: objects touched before they are asked for; as many again are looked up. Twice as many reads as a block of the
// store holds, since a processor has more under way.
const AHEAD: usize = 2 * WIDTH;

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
/// They are looked up some ahead, and touched while those behind them are looked up, so that their cache misses
/// overlap.
#[derive(Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    /// Touched; what was not handed out yet stands at `next..`.
    found: Found<'a>,
    next: usize,
    /// Looked up, and not touched.
    behind: Found<'a>,
    left: usize,
}

/// Objects that were looked up.
#[derive(Debug, Default)]
struct Found<'a> {
    // INVARIANT: they stand at `..end`.
    objects: [Option<&'a Object>; AHEAD],
    end: usize,
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
        let mut iter = Iter {
            walk,
            found: Found::default(),
            next: 0,
            behind: Found::default(),
            left: self.len(),
        };
        iter.look_ahead();
        iter
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
        if self.next == self.found.end {
            self.look_ahead();
        }
        // After the last, nothing is looked up any more.
        let found = &self.found;
        let object = found.objects[..found.end]
            .get(self.next)
            .copied()
            .flatten()?;
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
        self.found = std::mem::take(&mut self.behind);
        let mut touched = self.found.objects[..self.found.end]
            .iter()
            .copied()
            .flatten();
        let mut touch = || touched.next().into_iter().for_each(Object::touch);
        let Found { objects, end } = &mut self.behind;
        match &mut self.walk {
            Walk::All(slots, next) => {
                // A block that is there holds something.
                if let Some((base, block)) = slots.leaf_from(*next) {
                    *next = base + WIDTH;
                    for object in block.iter().flatten() {
                        objects[*end] = Some(object);
                        *end += 1;
                        touch();
                    }
                }
            }
            Walk::Some(cursor, members) => {
                for slot in members.take(AHEAD) {
                    objects[*end] = cursor.get(slot as usize);
                    *end += 1;
                    touch();
                }
            }
        }
        touched.for_each(Object::touch);
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
