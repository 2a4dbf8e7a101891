//! One import: what a public signature of this crate names, this crate exports.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// The names that a file imports from the crates below this one.
fn imported(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for statement in text.split(";\n") {
        let Some((_, statement)) = statement.rsplit_once("use kinform_") else {
            continue;
        };
        let listed = statement
            .rsplit_once('{')
            .map_or(statement, |(_, list)| list);
        let listed = listed
            .split(',')
            .filter_map(|name| name.rsplit("::").next());
        let names_of = listed.map(|name| match name.split_once(" as ") {
            Some((_, name)) => name.trim_matches(|c: char| !c.is_alphanumeric()).to_owned(),
            None => name.trim_matches(|c: char| !c.is_alphanumeric()).to_owned(),
        });
        names.extend(names_of.filter(|name| name.starts_with(char::is_uppercase)));
    }
    names
}

/// The public signatures of a file: functions up to their bodies, fields, aliases.
fn signatures(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("pub ") {
        rest = &rest[at + 4..];
        let end = match () {
            () if rest.starts_with("fn ") || rest.starts_with("async fn ") => {
                rest.find('{').into_iter().chain(rest.find(";\n")).min()
            }
            // The fields that are public say so themselves.
            () if rest.starts_with("struct ") => None,
            () if rest.starts_with("type ") => rest.find(";\n"),
            () if rest.starts_with(char::is_lowercase) && !rest.starts_with("use ") => {
                rest.find(['\n', '{'])
            }
            () => None,
        };
        if let Some(end) = end {
            found.push(rest[..end].to_owned());
        }
    }
    // Variants of public enums and methods of public traits have no `pub` of their own.
    let mut rest = text;
    while let Some(at) = rest
        .find("\npub enum ")
        .into_iter()
        .chain(rest.find("\npub trait "))
        .min()
    {
        rest = &rest[at + 1..];
        let end = rest.find("\n}").unwrap_or(rest.len());
        let lines = rest[..end]
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        found.push(lines.collect::<Vec<_>>().join("\n"));
    }
    found
}

#[test]
fn all_that_public_signatures_name_is_exported_by_this_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(root.join("lib.rs")).unwrap();
    let exported: BTreeSet<&str> = lib.split("pub use ").skip(1).flat_map(words).collect();
    let mut files = Vec::new();
    sources(&root, &mut files);
    let (mut missing, mut named) = (BTreeSet::new(), 0);
    for file in files.iter().filter(|file| !file.ends_with("lib.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let foreign = imported(&text);
        for signature in signatures(&text) {
            for word in words(&signature).filter(|word| foreign.contains(*word)) {
                named += 1;
                if !exported.contains(word) {
                    missing.insert(format!("{word} ({})", file.display()));
                }
            }
        }
    }
    assert!(
        named > 50,
        "only {named} names were found: the test reads nothing"
    );
    assert!(missing.is_empty(), "not exported: {missing:#?}");
}
