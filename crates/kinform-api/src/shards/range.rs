//! Ranges of hashes: one, and a set of them in its simplest form.
//!
//! ```text
//! ranges in any order ──▶ Ranges: sorted, apart, joined where they touch ──▶ selector, differences
//! ```
//!
//! A start is part of its range and an end is not; the greatest end is 2^64, which is why ends are
//! wider than hashes. No range is empty; a set of ranges may be.
//!
//! INVARIANT: of two neighbours in a set, the first ends before the second starts.
//!
//! Upstream counterpart: `apimachinery:pkg/sharding` (`ShardRangeRequirement`).

use std::fmt;

/// The end of the last range: 2^64.
pub const TOP: u128 = 1 << 64;

/// A range of hashes that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardRange {
    start: u64,
    /// The last hash in it.
    last: u64,
}

impl ShardRange {
    /// All hashes.
    pub const ALL: Self = Self {
        start: 0,
        last: u64::MAX,
    };

    /// Makes the range from `start` to `end`, without `end`. Returns `None` if it is empty, or if
    /// `end` is greater than 2^64.
    #[must_use]
    pub fn new(start: u64, end: u128) -> Option<Self> {
        let last = u64::try_from(end.checked_sub(1)?).ok()?;
        (start <= last).then_some(Self { start, last })
    }

    /// The first hash in it.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The number after its last hash; 2^64 at most.
    #[must_use]
    pub const fn end(self) -> u128 {
        self.last as u128 + 1
    }

    /// Returns whether it has this hash.
    #[must_use]
    pub const fn contains(self, hash: u64) -> bool {
        self.start <= hash && hash <= self.last
    }

    /// Returns whether both together are one range.
    const fn touches(self, other: Self) -> bool {
        self.end() >= other.start as u128 && other.end() >= self.start as u128
    }
}

impl fmt::Debug for ShardRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}..{:#018x}", self.start, self.end())
    }
}

/// A set of hashes as ranges.
///
/// # Complexity
/// Union and difference are linear in the ranges of both, a question for a hash is logarithmic.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Ranges(Vec<ShardRange>);

impl Ranges {
    /// No hash.
    #[must_use]
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// All hashes.
    #[must_use]
    pub fn all() -> Self {
        Self(vec![ShardRange::ALL])
    }

    /// The ranges, sorted, with gaps between them.
    #[must_use]
    pub fn as_slice(&self) -> &[ShardRange] {
        &self.0
    }

    /// Returns whether it has no hash.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether it has this hash.
    #[must_use]
    pub fn contains(&self, hash: u64) -> bool {
        let at = self.0.partition_point(|range| range.last < hash);
        self.0.get(at).is_some_and(|range| range.contains(hash))
    }

    /// The hashes of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.0.iter().chain(&other.0).copied().collect()
    }

    /// The hashes of this one that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Vec::new();
        let mut cuts = other.0.iter().copied().peekable();
        for range in &self.0 {
            let mut start = u128::from(range.start);
            while let Some(cut) = cuts.peek().copied().filter(|cut| cut.start <= range.last) {
                push(&mut rest, start, u128::from(cut.start));
                start = start.max(cut.end());
                if cut.end() > range.end() {
                    break; // the next range may begin inside of it
                }
                cuts.next();
            }
            push(&mut rest, start, range.end());
        }
        let set = Self(rest);
        debug_assert!(set.is_normal(), "{set:?}");
        set
    }

    /// The part of all hashes that it has, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let sizes = self
            .0
            .iter()
            .map(|range| range.end() - u128::from(range.start));
        sizes.sum::<u128>() as f64 / TOP as f64
    }

    fn is_normal(&self) -> bool {
        self.0.is_sorted() && self.0.windows(2).all(|pair| !pair[0].touches(pair[1]))
    }
}

/// Adds a range unless it is empty.
fn push(to: &mut Vec<ShardRange>, start: u128, end: u128) {
    let range = u64::try_from(start)
        .ok()
        .and_then(|start| ShardRange::new(start, end));
    to.extend(range);
}

impl FromIterator<ShardRange> for Ranges {
    fn from_iter<I: IntoIterator<Item = ShardRange>>(ranges: I) -> Self {
        let mut all: Vec<ShardRange> = ranges.into_iter().collect();
        all.sort_unstable();
        all.dedup_by(|next, before| {
            let is_joined = before.touches(*next);
            if is_joined {
                before.last = before.last.max(next.last);
            }
            is_joined
        });
        let set = Self(all);
        debug_assert!(set.is_normal(), "{set:?}");
        set
    }
}

impl From<ShardRange> for Ranges {
    fn from(range: ShardRange) -> Self {
        Self(vec![range])
    }
}

impl fmt::Debug for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ranges between multiples of 2^61: eight cells of the circle.
    fn set(cells: u8) -> Ranges {
        let cell = |at: u128| ShardRange::new((at << 61) as u64, (at + 1) << 61).unwrap();
        (0..8).filter(|at| cells >> at & 1 == 1).map(cell).collect()
    }

    #[test]
    fn ranges_are_not_empty_and_end_at_two_to_the_sixty_four_at_most() {
        assert_eq!(ShardRange::new(0, TOP), Some(ShardRange::ALL));
        assert_eq!(ShardRange::new(u64::MAX, TOP).unwrap().end(), TOP);
        assert_eq!(ShardRange::new(5, 5), None);
        assert_eq!(ShardRange::new(5, 4), None);
        assert_eq!(ShardRange::new(0, 0), None);
        assert_eq!(ShardRange::new(0, TOP + 1), None);
        assert!(ShardRange::ALL.contains(u64::MAX));
    }

    #[test]
    fn ranges_that_touch_are_joined_and_others_are_sorted() {
        assert_eq!(set(0b0000_0110).as_slice().len(), 1);
        assert_eq!(set(0b1010_0110).as_slice().len(), 3);
        assert_eq!(set(0xff), Ranges::all());
        assert_eq!(
            format!("{:?}", set(0x80)),
            "[0xe000000000000000..0x10000000000000000]"
        );
    }

    proptest! {
        #[test]
        fn unions_differences_shares_and_questions_are_those_of_sets(a: u8, b: u8) {
            prop_assert_eq!(set(a).union(&set(b)), set(a | b));
            prop_assert_eq!(set(a).difference(&set(b)), set(a & !b));
            prop_assert_eq!(set(a).is_empty(), a == 0);
            prop_assert_eq!(set(a).share(), f64::from(a.count_ones()) / 8.0);
            for at in 0..8_u64 {
                let is_in = a >> at & 1 == 1;
                prop_assert_eq!(set(a).contains(at << 61), is_in);
                prop_assert_eq!(set(a).contains((at << 61) + ((1 << 61) - 1)), is_in);
            }
        }

        #[test]
        fn differences_have_the_hashes_of_one_side_alone(
            a in prop::collection::vec((0_u64..40, 1_u64..9), 0..6),
            b in prop::collection::vec((0_u64..40, 1_u64..9), 0..6),
        ) {
            let make = |all: &[(u64, u64)]| -> Ranges {
                let range = |&(start, size): &(u64, u64)| {
                    ShardRange::new(start, u128::from(start + size)).unwrap()
                };
                all.iter().map(range).collect()
            };
            let (a, b) = (make(&a), make(&b));
            let (both, rest) = (a.union(&b), a.difference(&b));
            for hash in 0..60 {
                prop_assert_eq!(both.contains(hash), a.contains(hash) || b.contains(hash));
                prop_assert_eq!(rest.contains(hash), a.contains(hash) && !b.contains(hash));
            }
        }
    }
}
