//! Validates the defaults of a schema against it.
//!
//! ```text
//! schema -> [FieldError]
//! ```
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/defaulting/validation.go`.

use kinform_api::{FieldError, ShownValue};
use serde_json::Value;

use crate::budget::Meter;
use crate::schema::compiled::Compiled;
use crate::schema::prune::prune_part;

/// Returns the errors of the defaults of a schema, as far as the meter allows.
pub(super) fn errors(schema: &Value, path: &str, meter: &Meter) -> Vec<FieldError> {
    let mut errors = Vec::new();
    node(schema, path, Metadata::AtRoot, (&mut errors, meter));
    errors
}

/// States whether a node is at the root, where defaults of the metadata have no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metadata {
    AtRoot,
    Elsewhere,
}

fn node(
    schema: &Value,
    path: &str,
    metadata: Metadata,
    (errors, meter): (&mut Vec<FieldError>, &Meter),
) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        // The patterns and rules below are compiled for each default.
        meter.look();
        if meter.is_spent() {
            return;
        }
        check(schema, default, &format!("{path}.default"), errors);
    }
    if let Some(items) = schema.get("items").filter(|of| of.is_object()) {
        node(
            items,
            &format!("{path}.items"),
            Metadata::Elsewhere,
            (errors, meter),
        );
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        // Another check reports these: metadata may have no defaults at all.
        if metadata == Metadata::AtRoot
            && matches!(name.as_str(), "metadata" | "kind" | "apiVersion")
        {
            continue;
        }
        let path = format!("{path}.properties[{name}]");
        node(property, &path, Metadata::Elsewhere, (errors, meter));
    }
}

fn check(schema: &Value, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune_part(schema, &mut pruned);
    if pruned != *default {
        let shown = ShownValue::raw(default.to_string());
        errors.push(FieldError::invalid(
            path,
            shown,
            "must not have unknown fields",
        ));
    }
    let compiled = Compiled::of_part(schema);
    errors.extend(compiled.default_errors(schema, default, path));
}
