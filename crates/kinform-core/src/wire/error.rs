//! Why a body could not be read as a list or a stream of watch events.
//!
//! ```text
//! list, watch → WireError → reflector: retry, relist or report
//! ```
//!
//! One bad object is no such error: it is set apart and the rest is read. Messages hold nothing
//! of the body but a kind. Upstream: decode errors of `client-go:rest` (`ClientWatchDecoding`).

use std::fmt;

use kinform_api::Status;

/// A body that is not what was asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes are no JSON, or not the JSON of a Kubernetes API: an HTML page, for example.
    NotJson {
        /// Where, counted from the start of the body.
        at: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The bytes are no protobuf, or not that of a Kubernetes API.
    NotProtobuf {
        /// Where, counted from the start of the body.
        at: u64,
        /// What is wrong there.
        reason: &'static str,
    },
    /// The body ended in the middle.
    Truncated,
    /// The server answered with a `Status` in place of a list.
    Status(Box<Status>),
    /// The server answered with a `Table`: something asked for the form meant for printing.
    Table,
    /// An object that is no list.
    NotAList {
        /// Its kind; empty if it has none.
        kind: String,
    },
    /// What surrounds the items of a list is larger than any server makes it.
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
