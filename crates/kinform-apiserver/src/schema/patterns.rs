//! Regular expressions of schemas, compiled once.
//!
//! ```text
//! schema -> Patterns { pattern -> program, or the reason why it has none }
//! ```
//!
//! BOUND: a pattern's program has at most 2 MiB and runs in linear time; those of one schema have
//! some 64 MiB together.
//!
//! Upstream: `regexp`, as `kube-openapi:pkg/validation` uses it.

use std::collections::HashMap;

use regex_automata::meta::Regex;
use serde_json::Value;

use super::go_regex;

/// BOUND: the size of all programs of a schema. The last one may exceed it.
const MOST: usize = 64 << 20;

/// The patterns of a schema.
#[derive(Debug)]
pub(crate) struct Patterns {
    compiled: HashMap<String, Result<Regex, String>>,
    /// The bytes that further programs may have.
    room: usize,
}

impl Default for Patterns {
    fn default() -> Self {
        Self::within(MOST)
    }
}

impl Patterns {
    fn within(room: usize) -> Self {
        Self {
            compiled: HashMap::new(),
            room,
        }
    }

    /// Compiles a pattern unless it is known.
    ///
    /// # Errors
    /// The error of the pattern in Go's words; further programs would be too large together.
    pub(crate) fn add(&mut self, pattern: &str) -> Result<(), String> {
        if let Some(known) = self.compiled.get(pattern) {
            return known.as_ref().map(drop).map_err(Clone::clone);
        }
        let made = match self.room {
            0 => Err(go_regex::too_large(pattern)),
            _ => go_regex::compile(pattern),
        };
        let taken = match &made {
            Ok(program) => program.memory_usage(),
            // It was compiled up to its bound.
            Err(why) if why.contains(go_regex::TOO_LARGE) => go_regex::MAX_PROGRAM,
            Err(_) => 0,
        };
        self.room = self.room.saturating_sub(taken);
        let done = made.as_ref().map(drop).map_err(Clone::clone);
        self.compiled.insert(pattern.to_owned(), made);
        done
    }

    pub(crate) fn collect(&mut self, schema: &Value) {
        match schema {
            Value::Object(members) => {
                if let Some(Value::String(pattern)) = members.get("pattern") {
                    // A definition with a pattern that does not compile was refused.
                    let _ = self.add(pattern);
                }
                members.values().for_each(|member| self.collect(member));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    /// Returns whether a text matches a pattern. An invalid pattern matches no text.
    pub(crate) fn fits(&self, pattern: &str, text: &str) -> bool {
        let program = self.compiled.get(pattern);
        program.is_some_and(|program| program.as_ref().is_ok_and(|it| it.is_match(text)))
    }
}

/// Returns whether a schema may have patterns or rules. They may cost much more than the size of an
/// object that is checked by them.
pub(crate) fn is_costly(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            ["pattern", "x-kubernetes-validations"]
                .iter()
                .any(|name| members.contains_key(*name))
                || members.values().any(is_costly)
        }
        Value::Array(items) => items.iter().any(is_costly),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_programs_of_a_schema_are_bounded_together() {
        let (one, two, three) = ("[ab]+x", "[cd]+x", "[ef]+x");
        let size = go_regex::compile(one).unwrap().memory_usage();
        let mut patterns = Patterns::within(size + 1);
        for pattern in ["(", one, two, one] {
            let refused = patterns.add(pattern).err();
            assert_eq!(refused.is_some(), pattern == "(", "{pattern}");
        }
        assert!(patterns.fits(one, "ax") && patterns.fits(two, "cx"));
        let refused = patterns.add(three).unwrap_err();
        assert!(refused.contains(go_regex::TOO_LARGE), "{refused}");
        assert!(!patterns.fits(three, "ex") && patterns.add(two).is_ok());
        let mut patterns = Patterns::within(go_regex::MAX_PROGRAM);
        assert!(patterns.add(r"(?:\pL{500}){2}").is_err());
        assert!(patterns.add("a").is_err(), "compiling it took as long");
    }

    #[test]
    fn schemas_with_patterns_or_rules_are_costly() {
        let inner = |schema: Value| json!({"properties": {"a": {"allOf": [schema]}}});
        assert!(is_costly(&inner(json!({"pattern": "a"}))));
        assert!(is_costly(&inner(json!({"x-kubernetes-validations": []}))));
        assert!(!is_costly(&inner(json!({"type": "string"}))));
    }
}
