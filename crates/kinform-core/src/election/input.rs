//! The input of an election: everything that its shell can observe.
//!
//! ```text
//! requests, watch of one lease, clock, owner → Input → Election
//! ```
//!
//! The shell classifies answers and does no more. A write that the server certainly did not store
//! is a refusal; every other failure leaves open whether it was stored.
//!
//! Upstream counterpart: the errors that `client-go:tools/leaderelection/leaderelection.go` asks
//! `IsNotFound` and `IsConflict` about.

use super::lease::Lease;

/// The name of a request: increasing, never used twice by one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// One observation of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The shell is about to send this request: limiter and credentials are done with. Terms and
    /// the request's timeout are counted from here; without it from the step that asked for the
    /// request. A request is sent once: the shell does not retry.
    Sent {
        /// The request.
        id: RequestId,
        /// `renewTime` of the record in it, as text; empty for a get. It must not repeat: the
        /// election finds a write that had no answer by this text.
        renew_time: String,
    },
    /// The outcome of a request, also of one that was closed.
    Answer {
        /// The request.
        id: RequestId,
        /// The outcome.
        answer: Answer,
    },
    /// An event of the watch on the lease.
    Watched(Sighting),
    /// The time of [`next_wake`](super::Election::next_wake) has come.
    Timer,
    /// The owner wants to stop. A leader goes on renewing until [`Input::Idle`], so that no
    /// successor begins while its work still runs.
    Stop,
    /// No work of a term runs: it was joined after the end of the term, or after a stop. Before it
    /// no lease is released, and no other term begins. Ignored during a term without a stop.
    Idle,
}

/// The outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A get: this lease.
    Found(Lease),
    /// 404: there is no such lease.
    Absent,
    /// A write: it was stored as this.
    Stored(Lease),
    /// 409: another version, another uid, or it exists already. Nothing was stored.
    Conflict,
    /// The server refused (another 4xx). Nothing was stored.
    Refused(Refusal),
    /// No answer, or one that leaves open whether the write was stored: timeout, reset, 5xx.
    Unanswered {
        /// The connection's or the server's message.
        message: String,
    },
}

/// A request that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the refusal.
    pub kind: RefusalKind,
    /// The server's message.
    pub message: String,
}

/// The kind of a refusal; no decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalKind {
    /// 403: rights on leases are missing.
    Forbidden,
    /// 401: credentials are missing or have expired.
    Unauthorized,
    /// 429.
    Throttled,
    /// Another 4xx.
    Other,
}

/// A state of the lease as its watch tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    /// `ADDED` or `MODIFIED`.
    Present(Lease),
    /// `DELETED`, with the last record and the version of the deletion.
    Deleted(Lease),
}
