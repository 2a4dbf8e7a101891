//! The table of both columns, as Markdown.
//!
//! ```text
//! Measured of kube-runtime, of kinform ─▶ rows, each with its verdict
//! ```
//!
//! A row that does not hold is printed as it is, and says so.

use std::fmt::Write as _;

use crate::measure::Figures;

/// The figures of a column, and its lines.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The lines of its program.
    pub lines: usize,
    /// The figures.
    pub figures: Figures,
}

/// A row: what, the two cells, and whether it holds, where something is to hold.
type Row = (String, String, String, Option<bool>);

/// The table of both.
#[must_use]
pub fn table(shared: usize, theirs: &Measured, ours: &Measured) -> String {
    let mut text = String::from("| | kube-runtime | kinform | holds |\n|---|---:|---:|---|\n");
    let same = format!("lines that both share: {shared}");
    let lines = less(&same, theirs.lines, ours.lines);
    let mut rows = vec![lines];
    rows.extend(starts(theirs, ours));
    let has_all = ours.figures.churn_writes > 0;
    if has_all {
        rows.extend(requests(theirs, ours));
        rows.extend(trouble(theirs, ours));
    }
    for (what, theirs, ours, holds) in rows {
        let verdict = match holds {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        let _ = writeln!(text, "| {what} | {theirs} | {ours} | {verdict} |");
    }
    if !has_all {
        return text;
    }
    let _ = writeln!(text);
    for (name, of) in [("kube-runtime", theirs), ("kinform", ours)] {
        let figures = &of.figures;
        for (when, requests) in [("at rest", &figures.rest), ("of churn", &figures.churn)] {
            let _ = writeln!(
                text,
                "- {name}, requests {when}: {}",
                or_none(&requests.told())
            );
        }
    }
    text
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Fewer lines are better.
fn less(what: &str, theirs: usize, ours: usize) -> Row {
    let holds = Some(ours < theirs);
    (
        format!("lines of the program ({what})"),
        theirs.to_string(),
        ours.to_string(),
        holds,
    )
}

fn mebibytes(kibibytes: u64) -> String {
    format!("{:.1} MiB", kibibytes as f64 / 1024.0)
}

fn starts(theirs: &Measured, ours: &Measured) -> Vec<Row> {
    let mut rows = Vec::new();
    let pairs = theirs.figures.starts.iter().zip(&ours.figures.starts);
    for (theirs, ours) in pairs {
        let objects = theirs.objects;
        let part = ours.resident as f64 / theirs.resident as f64;
        // Half where there are many objects, less where what the program itself needs counts more.
        let holds = if objects >= 50_000 {
            part <= 0.5
        } else {
            part < 1.0
        };
        let what = format!("resident memory, {objects} objects ({part:.2} of it)");
        rows.push((
            what,
            mebibytes(theirs.resident),
            mebibytes(ours.resident),
            Some(holds),
        ));
        let what = format!("the same at most, {objects} objects");
        rows.push((what, mebibytes(theirs.peak), mebibytes(ours.peak), None));
        let first = [theirs, ours].map(|of| format!("{:.2} s", of.first_run.as_secs_f64()));
        let [first, second] = first;
        rows.push((
            format!("time to the first run, {objects} objects"),
            first,
            second,
            None,
        ));
        let failed = [theirs, ours].map(|of| of.failed.to_string());
        let [first, second] = failed;
        rows.push((
            format!("failed runs of a start, {objects} objects"),
            first,
            second,
            None,
        ));
        let what = format!("requests of a start, {objects} objects");
        rows.push(at_most(
            what,
            theirs.requests.total(),
            ours.requests.total(),
        ));
    }
    rows
}

/// At most as much is to be.
fn at_most(what: String, theirs: u64, ours: u64) -> Row {
    (
        what,
        theirs.to_string(),
        ours.to_string(),
        Some(ours <= theirs),
    )
}

fn requests(theirs: &Measured, ours: &Measured) -> Vec<Row> {
    let (theirs, ours) = (&theirs.figures, &ours.figures);
    let runs = |of: &Figures| format!("{:.2}", of.churn_runs as f64 / of.churn_writes as f64);
    let writes = format!("requests of {} writes", ours.churn_writes);
    let after = [theirs, ours].map(|of| mebibytes(of.resident_after));
    let [first, second] = after;
    vec![
        at_most(
            "requests at rest".to_owned(),
            theirs.rest.total(),
            ours.rest.total(),
        ),
        at_most(writes, theirs.churn.total(), ours.churn.total()),
        (
            "runs for each of these writes".to_owned(),
            runs(theirs),
            runs(ours),
            None,
        ),
        (
            "resident memory after rest and churn".to_owned(),
            first,
            second,
            None,
        ),
    ]
}

fn trouble(theirs: &Measured, ours: &Measured) -> Vec<Row> {
    let (theirs, ours) = (&theirs.figures.trouble, &ours.figures.trouble);
    let (cuts, expiries) = (ours.cuts, ours.expiries);
    let under = format!("{cuts} cuts and {expiries} expiries");
    let missed = [theirs.missed.len(), ours.missed.len()];
    vec![
        (
            format!("missed of {} writes under {under}", ours.writes),
            missed[0].to_string(),
            missed[1].to_string(),
            Some(missed[1] == 0),
        ),
        at_most(
            "duplicate runs under them".to_owned(),
            theirs.duplicates as u64,
            ours.duplicates as u64,
        ),
        (
            "all runs under them".to_owned(),
            theirs.runs.to_string(),
            ours.runs.to_string(),
            None,
        ),
    ]
}
