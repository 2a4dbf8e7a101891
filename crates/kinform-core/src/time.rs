//! The machines' idea of time: a number that the shell hands in.
//!
//! ```text
//! shell's clock (env.rs) or simulator → Instant → every machine's `now`
//! ```
//!
//! An [`Instant`] counts from a start that only its maker knows. Machines compare instants and add
//! durations to them; they never ask what time it is, so a simulator can run a day in a millisecond.
//! All arithmetic saturates: a wake-up "never" is simply [`Instant::FAR_FUTURE`].
//!
//! Upstream counterpart: `k8s.io/utils:clock/clock.go` (`PassiveClock`), which is injected too, but is
//! read from inside the machines.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point in time, as a distance from an arbitrary start.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The start that all others are counted from.
    pub const ZERO: Self = Self(Duration::ZERO);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(Duration::MAX);

    /// The instant `since_start` after the start.
    pub const fn from_start(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// The instant `millis` milliseconds after the start; for tests and simulations.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// The distance from the start.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The same as [`Instant::since`], under the name that `std::time::Instant` gives it.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(after))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, after: Duration) {
        *self = *self + after;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, before: Duration) -> Self {
        Self(self.0.saturating_sub(before))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, before: Duration) {
        *self = *self - before;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FAR_FUTURE {
            f.write_str("never")
        } else {
            write!(f, "+{:?}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let second = Duration::from_secs(1);
        assert_eq!(Instant::ZERO - second, Instant::ZERO);
        assert_eq!(Instant::FAR_FUTURE + second, Instant::FAR_FUTURE);
        assert_eq!(Instant::ZERO - Instant::from_millis(5), Duration::ZERO);
        assert_eq!(
            Instant::from_millis(1_500) - Instant::from_millis(500),
            second
        );
    }

    #[test]
    fn debug_shows_the_distance_or_never() {
        assert_eq!(format!("{:?}", Instant::from_millis(1_500)), "+1.5s");
        assert_eq!(format!("{:?}", Instant::FAR_FUTURE), "never");
    }
}
