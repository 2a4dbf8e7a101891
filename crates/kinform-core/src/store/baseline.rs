//! The stored objects that an incoming list is compared with.
//!
//! ```text
//! list reader ──key, or the next guess──▶ RootBaseline ──slot hint──▶ stored object
//! ```
//!
//! Compressed objects are left out: they have no bytes to compare.
//!
//! Upstream counterpart: none; client-go decodes a relist as it does a first list.

use std::cell::Cell;

use kinform_api::KeyRef;

use super::root::Root;
use super::slot_hint::SlotHint;
use crate::object::Object;
use crate::wire::baseline::{Baseline, Stored};

/// A root and the slot hint of the reader that compares a list with it.
#[derive(Debug)]
pub struct RootBaseline<'s> {
    root: &'s Root,
    hint: &'s Cell<SlotHint>,
}

impl<'s> RootBaseline<'s> {
    /// A baseline of this root; the hint may come from an earlier root.
    #[must_use]
    pub fn new(root: &'s Root, hint: &'s Cell<SlotHint>) -> Self {
        Self { root, hint }
    }
}

impl<'s> Baseline<'s> for RootBaseline<'s> {
    fn get(&self, key: KeyRef<'_>) -> Option<&'s dyn Stored> {
        let mut hint = self.hint.get();
        let found = self.root.get_with_hint(key, &mut hint);
        self.hint.set(hint);
        found.and_then(comparable)
    }

    fn next(&self) -> Option<&'s dyn Stored> {
        let hint = self.hint.get();
        hint.guess(&self.root.0).and_then(comparable)
    }

    fn advance(&self) {
        let mut hint = self.hint.get();
        hint.advance();
        self.hint.set(hint);
    }
}

fn comparable(object: &Object) -> Option<&dyn Stored> {
    match object.is_cold() {
        true => None,
        false => Some(object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::slot_hint::tests::{object, of_these};

    #[test]
    fn the_next_object_is_guessed_and_the_guess_moves_on() {
        let root = of_these(0..3);
        let hint = Cell::default();
        let baseline = RootBaseline::new(&root, &hint);
        let is_next = |number: usize| {
            let next = baseline.next().map(|next| next.bytes().to_vec());
            next.as_deref() == Some(object(number).bytes())
        };
        assert!(baseline.next().is_none());
        assert!(baseline.get(object(0).key_ref()).is_some());
        assert!(is_next(1));
        baseline.advance();
        assert!(is_next(2));
        baseline.advance();
        assert!(baseline.next().is_none());
        assert!(baseline.get(object(1).key_ref()).is_some());
        assert!(baseline.next().is_none(), "it does not hold any more");
    }
}
