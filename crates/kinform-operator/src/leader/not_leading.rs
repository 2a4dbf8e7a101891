//! The error of a request that had no running term.
//!
//! ```text
//! Guard → NotLeading → kube_client::Error::Service → .. → is_not_leading(error)
//! ```
//!
//! Upstream has no counterpart: client-go's requests go on until the process ends.

use std::error::Error as StdError;

/// A request that was refused, or dropped, since this process does not lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this process does not hold lease {lease}{}", self.outcome())]
pub struct NotLeading {
    lease: String,
    is_sent: bool,
}

impl NotLeading {
    /// The request was not passed on.
    pub(crate) fn refused(lease: &str) -> Self {
        Self {
            lease: lease.to_owned(),
            is_sent: false,
        }
    }

    /// The request was dropped.
    pub(super) fn dropped(lease: &str) -> Self {
        Self {
            is_sent: true,
            ..Self::refused(lease)
        }
    }

    /// The lease, as `namespace/name`.
    pub fn lease(&self) -> &str {
        &self.lease
    }

    /// Returns whether the request may have taken effect: the term ended while it was under way.
    pub fn may_have_taken_effect(&self) -> bool {
        self.is_sent
    }

    fn outcome(&self) -> &'static str {
        if self.is_sent {
            " any more: its term ended while the request was under way"
        } else {
            ": the request was not sent"
        }
    }
}

/// Returns whether an error, or one of its causes, is [`NotLeading`]: the work of a lost term.
#[must_use]
pub fn is_not_leading(error: &(dyn StdError + 'static)) -> bool {
    // BOUND: a chain of causes; one that goes in a circle ends.
    const DEPTH: usize = 64;
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.take(DEPTH).any(|error| error.is::<NotLeading>())
}
