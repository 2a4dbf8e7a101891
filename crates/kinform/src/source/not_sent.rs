//! The knowledge that a request never left.
//!
//! ```text
//! error of a request ─▶ its causes ─▶ NotSent | a connection that was never made? ─▶ nothing was written
//! ```
//!
//! Upstream has no counterpart.

use std::error::Error as StdError;
use std::fmt;

use super::refusal::{chain, is_of_connecting};

/// At the end of an error's causes: the request was not sent, so it has changed nothing.
///
/// A layer above a client that refuses requests puts it there, as the source of its own error. A
/// controller then knows that its write was not made; of any other error without an answer it asks
/// the server before the key is reconciled again.
///
/// Upstream counterpart: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSent;

impl NotSent {
    /// The mark of a request that was not sent.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was not sent")
    }
}

impl StdError for NotSent {}

/// Returns whether the request of this error was certainly not sent.
pub(crate) fn was_not_sent(error: &kube_client::Error) -> bool {
    chain(error).any(|cause| cause.is::<NotSent>() || is_of_connecting(cause))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug)]
    struct Refused(NotSent);

    impl fmt::Display for Refused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("not now")
        }
    }

    impl StdError for Refused {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_refusal_above_the_connection_and_a_connection_that_was_never_made_sent_nothing() {
        let of = |kind: io::ErrorKind| io::Error::new(kind, "x").into();
        let service = |error| was_not_sent(&kube_client::Error::Service(error));
        assert!(service(Refused(NotSent::new()).into()));
        assert!(service(of(io::ErrorKind::ConnectionRefused)));
        assert!(!service(of(io::ErrorKind::ConnectionReset)));
        assert!(!service(of(io::ErrorKind::TimedOut)));
        assert!(!service("timed out".into()));
    }
}
