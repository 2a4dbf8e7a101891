//! Suites of specs, run against a server, and what became of each spec.
//!
//! ```text
//! test binary + KUBECONFIG ──▶ report.json ──▶ Outcome { passed, failed: [Spec], skipped }
//! listed: `suite | spec | reason` ──▶ those that cannot pass, with reasons
//! ```
//!
//! A listed spec that passes, or that no suite has, is an error in the list, so that the list stays
//! true. A suite of which no spec passes is an error, too.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use kinform_testkit::checks::stage::StageError;
use serde::Deserialize;

use crate::peers::is_like;

/// The result of a suite.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The names of the specs that passed.
    pub passed: Vec<String>,
    /// Those that failed, and why.
    pub failed: BTreeMap<String, String>,
    /// The number of specs that the suite leaves out by itself.
    pub skipped: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Report {
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    #[serde(default)]
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Option<Failure>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
}

impl Spec {
    fn name(&self) -> String {
        let containers = self.container_hierarchy_texts.iter().flatten();
        let words: Vec<&str> = containers
            .map(String::as_str)
            .chain([self.leaf_node_text.as_str()])
            .collect();
        words.join(" ").trim().to_owned()
    }
}

/// Runs a command that a ginkgo suite is, with the flag for its report added.
///
/// # Errors
/// It leaves no report, none of its specs passed, or it failed although none of them did; the message
/// has its output.
pub fn run(command: &mut Command, home: &Path) -> Result<Outcome, StageError> {
    let path = home.join("report.json");
    let _ = std::fs::remove_file(&path);
    let output = command
        .arg(format!("-ginkgo.json-report={}", path.display()))
        .arg("-ginkgo.no-color")
        .stdin(Stdio::null())
        .output()?;
    let failed = |what: &str| -> StageError {
        let (out, err) = (&output.stdout, &output.stderr);
        let said = [out, err].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        format!("{what} ({}):\n{}", output.status, said.join("\n")).into()
    };
    let Ok(text) = std::fs::read_to_string(&path) else {
        return Err(failed("no report"));
    };
    let reports: Vec<Report> = serde_json::from_str(&text)?;
    let mut outcome = Outcome::default();
    for spec in reports.into_iter().flat_map(|report| report.spec_reports) {
        let name = spec.name();
        match (spec.state.as_str(), spec.leaf_node_type.as_str()) {
            ("passed", "It") => outcome.passed.push(name),
            ("pending" | "skipped", "It") => outcome.skipped += 1,
            ("passed" | "pending" | "skipped", _) => {}
            (state, of) => {
                let why = spec.failure.map(|failure| failure.message);
                let name = match of {
                    "It" => name,
                    of => of.to_owned(),
                };
                let why = why.unwrap_or_else(|| state.to_owned());
                outcome.failed.insert(name, why);
            }
        }
    }
    if outcome.passed.is_empty() {
        return Err(failed("no spec passed"));
    }
    if !output.status.success() && outcome.failed.is_empty() {
        return Err(failed("no spec failed, but the suite did"));
    }
    Ok(outcome)
}

/// A list of specs that cannot pass: `suite | spec | reason` a line.
#[derive(Debug)]
pub struct Listed<'t>(Vec<(&'t str, &'t str)>);

impl<'t> Listed<'t> {
    /// Those of a suite.
    pub fn of(text: &'t str, suite: &str) -> Self {
        let rows = text.lines().filter(|line| !line.starts_with('#'));
        let rows = rows.filter_map(|line| {
            let (of, rest) = line.split_once(" | ")?;
            let (spec, reason) = rest.split_once(" | ")?;
            (of == suite).then_some((spec, reason))
        });
        Self(rows.collect())
    }

    /// The faults of an outcome: failures that are not listed, and listed specs that passed, except
    /// for those that fail `now and then`, or that are not there.
    pub fn faults(&self, outcome: &Outcome) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, why) in &outcome.failed {
            if !self.0.iter().any(|(spec, _)| is_like(spec, name)) {
                faults.push(format!("{name}: {why}"));
            }
        }
        for (spec, reason) in &self.0 {
            let passed = outcome.passed.iter().any(|name| is_like(spec, name));
            let failed = outcome.failed.keys().any(|name| is_like(spec, name));
            if passed && !reason.starts_with("now and then") {
                faults.push(format!("{spec}: it passes, but is listed"));
            } else if !passed && !failed {
                faults.push(format!("{spec}: it is listed, but no spec is like it"));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_must_be_listed_and_a_listed_spec_must_fail() {
        let list = "# comment\na | one * | reason\na | two | now and then, reason\nb | x | y";
        let outcome = |passed: &[&str], failed: &[&str]| Outcome {
            passed: passed.iter().map(|name| (*name).to_owned()).collect(),
            failed: failed
                .iter()
                .map(|name| ((*name).to_owned(), "why".to_owned()))
                .collect(),
            skipped: 0,
        };
        let faults = |outcome: &Outcome| Listed::of(list, "a").faults(outcome);
        assert!(faults(&outcome(&["two", "x"], &["one spec"])).is_empty());
        assert_eq!(faults(&outcome(&["two"], &["one spec", "x"])), ["x: why"]);
        assert_eq!(
            faults(&outcome(&["one spec"], &["two"])),
            ["one *: it passes, but is listed"]
        );
        assert_eq!(
            faults(&outcome(&["two"], &[])),
            ["one *: it is listed, but no spec is like it"]
        );
    }
}
