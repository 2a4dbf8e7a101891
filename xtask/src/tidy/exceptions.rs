//! `tidy.toml`: what is against a rule on purpose, each with its reason.
//!
//! ```text
//! [size]
//! "crates/x/src/table.rs" = "one table, and a cut would hide its order"
//! ```
//!
//! A section is a rule, a line a file. This is all of TOML that is read here. An entry without
//! a reason, of an unknown form, or that excuses nothing is an error of its own.

use std::collections::BTreeMap;

use super::{File, Finding};

/// Where the exceptions are.
pub(crate) const PATH: &str = "tidy.toml";

/// Excused pairs of rule and path, with the line that says so.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    lines: BTreeMap<(String, String), usize>,
}

impl Exceptions {
    /// Reads the list.
    ///
    /// # Errors
    /// A line that is not understood, or lacks a reason.
    pub(crate) fn parse(file: &File) -> Result<Self, String> {
        let mut lines = BTreeMap::new();
        let mut rule = String::new();
        for (number, line) in (1..).zip(file.text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                rule = name.to_owned();
                continue;
            }
            let entry = line
                .split_once('=')
                .map(|(path, reason)| (unquote(path), unquote(reason)));
            match entry {
                Some((Some(path), Some(reason))) if !rule.is_empty() && !reason.is_empty() => {
                    lines.insert((rule.clone(), path.to_owned()), number);
                }
                _ => return Err(format!("{PATH}:{number}: expected \"path\" = \"reason\"")),
            }
        }
        Ok(Self { lines })
    }

    /// Returns whether an entry excuses a path or another key from a rule.
    pub(crate) fn has(&self, rule: &str, key: &str) -> bool {
        self.lines.contains_key(&(rule.to_owned(), key.to_owned()))
    }

    /// The findings that are not excused, and one for each entry that excuses nothing.
    pub(crate) fn apply(mut self, findings: Vec<Finding>) -> Vec<Finding> {
        let all = std::mem::take(&mut self.lines);
        let mut unused = all.clone();
        let mut left = Vec::new();
        for finding in findings {
            let key = (finding.rule.to_owned(), finding.path.clone());
            if all.contains_key(&key) {
                unused.remove(&key);
            } else {
                left.push(finding);
            }
        }
        left.extend(unused.into_iter().map(|((rule, path), line)| Finding {
            path: PATH.to_owned(),
            line,
            rule: "exceptions",
            message: format!("nothing in {path} needs this exception from {rule}"),
        }));
        left
    }
}

/// Reads the list among a repository's files; an empty one where it is missing.
///
/// # Errors
/// See [`Exceptions::parse`].
pub(crate) fn listed(files: &[File]) -> Result<Exceptions, String> {
    let listed = files.iter().find(|file| file.path == PATH);
    let listed = listed.map(Exceptions::parse).transpose()?;
    Ok(listed.unwrap_or_default())
}

fn unquote(text: &str) -> Option<&str> {
    text.trim().strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Exceptions, String> {
        Exceptions::parse(&File {
            path: PATH.to_owned(),
            text: text.to_owned(),
        })
    }

    fn finding(rule: &'static str, path: &str) -> Finding {
        Finding {
            path: path.to_owned(),
            line: 1,
            rule,
            message: String::new(),
        }
    }

    #[test]
    fn an_entry_excuses_one_rule_in_one_file() {
        let listed = parse("# why\n[size]\n\"a.rs\" = \"a table\"\n").unwrap();
        let left = listed.apply(vec![finding("size", "a.rs"), finding("words", "a.rs")]);
        assert_eq!(left, [finding("words", "a.rs")]);
    }

    #[test]
    fn an_entry_that_excuses_nothing_is_a_finding() {
        let left = parse("[size]\n\"a.rs\" = \"a table\"\n")
            .unwrap()
            .apply(Vec::new());
        assert_eq!((left[0].rule, left[0].line), ("exceptions", 2));
    }

    #[test]
    fn an_entry_without_a_reason_is_an_error() {
        for bad in [
            "\"a.rs\" = \"x\"",
            "[size]\n\"a.rs\" = \"\"",
            "[size]\na.rs = x",
            "[size]\n\"a\"",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
