//! The reasons of the queue itself to hand a key out.
//!
//! ```text
//! add without a cause, delay over, wake-up time → Reasons (four bits of a slot) → events
//! ```
//!
//! They cost no allocation, so a queue whose callers state no causes has none.
//!
//! Upstream counterpart: none.

use std::ops::BitOr;

use super::Event;

/// A set of reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons(u8);

impl Reasons {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ASKED: Self = Self(1);
    pub(crate) const REQUEUED: Self = Self(2);
    pub(crate) const RETRIED: Self = Self(4);
    pub(crate) const WOKEN: Self = Self(8);

    /// BOUND: the bits that a slot keeps.
    pub(crate) const BITS: u8 = 15;

    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self(bits & Self::BITS)
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// Returns whether the queue has no reason of its own.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The reasons as events.
    pub fn events(self) -> impl Iterator<Item = Event> {
        let all = [Event::Asked, Event::Requeued, Event::Retried, Event::Woken];
        let bits = all.into_iter().enumerate();
        bits.filter_map(move |(bit, event)| (self.0 & (1 << bit) != 0).then_some(event))
    }
}

impl BitOr for Reasons {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
