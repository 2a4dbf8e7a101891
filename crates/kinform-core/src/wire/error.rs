//! The errors of a body that is not a list or a stream of watch events.
//!
//! ```text
//! list, watch → WireError → reflector: retry, relist or report
//! ```
//!
//! A malformed object is not such an error: it is quarantined and the rest of the body is read.
//! Messages contain no part of the body but its kind, or the `Status` that the server sent.
//!
//! Upstream: decode errors of `client-go:rest` (`ClientWatchDecoding`).

use std::fmt;

use kinform_api::Status;

/// A body that is not the list or the watch that the client asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes are not JSON, or not the JSON of a Kubernetes API: an HTML page, for example.
    NotJson {
        /// The offset of the fault from the start of the body, in bytes.
        at: u64,
        /// The fault at that offset.
        reason: &'static str,
    },
    /// The bytes are not protobuf, or not that of a Kubernetes API.
    NotProtobuf {
        /// The offset of the fault from the start of the body, in bytes.
        at: u64,
        /// The fault at that offset.
        reason: &'static str,
    },
    /// The body ended in the middle.
    Truncated,
    /// The server answered with a `Status` in place of a list.
    Status(Box<Status>),
    /// The server answered with a `Table`, the form for printing, in place of a list.
    Table,
    /// The body is an object, but not a list.
    NotAList {
        /// Its kind; empty if it has none.
        kind: String,
    },
    /// The part of a list outside its items is larger than any server makes it.
    EnvelopeTooLarge,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { at, reason } => write!(f, "not a JSON reply: {reason} at byte {at}"),
            Self::NotProtobuf { at, reason } => {
                write!(f, "not a protobuf reply: {reason} at byte {at}")
            }
            Self::Truncated => f.write_str("the reply ended in the middle"),
            Self::Status(status) => {
                write!(
                    f,
                    "the server answered with a status in place of a list: {status}"
                )
            }
            Self::Table => f.write_str("the server answered with a Table in place of a list"),
            Self::NotAList { kind } if kind.is_empty() => f.write_str("the reply is not a list"),
            Self::NotAList { kind } => write!(f, "the reply is not a list but of kind {kind}"),
            Self::EnvelopeTooLarge => f.write_str("the reply is too large outside its items"),
        }
    }
}

impl std::error::Error for WireError {}
