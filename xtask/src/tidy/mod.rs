//! `cargo xtask tidy`: the habits that a reader counts on, checked over the repository's text.
//!
//! ```text
//! files ──▶ layers │ style │ words │ contract ──▶ findings ──exceptions (tidy.toml)──▶ report
//! ```
//!
//! Each check is a pure function of paths and texts; this file alone reads the disk. A finding
//! that is right on purpose is listed in `tidy.toml` under its rule, with a reason; an entry that
//! no finding needs any more is a finding itself, so the list stays short.

pub(crate) mod contract;
pub(crate) mod exceptions;
mod layers;
pub(crate) mod source;
mod style;
mod words;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use source::Source;

/// Folders that hold no text of ours.
const SKIPPED: [&str; 5] = ["target", ".git", "testdata", "corpus", "artifacts"];

/// One file: its path from the root, with slashes, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Something that is not as the house has it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {} ({})",
            self.path, self.line, self.message, self.rule
        )
    }
}

/// Checks the repository at `root`.
///
/// # Errors
/// The findings, one a line; or the file that could not be read.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let files = read(root)?;
    let findings = check(&files)?;
    if findings.is_empty() {
        return Ok(format!("tidy: {} files", files.len()));
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    Err(format!(
        "{}\ntidy: {} findings",
        lines.join("\n"),
        findings.len()
    ))
}

/// All findings but the excepted ones, sorted.
fn check(files: &[File]) -> Result<Vec<Finding>, String> {
    let sources: Vec<Source<'_>> = files
        .iter()
        .filter(|f| f.path.ends_with(".rs"))
        .map(Source::new)
        .collect();
    let mut findings = Vec::new();
    for file in files {
        findings.extend(words::check(file));
        findings.extend(layers::check_manifest(file));
        findings.extend(style::check_name(&file.path));
        if file.path == contract::PATH {
            findings.extend(contract::check(file, &sources));
            findings.extend(contract::check_complete(file));
        }
    }
    for source in &sources {
        findings.extend(layers::check_modules(source));
        findings.extend(style::check(source));
    }
    let listed = exceptions::listed(files)?;
    let findings: BTreeSet<Finding> = listed.apply(findings).into_iter().collect();
    Ok(findings.into_iter().collect())
}

/// Reads every text file of the repository at `root`.
///
/// # Errors
/// A file could not be read.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    read_folder(root, "", &mut files).map_err(|e| format!("reading the repository: {e}"))?;
    Ok(files)
}

/// Reads every text file below a folder; what is not UTF-8 is no text.
fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            read_folder(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            files.push(File { path, text });
        }
    }
    Ok(())
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
        let findings = check(&files).unwrap();
        let paths: Vec<&str> = findings.iter().map(|f| f.path.as_str()).collect();
        assert_eq!(paths, ["crates/a/src/lib.rs"]);
    }

    #[test]
    fn a_finding_names_its_place_and_rule() {
        let path = "a.rs".to_owned();
        let finding = Finding {
            path,
            line: 3,
            rule: "size",
            message: "too long".into(),
        };
        assert_eq!(finding.to_string(), "a.rs:3: too long (size)");
    }
}
