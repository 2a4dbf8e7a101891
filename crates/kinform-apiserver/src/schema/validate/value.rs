//! Checks of one value by one node of a schema: type, format, bounds, enum.
//!
//! ```text
//! node + value + path -> Found
//! ```
//!
//! Upstream: `kube-openapi:pkg/validation/validate/{type,formats,values,validator}.go`.

use kinform_api::{FieldError, ShownValue};
use serde_json::Value;

use super::{Found, format, is_int_or_string, shown, whole};
use crate::object::number::whole_number;
use crate::schema::flag;

/// The types that a node takes, as errors name them; empty for any.
fn types(schema: &Value) -> &str {
    if is_int_or_string(schema) {
        return "integer,string";
    }
    schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default()
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

/// Checks that the value is of the node's type.
pub(super) fn of_type(schema: &Value, value: &Value, path: &str) -> Found {
    let (wanted, name) = (types(schema), type_name(value));
    let fits = match value {
        Value::Null => flag(schema, "nullable"),
        Value::Number(number) => match wanted {
            "number" => true,
            "integer" | "integer,string" => is_whole(number),
            _ => false,
        },
        _ => wanted.split(',').any(|of| of == name),
    };
    if fits || wanted.is_empty() {
        return Found {
            errors: Vec::new(),
            fits: usize::from(!wanted.is_empty()),
        };
    }
    let detail = format!("{path} in body must be of type {wanted}: {name:?}");
    Found::error(FieldError::type_invalid(path, name, detail))
}

fn is_whole(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|f| f.fract() == 0.0)
}

/// Checks that a text is in the format of the node.
pub(super) fn of_format(schema: &Value, text: &str, path: &str) -> Found {
    let name = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_text = matches!(types(schema), "" | "string" | "integer,string");
    if name.is_empty() || !is_text || format::fits(name, text).unwrap_or(true) {
        return Found::default();
    }
    let detail = format!("{path} in body must be of type {name}: {text:?}");
    Found::error(FieldError::type_invalid(path, text, detail))
}

/// Checks that the value is one of those in the `enum` of the node.
pub(super) fn of_enum(schema: &Value, value: &Value, path: &str) -> Found {
    let Some(allowed) = schema.get("enum").and_then(Value::as_array) else {
        return Found::default();
    };
    let same = |of: &Value| match (of.as_f64(), value.as_f64()) {
        (Some(a), Some(b)) if value.is_f64() || of.is_f64() => a == b,
        _ => of == value,
    };
    if allowed.is_empty() || allowed.iter().any(same) {
        return Found::default();
    }
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // BOUND: an error shows fewer.
    let texts: Vec<String> = allowed.iter().map(text).take(MOST_NAMED).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Found::error(FieldError::not_supported(path, shown(value), &texts))
}

/// Alternatives that an error names at most.
const MOST_NAMED: usize = 1000;

/// Checks that a number is within its bounds.
pub(super) fn of_number(schema: &Value, value: &Value, path: &str) -> Found {
    let number = value.as_f64().unwrap_or_default();
    let mut errors = Vec::new();
    if !is_in_range(schema, value) {
        let (of, format) = (number_type(schema), number_format(schema));
        let of = if format.is_empty() {
            format!("{of} (default format)")
        } else {
            format!("{of} with format {format}")
        };
        errors.push(whole(format!(
            "Checked value must be of type {of} in {path}"
        )));
    }
    let refuse = |detail: String| {
        let shown: ShownValue = shown(value);
        FieldError::invalid(path, shown, format!("{path} in body should be {detail}"))
    };
    // Upstream truncates the bounds of integers where a fraction is not an error.
    let is_cut = value.is_i64() && number_type(schema) != "integer";
    let bound = |name: &str| {
        let bound = schema.get(name).and_then(Value::as_f64);
        bound.map(|bound| if is_cut { bound.trunc() } else { bound })
    };
    if let Some(step) = bound("multipleOf") {
        let times = if step < 1.0 {
            1.0 / step * number
        } else {
            number / step
        };
        let whole = (times - times.round()).abs() < 1e-9 * times.abs().max(1.0);
        if step > 0.0 && !whole {
            errors.push(refuse(format!("a multiple of {}", go_number(step))));
        }
    }
    if let Some(least) = bound("minimum") {
        let shown = go_number(least);
        match flag(schema, "exclusiveMinimum") {
            true if number <= least => errors.push(refuse(format!("greater than {shown}"))),
            false if number < least => {
                errors.push(refuse(format!("greater than or equal to {shown}")));
            }
            _ => {}
        }
    }
    if let Some(most) = bound("maximum") {
        let shown = go_number(most);
        match flag(schema, "exclusiveMaximum") {
            true if number >= most => errors.push(refuse(format!("less than {shown}"))),
            false if number > most => errors.push(refuse(format!("less than or equal to {shown}"))),
            _ => {}
        }
    }
    Found { errors, fits: 1 }
}

/// Returns the type whose range a number is checked against.
fn number_type(schema: &Value) -> &str {
    match types(schema) {
        of @ ("integer" | "number") => of,
        _ => "",
    }
}

fn number_format(schema: &Value) -> &str {
    let format = schema
        .get("format")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match (number_type(schema), format) {
        ("integer", "int32" | "int64") | ("number", "float" | "double") => format,
        _ => "",
    }
}

fn is_in_range(schema: &Value, value: &Value) -> bool {
    let number = value.as_f64().unwrap_or_default();
    let whole = value
        .as_i64()
        .or_else(|| whole_number(number).filter(|_| value.is_f64()));
    match (number_type(schema), number_format(schema)) {
        ("integer", "int32") => whole.is_some_and(|whole| i32::try_from(whole).is_ok()),
        ("integer", _) => whole.is_some(),
        ("number", "float") => number.abs() <= f64::from(f32::MAX),
        _ => true,
    }
}

/// Formats a number as Go prints it.
pub(crate) fn go_number(number: f64) -> String {
    if let Some(whole) = whole_number(number)
        && number.abs() < 1e21
    {
        return whole.to_string();
    }
    let size = number.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("+", exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    number.to_string()
}
