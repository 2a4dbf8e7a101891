//! `kinform measure` as one more subject: its figures must agree with the bench's.
//!
//! ```text
//! scenario ─▶ words of the command ─▶ its JSON ─▶ readings, named as the bench names them
//! Results ─▶ Agreement { bench, measure } for each figure that both tell
//! ```
//!
//! It runs right after kinform's subject, on the same replay server, and each of its runs is
//! compared with one of that subject's. It is another program with the same library: the difference
//! is the cost of the command itself, and the machine's noise.

use serde::Deserialize;

use crate::row::{Reading, Results};
use crate::scenario::Work;

/// The name in the results.
pub const SUBJECT: &str = "kinform measure";

/// Figures that both report, and the share by which they may differ: time varies between runs,
/// bytes by what a process holds next to its cache.
const COMPARED: [(&str, f64); 3] = [
    ("cpu_seconds", 0.25),
    ("bytes_per_object", 0.02),
    ("peak_over_steady", 0.1),
];

/// The words after `kinform` that do a scenario; `None` if the command cannot do it.
#[must_use]
pub fn words(work: Work, url: &str) -> Option<Vec<String>> {
    let how: &[&str] = match work {
        Work::SyncJson => &["--encoding=json", "--mode=list"],
        Work::SyncProtobuf => &["--encoding=protobuf", "--mode=list"],
        Work::SyncStream => &["--encoding=json", "--mode=stream"],
        Work::SyncJsonTyped => &["--encoding=json", "--mode=list", "--typed"],
        _ => return None,
    };
    let words = ["measure", "pods", "-A", "-o", "json", "--server", url];
    let words = words.iter().chain(how);
    Some(words.map(|word| (*word).to_owned()).collect())
}

/// The compared part of the command's output.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    objects: usize,
    cpu_seconds: f64,
    bytes_per_object: f64,
    peak_over_steady: f64,
}

/// Parses the command's output into readings.
///
/// # Errors
/// It printed something else, or stored another number of objects.
pub fn readings(printed: &[u8], objects: usize) -> Result<Vec<Reading>, String> {
    let text = || String::from_utf8_lossy(printed).into_owned();
    let told: Printed =
        serde_json::from_slice(printed).map_err(|error| format!("{error}: {}", text()))?;
    if told.objects != objects {
        return Err(format!(
            "{} objects are stored, not {objects}",
            told.objects
        ));
    }
    Ok(vec![
        Reading::new("cpu_seconds", "s", told.cpu_seconds),
        Reading::new("bytes_per_object", "B", told.bytes_per_object),
        Reading::new("peak_over_steady", "x", told.peak_over_steady),
    ])
}

/// A figure that both report.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// The scenario with its size.
    pub scenario: String,
    /// The metric's name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The bench's value.
    pub bench: f64,
    /// The command's value.
    pub measure: f64,
    /// The command's value divided by the bench's, from runs made in turn.
    pub ratio: f64,
    /// By which share they may differ.
    pub tolerance: f64,
}

impl Agreement {
    /// Returns whether both values agree, within noise.
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.ratio - 1.0).abs() <= self.tolerance
    }
}

/// Every figure that was measured by both.
#[must_use]
pub fn agreements(results: &Results) -> Vec<Agreement> {
    let ours = results.rows.iter().filter(|row| row.subject == "kinform");
    let both = ours.filter_map(|ours| {
        let (_, tolerance) = *COMPARED.iter().find(|(name, _)| *name == ours.metric)?;
        let told = results.rows.iter().find(|row| {
            row.subject == SUBJECT && row.scenario == ours.scenario && row.metric == ours.metric
        })?;
        Some(Agreement {
            scenario: ours.scenario.clone(),
            metric: ours.metric.clone(),
            unit: ours.unit.clone(),
            bench: ours.value,
            measure: told.value,
            ratio: told.over(ours),
            tolerance,
        })
    });
    both.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn row(subject: &str, metric: &str, value: f64) -> Row {
        Row {
            scenario: "sync-json-10k".to_owned(),
            subject: subject.to_owned(),
            metric: metric.to_owned(),
            unit: "s".to_owned(),
            value,
            runs: vec![value],
        }
    }

    #[test]
    fn figures_of_both_are_compared_and_no_others() {
        let check = |bench: f64, measure: f64, expected: bool| {
            let results = Results {
                commit: String::new(),
                machine: String::new(),
                rows: vec![
                    row("kinform", "cpu_seconds", bench),
                    row("kube-rs", "cpu_seconds", 9.0),
                    row(SUBJECT, "cpu_seconds", measure),
                    row("kinform", "allocations", 1.0),
                    row(SUBJECT, "allocations", 5.0),
                ],
            };
            let found = agreements(&results);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].holds(), expected, "{bench} {measure}");
        };
        check(1.0, 1.2, true);
        check(1.0, 0.8, true);
        check(1.0, 1.3, false);
        check(1.0, 0.7, false);
    }

    #[test]
    fn what_the_command_prints_is_read_and_checked() {
        let line =
            br#"{"objects":3,"cpuSeconds":0.5,"bytesPerObject":7.5,"peakOverSteady":1.5,"more":1}"#;
        let found = readings(line, 3).unwrap();
        assert!((found[0].value - 0.5).abs() < 1e-9 && found.len() == 3);
        assert!(readings(line, 4).is_err());
        assert!(readings(b"no server", 3).is_err());
        assert!(words(Work::SyncMix, "http://x").is_none());
        assert!(
            words(Work::SyncJsonTyped, "http://x")
                .unwrap()
                .contains(&"--typed".to_owned())
        );
    }
}
