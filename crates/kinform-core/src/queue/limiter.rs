//! Delays of a failed key: five rate limiters and their combination.
//!
//! ```text
//! failures so far, now → Limiter → delay
//! ```
//!
//! A limiter keeps nothing about single keys: the queue's entry counts the failures and hands the
//! count in, so forgetting a key is one store and no limiter holds a map that someone must clean.
//! Only the bucket has a state of its own. No clock and no randomness; delays saturate, never wrap.
//!
//! Upstream counterpart: `client-go:util/workqueue/default_rate_limiters.go`. Differences: with
//! several limiters the count of failures is one and the same (upstream's `NumRequeues` of a maximum
//! is the highest of equal counts), and a bucket alone counts failures, too (upstream says 0).

use std::time::Duration;

use crate::bucket::Bucket;
use crate::time::Instant;

/// Decides how long a key waits before its next try.
#[derive(Clone, Debug, PartialEq)]
pub struct Limiter(Rule);

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    Exponential {
        base: Duration,
        max: Duration,
    },
    Bucket(Bucket),
    FastSlow {
        fast: Duration,
        slow: Duration,
        fast_tries: u32,
    },
    MaxOf(Vec<Limiter>),
    MaxWait {
        inner: Box<Limiter>,
        max: Duration,
    },
}

impl Limiter {
    /// `base`, then twice as long with each failure, up to `max`. It counts for each key by itself.
    ///
    /// Upstream: `NewTypedItemExponentialFailureRateLimiter`.
    #[must_use]
    pub fn exponential(base: Duration, max: Duration) -> Self {
        Self(Rule::Exponential { base, max })
    }

    /// One try an `interval` over all keys, after `burst` tries that wait for nothing.
    ///
    /// Every call reserves its place, so a thousand failures at once are spread out, not repeated.
    ///
    /// Upstream: `TypedBucketRateLimiter` over `golang.org/x/time/rate`.
    #[must_use]
    pub fn bucket(interval: Duration, burst: u32) -> Self {
        Self(Rule::Bucket(Bucket::new(interval, burst)))
    }

    /// `fast` for the first `fast_tries` failures of a key, then `slow`.
    ///
    /// Upstream: `NewTypedItemFastSlowRateLimiter`.
    #[must_use]
    pub fn fast_slow(fast: Duration, slow: Duration, fast_tries: u32) -> Self {
        Self(Rule::FastSlow {
            fast,
            slow,
            fast_tries,
        })
    }

    /// The longest of what several say. All are asked each time, so a bucket is used up, too.
    ///
    /// Upstream: `NewTypedMaxOfRateLimiter`.
    #[must_use]
    pub fn max_of(limiters: impl IntoIterator<Item = Self>) -> Self {
        Self(Rule::MaxOf(limiters.into_iter().collect()))
    }

    /// The same, but never longer than `max`.
    ///
    /// Upstream: `NewTypedWithMaxWaitRateLimiter`.
    #[must_use]
    pub fn with_max_wait(self, max: Duration) -> Self {
        Self(Rule::MaxWait {
            inner: Box::new(self),
            max,
        })
    }

    /// Returns the delay of a key that has failed `failures` times before this one.
    pub fn delay(&mut self, failures: u32, now: Instant) -> Duration {
        match &mut self.0 {
            Rule::Exponential { base, max } => doubled(*base, failures, *max),
            Rule::Bucket(bucket) => bucket.reserve(now),
            Rule::FastSlow {
                fast,
                slow,
                fast_tries,
            } => {
                if failures < *fast_tries {
                    *fast
                } else {
                    *slow
                }
            }
            // Depth is what the caller built: limiters are code, not data from a server.
            Rule::MaxOf(limiters) => {
                let delays = limiters
                    .iter_mut()
                    .map(|limiter| limiter.delay(failures, now));
                delays.max().unwrap_or_default()
            }
            Rule::MaxWait { inner, max } => inner.delay(failures, now).min(*max),
        }
    }
}

impl Default for Limiter {
    /// 5 ms doubling to 1000 s for each key, and 10 tries a second with a burst of 100 over all.
    ///
    /// Upstream: `DefaultTypedControllerRateLimiter`.
    fn default() -> Self {
        Self::max_of([
            Self::exponential(Duration::from_millis(5), Duration::from_secs(1000)),
            Self::bucket(Duration::from_millis(100), 100),
        ])
    }
}

/// `base * 2^exponent`, at most `max`, without a wrap on the way.
fn doubled(base: Duration, exponent: u32, max: Duration) -> Duration {
    let nanos = base.as_nanos();
    if nanos == 0 {
        return Duration::ZERO;
    }
    if exponent >= nanos.leading_zeros() {
        return max;
    }
    let nanos = (nanos << exponent).min(max.as_nanos());
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn check(mut limiter: Limiter, expected: &[(u32, u64)]) {
        for &(failures, millis) in expected {
            let delay = limiter.delay(failures, Instant::ZERO);
            assert_eq!(
                delay,
                Duration::from_millis(millis),
                "after {failures} failures"
            );
        }
    }

    // client-go: TestItemExponentialFailureRateLimiter
    #[test]
    fn exponential_doubles_up_to_its_maximum() {
        let limiter = Limiter::exponential(MS, 1000 * MS);
        check(
            limiter,
            &[
                (0, 1),
                (1, 2),
                (2, 4),
                (3, 8),
                (4, 16),
                (10, 1000),
                (11, 1000),
                (0, 1),
            ],
        );
    }

    // client-go: TestItemExponentialFailureRateLimiterOverFlow
    #[test]
    fn exponential_neither_wraps_nor_turns_negative() {
        let limiter = Limiter::exponential(MS, 1000 * 1000 * MS);
        check(
            limiter,
            &[
                (5, 32),
                (61, 1_000_000),
                (64, 1_000_000),
                (u32::MAX, 1_000_000),
            ],
        );
        let limiter = Limiter::exponential(60_000 * MS, 3_600_000 * MS);
        check(limiter, &[(2, 240_000), (61, 3_600_000), (200, 3_600_000)]);
        let mut widest = Limiter::exponential(Duration::MAX, Duration::MAX);
        assert_eq!(widest.delay(u32::MAX, Instant::FAR_FUTURE), Duration::MAX);
        check(
            Limiter::exponential(Duration::ZERO, MS),
            &[(0, 0), (500, 0)],
        );
    }

    // client-go: TestItemFastSlowRateLimiter
    #[test]
    fn fast_tries_come_before_slow_ones() {
        let limiter = Limiter::fast_slow(5 * MS, 10_000 * MS, 3);
        check(
            limiter,
            &[(0, 5), (1, 5), (2, 5), (3, 10_000), (4, 10_000), (0, 5)],
        );
    }

    // client-go: TestMaxOfRateLimiter
    #[test]
    fn the_longest_of_several_counts() {
        let limiter = Limiter::max_of([
            Limiter::fast_slow(5 * MS, 3_000 * MS, 3),
            Limiter::exponential(MS, 1_000_000 * MS),
        ]);
        check(
            limiter,
            &[(0, 5), (1, 5), (2, 5), (3, 3_000), (4, 3_000), (12, 4_096)],
        );
        check(Limiter::max_of([]), &[(7, 0)]);
    }

    // client-go: TestWithMaxWaitRateLimiter
    #[test]
    fn a_maximal_wait_cuts_every_delay() {
        let limiter = Limiter::fast_slow(5 * MS, 2_000 * MS, 3).with_max_wait(1_000 * MS);
        check(limiter, &[(0, 5), (2, 5), (3, 1_000), (4, 1_000), (0, 5)]);
    }

    // golang.org/x/time/rate: reservations queue up, unused tokens are kept up to the burst.
    #[test]
    fn a_bucket_hands_out_its_burst_and_then_one_place_an_interval() {
        let mut bucket = Limiter::bucket(100 * MS, 100);
        let start = Instant::from_millis(7);
        for _ in 0..100 {
            assert_eq!(bucket.delay(0, start), Duration::ZERO);
        }
        assert_eq!(bucket.delay(0, start), 100 * MS);
        assert_eq!(bucket.delay(0, start), 200 * MS);
        let later = start + 250 * MS;
        assert_eq!(
            bucket.delay(0, later),
            50 * MS,
            "the third place behind the burst"
        );
        let rested = later + 3_600_000 * MS;
        for _ in 0..100 {
            assert_eq!(bucket.delay(0, rested), Duration::ZERO);
        }
        assert_eq!(
            bucket.delay(0, rested),
            100 * MS,
            "no more than the burst is saved"
        );
        assert_eq!(bucket.delay(0, Instant::FAR_FUTURE), Duration::ZERO);
        assert_eq!(
            Limiter::bucket(Duration::ZERO, 0).delay(0, start),
            Duration::ZERO
        );
    }

    #[test]
    fn the_default_is_upstreams_controller_limiter() {
        let mut limiter = Limiter::default();
        assert_eq!(limiter.delay(0, Instant::ZERO), 5 * MS);
        assert_eq!(limiter.delay(30, Instant::ZERO), Duration::from_secs(1000));
        for _ in 0..98 {
            limiter.delay(0, Instant::ZERO);
        }
        assert_eq!(
            limiter.delay(0, Instant::ZERO),
            100 * MS,
            "the bucket was asked each time"
        );
    }
}
