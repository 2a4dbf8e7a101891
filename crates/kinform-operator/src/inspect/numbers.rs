//! Numbers of the inspector's JSON: rates, latencies, and the head that every reply has.
//!
//! ```text
//! two counters and the time between → Rate        two histograms → Latency of the time between
//! ```
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;
use std::time::Duration;

use kinform::Histogram;
use serde::{Deserialize, Serialize};

/// The version of the JSON. Fields may be added to a version; none is removed or changed.
pub const VERSION: &str = "v1";

/// BOUND: rows of a list, everywhere.
pub(super) const ROWS: usize = 200;

/// The head of every reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Head {
    /// The version of the JSON: `v1`.
    pub version: String,
    /// The time of the reply, as in RFC 3339.
    pub time: String,
    /// The name of the program.
    pub program: String,
}

/// A counter, and its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Rate {
    /// The count since the start.
    pub total: u64,
    /// The rate over the last two seconds or so; `null` until there are two samples.
    pub per_second: Option<f64>,
}

/// The distribution of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Latency {
    /// The number of measurements in the window.
    pub count: u64,
    /// The median in milliseconds; `null` without a measurement.
    pub p50_ms: Option<f64>,
    /// The 99th percentile in milliseconds; `null` without a measurement.
    pub p99_ms: Option<f64>,
}

impl Head {
    /// The head of a reply of a program.
    pub(super) fn of(program: &str) -> Self {
        Self {
            version: VERSION.to_owned(),
            time: kinform::env::wall_clock().to_string(),
            program: program.to_owned(),
        }
    }
}

impl Rate {
    /// A counter and what it was some time ago.
    pub(super) fn new(total: u64, before: Option<(u64, Duration)>) -> Self {
        let per_second = before.map(|(was, ago)| {
            // An informer that lost a namespace counts less than before.
            let grown = total.saturating_sub(was) as f64;
            round(grown / ago.as_secs_f64().max(0.001))
        });
        Self { total, per_second }
    }
}

/// The filled buckets of a histogram: microseconds to counts.
pub(super) type Buckets = BTreeMap<u64, u64>;

/// The filled buckets of a histogram.
pub(super) fn buckets(histogram: &Histogram) -> Buckets {
    let filled = histogram.buckets();
    filled
        .map(|(end, count)| (end.as_micros() as u64, count))
        .collect()
}

impl Latency {
    /// The measurements that came since `before`.
    pub(super) fn since(now: &Buckets, before: Option<&Buckets>) -> Self {
        let was = |end: &u64| before.and_then(|before| before.get(end)).copied();
        let new = now
            .iter()
            .map(|(end, count)| (*end, count.saturating_sub(was(end).unwrap_or_default())));
        let new: Vec<_> = new.collect();
        let count: u64 = new.iter().map(|(_, count)| count).sum();
        let percentile = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = new.iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            found.map(|(end, _)| round(*end as f64 / 1000.0))
        };
        Self {
            count,
            p50_ms: percentile(0.5).filter(|_| count > 0),
            p99_ms: percentile(0.99).filter(|_| count > 0),
        }
    }
}

/// Milliseconds, to a thousandth.
pub(super) fn millis(duration: Duration) -> f64 {
    round(duration.as_secs_f64() * 1000.0)
}

/// A number to its thousandth.
fn round(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_growth_a_second_and_never_below_zero() {
        let two = Duration::from_secs(2);
        assert_eq!(Rate::new(10, None).per_second, None);
        assert_eq!(Rate::new(10, Some((4, two))).per_second, Some(3.0));
        assert_eq!(Rate::new(1, Some((4, two))).per_second, Some(0.0));
    }

    #[test]
    fn a_latency_is_that_of_the_window() {
        let mut histogram = Histogram::new();
        (0..100).for_each(|_| histogram.record(Duration::from_millis(900)));
        let before = buckets(&histogram);
        (0..98).for_each(|_| histogram.record(Duration::from_micros(10)));
        (0..2).for_each(|_| histogram.record(Duration::from_millis(1)));
        let found = Latency::since(&buckets(&histogram), Some(&before));
        assert_eq!((found.count, found.p50_ms), (100, Some(0.01)));
        let p99 = found.p99_ms.unwrap();
        assert!((1.0..1.07).contains(&p99), "{p99}");
        let none = Latency::since(&before, Some(&before));
        assert_eq!((none.count, none.p50_ms, none.p99_ms), (0, None, None));
    }
}
