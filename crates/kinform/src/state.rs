//! How an informer is doing: readable at any time, awaitable, and told as a stream.
//!
//! ```text
//! reflector's events → InformerState (the latest) and Report (each, in order)
//! ```
//!
//! Waiting never hangs silently: what is late says why. A forbidden or missing kind is a state, not
//! an error, since it heals by itself when access is granted or the definition is installed.
//!
//! Upstream counterpart: `client-go:tools/cache` (`HasSynced`, `WatchErrorHandler`,
//! `LastSyncResourceVersion`), which tell less.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// How an informer is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InformerState {
    /// Not started.
    Pending,
    /// The first list is on its way.
    Listing {
        /// What the last attempt failed with, if one failed.
        trouble: Option<Trouble>,
    },
    /// The cache is complete and a watch keeps it so.
    Synced {
        /// The version that the cache has reached.
        version: String,
    },
    /// The cache was complete; since then the server cannot be followed.
    Stale {
        /// Since when.
        since: Timestamp,
        /// Why.
        trouble: Trouble,
    },
    /// The credentials may not list or watch this (401, 403).
    Forbidden(Trouble),
    /// The server has no such resource type (404): its definition is not installed, not yet or not any
    /// more. It is asked again at growing distances, with the default backoff at most a minute apart,
    /// so that the informer wakes within a minute of the definition. What was stored when the
    /// definition went has been heard as deleted.
    NoSuchKind(Trouble),
    /// Stopped; nothing changes any more.
    Stopped,
}

/// What an attempt failed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// One word for machines: `Forbidden`, `NotFound`, `Refused`, `Expired`, ...
    pub reason: String,
    /// One line for people.
    pub message: String,
    /// When it is tried again, from the time of the failure.
    pub retry_in: Option<Duration>,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl InformerState {
    /// Whether the cache is complete and followed.
    pub fn is_synced(&self) -> bool {
        matches!(self, Self::Synced { .. })
    }

    /// Whether nothing will change any more.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped)
    }

    /// What hinders it.
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
