//! The strategy of a type, applied to an object: status, generation and the type's own checks.
//!
//! ```text
//! prepare_create(new)      prepare_update(part, new, old) -> the object as it would be stored
//! ```
//!
//! The differences between types are in the table of `resource/rules.rs`; this code is shared by
//! all.
//!
//! Upstream: `PrepareForCreate`, `PrepareForUpdate`, `Validate*` of the strategies in
//! `kubernetes/kubernetes:pkg/registry` and `apiextensions-apiserver:pkg/registry/customresource`.

use kinform_api::FieldError;
use serde_json::{Map, Value};

use super::status::{prepare_status, put_status};
use super::{defaults, service_addresses, subresources, validation};
use crate::budget::Meter;
use crate::object::part::Part;
use crate::object::{at, metadata};
use crate::resource::{Generation, ResourceInfo, Shape};

/// The state of the server that goes into an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh<'a> {
    pub(crate) now: defaults::Now<'a>,
    /// The addresses that services have.
    pub(crate) taken: &'a service_addresses::Taken,
}

/// Status, generation and defaults of a new object.
pub(crate) fn prepare_create(resource: &ResourceInfo, fresh: Fresh<'_>, object: &mut Value) {
    if resource.has_status() && resource.rules.resets_status {
        put_status(resource, object, None);
    }
    if let Shape::Builtin(of) = &resource.shape {
        defaults::begin(of, object, fresh.now);
    }
    service_addresses::assign(resource, fresh.taken, object);
    if !matches!(
        resource.rules.generation,
        Generation::Absent | Generation::SpecChanges
    ) {
        metadata::of(object).insert("generation".to_owned(), Value::from(1));
    }
}

/// Keeps the parts that this request does not write, and counts the generation.
pub(crate) fn prepare_update(
    resource: &ResourceInfo,
    part: Part,
    fresh: Fresh<'_>,
    (new, old): (&mut Value, &Value),
) {
    match part {
        Part::Main | Part::Scale if resource.has_status() => {
            put_status(resource, new, old.get("status"));
        }
        Part::Main | Part::Scale => {}
        Part::Status => {
            let owners = at(new, &["metadata", "managedFields"]).cloned();
            prepare_status(resource, new, old);
            put_owners(new, owners);
        }
        Part::Finalize => put_status(resource, new, old.get("status")),
        Part::EphemeralContainers | Part::Resize | Part::Approval => {
            let owners = at(new, &["metadata", "managedFields"]).cloned();
            subresources::prepare(part, new, old, fresh.now.at);
            put_owners(new, owners);
        }
    }
    metadata::of(new).remove("resourceVersion");
    if part == Part::Main {
        if resource.is_core("namespaces") {
            // Only the finalize subresource changes these.
            new["spec"] = old.get("spec").cloned().unwrap_or_default();
        }
        service_addresses::keep(resource, fresh.taken, new, old);
        if let Shape::Builtin(of) = &resource.shape {
            defaults::keep(of, new, old);
            if resource.is_core("pods") {
                defaults::admit_pod(new);
            }
        }
    }
}

/// Counts a change in the generation. Comes after everything that changes the object.
pub(crate) fn count_generation(resource: &ResourceInfo, part: Part, new: &mut Value, old: &Value) {
    let grows = !matches!(part, Part::Status | Part::Approval) && has_grown(resource, new, old);
    let generation = at(old, &["metadata", "generation"])
        .and_then(Value::as_i64)
        .unwrap_or(0);
    if grows && resource.rules.generation != Generation::Absent {
        metadata::of(new).insert("generation".to_owned(), Value::from(generation + 1));
    }
}

/// Errors of an object, except those of its metadata.
pub(crate) fn errors(resource: &ResourceInfo, object: &Value, meter: &Meter) -> Vec<FieldError> {
    let mut errors = match &resource.shape {
        Shape::Builtin(of) if !resource.is_definition() => validation::errors(of, object, meter),
        // The checks of definitions and schemas are in `content`.
        _ => Vec::new(),
    };
    if let Some(max) = resource.rules.max_data_bytes {
        let size = |name: &str| {
            let entries = at(object, &[name]).and_then(Value::as_object);
            let bytes = |(key, value): (&String, &Value)| {
                let text = value.as_str().map_or(0, str::len);
                key.len()
                    + if name == "binaryData" || resource.kind == "Secret" {
                        text / 4 * 3
                    } else {
                        text
                    }
            };
            entries.into_iter().flatten().map(bytes).sum::<usize>()
        };
        if size("data") + size("binaryData") > max {
            let field = if resource.kind == "Secret" {
                "data"
            } else {
                "[]"
            };
            errors.push(FieldError::too_long(field, max));
        }
    }
    errors
}

/// Errors that only a new object can have.
pub(crate) fn new_errors(
    resource: &ResourceInfo,
    object: &Value,
    meter: &Meter,
) -> Vec<FieldError> {
    match &resource.shape {
        Shape::Builtin(of) => validation::new_errors(of, object, meter),
        Shape::Custom(_) => Vec::new(),
    }
}

/// Errors of an update of the object itself, not of a subresource.
pub(crate) fn main_change_errors(
    resource: &ResourceInfo,
    (new, old): (&Value, &Value),
    meter: &Meter,
) -> Vec<FieldError> {
    match &resource.shape {
        Shape::Builtin(of) => validation::change_errors(of, (new, old), meter),
        Shape::Custom(_) => Vec::new(),
    }
}

/// Errors of an update, except those of its metadata.
pub(crate) fn change_errors(resource: &ResourceInfo, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for path in resource.rules.immutable {
        let members: Vec<&str> = path.split('.').collect();
        let (after, before) = (at(new, &members), at(old, &members));
        if after != before {
            errors.push(metadata::immutable(path, after));
        }
    }
    if old.get("immutable") == Some(&Value::Bool(true)) {
        let detail = "field is immutable when `immutable` is set";
        for name in ["immutable", "data", "binaryData"] {
            if new.get(name) != old.get(name) {
                errors.push(FieldError::forbidden(name, detail));
            }
        }
    }
    errors
}

/// Sets the managed fields of an object, on every write.
fn put_owners(object: &mut Value, owners: Option<Value>) {
    let metadata = metadata::of(object);
    match owners {
        Some(owners) => _ = metadata.insert("managedFields".to_owned(), owners),
        None => _ = metadata.remove("managedFields"),
    }
}

fn has_grown(resource: &ResourceInfo, new: &Value, old: &Value) -> bool {
    match resource.rules.generation {
        Generation::Absent | Generation::Constant => false,
        Generation::Spec | Generation::SpecChanges => new.get("spec") != old.get("spec"),
        Generation::Content => content_differs(resource, new, old),
        Generation::ContentAndLabels => {
            let differs = |name| at(new, &["metadata", name]) != at(old, &["metadata", name]);
            content_differs(resource, new, old) || differs("labels") || differs("annotations")
        }
    }
}

/// Returns whether the objects differ outside of the metadata, and outside of the status if that is
/// a subresource.
fn content_differs(resource: &ResourceInfo, new: &Value, old: &Value) -> bool {
    let empty = Map::new();
    let skips = |name: &str| name == "metadata" || (name == "status" && resource.has_status());
    let (new, old) = (
        new.as_object().unwrap_or(&empty),
        old.as_object().unwrap_or(&empty),
    );
    let content = |object: &Map<String, Value>| object.keys().filter(|name| !skips(name)).count();
    content(new) != content(old)
        || new
            .iter()
            .any(|(name, value)| !skips(name) && old.get(name) != Some(value))
}
