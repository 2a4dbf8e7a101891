//! The validator's seam for values that are known to be sound: it steps over them.
//!
//! ```text
//! a bracket opens ─▶ Shortcut::open ─▶ Sound::All (its end) │ Begin (how far) │ Nothing: its members are validated
//! ```
//!
//! The validator asks, and does not know who answers: [`NoShortcut`], or a `Walk` of a value that was validated before.
//!
//! INVARIANT: an answer is what validation would have found.
//! Upstream: none.

use crate::wire::scan::Stops;

/// Knows which bracketed values are sound, as far as it does.
pub(in crate::wire) trait Shortcut {
    /// A bracket opens at `at`, and its value is not empty: how much of it is known to be sound.
    fn open(&mut self, stops: &mut Stops<'_>, at: usize) -> Sound;

    /// A bracket closed whose value was not known as a whole.
    fn close(&mut self);
}

/// The extent to which a value in brackets is known to be sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Sound {
    Nothing,
    /// All of it, which ends before this position.
    All(usize),
    /// All up to the end of a value in it.
    Begin {
        /// The position after that value.
        at: usize,
        /// The number of brackets that are open there.
        levels: u32,
        /// One bit each, the innermost lowest: 1 is an object.
        objects: u128,
    },
}

/// Knows of no value.
pub(in crate::wire) struct NoShortcut;

impl Shortcut for NoShortcut {
    #[inline(always)]
    fn open(&mut self, _: &mut Stops<'_>, _: usize) -> Sound {
        Sound::Nothing
    }

    #[inline(always)]
    fn close(&mut self) {}
}
