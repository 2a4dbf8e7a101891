//! `ARCHITECTURE.md` against the repository.
//!
//! ```text
//! | `crates/kinform` | .. | api, core |     a crate: what it may import is what the layers allow
//! | .. | `kinform/src/store.rs`, `lister.rs` |   paths: from the root, `crates/`, or beside the one before
//! every top-level module of a crate ──▶ a row that names it
//! ```

use std::collections::BTreeSet;

use super::super::ceilings::Counted;
use super::super::layers;
use super::paths::{Paths, RULE, counted, join, names, parent};
use crate::map::{Map, node};
use crate::text::file::File;

/// The page.
pub(crate) const PATH: &str = "ARCHITECTURE.md";

/// Checks the page.
pub(crate) fn check(page: &File, paths: &Paths<'_>, maps: &[Map<'_>]) -> Vec<Counted> {
    let mut found = Vec::new();
    let mut push = |line: usize, message: String| {
        found.push(counted(PATH, line, format!("{RULE}.ARCHITECTURE"), message));
    };
    let mut named: BTreeSet<String> = BTreeSet::new();
    let mut above: Vec<&str> = Vec::new();
    for (line, row) in rows(&page.text) {
        let mut base = String::new();
        for name in names(row) {
            match paths.find(&base, name) {
                Some(path) => {
                    let folder = path.trim_end_matches('/');
                    base = if path.ends_with('/') {
                        folder
                    } else {
                        parent(folder)
                    }
                    .to_owned();
                    named.insert(folder.to_owned());
                }
                None => push(line, format!("there is no {name}")),
            }
        }
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let package = cells.first().and_then(|cell| package(cell));
        if let (Some(package), [_, _, imports, ..]) = (package, cells.as_slice())
            && let Some(allowed) = layers::allowed(package)
        {
            let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
            let said = said(imports, &above);
            if said != allowed {
                push(
                    line,
                    format!("{package} may import {allowed:?}, not {said:?}"),
                );
            }
            above.push(package);
        }
    }
    found.extend(unnamed(&named, maps));
    found
}

/// The rows of tables: their lines, and their text without the first bar.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter_map(|(line, text)| Some((line, text.strip_prefix('|')?)))
}

/// The crate that a row is about, by a first cell that is its path alone.
fn package(cell: &str) -> Option<&str> {
    let path = cell.strip_prefix('`')?.strip_suffix('`')?;
    path.rsplit('/').next()
}

/// The crates that a cell names, by their full names.
fn said<'a>(cell: &'a str, above: &[&'a str]) -> BTreeSet<&'a str> {
    let list = cell.split(':').next().unwrap_or(cell);
    let mut said = BTreeSet::new();
    if list.contains("everything above") {
        said.extend(above);
    }
    let words = list.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    said.extend(words.filter_map(|word| {
        let full = |package: &&str| package.strip_prefix("kinform-").unwrap_or(package) == word;
        layers::packages().into_iter().find(full)
    }));
    said
}

/// A finding for each room that no row names.
fn unnamed(named: &BTreeSet<String>, maps: &[Map<'_>]) -> Vec<Counted> {
    let mut found = Vec::new();
    for map in maps {
        for room in rooms(map) {
            let path = join(map.folder, &format!("src/{room}"));
            let is_in = |named: &String| {
                let rest = named.strip_prefix(&path);
                rest.is_some_and(|rest| matches!(rest, "" | ".rs") || rest.starts_with('/'))
            };
            if !named.iter().any(is_in) {
                let key = format!("rooms.{}", map.package());
                found.push(counted(PATH, 1, key, format!("no row names {path}")));
            }
        }
    }
    found
}

/// The rooms of a crate: its top-level modules.
fn rooms<'a>(map: &Map<'a>) -> BTreeSet<&'a str> {
    let rooms = map.files.iter();
    rooms.filter_map(|file| node(file, "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::maps;

    /// Checks the findings on a page, in a repository of two rooms.
    #[track_caller]
    fn check_page(text: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let files = [
            file("crates/kinform/src/lib.rs", "mod a; mod b;"),
            file("crates/kinform/src/a/mod.rs", "mod c;"),
            file("crates/kinform/src/a/c.rs", ""),
            file("crates/kinform/src/b.rs", ""),
        ];
        let page = file(PATH, text);
        let found = check(&page, &Paths::new(&files), &maps(&files)).into_iter();
        let found: Vec<String> = found.map(|c| c.finding.message).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn paths_lead_on_from_the_one_before() {
        check_page("| a | `kinform/src/a/` (`c.rs`), `b.rs` |", &[]);
        check_page(
            "| a | `kinform/src/a/c.rs` |\n| b | `kinform/src/b.rs` |",
            &[],
        );
        check_page(
            "| a | `kinform/src/a/`, `d.rs`, `b.rs` |",
            &["there is no d.rs"],
        );
        let missing = "no row names crates/kinform/src/";
        check_page(
            "`kinform/src/a/` | `gone.rs` |",
            &[&format!("{missing}a"), &format!("{missing}b")],
        );
        check_page("| a | `kinform/src/b.rs` |", &[&format!("{missing}a")]);
    }

    #[test]
    fn crates_import_as_the_layers_allow() {
        let rooms = "| x | `kinform/src/a/` `b.rs` |\n";
        let row = |imports: &str| format!("{rooms}| `crates/kinform` | the shell | {imports} |");
        check_page(&row("api, schema, core: bytes"), &[]);
        let allowed = "{\"kinform-api\", \"kinform-core\", \"kinform-schema\"}";
        let expected = format!("kinform may import {allowed}, not {{\"kinform-api\"}}");
        check_page(&row("api"), &[&expected]);
        let above = "| `crates/kinform-api` | words | nothing of ours |\n| `crates/kinform-schema` | a | |\n\
            | `crates/kinform-core` | machines | everything above |\n";
        check_page(&format!("{rooms}{above}"), &[]);
    }
}
