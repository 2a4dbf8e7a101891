//! The state of an informer: readable at any time, awaitable, and reported as a stream.
//!
//! ```text
//! reflector's events → InformerState (the latest) and Report (each, in order)
//! ```
//!
//! Waiting never hangs silently: the error of a wait that timed out states the reason. A forbidden
//! or missing kind is a state, not an error, since the informer recovers by itself when access is
//! granted or the definition is installed.
//!
//! Upstream counterpart: `client-go:tools/cache` (`HasSynced`, `WatchErrorHandler`,
//! `LastSyncResourceVersion`), which report less.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// The state of an informer: first list, synced or stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InformerState {
    /// Not started.
    Pending,
    /// The first list is on its way.
    Listing {
        /// The failure of the last attempt, if it failed.
        trouble: Option<Trouble>,
    },
    /// The cache is complete, and a watch, or a relist that has not failed, follows the server.
    Synced {
        /// The version of the cache when this state began.
        version: String,
    },
    /// The cache was complete, but the informer can no longer follow the server; or it was read from
    /// disk, and has not caught up with the server: then it is not
    /// [synced](crate::Informer::has_synced).
    Stale {
        /// The time at which the server was last heard before the first failure, or at which the cache
        /// was written to disk.
        since: Timestamp,
        /// The last failure.
        trouble: Trouble,
    },
    /// The credentials may not list or watch this (401, 403).
    Forbidden(Trouble),
    /// The server has no such resource type (404): its definition is not installed, not yet or not
    /// any more. The informer asks again at growing intervals, at most a minute with the default
    /// backoff, so it wakes within a minute of the definition. Handlers have heard the objects that
    /// were stored when the definition was removed as deleted.
    NoSuchKind(Trouble),
    /// Stopped; nothing changes any more.
    Stopped,
}

/// The failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word for machines: `Forbidden`, `NotFound`, `ConnectionRefused`, `Expired`, ...
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// The delay until the next attempt, from the time of the failure.
    pub retry_in: Option<Duration>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl InformerState {
    /// Returns whether the cache is complete and follows the server: by a watch, or by a relist
    /// that has not failed.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced { .. })
    }

    /// Returns whether the informer has stopped: the cache does not change any more.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// The failure of the last attempt, if it failed.
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Listing { trouble } => trouble.as_ref(),
            Self::Stale { trouble, .. } | Self::Forbidden(trouble) | Self::NoSuchKind(trouble) => {
                Some(trouble)
            }
            Self::Pending | Self::Synced { .. } | Self::Stopped => None,
        }
    }
}

impl fmt::Display for InformerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("not started"),
            Self::Listing { trouble: None } => f.write_str("listing"),
            Self::Listing {
                trouble: Some(trouble),
            } => write!(f, "cannot list: {trouble}"),
            Self::Synced { version } => write!(f, "synced at {version}"),
            Self::Stale { since, trouble } => write!(f, "stale since {since}: {trouble}"),
            Self::Forbidden(trouble) => write!(f, "forbidden: {trouble}"),
            Self::NoSuchKind(trouble) => write!(f, "no such kind: {trouble}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
