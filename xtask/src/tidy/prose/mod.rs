//! Plain technical English in comments and Markdown, as far as a pattern can tell.
//!
//! ```text
//! source ──comments──▶ blocks ──patterns──▶ openings, worn phrases ┐
//! Markdown ──markdown──▶ lines, cells ──patterns──▶ ..             ┴─▶ counted by area
//! ```
//!
//! An area is a crate, or a group of texts that users read: documentation of public items, texts of
//! the command line, README, docs, ARCHITECTURE. Strings and code in backquotes are not read: they
//! hold names of Kubernetes' fields and messages of real servers.

mod comments;
mod markdown;
mod patterns;

use super::ceilings::Counted;
use super::finding::Finding;
use crate::text::file::{File, area};
use crate::text::source::Source;

use patterns::Fault;

const RULE: &str = "prose";

/// Crates whose public items are an area of their own.
const PUBLIC: [&str; 2] = ["kinform", "kinform-testkit"];

/// The name of an area's ceiling.
pub(crate) fn key(area: &str) -> String {
    format!("{RULE}.{area}")
}

fn counted(path: &str, area: &str, (line, message): Fault) -> Counted {
    let finding = Finding {
        path: path.to_owned(),
        line,
        rule: RULE,
        message,
    };
    Counted::new(key(area), finding)
}

/// Checks the comments of a Rust file.
pub(crate) fn check_source(source: &Source<'_>) -> Vec<Counted> {
    let crate_name = area(source.path);
    let mut found = Vec::new();
    for block in comments::blocks(source) {
        let area = match crate_name {
            name if PUBLIC.contains(&name) && block.is_public(source) => format!("{name}.public"),
            "kinform-cli" if block.is_help(source) => "kinform-cli.help".to_owned(),
            name => name.to_owned(),
        };
        let faults = patterns::check(&block.text, block.is_doc());
        let placed = faults
            .into_iter()
            .map(|(at, message)| (block.line(at), message));
        found.extend(placed.map(|fault| counted(source.path, &area, fault)));
    }
    found
}

/// Checks a file of Markdown.
pub(crate) fn check_markdown(file: &File) -> Vec<Counted> {
    let is_readme = file.path.rsplit('/').next() == Some("README.md");
    let area = match area(&file.path) {
        name if is_readme && file.path.starts_with("crates/") => format!("{name}.readme"),
        name => name.to_ascii_lowercase(),
    };
    let faults = markdown::check(&file.text);
    faults
        .into_iter()
        .map(|fault| counted(&file.path, &area, fault))
        .collect()
}
