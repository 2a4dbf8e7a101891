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

use super::radix;
use super::root::Root;
use super::slots::{SlotIter, SlotSet};
use crate::object::Object;

const AHEAD: usize = 16;

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
#[derive(Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    left: usize,
}

#[derive(Debug)]
enum Walk<'a> {
    All(radix::Iter<'a, Object>),
    Some(Ahead<'a>),
}

/// Looks blocks up some slots ahead, so that their cache misses overlap.
#[derive(Debug)]
struct Ahead<'a> {
    root: &'a Root,
    slots: SlotIter<'a>,
    // INVARIANT: what was looked up stands at `next..`, the first missing one after it.
    found: [Option<&'a Object>; AHEAD],
    next: usize,
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
        let walk = match &self.members {
            Members::All => Walk::All(self.root.0.slots.iter()),
            Members::Some(slots) => Walk::Some(Ahead {
                root: &self.root,
                slots: slots.iter(),
                found: [None; AHEAD],
                next: AHEAD,
            }),
        };
        Iter {
            walk,
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

    fn next(&mut self) -> Option<&'a Object> {
        self.left = self.left.saturating_sub(1);
        match &mut self.walk {
            Walk::All(all) => all.next().map(|(_, object)| object),
            Walk::Some(ahead) => ahead.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

impl<'a> Ahead<'a> {
    fn next(&mut self) -> Option<&'a Object> {
        if self.next == AHEAD {
            for found in &mut self.found {
                *found = self
                    .slots
                    .next()
                    .and_then(|slot| self.root.0.slots.get(slot as usize));
            }
            self.next = 0;
        }
        // After the last, nothing is looked up any more.
        let found = self.found[self.next]?;
        self.next += 1;
        Some(found)
    }
}
