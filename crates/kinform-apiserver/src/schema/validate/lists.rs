//! Validates lists that are sets or maps: no value and no key occurs twice.
//!
//! ```text
//! schema + object -> [Duplicate value]
//! ```
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/schema/listtype/validation.go`.

use std::borrow::Cow;
use std::collections::HashMap;

use kinform_api::{FieldError, ShownValue};
use serde_json::{Map, Value};

use super::shown;
use crate::object::metadata::MOST_ERRORS;
use crate::schema::join;

/// Adds errors for the duplicate items of all lists within a value.
pub(crate) fn errors(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if errors.len() >= MOST_ERRORS {
        return;
    }
    match value {
        Value::Array(items) => {
            repeated(schema, items, path, errors);
            if let Some(of) = schema.get("items").filter(|of| of.is_object()) {
                for (at, item) in items.iter().enumerate() {
                    self::errors(of, item, &format!("{path}[{at}]"), errors);
                }
            }
        }
        Value::Object(members) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema
                .get("additionalProperties")
                .filter(|of| of.is_object());
            for (name, value) in members {
                if let Some(of) = properties.and_then(|of| of.get(name)) {
                    self::errors(of, value, &join(path, name), errors);
                } else if let Some(of) = others {
                    self::errors(of, value, &format!("{path}[{name}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn repeated(schema: &Value, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let kind = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    let identities: Vec<Cow<'_, Value>> = match kind {
        Some("set") => items.iter().map(Cow::Borrowed).collect(),
        Some("map") => {
            let wrong = |item: &Value| !item.is_object() && !item.is_null();
            if let Some(at) = items.iter().position(wrong) {
                let detail = "must be an object for an array of list-type map";
                let path = format!("{path}[{at}]");
                errors.push(FieldError::invalid(path, shown(&items[at]), detail));
                return;
            }
            let names = keys.into_iter().flatten().filter_map(Value::as_str);
            let names: Vec<&str> = names.collect();
            let key = |item: &Value| {
                let pairs = names
                    .iter()
                    .filter_map(|name| Some(((*name).to_owned(), item.get(name)?.clone())));
                Cow::Owned(Value::Object(pairs.collect::<Map<_, _>>()))
            };
            items.iter().map(key).collect()
        }
        _ => return,
    };
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (at, identity) in identities.iter().enumerate() {
        let times = seen.entry(identity.to_string()).or_default();
        *times += 1;
        if *times == 2 && errors.len() < MOST_ERRORS {
            let shown: ShownValue = shown(identity);
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), shown));
        }
    }
}
