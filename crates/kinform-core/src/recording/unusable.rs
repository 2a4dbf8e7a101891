//! The reasons why bytes are no recording.
//!
//! ```text
//! Reading → Unusable → one line for people
//! ```
//!
//! A recording that was cut off or damaged behind its header is none of these: what is whole of it
//! is used.
//!
//! Upstream counterpart: none.

use std::fmt;

/// The reason why a file is no recording that can be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(Reason);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Foreign,
    Format(u8),
    Header(&'static str),
    TooLarge,
}

impl Unusable {
    pub(super) fn foreign() -> Self {
        Self(Reason::Foreign)
    }

    pub(super) fn format(number: u8) -> Self {
        Self(Reason::Format(number))
    }

    pub(super) fn header(what: &'static str) -> Self {
        Self(Reason::Header(what))
    }

    pub(super) fn too_large() -> Self {
        Self(Reason::TooLarge)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Foreign => f.write_str("the file is no recording"),
            Reason::Format(number) => write!(f, "the recording has format {number}, not 1"),
            Reason::Header(what) => write!(f, "the recording has no usable header: it has {what}"),
            Reason::TooLarge => f.write_str("the recording is larger than can be replayed"),
        }
    }
}

impl std::error::Error for Unusable {}
