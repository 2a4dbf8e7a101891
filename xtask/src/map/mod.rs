//! `cargo xtask map`: the imports between folders, and the circles that the house forbids.
//!
//! ```text
//! crates/*/src ──outline──▶ modules ──tree──▶ references ──graph──▶ folders, files, circles ──▶ report
//!                                       └─public──▶ what a crate shows
//! ```
//!
//! Tests are left out. An import leads to the file that defines the item, through re-exports. A
//! method of an imported type is not an import, nor is a re-export in a file that does not use the
//! name. Circles are forbidden between the folders (and files) of one folder, and between files
//! other than a parent and its own children. Two files that are one idea are excused in
//! `tidy.toml`: `[circles]`, then `"crates/x/src: a.rs b.rs" = "reason"`.

mod graph;
mod outline;
pub(crate) mod public;
mod report;
mod tree;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;

use crate::text::file::{File, crate_folder, read, root};
use crate::text::settings;
use crate::text::source::Source;
use graph::Names;
use outline::Outline;
use public::Outlines;
use tree::{Reference, Tree};

pub(crate) use graph::node;

/// The rule's name in `tidy.toml`.
pub(crate) const RULE: &str = "circles";

/// The part of the graph that is printed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The repository; by default the one around the current directory.
    root: Option<PathBuf>,
    /// Only this crate, as `kinform-core`.
    #[arg(long = "crate")]
    package: Option<String>,
    /// Only the edges into and out of this folder or file, with the importing lines.
    #[arg(long)]
    folder: Option<String>,
    /// Only the circles.
    #[arg(long)]
    circles: bool,
}

/// The imports inside of one crate.
#[derive(Debug)]
pub(crate) struct Map<'a> {
    /// The crate's folder, as `crates/kinform-core`.
    pub(crate) folder: &'a str,
    /// Its files, from its `src`.
    pub(crate) files: Names<'a>,
    /// Imports and paths that lead from one file to another.
    pub(crate) references: BTreeSet<Reference<'a>>,
    sources: BTreeMap<&'a str, Source<'a>>,
}

/// Prints the import graph of a repository.
///
/// # Errors
/// The report, where it has a forbidden circle; or the file that could not be read.
pub(crate) fn run(arguments: &Arguments) -> Result<String, String> {
    let root = match &arguments.root {
        Some(root) => root.clone(),
        None => root()?,
    };
    let files = read(&root)?;
    let entries = settings::entries(&files)?;
    let is_excused = |key: &str| entries.iter().any(|e| e.section == RULE && e.key == key);
    let mut maps = maps(&files);
    if let Some(package) = &arguments.package {
        maps.retain(|map| map.package() == package);
    }
    if maps.is_empty() {
        return Err("map: no such crate".to_owned());
    }
    if let Some(folder) = &arguments.folder {
        return report::around(&maps, folder);
    }
    let circles: Vec<Circle<'_>> = maps
        .iter()
        .flat_map(|map| map.circles(&is_excused))
        .collect();
    let mut text = String::new();
    if !arguments.circles {
        text += &report::folders(&maps);
    }
    text += &report::circles(&maps, &circles);
    if circles.is_empty() {
        Ok(text)
    } else {
        Err(text)
    }
}

/// The maps of all crates, by name.
pub(crate) fn maps(files: &[File]) -> Vec<Map<'_>> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files {
        if let Some(folder) = crate_folder(&file.path) {
            crates.entry(folder).or_default().push(file);
        }
    }
    let maps = crates.into_iter();
    maps.map(|(folder, files)| Map::new(folder, &files))
        .collect()
}

/// The outlines of all crates' files.
pub(crate) fn outlines<'a>(sources: &'a [Source<'a>]) -> Outlines<'a> {
    let mut outlines = Outlines::new();
    for source in sources {
        if let Some(folder) = crate_folder(source.path) {
            let name = folder.trim_start_matches("crates/").replace('-', "_");
            let path = &source.path[folder.len() + "/src/".len()..];
            let outline = Outline::new(source.production());
            outlines.entry(name).or_default().insert(path, outline);
        }
    }
    outlines
}

/// A forbidden circle.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle<'a> {
    /// The crate.
    pub(crate) package: &'a str,
    /// The folder whose nodes they are; `None` if they are files.
    pub(crate) folder: Option<&'a str>,
    /// The nodes or files.
    pub(crate) members: Names<'a>,
}

impl<'a> Map<'a> {
    fn new(folder: &'a str, files: &[&'a File]) -> Self {
        let start = folder.len() + "/src/".len();
        let sources = files
            .iter()
            .map(|file| (&file.path[start..], Source::new(file)));
        let sources: BTreeMap<&str, Source<'_>> = sources.collect();
        let outlines = sources.iter();
        let outlines = outlines.map(|(path, source)| (*path, Outline::new(source.production())));
        let outlines = outlines.collect();
        let tree = Tree::new(&outlines);
        Self {
            folder,
            files: tree.files(),
            references: tree.references(),
            sources,
        }
    }

    /// The crate's name.
    pub(crate) fn package(&self) -> &'a str {
        self.folder.trim_start_matches("crates/")
    }

    /// The line of a reference, from 1.
    pub(crate) fn line(&self, reference: &Reference<'_>) -> usize {
        let source = self.sources.get(reference.from);
        source.map_or(0, |source| source.line(reference.at))
    }

    /// The text of the line of a reference.
    fn text(&self, reference: &Reference<'_>) -> &'a str {
        let text = self
            .sources
            .get(reference.from)
            .map_or("", |source| source.text);
        let start = text[..reference.at].rfind('\n').map_or(0, |at| at + 1);
        text[start..].lines().next().unwrap_or_default().trim()
    }

    /// The circles that are forbidden, those of folders first; two files may be excused by their
    /// key.
    pub(crate) fn circles(&self, is_excused: &dyn Fn(&str) -> bool) -> Vec<Circle<'a>> {
        let package = self.package();
        let folders = graph::folder_circles(&self.files, &self.references).into_iter();
        let folders = folders.map(|(folder, members)| (Some(folder), members));
        let files = graph::file_circles(&self.references).into_iter();
        let files = files.filter(|circle| !(circle.len() == 2 && is_excused(&self.key(circle))));
        let files = files.map(|members| (None, members));
        let circles = folders.chain(files);
        circles
            .map(|(folder, members)| Circle {
                package,
                folder,
                members,
            })
            .collect()
    }

    /// The paths of its files from the repository's root.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        let files = self.files.iter();
        files.map(|file| format!("{}/src/{file}", self.folder))
    }

    /// The name of two files in `tidy.toml`.
    fn key(&self, circle: &Names<'_>) -> String {
        let files: Vec<&str> = circle.iter().copied().collect();
        format!("{}/src: {}", self.folder, files.join(" "))
    }
}
