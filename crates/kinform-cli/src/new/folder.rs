//! The folder of a new project, which appears whole or not at all.
//!
//! ```text
//! files ─▶ .NAME.new-PID beside it ──rename──▶ DIR
//! ```
//!
//! A folder that exists must be empty. It may be the working folder of a shell, so it stays, and the
//! entries move into it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// The folder of a project that is being written. Dropping it removes what was written.
#[derive(Debug)]
pub(super) struct Folder {
    target: PathBuf,
    draft: PathBuf,
}

impl Folder {
    /// Begins to write the project in `target`.
    ///
    /// # Errors
    /// The folder is not empty, which is wrong usage, or cannot be written.
    pub(super) fn begin(target: &Path) -> Result<Self, Failure> {
        let shown = target.display();
        if !is_free(target).map_err(|error| failed("read", target, &error))? {
            let line = format!("{shown} exists: use a folder that is missing or empty (--dir)");
            return Err(Failure::usage(line));
        }
        let absolute = match target.canonicalize() {
            Ok(known) => known,
            Err(_) => {
                std::path::absolute(target).map_err(|error| failed("find", target, &error))?
            }
        };
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(Failure::usage(format!(
                "{shown} is no place for a project: use --dir"
            )));
        };
        let name = format!(".{}.new-{}", name.to_string_lossy(), std::process::id());
        let draft = parent.join(name);
        fs::create_dir(&draft).map_err(|error| failed("create", &draft, &error))?;
        Ok(Self {
            target: absolute,
            draft,
        })
    }

    /// The folder that the files are in until [`finish`](Self::finish).
    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// Writes one file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), Failure> {
        let path = self.draft.join(path);
        let folder = path.parent().unwrap_or(&self.draft);
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text));
        written.map_err(|error| failed("write", &path, &error))
    }

    /// Gives the files their place.
    ///
    /// # Errors
    /// Another program took the place meanwhile, or a rename failed.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let moved = match self.target.is_dir() {
            false => fs::rename(&self.draft, &self.target),
            true => self.move_entries(),
        };
        moved.map_err(|error| failed("create", &self.target, &error))
    }

    fn move_entries(&self) -> io::Result<()> {
        if !is_free(&self.target)? {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        for entry in fs::read_dir(&self.draft)? {
            let entry = entry?;
            fs::rename(entry.path(), self.target.join(entry.file_name()))?;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // After a success it is gone, or empty.
        let _ = fs::remove_dir_all(&self.draft);
    }
}

/// Returns whether there is nothing, or an empty folder.
fn is_free(target: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
        Ok(_) => match fs::read_dir(target) {
            Ok(mut entries) => Ok(entries.next().is_none()),
            // A file, or a link that leads nowhere.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Ok(false),
            Err(error) => Err(error),
        },
    }
}

fn failed(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_project_appears_whole_and_a_dropped_one_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("web");
        let folder = Folder::begin(&target).unwrap();
        folder.write("src/lib.rs", "//! x\n").unwrap();
        assert!(!target.exists());
        drop(folder);
        assert!(entries(home.path()).is_empty());
        let folder = Folder::begin(&target).unwrap();
        folder.write("src/lib.rs", "//! x\n").unwrap();
        folder.write(".gitignore", "x\n").unwrap();
        folder.finish().unwrap();
        assert_eq!(entries(home.path()), ["web"]);
        assert_eq!(entries(&target), [".gitignore", "src"]);
        assert_eq!(Folder::begin(&target).unwrap_err().code(), 2);
    }

    #[test]
    fn an_empty_folder_stays_the_same_folder() {
        use std::os::unix::fs::MetadataExt as _;
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join("web");
        fs::create_dir(&target).unwrap();
        let before = fs::metadata(&target).unwrap().ino();
        let folder = Folder::begin(&target).unwrap();
        folder.write("src/lib.rs", "//! x\n").unwrap();
        folder.finish().unwrap();
        assert_eq!(fs::metadata(&target).unwrap().ino(), before);
        assert_eq!(entries(&target), ["src"]);
        assert_eq!(entries(home.path()), ["web"]);
    }

    #[test]
    fn a_file_a_dangling_link_and_a_folder_with_a_file_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "x").unwrap();
        let link = home.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        for target in [file.as_path(), &link, home.path()] {
            let failure = Folder::begin(target).unwrap_err();
            assert_eq!(failure.code(), 2, "{failure}");
        }
        assert_eq!(entries(home.path()), ["file", "link"]);
        let nowhere = home.path().join("a/b");
        assert_eq!(Folder::begin(&nowhere).unwrap_err().code(), 1);
    }
}
