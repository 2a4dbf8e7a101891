//! Reads a custom object by its schema and validates it.
//!
//! ```text
//! body -> pruned, defaulted, normalized object      object (+ old) -> [FieldError], warnings
//! ```
//!
//! The checks run in upstream's order: the schema, replica counts, embedded objects, lists, and
//! then rules, unless an earlier error makes the rules pointless.
//!
//! Upstream: `apiextensions-apiserver:pkg/registry/customresource/{strategy,status_strategy,validator}.go`.

use std::collections::HashSet;

use kinform_api::{FieldError, FieldErrorKind, ShownValue, names};
use serde_json::Value;

use crate::budget::Meter;
use crate::object::number::whole_numbers;
use crate::object::part::Part;
use crate::object::{at, metadata};
use crate::resource::{CustomShape, ScalePaths};
use crate::schema::compiled::within;
use crate::schema::defaults::default;
use crate::schema::defaults::drop_nulls;
use crate::schema::old_value::Before;
use crate::schema::prune::prune;
pub(crate) use crate::schema::rules::Said;
use crate::schema::validate::{embedded, lists};

/// The treatment of nulls where the schema does not allow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// Nulls count as absent.
    Dropped,
    /// Nulls are kept and then refused: an applied object is not read again.
    Kept,
}

/// Reads a body by its schema: adds unknown members to `unknown`, drops them, and sets defaults.
///
/// # Errors
/// The errors of the metadata of an embedded object.
pub(crate) fn read(
    custom: &CustomShape,
    object: &mut Value,
    nulls: Nulls,
    (unknown, meter): (&mut Vec<String>, &Meter),
) -> Result<(), FieldError> {
    whole_numbers(object);
    prune(&custom.schema, object, unknown);
    if nulls == Nulls::Dropped {
        drop_nulls(&custom.schema, object);
    }
    embedded::coerce(&custom.schema, object, unknown, meter)?;
    default(&custom.schema, object, meter);
    Ok(())
}

/// Returns the errors of a new object.
pub(crate) fn errors(custom: &CustomShape, object: &Value, meter: &Meter) -> Said {
    let mut said = checked(custom, Part::Main, (object, Before::NOTHING), meter);
    said.warnings.extend(finalizer_warnings(object, None));
    said
}

/// Returns the errors of a changed object. An unchanged value may remain invalid.
pub(crate) fn change(
    custom: &CustomShape,
    part: Part,
    (new, old): (&Value, &Value),
    meter: &Meter,
) -> Said {
    let mut said = checked(custom, part, (new, Before(Some(old))), meter);
    if part == Part::Main {
        said.warnings.extend(finalizer_warnings(new, Some(old)));
    }
    said
}

fn checked(
    custom: &CustomShape,
    part: Part,
    (object, before): (&Value, Before<'_>),
    meter: &Meter,
) -> Said {
    let (schema, compiled) = (&custom.schema, custom.compiled());
    let mut errors = match part {
        Part::Status => {
            let of = at(schema, &["properties", "status"]);
            let status = object.get("status");
            let before = before.member(schema, "status");
            match of.zip(status) {
                Some((of, status)) => within(compiled.check(of, status, before, meter), "status"),
                None => Vec::new(),
            }
        }
        _ => within(compiled.check(schema, object, before, meter), "<nil>"),
    };
    if let Some(scale) = &custom.scale {
        scale_errors(scale, part, object, &mut errors);
    }
    if part != Part::Status {
        errors.extend(embedded::errors(schema, object));
    }
    let was_wrong = before.0.is_some_and(|old| {
        let mut found = Vec::new();
        lists::errors(schema, old, "", &mut found);
        !found.is_empty()
    });
    if !was_wrong {
        lists::errors(schema, object, "", &mut errors);
    }
    let mut said = Said::default();
    if let Some(rules) = &compiled.rules {
        if errors.iter().any(|error| is_blocking(error.kind())) {
            let detail = "some validation rules were not checked because the object was invalid; \
                          correct the existing errors to complete validation";
            let null = ShownValue::raw("null");
            errors.push(FieldError::invalid("<nil>", null, detail));
        } else {
            said = rules.run(schema, object, before);
        }
    }
    errors.append(&mut said.errors);
    said.errors = errors;
    said
}

/// Returns whether an error of this kind makes evaluating the rules pointless.
fn is_blocking(kind: FieldErrorKind) -> bool {
    matches!(
        kind,
        FieldErrorKind::NotSupported
            | FieldErrorKind::Required
            | FieldErrorKind::TooLong
            | FieldErrorKind::TooMany
            | FieldErrorKind::TypeInvalid
    )
}

fn scale_errors(scale: &ScalePaths, part: Part, object: &Value, errors: &mut Vec<FieldError>) {
    if part != Part::Status {
        errors.extend(replicas_error(&scale.spec_replicas, object));
    }
    errors.extend(replicas_error(&scale.status_replicas, object));
    if let Some(path) = &scale.label_selector {
        let members: Vec<&str> = path.split('.').collect();
        if let Some(value) = at(object, &members).filter(|value| !value.is_string()) {
            let detail = accessor(path, value, "string");
            errors.push(FieldError::invalid(format!(".{path}"), "", detail));
        }
    }
}

fn replicas_error(path: &str, object: &Value) -> Option<FieldError> {
    let members: Vec<&str> = path.split('.').collect();
    let value = at(object, &members).filter(|value| !value.is_null())?;
    let field = format!(".{path}");
    let Some(number) = value.as_i64() else {
        let detail = accessor(path, value, "int64");
        return Some(FieldError::invalid(field, 0, detail));
    };
    let detail = match number {
        ..0 => "should be a non-negative integer".to_owned(),
        2_147_483_648.. => "should be less than or equal to 2147483647".to_owned(),
        _ => return None,
    };
    Some(FieldError::invalid(field, number, detail))
}

fn accessor(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, of) = match value {
        Value::String(text) => (text.clone(), "string"),
        Value::Bool(value) => (value.to_string(), "bool"),
        Value::Number(number) => (number.to_string(), "float64"),
        other => (other.to_string(), "map[string]interface {}"),
    };
    format!(".{path} accessor error: {shown} is of the type {of}, expected {wanted}")
}

/// Returns warnings about finalizers whose names are not qualified by a domain.
fn finalizer_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: HashSet<&str> = old.into_iter().flat_map(metadata::finalizers).collect();
    let mut added: Vec<&str> = metadata::finalizers(new)
        .filter(|name| !known.contains(name))
        .collect();
    added.sort_unstable();
    let mut warnings = Vec::new();
    for name in added {
        let said = |what: String| format!("metadata.finalizers: {name:?}: {what}");
        warnings.extend(names::label_key_errors(name).into_iter().map(&said));
        if !name.contains('/') && !metadata::is_standard_finalizer(name) {
            let path = if name.contains('.') {
                " including a path (/)"
            } else {
                ""
            };
            warnings.push(said(format!(
                "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with \
                 other finalizer writers"
            )));
        }
    }
    warnings
}
