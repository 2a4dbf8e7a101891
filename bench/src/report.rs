//! Results for people: a Markdown table and plots.
//!
//! ```text
//! Results ─▶ markdown: a row a figure, a column a subject, ratios to kinform
//!         ├▶ targets: what was to be reached, and whether it is
//!         ├▶ agreement: whether `kinform measure` says the same
//!         └▶ plot: bars of one metric over scenarios, as SVG
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::measured::agreements;
use crate::row::{Results, Row};
use crate::targets::TARGETS;

/// The subjects, in the order of columns.
pub const SUBJECTS: [&str; 3] = ["kinform", "client-go", "kube-rs"];
const COLOURS: [&str; 3] = ["#2a6f97", "#8d99ae", "#d08c60"];

type Figures<'a> = Vec<((&'a str, &'a str), BTreeMap<&'a str, &'a Row>)>;

/// Rows of the same scenario and metric side by side, in the order of the results.
fn figures(results: &Results) -> Figures<'_> {
    let mut figures: Figures<'_> = Vec::new();
    for row in &results.rows {
        let name = (&*row.scenario, &*row.metric);
        let found = figures.iter_mut().find(|(known, _)| *known == name);
        match found {
            Some((_, of)) => drop(of.insert(&row.subject, row)),
            None => figures.push((name, BTreeMap::from([(&*row.subject, row)]))),
        }
    }
    figures
}

/// Metrics that get a plot.
pub const PLOTTED: [&str; 3] = ["cpu_seconds", "bytes_per_object", "cpu_ns_per_cycle"];

/// All tables.
#[must_use]
pub fn whole(results: &Results) -> String {
    let mut text = format!("{}\n{}", markdown(results), targets(results));
    let agreement = agreement(results);
    if !agreement.is_empty() {
        text.push('\n');
        text.push_str(&agreement);
    }
    text
}

/// A table of `kinform measure` compared with the bench; empty if the command was not measured.
#[must_use]
pub fn agreement(results: &Results) -> String {
    let both = agreements(results);
    if both.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "| `kinform measure` | figure | bench | measure | may differ by | |\n|---|---|---:|---:|---:|---|\n",
    );
    for of in both {
        let (bench, measure) = (amount(of.bench, &of.unit), amount(of.measure, &of.unit));
        let verdict = match of.holds() {
            true => format!("agrees, {:.2}x", of.ratio),
            false => format!("DIFFERS, {:.2}x", of.ratio),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {bench} | {measure} | {:.0}% | {verdict} |",
            of.scenario,
            of.metric,
            of.tolerance * 100.0
        );
    }
    text
}

/// The table of figures.
#[must_use]
pub fn markdown(results: &Results) -> String {
    let mut text = format!(
        "Measured at `{}` on {}.\nMedians; in brackets the ratio to kinform.\n\n\
         | scenario | metric | kinform | client-go | kube-rs |\n|---|---|---:|---:|---:|\n",
        results.commit, results.machine
    );
    for ((scenario, metric), of) in figures(results) {
        let ours = of.get(SUBJECTS[0]).map(|row| row.value);
        let _ = write!(text, "| {scenario} | {metric} |");
        for subject in SUBJECTS {
            let Some(row) = of.get(subject) else {
                text.push_str(" - |");
                continue;
            };
            let _ = write!(text, " {}", amount(row.value, &row.unit));
            match ours {
                Some(ours) if subject != SUBJECTS[0] && ours > 0.0 => {
                    let _ = write!(text, " ({:.1}x) |", row.value / ours);
                }
                _ => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    text
}

/// A table of the targets, each with its verdict.
#[must_use]
pub fn targets(results: &Results) -> String {
    let mut text =
        String::from("| target | scenario | to reach | measured | |\n|---|---|---:|---:|---|\n");
    for target in TARGETS {
        let verdict = target.judge(results);
        let _ = write!(text, "| {} | {} |", target.what, verdict.scenario);
        let Some((value, unit)) = &verdict.measured else {
            text.push_str(" - | - | not measured |\n");
            continue;
        };
        let outcome = match verdict.margin {
            margin if margin >= 1.0 => format!("reached, {margin:.1}x"),
            margin => format!("SHORT by {:.0}%", (1.0 / margin - 1.0) * 100.0),
        };
        let (limit, value) = (amount(verdict.limit, unit), amount(*value, unit));
        let _ = writeln!(text, " {limit} | {value} | {outcome} |");
    }
    text
}

/// A value with its unit, in three figures.
fn amount(value: f64, unit: &str) -> String {
    let scaled = |value: f64, unit: &str| match value.abs() {
        size if size >= 100.0 => format!("{value:.0}{unit}"),
        size if size >= 10.0 => format!("{value:.1}{unit}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}{unit}"),
        _ => format!("{value:.4}{unit}"),
    };
    match (unit, value.abs()) {
        ("B", size) if size >= 1e9 => scaled(value / 1e9, " GB"),
        ("B", size) if size >= 1e6 => scaled(value / 1e6, " MB"),
        ("B", size) if size >= 1e3 => scaled(value / 1e3, " KB"),
        ("count", size) if size >= 1e6 => scaled(value / 1e6, " M"),
        ("count", size) if size >= 1e3 => scaled(value / 1e3, " k"),
        ("count", _) => scaled(value, ""),
        ("1/s", size) if size >= 1e6 => scaled(value / 1e6, " M/s"),
        ("1/s", size) if size >= 1e3 => scaled(value / 1e3, " k/s"),
        ("1/s", _) => scaled(value, "/s"),
        ("x", _) => scaled(value, "x"),
        (unit, _) => scaled(value, &format!(" {unit}")),
    }
}

const WIDTH: f64 = 780.0;
const LEFT: f64 = 190.0;
const BAR: f64 = 14.0;
const GAP: f64 = 16.0;

/// Bars of one metric, a group a scenario, each group on a scale of its own; shorter is better.
#[must_use]
pub fn plot(results: &Results, metric: &str) -> String {
    // Metrics that kinform does not have cannot be compared.
    let figures: Figures<'_> = figures(results)
        .into_iter()
        .filter(|((_, of), row)| *of == metric && row.contains_key(SUBJECTS[0]))
        .collect();
    let bars: usize = figures.iter().map(|(_, of)| of.len()).sum();
    let height = 40.0 + bars as f64 * BAR + figures.len() as f64 * GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <text x=\"8\" y=\"18\" font-size=\"13\">{metric}: shorter is better</text>\n"
    );
    let mut y = 34.0;
    for ((scenario, _), of) in figures {
        let most = of
            .values()
            .map(|row| row.value)
            .fold(f64::MIN_POSITIVE, f64::max);
        let _ = writeln!(svg, "<text x=\"8\" y=\"{:.1}\">{scenario}</text>", y + 11.0);
        for (subject, colour) in SUBJECTS.into_iter().zip(COLOURS) {
            let Some(row) = of.get(subject) else { continue };
            let length = (row.value / most * (WIDTH - LEFT - 170.0)).max(1.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{subject} {}</text>",
                BAR - 2.0,
                LEFT + length + 6.0,
                y + 10.0,
                amount(row.value, &row.unit)
            );
            y += BAR;
        }
        y += GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, value: f64) -> Row {
        Row {
            scenario: "sync-json-10k".to_owned(),
            subject: subject.to_owned(),
            metric: "cpu_seconds".to_owned(),
            unit: "s".to_owned(),
            value,
            runs: vec![value],
        }
    }

    #[test]
    fn subjects_stand_side_by_side_with_their_ratios() {
        let results = Results {
            commit: "abc".to_owned(),
            machine: "2 cores".to_owned(),
            rows: vec![row("kinform", 0.5), row("client-go", 10.0)],
        };
        let table = markdown(&results);
        let line = "| sync-json-10k | cpu_seconds | 0.50 s | 10.0 s (20.0x) | - |";
        assert!(table.lines().any(|found| found == line), "{table}");
        let reached = targets(&results);
        assert!(
            reached.contains("| sync-json-10k | 0.10 s | 0.50 s | SHORT by 400% |"),
            "{reached}"
        );
        let plot = plot(&results, "cpu_seconds");
        assert_eq!(plot.matches("<rect").count(), 2, "{plot}");
    }

    #[test]
    fn what_measure_says_stands_beside_what_the_bench_says() {
        let mut results = Results {
            commit: "abc".to_owned(),
            machine: "2 cores".to_owned(),
            rows: vec![row("kinform", 0.5)],
        };
        assert!(!whole(&results).contains("kinform measure"));
        results.rows.push(row("kinform measure", 0.6));
        let table = whole(&results);
        let line = "| sync-json-10k | cpu_seconds | 0.50 s | 0.60 s | 25% | agrees, 1.20x |";
        assert!(table.lines().any(|found| found == line), "{table}");
    }

    #[test]
    fn amounts_have_three_figures() {
        for (value, unit, expected) in [
            (848_000_000.0, "B", "848 MB"),
            (5_300.0, "B", "5.30 KB"),
            (1_234_567.0, "count", "1.23 M"),
            (0.61, "s", "0.61 s"),
            (1.249, "x", "1.25x"),
            (0.0123, "ms", "0.0123 ms"),
            (8_000_000.0, "1/s", "8.00 M/s"),
        ] {
            assert_eq!(amount(value, unit), expected);
        }
    }
}
