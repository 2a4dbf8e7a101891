//! The map as text.
//!
//! ```text
//! write -> access (8), http (3)                a folder, and what it imports in how many places
//!   write/handle.rs:12 -> http/body.rs: use crate::http::Body;
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::graph::{self, Names, node};
use super::tree::Reference;
use super::{Circle, Map};

/// Lists the folders of each crate with the folders that they import.
pub(super) fn folders(maps: &[Map<'_>]) -> String {
    let mut text = String::new();
    for map in maps {
        let folders = graph::folders(&map.files);
        let _ = writeln!(text, "{}: {} files", map.package(), map.files.len());
        for folder in &folders {
            let counts = counts(&map.references, folder);
            let nodes = map.files.iter().filter_map(|file| node(file, folder));
            let nodes: Names<'_> = nodes.collect();
            // A folder that holds only files has no imports between folders.
            let is_told = folder.is_empty() || nodes.iter().any(|node| folders.contains(node));
            for node in nodes.iter().filter(|_| is_told) {
                let to = counts.get(node).into_iter().flatten();
                let to: Vec<String> = to.map(|(to, count)| format!("{to} ({count})")).collect();
                let to = if to.is_empty() {
                    "-".to_owned()
                } else {
                    to.join(", ")
                };
                let _ = writeln!(text, "  {node} -> {to}");
            }
        }
        text.push('\n');
    }
    text
}

/// For each node of a folder the nodes that it imports, and in how many places.
fn counts<'a>(
    references: &BTreeSet<Reference<'a>>,
    folder: &str,
) -> BTreeMap<&'a str, BTreeMap<&'a str, usize>> {
    let mut counts: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for reference in references {
        let ends = (node(reference.from, folder), node(reference.to, folder));
        if let (Some(from), Some(to)) = ends
            && from != to
        {
            *counts.entry(from).or_default().entry(to).or_default() += 1;
        }
    }
    counts
}

/// Describes forbidden circles: their members, and one importing line for each edge.
pub(super) fn circles(maps: &[Map<'_>], circles: &[Circle<'_>]) -> String {
    let mut text = String::new();
    for circle in circles {
        let Some(map) = maps.iter().find(|map| map.package() == circle.package) else {
            continue;
        };
        let members: Vec<&str> = circle.members.iter().copied().collect();
        let what = match circle.folder {
            Some("") => "folders".to_owned(),
            Some(folder) => format!("folders in {folder}/"),
            None => "files".to_owned(),
        };
        let _ = writeln!(
            text,
            "{}: circle of {} {what}: {}",
            circle.package,
            members.len(),
            members.join(" ")
        );
        for (from, to, reference) in edges(map, circle) {
            let _ = writeln!(text, "  {from} -> {to}: {}", place(map, reference));
        }
        text.push('\n');
    }
    let of_folders = circles.iter().filter(|c| c.folder.is_some()).count();
    let _ = write!(
        text,
        "map: {} crates, {of_folders} circles of folders, {} of files",
        maps.len(),
        circles.len() - of_folders
    );
    text
}

/// The edges of a circle, each with its first reference.
fn edges<'m, 'a>(
    map: &'m Map<'a>,
    circle: &Circle<'_>,
) -> Vec<(&'a str, &'a str, &'m Reference<'a>)> {
    let end = |file: &'a str| match circle.folder {
        Some(folder) => node(file, folder),
        None => Some(file),
    };
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for reference in &map.references {
        if let (Some(from), Some(to)) = (end(reference.from), end(reference.to))
            && from != to
            && circle.members.contains(from)
            && circle.members.contains(to)
            && seen.insert((from, to))
        {
            found.push((from, to, reference));
        }
    }
    found.sort_by_key(|(from, to, _)| (*from, *to));
    found
}

/// `a.rs:3 (b.rs): use crate::b::B;`
fn place(map: &Map<'_>, reference: &Reference<'_>) -> String {
    let (from, to) = (reference.from, reference.to);
    format!(
        "{from}:{} ({to}): {}",
        map.line(reference),
        map.text(reference)
    )
}

/// Lists the references into and out of a folder or file.
///
/// # Errors
/// There is no such folder.
pub(super) fn around(maps: &[Map<'_>], folder: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut is_known = false;
    for map in maps {
        let Some(inside) = inside(map, folder) else {
            continue;
        };
        let within = |file: &str| match file.strip_prefix(inside) {
            Some(rest) => rest.is_empty() || rest.starts_with('/') || inside.is_empty(),
            None => false,
        };
        if !map.files.iter().any(|file| within(file)) {
            continue;
        }
        is_known = true;
        for (title, into) in [("out of", false), ("into", true)] {
            let _ = writeln!(text, "{}: {title} {inside}", map.package());
            let crossing = map.references.iter().filter(|reference| {
                let ends = (within(reference.from), within(reference.to));
                ends == (!into, into)
            });
            let mut count = 0;
            for reference in crossing {
                count += 1;
                let _ = writeln!(text, "  {}", place(map, reference));
            }
            let _ = writeln!(text, "  {count} in all");
        }
    }
    if is_known {
        Ok(text.trim_end().to_owned())
    } else {
        Err(format!(
            "map: there is no folder or file {folder} in the sources"
        ))
    }
}

/// A path of a repository as one of a crate's `src`; `None` if it is another crate's.
fn inside<'p>(map: &Map<'_>, path: &'p str) -> Option<&'p str> {
    let path = path.trim_end_matches('/');
    match path.strip_prefix(map.folder) {
        Some(rest) => Some(rest.trim_start_matches("/src").trim_start_matches('/')),
        None => (!path.starts_with("crates/")).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::maps;
    use super::*;
    use crate::text::file::File;

    fn files(texts: &[(&str, &str)]) -> Vec<File> {
        let files = texts.iter();
        files
            .map(|(path, text)| File {
                path: format!("crates/x/src/{path}"),
                text: (*text).to_owned(),
            })
            .collect()
    }

    const HOUSE: [(&str, &str); 4] = [
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a/mod.rs", "mod c;\npub(crate) use c::C;\n"),
        ("a/c.rs", "//! C.\nuse crate::b::B;\npub struct C;\n"),
        (
            "b.rs",
            "use crate::a::C;\npub struct B;\n#[cfg(test)]\nmod tests { use crate::a::c; }\n",
        ),
    ];

    #[test]
    fn folders_are_listed_with_the_folders_that_they_import() {
        let files = files(&HOUSE);
        assert_eq!(
            folders(&maps(&files)),
            "x: 4 files\n  a -> b (1)\n  b -> a (1)\n\n"
        );
    }

    #[test]
    fn a_circle_is_described_by_one_line_an_edge() {
        let files = files(&HOUSE);
        let maps = maps(&files);
        let found = maps[0].circles(&|_| false);
        let expected = "x: circle of 2 folders: a b\n  \
            a -> b: a/c.rs:2 (b.rs): use crate::b::B;\n  \
            b -> a: b.rs:1 (a/c.rs): use crate::a::C;\n\n\
            x: circle of 2 files: a/c.rs b.rs\n  \
            a/c.rs -> b.rs: a/c.rs:2 (b.rs): use crate::b::B;\n  \
            b.rs -> a/c.rs: b.rs:1 (a/c.rs): use crate::a::C;\n\n\
            map: 1 crates, 1 circles of folders, 1 of files";
        assert_eq!(circles(&maps, &found), expected);
    }

    #[test]
    fn two_files_of_one_idea_are_excused() {
        let files = files(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ]);
        let maps = maps(&files);
        assert_eq!(maps[0].circles(&|_| false).len(), 1);
        let excused = |key: &str| key == "crates/x/src: a.rs b.rs";
        assert_eq!(maps[0].circles(&excused), []);
    }

    #[test]
    fn edges_around_a_folder_are_listed_by_direction() {
        let files = files(&HOUSE);
        let expected = "x: out of a\n  a/c.rs:2 (b.rs): use crate::b::B;\n  1 in all\n\
            x: into a\n  b.rs:1 (a/c.rs): use crate::a::C;\n  1 in all";
        for folder in ["a", "crates/x/src/a/", "crates/x/src/a"] {
            assert_eq!(around(&maps(&files), folder).unwrap(), expected, "{folder}");
        }
        assert!(around(&maps(&files), "none").is_err());
    }
}
