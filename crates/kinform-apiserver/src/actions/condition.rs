//! Conditions that actions write into the status of an object.

use serde_json::{Value, json};

/// Replaces the condition of the same type, or adds the condition.
pub(super) fn set_condition(object: &mut Value, condition: Value) {
    let conditions = &mut object["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|old| old["type"] == condition["type"]) {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}
