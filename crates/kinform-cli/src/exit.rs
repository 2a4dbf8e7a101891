//! The end of the process: the exit code, and the line and hint of a failure.
//!
//! ```text
//! command → Result<Ending, Failure> → stderr: "error: .." + "hint: .." → exit code
//! ```
//!
//! Codes are a contract: 0 done; 1 failed; 2 wrong usage (clap's own); 124 the time was up before
//! the caches were synced; 130 and 143 interrupted and terminated, after the summary; a closed
//! stdout is 0.

use std::fmt;

/// A successful ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The command completed.
    Done,
    /// `--for` elapsed before the first sync.
    NeverSynced,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// A child ended, with its code.
    Child(i32),
}

impl Ending {
    /// The process's exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::NeverSynced => 124,
            Self::Interrupted => 130,
            Self::Terminated => 143,
            // A shell sees the low byte only.
            Self::Child(code) => u8::try_from(code & 0xff).unwrap_or(1),
        }
    }
}

/// A failure for the user to read: one line with the request and the result, and a hint for a
/// remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl Failure {
    /// A failure with exit code 1.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: 1,
        }
    }

    /// A failure of usage, exit code 2.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            code: 2,
        }
    }

    /// Stdout was closed by its reader: no message, exit code 0.
    pub(crate) fn closed_stdout() -> Self {
        Self {
            message: String::new(),
            hint: None,
            code: 0,
        }
    }

    /// A failure that a child has already printed.
    pub(crate) fn said(code: u8) -> Self {
        Self {
            message: String::new(),
            hint: None,
            code,
        }
    }

    /// Adds a hint.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The message, and the hint if there is one.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        (&self.message, self.hint.as_deref())
    }

    /// The process's exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Returns whether there is no message to print.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::closed_stdout()
        } else {
            Self::new(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_contract() {
        for (ending, code) in [
            (Ending::Done, 0),
            (Ending::NeverSynced, 124),
            (Ending::Interrupted, 130),
            (Ending::Terminated, 143),
            (Ending::Child(7), 7),
            (Ending::Child(256 + 3), 3),
        ] {
            assert_eq!(ending.code(), code, "{ending:?}");
        }
        assert_eq!(Failure::new("x").code(), 1);
        assert_eq!(Failure::usage("x").code(), 2);
    }

    #[test]
    fn a_closed_stdout_is_no_error() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert!(failure.is_silent());
        assert_eq!(failure.code(), 0);
    }

    #[test]
    fn a_failure_is_a_line_and_a_hint() {
        let failure = Failure::new("watch pods: forbidden").with_hint("ask for the right");
        assert_eq!(
            failure.to_string(),
            "error: watch pods: forbidden\n  hint: ask for the right"
        );
    }
}
