//! What a queue counts about itself.
//!
//! ```text
//! queue → QueueStats, a copy of all numbers at one instant
//! ```
//!
//! Numbers are plain fields that the queue adds to while it works; nothing refreshes them in the
//! background: ages are computed when somebody asks. Durations are counted in powers of two.
//!
//! Upstream counterpart: `client-go:util/workqueue/metrics.go` (the metric's name is given at each
//! field), which refreshes two of them twice a second for as long as the queue lives.

use std::time::Duration;

/// A queue's numbers at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys that wait to be handed out (`workqueue_depth`).
    pub depth: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys handed out and not given back.
    pub processing: usize,
    /// Keys that the queue knows: the above, and those whose failures it remembers.
    pub known: usize,
    /// Times that a key began to wait (`workqueue_adds_total`); repeats while it waits do not count.
    pub adds: u64,
    /// Adds that met a key which was to be handed out anyway.
    pub merged: u64,
    /// Delayed and rate limited adds (`workqueue_retries_total`).
    pub retries: u64,
    /// Adds after the shutdown, and delayed keys given up by it.
    pub refused: u64,
    /// Time since each handed out key was handed out, in sum (`workqueue_unfinished_work_seconds`).
    pub unfinished: Duration,
    /// The longest of them (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
    /// From being added to being handed out (`workqueue_queue_duration_seconds`).
    pub queue_latency: Histogram,
    /// From being handed out to being given back (`workqueue_work_duration_seconds`).
    pub work_duration: Histogram,
}

/// Durations, counted in powers of two of a nanosecond.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: Duration,
}

/// BOUND: the last bucket takes everything above 2^46 ns, which is 19 hours.
const BUCKETS: usize = 48;

impl Histogram {
    /// Durations counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All durations together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// A duration that `share` (0 to 1) of those counted do not exceed: at most twice the real one.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (upper, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return upper;
            }
        }
        Duration::ZERO
    }

    /// Each bucket's upper bound and how many durations are in it, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .map(|(bits, &count)| (Duration::from_nanos(1 << bits), count))
    }

    pub(super) fn record(&mut self, duration: Duration) {
        let nanos = duration.as_secs().saturating_mul(1_000_000_000);
        let nanos = nanos.saturating_add(u64::from(duration.subsec_nanos()));
        let bits = (u64::BITS - nanos.saturating_sub(1).leading_zeros()) as usize;
        self.counts[bits.min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            sum: Duration::ZERO,
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_twice_the_duration() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        for (share, real) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let real = Duration::from_micros(real);
            let told = histogram.quantile(share);
            assert!(
                real <= told && told <= 2 * real,
                "{share}: {told:?} for {real:?}"
            );
        }
        histogram.record(Duration::MAX);
        histogram.record(Duration::ZERO);
        assert_eq!((histogram.count(), histogram.sum()), (1002, Duration::MAX));
    }
}
