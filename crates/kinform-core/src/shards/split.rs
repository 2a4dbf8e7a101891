//! The division of all keys into shards.
//!
//! ```text
//! Shards { count, field } + key → hash → number of a shard → its range
//! ```
//!
//! Shards are equal parts of all hashes: shard k starts at the first hash whose share of the whole
//! is k / count. The last one ends at 2^64.
//!
//! Upstream counterpart: `apimachinery:pkg/sharding`, which leaves the choice of ranges to clients.

use std::fmt;
use std::num::NonZeroU32;

use kinform_api::shards::{ShardField, ShardRange, TOP, key_hash};

/// BOUND: shards; each is a Lease.
pub const MAX_SHARDS: u32 = 16_384;

/// The number of a shard, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A division of all keys into equal shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shards {
    count: NonZeroU32,
    field: ShardField,
}

impl Shards {
    /// Divides by the hash of the namespace. Returns `None` unless `count` is from 1 to 16,384.
    #[must_use]
    pub fn by_namespace(count: u32) -> Option<Self> {
        Self::new(count, ShardField::Namespace)
    }

    /// Divides by the hash of the uid. Returns `None` unless `count` is from 1 to 16,384.
    #[must_use]
    pub fn by_uid(count: u32) -> Option<Self> {
        Self::new(count, ShardField::Uid)
    }

    fn new(count: u32, field: ShardField) -> Option<Self> {
        let count = NonZeroU32::new(count).filter(|count| count.get() <= MAX_SHARDS)?;
        Some(Self { count, field })
    }

    /// The number of shards.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count.get()
    }

    /// The field whose hash decides.
    #[must_use]
    pub const fn field(self) -> ShardField {
        self.field
    }

    /// All shards.
    pub fn ids(self) -> impl ExactSizeIterator<Item = ShardId> {
        (0..self.count()).map(ShardId)
    }

    /// The range of a shard; `None` if there is no such shard.
    #[must_use]
    pub fn range(self, shard: ShardId) -> Option<ShardRange> {
        let start = self.start(shard.0);
        let start = u64::try_from(start).ok()?;
        ShardRange::new(start, self.start(shard.0.checked_add(1)?))
    }

    /// The shard of a key: of a uid or of a namespace, as the field says.
    #[must_use]
    pub fn shard_of(self, key: &str) -> ShardId {
        self.shard_of_hash(key_hash(key))
    }

    /// The shard of a hash.
    #[must_use]
    pub fn shard_of_hash(self, hash: u64) -> ShardId {
        let share = u128::from(hash) * u128::from(self.count()) / TOP;
        // A hash is below 2^64, so its share is below the count.
        ShardId(u32::try_from(share).unwrap_or(u32::MAX))
    }

    /// The first hash of a shard; for the count itself, 2^64.
    fn start(self, shard: u32) -> u128 {
        (u128::from(shard) * TOP).div_ceil(u128::from(self.count()))
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::shards::Ranges;

    use super::*;

    #[test]
    fn shards_are_equal_parts_without_gap_and_each_hash_is_in_its_own() {
        for count in [1, 2, 3, 7, 64, 1_000, MAX_SHARDS - 1, MAX_SHARDS] {
            let shards = Shards::by_uid(count).unwrap();
            let ranges: Vec<_> = shards.ids().map(|at| shards.range(at).unwrap()).collect();
            assert_eq!(ranges.iter().copied().collect::<Ranges>(), Ranges::all());
            let sizes = ranges
                .iter()
                .map(|range| range.end() - u128::from(range.start()));
            assert_eq!(sizes.clone().sum::<u128>(), TOP);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
            for (at, range) in shards.ids().zip(&ranges) {
                assert_eq!(shards.shard_of_hash(range.start()), at);
                assert_eq!(shards.shard_of_hash((range.end() - 1) as u64), at);
            }
            assert_eq!(shards.range(ShardId(count)), None);
            assert_eq!(shards.range(ShardId(u32::MAX)), None);
        }
    }

    #[test]
    fn counts_are_from_one_to_the_bound() {
        for count in [0, MAX_SHARDS + 1, u32::MAX] {
            assert_eq!(Shards::by_namespace(count), None, "{count}");
        }
        let shards = Shards::by_namespace(4).unwrap();
        assert_eq!(shards.field().path(), "object.metadata.namespace");
        assert_eq!(
            shards.shard_of("shop"),
            shards.shard_of_hash(key_hash("shop"))
        );
    }
}
