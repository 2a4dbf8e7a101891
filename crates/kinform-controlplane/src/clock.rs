//! The clock of the control plane: the one place of this crate that reads the time.
//!
//! ```text
//! a time, by default the system's, at the start + tokio's time since → now
//! ```
//!
//! Under paused time the clock stops and advances with the test's, so a test decides when a deadline
//! is over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of time. Copies share the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    since: Instant,
}

impl Clock {
    /// A clock that starts at this time.
    pub(crate) fn at(start: Timestamp) -> Self {
        Self {
            start,
            since: Instant::now(),
        }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

/// The system's time.
pub(crate) fn system() -> Timestamp {
    Timestamp::now()
}

/// A time as objects have it: whole seconds.
pub(crate) fn stamp(now: Timestamp) -> String {
    let seconds = Timestamp::from_second(now.as_second()).unwrap_or(now);
    seconds.to_string()
}

/// The time from `now` until `after` has passed since `start`; `None` if it has passed.
pub(crate) fn left(start: Timestamp, after: Duration, now: Timestamp) -> Option<Duration> {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    let end = start.checked_add(after).unwrap_or(Timestamp::MAX);
    let left = now.duration_until(end);
    Duration::try_from(left).ok().filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_delay_ends_with_it() {
        let start: Timestamp = "2026-01-01T00:00:00.9Z".parse().unwrap();
        assert_eq!(stamp(start), "2026-01-01T00:00:00Z");
        let two = Duration::from_secs(2);
        assert_eq!(left(start, two, start), Some(two));
        let later = start.checked_add(SignedDuration::from_secs(2)).unwrap();
        assert_eq!(left(start, two, later), None);
    }
}
