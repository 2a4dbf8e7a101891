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
//! INVARIANT: what is found has the key; the trail only says where to look first.
//! Upstream counterpart: none.

use kinform_api::KeyRef;

use super::root::State;
use crate::object::Object;

/// Where one reader of a store was last; a new one follows no trail yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Trail {
    next: u32,
    /// Whether the last object lay where the trail led.
    holds: bool,
}

impl Trail {
    /// The slot and the object of a key.
    pub(super) fn find<'a>(
        &mut self,
        state: &'a State,
        key: KeyRef<'_>,
    ) -> Option<(u32, &'a Object)> {
        let ahead = match self.holds {
            true => state.slots.get(self.next as usize),
            false => None,
        };
        let found = match ahead.filter(|object| object.has_key(key)) {
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
mod tests {
    use super::*;
    use crate::object::projection::Projection;
    use crate::store::directory::Seed;
    use crate::store::edit::Edit;
    use crate::store::root::Root;
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
