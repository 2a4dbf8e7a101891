//! Files of the repository, and the part of it that each belongs to.
//!
//! ```text
//! root ──read──▶ [File { path, text }]        "crates/x/src/a.rs" ──▶ area "x", folder "crates/x"
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders without texts of this repository.
const SKIPPED: [&str; 5] = ["target", ".git", "testdata", "corpus", "artifacts"];

/// One file: its path from the root, with slashes, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The repository around the current directory.
///
/// # Errors
/// The current directory is in no repository.
pub(crate) fn root() -> Result<PathBuf, String> {
    let here = std::env::current_dir().map_err(|e| format!("the current directory: {e}"))?;
    let is_root = |folder: &&Path| folder.join("xtask").is_dir() && folder.join("crates").is_dir();
    let root = here.ancestors().find(is_root);
    root.map(Path::to_owned)
        .ok_or_else(|| format!("{} is in no repository of kinform", here.display()))
}

/// Reads every text file of the repository at `root`.
///
/// # Errors
/// A file could not be read.
pub(crate) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    read_folder(root, "", &mut files).map_err(|e| format!("reading the repository: {e}"))?;
    Ok(files)
}

/// Reads every text file below a folder; files that are not UTF-8 are skipped.
fn read_folder(root: &Path, folder: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            read_folder(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(entry.path())?)
        {
            files.push(File { path, text });
        }
    }
    Ok(())
}

/// The crate that a file belongs to, the folder, or the name of a page at the root.
pub(crate) fn area(path: &str) -> &str {
    let inside = path.strip_prefix("crates/").unwrap_or(path);
    let first = inside.split('/').next().unwrap_or(inside);
    first.strip_suffix(".md").unwrap_or(first)
}

/// The folder of a source file's crate: `crates/x` of `crates/x/src/a.rs`.
pub(crate) fn crate_folder(path: &str) -> Option<&str> {
    let (folder, _) = path.strip_suffix(".rs")?.split_once("/src/")?;
    let name = folder.strip_prefix("crates/")?;
    (!name.contains('/')).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_a_crate_a_folder_or_a_page() {
        for (path, expected) in [
            ("crates/kinform/src/lib.rs", "kinform"),
            ("xtask/src/main.rs", "xtask"),
            ("ARCHITECTURE.md", "ARCHITECTURE"),
            ("docs/contract/store.md", "docs"),
        ] {
            assert_eq!(area(path), expected, "{path}");
        }
    }
}
