//! The type of a watch event, and the annotation that ends the initial events.
//!
//! ```text
//! {"type": "ADDED", "object": ..} ──▶ WatchEventKind
//! ```
//!
//! Upstream: `apimachinery:pkg/watch/watch.go` (`EventType`) and
//! `apimachinery:pkg/apis/meta/v1/types.go` (`InitialEventsAnnotationKey`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Noun};
use crate::quote::quote;

/// The annotation of the bookmark that ends a streaming list; it counts only with value `true`.
///
/// Upstream: `metav1.InitialEventsAnnotationKey`.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The type of a watch event.
///
/// Upstream: `watch.EventType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum WatchEventKind {
    /// The object is new to this watch.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone, or no longer selected; the event carries its last state.
    Deleted,
    /// Only the version advances.
    Bookmark,
    /// The watch ends with a `Status`.
    Error,
}

impl WatchEventKind {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl fmt::Display for WatchEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WatchEventKind {
    type Err = Error;

    /// Parses the word on the wire.
    ///
    /// # Errors
    /// A word that no server sends today.
    fn from_str(word: &str) -> Result<Self, Error> {
        match word {
            "ADDED" => Ok(Self::Added),
            "MODIFIED" => Ok(Self::Modified),
            "DELETED" => Ok(Self::Deleted),
            "BOOKMARK" => Ok(Self::Bookmark),
            "ERROR" => Ok(Self::Error),
            _ => Err(Error::new(
                Noun::EventKind,
                format!("unknown watch event: {}", quote(word)),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_and_print() {
        use WatchEventKind::{Added, Bookmark, Deleted, Error, Modified};
        for kind in [Added, Modified, Deleted, Bookmark, Error] {
            assert_eq!(kind.as_str().parse::<WatchEventKind>().unwrap(), kind);
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{kind}\""));
        }
        assert!("added".parse::<WatchEventKind>().is_err());
    }
}
