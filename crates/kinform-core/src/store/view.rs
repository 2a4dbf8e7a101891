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

// BOUND: objects looked up before they are asked for; about as many reads as a processor has under way.
const AHEAD: usize = WIDTH;

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
/// They are looked up some ahead and touched, so that their cache misses overlap.
#[derive(Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    // INVARIANT: what was looked up and not handed out yet stands at `next..end`.
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
        // After the last, nothing is looked up any more.
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
        match &mut self.walk {
            Walk::All(slots, next) => {
                // A block that is there holds something.
                let Some((base, block)) = slots.leaf_from(*next) else {
                    return;
                };
                *next = base + WIDTH;
                for object in block.iter().flatten() {
                    self.found[self.end] = Some(object);
                    self.end += 1;
                }
            }
            Walk::Some(cursor, members) => {
                for slot in members.take(AHEAD) {
                    self.found[self.end] = cursor.get(slot as usize);
                    self.end += 1;
                }
            }
        }
        let found = self.found[..self.end].iter().flatten();
        found.for_each(|object| object.touch());
    }
}
