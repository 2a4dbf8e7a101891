//! The import graph of one crate, at two grains, and its circles.
//!
//! ```text
//! references ──▶ file ──▶ file          circles: strongly connected files
//!           └──▶ node ──▶ node          in each folder: its files and folders as nodes
//! ```
//!
//! A folder's own `mod.rs` (`lib.rs`, `main.rs`) is no node of that folder: a parent and its
//! children may import each other. Circles that hold no folder are circles of files. Tarjan's
//! algorithm, linear in nodes and edges.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Reference;

/// Edges between names.
pub(crate) type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The files of a folder, or a circle among them.
pub(crate) type Names<'a> = BTreeSet<&'a str>;

/// The edges between the nodes of one folder; `""` is the crate's `src`.
pub(crate) fn nodes<'a>(references: &BTreeSet<Reference<'a>>, folder: &str) -> Edges<'a> {
    let mut edges = Edges::new();
    for reference in references {
        let ends = (node(reference.from, folder), node(reference.to, folder));
        if let (Some(from), Some(to)) = ends
            && from != to
        {
            edges.entry(from).or_default().insert(to);
        }
    }
    edges
}

/// The edges between files.
pub(crate) fn files<'a>(references: &BTreeSet<Reference<'a>>) -> Edges<'a> {
    let mut edges = Edges::new();
    for reference in references {
        edges
            .entry(reference.from)
            .or_default()
            .insert(reference.to);
    }
    edges
}

/// The path of the node of a folder that a file belongs to, if it belongs to one: `a/b` of
/// `a/b.rs`, `a/b/mod.rs` and `a/b/c.rs` in `a`.
pub(crate) fn node<'a>(file: &'a str, folder: &str) -> Option<&'a str> {
    let inside = if folder.is_empty() {
        file
    } else {
        file.strip_prefix(folder)?.strip_prefix('/')?
    };
    let first = inside.split('/').next().unwrap_or(inside);
    let is_hub = inside == first && matches!(first, "mod.rs" | "lib.rs" | "main.rs");
    let end = file.len() - inside.len() + first.len();
    (!is_hub).then(|| file[..end].trim_end_matches(".rs"))
}

/// The folders that files are in, from `""` on.
pub(crate) fn folders<'a>(files: &Names<'a>) -> Names<'a> {
    let mut found = Names::from([""]);
    for file in files {
        let slashes = file.match_indices('/').map(|(at, _)| &file[..at]);
        found.extend(slashes);
    }
    found
}

/// The circles of folders: in one folder, nodes that import each other, one at least a folder.
pub(crate) fn folder_circles<'a>(
    files: &Names<'a>,
    references: &BTreeSet<Reference<'a>>,
) -> Vec<(&'a str, Names<'a>)> {
    let folders = folders(files);
    let circles = folders.iter().flat_map(|folder| {
        let found = circles(&nodes(references, folder)).into_iter();
        found.map(move |circle| (*folder, circle))
    });
    circles
        .filter(|(_, circle)| circle.iter().any(|node| folders.contains(node)))
        .collect()
}

/// The circles of files that are no parent and its own children.
pub(crate) fn file_circles<'a>(references: &BTreeSet<Reference<'a>>) -> Vec<Names<'a>> {
    let mut found = circles(&files(references));
    found.retain(|circle| !is_family(circle));
    found
}

/// Returns whether a circle is a folder's `mod.rs` and files of that folder.
fn is_family(circle: &Names<'_>) -> bool {
    circle.iter().any(|parent| {
        let folder = own_folder(parent);
        circle
            .iter()
            .all(|file| file == parent || own_parent(file) == folder)
    })
}

/// The folder of a file's children: `a` of `a/mod.rs` and of `a.rs`.
fn own_folder(file: &str) -> &str {
    match file.strip_suffix("mod.rs") {
        Some(folder) => folder.trim_end_matches('/'),
        None if matches!(file, "lib.rs" | "main.rs") => "",
        None => file.trim_end_matches(".rs"),
    }
}

/// The folder that a file is a child in: `a` of `a/b.rs` and of `a/b/mod.rs`.
fn own_parent(file: &str) -> &str {
    let own = own_folder(file);
    own.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The strongly connected components of more than one node.
pub(crate) fn circles<'a>(edges: &Edges<'a>) -> Vec<Names<'a>> {
    let mut search = Search {
        edges,
        visits: BTreeMap::new(),
        open: Vec::new(),
        circles: Vec::new(),
    };
    for node in edges.keys() {
        if !search.visits.contains_key(node) {
            search.visit(node);
        }
    }
    search.circles.sort();
    search.circles
}

struct Visit {
    low: usize,
    is_open: bool,
}

struct Search<'s, 'a> {
    edges: &'s Edges<'a>,
    visits: BTreeMap<&'a str, Visit>,
    open: Vec<&'a str>,
    circles: Vec<Names<'a>>,
}

impl<'a> Search<'_, 'a> {
    /// Visits a node and all that it leads to; returns the earliest open node that it reaches.
    fn visit(&mut self, node: &'a str) -> usize {
        let index = self.visits.len();
        let mut low = index;
        self.visits.insert(node, Visit { low, is_open: true });
        self.open.push(node);
        for next in self.edges.get(node).into_iter().flatten() {
            match self.visits.get(next) {
                None => low = low.min(self.visit(next)),
                Some(visit) if visit.is_open => low = low.min(visit.low),
                Some(_) => {}
            }
        }
        if low < index {
            self.visits.insert(node, Visit { low, is_open: true });
            return low;
        }
        let start = self
            .open
            .iter()
            .rposition(|open| *open == node)
            .unwrap_or(0);
        let circle: Names<'a> = self.open.drain(start..).collect();
        for member in &circle {
            self.visits.insert(
                member,
                Visit {
                    low,
                    is_open: false,
                },
            );
        }
        if circle.len() > 1 {
            self.circles.push(circle);
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'a>(edges: &[(&'a str, &'a str)]) -> BTreeSet<Reference<'a>> {
        let edges = edges.iter();
        edges
            .map(|(from, to)| Reference { from, to, at: 0 })
            .collect()
    }

    fn names<'a>(names: &[&'a str]) -> Names<'a> {
        names.iter().copied().collect()
    }

    #[track_caller]
    fn check_circles(edges: &[(&str, &str)], expected: &[&[&str]]) {
        let found = circles(&files(&references(edges)));
        let expected: Vec<Names<'_>> = expected.iter().map(|circle| names(circle)).collect();
        assert_eq!(found, expected, "{edges:?}");
    }

    #[test]
    fn circles_are_found() {
        check_circles(&[("a", "b"), ("b", "c")], &[]);
        check_circles(&[("a", "b"), ("b", "a"), ("b", "c")], &[&["a", "b"]]);
        check_circles(
            &[
                ("a", "b"),
                ("b", "c"),
                ("c", "a"),
                ("c", "d"),
                ("d", "e"),
                ("e", "d"),
            ],
            &[&["a", "b", "c"], &["d", "e"]],
        );
        check_circles(
            &[("a", "b"), ("a", "c"), ("c", "b"), ("b", "d"), ("d", "a")],
            &[&["a", "b", "c", "d"]],
        );
        check_circles(
            &[("c", "a"), ("b", "c"), ("a", "d"), ("d", "a")],
            &[&["a", "d"]],
        );
    }

    #[test]
    fn a_file_belongs_to_a_node_of_each_folder_around_it() {
        for (file, folder, expected) in [
            ("a.rs", "", Some("a")),
            ("a/mod.rs", "", Some("a")),
            ("a/b/c.rs", "", Some("a")),
            ("a/b/c.rs", "a", Some("a/b")),
            ("a/b.rs", "a", Some("a/b")),
            ("a/b/c.rs", "a/b", Some("a/b/c")),
            ("a/mod.rs", "a", None),
            ("a.rs", "a", None),
            ("ab/c.rs", "a", None),
            ("lib.rs", "", None),
        ] {
            assert_eq!(node(file, folder), expected, "{file} in {folder}");
        }
    }

    #[test]
    fn folders_may_not_import_in_a_circle_and_parents_may() {
        let files = names(&[
            "a/mod.rs",
            "a/x.rs",
            "a/y/mod.rs",
            "a/y/z.rs",
            "b.rs",
            "c.rs",
            "c/d.rs",
        ]);
        let found = |edges: &[(&'static str, &'static str)]| -> Vec<String> {
            let circles = folder_circles(&files, &references(edges)).into_iter();
            circles
                .map(|(folder, circle)| format!("{folder}: {circle:?}"))
                .collect()
        };
        assert_eq!(
            found(&[("a/x.rs", "b.rs"), ("b.rs", "a/y/z.rs")]),
            [r#": {"a", "b"}"#]
        );
        assert_eq!(
            found(&[("a/x.rs", "a/y/z.rs"), ("a/y/mod.rs", "a/x.rs")]),
            [r#"a: {"a/x", "a/y"}"#]
        );
        assert_eq!(
            found(&[("a/mod.rs", "a/y/z.rs"), ("a/y/z.rs", "a/mod.rs")]),
            [""; 0]
        );
        assert_eq!(
            found(&[("b.rs", "c.rs"), ("c/d.rs", "b.rs")]),
            [r#": {"b", "c"}"#]
        );
        assert_eq!(found(&[("c.rs", "c/d.rs"), ("c/d.rs", "c.rs")]), [""; 0]);
    }

    #[test]
    fn files_in_a_circle_are_a_parent_and_its_children() {
        for (circle, expected) in [
            (&["a/mod.rs", "a/b.rs", "a/c.rs"][..], true),
            (&["a.rs", "a/b.rs"], true),
            (&["a/mod.rs", "a/b/mod.rs"], true),
            (&["a/b.rs", "a/c.rs"], false),
            (&["a/mod.rs", "b.rs"], false),
            (&["a/mod.rs", "a/b/mod.rs", "a/b/c.rs"], false),
            (&["lib.rs", "a.rs"], true),
        ] {
            assert_eq!(is_family(&names(circle)), expected, "{circle:?}");
        }
    }
}
