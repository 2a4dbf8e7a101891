//! The difference of two JSON values as a merge patch.
//!
//! ```text
//! before, after → {only the members that differ; null for those that are gone} | None
//! ```
//!
//! Both sides are encodings of one type, so a member that the type does not know is in neither and
//! never in the patch. A list that differs is replaced as a whole; a member with the value null is
//! one that is not there.
//!
//! Upstream counterpart: `apimachinery:pkg/util/jsonmergepatch`, RFC 7386.

use serde_json::{Map, Value};

/// The merge patch that makes `after` of `before`; `None` if they are equal.
///
/// INVARIANT: recursion is as deep as the values, which serde_json bounds when it reads them, and
/// a type when it is written.
pub(crate) fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let is_there = |value: &&Value| !value.is_null();
    let mut patch = Map::new();
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let changed = match old.get(key).filter(is_there) {
            Some(known) => difference(known, value),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    for key in old.keys().filter(|key| !old[*key].is_null()) {
        if new.get(key).filter(is_there).is_none() {
            patch.insert(key.clone(), Value::Null);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// Removes the members with the value null, at any depth.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_names_only_what_changed() {
        for (before, after, expected) in [
            (json!({}), json!({}), None),
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": null}), json!({}), None),
            (json!({}), json!({"a": null}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (json!({"a": 1}), json!({}), Some(json!({"a": null}))),
            (
                json!({"a": 1}),
                json!({"a": null}),
                Some(json!({"a": null})),
            ),
            (json!({}), json!({"a": {}}), Some(json!({"a": {}}))),
            (
                json!({"a": [1, 2]}),
                json!({"a": [2]}),
                Some(json!({"a": [2]})),
            ),
            (
                json!({"a": {"b": 1, "c": 2}, "d": 3}),
                json!({"a": {"b": 1, "c": 3, "e": 4}, "d": 3}),
                Some(json!({"a": {"c": 3, "e": 4}})),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": "x"}),
                Some(json!({"a": "x"})),
            ),
        ] {
            assert_eq!(difference(&before, &after), expected, "{before} {after}");
        }
    }

    #[test]
    fn nulls_are_removed_at_any_depth() {
        let mut value = json!({"a": null, "b": {"c": null, "d": [{"e": null, "f": 1}]}});
        without_nulls(&mut value);
        assert_eq!(value, json!({"b": {"d": [{"f": 1}]}}));
    }
}
