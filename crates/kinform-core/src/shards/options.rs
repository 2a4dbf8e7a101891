//! The timings of sharding.
//!
//! ```text
//! ShardingOptions ──▶ Sharding
//! ```
//!
//! The timings of a member's own term are those of its lease, in
//! [`LeaseOptions`](crate::election::LeaseOptions); all members use the same.
//! Upstream counterpart: none.

use std::time::Duration;

/// The options of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingOptions {
    /// The lease duration of members. It is waited for where a shard names a term whose lease does
    /// not exist. Default 15 s.
    pub lease_duration: Duration,
    /// The time after which the next member in rendezvous order may take a free shard, or bury an
    /// expired member, if the first one has not. Default 400 ms.
    pub patience: Duration,
    /// The time from a write or a read without an outcome to the next one. Default 1 s.
    pub retry_period: Duration,
    /// The least time between two looks at the distribution. Default 50 ms.
    pub plan_period: Duration,
    /// The member's part of the shards, compared with the weights of others. Default 100.
    pub weight: u32,
}

impl Default for ShardingOptions {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            patience: Duration::from_millis(400),
            retry_period: Duration::from_secs(1),
            plan_period: Duration::from_millis(50),
            weight: 100,
        }
    }
}
