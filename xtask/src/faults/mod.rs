//! `cargo xtask faults`: the table of faults in docs/reliability.md, made from the tests.
//!
//! ```text
//! lines of tests ──Matrix──▶ rows, tests and reasons ──▶ the part of the page between two marks
//! ```
//!
//! `--write` replaces that part; without it the command fails where the two differ, as tidy does. A cell
//! needs a test or a reason. The tests themselves are run by `cargo test`: a line in a test is also the
//! list of the cells in which it runs.

mod matrix;
mod page;

use std::fs;
use std::path::Path;

use clap::Args;

use crate::text::file::{File, read};
use matrix::Matrix;

/// The page with the table.
pub(crate) const PAGE: &str = "docs/reliability.md";

/// Checks the page, or writes it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Writes the table.
    #[arg(long)]
    write: bool,
}

/// Compares the table with the tests, or replaces it.
///
/// # Errors
/// A cell has neither a test nor a reason, or the page is another one and is not to be written.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<String, String> {
    let files = read(root)?;
    let page = files.iter().find(|file| file.path == PAGE);
    let page = page.ok_or_else(|| format!("faults: there is no {PAGE}"))?;
    let matrix = Matrix::new(&files);
    let wrong: Vec<String> = matrix.problems().map(|(_, what)| what).collect();
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    let text = page::with(&page.text, &matrix)?;
    if text != page.text {
        if !arguments.write {
            return Err(format!("{PAGE} is not what the tests say: use --write"));
        }
        fs::write(root.join(PAGE), &text).map_err(|e| format!("{PAGE}: {e}"))?;
    }
    Ok(format!("faults: {}", matrix.summary()))
}

/// The differences between the page and the tests, by file: for tidy.
pub(crate) fn check(page: &File, files: &[File]) -> Vec<(String, String)> {
    let matrix = Matrix::new(files);
    let mut wrong: Vec<_> = matrix.problems().collect();
    let differs = match page::with(&page.text, &matrix) {
        Ok(text) if text == page.text => None,
        Ok(_) => Some("is not what the tests say: cargo xtask faults --write".to_owned()),
        Err(why) => Some(why),
    };
    wrong.extend(differs.map(|what| (PAGE.to_owned(), what)));
    wrong
}
