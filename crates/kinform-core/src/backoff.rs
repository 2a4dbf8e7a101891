//! Delays after a failure: longer each time, shorter again only after real health.
//!
//! ```text
//! failed(now, jitter) → delay      healthy(now) → the clock of health starts
//! ```
//!
//! The delay doubles from `first` to `cap`; jitter stretches it to `[d, d * (1 + jitter_factor))`,
//! so that clients which lost one server do not come back together. The sequence starts anew
//! only if the last failure was followed by at least `reset_after` of health: a server that
//! accepts and fails again at once does not win a fresh 0.8 s each time.
//!
//! Upstream counterpart: `apimachinery:pkg/util/wait/backoff.go` (`DelayWithReset`) as used by
//! `client-go:tools/cache/reflector.go`. There the sequence restarts two minutes after the last
//! restart, healthy or not; here it does what its comment promises.

use std::time::Duration;

use kinform_api::mutant;

use crate::time::Instant;

/// The shape of a backoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The first delay, before jitter. Default: 0.8 s.
    pub first: Duration,
    /// Delays stop growing here, before jitter. Default: 30 s.
    pub cap: Duration,
    /// A delay `d` becomes one in `[d, d * (1 + jitter_factor))`. Default: 1.0.
    pub jitter_factor: f64,
    /// Health of this length forgets earlier failures. Default: 2 min.
    pub reset_after: Duration,
}

impl Default for BackoffPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            cap: Duration::from_secs(30),
            jitter_factor: 1.0,
            reset_after: Duration::from_secs(120),
        }
    }
}

impl BackoffPolicy {
    /// The delay of the `attempt`th failure in a row (from 0), before jitter.
    fn plain(&self, attempt: u32) -> Duration {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.cap)
    }
}

/// Failures in a row, and health since.
#[derive(Clone, Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    attempt: u32,
    healthy_since: Option<Instant>,
}

impl Backoff {
    /// A backoff without failures yet.
    pub const fn new(policy: BackoffPolicy) -> Self {
        Self {
            policy,
            attempt: 0,
            healthy_since: None,
        }
    }

    /// Things work from now on; repeated calls keep the first time.
    pub fn healthy(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// Something failed: how long to wait. `jitter` is in `[0, 1)`.
    pub fn failed(&mut self, now: Instant, jitter: f64) -> Duration {
        let health = self.healthy_since.take().map(|since| now.since(since));
        if health.is_some_and(|h| h >= self.policy.reset_after) || mutant!("D4") {
            self.attempt = 0;
        }
        let plain = self.policy.plain(self.attempt);
        let jitter = if mutant!("B24") { 0.0 } else { jitter };
        self.attempt = self.attempt.saturating_add(1).min(32);
        stretch(plain, jitter * self.policy.jitter_factor)
    }

    /// A pause that is no failure: the second delay, which never grows.
    pub fn pause(&self, jitter: f64) -> Duration {
        stretch(self.policy.plain(1), jitter * self.policy.jitter_factor)
    }

    /// Failures in a row so far.
    pub const fn attempts(&self) -> u32 {
        self.attempt
    }
}

/// `delay * (1 + by)`, for any `by`; nonsense counts as zero.
fn stretch(delay: Duration, by: f64) -> Duration {
    let by = if by.is_finite() { by.max(0.0) } else { 0.0 };
    Duration::try_from_secs_f64(delay.as_secs_f64() * (1.0 + by)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: u64) -> Instant {
        Instant::from_millis(s * 1_000)
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        // client-go: TestReflectorListAndWatchInitConnBackoff, TestNewReflectorWithCustomBackoff
        let mut backoff = Backoff::new(BackoffPolicy::default());
        let delays: Vec<u128> = (0..9)
            .map(|i| backoff.failed(secs(i * 60), 0.0).as_millis())
            .collect();
        assert_eq!(
            delays,
            [
                800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000
            ]
        );
    }

    #[test]
    fn jitter_stretches_to_less_than_twice() {
        for (jitter, expected) in [(0.0, 800), (0.5, 1_200), (0.999, 1_599), (f64::NAN, 800)] {
            let mut backoff = Backoff::new(BackoffPolicy::default());
            assert_eq!(
                backoff.failed(Instant::ZERO, jitter).as_millis(),
                expected,
                "{jitter}"
            );
        }
    }

    #[test]
    fn only_two_healthy_minutes_start_anew() {
        for (health, expected) in [(0, 3_200), (119, 3_200), (120, 800), (3_600, 800)] {
            let mut backoff = Backoff::new(BackoffPolicy::default());
            backoff.failed(secs(0), 0.0);
            backoff.failed(secs(1), 0.0);
            backoff.healthy(secs(10));
            backoff.healthy(secs(11));
            assert_eq!(
                backoff.failed(secs(10 + health), 0.0).as_millis(),
                expected,
                "{health}"
            );
        }
    }

    #[test]
    fn failing_for_long_is_not_health() {
        let mut backoff = Backoff::new(BackoffPolicy::default());
        for i in 0..100 {
            backoff.failed(secs(i * 300), 0.0);
        }
        assert_eq!(backoff.failed(secs(100_000), 0.0), Duration::from_secs(30));
    }

    #[test]
    fn b24_jitter_spreads_and_no_delay_overflows() {
        // kube#1897 (jitter ignored), kube#1489 (a sum of durations panics)
        let delays: std::collections::BTreeSet<Duration> = (0..100u32)
            .map(|i| {
                let mut backoff = Backoff::new(BackoffPolicy::default());
                backoff.failed(Instant::FAR_FUTURE, f64::from(i) / 100.0)
            })
            .collect();
        assert_eq!(delays.len(), 100, "each client has a delay of its own");
        let mut backoff = Backoff::new(BackoffPolicy {
            first: Duration::MAX,
            cap: Duration::MAX,
            ..BackoffPolicy::default()
        });
        let delay = backoff.failed(Instant::FAR_FUTURE, 0.999);
        assert_eq!(Instant::FAR_FUTURE + delay, Instant::FAR_FUTURE);
    }

    #[test]
    fn extreme_policies_saturate() {
        let policy = BackoffPolicy {
            first: Duration::MAX,
            cap: Duration::MAX,
            jitter_factor: 1e300,
            ..BackoffPolicy::default()
        };
        let mut backoff = Backoff::new(policy);
        for _ in 0..50 {
            assert_eq!(backoff.failed(Instant::ZERO, 0.9), Duration::MAX);
        }
    }
}
