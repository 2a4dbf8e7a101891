//! Leases of members and of shards, as they were read.
//!
//! ```text
//! Lease NAME-member-ID ──shell──▶ MemberLease { term, renewal, weight }
//! Lease NAME-shard-K   ──shell──▶ ShardLease { owner, claim }   and back, at a version
//! ```
//!
//! A renewal is text, compared for equality and never for order: clocks of other machines decide
//! nothing here. Versions are numbers, since the order of two sightings matters; a server of
//! Kubernetes has no others.
//!
//! Upstream counterpart: none; the leases are those of `client-go:tools/leaderelection`.

use std::sync::Arc;
use std::time::Duration;

use super::split::ShardId;

/// A term of a member: two terms of one name differ in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberTerm {
    /// `metadata.uid` of the member's lease.
    pub uid: Arc<str>,
    /// `leaseTransitions` in it.
    pub transitions: i32,
}

/// A member during one of its terms: the owner of a shard, or a claimant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    /// The name of the member's lease.
    pub member: Arc<str>,
    /// The term.
    pub term: MemberTerm,
}

/// The lease of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLease {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// The term that it was last taken for.
    pub term: MemberTerm,
    /// Set while the term is held: the lease has a holder.
    pub is_held: bool,
    /// `renewTime`, as its writer formatted it.
    pub renewal: Arc<str>,
    /// `leaseDurationSeconds`.
    pub duration: Duration,
    /// The member's part of the shards compared with that of others; zero for one that leaves.
    pub weight: u32,
}

/// The lease of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLease {
    /// The shard.
    pub shard: ShardId,
    /// `metadata.resourceVersion`.
    pub version: u64,
    /// Its content.
    pub record: ShardRecord,
}

/// The content of a shard's lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardRecord {
    /// The member that works on the shard, while its term lasts.
    pub owner: Option<Holder>,
    /// The member that wants it next, while its term lasts: an annotation.
    pub claim: Option<Holder>,
}
