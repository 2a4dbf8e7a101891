//! One figure: scenario, subject, metric, value and the runs it comes from.
//!
//! ```text
//! a subject's line {"metric", "unit", "value"} ─▶ runs of one metric ─▶ Row (the median)
//! a bench of kinform alone: Figures::add(scenario, metric, runs) ─▶ bench/results/NAME.json
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::machine::{commit, machine};
use crate::subject::Failed;

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

/// The figures of a bench of kinform alone, and the scenarios that it is asked for.
#[derive(Debug)]
pub struct Figures {
    bench: &'static str,
    only: Vec<String>,
    directory: PathBuf,
    results: Results,
}

impl Figures {
    /// Begins with none. They are written below `directory`, the repository's `bench/`; only
    /// scenarios whose name begins as one of `only` are wanted, or all if that is empty.
    pub async fn new(bench: &'static str, only: Vec<String>, directory: PathBuf) -> Self {
        Self {
            bench,
            only,
            directory,
            results: Results {
                commit: commit().await,
                machine: machine(),
                rows: Vec::new(),
            },
        }
    }

    /// Returns whether a scenario is wanted.
    #[must_use]
    pub fn are_wanted_of(&self, scenario: &str) -> bool {
        let mut only = self.only.iter();
        self.only.is_empty() || only.any(|start| scenario.starts_with(start.as_str()))
    }

    /// Adds a figure, prints it, and writes all of them: a run takes long.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(
        &mut self,
        scenario: &str,
        (metric, unit): (&str, &str),
        runs: Vec<f64>,
    ) -> Result<(), Failed> {
        let (bench, value) = (self.bench, median(&runs));
        eprintln!("{bench}: {scenario} {metric}: {value} {unit} of {runs:?}");
        self.results.rows.push(Row {
            scenario: scenario.to_owned(),
            subject: "kinform".to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value,
            runs,
        });
        self.results.machine = machine();
        let name = match self.only.is_empty() {
            true => format!("{bench}.json"),
            false => format!("part-{bench}.json"),
        };
        let text = serde_json::to_string_pretty(&self.results)?;
        let path = self.directory.join("results").join(name);
        Ok(std::fs::write(path, text + "\n")?)
    }
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
