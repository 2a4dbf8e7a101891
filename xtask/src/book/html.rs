//! The book as HTML, by mdBook.
//!
//! ```text
//! docs/book ──links that leave the book lead to the repository's address, pictures copied──▶ target/book-source
//!           ──mdbook build──▶ target/book
//! ```
//!
//! A page of the book may link to any file of the repository, which the HTML does not have: there the
//! link leads to the file on the web. The pages themselves are not changed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::links::{Place, resolve};
use super::{FOLDER, PAGES, page};
use crate::suite;
use crate::text::file::File;

/// The address of the repository's files.
const FILES: &str = "https://github.com/kinform/kinform/blob/main";
/// The way to get mdBook.
const INSTALL: &str = "cargo install mdbook --locked";

/// The reason for which there is no HTML.
#[derive(Debug)]
pub(super) enum Unbuilt {
    /// mdBook is not installed.
    Missing(String),
    /// It failed, or warned.
    Failed(String),
}

/// Builds the HTML of the pages; returns its folder.
///
/// # Errors
/// mdBook is missing, fails or warns, or a file could not be read or written.
pub(super) fn build(root: &Path, pages: &[&File]) -> Result<PathBuf, Unbuilt> {
    let target = suite::target(root);
    let (source, output) = (target.join("book-source"), target.join("book"));
    let failed = |error: io::Error| Unbuilt::Failed(format!("the book's HTML: {error}"));
    prepare(root, &source, pages).map_err(failed)?;
    let mut mdbook = Command::new("mdbook");
    mdbook
        .arg("build")
        .arg(&source)
        .arg("--dest-dir")
        .arg(&output);
    let built = match mdbook.output() {
        Ok(built) => built,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = format!("mdbook is not installed: `{INSTALL}` installs it");
            return Err(Unbuilt::Missing(why));
        }
        Err(error) => return Err(failed(error)),
    };
    let messages = String::from_utf8_lossy(&built.stderr);
    if !built.status.success() || has_warning(&messages) {
        return Err(Unbuilt::Failed(format!("mdbook build:\n{messages}")));
    }
    Ok(output)
}

/// Returns whether mdBook warned.
fn has_warning(messages: &str) -> bool {
    messages.lines().any(|line| {
        let line = line.trim_start();
        line.starts_with("WARN") || line.starts_with("ERROR") || line.contains("[WARN]")
    })
}

/// Writes the source that mdBook reads.
fn prepare(root: &Path, source: &Path, pages: &[&File]) -> io::Result<()> {
    if source.exists() {
        fs::remove_dir_all(source)?;
    }
    let folder = source.join("src");
    fs::create_dir_all(&folder)?;
    fs::copy(
        root.join(FOLDER).join("book.toml"),
        source.join("book.toml"),
    )?;
    for page in pages {
        let (text, pictures) = rewrite(page);
        let name = page.path.strip_prefix(PAGES).unwrap_or(&page.path);
        fs::write(folder.join(name.trim_start_matches('/')), text)?;
        for picture in pictures {
            let copy = folder.join(in_book(&picture));
            if let Some(parent) = copy.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(root.join(&picture), copy)?;
        }
    }
    Ok(())
}

/// The text of a page whose links work in the HTML, and the pictures outside of the book.
fn rewrite(page: &File) -> (String, Vec<String>) {
    let mut text = String::with_capacity(page.text.len());
    let mut pictures = Vec::new();
    let mut from = 0;
    for link in page::links(&page.text) {
        let Place::Here { path, anchor } = resolve(&page.path, &link.target) else {
            continue;
        };
        if path
            .strip_prefix(PAGES)
            .is_some_and(|rest| rest.starts_with('/'))
        {
            continue;
        }
        text.push_str(&page.text[from..link.at]);
        if link.is_image {
            text.push_str(&in_book(&path));
            pictures.push(path);
        } else {
            let anchor = anchor.map(|anchor| format!("#{anchor}"));
            text.push_str(&format!("{FILES}/{path}{}", anchor.unwrap_or_default()));
        }
        from = link.at + link.target.len();
    }
    text.push_str(&page.text[from..]);
    (text, pictures)
}

/// The path of a copied picture in the book's source.
fn in_book(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    format!("pictures/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_lead_to_the_repository() {
        for (text, expected) in [
            ("[a](b.md#c)", "[a](b.md#c)"),
            (
                "é [a](../../cli.md#c) [b](d.md)",
                "é [a](https://github.com/kinform/kinform/blob/main/docs/cli.md#c) [b](d.md)",
            ),
            ("![a](../../pictures/b.png)", "![a](pictures/b.png)"),
            ("[a](https://example.com)", "[a](https://example.com)"),
            ("`[a](../../cli.md)`", "`[a](../../cli.md)`"),
        ] {
            let page = File {
                path: format!("{PAGES}/a.md"),
                text: text.to_owned(),
            };
            assert_eq!(rewrite(&page).0, expected);
        }
    }

    #[test]
    fn a_warning_is_told_from_progress() {
        for (messages, expected) in [
            (" INFO Book building has started", false),
            (" WARN a link leads nowhere", true),
            ("2026-01-01 [WARN] (mdbook): x", true),
            ("ERROR no", true),
        ] {
            assert_eq!(has_warning(messages), expected, "{messages}");
        }
    }
}
