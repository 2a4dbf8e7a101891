//! The one error of this crate: opaque, with a cause chain and questions.
//!
//! ```text
//! kinform::Error | options | lost lease → Error → is_config()? is_usage()? is_lease_lost()?
//! ```
//!
//! A message is one line and names what to do. Normal events are no errors: a term that ends, a
//! shutdown in order.
//!
//! Upstream counterpart: the errors that `controller-runtime:pkg/manager` returns from `Start`,
//! told apart by their text.

use std::error::Error as StdError;
use std::fmt;

use kinform_core::election::LeaseOptionsError;

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
    /// The configuration of the client or of the process.
    Config,
    /// An option or a call that makes no sense.
    Usage,
    /// The lease was lost.
    LeaseLost,
    /// A part of the operator failed, or ended too early.
    Part,
    /// Reconciles did not end within the grace period.
    Drain,
    /// An operation on a part that was stopped in order.
    Stopped,
    /// An operation of the cache or of its client.
    Informer,
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

    /// An error of the program's own: its attempt, and the cause.
    pub fn of(attempt: &str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let cause = cause.into();
        Self::new(ErrorKind::Part, format!("{attempt}: {cause}")).with_cause(cause)
    }

    /// Returns whether no configuration was found, or it cannot be used: kubeconfig, certificates,
    /// the namespace of the pod.
    pub fn is_config(&self) -> bool {
        self.0.kind == ErrorKind::Config
    }

    /// Returns whether an option or a call makes no sense, whatever the cluster is.
    pub fn is_usage(&self) -> bool {
        self.0.kind == ErrorKind::Usage
    }

    /// Returns whether a part failed, or ended before it was asked to. The message names it.
    pub fn is_part(&self) -> bool {
        self.0.kind == ErrorKind::Part
    }

    /// Returns whether reconciles did not end within the grace period. The message names their keys.
    pub fn is_drain(&self) -> bool {
        self.0.kind == ErrorKind::Drain
    }

    /// The exit code of a program that ends with this error: 2 for usage, 3 if the lease was lost or
    /// reconciles did not end in time, else 1.
    pub fn exit_code(&self) -> u8 {
        match self.0.kind {
            ErrorKind::Usage => 2,
            ErrorKind::LeaseLost | ErrorKind::Drain => 3,
            ErrorKind::Config | ErrorKind::Part | ErrorKind::Stopped | ErrorKind::Informer => 1,
        }
    }

    /// Returns whether the lease was lost: another replica may lead.
    pub fn is_lease_lost(&self) -> bool {
        self.0.kind == ErrorKind::LeaseLost
    }

    /// Returns whether the part was stopped in order.
    pub fn is_stopped(&self) -> bool {
        self.0.kind == ErrorKind::Stopped
    }
}

impl From<kinform::Error> for Error {
    fn from(error: kinform::Error) -> Self {
        let kind = if error.is_config() {
            ErrorKind::Config
        } else if error.is_invalid() {
            ErrorKind::Usage
        } else {
            ErrorKind::Informer
        };
        Self::new(kind, error.to_string()).with_cause(error)
    }
}

#[cfg(feature = "webhook")]
impl From<crate::webhook::Error> for Error {
    fn from(error: crate::webhook::Error) -> Self {
        Self::new(ErrorKind::Config, error.to_string()).with_cause(error)
    }
}

impl From<LeaseOptionsError> for Error {
    fn from(error: LeaseOptionsError) -> Self {
        Self::new(ErrorKind::Usage, error.to_string()).with_cause(error)
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kinform_core::election::LeaseOptions;

    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_cause_and_answers_questions() {
        let options = LeaseOptions {
            lease_duration: Duration::from_millis(2200),
            ..LeaseOptions::default()
        };
        let refused = options.validate().expect_err("a fraction of a second");
        let usage = Error::from(refused.clone());
        assert!(usage.is_usage() && !usage.is_config() && !usage.is_lease_lost());
        assert_eq!(usage.to_string(), refused.to_string());
        assert_eq!(usage.to_string().lines().count(), 1);
        let cause = usage.source().expect("a cause").to_string();
        assert_eq!(cause, refused.to_string());

        let config = Error::new(ErrorKind::Config, "no namespace");
        assert!(config.is_config() && config.source().is_none());
        let lost = Error::new(ErrorKind::LeaseLost, "lost").with_cause(config);
        assert!(lost.is_lease_lost() && !lost.is_config());
    }
}
