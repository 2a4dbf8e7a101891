//! A lease: its record as it was read, and as it is to be written.
//!
//! ```text
//! coordination.k8s.io/v1 Lease ──shell──▶ Lease { uid, version, Record }
//! NewRecord ──shell stamps renewTime──▶ spec of a create or an update
//! ```
//!
//! Times of a record are text, compared for equality and never for order: clocks of other machines
//! decide nothing here.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/resourcelock` (`LeaderElectionRecord`,
//! `LeaseSpecToLeaderElectionRecord`).

use kinform_api::ResourceVersion;

/// A lease as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`. Of a deleted lease it is the version of the deletion.
    pub version: ResourceVersion,
    /// `spec`.
    pub record: Record,
    /// `spec.preferredHolder`; empty unless a coordinator ends the holder's term. It is not a part of
    /// the record: it restarts no wait, and outside of a coordinated election it means nothing.
    pub preferred_holder: String,
}

/// The spec of a lease; an absent field is empty or zero, as upstream reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `holderIdentity`; empty for a released lease.
    pub holder: String,
    /// `leaseDurationSeconds`.
    pub duration_seconds: i32,
    /// `leaseTransitions`.
    pub transitions: i32,
    /// `acquireTime`, as its writer formatted it.
    pub acquire_time: String,
    /// `renewTime`, as its writer formatted it.
    pub renew_time: String,
}

/// The spec of a lease to be written. The shell sets `renewTime` to the time of day, and tells the
/// same text with [`Input::Sent`](super::Input::Sent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecord {
    /// `holderIdentity`.
    pub holder: String,
    /// `leaseDurationSeconds`.
    pub duration_seconds: i32,
    /// `leaseTransitions`.
    pub transitions: i32,
    /// `acquireTime`.
    pub acquire_time: AcquireTime,
}

/// `acquireTime` of a record to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireTime {
    /// The same text as `renewTime`: the lease is taken or released.
    Now,
    /// This text, as it was read: the lease is renewed.
    Kept(String),
}
