//! `cargo xtask tidy`: checks the habits that a reader relies on over the repository's text.
//!
//! ```text
//! files ──▶ layers │ circles │ style │ function │ words │ locks │ prose │ drift │ exports │ contract │ faults │ reference │ figures ──▶ findings
//!               ──exceptions, ceilings (tidy.toml)──▶ report
//! ```
//!
//! Each check is a pure function of paths and texts; only this file writes to the disk. A finding
//! that is right on purpose is listed in `tidy.toml` under its rule, with a reason. Rules that the
//! repository does not keep yet have a ceiling there, which only sinks. An entry that no finding
//! needs any more is a finding itself, so the list stays short.

mod ceilings;
mod circles;
pub(crate) mod contract;
mod drift;
mod exceptions;
mod exports;
mod figures;
mod finding;
mod function;
mod layers;
mod locks;
mod prose;
mod reference;
mod style;
mod words;

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::faults;
use crate::map::{self, Map};
use crate::options;
use crate::text::file::{File, area, crate_folder, read, root};
use crate::text::settings;
use crate::text::source::Source;
use ceilings::{Ceilings, Counted, Counts};
use drift::Paths;
use exceptions::Exceptions;
use finding::Finding;

/// The part of the findings that is printed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The repository; by default the one around the current directory.
    root: Option<PathBuf>,
    /// Only the findings under this ceiling, as `layers.apiserver`.
    #[arg(long)]
    list: Option<String>,
    /// Only the findings of prose in this area, as `kinform.public`.
    #[arg(long)]
    prose: Option<String>,
    /// Lowers each ceiling in tidy.toml to the number of findings under it.
    #[arg(long)]
    lower: bool,
}

/// Checks the repository.
///
/// # Errors
/// The findings, one a line; or the file that could not be read or written.
pub(crate) fn run(arguments: &Arguments) -> Result<String, String> {
    let root = match &arguments.root {
        Some(root) => root.clone(),
        None => root()?,
    };
    let files = read(&root)?;
    let report = check(&files)?;
    let key = match (&arguments.list, &arguments.prose) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(area)) => Some(prose::key(area)),
        (None, None) => None,
    };
    if let Some(key) = key {
        return Ok(report.list(&key));
    }
    if arguments.lower {
        return lower(&root, &files, &report);
    }
    let summary = format!(
        "findings under ceilings (`--list NAME` names them):\n{}tidy: {} files",
        report.ceilings.describe(&report.counts),
        files.len()
    );
    if report.findings.is_empty() {
        return Ok(summary);
    }
    let lines: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
    let (lines, count) = (lines.join("\n"), lines.len());
    Err(format!("{lines}\n{summary}, {count} findings"))
}

/// Writes lower ceilings.
fn lower(root: &Path, files: &[File], report: &Report) -> Result<String, String> {
    let listed = files.iter().find(|file| file.path == settings::PATH);
    let Some(listed) = listed else {
        return Err(format!("there is no {}", settings::PATH));
    };
    let text = report.ceilings.lowered(&listed.text, &report.counts);
    fs::write(root.join(settings::PATH), text).map_err(|e| format!("{}: {e}", settings::PATH))?;
    Ok(report
        .ceilings
        .describe(&report.counts)
        .trim_end()
        .to_owned())
}

/// The result of all checks.
#[derive(Debug)]
struct Report {
    /// Findings that fail the run, sorted.
    findings: Vec<Finding>,
    /// Findings that count against ceilings.
    counts: Counts,
    ceilings: Ceilings,
}

impl Report {
    /// The findings under one ceiling.
    fn list(&self, key: &str) -> String {
        let found = self.counts.get(key).map_or(&[][..], Vec::as_slice);
        let mut lines: Vec<String> = found.iter().map(Finding::to_string).collect();
        lines.push(format!("{key}: {} found", found.len()));
        lines.join("\n")
    }
}

/// Runs all checks.
fn check(files: &[File]) -> Result<Report, String> {
    let entries = settings::entries(files)?;
    let excused = Exceptions::new(&entries)?;
    let ceilings = Ceilings::new(&entries)?;
    let sources: Vec<Source<'_>> = files
        .iter()
        .filter(|f| f.path.ends_with(".rs"))
        .map(Source::new)
        .collect();
    let mut findings = locks::check(files);
    let maps = map::maps(files);
    let paths = Paths::new(files);
    let mut counted = check_maps(&maps, &sources, &excused);
    counted.extend(exports::check(&sources));
    let pages: Vec<&File> = files
        .iter()
        .filter(|file| contract::is_page(&file.path))
        .collect();
    if !pages.is_empty() {
        findings.extend(contract::check_complete(&pages));
    }
    for file in files {
        findings.extend(words::check(file));
        findings.extend(layers::check_manifest(file));
        findings.extend(style::check_name(&file.path));
        if contract::is_page(&file.path) {
            findings.extend(contract::check(file, &sources));
        }
        if file.path == faults::PAGE {
            findings.extend(check_faults(file, files));
        }
        findings.extend(check_references(file, files, &sources));
        if file.path == drift::ARCHITECTURE {
            counted.extend(drift::check_architecture(file, &paths, &maps));
        }
        if file.path.ends_with(".md") {
            counted.extend(prose::check_markdown(file));
        }
    }
    for source in &sources {
        findings.extend(style::check(source));
        let (clocks, clocks_of_server) = layers::check_clocks(source);
        findings.extend(clocks);
        counted.extend(clocks_of_server);
        counted.extend(prose::check_source(source));
        counted.extend(drift::check_header(source, &paths));
    }
    findings.retain(|finding| !excused.has(finding.rule, &finding.path));
    let mut counts = Counts::new();
    for Counted { key, finding } in counted {
        if !excused.has(finding.rule, &finding.path) {
            counts.entry(key).or_default().push(finding);
        }
    }
    findings.extend(excused.unused());
    findings.extend(ceilings.check(&counts));
    let findings: BTreeSet<Finding> = findings.into_iter().collect();
    Ok(Report {
        findings: findings.into_iter().collect(),
        counts,
        ceilings,
    })
}

/// Compares pages of reference with the code, and looks for figures without a command.
fn check_references(file: &File, files: &[File], sources: &[Source<'_>]) -> Vec<Finding> {
    let mut findings = figures::check(file);
    if file.path == options::PAGE {
        let wrong = options::check(file, files);
        findings.extend(wrong.map(|message| Finding {
            path: file.path.clone(),
            line: 1,
            rule: "reference",
            message,
        }));
    }
    if file.path == reference::ERRORS {
        findings.extend(reference::check_errors(file, sources));
    }
    if file.path == reference::METRICS || file.path == reference::DASHBOARD {
        findings.extend(reference::check_metrics(file, sources));
    }
    findings
}

/// Compares the page of faults with the tests.
fn check_faults(page: &File, files: &[File]) -> impl Iterator<Item = Finding> {
    let wrong = faults::check(page, files).into_iter();
    wrong.map(|(path, message)| Finding {
        path,
        line: 1,
        rule: "faults",
        message,
    })
}

/// Runs the checks that know which files belong to a crate, and which imports there are.
fn check_maps(maps: &[Map<'_>], sources: &[Source<'_>], excused: &Exceptions) -> Vec<Counted> {
    let mut counted: Vec<Counted> = maps.iter().flat_map(layers::check_map).collect();
    counted.extend(maps.iter().flat_map(|map| circles::check(map, excused)));
    let mapped: HashSet<String> = maps.iter().flat_map(Map::paths).collect();
    for source in sources {
        // Another file of a crate's sources is one of tests.
        let is_mapped = mapped.contains(source.path) || crate_folder(source.path).is_none();
        if is_mapped && !source.is_test() {
            counted.extend(function::check(source, area(source.path)));
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Checks the paths and rules of the findings.
    #[track_caller]
    fn check_files(files: &[File], expected: &[(&str, &str)]) {
        let findings = check(files).unwrap().findings;
        let found: Vec<_> = findings.iter().map(|f| (f.path.as_str(), f.rule)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn findings_are_sorted_and_exceptions_are_applied() {
        let files = [
            file("crates/b/src/lib.rs", "fn f() { todo!() }"),
            file("crates/a/src/lib.rs", "fn f() { todo!() }"),
            file(
                "tidy.toml",
                "[unfinished]\n\"crates/b/src/lib.rs\" = \"a demonstration\"\n",
            ),
        ];
        check_files(&files, &[("crates/a/src/lib.rs", "unfinished")]);
    }

    #[test]
    fn findings_under_a_ceiling_are_counted_and_excused_alike() {
        let long = format!("//! A\n//!\n//! B.\nfn f() {{{}}}", "\n".repeat(71));
        let ceiling = |lines: &str| file("tidy.toml", lines);
        let a = || file("crates/a/src/lib.rs", &long);
        let stray = file("crates/a/src/model.rs", &long); // of no `mod`, so of tests
        check_files(&[a()], &[("tidy.toml", "ceilings")]);
        check_files(
            &[a(), stray, ceiling("[ceilings]\n\"function.a\" = 1\n")],
            &[],
        );
        check_files(
            &[
                a(),
                ceiling("[function]\n\"crates/a/src/lib.rs\" = \"a table\"\n"),
            ],
            &[],
        );
        let twice = "[ceilings]\n\"function.a\" = 2\n";
        check_files(&[a(), ceiling(twice)], &[("tidy.toml", "ceilings")]);
    }
}
