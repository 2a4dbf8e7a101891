//! The results of all rows, and their comparison.
//!
//! ```text
//! outcomes embedded, real ──┐
//! docs/server-differences.md ┴▶ Report: rows that pass, listed differences, what is wrong
//! ```
//!
//! A real server of an older version has a list of its own, besides that of the newest: rows that it
//! answers otherwise than the embedded server, or fails.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Outcome, Row, Wanted};

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
    /// The version of the real server, if it is not the newest.
    version: Option<String>,
}

/// The expectations of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected<'a> {
    /// Both servers hold it, with the same transcript.
    Alike,
    /// They differ, for this reason; the row holds on the real server.
    Different(&'a str),
    /// Listed for the newest version; on this one the servers may differ or not.
    Free(&'a str),
    /// An older real server differs, for this reason, or the row fails there.
    Older(&'a str),
}

/// The minor version in a text such as `1.34` or `1.34.4`.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// The rows that the page lists for the real server of this version: the newest, or an older one.
fn expected<'a>(page: &'a str, older: Option<&str>) -> BTreeMap<&'a str, Expected<'a>> {
    let of_all = listed(page, "<!-- conformance -->").into_iter();
    let Some(version) = older else {
        return of_all
            .map(|(row, reason)| (row, Expected::Different(reason)))
            .collect();
    };
    let version = minor(version);
    let of_older = listed(page, "<!-- conformance of older versions -->").into_iter();
    let of_older = of_older.filter_map(|(row, cells)| {
        let (until, reason) = cells.split_once('|')?;
        let is_meant = minor(until.trim()) >= version;
        is_meant.then(|| (row, Expected::Older(reason.trim())))
    });
    of_all
        .map(|(row, reason)| (row, Expected::Free(reason)))
        .chain(of_older)
        .collect()
}

/// The rows of a part of the page, with their other cells.
fn listed<'a>(page: &'a str, part: &str) -> BTreeMap<&'a str, &'a str> {
    let part = page
        .split(part)
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
fn lost<'a>(listed: &BTreeMap<&'a str, Expected<'_>>, rows: &[&str], filter: &str) -> Vec<&'a str> {
    let wanted = listed.keys().filter(|row| row.contains(filter));
    wanted.filter(|row| !rows.contains(row)).copied().collect()
}

impl Report {
    pub(super) fn new(
        rows: &[Row],
        wanted: &Wanted,
        embedded: Vec<Outcome>,
        real: Option<Vec<Outcome>>,
        took: Duration,
    ) -> Self {
        let listed = expected(PAGE, wanted.older.as_deref());
        let holds = |outcomes: &[Outcome]| outcomes.iter().filter(|o| o.result.is_ok()).count();
        let mut report = Self {
            rows: rows.len(),
            embedded: holds(&embedded),
            real: real.as_deref().map(holds),
            took,
            version: wanted.older.clone(),
            ..Self::default()
        };
        let mut theirs = real.map(Vec::into_iter);
        for (row, ours) in rows.iter().zip(embedded) {
            let theirs = theirs.as_mut().and_then(Iterator::next);
            report.row(
                row,
                &ours,
                theirs.as_ref(),
                listed.get(row.name).copied().unwrap_or(Expected::Alike),
            );
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        for row in lost(&listed, &names, &wanted.row) {
            let how = "it is listed, but there is no such row".to_owned();
            report.wrong.push(Difference { row, how });
        }
        report
    }

    fn row(&mut self, row: &Row, ours: &Outcome, theirs: Option<&Outcome>, expected: Expected<'_>) {
        let told = |how: String| Difference { row: row.name, how };
        if let Some(Err(why)) = theirs.map(|theirs| &theirs.result) {
            let cites = row.cites;
            return match expected {
                Expected::Older(_) => self.listed.push(told(format!("the real server: {why}"))),
                _ => self.wrong.push(told(format!(
                    "the real server does not do this, so the row is wrong ({cites}): {why}"
                ))),
            };
        }
        let difference = match (&ours.result, theirs) {
            (Err(why), _) => Some(format!("the embedded server fails ({}): {why}", row.cites)),
            (Ok(()), Some(theirs)) => differs(&theirs.transcript, &ours.transcript),
            (Ok(()), None) => None,
        };
        match (difference, expected) {
            (None, Expected::Alike | Expected::Free(_)) => self.agree += 1,
            (Some(how), Expected::Alike) => self.wrong.push(told(how)),
            (Some(how), _) => self.listed.push(told(how)),
            (None, Expected::Different(reason) | Expected::Older(reason)) => match theirs {
                // Without the real server, its answer is unknown.
                None => self.listed.push(told(reason.to_owned())),
                Some(_) => self.wrong.push(told(format!(
                    "it is listed ({reason}), but there is no difference"
                ))),
            },
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
            .map(|real| format!("real{} | {real} of {rows} rows hold", self.version()));
        [Some(embedded), real].into_iter().flatten().collect()
    }

    /// The version of an older real server, after a space.
    fn version(&self) -> String {
        let version = self.version.as_ref();
        version.map_or_else(String::new, |version| format!(" {version}"))
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
            Some(real) => format!("{real} of {rows} hold on the real server{}", self.version()),
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
    use super::{Expected, expected, lost};

    const PAGE: &str = "x\n<!-- conformance -->\n| row | reason |\n|---|---|\n\
        | `a_row` | because `it` |\n<!-- end -->\n| `no_row` | of another part |\n\
        <!-- conformance of older versions -->\n| row | until | reason |\n|---|---|---|\n\
        | `b_row` | 1.34 | no `it` |\n| `c_row` | 1.33 | none |\n<!-- end -->\n";

    #[test]
    fn the_page_lists_rows_with_their_reasons() {
        let expected = expected(PAGE, None);
        assert_eq!(
            expected.into_iter().collect::<Vec<_>>(),
            [("a_row", Expected::Different("because `it`"))]
        );
    }

    #[test]
    fn an_older_version_has_rows_of_its_own() {
        let check = |version, rows: &[(&str, Expected<'_>)]| {
            let expected = expected(PAGE, Some(version));
            assert_eq!(expected.into_iter().collect::<Vec<_>>(), rows);
        };
        let (a, b) = (Expected::Free("because `it`"), Expected::Older("no `it`"));
        check("1.36.3", &[("a_row", a)]);
        check("1.34.4", &[("a_row", a), ("b_row", b)]);
        let c = Expected::Older("none");
        check("1.33.13", &[("a_row", a), ("b_row", b), ("c_row", c)]);
    }

    #[test]
    fn a_listed_row_that_is_gone_is_told_if_it_was_asked_for() {
        let listed = ["a_row", "b_row"].map(|row| (row, Expected::Alike)).into();
        assert_eq!(lost(&listed, &["a_row"], ""), ["b_row"]);
        assert_eq!(lost(&listed, &["a_row"], "a_"), [""; 0]);
    }
}
