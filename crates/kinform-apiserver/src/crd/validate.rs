//! What a schema refuses.
//!
//! ```text
//! schema + object -> [FieldError], in upstream's words
//! ```
//!
//! Types, `required`, `enum`, bounds of numbers, lengths and counts, `nullable`, int-or-string, list
//! types, and the logical combinations. Not checked: `pattern`, most formats, CEL rules.
//!
//! BOUND: recursion goes with the object, and with the schema's combinations, whose depth the parser
//! limits.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/validation`, `kube-openapi:pkg/validation`.

use kinform_api::{FieldError, ShownValue};
use serde_json::Value;

use super::structural::{flag, join};

/// What is wrong with an object.
pub(crate) fn errors(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, object, "", &mut errors);
    errors
}

fn check(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if value.is_null() && flag(schema, "nullable") {
        return;
    }
    if !is_of_type(schema, value) {
        let (wanted, found) = (
            schema["type"].as_str().unwrap_or_default(),
            type_name(value),
        );
        let detail = format!("{path} in body must be of type {wanted}: {found:?}");
        errors.push(FieldError::type_invalid(path, found, detail));
        return;
    }
    check_enum(schema, value, path, errors);
    match value {
        Value::Number(_) => check_number(schema, value, path, errors),
        Value::String(text) => check_text(schema, text, path, errors),
        Value::Array(items) => check_items(schema, items, path, errors),
        Value::Object(_) => check_members(schema, value, path, errors),
        _ => {}
    }
    check_combinations(schema, value, path, errors);
}

fn is_of_type(schema: &Value, value: &Value) -> bool {
    if flag(schema, "x-kubernetes-int-or-string") {
        return value.is_string() || is_integer(value);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        Some("integer") => is_integer(value),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn shown(value: &Value) -> ShownValue {
    match value {
        Value::String(text) => ShownValue::from(text),
        other => ShownValue::raw(other.to_string()),
    }
}

fn check_enum(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else {
        return;
    };
    if allowed.contains(value) {
        return;
    }
    let texts: Vec<String> = allowed
        .iter()
        .map(|value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    errors.push(FieldError::not_supported(path, shown(value), &texts));
}

fn check_number(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let number = value.as_f64().unwrap_or_default();
    let bound = |name: &str| {
        schema
            .get(name)
            .and_then(Value::as_f64)
            .map(|b| (b, &schema[name]))
    };
    let mut refuse = |detail: String| {
        errors.push(FieldError::invalid(
            path,
            shown(value),
            format!("{path} in body should be {detail}"),
        ));
    };
    if let Some((least, text)) = bound("minimum") {
        if flag(schema, "exclusiveMinimum") {
            if number <= least {
                refuse(format!("greater than {text}"));
            }
        } else if number < least {
            refuse(format!("greater than or equal to {text}"));
        }
    }
    if let Some((most, text)) = bound("maximum") {
        if flag(schema, "exclusiveMaximum") {
            if number >= most {
                refuse(format!("less than {text}"));
            }
        } else if number > most {
            refuse(format!("less than or equal to {text}"));
        }
    }
    if let Some((step, text)) = bound("multipleOf")
        && step > 0.0
        && (number / step).fract() != 0.0
    {
        refuse(format!("a multiple of {text}"));
    }
}

/// A limit of a length or a count.
fn limit(schema: &Value, name: &str) -> Option<usize> {
    usize::try_from(schema.get(name)?.as_u64()?).ok()
}

fn check_text(schema: &Value, text: &str, path: &str, errors: &mut Vec<FieldError>) {
    let letters = text.chars().count();
    if let Some(least) = limit(schema, "minLength")
        && letters < least
    {
        let detail = format!("{path} in body should be at least {least} chars long");
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(most) = limit(schema, "maxLength")
        && letters > most
    {
        errors.push(FieldError::too_long(path, most));
    }
    if schema.get("format").and_then(Value::as_str) == Some("date-time")
        && text.parse::<jiff::Timestamp>().is_err()
    {
        let detail = format!("{path} in body must be of type date-time: {text:?}");
        errors.push(FieldError::type_invalid(path, text, detail));
    }
}

fn check_items(schema: &Value, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let count = ShownValue::raw(items.len().to_string());
    if let Some(least) = limit(schema, "minItems")
        && items.len() < least
    {
        let detail = format!("{path} in body should have at least {least} items");
        errors.push(FieldError::invalid(path, count.clone(), detail));
    }
    if let Some(most) = limit(schema, "maxItems")
        && items.len() > most
    {
        let detail = format!("{path} in body should have at most {most} items");
        errors.push(FieldError::invalid(path, count, detail));
    }
    check_unique(schema, items, path, errors);
    if let Some(of) = schema.get("items").filter(|of| of.is_object()) {
        for (at, item) in items.iter().enumerate() {
            check(of, item, &format!("{path}[{at}]"), errors);
        }
    }
}

/// Sets have no value twice, maps no key.
fn check_unique(schema: &Value, items: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array);
    let identity = |item: &Value| match (list_type, keys) {
        (Some("set"), _) => Some(item.to_string()),
        (Some("map"), Some(keys)) => {
            let key = |name: &Value| Some((name.clone(), item.get(name.as_str()?).cloned()?));
            let key: Vec<_> = keys.iter().filter_map(key).collect();
            serde_json::to_string(&key).ok()
        }
        _ => None,
    };
    let mut seen = std::collections::HashSet::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(identity) = identity(item)
            && !seen.insert(identity)
        {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), shown(item)));
        }
    }
}

fn check_members(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(entries) = value.as_object() else {
        return;
    };
    for name in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if name
            .as_str()
            .is_some_and(|name| !entries.contains_key(name))
        {
            errors.push(FieldError::required(
                join(path, name.as_str().unwrap_or_default()),
                "",
            ));
        }
    }
    let count = ShownValue::raw(entries.len().to_string());
    if let Some(least) = limit(schema, "minProperties")
        && entries.len() < least
    {
        let detail = format!("{path} in body should have at least {least} properties");
        errors.push(FieldError::invalid(path, count.clone(), detail));
    }
    if let Some(most) = limit(schema, "maxProperties")
        && entries.len() > most
    {
        let detail = format!("{path} in body should have at most {most} properties");
        errors.push(FieldError::invalid(path, count, detail));
    }
    let properties = schema.get("properties");
    let others = schema
        .get("additionalProperties")
        .filter(|of| of.is_object());
    for (name, value) in entries {
        if path.is_empty() && name == "metadata" {
            continue;
        }
        if let Some(of) = properties.and_then(|of| of.get(name)).or(others) {
            check(of, value, &join(path, name), errors);
        }
    }
}

fn check_combinations(schema: &Value, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let list = |name: &str| schema.get(name).and_then(Value::as_array);
    for of in list("allOf").into_iter().flatten() {
        check(of, value, path, errors);
    }
    let fits = |of: &Value| {
        let mut wrong = Vec::new();
        check(of, value, path, &mut wrong);
        wrong.is_empty()
    };
    if let Some(any) = list("anyOf")
        && !any.iter().any(fits)
    {
        let detail = format!("{path} in body must validate at least one schema (anyOf)");
        errors.push(FieldError::invalid(path, shown(value), detail));
    }
    if let Some(one) = list("oneOf")
        && one.iter().filter(|of| fits(of)).count() != 1
    {
        let detail = format!("{path} in body must validate one and only one schema (oneOf)");
        errors.push(FieldError::invalid(path, shown(value), detail));
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object())
        && fits(not)
    {
        let detail = format!("{path} in body must not validate the schema (not)");
        errors.push(FieldError::invalid(path, shown(value), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: Value, value: Value, expected: &[&str]) {
        let schema = json!({"type": "object", "properties": {"spec": schema}});
        let errors = errors(&schema, &json!({"spec": value}));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_schema_refuses_in_upstreams_words() {
        check(json!({"type": "string"}), json!("x"), &[]);
        check(
            json!({"type": "string"}),
            json!(7),
            &["spec: Invalid value: \"integer\": spec in body must be of type string: \"integer\""],
        );
        check(
            json!({"type": "integer", "maximum": 10}),
            json!(11),
            &["spec: Invalid value: 11: spec in body should be less than or equal to 10"],
        );
        check(
            json!({"type": "string", "enum": ["small", "large"]}),
            json!("huge"),
            &["spec: Unsupported value: \"huge\": supported values: \"small\", \"large\""],
        );
        check(
            json!({"type": "object", "required": ["a"]}),
            json!({}),
            &["spec.a: Required value"],
        );
        check(
            json!({"type": "string", "nullable": true}),
            json!(null),
            &[],
        );
        check(
            json!({"x-kubernetes-int-or-string": true}),
            json!("25%"),
            &[],
        );
        check(
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            json!([{"k": 1}, {"k": 2}, {"k": 1}]),
            &["spec[2]: Duplicate value: {\"k\":1}"],
        );
        check(
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!(1),
            &[],
        );
        check(
            json!({"not": {"type": "string"}}),
            json!("x"),
            &["spec: Invalid value: \"x\": spec in body must not validate the schema (not)"],
        );
    }
}
