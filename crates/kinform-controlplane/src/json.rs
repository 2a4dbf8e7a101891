//! Reads and writes of single members of JSON objects.
//!
//! ```text
//! (object, "/spec/replicas") → number | text | member        (object, path, value) → changed object
//! ```
//!
//! Controllers send back whole objects. As JSON, an object keeps the fields that this crate does not
//! know; a type would drop them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// The whole number at a JSON pointer; 0 if it is absent.
pub(crate) fn int(object: &Value, pointer: &str) -> i64 {
    maybe_int(object, pointer).unwrap_or(0)
}

/// The whole number at a JSON pointer.
pub(crate) fn maybe_int(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The text at a JSON pointer; empty if it is absent.
pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The UID of an object.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Returns whether the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// The time at a JSON pointer.
pub(crate) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// The labels or annotations at a JSON pointer.
pub(crate) fn texts(object: &Value, pointer: &str) -> BTreeMap<String, String> {
    let members = object.pointer(pointer).and_then(Value::as_object);
    members
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The annotation of an object.
pub(crate) fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// Sets the annotation of an object. Returns whether it was another.
pub(crate) fn annotate(object: &mut Value, key: &str, value: &str) -> bool {
    if annotation(object, key) == Some(value) {
        return false;
    }
    set(object, &["metadata", "annotations", key], value.into());
    true
}

/// Sets the member at a path, and makes the objects on the way to it.
pub(crate) fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut at = object;
    for parent in parents {
        at = members(at)
            .entry(*parent)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    members(at).insert((*last).to_owned(), value);
}

/// Removes the member at a path.
pub(crate) fn remove(object: &mut Value, path: &[&str]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut at = object;
    for parent in parents {
        match at.get_mut(*parent) {
            Some(next) => at = next,
            None => return,
        }
    }
    if let Some(members) = at.as_object_mut() {
        members.remove(*last);
    }
}

/// The members of an object; what is not an object becomes an empty one.
fn members(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value
        .as_object_mut()
        .expect("it was made an object if it was none")
}

/// Adds a whole number, unless it is 0: absent is how 0 is stored.
pub(crate) fn add_count(status: &mut Value, field: &str, count: i64) {
    if count != 0 {
        set(status, &[field], count.into());
    }
}

/// The JSON of a value in one form only: members in the order of their names, no white space.
pub(crate) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let sorted: BTreeMap<_, _> = members.iter().collect();
            let members: Vec<String> = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn setting_a_member_makes_the_objects_on_the_way() {
        let mut object = json!({"a": null});
        set(&mut object, &["a", "b", "c"], 1.into());
        assert_eq!(object, json!({"a": {"b": {"c": 1}}}));
        remove(&mut object, &["a", "b", "c"]);
        remove(&mut object, &["x", "y"]);
        assert_eq!(object, json!({"a": {"b": {}}}));
    }

    #[test]
    fn canonical_json_does_not_depend_on_the_order_of_members() {
        let value: Value =
            serde_json::from_str(r#"{"b": [1, "x\n"], "a": {"d": 2, "c": null}}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":{"c":null,"d":2},"b":[1,"x\n"]}"#);
    }

    #[test]
    fn an_equal_annotation_is_no_change() {
        let mut object = json!({});
        assert!(annotate(&mut object, "k", "v"));
        assert!(!annotate(&mut object, "k", "v"));
        assert_eq!(annotation(&object, "k"), Some("v"));
    }
}
