//! Both servers' answers to invalid writes, compared.
//!
//! ```text
//! name, what the real one said, what ours said ──▶ Report: same code? same words?   (listed ones: the page of differences)
//! ```

use std::fmt;

use serde_json::Value;

use super::object::Said;
use crate::conformance::mask;

/// The page that lists intended differences.
const PAGE: &str = include_str!("../../../docs/server-differences.md");

/// BOUND: the part of a message that is printed.
const SHOWN: usize = 600;

/// The result of all writes.
#[derive(Debug, Default)]
pub struct Report {
    seed: u64,
    sent: usize,
    /// Writes that the real server refused.
    refused: usize,
    /// Of these, writes that the embedded server refused with the same code.
    same_code: usize,
    /// Of these, writes refused with the same reason and message.
    same_message: usize,
    /// Writes that the real server did not answer: it hung up.
    unanswered: usize,
    /// Writes that both accepted.
    accepted: usize,
    listed: Vec<String>,
    wrong: Vec<String>,
    words: Vec<String>,
}

/// A listed difference: the beginning of a subject's and a write's name, and why.
fn listed(page: &str) -> Vec<(String, String)> {
    let part = page.split("<!-- invalid -->").nth(1).unwrap_or_default();
    let rows = part.lines().filter_map(|line| {
        let (write, reason) = line.trim().strip_prefix("| `")?.split_once("` |")?;
        let reason = reason.trim().trim_end_matches('|').trim();
        Some((write.to_owned(), reason.to_owned()))
    });
    rows.collect()
}

/// Returns whether a write's name matches the pattern: `*` stands for any text.
fn is_meant(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    for (at, piece) in pattern.split('*').enumerate() {
        match rest.find(piece) {
            Some(found) if at > 0 || found == 0 => rest = &rest[found + piece.len()..],
            _ => return false,
        }
    }
    rest.is_empty() || pattern.ends_with('*')
}

/// The message without the parts that only one server can write: diffs and values of its own
/// structs.
fn comparable(message: &str) -> String {
    let message = message.split("\n@@").next().unwrap_or_default();
    let message = match message.split_once("patch: Invalid value: \"") {
        // The whole patch or object comes first; the error follows.
        Some((head, rest)) => {
            let detail = rest.rfind("\": ").map_or(rest, |at| &rest[at + 3..]);
            format!("{head}patch: {detail}")
        }
        None => message.trim_end_matches(']').to_owned(),
    };
    mask::text(&message)
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Records both answers; the embedded server must have one.
    pub(super) fn write(&mut self, name: &str, real: Option<&Said>, ours: Option<&Said>) {
        self.sent += 1;
        let (real, ours) = match (real, ours) {
            (Some(real), Some(ours)) => (real, ours),
            (_, None) => return self.wrong.push(format!("{name}\n    embedded: no answer")),
            (None, Some(_)) => {
                // A panic there, which its server survives.
                self.unanswered += 1;
                return;
            }
        };
        let is_refused = real.code >= 300;
        self.refused += usize::from(is_refused);
        let words = |said: &Said| comparable(said.body["message"].as_str().unwrap_or_default());
        let (theirs, said) = (words(real), words(ours));
        if real.code != ours.code {
            let how = format!(
                "{name}\n    real:     {} {}\n    embedded: {} {}",
                real.code,
                cut(&theirs),
                ours.code,
                cut(&said)
            );
            let known = listed(PAGE);
            match known.iter().find(|(pattern, _)| is_meant(pattern, name)) {
                Some((_, reason)) => self.listed.push(format!("{name}: {reason}")),
                None => self.wrong.push(how),
            }
            return;
        }
        if !is_refused {
            self.accepted += 1;
            return;
        }
        self.same_code += 1;
        let reason = |said: &Said| said.body.get("reason").cloned().unwrap_or(Value::Null);
        if theirs == said && reason(real) == reason(ours) {
            self.same_message += 1;
        } else {
            let (theirs, said) = (cut(&theirs), cut(&said));
            let line = format!("{name}\n    real:     {theirs}\n    embedded: {said}");
            self.words.push(line);
        }
    }

    /// Returns whether every difference of codes is a listed one.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    /// The number of writes sent.
    pub fn sent(&self) -> usize {
        self.sent
    }

    /// The number of writes that the real server refused.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// The percentage of refusals that have the same words.
    pub fn same_words(&self) -> usize {
        self.same_message * 100 / self.same_code.max(1)
    }

    /// A line for each server, with its results.
    pub fn results(&self) -> [String; 2] {
        let Self {
            seed,
            sent,
            refused,
            unanswered,
            ..
        } = self;
        let ours = format!(
            "embedded | {} of these with the same code, {} with the same words; {} accepted by both, {} \
             differ as listed, {} differ",
            self.same_code,
            self.same_message,
            self.accepted,
            self.listed.len(),
            self.wrong.len()
        );
        [
            format!(
                "real | {sent} sent (seed {seed}), {refused} refused, {unanswered} not answered"
            ),
            ours,
        ]
    }
}

fn cut(message: &str) -> String {
    message.chars().take(SHOWN).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.words {
            writeln!(f, "other words: {line}")?;
        }
        for line in &self.listed {
            writeln!(f, "as listed: {line}")?;
        }
        for line in &self.wrong {
            writeln!(f, "other code: {line}")?;
        }
        let [real, ours] = self.results();
        writeln!(f, "invalid writes: {real}; {ours}")?;
        writeln!(f, "replay with KINFORM_SEED={}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_write_may_leave_out_what_varies() {
        for (pattern, name, wanted) in [
            ("hpa update empty:x", "hpa update empty:x", true),
            ("hpa * empty:x", "hpa update empty:x", true),
            ("hpa *", "hpa update empty:x", true),
            ("hpa * empty:x", "hpa update empty:x.0", false),
            ("pa *", "hpa update empty:x", false),
        ] {
            assert_eq!(is_meant(pattern, name), wanted, "{pattern} / {name}");
        }
    }

    #[test]
    fn a_code_that_differs_and_is_not_listed_is_wrong() {
        let said = |code| Said {
            code,
            body: serde_json::json!({"message": "m"}),
        };
        let mut report = Report::new(1);
        report.write("x create remove:a", Some(&said(422)), Some(&said(422)));
        assert!(report.is_good() && report.same_words() == 100);
        report.write("x create remove:a", Some(&said(422)), Some(&said(201)));
        assert!(!report.is_good(), "{report}");
        let mut report = Report::new(1);
        report.write("x create remove:a", None, Some(&said(422)));
        assert!(report.is_good());
        report.write("x create remove:a", Some(&said(422)), None);
        assert!(!report.is_good(), "{report}");
    }
}
