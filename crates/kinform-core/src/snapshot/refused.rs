//! The reasons why bytes are not used as a snapshot.
//!
//! ```text
//! Reading → Refused → one line for people, and a list of everything instead
//! ```
//!
//! Upstream counterpart: none.

use std::fmt;

/// The reason why a snapshot is not used. It is harmless: everything is listed instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Foreign,
    Format(u8),
    Other(String),
    Torn(&'static str),
}

impl Refused {
    pub(super) fn foreign() -> Self {
        Self(Reason::Foreign)
    }

    pub(super) fn format(number: u8) -> Self {
        Self(Reason::Format(number))
    }

    pub(super) fn of_other(part: &str) -> Self {
        Self(Reason::Other(part.to_owned()))
    }

    pub(super) fn torn(what: &'static str) -> Self {
        Self(Reason::Torn(what))
    }

    /// Returns whether it is a good snapshot of something else: another server, user, resource or
    /// selection.
    #[must_use]
    pub fn is_of_other(&self) -> bool {
        matches!(self.0, Reason::Other(_))
    }

    /// Returns whether it was damaged, or not written to its end.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        matches!(self.0, Reason::Torn(_))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Foreign => f.write_str("the file is no snapshot"),
            Reason::Format(number) => write!(f, "the snapshot has format {number}, not 1"),
            Reason::Other(part) => write!(f, "the snapshot is of another {part}"),
            Reason::Torn(what) => write!(f, "the snapshot is damaged: it has {what}"),
        }
    }
}

impl std::error::Error for Refused {}
