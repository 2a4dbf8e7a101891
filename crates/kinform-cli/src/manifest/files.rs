//! The files of `--load`: found, read within bounds, decoded.
//!
//! ```text
//! FILE | DIR | - ──find──▶ [Source] ──read──▶ text
//! ```
//!
//! Of a folder the files with the extensions of manifests are read, in the order of their paths;
//! its subfolders only on request. Files with a byte order mark may be UTF-16; bytes that are no
//! text are replaced, as kubectl does. Only regular files are read, since a pipe or a device may
//! never end; stdin is read to its end.
//!
//! Upstream counterpart: `cli-runtime:pkg/resource/visitor.go` (`ExpandPathsToFileVisitors`).

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::files;

/// BOUND: the size of a file, which is read at once.
const MAX_FILE: u64 = 2 << 30;
/// BOUND: folders within folders.
const MAX_DEPTH: usize = 64;
/// The extensions of the files that are read from a folder.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "jsonl"];
/// Files of a folder that tell kustomize what to do with others.
const KUSTOMIZATIONS: [&str; 2] = ["kustomization.yaml", "kustomization.yml"];

/// The folders that are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folders {
    /// The folder that is named.
    Top,
    /// The folder that is named and all folders in it.
    All,
}

/// A text to read.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Stdin,
}

/// Finds the files that a path stands for.
///
/// # Errors
/// The path cannot be read, or is a folder without manifests.
pub(super) fn find(path: &Path, folders: Folders) -> Result<Vec<Source>, Failure> {
    if path == Path::new("-") {
        return Ok(vec![Source::Stdin]);
    }
    let wrong = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
    if !fs::metadata(path).map_err(wrong)?.is_dir() {
        return Ok(vec![Source::File(path.to_owned())]);
    }
    let mut found = Found::default();
    found.search(path, folders, 0).map_err(wrong)?;
    if found.files.is_empty() {
        let what = format!("{}: this folder has no manifest", path.display());
        let failure = Failure::new(what);
        return Err(match (folders, found.folders) {
            (Folders::Top, 1..) => failure.with_hint("-R also reads the folders in it"),
            _ => failure.with_hint("manifests end in .yaml, .yml, .json or .jsonl"),
        });
    }
    found.files.sort();
    Ok(found.files.into_iter().map(Source::File).collect())
}

#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    /// Folders that were seen, searched or not.
    folders: usize,
}

impl Found {
    fn search(&mut self, folder: &Path, folders: Folders, depth: usize) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            // A link to a folder is not followed: it may lead back to where it is.
            if entry.file_type()?.is_dir() {
                self.folders += 1;
                if folders == Folders::All && depth < MAX_DEPTH {
                    self.search(&path, folders, depth + 1)?;
                }
                continue;
            }
            let text =
                |part: Option<&std::ffi::OsStr>| part.and_then(|it| it.to_str()).map(str::to_owned);
            let extension = text(path.extension()).unwrap_or_default();
            if !EXTENSIONS.contains(&&*extension) || path.is_dir() {
                continue;
            }
            let name = text(path.file_name()).unwrap_or_default();
            if KUSTOMIZATIONS.contains(&&*name) {
                crate::progress!("{}: skipped, it is for `kubectl kustomize`", path.display());
                continue;
            }
            self.files.push(path);
        }
        Ok(())
    }
}

impl Source {
    /// The name for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "stdin".to_owned(),
        }
    }

    /// Reads and decodes the text.
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, or is too large.
    pub(super) fn read(&self) -> Result<String, Failure> {
        let wrong = |error: io::Error| Failure::new(format!("{}: {error}", self.name()));
        let bytes = match self {
            Self::File(path) => files::open(path).and_then(bytes),
            Self::Stdin => bytes(io::stdin().lock()),
        };
        Ok(decode(bytes.map_err(wrong)?))
    }
}

fn bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        let message = format!("it has more than the {MAX_FILE} bytes of a manifest");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

/// Decodes UTF-8 or, with a byte order mark, UTF-16. What is neither becomes U+FFFD.
fn decode(bytes: Vec<u8>) -> String {
    let utf16 = |of: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes[2..].as_chunks();
        let units = char::decode_utf16(pairs.iter().map(|pair| of(*pair)));
        let letters = units.map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER));
        let rest = rest.iter().map(|_| char::REPLACEMENT_CHARACTER);
        letters.chain(rest).collect()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // cli-runtime: FileVisitor.Visit reads by unicode.BOMOverride(unicode.UTF8)
    #[test]
    fn files_are_decoded_by_their_first_bytes() {
        let utf16 = |text: &str, of: fn(u16) -> [u8; 2]| {
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(of).collect::<Vec<u8>>()
        };
        for (bytes, expected) in [
            (b"kind: A".to_vec(), "kind: A"),
            (b"\xef\xbb\xbfkind: A".to_vec(), "kind: A"),
            (
                utf16("kind: \u{e9}\u{1f980}", u16::to_le_bytes),
                "kind: \u{e9}\u{1f980}",
            ),
            (utf16("kind: A", u16::to_be_bytes), "kind: A"),
            (b"\xff\xfea\0\0\xd8".to_vec(), "a\u{fffd}"),
            (b"\xff\xfea\0b".to_vec(), "a\u{fffd}"),
            (b"kind: \xe9!".to_vec(), "kind: \u{fffd}!"),
            (b"".to_vec(), ""),
            (b"\xff".to_vec(), "\u{fffd}"),
        ] {
            assert_eq!(decode(bytes.clone()), expected, "{bytes:?}");
        }
    }

    fn names(folder: &Path, folders: Folders) -> Result<Vec<String>, String> {
        let found = find(folder, folders).map_err(|failure| failure.to_string())?;
        let names = found.iter().map(Source::name);
        let prefix = format!("{}/", folder.display());
        Ok(names.map(|name| name.replace(&prefix, "")).collect())
    }

    #[test]
    fn a_folder_is_read_in_the_order_of_names_and_in_depth_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("b/deep")).unwrap();
        for name in [
            "c.yml",
            "a.json",
            "kustomization.yaml",
            "notes.txt",
            "b/deep/d.yaml",
        ] {
            fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("b/back.yaml")).unwrap();
        assert_eq!(names(root, Folders::Top).unwrap(), ["a.json", "c.yml"]);
        assert_eq!(
            names(root, Folders::All).unwrap(),
            ["a.json", "b/deep/d.yaml", "c.yml"]
        );
        let none = names(&root.join("b"), Folders::Top).unwrap_err();
        assert!(
            none.contains("no manifest") && none.contains("-R"),
            "{none}"
        );
        let none = names(&root.join("b/deep"), Folders::Top).unwrap();
        assert_eq!(none, ["d.yaml"]);
    }

    #[test]
    fn pipes_and_devices_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.yaml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe, PathBuf::from("/dev/zero")] {
            let failure = Source::File(path).read().unwrap_err().to_string();
            assert!(failure.contains("not a regular file"), "{failure}");
        }
    }
}
