//! Validates a custom resource definition.
//!
//! ```text
//! definition (+ old definition) -> [FieldError], warnings
//! ```
//!
//! Paths are those of upstream's internal form: a part that is the same in all versions is at the
//! top, for example `spec.validation`.
//!
//! * `names.rs`: names, versions, conversion; `views.rs`: columns, scale, selectable fields;
//! * `structure.rs`: structural schemas; `schema.rs`: members of schemas; `default_values.rs`:
//!   defaults against their schema.
//!
//! Upstream: `apiextensions-apiserver:pkg/apis/apiextensions/validation/validation.go`.

mod default_values;
mod names;
mod schema;
mod structure;
#[cfg(test)]
mod tests;
mod views;

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue};
use serde_json::Value;

use super::conditions;
use crate::budget::Meter;
use crate::object::{at, text};
use crate::schema::validate::format;

/// BOUND: how deep a schema may be; upstream is bound by its encoding.
const MAX_DEPTH: usize = 64;

/// The versions of a definition.
pub(super) fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    at(definition, &["spec", "versions"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Returns a part of all versions with its path in errors: at the top if all versions have the
/// same.
fn parts<'a>(
    definition: &'a Value,
    member: &str,
    top: &str,
) -> Vec<(String, &'a Value, Option<&'a Value>)> {
    let all: Vec<Option<&Value>> = versions(definition)
        .map(|version| version.get(member).filter(|of| !of.is_null()))
        .collect();
    let are_same = all.windows(2).all(|pair| pair[0] == pair[1]);
    if are_same {
        let first = versions(definition).next();
        let version = first.unwrap_or(&Value::Null);
        return vec![(
            format!("spec.{top}"),
            version,
            all.first().copied().flatten(),
        )];
    }
    let path = |at: usize| format!("spec.versions[{at}].{member}");
    versions(definition)
        .zip(all)
        .enumerate()
        .map(|(at, (version, part))| (path(at), version, part))
        .collect()
}

/// Returns the errors of a definition; `old` is the definition before an update.
pub(crate) fn errors(definition: &Value, old: Option<&Value>, meter: &Meter) -> Vec<FieldError> {
    let mut errors = Vec::new();
    names::definition_name(definition, old, &mut errors);
    names::group_and_scope(definition, &mut errors);
    for (at, version) in versions(definition).enumerate() {
        if schema_of(version).is_none() {
            let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    names::versions(definition, &mut errors);
    for (path, version, part) in parts(definition, "schema", "validation") {
        if let Some(schema) = part.and_then(|part| part.get("openAPIV3Schema")) {
            let path = format!("{path}.openAPIV3Schema");
            let place = (&*path, meter);
            schema_errors(definition, version, schema, place, &mut errors);
        }
    }
    views::errors(definition, &mut errors);
    names::names(definition, "spec.names", &["spec", "names"], &mut errors);
    names::conversion(definition, &mut errors);
    if let Some(old) = old {
        change_errors(definition, old, &mut errors);
    }
    names::names(
        definition,
        "status.acceptedNames",
        &["status", "acceptedNames"],
        &mut errors,
    );
    names::stored_versions(definition, &mut errors);
    names::approval(definition, old, &mut errors);
    if at(definition, &["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true)) {
        let mut schemas = versions(definition).filter_map(schema_of);
        if schemas.any(has_defaults) {
            let detail = "must be false in order to use defaults in the schema";
            let field = "spec.preserveUnknownFields";
            errors.push(FieldError::invalid(field, true, detail));
        }
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            true,
            detail,
        ));
    }
    errors
}

/// The schema of a version.
pub(super) fn schema_of(version: &Value) -> Option<&Value> {
    at(version, &["schema", "openAPIV3Schema"]).filter(|schema| schema.is_object())
}

fn schema_errors(
    definition: &Value,
    version: &Value,
    schema: &Value,
    (path, meter): (&str, &Meter),
    errors: &mut Vec<FieldError>,
) {
    if depth(schema) > MAX_DEPTH {
        let detail = format!("must not be nested deeper than {MAX_DEPTH} levels");
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    let has_status = versions(definition)
        .any(|version| at(version, &["subresources", "status"]).is_some_and(Value::is_object));
    let has_status = match at(version, &["subresources"]) {
        Some(_) => at(version, &["subresources", "status"]).is_some_and(Value::is_object),
        None => has_status && path.starts_with("spec.validation"),
    };
    if has_status {
        schema::root_with_status(schema, path, errors);
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        let detail = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{path}.nullable"), detail));
    }
    let is_readable = structure::is_readable(schema);
    let mut shape = match is_readable {
        true => structure::errors(schema, path, meter),
        false => Vec::new(),
    };
    if is_readable && shape.is_empty() {
        shape = default_values::errors(schema, path, meter);
    }
    let has_rules = match is_readable && shape.is_empty() {
        true => schema::Rules::Checked,
        false => schema::Rules::Left,
    };
    errors.extend(shape);
    let found = schema::errors(schema, (path, has_rules), meter);
    errors.extend(found);
}

/// Returns whether a schema has a default at any depth.
fn has_defaults(schema: &Value) -> bool {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        if schema.get("default").is_some_and(|of| !of.is_null()) {
            return true;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        open.extend(properties.into_iter().flatten().map(|(_, of)| of));
        open.extend(
            ["items", "additionalProperties"]
                .iter()
                .filter_map(|name| schema.get(*name)),
        );
    }
    false
}

fn depth(schema: &Value) -> usize {
    let (mut deepest, mut open) = (0, vec![(schema, 0)]);
    while let Some((value, depth)) = open.pop() {
        match value {
            Value::Object(members) => {
                let depth = depth + usize::from(members.contains_key("type"));
                deepest = deepest.max(depth);
                open.extend(members.values().map(|value| (value, depth)));
            }
            Value::Array(items) => open.extend(items.iter().map(|value| (value, depth))),
            _ => {}
        }
    }
    deepest
}

fn change_errors(definition: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut keep = |path: &[&str]| {
        let (new, old) = (at(definition, path), at(old, path));
        if new != old {
            let shown = match new {
                Some(Value::String(text)) => ShownValue::from(text),
                _ => ShownValue::raw("null"),
            };
            errors.push(FieldError::invalid(
                path.join("."),
                shown,
                "field is immutable",
            ));
        }
    };
    if conditions::is_established(old) {
        keep(&["spec", "scope"]);
        keep(&["spec", "names", "kind"]);
    }
    keep(&["spec", "group"]);
    keep(&["spec", "names", "plural"]);
}

/// Returns the errors of a changed status.
pub(crate) fn status_errors(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = ["status", "acceptedNames"];
    names::names(definition, "status.acceptedNames", &path, &mut errors);
    errors
}

/// Returns the warnings for the writer of a definition, without those that the old definition had.
pub(crate) fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let mut found = collected(definition);
    let known: HashSet<String> = old.map(collected).into_iter().flatten().collect();
    found.retain(|warning| !known.contains(warning));
    found
}

fn collected(definition: &Value) -> Vec<String> {
    let (mut formats, mut sets) = (Vec::new(), Vec::new());
    for version in versions(definition) {
        let mut open: Vec<&Value> = schema_of(version).into_iter().collect();
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => {
                    let of = text(value, &["type"]);
                    let format = text(value, &["format"]);
                    if !format.is_empty() && !format::is_known(of, format) {
                        formats.push(format!("unrecognized format {format:?}"));
                    }
                    let items = text(value, &["items", "type"]);
                    if text(value, &["x-kubernetes-list-type"]) == "set"
                        && matches!(items, "object" | "array")
                    {
                        sets.push(format!(
                            "x-kubernetes-list-type: set for items of type {items:?} is not supported \
                             by server-side apply or CEL validation rules"
                        ));
                    }
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
    }
    sets.sort();
    sets.dedup();
    formats.dedup();
    formats.extend(sets);
    formats
}
