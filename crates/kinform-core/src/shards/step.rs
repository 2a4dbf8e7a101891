//! The output of sharding: orders to informers, queues and the client of leases.
//!
//! ```text
//! Sharding → Step → shell: informers, queues, lease client
//! ```
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use super::record::ShardRecord;
use super::split::ShardId;

/// The name of a request: increasing, never used twice by one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// One action for the shell; actions are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Extend the informers by the range of this shard, then say
    /// [`Input::RangeSynced`](super::Input::RangeSynced).
    Extend(ShardId),
    /// Shrink the informers by the range of this shard. An object that leaves is no delete.
    Shrink(ShardId),
    /// Let workers take keys of this shard.
    Open(ShardId),
    /// Give out no more keys of this shard, end its running work, then say
    /// [`Input::Drained`](super::Input::Drained).
    Close {
        /// The shard.
        shard: ShardId,
        /// The reason.
        reason: CloseReason,
    },
    /// Write the lease of a shard; no other write of it is open.
    Write(Write),
    /// Clear the holder of a member's lease at this version, and keep the rest: its term expired.
    Bury {
        /// The name of the write.
        id: RequestId,
        /// The name of the lease.
        member: Arc<str>,
        /// The version that it must have.
        version: u64,
    },
    /// Read the lease of a shard consistently, and say what was found.
    ReadShard(ShardId),
    /// Read the lease of a member consistently, then say
    /// [`Input::MemberRead`](super::Input::MemberRead).
    ReadMember {
        /// The name of the read.
        id: RequestId,
        /// The name of the lease.
        name: Arc<str>,
    },
    /// Write the weight zero to the own member lease: this process gives all shards up.
    Leave,
    /// Something for the log.
    Report(Report),
    /// The end: no shard is held, no write is open, and the member lease may be released. No step
    /// follows, and no input has an effect.
    Left,
}

/// The reason for which the queue of a shard is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Another member claimed it. Running work may end, within a deadline of the shell.
    HandOver,
    /// This process stops. Running work may end, within a deadline of the shell.
    Stop,
    /// It is no longer this member's: work must end at once.
    Lost,
}

/// A write of a shard's lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its name.
    pub id: RequestId,
    /// The shard.
    pub shard: ShardId,
    /// The version that the lease must have; `None` to create it.
    pub version: Option<u64>,
    /// The content to store.
    pub record: ShardRecord,
    /// The purpose; the content says all that counts.
    pub purpose: Purpose,
}

/// The purpose of a write of a shard's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// To be the next owner.
    Claim,
    /// To take a claim back.
    Withdraw,
    /// To become the owner.
    Acquire,
    /// To be the owner no longer.
    Release,
}

/// Something for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// There are more members than this machine keeps; this one is ignored.
    TooManyMembers {
        /// The name of its lease.
        name: Arc<str>,
    },
}
