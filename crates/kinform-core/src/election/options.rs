//! The timings of an election, and the rule that keeps two terms apart.
//!
//! ```text
//! LeaseOptions ──validate──▶ term = lease - request timeout - margin     or LeaseOptionsError
//! ```
//!
//! A term is counted from the send time of the write that won or renewed it. A rival waits for the
//! lease duration after it observed that write, which is later. A request of the term that was
//! sent at its last moment is over after the request timeout. The margin pays for clocks that run
//! at different rates.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/leaderelection.go`
//! (`LeaderElectionConfig`), whose validation compares the lease duration with the renew deadline
//! alone.

use std::time::Duration;

use kinform_api::mutant;

use crate::backoff::BackoffPolicy;

/// The behaviour of a leader that stops in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// The lease is released once no work of the term runs: a standby takes it at once.
    #[default]
    Release,
    /// The lease is left to expire.
    Expire,
}

/// The timings of an election.
///
/// Upstream: `LeaderElectionConfig`, without lock and callbacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// The time for which others leave a lease alone after its last renewal. Whole seconds.
    /// Default: 15 s.
    ///
    /// Upstream: `LeaseDuration`.
    pub lease_duration: Duration,
    /// The time that a leader has at least for retries after a renewal failed. A term lasts longer
    /// where the lease leaves room. Default: 10 s.
    ///
    /// Upstream: `RenewDeadline`, after which a leader gives up.
    pub renew_deadline: Duration,
    /// The time from one renewal to the next, and from a failed attempt to the next. Candidates
    /// stretch it by a random factor from 1 to 2.2. Default: 2 s.
    ///
    /// Upstream: `RetryPeriod`, `JitterFactor`.
    pub retry_period: Duration,
    /// The limit of one request on the lease, and of each request that a term covers. Default: 2 s.
    ///
    /// Upstream: the timeout of the client, by default half of the renew deadline.
    pub request_timeout: Duration,
    /// The reserve for clocks of different rates: a sixteenth of the lease covers 3 % in either
    /// direction. Default: 1 s.
    pub margin: Duration,
    /// The behaviour at an orderly stop. Default: release.
    ///
    /// Upstream: `ReleaseOnCancel`, off by default.
    pub on_stop: OnStop,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            request_timeout: Duration::from_secs(2),
            margin: Duration::from_secs(1),
            on_stop: OnStop::Release,
        }
    }
}

impl LeaseOptions {
    /// Timings for a take-over within five seconds of a crash, at four times the requests: lease
    /// 4 s, renew deadline 2 s, retry period 0.5 s, request timeout 1 s, margin 0.5 s.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            lease_duration: Duration::from_secs(4),
            renew_deadline: Duration::from_secs(2),
            retry_period: Duration::from_millis(500),
            request_timeout: Duration::from_secs(1),
            margin: Duration::from_millis(500),
            on_stop: OnStop::Release,
        }
    }

    /// Returns the length of a term without a renewal, counted from a send time: the lease duration
    /// less request timeout and margin. Default: 12 s.
    #[must_use]
    pub fn term_length(&self) -> Duration {
        if mutant!("L2") {
            return self.lease_duration;
        }
        let reserve = self.request_timeout.saturating_add(self.margin);
        self.lease_duration.saturating_sub(reserve)
    }

    /// Validates that no two terms can overlap, and that a leader has time to renew.
    ///
    /// # Errors
    /// The first rule that is broken, with the values to change.
    ///
    /// Upstream: the checks of `NewLeaderElector`, which also accept timings that overlap.
    pub fn validate(&self) -> Result<(), LeaseOptionsError> {
        let spans = [
            ("lease duration", self.lease_duration),
            ("renew deadline", self.renew_deadline),
            ("retry period", self.retry_period),
            ("request timeout", self.request_timeout),
            ("margin", self.margin),
        ];
        if let Some((name, _)) = spans.into_iter().find(|(_, span)| span.is_zero()) {
            return Err(LeaseOptionsError::Zero { name });
        }
        let lease = self.lease_duration;
        if lease.subsec_nanos() != 0 || i32::try_from(lease.as_secs()).is_err() {
            return Err(LeaseOptionsError::NotWholeSeconds { lease });
        }
        // Upstream's factor: a deadline that leaves room for one jittered retry.
        let retry = self.retry_period.saturating_mul(6) / 5;
        if self.renew_deadline <= retry {
            return Err(LeaseOptionsError::DeadlineTooShort {
                deadline: self.renew_deadline,
                retry,
            });
        }
        let needed = [self.retry_period, self.request_timeout, self.margin]
            .into_iter()
            .fold(self.renew_deadline, Duration::saturating_add);
        if lease < needed {
            return Err(LeaseOptionsError::Overlap { lease, needed });
        }
        let margin = lease / CLOCK_SHARE;
        if self.margin < margin {
            return Err(LeaseOptionsError::MarginTooSmall { margin });
        }
        Ok(())
    }

    /// The lease duration as the record has it, in seconds.
    pub(super) fn duration_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    /// The delays before a lost lease is stood for again.
    pub(super) fn backoff(&self) -> BackoffPolicy {
        BackoffPolicy {
            first: self.retry_period,
            cap: self.lease_duration,
            jitter_factor: JITTER,
            reset_after: self.lease_duration.saturating_mul(4),
        }
    }
}

/// A candidate's delay is stretched by a factor from 1 to 1 more than this: upstream's.
pub(super) const JITTER: f64 = 1.2;
/// BOUND: the margin is at least the lease divided by this: two clocks, 3 % off in opposite
/// directions, differ by 5.9 % over a lease.
const CLOCK_SHARE: u32 = 16;

/// Timings or an identity that an election refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseOptionsError {
    /// The identity is empty: an empty holder is a free lease.
    #[error("the identity of a leader must not be empty")]
    EmptyIdentity,
    /// A duration is zero.
    #[error("the {name} must be greater than zero")]
    Zero {
        /// The option.
        name: &'static str,
    },
    /// The record has whole seconds only: upstream writes 2 s for 2.2 s, and 0 s for 0.9 s.
    #[error("the lease duration must be in whole seconds, from 1 s, and is {lease:?}")]
    NotWholeSeconds {
        /// The value.
        lease: Duration,
    },
    /// The renew deadline does not leave room for a second attempt.
    #[error(
        "the renew deadline must be greater than the retry period times 1.2: {deadline:?} is not above {retry:?}"
    )]
    DeadlineTooShort {
        /// The renew deadline.
        deadline: Duration,
        /// The retry period times 1.2.
        retry: Duration,
    },
    /// A leader could still act when a rival takes the lease.
    #[error(
        "the lease duration must be at least {needed:?}, which is renew deadline + retry period + request timeout + margin, and is {lease:?}"
    )]
    Overlap {
        /// The lease duration.
        lease: Duration,
        /// The least that is safe.
        needed: Duration,
    },
    /// Clocks of different rates could make two terms overlap.
    #[error("the margin must be at least a sixteenth of the lease duration, which is {margin:?}")]
    MarginTooSmall {
        /// The least that is safe.
        margin: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options from milliseconds: lease, renew deadline, retry period, request timeout, margin.
    fn options([lease, deadline, retry, timeout, margin]: [u64; 5]) -> LeaseOptions {
        LeaseOptions {
            lease_duration: Duration::from_millis(lease),
            renew_deadline: Duration::from_millis(deadline),
            retry_period: Duration::from_millis(retry),
            request_timeout: Duration::from_millis(timeout),
            margin: Duration::from_millis(margin),
            on_stop: OnStop::Release,
        }
    }

    #[test]
    fn both_sets_of_timings_are_valid_and_have_the_documented_terms() {
        assert_eq!(LeaseOptions::default().validate(), Ok(()));
        assert_eq!(LeaseOptions::quick().validate(), Ok(()));
        let seconds = |options: LeaseOptions| options.term_length().as_secs_f64();
        assert_eq!(seconds(LeaseOptions::default()), 12.0);
        assert_eq!(seconds(LeaseOptions::quick()), 2.5);
    }

    #[test]
    fn timings_that_can_overlap_are_refused_and_so_are_fractions() {
        // client-go: TestLeaderElectionConfigValidation
        let table = [
            ([15_000, 10_000, 2_000, 2_000, 1_000], ""),
            (
                [14_000, 10_000, 2_000, 2_000, 1_000],
                "at least 15s, which is renew deadline",
            ),
            // Upstream accepts it, writes 2 s, and gives up after 3 s.
            ([2_200, 2_000, 1_000, 500, 500], "whole seconds"),
            // Upstream accepts it, and writes a lease of 0 s.
            ([900, 500, 100, 100, 100], "whole seconds"),
            (
                [3_000_000_000_000, 10_000, 2_000, 2_000, 1_000],
                "whole seconds",
            ),
            (
                [2_000, 2_000, 1_000, 500, 500],
                "at least 4s, which is renew deadline",
            ),
            (
                [15_000, 2_400, 2_000, 2_000, 1_000],
                "2.4s is not above 2.4s",
            ),
            ([15_000, 2_000, 1_000, 2_000, 1_000], ""),
            ([16_000, 10_000, 2_000, 2_000, 1_000], ""),
            ([60_000, 40_000, 5_000, 5_000, 1_000], "which is 3.75s"),
            ([15_000, 10_000, 2_000, 2_000, 937], "which is 937.5ms"),
            ([0, 10_000, 2_000, 2_000, 1_000], "lease duration must"),
            ([15_000, 0, 2_000, 2_000, 1_000], "renew deadline must"),
            ([15_000, 10_000, 0, 2_000, 1_000], "retry period must"),
            ([15_000, 10_000, 2_000, 0, 1_000], "request timeout must"),
            ([15_000, 10_000, 2_000, 2_000, 0], "margin must"),
        ];
        for (timings, expected) in table {
            let found = options(timings).validate();
            let text = found
                .as_ref()
                .map_or_else(ToString::to_string, |()| String::new());
            let is_right = text.contains(expected) && text.is_empty() == expected.is_empty();
            assert!(is_right, "{timings:?}: {text:?}");
        }
    }

    // fault: F28
    #[test]
    fn no_valid_timings_let_clocks_that_are_three_percent_off_overlap() {
        let mut valid = 0;
        for lease in 1..=60u64 {
            for timeout in (250..=10_000).step_by(250) {
                for margin in (60..=4_000).step_by(60) {
                    let options = options([lease * 1_000, 500, 250, timeout, margin]);
                    if options.validate().is_err() {
                        continue;
                    }
                    valid += 1;
                    let last = options.term_length() + options.request_timeout;
                    let rival = options.lease_duration.as_secs_f64() / 1.03;
                    assert!(last.as_secs_f64() / 0.97 <= rival, "{options:?}");
                }
            }
        }
        assert!(valid > 1_000, "{valid}");
    }
}
