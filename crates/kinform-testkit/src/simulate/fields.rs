//! Changes of an object that its type's schema allows: each field changed, removed, put back.
//!
//! ```text
//! openAPIV3Schema of a definition + an example ─▶ merge patches of `spec`, in pairs: there and back
//! ```
//!
//! A value that the schema does not describe completely (a pattern, a CEL rule) may be refused by
//! the server: such a change is left out when it is performed.

use serde_json::{Map, Value, json};

/// BOUND: the depth of fields that are changed.
const DEPTH: usize = 4;
/// BOUND: the fields of a type that are changed.
const FIELDS: usize = 40;

/// A change, and the one that undoes it: merge patches.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldChange {
    pub(crate) name: String,
    pub(crate) there: Value,
    pub(crate) back: Value,
}

/// The schema of the version of an object, out of its definition.
pub(crate) fn schema_of<'a>(definition: &'a Value, version: &str) -> Option<&'a Value> {
    let versions = definition["spec"]["versions"].as_array()?;
    let of = versions.iter().find(|one| one["name"] == version)?;
    of["schema"]["openAPIV3Schema"]["properties"].get("spec")
}

/// The changes of an object's `spec`.
pub(crate) fn changes(schema: &Value, spec: &Value) -> Vec<FieldChange> {
    let mut all = Vec::new();
    walk(schema, spec, &mut vec!["spec".to_owned()], &mut all);
    all.truncate(FIELDS);
    all
}

fn walk(schema: &Value, now: &Value, path: &mut Vec<String>, all: &mut Vec<FieldChange>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let is_required = |name: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        required.into_iter().any(|one| one == name)
    };
    for (name, schema) in properties {
        path.push(name.clone());
        let there = now.get(name).filter(|value| !value.is_null());
        let patch = |value: Value| nested(path, value);
        let back = there.cloned().unwrap_or(Value::Null);
        let shown = path.join(".");
        if let Some(other) = other(schema, there) {
            let verb = if there.is_some() { "changes" } else { "sets" };
            all.push(FieldChange {
                name: format!("{verb} {shown} to {other}"),
                there: patch(replaced(there, other)),
                back: patch(back.clone()),
            });
        }
        if there.is_some() && !is_required(name) {
            all.push(FieldChange {
                name: format!("removes {shown}"),
                there: patch(Value::Null),
                back: patch(back),
            });
        }
        if let (Some(there), true) = (there, path.len() <= DEPTH) {
            walk(schema, there, path, all);
        }
        path.pop();
    }
}

/// A merge patch that sets the value at a path.
fn nested(path: &[String], value: Value) -> Value {
    path.iter()
        .rev()
        .fold(value, |inner, name| json!({name: inner}))
}

/// The patch of a map must remove what the new value lacks.
fn replaced(there: Option<&Value>, other: Value) -> Value {
    match (there.and_then(Value::as_object), other) {
        (Some(old), Value::Object(new)) => {
            let mut patch: Map<String, Value> =
                old.keys().map(|name| (name.clone(), Value::Null)).collect();
            patch.extend(new);
            Value::Object(patch)
        }
        (_, other) => other,
    }
}

/// A valid value that is not the present one, if the schema tells one.
fn other(schema: &Value, now: Option<&Value>) -> Option<Value> {
    candidates(schema, now)
        .into_iter()
        .find(|one| Some(one) != now)
}

fn candidates(schema: &Value, now: Option<&Value>) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .filter(|one| !one.is_null())
            .cloned()
            .collect();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return vec![json!(3), json!("25%")];
    }
    match schema["type"].as_str() {
        Some("boolean") => vec![json!(true), json!(false)],
        Some("integer") => integers(schema, now),
        Some("number") => vec![json!(1.5), json!(0.5)],
        Some("string") => texts(schema),
        Some("array") => arrays(schema, now),
        Some("object") => objects(schema, now),
        _ => Vec::new(),
    }
}

fn integers(schema: &Value, now: Option<&Value>) -> Vec<Value> {
    let bound = |name: &str| schema[name].as_f64().map(|bound| bound as i64);
    let least = bound("minimum").unwrap_or(0);
    let most = bound("maximum").unwrap_or(i64::from(i32::MAX));
    let now = now.and_then(Value::as_i64).unwrap_or(least);
    [now + 1, now - 1, least, most]
        .into_iter()
        .filter(|one| (least..=most).contains(one))
        .map(Value::from)
        .collect()
}

fn texts(schema: &Value) -> Vec<Value> {
    let all = match schema["format"].as_str() {
        Some("date-time") => ["2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"],
        Some("date") => ["2026-01-02", "2027-01-02"],
        Some("uuid") => [
            "6b7dbd5c-0000-4000-8000-000000000001",
            "6b7dbd5c-0000-4000-8000-000000000002",
        ],
        Some("ipv4" | "ip") => ["10.1.2.3", "10.1.2.4"],
        _ => ["changed", "other"],
    };
    let fits = |text: &&str| {
        let length = text.len() as u64;
        length >= schema["minLength"].as_u64().unwrap_or(0)
            && length <= schema["maxLength"].as_u64().unwrap_or(u64::MAX)
    };
    all.iter()
        .filter(|text| fits(text))
        .map(|text| json!(text))
        .collect()
}

fn arrays(schema: &Value, now: Option<&Value>) -> Vec<Value> {
    let items = now.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut all = Vec::new();
    let used = items.last();
    if let Some(more) = other(&schema["items"], used).or_else(|| used.cloned()) {
        let mut longer = items.clone();
        longer.push(more);
        all.push(longer);
    }
    if let Some((_, shorter)) = items.split_last() {
        all.push(shorter.to_vec());
    }
    let least = schema["minItems"].as_u64().unwrap_or(0);
    let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
    all.into_iter()
        .filter(|items| (least..=most).contains(&(items.len() as u64)))
        .map(Value::from)
        .collect()
}

/// A map with one more member; an object with all that it must have.
fn objects(schema: &Value, now: Option<&Value>) -> Vec<Value> {
    if schema["additionalProperties"].is_object() {
        let value = other(&schema["additionalProperties"], None).unwrap_or_else(|| json!("x"));
        let mut members = now.and_then(Value::as_object).cloned().unwrap_or_default();
        members.insert("simulated".to_owned(), value);
        return vec![Value::Object(members)];
    }
    // The fields of an object that is there are changed one by one.
    if now.is_some() || !schema["properties"].is_object() {
        return Vec::new();
    }
    let mut members = Map::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        let Some(name) = name.as_str() else {
            continue;
        };
        match other(&schema["properties"][name], None) {
            Some(value) => drop(members.insert(name.to_owned(), value)),
            None => return Vec::new(),
        }
    }
    vec![Value::Object(members)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_changed_removed_and_put_back() {
        let schema = json!({"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 3},
            "mode": {"type": "string", "enum": ["A", "B"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "odd": {"type": "string", "pattern": "^[a-z]+$"},
            "inner": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        }});
        let spec = json!({"size": 3, "mode": "A", "inner": {"on": true}, "labels": {"a": "b"}});
        let all = changes(&schema, &spec);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "removes spec.inner",
                "changes spec.inner.on to false",
                "removes spec.inner.on",
                r#"changes spec.labels to {"a":"b","simulated":"changed"}"#,
                "removes spec.labels",
                r#"changes spec.mode to "B""#,
                "removes spec.mode",
                r#"sets spec.odd to "changed""#,
                "changes spec.size to 2",
                r#"sets spec.tags to ["changed"]"#,
            ]
        );
        assert_eq!(all[1].there, json!({"spec": {"inner": {"on": false}}}));
        assert_eq!(all[1].back, json!({"spec": {"inner": {"on": true}}}));
        assert_eq!(all[9].back, json!({"spec": {"tags": null}}));
    }

    #[test]
    fn a_map_that_is_replaced_loses_its_other_members() {
        let old = json!({"a": 1, "b": 2});
        assert_eq!(
            replaced(Some(&old), json!({"b": 3})),
            json!({"a": null, "b": 3})
        );
    }

    #[test]
    fn the_schema_is_of_the_version_that_is_asked_for() {
        let definition = json!({"spec": {"versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": {"type": "object"}}}}},
            {"name": "v2"}]}});
        assert!(schema_of(&definition, "v1").is_some());
        assert!(schema_of(&definition, "v2").is_none());
    }
}
