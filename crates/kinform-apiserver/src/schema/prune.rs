//! Pruning by a structural schema: removes the fields that the schema does not declare.
//!
//! ```text
//! schema + object -> object without unknown fields, and their paths
//! ```
//!
//! `metadata` of the root is not pruned here, because it is read as a built-in's. Fields below
//! `x-kubernetes-preserve-unknown-fields` are kept, except within declared properties, which are
//! pruned again.
//!
//! BOUND: the recursion is as deep as the object, whose depth the parser limits.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/schema/pruning`.

use serde_json::Value;

use super::{Whole, flag, join};
use crate::object::strict::tell;

/// Removes fields that the schema does not declare, and adds their paths to `unknown`, sorted.
pub(crate) fn prune(schema: &Value, object: &mut Value, unknown: &mut Vec<String>) {
    let mut found = Vec::new();
    prune_value(Some(schema), object, "", Whole::Yes, &mut found);
    found.sort();
    tell(unknown, found);
}

/// Prunes a part of an object.
pub(crate) fn prune_part(schema: &Value, part: &mut Value) {
    prune_value(Some(schema), part, "", Whole::No, &mut Vec::new());
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
                    // Any value is allowed here, but its members are not declared.
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

fn keeps_unknown(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-preserve-unknown-fields")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::defaults::default;
    use super::*;
    use crate::budget::Meter;
    use crate::object::strict::PATH;

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
        default(&schema, &mut object, &Meter::of_object());
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
