//! Conditions of rules in data files.
//!
//! ```text
//! "spec.type=NodePort and !spec.ports" -> [Condition]      Condition + value -> does it hold?
//! ```
//!
//! `MEMBER` is present, `!MEMBER` is absent, `MEMBER=A|B` is one of these texts, `MEMBER!=A|B` is
//! not one of them. Dots join the members of a path.

use serde_json::Value;

use crate::object::metadata::is_unset;

/// Condition on a value under which a rule applies.
#[derive(Debug)]
pub(super) struct Condition {
    path: Vec<String>,
    wanted: Wanted,
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    There,
    Absent,
    OneOf(Vec<String>),
    NoneOf(Vec<String>),
}

impl Condition {
    /// Parses conditions that are joined by ` and `.
    pub(super) fn read_all(text: &str) -> Vec<Self> {
        let parts = text.split(" and ").map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(Self::read)
            .collect()
    }

    fn read(text: &str) -> Self {
        let texts = |list: &str| list.split('|').map(str::to_owned).collect();
        let (member, wanted) = if let Some((member, others)) = text.split_once("!=") {
            (member, Wanted::NoneOf(texts(others)))
        } else if let Some((member, wanted)) = text.split_once('=') {
            (member, Wanted::OneOf(texts(wanted)))
        } else if let Some(member) = text.strip_prefix('!') {
            (member, Wanted::Absent)
        } else {
            (text, Wanted::There)
        };
        Self {
            path: member.split('.').map(str::to_owned).collect(),
            wanted,
        }
    }

    pub(super) fn holds(&self, value: &Value) -> bool {
        let mut steps = self.path.iter();
        let found = steps.try_fold(value, |value, name| value.get(name));
        let is_there = found.is_some_and(|found| !is_unset(found));
        let text = match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(_) | Value::Number(_)) => {
                found.map(Value::to_string).unwrap_or_default()
            }
            _ => String::new(),
        };
        match &self.wanted {
            Wanted::There => is_there,
            Wanted::Absent => !is_there,
            Wanted::OneOf(texts) => texts.contains(&text),
            Wanted::NoneOf(texts) => !texts.contains(&text),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_hold_or_do_not() {
        let value = json!({"a": {"b": "x", "n": 1, "t": true}, "e": [], "s": ""});
        for (text, expected) in [
            ("a.b", true),
            ("a.c", false),
            ("!e and !s and !z", true),
            ("a.b=x|y", true),
            ("a.b=y", false),
            ("a.b!=y|z", true),
            ("a.b!=x", false),
            ("a.n=1 and a.t=true", true),
            ("", true),
        ] {
            let all = Condition::read_all(text);
            assert_eq!(
                all.iter().all(|condition| condition.holds(&value)),
                expected,
                "{text}"
            );
        }
    }
}
