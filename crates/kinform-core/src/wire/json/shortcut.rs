//! The validator's interface to shortcuts: it skips values that are known to be valid.
//!
//! ```text
//! a bracket opens ─▶ Shortcut::open ─▶ Sound::All (its end) │ Begin (how far)
//!                                     │ Nothing: its members are validated
//! ```
//!
//! The validator does not know the implementation: [`NoShortcut`], or a `Walk` of a validated
//! value.
//!
//! INVARIANT: the result equals that of a validation.
//! Upstream: none.

use crate::wire::scan::Stops;

/// Knows some bracketed values to be valid.
pub(in crate::wire) trait Shortcut {
    /// Returns how much of the value whose bracket opens at `at` is known to be valid. The value is
    /// not empty.
    fn open(&mut self, stops: &mut Stops<'_>, at: usize) -> Sound;

    /// Closes the bracket of a value that was not skipped as a whole.
    fn close(&mut self);
}

/// The extent to which a value in brackets is known to be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Sound {
    Nothing,
    /// All of it; it ends before this position.
    All(usize),
    /// Its beginning, up to the end of a value inside it.
    Begin {
        /// The position after that inner value.
        at: usize,
        /// The number of brackets that are open there.
        levels: u32,
        /// One bit per bracket, the innermost lowest: 1 is an object.
        objects: u128,
    },
}

/// A shortcut that knows no value.
pub(in crate::wire) struct NoShortcut;

impl Shortcut for NoShortcut {
    #[inline(always)]
    fn open(&mut self, _: &mut Stops<'_>, _: usize) -> Sound {
        Sound::Nothing
    }

    #[inline(always)]
    fn close(&mut self) {}
}
