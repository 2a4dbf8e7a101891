//! Reports of a reflector: its state, and the events of its life.
//!
//! ```text
//! Reflector → State (what it is now) + ReflectorEvent (what happened) → logs, metrics, waiters
//! ```
//!
//! These are for people and dashboards: no code downstream decides by them. A state is reported
//! when it changes, and an event when it happens. Events that a hostile server can cause without
//! end (skipped events) are reported once a stream. Messages carry the server's words about the
//! request, never objects.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go` (`WatchErrorHandler`) and its logs.

use std::fmt;
use std::time::Duration;

use kinform_api::ResourceVersion;

use crate::time::Instant;

/// The state of a reflector, as far as its user is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing was heard from the server yet, or only failures.
    Pending,
    /// A list is being read.
    Listing,
    /// The state of the server was handed on as of this version, and is followed. The version is
    /// that of the moment when the state was entered, unset for a server without versions.
    Synced {
        /// The version at which the server stood.
        version: ResourceVersion,
    },
    /// The objects handed on may be outdated: the server has said nothing since then.
    Stale {
        /// When it said something for the last time.
        since: Instant,
    },
    /// The server refuses (403); it is asked again, slowly.
    Forbidden {
        /// The verb that the server refuses.
        verb: Verb,
    },
    /// The server does not know who asks (401); it is asked again, slowly.
    Unauthorized,
    /// The server does not know the resource (404), yet; it is asked again, slowly.
    NoSuchKind,
    /// The end; nothing follows.
    Stopped,
}

/// The request that was under way when an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// One page of a list, or all of it.
    List,
    /// A streaming list, up to its end bookmark.
    StreamingList,
    /// A watch.
    Watch,
    /// The small list that tells the server's version, or whether it has objects.
    Probe,
}

/// The kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// Nobody listens: the connection was refused.
    Refused,
    /// A certificate was not accepted: the server's here, or the client's there.
    Certificate,
    /// The connection failed in another way, or broke.
    Transport,
    /// No answer within our deadline.
    Deadline,
    /// The answer does not come from Kubernetes but from a login page or a proxy.
    NotKubernetes,
    /// 429: come back later.
    TooManyRequests,
    /// 502, 503, 504: the server cannot answer now.
    Unavailable,
    /// 500, or an internal error in a stream.
    Internal,
    /// The server met an object that it cannot read in its own store.
    StoreRead,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404.
    NotFound,
    /// 410: history is gone.
    Expired,
    /// The version asked for lies in the server's future.
    TooLarge,
    /// Another refusal of the request as such: 400, 405, 406, 415, 422.
    Rejected,
    /// The body is not what was promised: no list, no frames, another kind, pages that do not fit.
    Garbled,
    /// The list is larger than a cache may be.
    OverLimit,
    /// A watch ended within a second and without an event.
    VeryShortWatch,
    /// A watch said something older than what it had said before.
    OutOfOrder,
    /// Something that has no name here.
    Other,
}

/// Something that went wrong, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The request that failed.
    pub verb: Verb,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The HTTP status or the code of the error event, if there was one.
    pub code: Option<u16>,
    /// The message of the server or of the connection.
    pub message: String,
}

/// Why a whole list is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RelistReason {
    /// The version to go on from is too old for the server.
    Expired,
    /// The version to go on from lies in the server's future.
    TooLarge,
    /// The server's version went back: it was restored, or it is another one.
    ServerWentBack,
    /// Another cache of this server found that it went back.
    WentBackElsewhere,
    /// The watch was refused for a reason that waiting does not heal.
    WatchRefused,
    /// The watch could not be opened several times in a row, though the server answers.
    WatchUnavailable,
    /// The watch reported an error.
    WatchError,
    /// The watch ended within a second and without an event.
    VeryShortWatch,
    /// The watch's bytes made no sense.
    Garbled,
    /// The watch said something older than before.
    OutOfOrder,
    /// Watches said nothing, again and again, while the server's version moved on.
    SilentWatch,
    /// The server's lists have no version, so that a watch cannot be resumed.
    Versionless,
    /// The owner asked for it.
    Asked,
    /// The owner found that what is stored is not what the server has.
    Diverged,
    /// Events made the cache larger than it may be.
    OverLimit,
    /// The owner wants objects that were not asked for before: its ranges of hashes grew.
    Extended,
    /// The server's history was not shown to include what a snapshot holds.
    Unproven,
    /// Watches from a snapshot's version did not reach the server's.
    NotCaughtUp,
}

/// Why a streaming list was given up for pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FallbackReason {
    /// The server refused it.
    Refused,
    /// It failed.
    Failed,
    /// No byte, or no complete event, came for too long.
    NoProgress,
    /// The end bookmark did not come in time, or has no version.
    NoEnd,
    /// The server opened an ordinary watch: an ordinary bookmark came before the end bookmark.
    Ignored,
    /// It ended without an object, and a list has one.
    Empty,
    /// It ended too often before its end bookmark.
    EndedEarly,
}

/// One event in the life of a reflector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReflectorEvent {
    /// The state changed.
    State(State),
    /// A list is read again from the start.
    Relisting {
        /// Why.
        reason: RelistReason,
    },
    /// A whole list was handed on.
    Listed {
        /// Its version; unset for a server without versions.
        version: ResourceVersion,
        /// Why it was read again; nothing for the first.
        relist: Option<RelistReason>,
    },
    /// A snapshot's objects, and the changes since, were handed on without a list.
    Resumed {
        /// The version of the snapshot.
        from: ResourceVersion,
        /// The version that was reached.
        version: ResourceVersion,
    },
    /// A list was given up half way; nothing of it counts.
    Aborted,
    /// A watch goes on at the version where the one before stopped.
    Reopened {
        /// From where.
        version: ResourceVersion,
    },
    /// Something failed, and is tried again.
    Retrying {
        /// When, counted from now.
        after: Duration,
        /// The problem.
        problem: Problem,
    },
    /// A streaming list was given up for pages.
    FellBack {
        /// Why.
        reason: FallbackReason,
        /// Until when pages are asked for; nothing if for this list only. Worth telling the next
        /// reflector of the same server and resource, see
        /// [`StreamingList::NotBefore`](super::config::StreamingList::NotBefore).
        until: Option<Instant>,
    },
    /// A watch was silent for longer than bookmarks allow, and is closed.
    Silent {
        /// For how long.
        quiet: Duration,
    },
    /// The server's version went back: a restored or emptied server, or another one.
    EpochChanged {
        /// The version reported before.
        from: ResourceVersion,
        /// The version reported now.
        to: ResourceVersion,
    },
    /// Events of a watch were skipped, the first of this stream just now.
    Skipped {
        /// Of which kind or type; at most a few words.
        what: String,
    },
}

impl Problem {
    /// A reply of a server that makes no sense.
    pub(super) const fn garbled(verb: Verb, message: String) -> Self {
        let kind = ProblemKind::Garbled;
        Self {
            verb,
            kind,
            code: None,
            message,
        }
    }
}

impl Verb {
    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::StreamingList => "streaming list",
            Self::Watch => "watch",
            Self::Probe => "probe",
        }
    }
}

impl ProblemKind {
    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Certificate => "certificate not accepted",
            Self::Transport => "connection failed",
            Self::Deadline => "deadline exceeded",
            Self::NotKubernetes => "not a Kubernetes server",
            Self::TooManyRequests => "too many requests",
            Self::Unavailable => "server unavailable",
            Self::Internal => "internal error",
            Self::StoreRead => "unreadable object in the server's store",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not found",
            Self::Expired => "history expired",
            Self::TooLarge => "version in the server's future",
            Self::Rejected => "request rejected",
            Self::Garbled => "reply makes no sense",
            Self::OverLimit => "list over the limit",
            Self::VeryShortWatch => "very short watch",
            Self::OutOfOrder => "events out of order",
            Self::Other => "failure",
        }
    }
}

impl RelistReason {
    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::TooLarge => "too large version",
            Self::ServerWentBack => "server went back",
            Self::WentBackElsewhere => "server went back elsewhere",
            Self::WatchRefused => "watch refused",
            Self::WatchUnavailable => "watch unavailable",
            Self::WatchError => "watch error",
            Self::VeryShortWatch => "very short watch",
            Self::Garbled => "garbled watch",
            Self::OutOfOrder => "out of order",
            Self::SilentWatch => "silent watch",
            Self::Versionless => "versionless",
            Self::Asked => "asked",
            Self::Diverged => "diverged",
            Self::OverLimit => "over the limit",
            Self::Extended => "extended",
            Self::Unproven => "snapshot not proven",
            Self::NotCaughtUp => "snapshot not caught up",
        }
    }
}

impl FallbackReason {
    /// The word for logs and labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NoProgress => "no progress",
            Self::NoEnd => "no end bookmark",
            Self::Ignored => "ordinary watch",
            Self::Empty => "empty unlike a list",
            Self::EndedEarly => "ended early",
        }
    }
}

impl State {
    /// The word for logs and labels.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Listing => "listing",
            Self::Synced { .. } => "synced",
            Self::Stale { .. } => "stale",
            Self::Forbidden { .. } => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::NoSuchKind => "no such kind",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verb.as_str(), self.kind.as_str())?;
        if let Some(code) = self.code {
            write!(f, " ({code})")?;
        }
        if self.message.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.message)
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())?;
        match self {
            Self::Synced { version } => write!(f, " at {version}"),
            Self::Stale { since } => write!(f, " since {since:?}"),
            Self::Forbidden { verb } => write!(f, " to {}", verb.as_str()),
            _ => Ok(()),
        }
    }
}
