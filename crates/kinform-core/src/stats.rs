//! Numbers that the rooms count: latency histograms and the counters of a reflector.
//!
//! ```text
//! durations → Histogram → percentile, mean, max        steps → ReflectorStats (plain numbers)
//! ```
//!
//! Machines are `&mut self`, so these are plain integers: no atomics, no locks, no names and no
//! labels. The shell copies a snapshot out (all types are `Clone`) and gives it to whatever metrics
//! it exports. A histogram is 2 KiB whatever it is fed and never allocates after `new`; a value is
//! found again within 6.25% (16 buckets a power of two), from 1 µs to 12 days.
//!
//! Upstream counterpart: none in the informer itself (`client-go:tools/cache` lost its reflector
//! metrics; see `kubernetes/enhancements:4346`); the buckets are those of HdrHistogram.

use std::fmt;
use std::time::Duration;

/// Sub-buckets a power of two: 4 bits, a relative error of at most 1/16.
const SUB_BITS: u32 = 4;
const SUB: usize = 1 << SUB_BITS;
/// Powers of two that have sub-buckets: up to 2^40 µs.
const POWERS: usize = 37;
const BUCKETS: usize = SUB * POWERS;

/// A histogram of durations in microseconds with a bounded relative error.
///
/// Complexity: `record` is O(1), a percentile O(buckets).
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    // BOUND: one fixed block, whatever is recorded.
    counts: Box<[u64]>,
    count: u64,
    total_micros: u64,
    max_micros: u64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS].into(),
            count: 0,
            total_micros: 0,
            max_micros: 0,
        }
    }

    /// Counts one duration.
    pub fn record(&mut self, duration: Duration) {
        let seconds = duration.as_secs().saturating_mul(1_000_000);
        self.record_micros(seconds.saturating_add(u64::from(duration.subsec_micros())));
    }

    /// The same, of a number.
    #[inline]
    pub(crate) fn record_micros(&mut self, micros: u64) {
        self.counts[bucket_of(micros)] += 1;
        self.count += 1;
        self.total_micros = self.total_micros.saturating_add(micros);
        self.max_micros = self.max_micros.max(micros);
    }

    /// Adds what another histogram counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.total_micros = self.total_micros.saturating_add(other.total_micros);
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Returns the number of durations recorded.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The longest duration, exactly.
    pub const fn max(&self) -> Duration {
        Duration::from_micros(self.max_micros)
    }

    /// The sum of all durations.
    pub const fn total(&self) -> Duration {
        Duration::from_micros(self.total_micros)
    }

    /// The mean; zero if nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.total_micros.checked_div(self.count).unwrap_or(0))
    }

    /// The duration that `percent` of the recorded ones do not exceed, rounded up to its bucket's
    /// end and never above the maximum; zero if nothing was recorded.
    pub fn percentile(&self, percent: f64) -> Duration {
        let share = if percent.is_finite() {
            percent.clamp(0.0, 100.0) / 100.0
        } else {
            1.0
        };
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros(bucket_end(bucket).min(self.max_micros));
            }
        }
        self.max()
    }

    /// The filled buckets as `(upper end, count in it)`, in ascending order, for exporters.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let filled = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (Duration::from_micros(bucket_end(bucket)), *count))
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Histogram");
        shown
            .field("count", &self.count)
            .field("p50", &self.percentile(50.0));
        shown
            .field("p99", &self.percentile(99.0))
            .field("max", &self.max())
            .finish()
    }
}

/// The counts of one reflector's work since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReflectorStats {
    /// Whole lists handed on, paged or streamed.
    pub lists: u64,
    /// Those that came after the first.
    pub relists: u64,
    /// Lists begun and given up; nothing of them was applied.
    pub aborted_lists: u64,
    /// Watches opened again at the version where the last one stopped.
    pub reopens: u64,
    /// Starts from a snapshot that needed no list.
    pub resumed: u64,
    /// Requests made, of any kind.
    pub requests: u64,
    /// Items of lists and initial events of streaming lists.
    pub items: u64,
    /// Events of watches that were handed on.
    pub events: u64,
    /// Bookmarks that moved the version on.
    pub bookmarks: u64,
    /// Items and events that could not be read and were quarantined.
    pub quarantined: u64,
    /// Events skipped: of another kind or of an unknown type.
    pub skipped: u64,
    /// Items and events about objects that are not wanted.
    pub outside: u64,
    /// Waits that were begun after a failure.
    pub retries: u64,
    /// Times that a stream was silent for longer than allowed.
    pub silences: u64,
    /// Events that were older than what the watch had said before.
    pub disorders: u64,
    /// Times that the server's version went back.
    pub epochs: u64,
}

#[inline]
fn bucket_of(micros: u64) -> usize {
    if micros < SUB as u64 {
        return micros as usize;
    }
    let power = micros.ilog2() - SUB_BITS;
    let sub = (micros >> power) as usize - SUB;
    ((power as usize + 1) * SUB + sub).min(BUCKETS - 1)
}

/// The largest value that belongs to a bucket.
fn bucket_end(bucket: usize) -> u64 {
    if bucket < SUB {
        return bucket as u64;
    }
    let power = (bucket / SUB - 1) as u32;
    let sub = (bucket % SUB + SUB) as u64;
    ((sub + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_histogram_says_zero() {
        let empty = Histogram::new();
        assert_eq!(empty.percentile(99.0), Duration::ZERO);
        assert_eq!(
            (empty.mean(), empty.max(), empty.count()),
            (Duration::ZERO, Duration::ZERO, 0)
        );
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let mut ramp = Histogram::new();
        (1..=1_000).for_each(|ms| ramp.record(Duration::from_millis(ms)));
        for (percent, exact) in [(0.0, 1.0), (50.0, 500.0), (99.0, 990.0), (100.0, 1_000.0)] {
            let found = ramp.percentile(percent).as_secs_f64() * 1e3;
            assert!(
                found >= exact && found <= exact * 1.0625,
                "{percent}: {found}"
            );
        }
        assert_eq!(ramp.max(), Duration::from_secs(1));
        assert_eq!(ramp.mean(), Duration::from_micros(500_500));
        assert_eq!(ramp.buckets().map(|(_, count)| count).sum::<u64>(), 1_000);
    }

    #[test]
    fn absurd_durations_are_counted_in_the_last_bucket() {
        let mut histogram = Histogram::new();
        histogram.record(Duration::MAX);
        histogram.record(Duration::MAX);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.percentile(50.0) >= Duration::from_secs(12 * 24 * 3_600));
    }

    proptest! {
        #[test]
        fn buckets_cover_their_values(micros in 0u64..1 << 40) {
            let bucket = bucket_of(micros);
            prop_assert!(bucket_end(bucket) >= micros);
            prop_assert!(bucket == 0 || bucket_end(bucket - 1) < micros);
            prop_assert!(bucket_end(bucket) as f64 <= micros as f64 * 1.0625 + 1.0);
        }

        #[test]
        fn merging_equals_recording_all(a in prop::collection::vec(0u64..1 << 41, 0..40),
                                        b in prop::collection::vec(0u64..1 << 41, 0..40)) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::new();
                values.iter().for_each(|v| histogram.record(Duration::from_micros(*v)));
                histogram
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }
}
