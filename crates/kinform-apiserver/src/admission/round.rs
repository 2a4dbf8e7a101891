//! The rounds of the mutating part of the chain.
//!
//! ```text
//! first round: everybody          second one: those that saw an older object, and want that
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/reinvocation.go`.

/// A round of the mutating part of the chain.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) number: usize,
    /// The changes of the object in all rounds so far.
    pub(super) changes: usize,
}

impl Round {
    /// Returns whether a policy or a webhook is asked in this round: each one in the first, and again
    /// if the object was changed since its answer and it wants that.
    pub(super) fn is_due(&self, asked: Option<usize>, wants_again: bool) -> bool {
        match asked {
            None => self.number == 0,
            Some(seen) => self.number > 0 && seen < self.changes && wants_again,
        }
    }
}
