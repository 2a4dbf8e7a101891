//! `cargo xtask book`: the book of `docs/book/` is whole, its blocks run, and it becomes HTML.
//!
//! ```text
//! docs/book/src/*.md ──▶ summary │ links ──▶ blocks: cargo test ──▶ html ──mdbook──▶ target/book
//! ```
//!
//! | | summary, links | blocks | HTML |
//! |---|---|---|---|
//! | `cargo xtask book` | yes | yes | yes; exit code 2 without mdBook |
//! | `--check` | yes | yes | no |
//! | `--check --blocks-ran` | yes | no | no |
//! | `--pages` | yes | no | yes |
//!
//! Blocks of Rust are documentation tests of the package `kinform-book`; those of a shell are run by a
//! test of the command line, `crates/kinform-cli/tests/it/book/`. Both run with `cargo test
//! --workspace`, too.

mod html;
mod links;
mod page;
mod summary;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use self::html::Unbuilt;
use crate::suite;
use crate::text::file::{File, read};

/// The folder of the book.
const FOLDER: &str = "docs/book";
/// The folder of its pages.
const PAGES: &str = "docs/book/src";
/// The exit code for a tool that is missing.
const MISSING: u8 = 2;
/// Names of the blocks, and the words of `cargo test` that run them.
const BLOCKS: [(&str, &[&str]); 2] = [
    ("blocks of Rust", &["-p", "kinform-book", "--doc"]),
    (
        "blocks of a shell",
        // The blocks that are not run are named, with their reasons.
        &[
            "-p",
            "kinform-cli",
            "--test",
            "it",
            "book::",
            "--",
            "--nocapture",
        ],
    ),
];

/// The parts of the check.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Everything but the HTML, which needs mdBook.
    #[arg(long, conflicts_with = "pages")]
    check: bool,
    /// Leaves out the blocks, for a caller that has run `cargo test --workspace`.
    #[arg(long)]
    blocks_ran: bool,
    /// The HTML alone: no block is run.
    #[arg(long)]
    pages: bool,
}

/// Checks the book in the repository at `root` and makes its HTML.
///
/// # Errors
/// The faults, one a line.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<(String, ExitCode), String> {
    let files = read(root)?;
    let pages: Vec<&File> = files.iter().filter(|file| is_page(&file.path)).collect();
    let mut report = check_pages(root, &files, &pages)?;
    if !(arguments.blocks_ran || arguments.pages) {
        for (what, words) in BLOCKS {
            run_blocks(root, what, words)?;
            let _ = writeln!(report, "book: {what} ran");
        }
    }
    if arguments.check {
        report.push_str("book: NO HTML WAS BUILT (--check): `cargo xtask book --pages` builds it");
        return Ok((report, ExitCode::SUCCESS));
    }
    match html::build(root, &pages) {
        Ok(folder) => {
            let _ = write!(report, "book: {}/index.html", folder.display());
            Ok((report, ExitCode::SUCCESS))
        }
        Err(Unbuilt::Missing(why)) => {
            let _ = write!(report, "book: NO HTML WAS BUILT: {why}");
            Ok((report, ExitCode::from(MISSING)))
        }
        Err(Unbuilt::Failed(why)) => Err(why),
    }
}

/// Returns whether a path is one of the book's pages.
fn is_page(path: &str) -> bool {
    let name = path
        .strip_prefix(PAGES)
        .and_then(|rest| rest.strip_prefix('/'));
    name.is_some_and(|name| name.ends_with(".md"))
}

/// Checks the table of contents and the links.
fn check_pages(root: &Path, files: &[File], pages: &[&File]) -> Result<String, String> {
    let name = |page: &&&File| page.path[PAGES.len() + 1..].to_owned();
    let names: Vec<String> = pages.iter().map(|page| name(&page)).collect();
    let chapters: Vec<&str> = names.iter().map(String::as_str).collect();
    let chapters: Vec<&str> = chapters
        .into_iter()
        .filter(|n| *n != summary::NAME)
        .collect();
    let contents = names.iter().position(|name| name == summary::NAME);
    let Some(contents) = contents else {
        return Err(format!("book: there is no {PAGES}/{}", summary::NAME));
    };
    let mut faults = summary::check(&pages[contents].text, &chapters);
    let visible: Vec<File> = pages.iter().map(|page| shown(page)).collect();
    let report = links::check(root, files, &visible.iter().collect::<Vec<_>>());
    faults.extend(report.findings);
    if !faults.is_empty() {
        let count = faults.len();
        return Err(format!("{}\nbook: {count} faults", faults.join("\n")));
    }
    let mut told = String::new();
    for (address, times) in &report.elsewhere {
        let _ = writeln!(told, "book: not fetched: {address} ({times})");
    }
    let _ = writeln!(told, "book: {} chapters, links are whole", chapters.len());
    Ok(told)
}

/// A page as readers see it; the table of contents has comments about chapters to come.
fn shown(page: &File) -> File {
    let text = match page.path.ends_with(summary::NAME) {
        true => summary::without_comments(&page.text),
        false => page.text.clone(),
    };
    File {
        path: page.path.clone(),
        text,
    }
}

/// Runs cargo with its output on the terminal.
fn run_blocks(root: &Path, what: &str, words: &[&str]) -> Result<(), String> {
    let mut cargo = suite::cargo();
    cargo
        .args(["test", "--locked"])
        .args(words)
        .current_dir(root);
    let status = cargo
        .status()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("book: {what} failed ({status})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_the_markdown_of_one_folder() {
        for (path, expected) in [
            ("docs/book/src/a.md", true),
            ("docs/book/src/SUMMARY.md", true),
            ("docs/book/book.toml", false),
            ("docs/book/src/a.png", false),
            ("docs/cli.md", false),
        ] {
            assert_eq!(is_page(path), expected, "{path}");
        }
    }
}
