//! The differences between two versions of an object, field by field.
//!
//! ```text
//! old JSON, new JSON → [Field { path, before, after }]
//! ```
//!
//! Noise is left out (resourceVersion, managedFields, generation counters). A Secret's values are
//! shown as digests under a key that is new in every process: enough to see that a value changed,
//! but of no use for guessing it.

use std::hash::{BuildHasher as _, RandomState};

use serde_json::Value;

use crate::terminal::visible;

/// BOUND: fields shown of a change; a larger change is shortened.
const MAX_FIELDS: usize = 200;
/// BOUND: longer values are cut.
const MAX_VALUE: usize = 120;

/// One changed field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// As `spec.containers[0].image`.
    pub(crate) path: String,
    /// `None` if the field is new.
    pub(crate) before: Option<String>,
    /// `None` if the field is gone.
    pub(crate) after: Option<String>,
}

/// Compares objects; one for a whole run, so that digests can be compared.
#[derive(Debug, Default)]
pub(crate) struct Differ {
    key: RandomState,
}

impl Differ {
    /// The fields that differ, in the order of their paths.
    pub(crate) fn fields(&self, kind: &str, before: &Value, after: &Value) -> Vec<Field> {
        let mut fields = Vec::new();
        let (before, after) = if kind == "Secret" {
            (self.masked(before), self.masked(after))
        } else {
            (before.clone(), after.clone())
        };
        compare(&mut String::new(), Some(&before), Some(&after), &mut fields);
        fields
    }

    /// A secret without its values, also where kubectl apply repeated them.
    fn masked(&self, secret: &Value) -> Value {
        let mut masked = secret.clone();
        for part in ["data", "stringData"] {
            let Some(values) = masked.get_mut(part).and_then(Value::as_object_mut) else {
                continue;
            };
            for value in values.values_mut() {
                *value = self.digest(value);
            }
        }
        let applied = masked
            .pointer_mut("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration");
        if let Some(applied) = applied {
            *applied = self.digest(applied);
        }
        masked
    }

    fn digest(&self, value: &Value) -> Value {
        Value::String(format!(
            "digest:{:016x}",
            self.key.hash_one(value.to_string())
        ))
    }
}

/// Fields whose change is of no interest.
fn is_noise(path: &str) -> bool {
    matches!(
        path,
        "metadata.resourceVersion"
            | "metadata.managedFields"
            | "metadata.generation"
            | "status.observedGeneration"
    )
}

fn compare(
    path: &mut String,
    before: Option<&Value>,
    after: Option<&Value>,
    fields: &mut Vec<Field>,
) {
    if before == after || is_noise(path) || fields.len() >= MAX_FIELDS {
        return;
    }
    let depth = path.len();
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                push_name(path, name);
                compare(path, a.get(name), b.get(name), fields);
                path.truncate(depth);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                path.push_str(&format!("[{index}]"));
                compare(path, a.get(index), b.get(index), fields);
                path.truncate(depth);
            }
        }
        _ => fields.push(Field {
            path: visible(path).into_owned(),
            before: before.map(short),
            after: after.map(short),
        }),
    }
}

fn push_name(path: &mut String, name: &str) {
    if name.contains(['.', '/', '[']) {
        path.push_str(&format!("[{name:?}]"));
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => visible(text).into_owned(),
        other => visible(&other.to_string()).into_owned(),
    };
    match text.char_indices().nth(MAX_VALUE) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(before: Value, after: Value, expected: &[&str]) {
        let shown: Vec<String> = Differ::default()
            .fields("Deployment", &before, &after)
            .into_iter()
            .map(|f| {
                let side = |s: Option<String>| s.unwrap_or_else(|| "-".to_owned());
                format!("{} {} {}", f.path, side(f.before), side(f.after))
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn fields_are_named_by_path() {
        check(
            json!({"metadata": {"resourceVersion": "1", "labels": {"a.b/c": "x"}}, "spec": {"replicas": 3, "c": [{"image": "a"}]}}),
            json!({"metadata": {"resourceVersion": "2", "labels": {"a.b/c": "y"}}, "spec": {"replicas": 2, "c": [{"image": "b"}, 7]}, "new": true}),
            &[
                "metadata.labels[\"a.b/c\"] x y",
                "new - true",
                "spec.c[0].image a b",
                "spec.c[1] - 7",
                "spec.replicas 3 2",
            ],
        );
        check(json!({"a": 1}), json!({"a": 1}), &[]);
    }

    #[test]
    fn a_secrets_values_are_never_shown() {
        let differ = Differ::default();
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        let before = json!({"metadata": {"annotations": {applied: "{\"password\":\"hunter2\"}"}}, "data": {"password": "aHVudGVyMg=="}});
        let after = json!({"metadata": {"annotations": {applied: "{\"password\":\"hunter3\"}"}}, "data": {"password": "aHVudGVyMw=="}});
        let shown = format!("{:?}", differ.fields("Secret", &before, &after));
        assert!(
            !shown.contains("hunter") && !shown.contains("aHVu"),
            "{shown}"
        );
        assert_eq!(differ.fields("Secret", &before, &after).len(), 2);
        assert_eq!(differ.fields("Secret", &before, &before), []);
    }

    #[test]
    fn a_huge_change_is_cut() {
        let many: Value = (0..1_000)
            .map(|n| (format!("k{n}"), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        assert_eq!(
            Differ::default().fields("X", &json!({}), &many).len(),
            MAX_FIELDS
        );
    }
}
