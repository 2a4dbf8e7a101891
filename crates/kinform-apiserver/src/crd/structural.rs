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

/// Removes what the schema does not name; its paths are added to `unknown`.
pub(crate) fn prune(schema: &Value, object: &mut Value, unknown: &mut Vec<String>) {
    if keeps_unknown(schema) && schema.get("properties").is_none() {
        return;
    }
    prune_value(schema, object, "", unknown);
}

fn prune_value(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(entries) => {
            let is_resource = path.is_empty() || flag(schema, "x-kubernetes-embedded-resource");
            let keeps = keeps_unknown(schema);
            let properties = schema.get("properties");
            let others = schema.get("additionalProperties");
            entries.retain(|name, value| {
                let inner = join(path, name);
                if is_resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let of = properties
                    .and_then(|properties| properties.get(name))
                    .or(others);
                match of {
                    Some(Value::Bool(true)) => return true,
                    Some(of) if of.is_object() => {
                        prune_value(of, value, &inner, unknown);
                        return true;
                    }
                    _ if keeps => return true,
                    _ => {}
                }
                unknown.push(inner);
                false
            });
        }
        Value::Array(items) => {
            let Some(of) = schema.get("items").filter(|items| items.is_object()) else {
                return;
            };
            for (at, item) in items.iter_mut().enumerate() {
                prune_value(of, item, &format!("{path}[{at}]"), unknown);
            }
        }
        _ => {}
    }
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

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
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
}
