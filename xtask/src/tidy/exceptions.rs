//! The exceptions of `tidy.toml`: findings that are right on purpose, each with its reason.
//!
//! ```text
//! [size]
//! "crates/x/src/table.rs" = "one table, and a cut would hide its order"
//! ```
//!
//! A section is a rule, a line a file or another key of the rule. An unused entry is a finding of
//! its own, so the list stays short.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::ceilings;
use super::finding::Finding;
use crate::text::settings::{Entry, PATH, Value};

type Key = (String, String);

/// Excused pairs of rule and path, with the line of each.
#[derive(Debug, Default)]
pub(crate) struct Exceptions {
    lines: BTreeMap<Key, usize>,
    used: RefCell<BTreeSet<Key>>,
}

impl Exceptions {
    /// Takes the exceptions from the entries of `tidy.toml`.
    ///
    /// # Errors
    /// An exception without a reason.
    pub(crate) fn new(entries: &[Entry<'_>]) -> Result<Self, String> {
        let mut lines = BTreeMap::new();
        for entry in entries
            .iter()
            .filter(|entry| entry.section != ceilings::SECTION)
        {
            let Value::Text(_) = entry.value else {
                return Err(format!("{PATH}:{}: an exception has a reason", entry.line));
            };
            let key = (entry.section.to_owned(), entry.key.to_owned());
            lines.insert(key, entry.line);
        }
        Ok(Self {
            lines,
            used: RefCell::default(),
        })
    }

    /// Returns whether an entry excuses a path, or another key, from a rule.
    pub(crate) fn has(&self, rule: &str, path: &str) -> bool {
        let key = (rule.to_owned(), path.to_owned());
        let has = self.lines.contains_key(&key);
        if has {
            self.used.borrow_mut().insert(key);
        }
        has
    }

    /// A finding for each unused entry.
    pub(crate) fn unused(self) -> Vec<Finding> {
        let used = self.used.into_inner();
        let unused = self
            .lines
            .into_iter()
            .filter(|(key, _)| !used.contains(key));
        unused
            .map(|((rule, path), line)| Finding {
                path: PATH.to_owned(),
                line,
                rule: "exceptions",
                message: format!("nothing in {path} needs this exception from {rule}"),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::settings::parse;

    fn listed(text: &str) -> Result<Exceptions, String> {
        Exceptions::new(&parse(text).unwrap())
    }

    #[test]
    fn an_entry_excuses_one_rule_in_one_file() {
        let listed = listed("[size]\n\"a.rs\" = \"a table\"\n").unwrap();
        assert!(listed.has("size", "a.rs"));
        assert!(!listed.has("words", "a.rs"));
        assert!(!listed.has("size", "b.rs"));
        assert_eq!(listed.unused(), []);
    }

    #[test]
    fn an_entry_that_excuses_nothing_is_a_finding() {
        let left = listed("[size]\n\"a.rs\" = \"a table\"\n").unwrap().unused();
        assert_eq!((left[0].rule, left[0].line), ("exceptions", 2));
    }

    #[test]
    fn a_number_is_no_reason_and_a_ceiling_no_exception() {
        assert!(listed("[size]\n\"a.rs\" = 3\n").is_err());
        assert_eq!(listed("[ceilings]\n\"a\" = 3\n").unwrap().unused(), []);
    }
}
