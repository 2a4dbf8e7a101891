//! The results of all rows, and their comparison.
//!
//! ```text
//! outcomes embedded, real ──┐
//! docs/server-differences.md ┴▶ Report: rows that pass, listed differences, what is wrong
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Outcome, Row};

/// The page that lists intended differences.
const PAGE: &str = include_str!("../../../docs/server-differences.md");

/// BOUND: the part of a row that is printed.
const SHOWN: usize = 1200;

/// A difference between two servers on one row.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The row.
    pub row: &'static str,
    /// A description of the difference.
    pub how: String,
}

/// The results of all rows.
#[derive(Debug, Default)]
pub struct Report {
    rows: usize,
    /// Rows that hold on the embedded server.
    embedded: usize,
    /// Rows that hold on the real one, if it was asked.
    real: Option<usize>,
    /// Rows with the same transcript on both.
    agree: usize,
    listed: Vec<Difference>,
    wrong: Vec<Difference>,
    took: Duration,
}

/// The rows that the page lists, with their reasons.
fn listed(page: &str) -> BTreeMap<&str, &str> {
    let part = page
        .split("<!-- conformance -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- end -->").next())
        .unwrap_or_default();
    let lines = part.lines().filter_map(|line| {
        let mut cells = line.trim().strip_prefix("| `")?.splitn(2, "` |");
        let (row, reason) = (cells.next()?, cells.next()?);
        Some((row, reason.trim().trim_end_matches('|').trim()))
    });
    lines.collect()
}

/// Listed rows that no longer exist, among those that were asked for.
fn lost<'a>(listed: &BTreeMap<&'a str, &str>, rows: &[&str], filter: &str) -> Vec<&'a str> {
    let wanted = listed.keys().filter(|row| row.contains(filter));
    wanted.filter(|row| !rows.contains(row)).copied().collect()
}

impl Report {
    pub(super) fn new(
        rows: &[Row],
        filter: &str,
        embedded: Vec<Outcome>,
        real: Option<Vec<Outcome>>,
        took: Duration,
    ) -> Self {
        let listed = listed(PAGE);
        let holds = |outcomes: &[Outcome]| outcomes.iter().filter(|o| o.result.is_ok()).count();
        let mut report = Self {
            rows: rows.len(),
            embedded: holds(&embedded),
            real: real.as_deref().map(holds),
            took,
            ..Self::default()
        };
        let mut theirs = real.map(Vec::into_iter);
        for (row, ours) in rows.iter().zip(embedded) {
            let theirs = theirs.as_mut().and_then(Iterator::next);
            report.row(row, &ours, theirs.as_ref(), listed.get(row.name).copied());
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        for row in lost(&listed, &names, filter) {
            let how = "it is listed, but there is no such row".to_owned();
            report.wrong.push(Difference { row, how });
        }
        report
    }

    fn row(&mut self, row: &Row, ours: &Outcome, theirs: Option<&Outcome>, listed: Option<&str>) {
        let wrong = |how: String| Difference { row: row.name, how };
        if let Some(Err(why)) = theirs.map(|theirs| &theirs.result) {
            let cites = row.cites;
            let how =
                format!("the real server does not do this, so the row is wrong ({cites}): {why}");
            return self.wrong.push(wrong(how));
        }
        let difference = match (&ours.result, theirs) {
            (Err(why), _) => Some(format!("the embedded server fails ({}): {why}", row.cites)),
            (Ok(()), Some(theirs)) => differs(&theirs.transcript, &ours.transcript),
            (Ok(()), None) => None,
        };
        match (difference, listed) {
            (None, None) => self.agree += 1,
            (Some(how), Some(_)) => self.listed.push(wrong(how)),
            (Some(how), None) => self.wrong.push(wrong(how)),
            // Without the real server, its answer is unknown.
            (None, Some(reason)) if theirs.is_none() => self.listed.push(wrong(reason.to_owned())),
            (None, Some(reason)) => {
                let how = format!("it is listed ({reason}), but there is no difference");
                self.wrong.push(wrong(how));
            }
        }
    }

    /// Returns whether every row is as expected.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty()
    }

    /// A line for each server, with its results.
    pub fn results(&self) -> Vec<String> {
        let rows = self.rows;
        let embedded = format!(
            "embedded | {} of {rows} rows hold; {} tell what a real server tells, {} differ as listed",
            self.embedded,
            self.agree,
            self.listed.len()
        );
        let real = self
            .real
            .map(|real| format!("real | {real} of {rows} rows hold"));
        [Some(embedded), real].into_iter().flatten().collect()
    }

    /// The number of rows that were run.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of rows listed as differences.
    pub fn listed(&self) -> usize {
        self.listed.len()
    }
}

/// The first place in which two transcripts differ.
fn differs(theirs: &[String], ours: &[String]) -> Option<String> {
    let at = (0..theirs.len().max(ours.len())).find(|at| theirs.get(*at) != ours.get(*at))?;
    let line = |lines: &[String]| {
        lines
            .get(at)
            .map_or("(nothing)".to_owned(), |line| cut(line))
    };
    Some(format!(
        "told differently:\n    real:     {}\n    embedded: {}",
        line(theirs),
        line(ours)
    ))
}

fn cut(line: &str) -> String {
    line.chars().take(SHOWN).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Difference { row, how } in &self.listed {
            writeln!(f, "as listed: {row}: {how}")?;
        }
        for Difference { row, how } in &self.wrong {
            writeln!(f, "{row}: {how}")?;
        }
        let rows = self.rows;
        let real = match self.real {
            Some(real) => format!("{real} of {rows} hold on the real server"),
            None => "the real server was not asked".to_owned(),
        };
        writeln!(
            f,
            "conformance: {} of {rows} rows hold on the embedded server, {real}; {} agree word for word, \
             {} are listed differences, {} are wrong; {:.1} s",
            self.embedded,
            self.agree,
            self.listed.len(),
            self.wrong.len(),
            self.took.as_secs_f64()
        )
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_lists_rows_with_their_reasons() {
        let page = "x\n<!-- conformance -->\n| row | reason |\n|---|---|\n| `a_row` | because `it` |\n<!-- end -->\n| `no_row` | of another part |";
        let listed = super::listed(page);
        assert_eq!(
            listed.into_iter().collect::<Vec<_>>(),
            [("a_row", "because `it`")]
        );
    }

    #[test]
    fn a_listed_row_that_is_gone_is_told_if_it_was_asked_for() {
        let listed = [("a_row", ""), ("b_row", "")].into();
        assert_eq!(super::lost(&listed, &["a_row"], ""), ["b_row"]);
        assert_eq!(super::lost(&listed, &["a_row"], "a_"), [""; 0]);
    }
}
