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
///
/// Nanoseconds in a word, since the queue does sums with them for each key; they last for 584 years.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The start that all others are counted from.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The instant `since_start` after the start.
    pub const fn from_start(since_start: Duration) -> Self {
        Self(saturated_nanos(since_start))
    }

    /// The instant `millis` milliseconds after the start; for tests and simulations.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The distance from the start.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The same, in nanoseconds.
    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this instant; zero if it is not after `earlier`.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos_since(earlier))
    }

    /// The same, in nanoseconds.
    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
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
        Self(self.0.saturating_add(saturated_nanos(after)))
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
        Self(self.0.saturating_sub(saturated_nanos(before)))
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
            write!(f, "+{:?}", self.since_start())
        }
    }
}

/// A duration in nanoseconds; one longer than 584 years is as long as any.
const fn saturated_nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(duration.subsec_nanos() as u64)
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
    fn a_distance_of_centuries_is_the_far_future() {
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        assert_eq!(Instant::from_start(Duration::MAX), Instant::FAR_FUTURE);
        assert_eq!(Instant::from_start(6 * century), Instant::FAR_FUTURE);
        assert_eq!(Instant::from_millis(u64::MAX), Instant::FAR_FUTURE);
        let later = Instant::from_millis(3) + 5 * century;
        assert_eq!(later.since(Instant::from_millis(3)), 5 * century);
        assert_eq!(Instant::from_start(later.since_start()), later);
    }

    #[test]
    fn debug_shows_the_distance_or_never() {
        assert_eq!(format!("{:?}", Instant::from_millis(1_500)), "+1.5s");
        assert_eq!(format!("{:?}", Instant::FAR_FUTURE), "never");
    }
}
