//! The checks before a release: tree, versions, packages, licences, compatibility.
//!
//! ```text
//! git, Cargo.toml, CHANGELOG.md, cargo package, cargo deny, cargo semver-checks ──▶ passed | failed | missing
//! ```
//!
//! They write nothing but cargo's packages in the target folder, and need no network.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::workspace::output;
use super::{Outcome, Release};
use crate::suite;

/// The tools that are no part of Rust, and how to install them.
const DENY: &str = "cargo-deny is not installed: cargo install cargo-deny --locked";
const SEMVER: &str =
    "cargo-semver-checks is not installed: cargo install cargo-semver-checks --locked";
const CRATES: &str = "crates of other platforms are not on this machine: cargo fetch --locked";
const DATABASE: &str = "no database of advisories: cargo deny fetch, with a network";
const REFRESH: &str = "it is older than 90 days: cargo deny fetch, with a network";

/// BOUND: the age of a database of advisories that a release may rely on, in git's words.
const RECENT: &str = "--since=90.days";

/// The macros that include a file.
const INCLUDES: [&str; 2] = ["include_str!(\"", "include_bytes!(\""];

/// No change is uncommitted.
pub(super) fn tree(release: &Release) -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(["status", "--porcelain"])
        .current_dir(&release.root);
    let changes = output(&mut git)?;
    match changes.lines().count() {
        0 => Ok("nothing is uncommitted".to_owned()),
        count => Err(format!("{count} uncommitted files (git status)")),
    }
}

/// One version everywhere, with a section of the changelog.
pub(super) fn versions(release: &Release) -> Result<String, String> {
    let version = release.workspace.version();
    let is_other = |package: &&Value| package["version"] != version;
    if let Some(other) = release.workspace.members().find(is_other) {
        return Err(format!(
            "{} has {}, not {version}",
            other["name"], other["version"]
        ));
    }
    let changelog = fs::read_to_string(release.root.join("CHANGELOG.md"));
    let changelog = changelog.map_err(|error| format!("CHANGELOG.md: {error}"))?;
    match section(&changelog, version) {
        true => Ok(format!("{version} everywhere, and in CHANGELOG.md")),
        false => Err(format!("CHANGELOG.md has no section `## {version}`")),
    }
}

/// Returns whether a changelog has a section for the version.
fn section(changelog: &str, version: &str) -> bool {
    let mut titles = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    titles.any(|title| title.split_whitespace().next() == Some(version))
}

/// Each published crate has what a registry shows of it, packs, and includes only files of its own.
pub(super) fn packages(release: &Release) -> Result<String, String> {
    let mut names = Vec::new();
    for package in release.workspace.published() {
        let name = package["name"].as_str().unwrap_or_default();
        described(package).map_err(|what| format!("{name} has {what}"))?;
        let listed = cargo(release, &["package", "--list", "--package", name])?;
        let listed: BTreeSet<&str> = listed.lines().collect();
        for file in ["README.md", "LICENSE", "Cargo.toml"] {
            if !listed.contains(file) {
                return Err(format!("{name} packs no {file}"));
            }
        }
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().unwrap_or(&release.root);
        included(folder, &listed).map_err(|what| format!("{name}: {what}"))?;
        names.push(name);
    }
    let chosen = names.iter().flat_map(|name| ["--package", *name]);
    let words: Vec<_> = ["package", "--no-verify"]
        .into_iter()
        .chain(chosen)
        .collect();
    cargo(release, &words)?;
    Ok(format!(
        "{} crates pack ({})",
        names.len(),
        names.join(", ")
    ))
}

/// Checks the facts that a registry shows.
fn described(package: &Value) -> Result<(), &'static str> {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    // BOUND: keywords that the registry takes.
    let count = package["keywords"].as_array().map_or(0, Vec::len);
    match () {
        () if text("license") != "Apache-2.0" => Err("another licence than Apache-2.0"),
        () if text("description").is_empty() => Err("no description"),
        () if text("readme").is_empty() => Err("no readme"),
        () if text("repository").is_empty() => Err("no repository"),
        () if !(1..=5).contains(&count) => Err("no keywords, or more than five"),
        () => Ok(()),
    }
}

/// The files that the code includes are in the package.
fn included(folder: &Path, listed: &BTreeSet<&str>) -> Result<(), String> {
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    let is_source = |path: &str| path.starts_with("src/") && path.ends_with(".rs");
    let sources = listed
        .iter()
        .filter(|path| is_source(path) && !is_test(path));
    for source in sources {
        // The packed manifest and lock file are made, and no sources.
        let Ok(text) = fs::read_to_string(folder.join(source)) else {
            continue;
        };
        // Tests of the repository may look around in it.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.split("#[cfg(doctest)]").next().unwrap_or_default();
        for file in includes(code) {
            let beside = Path::new(source).parent().unwrap_or(Path::new(""));
            let path = plain(&beside.join(file));
            let is_packed = path
                .as_ref()
                .is_some_and(|path| listed.contains(path.as_str()));
            if !is_packed {
                return Err(format!("{source} includes {file}, which is not packed"));
            }
        }
    }
    Ok(())
}

/// The files that code includes; examples in comments are none.
fn includes(code: &str) -> impl Iterator<Item = &str> {
    let lines = code.lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.starts_with("//"));
    let starts = lines.flat_map(|line| INCLUDES.iter().flat_map(|start| line.split(start).skip(1)));
    starts.filter_map(|rest| Some(rest.split_once('"')?.0))
}

/// A path without `..`; absent if it leads out of the package.
fn plain(path: &Path) -> Option<String> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if plain.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    plain.to_str().map(str::to_owned)
}

/// Licences, bans and sources by `deny.toml`, of the crates of all platforms.
pub(super) fn licences(release: &Release) -> Outcome {
    if !suite::is_there("cargo-deny", "--version") {
        return Outcome::Missing(DENY.to_owned());
    }
    let mut fetch = suite::cargo();
    fetch.args(["fetch", "--locked", "--offline"]);
    if output(fetch.current_dir(&release.root)).is_err() {
        return Outcome::Missing(CRATES.to_owned());
    }
    let words = ["--offline", "check", "licenses", "bans", "sources"];
    denied(
        release,
        &words,
        "licences, bans and sources are as in deny.toml",
    )
}

/// Known advisories, where their database is on this machine.
pub(super) fn advisories(release: &Release) -> Outcome {
    if !suite::is_there("cargo-deny", "--version") {
        return Outcome::Missing(DENY.to_owned());
    }
    let Some((end, is_recent)) = database() else {
        return Outcome::Missing(DATABASE.to_owned());
    };
    let told = format!("no advisory about a dependency in the database, which ends on {end}");
    match denied(release, &["--offline", "check", "advisories"], &told) {
        Outcome::Passed(told) if !is_recent => Outcome::Missing(format!("{told}: {REFRESH}")),
        outcome => outcome,
    }
}

/// The day of the last commit of the database of advisories, and whether it is recent; absent
/// without a database.
fn database() -> Option<(String, bool)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    let folders = fs::read_dir(home.join("advisory-dbs")).ok()?;
    let mut folders = folders.filter_map(|entry| Some(entry.ok()?.path()));
    // A fetch that failed leaves an empty folder.
    let folder = folders.find(|folder| folder.join("crates").is_dir())?;
    let log = |since: &str| {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%cs", since]);
        output(git.current_dir(&folder)).ok()
    };
    let end = log("--since=1970-01-02")?.trim().to_owned();
    let recent = log(RECENT)?;
    Some((end, !recent.trim().is_empty()))
}

fn denied(release: &Release, words: &[&str], passed: &str) -> Outcome {
    let mut deny = Command::new("cargo-deny");
    deny.args(words).current_dir(&release.root);
    output(&mut deny).map(|_| passed.to_owned()).into()
}

/// The API since the last tag.
pub(super) fn semver(release: &Release) -> Outcome {
    let mut git = Command::new("git");
    git.args(["describe", "--tags", "--abbrev=0"])
        .current_dir(&release.root);
    let Ok(tag) = output(&mut git) else {
        return Outcome::Missing(
            "no tag to compare with: this would be the first release, which breaks no earlier one"
                .to_owned(),
        );
    };
    let tag = tag.trim();
    if !suite::is_there("cargo-semver-checks", "--version") {
        return Outcome::Missing(SEMVER.to_owned());
    }
    let words = ["semver-checks", "--workspace", "--baseline-rev", tag];
    let mut check = suite::cargo();
    check.args(words).current_dir(&release.root);
    output(&mut check)
        .map(|_| format!("no break since {tag} that the version does not say"))
        .into()
}

fn cargo(release: &Release, words: &[&str]) -> Result<String, String> {
    let mut cargo = suite::cargo();
    // An unclean tree is the first check's finding.
    cargo
        .args(words)
        .args(["--allow-dirty", "--locked", "--offline"]);
    output(cargo.current_dir(&release.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_the_one_of_exactly_this_version() {
        let changelog = "# Changelog\n\n## 0.1.10 (unreleased)\n\n### 0.2.0\n";
        assert!(section(changelog, "0.1.10"));
        assert!(!section(changelog, "0.1.1"));
        assert!(!section(changelog, "0.2.0"));
    }

    #[test]
    fn an_included_file_is_looked_for_beside_its_source_and_inside_of_the_package() {
        assert_eq!(
            plain(Path::new("src/new/template/a.rs")).as_deref(),
            Some("src/new/template/a.rs")
        );
        assert_eq!(
            plain(Path::new("src/a/../../README.md")).as_deref(),
            Some("README.md")
        );
        assert_eq!(plain(Path::new("src/../../README.md")), None);
    }

    #[test]
    fn an_example_in_a_comment_includes_no_file() {
        let code = "/// `load(include_str!(\"../crds.yaml\"))`\n\
                    const A: &str = include_str!(\"a.txt\");\n    let b = f(include_bytes!(\"b\"), \
                    include_str!(\"c\"));\n";
        let mut found: Vec<&str> = includes(code).collect();
        found.sort_unstable();
        assert_eq!(found, ["a.txt", "b", "c"]);
    }
}
