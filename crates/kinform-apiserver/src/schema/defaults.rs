//! Defaulting by a structural schema: sets the fields that the schema has a default for.
//!
//! ```text
//! schema + object -> object without nulls that the schema does not allow, with its defaults
//! ```
//!
//! BOUND: the recursion is as deep as the object, whose depth the parser limits.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/schema/defaulting`.

use kinform_api::mutant;
use serde_json::Value;

use super::flag;
use crate::budget::Meter;

/// Removes nulls that are neither allowed nor replaced by a default.
pub(crate) fn drop_nulls(schema: &Value, value: &mut Value) {
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

/// Sets the defaults of the schema. A null where null is not allowed counts as absent. Each default
/// takes its size from the meter; the value is incomplete once that is spent.
pub(crate) fn default(schema: &Value, value: &mut Value, meter: &Meter) {
    if !meter.step(1) {
        return;
    }
    match value {
        Value::Object(entries) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, of) in properties.into_iter().flatten() {
                let is_unset = match entries.get(name) {
                    None => true,
                    Some(Value::Null) => !flag(of, "nullable") && of.get("default").is_some(),
                    Some(_) => false,
                };
                if let (true, Some(default)) = (is_unset, of.get("default"))
                    && meter.take_member(name, default)
                {
                    entries.insert(name.clone(), default.clone());
                }
            }
            let others = schema
                .get("additionalProperties")
                .filter(|of| of.is_object());
            for (name, value) in entries.iter_mut() {
                if let Some(of) = properties.and_then(|of| of.get(name)).or(others) {
                    default(of, value, meter);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = schema.get("items").filter(|items| items.is_object()) else {
                return;
            };
            if mutant!("S6") {
                return;
            }
            items.iter_mut().for_each(|item| default(of, item, meter));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::budget::{OBJECT, encoded_size};

    // apiextensions-apiserver: pkg/apiserver/schema/defaulting
    #[test]
    fn s6_defaults_are_set_at_every_depth() {
        let check = |schema: Value, mut value: Value, expected: Value| {
            default(&schema, &mut value, &Meter::of_object());
            assert_eq!(value, expected, "{schema}");
        };
        let one = || json!({"properties": {"n": {"default": 1}}});
        check(one(), json!({}), json!({"n": 1}));
        check(one(), json!({"n": 2}), json!({"n": 2}));
        check(one(), json!({"n": null}), json!({"n": 1}));
        let nullable = json!({"properties": {"n": {"default": 1, "nullable": true}}});
        check(nullable, json!({"n": null}), json!({"n": null}));
        let absent = json!({"properties": {"of": one()}});
        check(absent.clone(), json!({}), json!({}));
        check(absent, json!({"of": {}}), json!({"of": {"n": 1}}));
        let mut made = one();
        made["default"] = json!({});
        let made = json!({"properties": {"of": made}});
        check(made, json!({}), json!({"of": {"n": 1}}));
        let members = json!({"additionalProperties": one()});
        check(members, json!({"a": {}}), json!({"a": {"n": 1}}));
        let elements = json!({"properties": {"of": {"items": one()}}});
        let value = json!({"of": [{}, {"n": 2}]});
        check(elements, value, json!({"of": [{"n": 1}, {"n": 2}]}));
    }

    #[test]
    fn defaults_of_items_cannot_multiply_an_object_without_bound() {
        let large = json!({"items": {"properties": {"n": {"default": "x".repeat(100_000)}}}});
        let mut value = json!(vec![json!({}); 20_000]);
        let meter = Meter::of_object();
        default(&large, &mut value, &meter);
        assert_eq!(meter.check().unwrap_err().code, 413);
        assert!(encoded_size(&value) < 2 * OBJECT);
        // A default within a default, and so on.
        let many = vec![json!({}); 1000];
        let deep = (0..5).fold(
            json!({}),
            |inner, _| json!({"properties": {"n": {"default": many, "items": inner}}}),
        );
        let (mut value, meter) = (json!({}), Meter::of_object());
        default(&deep, &mut value, &meter);
        assert_eq!(meter.check().unwrap_err().code, 413);
        assert!(encoded_size(&value) < 2 * OBJECT);
    }
}
