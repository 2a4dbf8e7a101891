//! The error of this room: one line, and a cause.
//!
//! ```text
//! what went wrong (+ cause) → Error → one line for a person
//! ```

use std::fmt;

/// An error of the user's code.
pub(super) type UserError = Box<dyn std::error::Error + Send + Sync>;

/// A webhook that cannot be registered or served, or a certificate that cannot be used.
pub struct Error {
    line: String,
    cause: Option<UserError>,
}

impl Error {
    pub(super) fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            cause: None,
        }
    }

    pub(super) fn from_bind(error: crate::serve::BindError) -> Self {
        Self::new(error.to_string())
    }

    pub(super) fn with_cause(mut self, cause: impl Into<UserError>) -> Self {
        self.cause = Some(cause.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.cause.as_deref()?;
        Some(cause)
    }
}
