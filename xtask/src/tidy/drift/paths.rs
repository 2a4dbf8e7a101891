//! Names of files in texts, and the files that there are.
//!
//! ```text
//! "see `a.rs`" ──names──▶ a.rs ──find(folder)──▶ path, from that folder outwards, then in crates/
//! ```

use std::collections::BTreeSet;

use super::super::ceilings::Counted;
use super::super::finding::Finding;
use crate::text::file::File;

/// The name of the rule.
pub(super) const RULE: &str = "drift";

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
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let next = self.files.range(folder.as_str()..).next();
        let is_folder = next.is_some_and(|file| file.starts_with(&folder));
        is_folder || self.files.contains(path)
    }

    /// The path that a name leads to from a folder or a folder around it.
    pub(super) fn find(&self, folder: &str, name: &str) -> Option<String> {
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

pub(super) fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Files that many folders have; a text that names one does not mean a particular file.
const HUBS: [&str; 3] = ["mod.rs", "lib.rs", "main.rs"];

/// The names in backquotes that are paths of this repository.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
        let is_name = name.ends_with(".rs") || name.ends_with('/');
        let is_one = is_name && !HUBS.contains(name);
        is_one && !name.starts_with(['/', '.']) && name.chars().all(is_path)
    })
}

/// A finding under a ceiling.
pub(super) fn counted(path: &str, line: usize, key: String, message: String) -> Counted {
    let finding = Finding {
        path: path.to_owned(),
        line,
        rule: RULE,
        message,
    };
    Counted::new(key, finding)
}
