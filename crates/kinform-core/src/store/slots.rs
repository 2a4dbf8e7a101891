//! A persistent, sorted set of slots: the members of one index value.
//!
//! ```text
//! empty │ one │ one block (≤ 1,024 sorted slots) │ many blocks
//! ```
//!
//! Most index values have few members, a few have most of the store. Sorted, so that walking the
//! members walks the store's blocks in order, and a union is a merge. A write copies one block and,
//! for large sets, the list of blocks.
//!
//! Slots, not handles of objects: an update of an object whose values stay the same touches no set.
//!
//! Upstream counterpart: `sets.String` of keys in `client-go:tools/cache/index.go`.
//! Complexity: a write is O(log n) and, in a new version, a copy of 4 KB and of n/1,024 pointers.

use std::slice;

use triomphe::Arc;

// BOUND: slots in one block.
const BLOCK: usize = 1024;

/// A sorted set of slots.
#[derive(Debug, Clone, Default)]
pub(crate) enum SlotSet {
    #[default]
    Empty,
    One(u32),
    // INVARIANT: sorted, 2..=BLOCK.
    Few(Arc<Vec<u32>>),
    // INVARIANT: no block is empty; blocks and their slots are sorted.
    Many(Arc<Many>),
}

#[derive(Debug, Clone)]
pub(crate) struct Many {
    len: usize,
    // INVARIANT: two neighbours hold more than BLOCK / 2 together, so a block that stands alone holds at least that.
    blocks: Vec<Arc<Vec<u32>>>,
}

/// The members of a set, in order.
#[derive(Debug, Clone)]
pub(crate) struct SlotIter<'a> {
    block: slice::Iter<'a, u32>,
    rest: slice::Iter<'a, Arc<Vec<u32>>>,
}

impl SlotSet {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::One(_) => 1,
            Self::Few(slots) => slots.len(),
            Self::Many(many) => many.len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, slot: u32) -> bool {
        match self {
            Self::Empty => false,
            Self::One(only) => *only == slot,
            Self::Few(slots) => slots.binary_search(&slot).is_ok(),
            Self::Many(many) => many.blocks[many.block_of(slot)]
                .binary_search(&slot)
                .is_ok(),
        }
    }

    /// Adds a slot; returns whether it was not there.
    pub(crate) fn insert(&mut self, slot: u32) -> bool {
        match self {
            Self::Empty => *self = Self::One(slot),
            Self::One(only) if *only == slot => return false,
            Self::One(only) => {
                *self = Self::Few(Arc::new(vec![slot.min(*only), slot.max(*only)]));
            }
            Self::Few(slots) => {
                let Err(at) = slots.binary_search(&slot) else {
                    return false;
                };
                if slots.len() == BLOCK {
                    let mut many = Many {
                        len: BLOCK,
                        blocks: vec![Arc::clone(slots)],
                    };
                    many.insert(slot);
                    *self = Self::Many(Arc::new(many));
                } else {
                    Arc::make_mut(slots).insert(at, slot);
                }
            }
            Self::Many(many) => {
                let block = many.block_of(slot);
                if many.blocks[block].binary_search(&slot).is_ok() {
                    return false;
                }
                Arc::make_mut(many).insert(slot);
            }
        }
        true
    }

    /// Takes a slot away; returns whether it was there.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        match self {
            Self::Empty => return false,
            Self::One(only) if *only != slot => return false,
            Self::One(_) => *self = Self::Empty,
            Self::Few(slots) => {
                let Ok(at) = slots.binary_search(&slot) else {
                    return false;
                };
                if slots.len() == 2 {
                    *self = Self::One(slots[1 - at]);
                } else {
                    Arc::make_mut(slots).remove(at);
                }
            }
            Self::Many(many) => {
                let block = many.block_of(slot);
                let Ok(at) = many.blocks[block].binary_search(&slot) else {
                    return false;
                };
                let many = Arc::make_mut(many);
                many.remove(block, at);
                if let [only] = &many.blocks[..]
                    && only.len() <= BLOCK / 2
                {
                    *self = Self::Few(Arc::clone(only));
                }
            }
        }
        true
    }

    /// The highest slot.
    pub(crate) fn last(&self) -> Option<u32> {
        match self {
            Self::Empty => None,
            Self::One(only) => Some(*only),
            Self::Few(slots) => slots.last().copied(),
            Self::Many(many) => many.blocks.last()?.last().copied(),
        }
    }

    /// The members in order.
    pub(crate) fn iter(&self) -> SlotIter<'_> {
        let (block, rest): (&[u32], &[Arc<Vec<u32>>]) = match self {
            Self::Empty => (&[], &[]),
            Self::One(only) => (std::slice::from_ref(only), &[]),
            Self::Few(slots) => (slots, &[]),
            Self::Many(many) => (&[], &many.blocks),
        };
        SlotIter {
            block: block.iter(),
            rest: rest.iter(),
        }
    }

    /// All members of some sets, each once, in order.
    pub(crate) fn union<'a>(sets: impl Iterator<Item = &'a Self>) -> Self {
        let mut sets = sets.filter(|set| !set.is_empty());
        let Some(first) = sets.next() else {
            return Self::Empty;
        };
        let mut slots: Vec<u32> = Vec::new();
        for set in sets {
            slots.extend(set.iter());
        }
        if slots.is_empty() {
            return first.clone();
        }
        slots.extend(first.iter());
        slots.sort_unstable();
        slots.dedup();
        Self::from_sorted(&slots)
    }

    fn from_sorted(slots: &[u32]) -> Self {
        match slots {
            [] => Self::Empty,
            [only] => Self::One(*only),
            few if few.len() <= BLOCK => Self::Few(Arc::new(few.to_vec())),
            many => Self::Many(Arc::new(Many {
                len: many.len(),
                blocks: many
                    .chunks(BLOCK)
                    .map(|block| Arc::new(block.to_vec()))
                    .collect(),
            })),
        }
    }
}

impl Many {
    /// The block that holds the slot, or where it belongs.
    fn block_of(&self, slot: u32) -> usize {
        let after = self
            .blocks
            .partition_point(|block| block.first().is_some_and(|f| *f <= slot));
        after.saturating_sub(1)
    }

    fn insert(&mut self, slot: u32) {
        let mut at = self.block_of(slot);
        self.len += 1;
        let is_full = |block: &Vec<u32>| block.len() == BLOCK;
        let is_append = self.blocks[at].last().is_some_and(|last| *last < slot);
        let next = self.blocks.get(at + 1);
        if is_full(&self.blocks[at]) && is_append && next.is_some_and(|next| !is_full(next)) {
            // Between two blocks, of which the second has room: a block of its own would be one too many.
            at += 1;
        }
        let block = &mut self.blocks[at];
        if is_full(block) {
            // Appending leaves full blocks behind; elsewhere a full block is halved.
            let middle = if is_append { BLOCK } else { BLOCK / 2 };
            let mut upper = Arc::make_mut(block).split_off(middle);
            let goes_up = upper.first().is_none_or(|first| *first <= slot);
            let target = if goes_up {
                &mut upper
            } else {
                Arc::make_mut(block)
            };
            insert_sorted(target, slot);
            self.blocks.insert(at + 1, Arc::new(upper));
        } else {
            insert_sorted(Arc::make_mut(block), slot);
        }
    }

    fn remove(&mut self, block: usize, at: usize) {
        self.len -= 1;
        let slots = Arc::make_mut(&mut self.blocks[block]);
        slots.remove(at);
        if slots.is_empty() {
            self.blocks.remove(block);
            return;
        }
        let is_small = |lower: &usize| {
            let pair = self.blocks.get(*lower..*lower + 2);
            pair.is_some_and(|pair| pair[0].len() + pair[1].len() <= BLOCK / 2)
        };
        if let Some(lower) = [block, block.saturating_sub(1)].into_iter().find(is_small) {
            let upper = self.blocks.remove(lower + 1);
            Arc::make_mut(&mut self.blocks[lower]).extend_from_slice(&upper);
        }
    }
}

impl<'a> SlotIter<'a> {
    /// Returns the next members of one block, at most `most`, which is not 0; empty only after the
    /// last.
    pub(crate) fn next_few(&mut self, most: usize) -> &'a [u32] {
        if self.block.len() == 0
            && let Some(block) = self.rest.next()
        {
            self.block = block.iter();
        }
        let left = self.block.as_slice();
        let (few, rest) = left.split_at(most.min(left.len()));
        self.block = rest.iter();
        few
    }
}

impl Iterator for SlotIter<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            if let Some(slot) = self.block.next() {
                return Some(*slot);
            }
            self.block = self.rest.next()?.iter();
        }
    }
}

fn insert_sorted(slots: &mut Vec<u32>, slot: u32) {
    if let Err(at) = slots.binary_search(&slot) {
        slots.insert(at, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn check(set: &SlotSet, model: &BTreeSet<u32>) {
        check_blocks(set);
        let mut iter = set.iter();
        let few = std::iter::repeat_with(|| iter.next_few(100)).take_while(|few| !few.is_empty());
        let few: Vec<u32> = few.flatten().copied().collect();
        assert_eq!(few, model.iter().copied().collect::<Vec<_>>());
        assert!(set.iter().eq(model.iter().copied()));
        assert_eq!(set.len(), model.len());
        assert_eq!(set.last(), model.last().copied());
        assert_eq!(set.is_empty(), model.is_empty());
    }

    proptest! {
        #[test]
        fn a_set_is_a_sorted_set(start in 0..4_000u32, writes in prop::collection::vec((0..5_000u32, any::<bool>()), 0..300)) {
            let (mut set, mut model) = (SlotSet::default(), BTreeSet::new());
            for slot in 0..start {
                prop_assert_eq!(set.insert(slot), model.insert(slot));
            }
            let (old, old_model) = (set.clone(), model.clone());
            for (slot, add) in writes {
                if add {
                    prop_assert_eq!(set.insert(slot), model.insert(slot));
                } else {
                    prop_assert_eq!(set.remove(slot), model.remove(&slot));
                }
                prop_assert_eq!(set.contains(slot), add);
            }
            check(&set, &model);
            check(&old, &old_model);
            let union = SlotSet::union([&set, &old].into_iter());
            check(&union, &model.union(&old_model).copied().collect());
            for slot in model {
                prop_assert!(set.remove(slot));
            }
            check(&set, &BTreeSet::new());
        }
    }

    #[test]
    fn few_left_of_many_blocks_are_in_one() {
        // From below, from above, and every other block first: what is left is far apart.
        let all = 4 * BLOCK as u32;
        let is_left = |slot: &u32| slot % BLOCK as u32 == BLOCK as u32 - 1;
        let ascending: Vec<u32> = (0..all).filter(|slot| !is_left(slot)).collect();
        let descending: Vec<u32> = ascending.iter().rev().copied().collect();
        let (even, odd): (Vec<u32>, Vec<u32>) =
            (ascending.iter()).partition(|slot| (*slot / BLOCK as u32).is_multiple_of(2));
        for order in [ascending, descending, [even, odd].concat()] {
            let (mut set, mut model) = (SlotSet::default(), BTreeSet::new());
            for slot in 0..all {
                assert!(set.insert(slot) && model.insert(slot));
            }
            for slot in order {
                assert!(set.remove(slot) && model.remove(&slot));
                check_blocks(&set);
            }
            check(&set, &model);
            for slot in model {
                assert!(set.remove(slot));
                check_blocks(&set);
            }
            check(&set, &BTreeSet::new());
        }
    }

    fn check_blocks(set: &SlotSet) {
        match set {
            SlotSet::Empty | SlotSet::One(_) => {}
            SlotSet::Few(slots) => assert!((2..=BLOCK).contains(&slots.len())),
            SlotSet::Many(many) => {
                let lens: Vec<_> = many.blocks.iter().map(|block| block.len()).collect();
                assert_eq!(lens.iter().sum::<usize>(), many.len);
                assert!(lens.iter().all(|len| (1..=BLOCK).contains(len)), "{lens:?}");
                assert!(
                    lens.windows(2).all(|two| two[0] + two[1] > BLOCK / 2),
                    "{lens:?}"
                );
                assert!(lens.len() > 1 || lens[0] > BLOCK / 2, "{lens:?}");
            }
        }
    }

    #[test]
    fn appending_fills_blocks() {
        let mut set = SlotSet::default();
        for slot in 0..10 * BLOCK as u32 {
            set.insert(slot);
        }
        assert_eq!(set.iter().rest.len(), 10);
    }
}
