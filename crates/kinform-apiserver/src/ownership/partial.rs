//! Merges a partial object into an object, as an apply does, without owners.
//!
//! ```text
//! object + partial object ──form of the resource──▶ object | error
//! ```
//!
//! Admission policies mutate objects in this way. Units (atomic lists, maps and structs) may not be
//! among the changes: they could only be replaced.
//!
//! BOUND: the recursion is as deep as the partial object, whose expression bounds it.
//!
//! Upstream: `kubernetes/apiserver:pkg/admission/plugin/policy/mutating/patch/smd.go`.

use std::borrow::Cow;

use serde_json::Value;

use super::check::check;
use super::form::{Form, Kind, Relation};
use super::merge::merge;
use super::{bare, scale_form};
use crate::object::part::Part;
use crate::resource::ResourceInfo;

/// Merges a partial object into an object. Both may have a kind.
///
/// # Errors
/// A field that is not declared, a value of another type or a unit, in upstream's words.
pub(crate) fn merged(
    (resource, part): (&ResourceInfo, Part),
    object: &Value,
    partial: Value,
) -> Result<Value, String> {
    let form = match part {
        Part::Scale => scale_form(),
        _ => Form::of(resource),
    };
    let partial = bare(partial);
    check(form, &partial)
        .map_err(|what| format!("failed to convert patch object to typed object: {what}"))?;
    let mut found = Vec::new();
    units(form, &partial, &mut String::new(), &mut found);
    if !found.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            found.join(", ")
        ));
    }
    let kind = ["apiVersion", "kind"].map(|name| (name, object[name].clone()));
    let below = bare(object.clone());
    let mut merged = merge(form, Some(&below), Some(Cow::Owned(partial)))?.unwrap_or(below);
    for (name, value) in kind {
        merged[name] = value;
    }
    Ok(merged)
}

/// Adds the paths of the units in a value.
fn units(form: Form<'_>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    match (form.kind(value), value) {
        (Kind::Map(mapping), Value::Object(_)) if mapping.atomic => found.push(path.clone()),
        (Kind::List(list), Value::Array(_)) if matches!(list.relation, Relation::Atomic) => {
            found.push(path.clone());
        }
        (Kind::Map(mapping), Value::Object(members)) => {
            for (name, value) in members {
                let length = path.len();
                path.push('.');
                path.push_str(name);
                units(
                    mapping.member(name).unwrap_or(Form::Deduced),
                    value,
                    path,
                    found,
                );
                path.truncate(length);
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            for item in items {
                let length = path.len();
                path.push_str("[]");
                units(list.item, item, path, found);
                path.truncate(length);
            }
        }
        _ => {}
    }
}
