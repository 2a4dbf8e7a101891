//! The one error of this crate: opaque, with a cause chain and questions.
//!
//! ```text
//! SourceError | DecodeError | misuse → Error → is_forbidden()? is_not_found()? retry_after()?
//! ```
//!
//! Normal events are no errors: a watch that ends, history that expires, a shutdown.
//!
//! Upstream counterpart: `apimachinery:pkg/api/errors`.

mod permanent;
mod source;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use kinform_core::object::typed::DecodeError;

pub use self::permanent::Permanent;
pub(crate) use self::source::one_line;
pub use self::source::{SourceError, SourceErrorKind};

/// The error of every operation in this crate.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

/// The kind of an error, from which its `is_` methods answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Config,
    Invalid,
    NameTaken,
    NotFound,
    Owned,
    Permanent,
    Stale,
    Stopped,
    TimedOut,
    Source,
    Decode,
    Expired,
    /// A field that a cache has not any more.
    GivenUp,
    /// A function of the caller's failed.
    Failed,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            cause: None,
        }))
    }

    pub(crate) fn with_cause(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// A client's configuration that kube-client cannot use.
    pub(crate) fn unusable_config(error: kube_client::Error) -> Self {
        Self::new(
            ErrorKind::Config,
            format!("the Kubernetes configuration cannot be used: {error}"),
        )
        .with_cause(error)
    }

    /// An operation on an informer or factory that was stopped.
    pub(crate) fn stopped(what: impl fmt::Display) -> Self {
        Self::new(
            ErrorKind::Stopped,
            format!("the informer of {what} is stopped"),
        )
    }

    fn source_error(&self) -> Option<&SourceError> {
        self.0.cause.as_deref()?.downcast_ref()
    }

    /// Returns whether the name does not exist: an object that is not in the cache, an index, a
    /// 404.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
            || self.source_error().is_some_and(SourceError::is_not_found)
    }

    /// Returns whether the name is taken (by an index of another definition).
    pub fn is_name_taken(&self) -> bool {
        self.0.kind == ErrorKind::NameTaken
    }

    /// Returns whether another writer was faster, or an object of that name exists (409).
    pub fn is_conflict(&self) -> bool {
        self.source_error().is_some_and(SourceError::is_conflict)
    }

    /// Returns whether another owner controls the object.
    pub fn is_owned_by_another(&self) -> bool {
        self.0.kind == ErrorKind::Owned
    }

    /// Returns whether the server knows the caller and refuses (403).
    pub fn is_forbidden(&self) -> bool {
        self.source_error().is_some_and(SourceError::is_forbidden)
    }

    /// Returns whether the server does not know the caller (401).
    pub fn is_unauthorized(&self) -> bool {
        self.source_error()
            .is_some_and(SourceError::is_unauthorized)
    }

    /// Returns whether the requested history is gone.
    pub fn is_expired(&self) -> bool {
        self.0.kind == ErrorKind::Expired
            || self.source_error().is_some_and(SourceError::is_expired)
    }

    /// Returns whether a field was read that the cache gave up to hold its memory budget. It may be there
    /// again later.
    pub fn is_given_up(&self) -> bool {
        self.0.kind == ErrorKind::GivenUp
    }

    /// Returns whether the informer or factory is stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.kind == ErrorKind::Stopped
    }

    /// Returns whether the time limit ended first.
    pub fn is_timeout(&self) -> bool {
        self.0.kind == ErrorKind::TimedOut
    }

    /// Returns whether a cache may be older than asked for. A reconcile that fails with it is tried
    /// again soon, and does not count as failed.
    pub fn is_stale(&self) -> bool {
        self.0.kind == ErrorKind::Stale
    }

    /// Returns whether an object did not decode into the requested type.
    pub fn is_decode(&self) -> bool {
        self.0.kind == ErrorKind::Decode
    }

    /// Returns whether the request makes no sense (a path that the type lacks, a selector that
    /// does not parse).
    pub fn is_invalid(&self) -> bool {
        self.0.kind == ErrorKind::Invalid
    }

    /// Returns whether no configuration was found, or it cannot be used.
    pub fn is_config(&self) -> bool {
        self.0.kind == ErrorKind::Config
    }

    /// The HTTP code of the server's answer, if there was one.
    pub(crate) fn http_code(&self) -> Option<u16> {
        self.source_error().and_then(SourceError::http_code)
    }

    /// The delay that the server asks for before the next try.
    pub fn retry_after(&self) -> Option<Duration> {
        self.source_error().and_then(SourceError::retry_after)
    }
}

impl From<SourceError> for Error {
    fn from(error: SourceError) -> Self {
        Self::new(ErrorKind::Source, error.to_string()).with_cause(error)
    }
}

impl From<kube_client::Error> for Error {
    fn from(error: kube_client::Error) -> Self {
        SourceError::from(error).into()
    }
}

impl From<Permanent> for Error {
    fn from(error: Permanent) -> Self {
        Self::new(ErrorKind::Permanent, error.to_string()).with_cause(error)
    }
}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let kind = match error.is_given_up() {
            true => ErrorKind::GivenUp,
            false => ErrorKind::Decode,
        };
        Self::new(kind, error.to_string()).with_cause(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as _)
    }
}
