//! The input of sharding: everything that its shell can observe.
//!
//! ```text
//! watches and reads of leases, answers, informers, workers, own term → Input → Sharding
//! ```
//!
//! Sightings may come late, twice and in any order: versions order those of one lease.
//! Upstream counterpart: none.

use std::sync::Arc;

use crate::time::Instant;

use super::record::{MemberLease, MemberTerm, ShardLease};
use super::split::ShardId;
use super::step::RequestId;

/// One observation of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The time of [`next_wake`](super::Sharding::next_wake) has come.
    Timer,
    /// All leases that exist were seen once. Before it nothing is taken.
    Listed,
    /// A member's lease, by a list or a watch.
    MemberSeen(MemberLease),
    /// A member's lease was deleted at this version, by a watch.
    MemberGone {
        /// The name of the lease.
        name: Arc<str>,
        /// The version of the deletion.
        version: u64,
    },
    /// The answer to [`Step::ReadMember`](super::Step::ReadMember): a consistent read. A read that
    /// failed is not reported; it is asked for again.
    MemberRead {
        /// The name of the read.
        id: RequestId,
        /// The name of the lease.
        name: Arc<str>,
        /// The lease; `None` if there is none.
        lease: Option<MemberLease>,
    },
    /// A shard's lease, by a list, a watch or a read.
    ShardSeen(ShardLease),
    /// A shard's lease does not exist. By a watch, with the version of the deletion; by a
    /// consistent read, without one.
    ShardGone {
        /// The shard.
        shard: ShardId,
        /// The version of the deletion.
        version: Option<u64>,
    },
    /// The outcome of a write.
    Answer {
        /// The write.
        id: RequestId,
        /// The outcome.
        answer: Answer,
    },
    /// The informers have the range of this shard, since it was last extended by it.
    RangeSynced(ShardId),
    /// No work of this shard runs, and no request of it is under way: the answer to
    /// [`Step::Close`](super::Step::Close).
    Drained(ShardId),
    /// A term of this process's own member lease began. No work of an earlier one runs.
    TermBegan {
        /// The term.
        term: MemberTerm,
        /// The version of the write that took the lease.
        version: u64,
        /// Its end, unless it is renewed.
        ends_at: Instant,
    },
    /// The own lease was renewed.
    TermExtended {
        /// The new end of the term.
        ends_at: Instant,
    },
    /// The own term is over.
    TermEnded,
    /// The process wants to end: all shards are given up.
    Stop,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was stored at this version.
    Stored {
        /// The version of the lease since.
        version: u64,
    },
    /// The lease has another version, exists already, or is gone. Nothing was stored.
    Conflict,
    /// Any other failure. It may have been stored, or may still be.
    Failed,
}
