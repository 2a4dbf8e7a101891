//! The one error of this crate: a text that does not parse as the expected noun.
//!
//! ```text
//! text ──parse──▶ noun │ Error { the expected noun, upstream's message }
//! ```
//!
//! The message is that of a Kubernetes API server for the same text, so a server
//! can put it into a `Status` as it stands. It names what was wrong with the text; it never
//! quotes anything else. Upstream: the errors of `k8s.io/apimachinery/pkg/{labels,fields}`.

use std::fmt;

/// A text that did not parse as a key, version, selector, path or name.
///
/// Displays upstream's message for the same text, where upstream has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    noun: Noun,
    message: Box<str>,
}

/// The kind of text that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noun {
    Key,
    ApiVersion,
    ResourceVersion,
    LabelSelector,
    FieldSelector,
    FieldPath,
    EventKind,
}

impl Error {
    pub(crate) fn new(noun: Noun, message: impl Into<Box<str>>) -> Self {
        Self {
            noun,
            message: message.into(),
        }
    }

    /// Returns whether a label or field selector did not parse.
    #[must_use]
    pub fn is_selector(&self) -> bool {
        matches!(self.noun, Noun::LabelSelector | Noun::FieldSelector)
    }

    /// Returns whether a resource version is not a positive decimal number.
    #[must_use]
    pub fn is_resource_version(&self) -> bool {
        self.noun == Noun::ResourceVersion
    }

    /// Returns whether a field path did not parse.
    #[must_use]
    pub fn is_field_path(&self) -> bool {
        self.noun == Noun::FieldPath
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
