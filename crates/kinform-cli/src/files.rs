//! Files that a user names: regular files only, and no more than a bound of them. Temporary files.
//!
//! ```text
//! path ──open without blocking──▶ is it a regular file? ──▶ text | file to append to
//! ```
//!
//! A pipe does not block the start, and a device or the target of a link is never written to. The
//! check is made on the open file, so nobody can exchange it in between.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read as _, Result, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::libc::{O_NOFOLLOW, O_NONBLOCK};

/// Opens a file to read it. A link to a file is followed.
pub(crate) fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    regular(options.read(true).custom_flags(O_NONBLOCK).open(path)?)
}

/// Reads a file of at most `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> Result<String> {
    let file = open(path)?;
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        let what = format!("has more than {most} bytes");
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

/// Opens a file to append to, or makes one that its owner alone may read. A link is refused.
pub(crate) fn append(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    regular(options.custom_flags(O_NONBLOCK | O_NOFOLLOW).open(path)?)
}

/// A path in the temporary folder, removed with the process.
#[derive(Debug)]
pub(crate) struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// A name that no other process has.
    pub(crate) fn new(ending: &str) -> Self {
        let name = format!(
            "kinform-{}-{:08x}.{ending}",
            std::process::id(),
            rand::random::<u32>()
        );
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Makes the file, which its owner alone may read. A file that is there already is refused.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&self.0)?.write_all(text.as_bytes())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn regular(file: File) -> Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(Error::new(ErrorKind::InvalidInput, "is not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_regular_files_are_read_and_within_their_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read(&path("file"), 5).unwrap(), "12345");
        assert_eq!(read(&path("link"), 5).unwrap(), "12345");
        for (name, most) in [("file", 4), ("pipe", 5), ("", 5), ("none", 5)] {
            assert!(read(&path(name), most).is_err(), "{name}");
        }
        assert!(read(Path::new("/dev/zero"), 5).is_err());
    }

    #[test]
    fn only_regular_files_are_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for line in ["a\n", "b\n"] {
            append(&path("file"))
                .unwrap()
                .write_all(line.as_bytes())
                .unwrap();
        }
        assert_eq!(std::fs::read_to_string(path("file")).unwrap(), "a\nb\n");
        let mode = std::fs::metadata(path("file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("new"), path("broken")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "broken", "pipe", ""] {
            assert!(append(&path(name)).is_err(), "{name}");
        }
        assert!(!path("new").exists());
        assert!(append(Path::new("/dev/null")).is_err());
    }
}
