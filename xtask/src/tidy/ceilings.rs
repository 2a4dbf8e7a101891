//! The ceilings of `tidy.toml`: the most findings of one kind, a number that only sinks.
//!
//! ```text
//! [ceilings]
//! "layers.apiserver" = 39     ──▶ 40 findings: all of them are wrong    38: lower the number
//! ```
//!
//! A rule that the whole repository cannot keep from one day to the next begins with a ceiling.
//! Kinds without an entry have a ceiling of 0. `cargo xtask tidy --lower` writes the counts
//! reached.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::finding::Finding;
use crate::text::settings::{Entry, PATH, Value};

/// The section of the file.
pub(crate) const SECTION: &str = "ceilings";
const RULE: &str = "ceilings";

/// A finding that counts against a ceiling.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The name of the ceiling, as `layers.apiserver`.
    pub(crate) key: String,
    /// The finding.
    pub(crate) finding: Finding,
}

impl Counted {
    pub(crate) fn new(key: impl Into<String>, finding: Finding) -> Self {
        Self {
            key: key.into(),
            finding,
        }
    }
}

/// Findings by the name of their ceiling.
pub(crate) type Counts = BTreeMap<String, Vec<Finding>>;

/// The ceilings by name, with the line of each.
#[derive(Debug)]
pub(crate) struct Ceilings {
    entries: BTreeMap<String, (usize, usize)>,
}

impl Ceilings {
    /// Takes the ceilings from the entries of `tidy.toml`.
    ///
    /// # Errors
    /// A ceiling that is no number.
    pub(crate) fn new(entries: &[Entry<'_>]) -> Result<Self, String> {
        let mut ceilings = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.section == SECTION) {
            let Value::Number(number) = entry.value else {
                return Err(format!("{PATH}:{}: a ceiling is a number", entry.line));
            };
            ceilings.insert(entry.key.to_owned(), (number, entry.line));
        }
        Ok(Self { entries: ceilings })
    }

    /// A finding for each ceiling that is not as high as its count.
    pub(crate) fn check(&self, counts: &Counts) -> Vec<Finding> {
        let of_rule = |line: usize, message: String| Finding {
            path: PATH.to_owned(),
            line,
            rule: RULE,
            message,
        };
        let above = counts.iter().filter_map(|(key, found)| {
            let (ceiling, line) = self.entries.get(key).copied().unwrap_or((0, 1));
            let count = found.len();
            (count > ceiling).then(|| {
                of_rule(
                    line,
                    format!("{key}: {count} found, at most {ceiling}; --list {key} names them"),
                )
            })
        });
        let below = self.entries.iter().filter_map(|(key, (ceiling, line))| {
            let count = counts.get(key).map_or(0, Vec::len);
            (count < *ceiling).then(|| {
                of_rule(
                    *line,
                    format!("{key}: only {count} found; --lower lowers {ceiling} to that"),
                )
            })
        });
        above.chain(below).collect()
    }

    /// The counts with their ceilings, a line each.
    pub(crate) fn describe(&self, counts: &Counts) -> String {
        let mut lines: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (key, (ceiling, _)) in &self.entries {
            lines.entry(key).or_default().1 = *ceiling;
        }
        for (key, found) in counts {
            lines.entry(key).or_default().0 = found.len();
        }
        let width = lines.keys().map(|key| key.len()).max().unwrap_or_default();
        let mut text = String::new();
        for (key, (count, ceiling)) in lines {
            let _ = writeln!(text, "  {key:width$} {count:5} of {ceiling}");
        }
        text
    }

    /// The text of `tidy.toml` with each ceiling lowered to its count.
    pub(crate) fn lowered(&self, text: &str, counts: &Counts) -> String {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (key, (ceiling, line)) in &self.entries {
            let count = counts.get(key).map_or(0, Vec::len);
            if count < *ceiling {
                lines[line - 1] = format!("\"{key}\" = {count}");
            }
        }
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::settings::parse;

    const TEXT: &str = "[ceilings]\n# Why.\n\"a\" = 1\n\"b\" = 2\n";

    fn counts(numbers: &[(&str, usize)]) -> Counts {
        let finding = |line: usize| Finding {
            path: "a.rs".to_owned(),
            line,
            rule: "r",
            message: String::new(),
        };
        let counts = numbers.iter();
        counts
            .map(|(key, count)| ((*key).to_owned(), (0..*count).map(finding).collect()))
            .collect()
    }

    #[track_caller]
    fn check(numbers: &[(&str, usize)], expected: &[&str]) {
        let ceilings = Ceilings::new(&parse(TEXT).unwrap()).unwrap();
        let found = ceilings.check(&counts(numbers)).into_iter();
        let found: Vec<String> = found.map(|f| f.message).collect();
        let starts = found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
        assert!(starts && found.len() == expected.len(), "{found:?}");
    }

    #[test]
    fn counts_are_as_high_as_their_ceilings() {
        check(&[("a", 1), ("b", 2)], &[]);
        check(&[("a", 2), ("b", 2)], &["a: 2 found, at most 1"]);
        check(&[("a", 1), ("b", 1)], &["b: only 1 found"]);
        check(&[("a", 1)], &["b: only 0 found"]);
        check(&[("a", 1), ("b", 2), ("c", 1)], &["c: 1 found, at most 0"]);
    }

    #[test]
    fn ceilings_are_lowered_and_never_raised() {
        let ceilings = Ceilings::new(&parse(TEXT).unwrap()).unwrap();
        let lowered = ceilings.lowered(TEXT, &counts(&[("a", 7), ("b", 1)]));
        assert_eq!(lowered, "[ceilings]\n# Why.\n\"a\" = 1\n\"b\" = 1\n");
    }

    #[test]
    fn a_reason_is_no_ceiling() {
        assert!(Ceilings::new(&parse("[ceilings]\n\"a\" = \"x\"").unwrap()).is_err());
    }
}
