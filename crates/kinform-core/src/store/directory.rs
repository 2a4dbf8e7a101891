//! A persistent hash directory: from the hash of a name to the slot that holds the named thing.
//!
//! ```text
//! hash32 ──top bits──▶ shard (one small hash table) ──rest──▶ candidates ──caller compares──▶ slot
//! ```
//!
//! It stores no names: eight bytes an entry, and the caller compares the name inside the slot.
//! A write copies one shard and the path to it, once a version. Shards are split as the directory
//! grows, so that the copy stays a few kilobytes. Only new and removed names write here; updates
//! do not.
//!
//! Names are chosen by tenants, so the hash must be seeded: see [`Seed`].
//!
//! Upstream counterpart: the key map of `client-go:tools/cache/thread_safe_store.go`.
//! Complexity: O(1); a write in a new version copies up to some 256 entries.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use triomphe::Arc;

use super::radix::{Radix, WIDTH};

// BOUND: entries a shard holds on average before the shards are split 16 ways.
const SHARD_ENTRIES: usize = 256;
const SPLIT_BITS: u32 = 4;
// BOUND: 2^20 shards; at four billion slots a shard holds 4,096 entries.
const MAX_BITS: u32 = 20;

/// The seed of one store's hashes, so that no outsider can choose names that collide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seed(pub u64);

impl Seed {
    pub(crate) fn hash(self, name: impl Hash) -> u32 {
        let hash = FixedState::with_seed(self.0).hash_one(name);
        (hash ^ (hash >> 32)) as u32
    }
}

/// A slot, and the hash of the name in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) hash: u32,
    pub(super) slot: u32,
}

type Shard = HashTable<Entry>;

/// From hashes to slots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Directory {
    shards: Radix<Arc<Shard>>,
    bits: u32,
    len: usize,
}

impl Directory {
    /// The slot under `hash` for which `is_it` holds.
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let shard = self.shards.get(shard_of(hash, self.bits))?;
        shard
            .find(spread(hash), |e| e.hash == hash && is_it(e.slot))
            .map(|e| e.slot)
    }

    /// Puts a slot under a hash; the caller knows that its name is not there.
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        self.make_room(1);
        self.place(&[Entry { hash, slot }]);
        self.len += 1;
    }

    /// Takes entries over, whose names are not there, and leaves none; shard by shard, so that each is brought
    /// into the processor's cache once.
    ///
    /// # Complexity
    /// O(n log n) of small numbers, and a look at each shard that an entry belongs to; O(all) when shards are split.
    pub(super) fn extend(&mut self, entries: &mut Vec<Entry>) {
        self.make_room(entries.len());
        entries.sort_unstable_by_key(|entry| entry.hash);
        let bits = self.bits;
        let is_near = |a: &Entry, b: &Entry| shard_of(a.hash, bits) == shard_of(b.hash, bits);
        for near in entries.chunk_by(is_near) {
            self.place(near);
        }
        self.len += entries.len();
        entries.clear();
    }

    /// Takes a slot away from under a hash.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let at = shard_of(hash, self.bits);
        let Some(shard) = self.shards.slot(at) else {
            return;
        };
        let shard = Arc::make_mut(shard);
        if let Ok(entry) = shard.find_entry(spread(hash), |e| e.slot == slot) {
            entry.remove();
            self.len -= 1;
        }
        if shard.is_empty() {
            self.shards.take(at);
        }
        if self.len == 0 {
            *self = Self::default();
        }
    }

    /// Returns the number of names.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts entries of one shard, at least one, into it; the caller counts them.
    fn place(&mut self, near: &[Entry]) {
        let at = shard_of(near[0].hash, self.bits);
        let shard = Arc::make_mut(self.shards.slot(at).get_or_insert_default());
        shard.reserve(near.len(), |e| spread(e.hash));
        for entry in near {
            shard.insert_unique(spread(entry.hash), *entry, |e| spread(e.hash));
        }
    }

    /// Splits the shards until there is room for `more` entries.
    fn make_room(&mut self, more: usize) {
        while self.len + more > SHARD_ENTRIES << self.bits && self.bits < MAX_BITS {
            self.split();
        }
    }

    fn split(&mut self) {
        let old = std::mem::take(&mut self.shards);
        self.bits += SPLIT_BITS;
        let mut next = 0;
        while let Some((base, shards)) = old.leaf_from(next) {
            for entry in shards.iter().flatten().flat_map(|shard| shard.iter()) {
                self.place(&[*entry]);
            }
            next = base + WIDTH;
        }
    }
}

/// The shard is chosen by the top bits, the place in it by all of them, spread anew.
fn shard_of(hash: u32, bits: u32) -> usize {
    (u64::from(hash) >> (32 - bits)) as usize
}

fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_keeps_what_it_had_through_splits_and_removals() {
        let seed = Seed(7);
        let mut directory = Directory::default();
        let hash = |slot: u32| seed.hash(slot.to_string());
        for slot in 0..3_000 {
            directory.insert(hash(slot), slot);
        }
        let old = directory.clone();
        for slot in 3_000..80_000 {
            directory.insert(hash(slot), slot);
        }
        for slot in (0..80_000).filter(|slot| slot % 3 == 0) {
            directory.remove(hash(slot), slot);
        }
        for slot in 0..80_000 {
            let found = directory.find(hash(slot), |s| s == slot);
            assert_eq!(found, (slot % 3 != 0).then_some(slot));
            assert_eq!(
                old.find(hash(slot), |s| s == slot),
                (slot < 3_000).then_some(slot)
            );
        }
        assert_eq!((directory.len(), old.len()), (53_333, 3_000));
    }

    #[test]
    fn equal_hashes_are_told_apart_by_the_caller() {
        let mut directory = Directory::default();
        directory.insert(5, 1);
        directory.insert(5, 2);
        assert_eq!(directory.find(5, |slot| slot == 2), Some(2));
        directory.remove(5, 2);
        assert_eq!(directory.find(5, |slot| slot == 2), None);
        assert_eq!(directory.find(5, |slot| slot == 1), Some(1));
    }
}
