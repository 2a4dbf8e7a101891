//! A cursor: reads a version of a persistent array at many indices at once.
//!
//! ```text
//! indices ──▶ places of leaves ──▶ places of values ──▶ values
//! ```
//!
//! A processor overlaps the cache misses of reads that do not wait for each other, as many as there are among the few
//! hundred instructions that it sees at once. So each of these steps is a loop of its own, over all indices, that does
//! nothing else.
//!
//! Upstream counterpart: none; client-go looks each key up in a Go map (`client-go:tools/cache/thread_safe_store.go`).
//! Complexity: O(indices), and one way down the tree for each run of 4,096 indices that some of them lie in.

use triomphe::Arc;

use super::radix::{BITS, Leaf, Leaves, Node, Radix, WIDTH, digit, leaves_of};

/// Reads a version at indices of the caller's, best in ascending order.
#[derive(Debug)]
pub(super) struct Cursor<'a, T> {
    path: Path<'a, T>,
    // Of those that one call asks for, kept for the room that they have.
    leaf_places: Vec<Option<&'a Option<Arc<Leaf<T>>>>>,
    value_places: Vec<Option<&'a Option<T>>>,
}

/// The path to the last leaf: of indices in ascending order, most are one step from there.
#[derive(Debug)]
struct Path<'a, T> {
    radix: &'a Radix<T>,
    // INVARIANT: what `nodes_at` says of every index that has these digits: all but the last three.
    nodes: (usize, Option<&'a [Option<Node<T>>]>),
    // INVARIANT: what `leaves_of` says of every index that has these digits: all but the last two.
    leaves: (usize, Option<&'a Leaves<T>>),
}

impl<'a, T: Clone> Cursor<'a, T> {
    pub(super) fn new(radix: &'a Radix<T>) -> Self {
        Self {
            path: Path {
                radix,
                nodes: (usize::MAX, None),
                leaves: (usize::MAX, None),
            },
            leaf_places: Vec::new(),
            value_places: Vec::new(),
        }
    }

    /// Appends what is at each of these indices.
    pub(super) fn get_all(&mut self, indices: &[u32], found: &mut Vec<Option<&'a T>>) {
        let Self {
            path,
            leaf_places,
            value_places,
        } = self;
        if let [only] = indices {
            found.push(path.radix.get(*only as usize));
            return;
        }
        leaf_places.clear();
        leaf_places.extend(indices.iter().map(|at| path.place_of_leaf(*at as usize)));
        value_places.clear();
        value_places.extend(leaf_places.iter().zip(indices).map(|(place, at)| {
            let leaf = (*place)?.as_deref()?;
            Some(&leaf[*at as usize % WIDTH])
        }));
        found.extend(value_places.iter().map(|place| (*place)?.as_ref()));
    }
}

impl<'a, T: Clone> Path<'a, T> {
    #[inline]
    fn place_of_leaf(&mut self, index: usize) -> Option<&'a Option<Arc<Leaf<T>>>> {
        let group = index >> (2 * BITS);
        if self.leaves.0 != group {
            let groups = group >> BITS;
            if self.nodes.0 != groups {
                self.nodes = (groups, self.radix.nodes_at(index));
            }
            let leaves = self.nodes.1.and_then(|nodes| leaves_of(nodes, index));
            self.leaves = (group, leaves);
        }
        Some(&self.leaves.1?[digit(index, 1)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(radix: &Radix<usize>, calls: &[Vec<u32>]) -> Vec<Option<usize>> {
        let (mut cursor, mut found) = (Cursor::new(radix), Vec::new());
        for indices in calls {
            cursor.get_all(indices, &mut found);
        }
        found.into_iter().map(Option::<&usize>::copied).collect()
    }

    proptest! {
        #[test]
        fn in_whatever_order_it_is_asked_it_finds_what_is_there(
            bits in 4..20_u32,
            held in prop::collection::vec(any::<u32>(), 0..60),
            calls in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..5), 0..20),
        ) {
            let mut radix = Radix::default();
            for index in &held {
                radix.set((index >> (32 - bits)) as usize, *index as usize);
            }
            // In the tree, around what is held, and beyond.
            let near = |at: &u32| match (at % 3, held.get(*at as usize % 61)) {
                (0, Some(index)) => index >> (32 - bits),
                (1, _) => at >> (32 - bits),
                _ => at >> 8,
            };
            let calls: Vec<Vec<u32>> = calls.iter().map(|call| call.iter().map(near).collect()).collect();
            let expected: Vec<_> = calls.concat().into_iter().map(|at| radix.get(at as usize).copied()).collect();
            prop_assert_eq!(found(&radix, &calls), expected);
        }
    }

    #[test]
    fn what_lies_beyond_a_low_tree_hides_nothing_in_it() {
        let mut radix = Radix::default();
        radix.set(5, 1);
        let calls = [vec![300, 5, 4_096, 5]];
        assert_eq!(found(&radix, &calls), [None, Some(1), None, Some(1)]);
    }
}
