//! One version of a package in the locks of all workspaces.
//!
//! ```text
//! Cargo.lock, */Cargo.lock ──▶ names and versions ──▶ each version that is not the main workspace's
//! ```
//!
//! The workspaces use one build of a dependency as long as its version, its features
//! (`dependency-features/`) and its profile (`.cargo/config.toml`) are the same. Versions are compared
//! with compatible ones of the main workspace: cargo chose those in each lock at another time.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::text::file::File;

/// The lock of the main workspace.
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
    let pairs = lock.lines().zip((2..).zip(lock.lines().skip(1)));
    pairs.filter_map(|(name, (line, version))| {
        let name = name.strip_prefix("name = \"")?.strip_suffix('"')?;
        let version = version.strip_prefix("version = \"")?.strip_suffix('"')?;
        Some((line, name, version))
    })
}

/// The part of a version that compatible ones share.
fn compatible(version: &str) -> &str {
    // Up to its first number that is not 0.
    let zeros = version.split('.').take_while(|part| *part == "0").count();
    let end = version.match_indices('.').nth(zeros);
    end.map_or(version, |(at, _)| &version[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compatible_versions_share_their_first_number_that_is_not_zero() {
        for (version, shared) in [
            ("1.2.3", "1"),
            ("0.3.1", "0.3"),
            ("0.0.4", "0.0.4"),
            ("2.1.2+zstd.1.5.7", "2"),
        ] {
            assert_eq!(compatible(version), shared, "{version}");
        }
    }

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
