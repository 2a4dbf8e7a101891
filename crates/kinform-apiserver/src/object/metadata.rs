//! The metadata of an object: its members, and the checks that do not depend on the resource.
//!
//! ```text
//! object -> finalizers, is_terminating, .. | errors of labels, annotations, owners, forbidden changes
//! ```
//!
//! Upstream: `kubernetes/apimachinery:pkg/apis/meta/v1`, `pkg/api/validation/objectmeta.go`.

use std::collections::HashSet;

use jiff::Timestamp;
use kinform_api::{FieldError, ShownValue, names as texts};
use serde_json::{Map, Value};

use super::names::path_segment_errors;
use super::shown::beginning_of;
use super::{at, text};

/// BOUND: the number of errors reported for one list or map of the metadata.
pub(crate) const MOST_ERRORS: usize = 1000;
/// BOUND: the number of controllers reported after the first. Each error contains all owners.
const MOST_CONTROLLERS: usize = 10;
/// BOUND: the size of the keys and values of all annotations together, in bytes.
pub(crate) const MAX_ANNOTATIONS: usize = 256 << 10;

/// The finalizer of an object that is deleted after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose deletion orphans its dependents.
pub(crate) const ORPHAN: &str = "orphan";

/// Returns a time in the format of metadata.
pub(crate) fn time(at: Timestamp) -> Value {
    Value::from(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Returns an object's metadata for writing.
pub(crate) fn of(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata
        .as_object_mut()
        .expect("it was made an object above")
}

/// Returns the errors in the metadata of an embedded object.
pub(crate) fn embedded_errors(members: &Map<String, Value>) -> Vec<FieldError> {
    let object = Value::Object(members.clone());
    let mut errors = Vec::new();
    let name = text(&object, &["metadata", "name"]);
    let wrong = path_segment_errors(name).into_iter();
    let wrong = wrong.filter(|_| !name.is_empty());
    errors.extend(wrong.map(|detail| FieldError::invalid("metadata.name", name, detail)));
    label_errors(&object, &mut errors);
    annotation_errors(&object, &mut errors);
    owner_errors(&object, &mut errors);
    errors
}

/// Returns the errors of a change of metadata.
pub(crate) fn change_errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if at(old, &["metadata", "deletionTimestamp"]).is_some() {
        let known: HashSet<&str> = finalizers(old).collect();
        let added: Vec<String> = finalizers(new)
            .filter(|finalizer| !known.contains(finalizer))
            .map(|finalizer| format!("{finalizer:?}"))
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new \
                 finalizers []string{{{}}}",
                added.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    for name in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (after, before) = (at(new, &["metadata", name]), at(old, &["metadata", name]));
        if after != before {
            errors.push(immutable(&format!("metadata.{name}"), after));
        }
    }
    errors
}

/// Returns the error of a field that may not change.
pub(crate) fn immutable(field: &str, value: Option<&Value>) -> FieldError {
    FieldError::invalid(field, shown(value), "field is immutable")
}

/// Returns whether a value counts as unset: null, an empty text or an empty list.
pub(crate) fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Returns a value as an error shows it.
pub(crate) fn shown(value: Option<&Value>) -> ShownValue {
    match value {
        Some(Value::String(text)) => ShownValue::from(text),
        Some(value) => ShownValue::raw(beginning_of(value)),
        None => ShownValue::raw("null"),
    }
}

/// An object's finalizers.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = at(object, &["metadata", "finalizers"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns whether a finalizer is one of those that need no domain.
pub(crate) fn is_standard_finalizer(name: &str) -> bool {
    matches!(name, ORPHAN | FOREGROUND | "kubernetes")
}

/// Returns whether an object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = at(object, &["metadata", name]).and_then(Value::as_object);
    let text = |(key, value): (&'a String, &'a Value)| (key.as_str(), value.as_str().unwrap_or(""));
    entries.into_iter().flatten().map(text)
}

/// Adds the errors of an object's labels.
pub(crate) fn label_errors(object: &Value, errors: &mut Vec<FieldError>) {
    let told = errors.len();
    for (key, value) in entries(object, "labels") {
        if errors.len() - told >= MOST_ERRORS {
            break;
        }
        let error =
            |shown: &str, detail: String| FieldError::invalid("metadata.labels", shown, detail);
        errors.extend(
            texts::label_key_errors(key)
                .into_iter()
                .map(|detail| error(key, detail)),
        );
        let wrong = texts::label_value_errors(value).into_iter();
        errors.extend(wrong.map(|detail| error(value, detail)));
    }
}

/// Adds the errors of an object's annotations.
pub(crate) fn annotation_errors(object: &Value, errors: &mut Vec<FieldError>) {
    let (mut bytes, told) = (0, errors.len());
    for (key, value) in entries(object, "annotations") {
        bytes += key.len() + value.len();
        if errors.len() - told >= MOST_ERRORS {
            continue;
        }
        let wrong = texts::label_key_errors(&key.to_lowercase()).into_iter();
        errors.extend(wrong.map(|detail| FieldError::invalid("metadata.annotations", key, detail)));
    }
    if bytes > MAX_ANNOTATIONS {
        errors.push(FieldError::too_long(
            "metadata.annotations",
            MAX_ANNOTATIONS,
        ));
    }
}

/// Adds the errors of an object's owner references.
pub(crate) fn owner_errors(object: &Value, errors: &mut Vec<FieldError>) {
    let owners = at(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
    let (mut first, mut shown): (Option<String>, Option<String>) = (None, None);
    let (told, mut controllers) = (errors.len(), 0);
    for (place, owner) in owners.into_iter().flatten().enumerate() {
        if errors.len() - told >= MOST_ERRORS {
            break;
        }
        let path = format!("metadata.ownerReferences[{place}]");
        for name in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &[name]).is_empty() {
                errors.push(FieldError::required(
                    format!("{path}.{name}"),
                    "must not be empty",
                ));
            }
        }
        let (version, kind) = (text(owner, &["apiVersion"]), text(owner, &["kind"]));
        if version.matches('/').count() > 1 || version.ends_with('/') {
            let detail = "must be <group>/<version> or <version>";
            errors.push(FieldError::invalid(
                format!("{path}.apiVersion"),
                version,
                detail,
            ));
        }
        if (version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, shown_owner(owner), detail));
        }
        if at(owner, &["controller"]) == Some(&Value::Bool(true)) {
            let name = format!("{kind}/{}", text(owner, &["name"]));
            let Some(first) = &first else {
                first = Some(name);
                continue;
            };
            controllers += 1;
            if controllers > MOST_CONTROLLERS {
                continue;
            }
            let shown = shown.get_or_insert_with(|| {
                let all: Vec<String> = owners.into_iter().flatten().map(owner_text).collect();
                format!("[{}]", all.join(","))
            });
            let detail = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references \
                 for {first} and {name}"
            );
            errors.push(FieldError::invalid(
                "metadata.ownerReferences",
                ShownValue::raw(shown.as_str()),
                detail,
            ));
        }
    }
}

fn shown_owner(owner: &Value) -> ShownValue {
    ShownValue::raw(owner_text(owner))
}

/// Formats an owner with its members in Go's order.
fn owner_text(owner: &Value) -> String {
    let names = [
        "apiVersion",
        "kind",
        "name",
        "uid",
        "controller",
        "blockOwnerDeletion",
    ];
    let member = |name: &&str| owner.get(*name).map(|value| format!("{name:?}:{value}"));
    let members: Vec<String> = names.iter().filter_map(member).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_of_hostile_metadata_are_bounded() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u",
            "controller": true});
        let owners = |owner: Value| {
            let list = Value::from(vec![owner; 20_000]);
            let mut errors = Vec::new();
            owner_errors(&json!({"metadata": {"ownerReferences": list}}), &mut errors);
            errors
        };
        let conflicts = owners(owner);
        assert_eq!(conflicts.len(), MOST_CONTROLLERS);
        let text = conflicts[0].to_string();
        assert!(text.contains("for Pod/p and Pod/p"), "it names both");
        let empty = owners(json!({}));
        assert!((MOST_ERRORS..MOST_ERRORS + 4).contains(&empty.len()));
        let labels: Map<String, Value> = (0..20_000)
            .map(|at| (format!("-{at}"), json!("-")))
            .collect();
        let object = json!({"metadata": {"labels": labels, "annotations": labels}});
        let mut errors = Vec::new();
        label_errors(&object, &mut errors);
        annotation_errors(&object, &mut errors);
        assert!(errors.len() < 2 * (MOST_ERRORS + 10), "{}", errors.len());
    }
}
