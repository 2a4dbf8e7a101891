//! The difference of two versions of an object.
//!
//! ```text
//! JSON before, JSON after ─▶ Change { path, before, after } ...
//! ```
//!
//! The version itself and `managedFields` are left out. Elements of lists are compared by their place.
//! BOUND: 100 changes, 200 characters of a value. Recursion is as deep as the objects, which were
//! parsed with a limit.
//!
//! Upstream counterpart: none.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secret::{self, HIDDEN};

/// BOUND: changes of one difference.
const CHANGES: usize = 100;
/// BOUND: characters of a value.
const CHARACTERS: usize = 200;

/// A field that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Change {
    /// The path, as `spec.containers[0].image`.
    pub path: String,
    /// The value before, as JSON, cut if it is long; `null` if the field was not there.
    pub before: Option<String>,
    /// The value after, as JSON, cut if it is long; `null` if the field is gone.
    pub after: Option<String>,
}

/// Values of this kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Shown,
    /// Those of a Secret.
    Hidden,
}

/// The fields that differ, in order.
pub(super) fn between(before: &Value, after: &Value, values: Values) -> Vec<Change> {
    let mut found = Found {
        steps: Vec::new(),
        changes: Vec::new(),
        values,
    };
    found.compare(Some(before), Some(after));
    found.changes
}

enum Step<'a> {
    Field(&'a str),
    Element(usize),
}

struct Found<'a> {
    steps: Vec<Step<'a>>,
    changes: Vec<Change>,
    values: Values,
}

impl<'a> Found<'a> {
    fn compare(&mut self, before: Option<&'a Value>, after: Option<&'a Value>) {
        if before == after || self.changes.len() >= CHANGES || self.is_left_out() {
            return;
        }
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                let mut names: Vec<&str> =
                    before.keys().chain(after.keys()).map(|n| &**n).collect();
                names.sort_unstable();
                names.dedup();
                for name in names {
                    self.steps.push(Step::Field(name));
                    self.compare(before.get(name), after.get(name));
                    self.steps.pop();
                }
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                for place in 0..before.len().max(after.len()) {
                    self.steps.push(Step::Element(place));
                    self.compare(before.get(place), after.get(place));
                    self.steps.pop();
                }
            }
            _ => {
                let change = Change {
                    path: self.path(),
                    before: before.map(|value| self.text(value)),
                    after: after.map(|value| self.text(value)),
                };
                self.changes.push(change);
            }
        }
    }

    fn is_left_out(&self) -> bool {
        matches!(
            self.steps[..],
            [
                Step::Field("metadata"),
                Step::Field("resourceVersion" | "managedFields")
            ]
        )
    }

    fn text(&self, value: &Value) -> String {
        let fields: Vec<&str> = self.steps.iter().map(Step::name).collect();
        if self.values == Values::Hidden && !secret::shows(&fields) {
            return HIDDEN.to_owned();
        }
        let text = value.to_string();
        match text.char_indices().nth(CHARACTERS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for step in &self.steps {
            match step {
                Step::Element(place) => path.push_str(&format!("[{place}]")),
                Step::Field(name) => {
                    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                    match (is_plain, path.is_empty()) {
                        (true, true) => path.push_str(name),
                        (true, false) => path.push_str(&format!(".{name}")),
                        (false, _) => path.push_str(&format!("[{}]", Value::from(*name))),
                    }
                }
            }
        }
        path
    }
}

impl Step<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Field(name) => name,
            Self::Element(_) => "[]",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value, values: Values) -> Vec<String> {
        let changes = between(before, after, values).into_iter();
        let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        changes
            .map(|c| format!("{} {} → {}", c.path, text(c.before), text(c.after)))
            .collect()
    }

    #[test]
    fn fields_that_differ_are_told_with_their_paths() {
        let before = json!({"metadata": {"resourceVersion": "1", "labels": {"a.b/c": "x"}},
            "spec": {"replicas": 1, "list": [1, {"image": "i"}]}});
        let after = json!({"metadata": {"resourceVersion": "2", "labels": {"a.b/c": "y"}},
            "spec": {"replicas": 2, "list": [1, {"image": "j"}, true]}, "status": {}});
        let expected = [
            "metadata.labels[\"a.b/c\"] \"x\" → \"y\"",
            "spec.list[1].image \"i\" → \"j\"",
            "spec.list[2] - → true",
            "spec.replicas 1 → 2",
            "status - → {}",
        ];
        assert_eq!(told(&before, &after, Values::Shown), expected);
        assert!(told(&after, &after, Values::Shown).is_empty());
    }

    #[test]
    fn a_secrets_values_differ_without_being_shown() {
        let before = json!({"data": {"k": "canary1"}, "type": "a"});
        let after = json!({"data": {"k": "canary2", "l": "canary3"}, "type": "b"});
        let expected = [
            "data.k (hidden) → (hidden)",
            "data.l - → (hidden)",
            "type \"a\" → \"b\"",
        ];
        assert_eq!(told(&before, &after, Values::Hidden), expected);
        // A whole field that comes or goes is a value, too.
        let none = json!({});
        let all = told(
            &none,
            &json!({"metadata": {"annotations": {"a": "canary"}}}),
            Values::Hidden,
        );
        assert_eq!(all, ["metadata - → (hidden)"]);
    }

    #[test]
    fn long_values_are_cut_and_many_changes_end() {
        let long = json!({"a": "ä".repeat(1000)});
        let change = &between(&json!({}), &long, Values::Shown)[0];
        assert_eq!(
            change.after.as_ref().unwrap().chars().count(),
            CHARACTERS + 1
        );
        let many: serde_json::Map<_, _> = (0..500).map(|n| (n.to_string(), n.into())).collect();
        let found = between(&json!({}), &Value::Object(many), Values::Shown);
        assert_eq!(found.len(), CHANGES);
    }
}
