//! The runs of a program, as its trace tells them.
//!
//! ```text
//! began ended name generation version outcome (a line each) ─▶ Run ─▶ duplicates
//! ```
//!
//! A duplicate is a run without a reason: its object has the version that a run before it has had,
//! which succeeded, and it is not the run after the pause that the controller asked for.

use std::collections::HashMap;
use std::time::Duration;

/// A run that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its begin, in milliseconds of the system's clock.
    pub began: u64,
    /// Its end.
    pub ended: u64,
    /// The name of its object.
    pub name: String,
    /// The generation of its object.
    pub generation: i64,
    /// The version of its object.
    pub version: String,
    /// It succeeded.
    pub succeeded: bool,
}

/// Parses a trace; a last line without its end is left out.
#[must_use]
pub fn parse(text: &str) -> Vec<Run> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Run> {
    let mut words = line.split(' ');
    Some(Run {
        began: words.next()?.parse().ok()?,
        ended: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
        generation: words.next()?.parse().ok()?,
        version: words.next()?.to_owned(),
        succeeded: words.next()? == "ok",
    })
}

/// Counts the runs without a reason, where each run asks for another after `check_back`.
#[must_use]
pub fn duplicates(runs: &[Run], check_back: Duration) -> usize {
    // A little less: the pause begins before the line is written.
    let asked = u64::try_from(check_back.as_millis()).unwrap_or(u64::MAX) * 9 / 10;
    let mut last: HashMap<&str, &Run> = HashMap::new();
    let mut duplicates = 0;
    for run in runs {
        if let Some(before) = last.insert(&run.name, run) {
            let is_same = before.version == run.version && before.succeeded;
            let is_asked = run.began.saturating_sub(before.ended) >= asked;
            duplicates += usize::from(is_same && !is_asked);
        }
    }
    duplicates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_the_same_version_is_a_duplicate_unless_it_has_a_reason() {
        let check = |text: &str, expected: usize| {
            let runs = parse(text);
            let counted = duplicates(&runs, Duration::from_millis(1000));
            assert_eq!(counted, expected, "{text}");
        };
        check("", 0);
        check("0 1 a 1 10 ok\n2 3 a 1 10 ok\n", 1);
        check("0 1 a 1 10 ok\n2 3 b 1 10 ok\n", 0);
        check("0 1 a 1 10 ok\n2 3 a 1 11 ok\n", 0);
        // After a failure, and after the pause.
        check("0 1 a 1 10 failed\n2 3 a 1 10 ok\n", 0);
        check("0 1 a 1 10 ok\n1001 1002 a 1 10 ok\n", 0);
        // Still being written.
        check("0 1 a 1 10 ok\n2 3 a 1 10 ok", 0);
    }
}
