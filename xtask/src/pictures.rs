//! `cargo xtask pictures`: the pictures of the documents, of a program that runs.
//!
//! ```text
//! browser.rs ──PNG─┐
//! terminal/ ──SVG──┴▶ docs/pictures
//! ```
//!
//! A browser or tmux that is missing does not stop the other pictures.
//!
//! Upstream counterpart: none.

use std::path::Path;

use crate::{browser, terminal};

/// The folder of the pictures, in the repository.
const FOLDER: &str = "docs/pictures";

/// Makes the pictures.
///
/// # Errors
/// A program is missing or fails, or a picture is too large.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let folder = std::path::absolute(root.join(FOLDER));
    let folder = folder.map_err(|error| format!("pictures: {error}"))?;
    let made = [
        terminal::pictures(root, &folder),
        browser::pictures(root, &folder),
    ];
    let errors: Vec<String> = made.into_iter().filter_map(Result::err).collect();
    match errors.is_empty() {
        true => Ok(format!("pictures: they are in {FOLDER}/")),
        false => Err(errors.join("\n")),
    }
}
