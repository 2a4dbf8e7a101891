//! Regular expressions of schemas, compiled once.
//!
//! ```text
//! schema -> Patterns { pattern -> program }          pattern -> program | error in Go's words
//! ```
//!
//! BOUND: a pattern's program has at most 2 MiB and runs in linear time. After a few larger ones,
//! the next patterns of a definition are not compiled.
//!
//! Upstream: `regexp`, as `kube-openapi:pkg/validation` uses it.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

const MAX_PATTERN: usize = 2 << 20;
/// The error message for a pattern whose compiled program would be larger.
pub(crate) const TOO_LARGE: &str = "exceeds size limit";

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
                        .or_insert_with(|| compile(pattern).ok());
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

/// Compiles a pattern, or returns the error in Go's words.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(&pattern.replace(r"\Z", r"\z"));
    builder.size_limit(MAX_PATTERN).build().map_err(|error| {
        let text = error.to_string();
        let what = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        let what = match what {
            "unclosed group" => format!("missing closing ): `{pattern}`"),
            "unopened group" => format!("unexpected ): `{pattern}`"),
            "unclosed character class" => format!("missing closing ]: `{pattern}`"),
            "repetition operator missing expression" => {
                format!("missing argument to repetition operator: `{pattern}`")
            }
            other => format!("{other}: `{pattern}`"),
        };
        format!("error parsing regexp: {what}")
    })
}
