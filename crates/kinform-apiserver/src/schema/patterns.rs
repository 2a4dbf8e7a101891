//! Regular expressions of schemas, compiled once.
//!
//! ```text
//! schema -> Patterns { pattern -> program }
//! ```
//!
//! BOUND: a pattern's program has at most 2 MiB and runs in linear time. After a few larger ones,
//! the next patterns of a definition are not compiled.
//!
//! Upstream: `regexp`, as `kube-openapi:pkg/validation` uses it.

use std::collections::HashMap;

use regex_automata::meta::Regex;
use serde_json::Value;

use super::go_regex;

/// The patterns of a schema.
#[derive(Debug, Default)]
pub(crate) struct Patterns(HashMap<String, Option<Regex>>);

impl Patterns {
    pub(crate) fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(pattern)) = members.get("pattern") {
                    self.0
                        .entry(pattern.clone())
                        .or_insert_with(|| go_regex::compile(pattern).ok());
                }
                members.values().for_each(|member| self.collect(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    /// Returns whether a text matches a pattern. An invalid pattern matches no text.
    pub(crate) fn fits(&self, pattern: &str, text: &str) -> bool {
        self.0
            .get(pattern)
            .and_then(Option::as_ref)
            .is_some_and(|pattern| pattern.is_match(text))
    }
}
