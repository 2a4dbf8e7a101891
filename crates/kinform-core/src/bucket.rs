//! A bucket of tokens: a burst at once, then one token an interval.
//!
//! ```text
//! now → reserve → the delay until a token that is not there yet     (keys of a queue)
//!     → take    → a token | the time at which the next one is there (requests of a client)
//! ```
//!
//! A reservation cannot be given back, so a request that may be given up takes a token only when
//! it can go. No clock: time is handed in. Sums saturate.
//!
//! Upstream counterpart: `golang.org/x/time/rate`, `client-go:util/flowcontrol/throttle.go`.
//! Complexity: O(1), three words.

use std::time::Duration;

use crate::time::Instant;

/// Tokens that come one an interval, and are kept up to a burst of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    interval: Duration,
    burst: u32,
    /// When the bucket would be full again.
    full_at: Instant,
}

impl Bucket {
    /// A full bucket of `burst` tokens, which gets one an `interval`.
    #[must_use]
    pub const fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            burst,
            full_at: Instant::ZERO,
        }
    }

    /// Takes a token, if need be one that is not there yet; returns the delay until it is.
    ///
    /// Upstream: `rate.Limiter.Reserve`.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval;
        self.full_at.since(now).saturating_sub(self.capacity())
    }

    /// Takes a token that is there. A bucket without a burst holds one token all the same.
    ///
    /// # Errors
    /// There is no token: the time at which the next one is there.
    ///
    /// Upstream: `flowcontrol.RateLimiter.TryAccept`.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full_at = self.full_at.max(now) + self.interval;
        let there_at = full_at - self.capacity().max(self.interval);
        if there_at > now {
            return Err(there_at);
        }
        self.full_at = full_at;
        Ok(())
    }

    /// The time in which an empty bucket fills.
    const fn capacity(&self) -> Duration {
        self.interval.saturating_mul(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_burst_goes_at_once_and_then_one_an_interval() {
        // client-go: TestBasicThrottle, TestMultithreadedThrottling
        let at = Instant::from_millis;
        let mut bucket = Bucket::new(20 * MS, 3);
        for now in [at(1_000), at(1_000), at(1_010)] {
            assert_eq!(bucket.take(now), Ok(()));
        }
        // Asked in vain, it keeps its tokens.
        for now in [at(1_010), at(1_019)] {
            assert_eq!(bucket.take(now), Err(at(1_020)));
        }
        assert_eq!(bucket.take(at(1_020)), Ok(()));
        assert_eq!(bucket.take(at(1_020)), Err(at(1_040)));
        // A rest fills it, and no more than that.
        let rested = at(9_000);
        let taken = (0..10).take_while(|_| bucket.take(rested).is_ok()).count();
        assert_eq!(taken, 3);
        // Clocks that stand still at the end of time, or go back.
        assert_eq!(bucket.take(at(8_000)), Err(at(9_020)));
        assert_eq!(bucket.take(Instant::FAR_FUTURE), Ok(()));
    }

    #[test]
    fn a_bucket_without_a_burst_gives_one_token_an_interval() {
        let mut bucket = Bucket::new(20 * MS, 0);
        assert_eq!(bucket.take(Instant::ZERO), Ok(()));
        assert_eq!(bucket.take(Instant::ZERO), Err(Instant::from_millis(20)));
    }

    proptest! {
        /// A count of tokens in 20ths, which grow by one a millisecond.
        #[test]
        fn a_bucket_is_a_count_of_tokens(
            burst in 1u32..6,
            steps in prop::collection::vec(0u64..70, 1..80),
        ) {
            let (interval, full) = (20, u64::from(burst) * 20);
            let mut bucket = Bucket::new(interval * MS, burst);
            let (mut now, mut tokens) = (1_000, full);
            for step in steps {
                now += step;
                tokens = full.min(tokens + step);
                let expected = match tokens.checked_sub(20) {
                    Some(left) => {
                        tokens = left;
                        Ok(())
                    }
                    None => Err(Instant::from_millis(now + 20 - tokens)),
                };
                prop_assert_eq!(bucket.take(Instant::from_millis(now)), expected);
            }
        }
    }
}
