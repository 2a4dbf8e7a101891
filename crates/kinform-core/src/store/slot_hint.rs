//! A guess at the slot of the next key, for keys asked for in the order in which they were stored.
//!
//! ```text
//! key ──the slot after the last one found? its object has that key ─▶ found │ else the directory
//! ```
//!
//! Servers list in the order of keys, so a first list fills the slots in that order, and a relist
//! asks for one slot after the other. Its object is looked at anyway: the hint saves the hash, the
//! directory and their cache misses. After a wrong guess the hint is ignored until two keys in a
//! row lay in neighbouring slots, so that keys in any other order cost one comparison of numbers.
//!
//! INVARIANT: an object that is found has the key; the hint only decides where to look first.
//! Upstream counterpart: none.

use kinform_api::KeyRef;

use super::state::State;
use crate::object::Object;

/// The guess of one reader of a store; a new one guesses nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlotHint {
    next: u32,
    /// True if the last object lay in the guessed slot.
    holds: bool,
}

impl SlotHint {
    /// Returns the object in the guessed slot.
    pub(super) fn guess<'a>(&self, state: &'a State) -> Option<&'a Object> {
        match self.holds {
            true => state.slots.get(self.next as usize),
            false => None,
        }
    }

    /// Moves on by one slot: the guess was right.
    pub(super) fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// Returns the slot and the object of a key.
    pub(super) fn find<'a>(
        &mut self,
        state: &'a State,
        key: KeyRef<'_>,
    ) -> Option<(u32, &'a Object)> {
        let found = match self.guess(state).filter(|object| object.has_key(key)) {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;
    use crate::store::root::Root;
    use proptest::prelude::*;

    /// The object `s/n<number>`.
    pub(in crate::store) fn object(number: usize) -> Object {
        let json = format!("{{\"metadata\":{{\"name\":\"n{number}\",\"namespace\":\"s\"}}}}");
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    /// A root with these objects, in slots of this order.
    pub(in crate::store) fn of_these(numbers: impl IntoIterator<Item = usize>) -> Root {
        let mut edit = Edit::new(&Root::empty(Seed(3)));
        for number in numbers {
            edit.insert(object(number));
        }
        edit.commit(1)
    }

    #[test]
    fn it_is_followed_while_it_holds() {
        let root = of_these(0..50);
        let mut hint = SlotHint::default();
        let held: Vec<bool> = [0, 1, 2, 7, 8, 9, 3, 30, 31, 32]
            .into_iter()
            .map(|number| {
                let held = hint.holds;
                let found = root.get_with_hint(object(number).key_ref(), &mut hint);
                assert_eq!(found.map(Object::name), Some(&*format!("n{number}")));
                held
            })
            .collect();
        let expected = [
            false, true, true, true, false, true, true, false, false, true,
        ];
        assert_eq!(held, expected);
        assert!(
            root.get_with_hint(object(77).key_ref(), &mut hint)
                .is_none()
        );
        // A key without an object leaves the guess as it is.
        assert!(hint.holds && hint.next == 33);
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
            let mut hint = SlotHint::default();
            for number in asked.into_iter().flat_map(|(from, count)| from..from + count) {
                let object = object(number);
                let found = root.get_with_hint(object.key_ref(), &mut hint);
                prop_assert_eq!(found.map(Object::name), root.get(object.key_ref()).map(Object::name));
            }
        }
    }
}
