//! The difference between two roots, as a handler hears it.
//!
//! ```text
//! (old root, new root) ──blocks that they do not share──▶ Added, Updated, Deleted
//! ```
//!
//! One mechanism for the initial list (the difference from nothing), a handler that fell behind, and
//! a test's comparison. It is resumed piece by piece, so that a handler's task can yield, and holds
//! both roots meanwhile.
//!
//! A delete found here was not heard as such: it carries the last state of the old root and is marked
//! final state unknown. A uid that changed is a delete and an add. The same uid at the same version
//! is no change, but for a server that went back and named another state so. An object that is missing
//! in the new root and is outside of its scope has left: nothing is heard of it.
//!
//! # Order guarantees
//! None over keys; a key's delete comes directly before its add.
//!
//! Upstream counterpart: none; `client-go:tools/cache/shared_informer.go` buffers each change for
//! each handler instead.
//! Complexity: O(changed blocks), 16 comparisons a block.

use kinform_api::mutant;

use super::radix::WIDTH;
use super::root::Root;
use crate::delta::Change;
use crate::object::Object;
use crate::object::reduction::{Reduction, agree};
use crate::scope::covers;

/// The difference of two roots, to be taken piece by piece.
#[derive(Debug, Clone)]
pub struct Diff {
    old: Root,
    new: Root,
    // Slots below this one have been compared.
    next: usize,
    is_done: bool,
    is_initial: bool,
    hears_what_left: bool,
}

impl Diff {
    /// Returns the changes from `old`, which a handler has heard, to `new`.
    #[must_use]
    pub fn between(old: Root, new: Root) -> Self {
        let is_done = old.0.slots.ptr_eq(&new.0.slots);
        Self {
            old,
            new,
            next: 0,
            is_done,
            is_initial: false,
            hears_what_left: false,
        }
    }

    /// The same with a deletion of each object that left: for what a root holds besides another.
    #[must_use]
    pub fn with_what_left(self) -> Self {
        Self {
            hears_what_left: true,
            ..self
        }
    }

    /// Returns the changes from an empty store to `root`: adds, marked initial.
    #[must_use]
    pub fn initial(root: Root) -> Self {
        let old = Root::empty(root.0.seed);
        Self {
            is_initial: true,
            ..Self::between(old, root)
        }
    }

    /// The root that this leads to.
    #[must_use]
    pub fn target(&self) -> &Root {
        &self.new
    }

    /// Returns whether everything was taken.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Appends the next changes until there are at least `enough` in `out`, or no more.
    ///
    /// A block is never split, so a few more than enough may come.
    pub fn take_into(&mut self, out: &mut Vec<Change>, enough: usize) {
        while !self.is_done && out.len() < enough {
            let found = self
                .old
                .0
                .slots
                .differing_from(&self.new.0.slots, self.next);
            let Some((base, old, new)) = found else {
                self.is_done = true;
                return;
            };
            for at in 0..WIDTH {
                let old = old.and_then(|leaf| leaf[at].as_ref());
                let new = new.and_then(|leaf| leaf[at].as_ref());
                self.compare(old, new, out);
            }
            self.next = base + WIDTH;
        }
    }

    fn compare(&self, old: Option<&Object>, new: Option<&Object>, out: &mut Vec<Change>) {
        if let (Some(old), Some(new)) = (old, new) {
            if old.ptr_eq(new) {
                return;
            }
            if old.key_ref() == new.key_ref() {
                return self.push_change(old, new, out);
            }
        }
        // The slot is new, given back, or changed hands. The other half of a move is found where
        // the old object stood, so each key is reported once.
        if let Some(old) = old {
            match self.new.get(old.key_ref()) {
                Some(new) => self.push_change(old, new, out),
                None => self.push_gone(old, out),
            }
        }
        if let Some(new) = new
            && self.old.get(new.key_ref()).is_none()
        {
            out.push(Change::Added {
                object: new.clone(),
                initial: self.is_initial,
            });
        }
    }

    fn push_change(&self, old: &Object, new: &Object, out: &mut Vec<Change>) {
        if old.uid() != new.uid() {
            self.push_gone(old, out);
            out.push(Change::Added {
                object: new.clone(),
                initial: false,
            });
        } else if !same_version(old, new) || !agree(self.reduction(), old, new) {
            out.push(Change::Updated {
                old: old.clone(),
                new: new.clone(),
            });
        }
    }

    fn reduction(&self) -> Option<&Reduction> {
        self.new.reduction().map(|reduction| &**reduction)
    }

    fn push_gone(&self, old: &Object, out: &mut Vec<Change>) {
        if self.hears_what_left || covers(self.new.scope(), old) || mutant!("H13") {
            out.push(Change::Deleted {
                object: old.clone(),
                final_state_unknown: true,
            });
        }
    }
}

/// Returns whether two objects of one key are the same version of the same object. Objects without
/// a version are compared by content.
pub(crate) fn same_version(old: &Object, new: &Object) -> bool {
    if mutant!("B8") {
        let path = "metadata.resourceVersion".parse().ok();
        return path.is_some_and(|path| old.at(&path) == new.at(&path));
    }
    old.uid() == new.uid()
        && old.resource_version() == new.resource_version()
        && (!old.resource_version().is_empty() || old.same_content(new))
}
