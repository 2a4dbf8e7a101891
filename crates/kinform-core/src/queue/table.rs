//! From the hash of a key to its slot.
//!
//! ```text
//! hash32 ──low bits──▶ its place, or one of the next ──caller compares──▶ slot number
//! ```
//!
//! Keys of a queue come and go all the time, so nothing is left behind by one that went: those after it
//! move up. Eight bytes an entry, one after the other in memory; growing looks at no slot.
//!
//! INVARIANT: no place between where an entry belongs and where it lies is empty.
//!
//! Upstream counterpart: none; sets of client-go's queue are Go maps.
//!
//! Complexity: O(1); growing doubles, so O(1) an entry, amortised.

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// BOUND: of eight places, those that are taken before there are twice as many.
const FULL_EIGHTHS: usize = 5;
const LEAST_PLACES: usize = 16;

/// Slots by hash. Hashes must be seeded: whoever can choose colliding keys makes it slow.
#[derive(Debug)]
pub(super) struct Table {
    /// As many as a power of two.
    places: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    /// [`NONE`] in an empty place.
    at: u32,
}

/// Where a slot may be put under its hash, until the table is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vacant {
    place: usize,
    hash: u32,
}

const EMPTY: Entry = Entry { hash: 0, at: NONE };

impl Table {
    pub(super) fn new() -> Self {
        Self {
            places: vec![EMPTY; LEAST_PLACES],
            len: 0,
        }
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The slot under `hash` for which `is_it` holds, else where it would be.
    #[inline]
    pub(super) fn find(
        &self,
        hash: u32,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> Result<u32, Vacant> {
        let mut place = self.place_of(hash);
        loop {
            let entry = self.places[place];
            if entry.at == NONE {
                return Err(Vacant { place, hash });
            }
            if entry.hash == hash && is_it(entry.at) {
                return Ok(entry.at);
            }
            place = self.after(place);
        }
    }

    /// Puts a slot where it was looked for.
    #[inline]
    pub(super) fn insert(&mut self, vacant: Vacant, at: u32) {
        let Vacant { place, hash } = vacant;
        debug_assert_eq!(self.places[place].at, NONE, "nothing came in between");
        self.places[place] = Entry { hash, at };
        self.len += 1;
        if self.len * 8 > self.places.len() * FULL_EIGHTHS {
            self.grow();
        }
    }

    /// Takes a slot out. It must be there.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, at: u32) {
        let mut gap = self.place_of(hash);
        while self.places[gap].at != at {
            if self.places[gap].at == NONE {
                debug_assert!(false, "a slot with a key is in the table");
                return;
            }
            gap = self.after(gap);
        }
        let mut next = self.after(gap);
        loop {
            let entry = self.places[next];
            if entry.at == NONE {
                break;
            }
            // Whoever would be as near to where it belongs, or nearer, moves up.
            let belongs = self.place_of(entry.hash);
            if self.distance(belongs, gap) <= self.distance(belongs, next) {
                self.places[gap] = entry;
                gap = next;
            }
            next = self.after(next);
        }
        self.places[gap] = EMPTY;
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![EMPTY; self.places.len() * 2];
        let old = std::mem::replace(&mut self.places, places);
        for entry in old.into_iter().filter(|entry| entry.at != NONE) {
            let mut place = self.place_of(entry.hash);
            while self.places[place].at != NONE {
                place = self.after(place);
            }
            self.places[place] = entry;
        }
    }

    /// Gives back the memory that is not needed for `kept` slots. There must be none in it.
    pub(super) fn shrink_empty(&mut self, kept: usize) {
        debug_assert_eq!(self.len, 0, "nothing is lost");
        let places = (kept * 8 / FULL_EIGHTHS).next_power_of_two();
        if places < self.places.len() {
            self.places = vec![EMPTY; places];
        }
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }

    fn place_of(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(
            // Few hashes, at both ends: runs of entries that collide, and that go over the end.
            steps in prop::collection::vec((0_u32..12, 0_u32..40), 0..400),
        ) {
            let (mut table, mut model) = (Table::new(), BTreeMap::new());
            for (low, at) in steps {
                let hash = low.wrapping_sub(6);
                match model.remove(&at) {
                    Some(hash) => table.remove(hash, at),
                    None => {
                        let vacant = table.find(hash, |other| other == at);
                        table.insert(vacant.expect_err("it is not in"), at);
                        model.insert(at, hash);
                    }
                }
                prop_assert_eq!(table.len(), model.len());
                for at in 0..40 {
                    for hash in (0..12).map(|low: u32| low.wrapping_sub(6)) {
                        let found = table.find(hash, |other| other == at).ok();
                        prop_assert_eq!(found, (model.get(&at) == Some(&hash)).then_some(at));
                    }
                }
            }
        }
    }
}
