//! The last writes of the owners before, of the shards that this member has.
//!
//! ```text
//! Acquire ──▶ told │ unknown ──▶ each Open of this ownership ──▶ Shrink, or lost: forgotten
//! ```
//!
//! A shard may be opened more than once: its owner keeps it if a claim is taken back while its
//! reconciles end. Its first opening may not have been over then.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;

use kinform::ShardId;
use kinform::controller::LastWrites;

use crate::leader::Inherited;

/// The last writes of the owners before.
#[derive(Debug, Default)]
pub(super) struct Inheritance {
    // BOUND: as many as shards.
    shards: BTreeMap<ShardId, Inherited>,
}

impl Inheritance {
    /// The lease is taken from a state that told this.
    pub(super) fn take(&mut self, shard: ShardId, told: Inherited) {
        self.shards.insert(shard, told);
    }

    /// The lease is made. Without an owner before there are no writes; the own lease, which somebody
    /// deleted, is made again, and tells nothing new.
    pub(super) fn make(&mut self, shard: ShardId) {
        let nothing = || Inherited::Told(LastWrites::default());
        self.shards.entry(shard).or_insert_with(nothing);
    }

    /// The writes that the caches need before the shard is worked on.
    pub(super) fn of(&self, shard: ShardId) -> Inherited {
        self.shards.get(&shard).cloned().unwrap_or_default()
    }

    /// The shard is this member's no more.
    pub(super) fn forget(&mut self, shard: ShardId) {
        self.shards.remove(&shard);
    }
}

#[cfg(test)]
mod tests {
    use kinform_api::GroupResource;

    use super::*;

    fn told() -> Inherited {
        let mut writes = LastWrites::default();
        writes.add(&GroupResource::new("apps", "deployments"), None);
        Inherited::Told(writes)
    }

    #[test]
    fn what_was_told_is_needed_at_each_opening_until_the_shard_is_given_up() {
        let (shard, other) = (ShardId(1), ShardId(2));
        let mut inheritance = Inheritance::default();
        inheritance.take(shard, told());
        assert_eq!(inheritance.of(shard), told());
        // Its lease was deleted, before it was opened or after it.
        inheritance.make(shard);
        assert_eq!(inheritance.of(shard), told());
        inheritance.make(other);
        assert_eq!(
            inheritance.of(other),
            Inherited::Told(LastWrites::default())
        );
        inheritance.forget(shard);
        assert_eq!(inheritance.of(shard), Inherited::Unknown);
    }
}
