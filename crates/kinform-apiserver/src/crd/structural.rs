//! Pruning and defaulting by a structural schema.
//!
//! ```text
//! schema + object -> object without what the schema does not name, with its defaults
//! ```
//!
//! `metadata` of the root is not touched here: it is read as a built-in's. What stands below
//! `x-kubernetes-preserve-unknown-fields` is kept, but for named properties, which are pruned again.
//!
//! BOUND: recursion goes with the object, whose depth the parser limits.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/schema/{pruning,defaulting}`.

use serde_json::Value;

use crate::object::strict::{PATH, beginning, tell};

/// Removes what the schema does not name; its paths are added to `unknown`, sorted.
pub(crate) fn prune(schema: &Value, object: &mut Value, unknown: &mut Vec<String>) {
    let mut found = Vec::new();
    prune_value(Some(schema), object, "", Whole::Yes, &mut found);
    found.sort();
    tell(unknown, found);
}

/// The same for a part of an object.
pub(super) fn prune_part(schema: &Value, part: &mut Value) {
    prune_value(Some(schema), part, "", Whole::No, &mut Vec::new());
}

/// Whether a value is an object with a kind and metadata of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

fn prune_value(
    schema: Option<&Value>,
    value: &mut Value,
    path: &str,
    whole: Whole,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(entries) => {
            let keeps = schema.is_some_and(keeps_unknown);
            let is_whole = whole == Whole::Yes
                || schema.is_some_and(|of| flag(of, "x-kubernetes-embedded-resource"));
            let properties = schema.and_then(|of| of.get("properties"));
            let others = schema.and_then(|of| of.get("additionalProperties"));
            entries.retain(|name, value| {
                let inner = join(path, name);
                if is_whole && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let of = properties.and_then(|properties| properties.get(name));
                match of.or(others) {
                    Some(of) if of.is_object() => {
                        prune_value(Some(of), value, &inner, Whole::No, unknown);
                        true
                    }
                    _ if keeps => true,
                    // Any value may stand here, but nothing is known of its members.
                    Some(Value::Bool(_)) => {
                        prune_value(None, value, &inner, Whole::No, unknown);
                        true
                    }
                    _ => {
                        tell(unknown, [inner]);
                        false
                    }
                }
            });
        }
        Value::Array(items) => {
            let of = schema.and_then(|of| of.get("items"));
            if of.is_none() && schema.is_some_and(keeps_unknown) {
                return;
            }
            for (at, item) in items.iter_mut().enumerate() {
                prune_value(of, item, &format!("{path}[{at}]"), Whole::No, unknown);
            }
        }
        _ => {}
    }
}

/// Removes nulls where null is not allowed and nothing else would stand.
pub(super) fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(entries) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema
                .get("additionalProperties")
                .filter(|of| of.is_object());
            entries.retain(|name, value| {
                let Some(of) = properties.and_then(|of| of.get(name)).or(others) else {
                    return true;
                };
                let is_kept = !value.is_null() || flag(of, "nullable") || has_default(of);
                if is_kept {
                    drop_nulls(of, value);
                }
                is_kept
            });
        }
        Value::Array(items) => {
            if let Some(of) = schema.get("items").filter(|items| items.is_object()) {
                items.iter_mut().for_each(|item| drop_nulls(of, item));
            }
        }
        _ => {}
    }
}

fn has_default(schema: &Value) -> bool {
    schema
        .get("default")
        .is_some_and(|default| !default.is_null())
}

/// Sets what the schema has a default for. A null where null is not allowed counts as absent.
pub(crate) fn default(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(entries) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, of) in properties.into_iter().flatten() {
                let is_unset = match entries.get(name) {
                    None => true,
                    Some(Value::Null) => !flag(of, "nullable") && of.get("default").is_some(),
                    Some(_) => false,
                };
                if let (true, Some(default)) = (is_unset, of.get("default")) {
                    entries.insert(name.clone(), default.clone());
                }
            }
            let others = schema
                .get("additionalProperties")
                .filter(|of| of.is_object());
            for (name, value) in entries.iter_mut() {
                if let Some(of) = properties.and_then(|of| of.get(name)).or(others) {
                    default(of, value);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = schema.get("items").filter(|items| items.is_object()) else {
                return;
            };
            items.iter_mut().for_each(|item| default(of, item));
        }
        _ => {}
    }
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

fn keeps_unknown(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

/// The path of a member. What is too long is told by its beginning: each member of an object is given
/// one, and a single name may be as long as a body.
pub(super) fn join(path: &str, name: &str) -> String {
    let name = beginning(name, PATH);
    if path.is_empty() {
        name.to_owned()
    } else if path.len() > PATH {
        path.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "string"},
            "replicas": {"type": "integer", "default": 1},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "ports": {"type": "array", "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "name": {"type": "string", "default": "p"}}}},
        }}}});
        let mut object = json!({"metadata": {"name": "x"}, "other": 1, "spec": {
            "size": "small", "nope": 1, "replicas": null, "labels": {"a": "b"},
            "extra": {"any": [1, null]}, "ports": [{"port": 1, "x": 2}]}});
        let mut unknown = Vec::new();
        prune(&schema, &mut object, &mut unknown);
        default(&schema, &mut object);
        assert_eq!(unknown, ["other", "spec.nope", "spec.ports[0].x"]);
        let expected = json!({"metadata": {"name": "x"}, "spec": {"size": "small", "replicas": 1,
            "labels": {"a": "b"}, "extra": {"any": [1, null]}, "ports": [{"port": 1, "name": "p"}]}});
        assert_eq!(object, expected);
    }

    #[test]
    fn what_is_told_of_many_unknown_fields_is_bounded() {
        let schema = json!({"type": "object", "additionalProperties": {"type": "object",
            "additionalProperties": {"type": "object", "properties": {}}}});
        let many: Value = (0..1000)
            .map(|at| (format!("f{at:04}"), json!(1)))
            .collect();
        let (first, second) = ("a".repeat(5000), "b".repeat(5000));
        let mut object = json!({first: {second: many}});
        let mut unknown = Vec::new();
        prune(&schema, &mut object, &mut unknown);
        assert_eq!(unknown.len(), 100);
        assert!(unknown.iter().all(|path| path.len() <= PATH));
        assert_eq!(join(&"p".repeat(PATH + 1), "name").len(), PATH + 1);
        let deep = join(&join("", &"a".repeat(5000)), &"b".repeat(5000));
        assert_eq!(deep.len(), 2 * PATH + 1);
    }
}
