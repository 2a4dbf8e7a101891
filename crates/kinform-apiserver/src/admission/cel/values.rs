//! JSON as values of expressions.
//!
//! ```text
//! JSON ──▶ value, with plain types
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/cel/common/values.go`.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel::Value as CelValue;
use kube_cel::cel::objects::Key;
use serde_json::Value;

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
