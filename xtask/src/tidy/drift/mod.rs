//! Texts that name files: a name without a file is where a map begins to lie.
//!
//! ```text
//! header of a module ──"`x.rs`, `x/`"──▶ exists beside it, below it or above it?
//! ARCHITECTURE.md ──architecture──▶ paths exist? crates may import that? each room named?
//! ```
//!
//! Only names in backquotes that end in `.rs` or a slash are paths here. Findings are counted by
//! area; rooms that no row names are counted by crate.

mod architecture;

use std::collections::BTreeSet;

use super::ceilings::Counted;
use super::source::Source;
use super::{File, Finding, area};
use crate::map::Map;

pub(crate) use architecture::{PATH as ARCHITECTURE, check as check_architecture};

const RULE: &str = "drift";

/// The files of a repository and the folders that they are in.
#[derive(Debug)]
pub(crate) struct Paths<'a> {
    files: BTreeSet<&'a str>,
}

impl<'a> Paths<'a> {
    pub(crate) fn new(files: &'a [File]) -> Self {
        let files = files.iter().map(|file| file.path.as_str());
        Self {
            files: files.collect(),
        }
    }

    /// Returns whether there is this file, or a folder of that name with a file in it.
    fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let next = self.files.range(folder.as_str()..).next();
        let is_folder = next.is_some_and(|file| file.starts_with(&folder));
        is_folder || self.files.contains(path)
    }

    /// The path that a name leads to from a folder or a folder around it.
    fn find(&self, folder: &str, name: &str) -> Option<String> {
        let mut base = Some(folder);
        while let Some(folder) = base {
            let path = join(folder, name);
            if self.has(&path) {
                return Some(path);
            }
            base = (!folder.is_empty()).then(|| parent(folder));
        }
        let path = join("crates", name);
        self.has(&path).then_some(path)
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Files that many folders have; a text that names one means none in particular.
const HUBS: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

/// The names in backquotes that are paths of ours.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
        let is_name = name.ends_with(".rs") || name.ends_with('/');
        let is_one = is_name && !HUBS.contains(name);
        is_one && !name.starts_with(['/', '.']) && name.chars().all(is_path)
    })
}

fn counted(path: &str, line: usize, key: String, message: String) -> Counted {
    let finding = Finding {
        path: path.to_owned(),
        line,
        rule: RULE,
        message,
    };
    Counted::new(key, finding)
}

/// Checks the files that a module's header names.
pub(crate) fn check_header(source: &Source<'_>, paths: &Paths<'_>) -> Vec<Counted> {
    let own = source.path.trim_end_matches(".rs");
    let mut found = Vec::new();
    let mut in_fence = false;
    let header = source
        .text
        .lines()
        .take_while(|line| line.starts_with("//!"));
    for (line, text) in (1..).zip(header) {
        in_fence ^= text.starts_with("//! ```");
        if in_fence {
            continue; // a picture
        }
        // From the folder of its children outwards; `mod.rs` is in that folder already.
        for name in names(text).filter(|name| paths.find(own, name).is_none()) {
            let key = format!("{RULE}.{}", area(source.path));
            found.push(counted(
                source.path,
                line,
                key,
                format!("there is no {name}"),
            ));
        }
    }
    found
}

/// The rooms of a crate: its top-level modules.
fn rooms<'a>(map: &Map<'a>) -> BTreeSet<&'a str> {
    let rooms = map.files.iter();
    rooms
        .filter_map(|file| crate::map::node(file, ""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(header: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("crates/x/src/a/b.rs", header),
            file("crates/x/src/a/b/c.rs", ""),
            file("crates/x/src/a/d.rs", ""),
            file("crates/x/src/e/f.rs", ""),
            file("crates/y/src/g.rs", ""),
        ];
        let found = check_header(&Source::new(&files[0]), &Paths::new(&files)).into_iter();
        let found: Vec<String> = found.map(|c| c.finding.message).collect();
        assert_eq!(found, expected, "{header}");
    }

    #[test]
    fn files_are_found_below_beside_and_above() {
        check(
            "//! `c.rs`, `d.rs`, `e/f.rs`, `e/`, `y/src/g.rs`, `crates/y/`",
            &[],
        );
        check(
            "//! One line.\n//! `f.rs` or `b/d.rs`",
            &["there is no f.rs", "there is no b/d.rs"],
        );
        check("//! `h/`", &["there is no h/"]);
    }

    #[test]
    fn other_names_are_no_paths() {
        check(
            "//! `client-go:tools/cache/x.rs` `/api/` `d::rs` `x.go` `../z.rs`",
            &[],
        );
        check("//! a\n\n//! `gone.rs`", &[]);
        check(
            "//! ```text\n//! `gone.rs`\n//! ```\n//! `lib.rs`, `mod.rs`",
            &[],
        );
    }
}
