//! JSON as values of expressions, and results of expressions as JSON.
//!
//! ```text
//! JSON ──▶ value, with plain types        value ──▶ JSON
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/common/values.go`.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::Key;
use serde_json::Value;

/// BOUND: the depth of a result, so that an object with it can be parsed again (128).
const MAX_DEPTH: usize = 100;

/// A value without a schema.
pub(super) fn of(value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(value) => CelValue::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => CelValue::Int(whole),
            None => CelValue::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(of).collect())),
        Value::Object(members) => {
            let members = members.iter();
            let map: HashMap<Key, CelValue> = members
                .map(|(name, value)| (Key::String(Arc::new(name.clone())), of(value)))
                .collect();
            map.into()
        }
    }
}

/// The form of a value in JSON; `None` if it has none, or is too deep.
pub(crate) fn to_json(value: &CelValue) -> Option<Value> {
    json_at(value, MAX_DEPTH)
}

fn json_at(value: &CelValue, depth: usize) -> Option<Value> {
    let below = depth.checked_sub(1)?;
    Some(match value {
        CelValue::Null => Value::Null,
        CelValue::Bool(value) => Value::from(*value),
        CelValue::Int(number) => Value::from(*number),
        CelValue::UInt(number) => Value::from(*number),
        CelValue::Float(number) => Value::from(*number),
        CelValue::String(text) => Value::from(text.as_str()),
        CelValue::Bytes(bytes) => Value::from(STANDARD.encode(bytes.as_slice())),
        CelValue::List(items) => {
            let items = items.iter().map(|item| json_at(item, below));
            items.collect::<Option<_>>()?
        }
        CelValue::Map(map) => {
            let members = map.map.iter().map(|(key, value)| {
                let Key::String(name) = key else {
                    return None;
                };
                Some((name.as_str().to_owned(), json_at(value, below)?))
            });
            Value::Object(members.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_again_unless_it_is_too_deep() {
        let value = serde_json::json!({"a": [1, 1.5, "x", null, true, {"b": {}}]});
        assert_eq!(to_json(&of(&value)), Some(value));
        let mut deep = CelValue::Null;
        for _ in 0..2 * MAX_DEPTH {
            deep = CelValue::List(Arc::new(vec![deep]));
        }
        assert_eq!(to_json(&deep), None);
    }
}
