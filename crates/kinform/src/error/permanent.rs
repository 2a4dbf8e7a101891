//! An error that a retry cannot help.
//!
//! ```text
//! Permanent::new(error) → anywhere in the cause chain of a reconcile's error → no retry
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/reconcile` (`TerminalError`).

use std::error::Error as StdError;
use std::fmt;

/// Marks an error that a retry cannot help: a controller does not try the key again until its
/// object changes, and forgets its failures.
///
/// ```
/// use kinform::{Error, Permanent};
///
/// fn checked(replicas: i32) -> Result<i32, Error> {
///     if replicas < 0 {
///         return Err(Permanent::new("replicas must not be negative").into());
///     }
///     Ok(replicas)
/// }
/// # assert!(checked(-1).unwrap_err().to_string().contains("negative"));
/// ```
#[derive(Debug)]
#[doc(alias = "TerminalError")]
pub struct Permanent(Box<dyn StdError + Send + Sync>);

impl Permanent {
    /// Marks `error`.
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for Permanent {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
