//! The licences of the code that the program has from others, in one file.
//!
//! ```text
//! crates of the bill ──▶ LICENSE*, COPYING*, NOTICE* of each, at any depth ──▶ equal texts once ──▶ NOTICES.txt
//! Rust's library; the C library of the static program, its version, how to replace it ──────────┘
//! ```
//!
//! Most licences ask that their text goes with a program. The same commit has the same file on machines
//! with the same C library.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::workspace::output;
use super::{Outcome, Release, bom};

/// The file, as it is called in the archive.
pub(super) const FILE: &str = "NOTICES.txt";

/// The text of the C library's licence, where Debian keeps it.
const LGPL: &str = "/usr/share/common-licenses/LGPL-2.1";
/// The message where that text is missing.
const NO_LGPL: &str = "the licence of the C library, which the static program has in it, is not in the file: \
                       /usr/share/common-licenses/LGPL-2.1 of Debian's package base-files";
/// The beginnings of files with a licence, in lower case.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];
/// The ends of files with such names that are code.
const CODE: [&str; 8] = [".rs", ".c", ".h", ".py", ".sh", ".toml", ".yml", ".yaml"];
/// BOUND: a licence is shorter; a longer file is something else.
const MOST: u64 = 256 << 10;
/// BOUND: folders in folders of a crate.
const DEPTH: usize = 8;
/// The licences of Rust, in the folder of its toolchain.
const RUST: &str = "share/doc/rust/licenses";
/// The message where they are missing.
const NO_RUST: &str = "the licences of Rust's standard library are not in the file: share/doc/rust/licenses of \
                       the toolchain, which rustup installs";

/// Writes the file.
pub(super) fn write(release: &Release) -> Outcome {
    let written = texts(release).and_then(|(texts, count)| {
        let rust = rust()?;
        let library = fs::read_to_string(LGPL).ok();
        let missing = match (&rust, &library) {
            (None, _) => Some(NO_RUST),
            (_, None) => Some(NO_LGPL),
            _ => None,
        };
        let ends = [rust, library].map(Option::unwrap_or_default);
        let text = [head(&c_library()?), texts, ends.join("\n")].join("\n");
        let path = release.folder.join(FILE);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok((missing, format!("{FILE}: {count} texts of crates")))
    });
    match written {
        Ok((None, told)) => Outcome::Passed(told),
        Ok((Some(missing), _)) => Outcome::Missing(missing.to_owned()),
        Err(failed) => Outcome::Failed(failed),
    }
}

/// The version of the C library that a static program has in it.
pub(super) fn c_library() -> Result<String, String> {
    let told = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let version = told.trim().strip_prefix("glibc ");
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("getconf GNU_LIBC_VERSION: not understood: {told}"))
}

fn head(version: &str) -> String {
    let package = ["-W", "-f=${source:Package} ${source:Version}", "libc6-dev"];
    // Other distributions have no such program: the version says enough.
    let package = output(Command::new("dpkg-query").args(package));
    let from = package.map_or_else(
        |_| "the distribution on which it was built".to_owned(),
        |package| format!("Debian's source package {}", package.trim()),
    );
    format!(
        "kinform is under the Apache License 2.0 (LICENSE). It has code of others in it, under the licences below:\n\
         crates, Rust's standard library, and the C library.\n\n\
         The static program has the GNU C Library {version} in it, as {from} has it.\n\
         It is under the GNU Lesser General Public License 2.1 or later. To replace it, build kinform from its own\n\
         source with another one: RUSTFLAGS=\"-C target-feature=+crt-static\" cargo build --release --locked\n\
         --package kinform-cli --target x86_64-unknown-linux-gnu.\n"
    )
}

/// The licences of Rust's standard library, which every program has in it, if the toolchain has them.
fn rust() -> Result<Option<String>, String> {
    let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let version = output(Command::new("rustc").arg("--version"))?;
    let read = |name: &str| fs::read_to_string(Path::new(root.trim()).join(RUST).join(name)).ok();
    let texts: Option<Vec<String>> = ["MIT.txt", "Apache-2.0.txt"]
        .into_iter()
        .map(read)
        .collect();
    let (rule, version) = ("-".repeat(80), version.trim());
    Ok(texts.map(|texts| {
        let texts = texts.join("\n");
        format!("{rule}\nThe standard library of {version} (MIT OR Apache-2.0)\n\n{texts}\n")
    }))
}

/// The texts of all crates, and how many they are.
fn texts(release: &Release) -> Result<(String, usize), String> {
    let workspace = &release.workspace;
    let tree = workspace.tree(&release.root)?;
    let crates = bom::crates(&tree)?;
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without = BTreeSet::new();
    // Those of this repository have no source.
    let others = workspace.packages().filter(|one| !one["source"].is_null());
    for package in others.filter(|one| crates.contains(&named(one))) {
        let (name, version) = named(package);
        let licence = package["license"].as_str().unwrap_or("see its text");
        let line = format!("{name} {version} ({licence})");
        let folder = package["manifest_path"].as_str().map(Path::new);
        let folder = folder
            .and_then(Path::parent)
            .ok_or_else(|| format!("{line}: it has no folder"))?;
        let found = of_folder(folder, DEPTH)?;
        if found.is_empty() {
            without.insert(line.clone());
        }
        for text in found {
            by_text.entry(text).or_default().insert(line.clone());
        }
    }
    Ok((laid_out(&by_text, &without), by_text.len()))
}

fn named(package: &Value) -> (&str, &str) {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    (text("name"), text("version"))
}

/// The licences in a folder and in those within it, this deep, without differences of white space at
/// the ends of lines.
fn of_folder(folder: &Path, depth: usize) -> Result<BTreeSet<String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        // A link may lead out of the crate.
        let facts = fs::symlink_metadata(entry.path()).map_err(failed)?;
        if facts.is_dir() && depth > 0 {
            texts.extend(of_folder(&entry.path(), depth - 1)?);
        }
        let is_named = NAMES.iter().any(|one| name.starts_with(one));
        let is_code = CODE.iter().any(|one| name.ends_with(one));
        if facts.is_file() && facts.len() <= MOST && is_named && !is_code {
            let text = fs::read(entry.path()).map_err(failed)?;
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
            texts.insert(lines.join("\n").trim_matches('\n').to_owned());
        }
    }
    Ok(texts)
}

/// Each text below the crates that have it.
fn laid_out(by_text: &BTreeMap<String, BTreeSet<String>>, without: &BTreeSet<String>) -> String {
    let lines = |these: &BTreeSet<String>| {
        let lines: Vec<&str> = these.iter().map(String::as_str).collect();
        lines.join("\n")
    };
    let mut parts: Vec<String> = Vec::new();
    if !without.is_empty() {
        parts.push(format!(
            "Crates that come without a text:\n{}\n",
            lines(without)
        ));
    }
    // By the crates, so that a new version of one moves no other.
    let by_crates: BTreeMap<String, &String> = by_text
        .iter()
        .map(|(text, these)| (format!("{}\n{text}", lines(these)), text))
        .collect();
    let rule = "-".repeat(80);
    for (crates_and_text, text) in by_crates {
        let crates = crates_and_text
            .strip_suffix(text.as_str())
            .unwrap_or_default();
        parts.push(format!("{rule}\n{crates}\n{text}\n"));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|&one| one.to_owned()).collect()
    }

    #[test]
    fn equal_texts_are_there_once_below_their_crates() {
        let by_text = BTreeMap::from([
            ("Text A".to_owned(), set(&["z 1 (MIT)"])),
            ("Text B".to_owned(), set(&["b 2 (MIT)", "c 1 (MIT)"])),
        ]);
        let text = laid_out(&by_text, &set(&["n 1 (ISC)"]));
        let rule = "-".repeat(80);
        let wanted = format!(
            "Crates that come without a text:\nn 1 (ISC)\n\n{rule}\nb 2 (MIT)\nc 1 (MIT)\n\nText B\n\n\
             {rule}\nz 1 (MIT)\n\nText A\n"
        );
        assert_eq!(text, wanted);
    }

    #[test]
    fn the_licences_of_a_folder_are_read_by_their_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = of_folder(&root, 0).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found.iter().all(|text| text.contains("Apache License")));
        let none = of_folder(&root.join("xtask"), DEPTH).unwrap();
        assert!(none.is_empty());
        assert!(
            rust()
                .unwrap()
                .is_none_or(|text| text.contains("Apache License"))
        );
    }
}
