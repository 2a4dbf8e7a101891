//! One figure: scenario, subject, metric, value and the runs it comes from.
//!
//! ```text
//! a subject's line {"metric", "unit", "value"} ─▶ runs of one metric ─▶ Row (the median)
//! ```

use serde::{Deserialize, Serialize};

/// A line that a subject prints, one for each metric.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// `cpu_seconds`, `bytes_per_object` ...
    pub metric: String,
    /// `s`, `B`, `1/s`, `ns`, `us`, `ms`, `x`, `count`.
    pub unit: String,
    /// The value in that unit.
    pub value: f64,
}

impl Reading {
    /// A reading.
    #[must_use]
    pub fn new(metric: &str, unit: &str, value: f64) -> Self {
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
        }
    }
}

/// A figure of the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The scenario's name, with its size: `sync-json-100k`.
    pub scenario: String,
    /// `kinform`, `kube-rs`, `client-go`.
    pub subject: String,
    /// As in [`Reading`].
    pub metric: String,
    /// As in [`Reading`].
    pub unit: String,
    /// The median of the runs.
    pub value: f64,
    /// Each run, in order.
    pub runs: Vec<f64>,
}

impl Row {
    /// The ratio of this figure to the other one: the median over runs made in turn, as a machine's
    /// speed changes more between turns than within one. Surplus runs of either figure are ignored.
    #[must_use]
    pub fn over(&self, other: &Self) -> f64 {
        let turns = self.runs.iter().zip(&other.runs);
        let ratios: Vec<f64> = turns.map(|(one, other)| one / other).collect();
        median(&ratios)
    }
}

/// The results of a run of the bench.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The commit that was measured, `-dirty` if more was.
    pub commit: String,
    /// Processor, cores and memory.
    pub machine: String,
    /// All figures.
    pub rows: Vec<Row>,
}

/// The median: the mean of the two middle values of an even number, zero of an empty list.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, median};

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [
            (&[][..], 0.0),
            (&[3.0], 3.0),
            (&[9.0, 1.0, 2.0], 2.0),
            (&[4.0, 1.0, 2.0, 9.0], 3.0),
        ] {
            assert!((median(values) - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn runs_in_turn_are_compared_one_by_one() {
        let row = |runs: &[f64]| Row {
            scenario: String::new(),
            subject: String::new(),
            metric: String::new(),
            unit: String::new(),
            value: median(runs),
            runs: runs.to_vec(),
        };
        // A machine that becomes four times slower within the second turn: the other turns yield a
        // ratio of 2, the medians would yield 8.
        // Surplus runs of either figure are ignored.
        for (one, other, expected) in [
            (&[2.0, 8.0, 8.0][..], &[1.0, 1.0, 4.0][..], 2.0),
            (&[6.0], &[2.0, 5.0, 9.0], 3.0),
        ] {
            let found = row(one).over(&row(other));
            assert!(
                (found - expected).abs() < 1e-9,
                "{one:?} {other:?}: {found}"
            );
        }
    }
}
