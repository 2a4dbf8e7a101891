//! The trail: where the next object lies, if keys are asked for in the order in which they were stored.
//!
//! ```text
//! key ──the slot behind the last one found? its object has that key ─▶ found │ else the directory
//! ```
//!
//! Servers list in the order of keys, so a first list fills the slots in that order, and a relist asks for one
//! slot after the other. The object there is looked at anyway: what is saved is the hash, the directory and its
//! cache misses. Once a key was somewhere else, the trail is not followed until a slot was the next one again: keys
//! in any other order cost a comparison of numbers.
//!
//! [`Beside`] is a root with a trail, for who reads a list of what the root holds.
//!
//! INVARIANT: what is found has the key; the trail only says where to look first.
//! Upstream counterpart: none.

use std::cell::Cell;

use kinform_api::KeyRef;

use super::root::{Root, State};
use crate::object::Object;
use crate::wire::known::{Shelf, Stored};

/// The last place of one reader of a store; a new one follows no trail yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trail {
    next: u32,
    /// True if the last object lay where the trail led.
    holds: bool,
}

impl Trail {
    /// Returns the object at the place where it leads.
    fn ahead<'a>(&self, state: &'a State) -> Option<&'a Object> {
        match self.holds {
            true => state.slots.get(self.next as usize),
            false => None,
        }
    }

    /// The slot and the object of a key.
    pub(super) fn find<'a>(
        &mut self,
        state: &'a State,
        key: KeyRef<'_>,
    ) -> Option<(u32, &'a Object)> {
        let found = match self.ahead(state).filter(|object| object.has_key(key)) {
            Some(object) => Some((self.next, object)),
            None => state.object_of(key),
        };
        if let Some((slot, _)) = found {
            self.holds = slot == self.next;
            self.next = slot.wrapping_add(1);
        }
        found
    }
}

/// A root, as who reads a list beside it asks for objects.
///
/// Of compressed objects it knows nothing: they have no bytes to compare.
#[derive(Debug)]
pub struct Beside<'s> {
    root: &'s Root,
    trail: &'s Cell<Trail>,
}

impl<'s> Beside<'s> {
    /// A root, and where the reader was last; that may have been in an earlier root.
    #[must_use]
    pub fn new(root: &'s Root, trail: &'s Cell<Trail>) -> Self {
        Self { root, trail }
    }
}

impl<'s> Shelf<'s> for Beside<'s> {
    fn get(&self, key: KeyRef<'_>) -> Option<&'s dyn Stored> {
        let mut trail = self.trail.get();
        let found = self.root.get_along(key, &mut trail);
        self.trail.set(trail);
        found.and_then(comparable)
    }

    fn next(&self) -> Option<&'s dyn Stored> {
        let trail = self.trail.get();
        trail.ahead(&self.root.0).and_then(comparable)
    }

    fn advance(&self) {
        let mut trail = self.trail.get();
        trail.next = trail.next.wrapping_add(1);
        self.trail.set(trail);
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
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;
    use proptest::prelude::*;

    fn object(number: usize) -> Object {
        let json = format!("{{\"metadata\":{{\"name\":\"n{number}\",\"namespace\":\"s\"}}}}");
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    fn of_these(numbers: impl IntoIterator<Item = usize>) -> Root {
        let mut edit = Edit::new(&Root::empty(Seed(3)));
        for number in numbers {
            edit.insert(object(number));
        }
        edit.commit(1)
    }

    #[test]
    fn it_says_what_is_next_and_goes_on() {
        let root = of_these(0..3);
        let trail = Cell::default();
        let beside = Beside::new(&root, &trail);
        let is_next = |number: usize| {
            let next = beside.next().map(|next| next.bytes().to_vec());
            next.as_deref() == Some(object(number).bytes())
        };
        assert!(beside.next().is_none());
        assert!(beside.get(object(0).key_ref()).is_some());
        assert!(is_next(1));
        beside.advance();
        assert!(is_next(2));
        beside.advance();
        assert!(beside.next().is_none());
        assert!(beside.get(object(1).key_ref()).is_some());
        assert!(beside.next().is_none(), "it does not hold any more");
    }

    #[test]
    fn it_is_followed_while_it_holds() {
        let root = of_these(0..50);
        let mut trail = Trail::default();
        let held: Vec<bool> = [0, 1, 2, 7, 8, 9, 3, 30, 31, 32]
            .into_iter()
            .map(|number| {
                let held = trail.holds;
                let found = root.get_along(object(number).key_ref(), &mut trail);
                assert_eq!(found.map(Object::name), Some(&*format!("n{number}")));
                held
            })
            .collect();
        let expected = [
            false, true, true, true, false, true, true, false, false, true,
        ];
        assert_eq!(held, expected);
        assert!(root.get_along(object(77).key_ref(), &mut trail).is_none());
        // Who is not there says nothing of the next one.
        assert!(trail.holds && trail.next == 33);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_is_found_as_without_it(
            stored in prop::collection::vec(0..40_usize, 0..40),
            gone in prop::collection::vec(0..40_usize, 0..10),
            asked in prop::collection::vec((0..44_usize, 1..5_usize), 0..20),
        ) {
            let mut edit = Edit::new(&of_these(stored));
            for number in gone {
                edit.remove(object(number).key_ref());
            }
            let root = edit.commit(2);
            let mut trail = Trail::default();
            for number in asked.into_iter().flat_map(|(from, count)| from..from + count) {
                let object = object(number);
                let found = root.get_along(object.key_ref(), &mut trail);
                prop_assert_eq!(found.map(Object::name), root.get(object.key_ref()).map(Object::name));
            }
        }
    }
}
