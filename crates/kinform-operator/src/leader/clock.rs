//! The clock that terms are counted by.
//!
//! ```text
//! CLOCK_BOOTTIME | the runtime's clock → Clock → Instant → Election, guard
//! ```
//!
//! It counts while the machine is suspended: a term ends by the time that passed for other
//! replicas, and they were awake. A process that is stopped by a signal needs no such clock. Other
//! systems than Linux have the monotonic clock, which stands still there during suspension.
//!
//! In a runtime of a test, the clock is the runtime's, which the test can pause.
//!
//! Upstream counterpart: `time.Now` in `client-go:tools/leaderelection/leaderelection.go`, which
//! stands still during suspension.

use std::time::Duration;

use kinform_core::time::Instant;

/// The clock of one election. Copies count from the same start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// The system's, counted from boot.
    System,
    /// The runtime's, counted from this instant.
    Runtime(tokio::time::Instant),
}

impl Clock {
    /// The clock of the current runtime.
    pub(super) fn runtime() -> Self {
        Self::Runtime(tokio::time::Instant::now())
    }

    /// Now.
    pub(super) fn now(self) -> Instant {
        Instant::from_start(match self {
            Self::System => since_boot(),
            Self::Runtime(start) => start.elapsed(),
        })
    }

    /// Waits until `at`, by this clock, or a little longer where the machine was suspended.
    ///
    /// The runtime's timers stand still during suspension, so a wait is taken in steps.
    ///
    /// Cancel safety: dropping it only cancels the wake-up.
    pub(super) async fn sleep_until(self, at: Instant) {
        loop {
            let rest = at.since(self.now());
            if rest.is_zero() {
                return;
            }
            tokio::time::sleep(rest.min(STEP)).await;
        }
    }
}

/// BOUND: the time after the end of a suspension within which it is noticed.
const STEP: Duration = Duration::from_secs(1);

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    use nix::time::{ClockId, clock_gettime};
    // It fails only for a clock that the kernel lacks; Linux has this one since 2.6.39.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(|_| monotonic(), Duration::from)
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    monotonic()
}

/// The time since the first call in this process.
fn monotonic() -> Duration {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtimes_clock_is_paused_with_it_and_a_long_wait_ends_in_time() {
        let clock = Clock::runtime();
        assert_eq!(clock.now(), Instant::ZERO);
        clock.sleep_until(Instant::from_millis(2500)).await;
        assert_eq!(clock.now(), Instant::from_millis(2500));
        clock.sleep_until(Instant::from_millis(1)).await;
        assert_eq!(clock.now(), Instant::from_millis(2500));
    }

    #[test]
    fn the_systems_clock_goes_forward() {
        let first = Clock::System.now();
        assert!(first > Instant::ZERO || cfg!(not(target_os = "linux")));
        assert!(Clock::System.now() >= first);
    }
}
