//! One version of a package in the locks of all workspaces.
//!
//! ```text
//! Cargo.lock, */Cargo.lock ──▶ names and versions ──▶ each version that is not the main workspace's
//! ```
//!
//! What one workspace has built serves the others as well, as long as versions, features (`features/`)
//! and profiles (`.cargo/config.toml`) are the same.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::text::file::File;

const MAIN: &str = "Cargo.lock";

/// Compares the locks.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let Some(main) = files.iter().find(|file| file.path == MAIN) else {
        return Vec::new();
    };
    let of_main: BTreeMap<_, _> = packages(&main.text)
        .map(|(_, name, version)| ((name, compatible(version)), version))
        .collect();
    let others = files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.lock"));
    let found = others.flat_map(|file| {
        packages(&file.text).filter_map(|(line, name, version)| {
            let wanted = of_main.get(&(name, compatible(version)))?;
            (*wanted != version).then(|| Finding {
                path: file.path.clone(),
                line,
                rule: "locks",
                message: format!(
                    "{name} {version}, where the main workspace has {wanted}: cargo update \
                     --manifest-path {} -p {name}@{version} --precise {wanted}",
                    file.path.replace("Cargo.lock", "Cargo.toml")
                ),
            })
        })
    });
    found.collect()
}

/// The packages of a lock: the line of the version, the name, the version.
fn packages(lock: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let lines = || lock.lines().enumerate();
    lines()
        .zip(lines().skip(1))
        .filter_map(|((_, name), (at, version))| {
            let name = name.strip_prefix("name = \"")?.strip_suffix('"')?;
            let version = version.strip_prefix("version = \"")?.strip_suffix('"')?;
            Some((at + 1, name, version))
        })
}

/// The part of a version that compatible ones share.
fn compatible(version: &str) -> &str {
    let parts = if version.starts_with("0.") { 2 } else { 1 };
    let end = version.match_indices('.').nth(parts - 1);
    end.map_or(version, |(at, _)| &version[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_not_the_main_workspaces_is_found() {
        let package = |name: &str, version: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        let file = |path: &str, text: String| File {
            path: path.to_owned(),
            text,
        };
        let main = package("a", "1.2.3") + &package("b", "0.3.1") + &package("b", "0.4.0");
        let other = package("a", "1.2.3") + &package("b", "0.3.2") + &package("b", "0.5.0");
        let found = check(&[file(MAIN, main), file("e2e/Cargo.lock", other)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(
            (found[0].path.as_str(), found[0].line),
            ("e2e/Cargo.lock", 7)
        );
        assert!(
            found[0].message.ends_with("-p b@0.3.2 --precise 0.3.1"),
            "{found:?}"
        );
    }
}
