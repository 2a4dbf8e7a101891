//! The output of an election: requests, terms, reports.
//!
//! ```text
//! Election → Step → shell: lease client, guard, metrics, health
//! ```
//!
//! Upstream counterpart: `LeaderCallbacks`, `LeaderMetric` and the calls of `resourcelock` in
//! `client-go:tools/leaderelection`.

use kinform_api::ResourceVersion;

use crate::time::Instant;

use super::input::{RefusalKind, RequestId};
use super::lease::NewRecord;

/// One action for the shell; actions are carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this request; no other one is open.
    Request(Request),
    /// Drop this request: its timeout is over, or its answer is no longer needed.
    Close(RequestId),
    /// A term begins.
    ///
    /// Upstream: `OnStartedLeading`.
    TermBegan(Term),
    /// The running term was renewed.
    TermExtended {
        /// Its new end.
        ends_at: Instant,
    },
    /// The running term is over: its work must stop, then the shell says
    /// [`Input::Idle`](super::Input::Idle).
    ///
    /// Upstream: `OnStoppedLeading`, which is also called where no term began.
    TermEnded {
        /// The term.
        term: Term,
        /// The reason.
        reason: EndReason,
    },
    /// The lease has another holder; once a change, also for the first one.
    ///
    /// Upstream: `OnNewLeader`, called when an attempt ends.
    LeaderChanged {
        /// The holder; `None` for a lease that was released or deleted.
        identity: Option<String>,
    },
    /// Something for logs, metrics or health.
    Report(Report),
    /// The end: no step follows, and no input has an effect.
    Stopped,
}

/// A request on the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Its content.
    pub action: Action,
}

/// The content of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the lease consistently, without a version.
    Get,
    /// Create the lease.
    Create {
        /// Its spec.
        record: NewRecord,
    },
    /// Replace the spec, by a client that holds the lease afterwards.
    Update {
        /// The uid that the lease must have.
        uid: String,
        /// The version that the lease must have.
        version: ResourceVersion,
        /// Its spec.
        record: NewRecord,
    },
    /// Replace the spec by one without a holder.
    Release {
        /// The uid that the lease must have.
        uid: String,
        /// The version that the lease must have.
        version: ResourceVersion,
        /// Its spec.
        record: NewRecord,
    },
}

/// A time during which this process is the leader.
///
/// Uid, transitions and version together name it: no two terms of a lease share them, and of two
/// terms under one uid the later one has the greater version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The lease's uid.
    pub uid: String,
    /// The record's `leaseTransitions`.
    pub transitions: i32,
    /// The version of the write that took the lease.
    pub version: ResourceVersion,
    /// The end, unless it is renewed. A guard compares it with the clock before each write.
    pub ends_at: Instant,
}

/// The reason why a term is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It was not renewed in time, or the clock jumped: the process or the machine was suspended.
    Expired,
    /// The lease has another holder.
    Taken {
        /// The holder.
        holder: String,
    },
    /// The lease was deleted.
    Deleted,
    /// The record is no longer the one that was written: edited by hand, or written by another
    /// process under the same identity.
    Edited,
    /// The coordinator prefers another holder. The lease is released once the work was joined and
    /// the last request of the term is over, unless the options leave it to expire.
    ///
    /// Upstream: the end of term, after which a holder no longer renews.
    Preferred {
        /// `spec.preferredHolder`.
        holder: String,
    },
    /// It was given up in order, and the lease is being released.
    Released,
    /// It was given up in order, and the lease is left to expire.
    Stopped,
}

/// Something for logs, metrics or health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A leader reads the lease since a renewal failed.
    ///
    /// Upstream: `leader_election_slowpath_total`.
    SlowPath,
    /// A request failed; it is tried again.
    Failed {
        /// The request.
        verb: Verb,
        /// The refusal; `None` without an answer.
        kind: Option<RefusalKind>,
        /// The message of the server or of the connection.
        message: String,
    },
    /// Another client wrote the lease first; it is tried again.
    Conflict {
        /// The request.
        verb: Verb,
    },
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// To read the lease.
    Read,
    /// To take the lease, or to create it.
    Take,
    /// To renew the lease.
    Renew,
    /// To release the lease.
    Release,
}
