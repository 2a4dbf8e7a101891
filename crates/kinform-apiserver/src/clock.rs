//! The clock of a server: the one place that reads the time.
//!
//! ```text
//! sockets ──▶ Clock::wall ──▶ the system's time
//! in process ──▶ Clock::in_process ──▶ a time, or the system's, at the start + tokio's time since
//! ```
//!
//! A server in the caller's process runs under the caller's runtime. If that runtime has paused its
//! time, the server's time stops and advances with it, so a test decides when TTLs and schedules
//! expire. A server behind sockets follows the system's time, also over a suspend.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of time. Copies share the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The system's time.
    Wall,
    /// The time at which the server started, and tokio's instant of that moment.
    Tokio { start: Timestamp, since: Instant },
}

impl Clock {
    /// The system's time.
    pub(crate) fn wall() -> Self {
        Self::Wall
    }

    /// Returns a clock that starts at a time, by default the system's, and advances with tokio's,
    /// which may be paused.
    pub(crate) fn in_process(start: Option<Timestamp>) -> Self {
        Self::Tokio {
            start: start.unwrap_or_else(Timestamp::now),
            since: Instant::now(),
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        match self {
            Self::Wall => Timestamp::now(),
            Self::Tokio { start, since } => after(*start, since.elapsed()),
        }
    }
}

/// Returns the current instant, for deadlines and durations. It stops while tokio's time is paused.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns a time after another one, limited to the last possible time.
fn after(start: Timestamp, passed: Duration) -> Timestamp {
    let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
    start.checked_add(passed).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_in_process_goes_with_paused_time() {
        let clock = Clock::in_process(None);
        let before = clock.now();
        assert_eq!(clock.now(), before, "it stands still");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now(), before + SignedDuration::from_hours(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_in_process_starts_when_it_is_told() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        assert_eq!(Clock::in_process(Some(start)).now(), start);
    }

    #[test]
    fn time_ends_at_the_last_timestamp() {
        assert_eq!(
            after(Timestamp::MAX, Duration::from_secs(1)),
            Timestamp::MAX
        );
        assert_eq!(after(Timestamp::MIN, Duration::MAX), Timestamp::MAX);
    }
}
