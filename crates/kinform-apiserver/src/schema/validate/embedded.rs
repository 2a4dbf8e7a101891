//! Whole objects within objects: their kinds and metadata.
//!
//! ```text
//! schema + object --coerce--> metadata as a built-in's, or 400      --errors--> [FieldError]
//! ```
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/schema/objectmeta`.

use kinform_api::FieldError;
use serde_json::{Map, Value};

use super::shown;
use crate::budget::Meter;
use crate::object::strict::{PATH, beginning, tell};
use crate::object::typed::Voice;
use crate::object::{metadata, typed};
use crate::schema::dns_label;
use crate::schema::{flag, join};

/// Calls `visit` with every embedded object and its path.
fn each(
    schema: &Value,
    value: &mut Value,
    path: &str,
    visit: &mut impl FnMut(&mut Map<String, Value>, &str),
) {
    match value {
        Value::Object(members) => {
            if flag(schema, "x-kubernetes-embedded-resource") {
                visit(members, path);
            }
            let properties = schema.get("properties").and_then(Value::as_object);
            let others = schema
                .get("additionalProperties")
                .filter(|of| of.is_object());
            for (name, value) in members.iter_mut() {
                if let Some(of) = properties.and_then(|of| of.get(name)) {
                    each(of, value, &join(path, name), visit);
                } else if let Some(of) = others {
                    let name = beginning(name, PATH);
                    each(of, value, &format!("{path}[{name}]"), visit);
                }
            }
        }
        Value::Array(items) => {
            let Some(of) = schema.get("items").filter(|of| of.is_object()) else {
                return;
            };
            for (at, item) in items.iter_mut().enumerate() {
                each(of, item, &format!("{path}[{at}]"), visit);
            }
        }
        _ => {}
    }
}

/// Reads the metadata of embedded objects as that of built-ins. Adds unknown members to `unknown`
/// and drops them.
///
/// # Errors
/// A member of the metadata has the wrong type.
pub(crate) fn coerce(
    schema: &Value,
    object: &mut Value,
    unknown: &mut Vec<String>,
    meter: &Meter,
) -> Result<(), FieldError> {
    let mut wrong = None;
    each(schema, object, "", &mut |members, path| {
        for name in ["apiVersion", "kind"] {
            if let Some(value) = members.get(name).filter(|value| !value.is_string()) {
                let error = FieldError::invalid(join(path, name), shown(value), "must be a string");
                wrong.get_or_insert(error);
            }
        }
        let Some(given) = members.get("metadata").filter(|given| !given.is_null()) else {
            return;
        };
        let path = join(path, "metadata");
        let mut found = Vec::new();
        match read(given.clone(), &mut found, meter) {
            Ok(metadata) => {
                tell(unknown, found.into_iter().map(|name| join(&path, &name)));
                members.insert("metadata".to_owned(), metadata);
            }
            Err(text) => {
                wrong.get_or_insert(FieldError::invalid(path, shown(given), text));
            }
        }
    });
    wrong.map_or(Ok(()), Err)
}

/// Returns the errors of the embedded objects.
pub(crate) fn errors(schema: &Value, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !has_embedded(schema) {
        return errors;
    }
    each(schema, &mut object.clone(), "", &mut |members, path| {
        check(members, path, &mut errors);
    });
    errors
}

fn has_embedded(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            flag(schema, "x-kubernetes-embedded-resource") || members.values().any(has_embedded)
        }
        Value::Array(items) => items.iter().any(has_embedded),
        _ => false,
    }
}

fn check(members: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let field = join(path, name);
        let detail = match members.get(name) {
            None => {
                errors.push(FieldError::required(field, ""));
                continue;
            }
            Some(Value::String(text)) if text.is_empty() => "must not be empty".to_owned(),
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() < 2 {
                    continue;
                }
                format!("unexpected GroupVersion string: {text}")
            }
            Some(Value::String(text)) => match dns_label::label(&text.to_lowercase()).as_slice() {
                [] => continue,
                wrong => format!(
                    "may have mixed case, but should otherwise match: {}",
                    wrong.join(",")
                ),
            },
            Some(_) => "must be a string".to_owned(),
        };
        let value = members.get(name).unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(field, shown(value), detail));
    }
    if members.get("metadata").is_some_and(Value::is_object) {
        let wrong = metadata::embedded_errors(members);
        errors.extend(wrong.into_iter().map(|error| error.within(path)));
    }
}

/// Removes the key from an error about a value of labels or annotations.
pub(crate) fn without_key(error: &str) -> String {
    for map in ["ObjectMeta.labels", "ObjectMeta.annotations"] {
        if let Some((before, after)) = error.split_once(&format!("{map}."))
            && let Some((_, of)) = after.split_once(" of type ")
        {
            return format!("{before}{map} of type {of}");
        }
    }
    error.to_owned()
}

/// Reads metadata as that of a built-in.
fn read(given: Value, unknown: &mut Vec<String>, meter: &Meter) -> Result<Value, String> {
    const PACKAGE: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
    match kinform_schema::named_type(PACKAGE, "ObjectMeta") {
        Some(of) => typed::read_as(of, given, unknown, (Voice::Decoder, meter))
            .map_err(|error| without_key(&error.0)),
        None => Ok(given),
    }
}
