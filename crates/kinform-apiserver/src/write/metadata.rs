//! What the server sets, keeps and checks in an object's metadata.
//!
//! ```text
//! new object -> uid, creationTimestamp set, what only a server may say removed -> errors
//! new + old object -> what is absent is kept, what may not change is an error
//! ```
//!
//! `managedFields` are made before (`fields/`) and not looked at here.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/{create,update,meta}.go`,
//! `kubernetes/apimachinery:pkg/api/validation/objectmeta.go`.

use std::collections::HashSet;

use jiff::Timestamp;
use kinform_api::{FieldError, ShownValue, names as texts};
use serde_json::{Map, Value};

use super::{Context, at, names, text};
use crate::resource::{NameRule, PrefixRule, ResourceInfo};

/// BOUND: errors that are told of one list or map of the metadata.
const MOST_ERRORS: usize = 1000;
/// BOUND: controllers that are told after the first: each is told with the text of all owners.
const MOST_CONTROLLERS: usize = 10;
/// BOUND: keys and values of all annotations together.
pub(super) const MAX_ANNOTATIONS: usize = 256 << 10;

/// The finalizer of what goes after its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of what leaves its dependents behind.
pub(crate) const ORPHAN: &str = "orphan";

/// Fields that an update keeps if it does not say them.
const KEPT: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// A time as metadata writes it.
pub(crate) fn time(at: Timestamp) -> Value {
    Value::from(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// An object's metadata, to be written to.
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

/// Sets what the server says about a new object, and makes its name if it asks for one.
pub(super) fn prepare_create(cx: &Context<'_>, object: &mut Value) {
    let metadata = of(object);
    for name in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ] {
        metadata.remove(name);
    }
    metadata.insert("uid".to_owned(), Value::from(cx.fresh.uid.as_str()));
    metadata.insert("creationTimestamp".to_owned(), time(cx.now));
    let said = |name| {
        metadata
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    if said("name").is_empty() && !said("generateName").is_empty() {
        let name = names::generate(said("generateName"), &cx.fresh.suffix);
        metadata.insert("name".to_owned(), Value::from(name));
    } else if said("name").is_empty() && cx.resource.is_core("limitranges") {
        // Nobody looks for them by name.
        metadata.insert("name".to_owned(), Value::from(cx.fresh.uid.as_str()));
    }
}

/// Keeps what an update did not say.
pub(super) fn prepare_update(new: &mut Value, old: &Value) {
    let metadata = of(new);
    metadata.remove("selfLink");
    metadata.remove("resourceVersion");
    for name in KEPT {
        let is_ours = matches!(name, "generation" | "creationTimestamp");
        let absent = metadata.get(name).is_none_or(Value::is_null) || is_ours;
        match at(old, &["metadata", name]) {
            Some(kept) if absent => _ = metadata.insert(name.to_owned(), kept.clone()),
            None if absent => _ = metadata.remove(name),
            _ => {}
        }
    }
}

/// What is wrong with an object's metadata.
pub(super) fn errors(cx: &Context<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = text(object, &["metadata", "generateName"]);
    let is_checked = match cx.resource.rules.prefix {
        PrefixRule::Never => false,
        PrefixRule::New => old.is_none(),
        PrefixRule::Always => true,
    };
    if !prefix.is_empty() && is_checked {
        let wrong = names::errors(cx.resource.rules.name, prefix, true);
        let error = |detail| FieldError::invalid("metadata.generateName", prefix, detail);
        errors.extend(wrong.into_iter().map(error));
    }
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required("metadata.name", detail));
    } else {
        let wrong = names::errors(cx.resource.rules.name, name, false);
        let error = |detail| FieldError::invalid("metadata.name", name, detail);
        errors.extend(wrong.into_iter().map(error));
    }
    label_errors(object, &mut errors);
    annotation_errors(object, &mut errors);
    owner_errors(object, &mut errors);
    let told = errors.len();
    for (place, finalizer) in finalizers(object).enumerate() {
        if errors.len() - told >= MOST_ERRORS {
            break;
        }
        let error = |detail| FieldError::invalid("metadata.finalizers", finalizer, detail);
        let wrong = texts::label_key_errors(finalizer);
        let is_free = cx.resource.is_custom() || is_standard_finalizer(finalizer);
        if wrong.is_empty() && !is_free && !finalizer.contains('/') {
            let field = format!("metadata.finalizers[{place}]");
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(field, finalizer, detail));
        }
        errors.extend(wrong.into_iter().map(error));
    }
    errors
}

/// What is wrong with the metadata of an object within another one.
pub(crate) fn embedded_errors(members: &Map<String, Value>) -> Vec<FieldError> {
    let object = Value::Object(members.clone());
    let mut errors = Vec::new();
    let name = text(&object, &["metadata", "name"]);
    let wrong = names::errors(NameRule::PathSegment, name, false).into_iter();
    let wrong = wrong.filter(|_| !name.is_empty());
    errors.extend(wrong.map(|detail| FieldError::invalid("metadata.name", name, detail)));
    label_errors(&object, &mut errors);
    annotation_errors(&object, &mut errors);
    owner_errors(&object, &mut errors);
    errors
}

/// What is wrong with a change of metadata.
pub(super) fn change_errors(new: &Value, old: &Value) -> Vec<FieldError> {
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

/// A field that may not change.
pub(super) fn immutable(field: &str, value: Option<&Value>) -> FieldError {
    FieldError::invalid(field, shown(value), "field is immutable")
}

/// Whether a member says nothing.
pub(crate) fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// A value as an error shows it.
pub(crate) fn shown(value: Option<&Value>) -> ShownValue {
    match value {
        Some(Value::String(text)) => ShownValue::from(text),
        Some(value) => ShownValue::raw(value.to_string()),
        None => ShownValue::raw("null"),
    }
}

/// An object's finalizers.
pub(crate) fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = at(object, &["metadata", "finalizers"]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Whether a finalizer is one of those that need no domain.
pub(crate) fn is_standard_finalizer(name: &str) -> bool {
    matches!(name, ORPHAN | FOREGROUND | "kubernetes")
}

/// Whether something holds an object that is to be deleted: time, finalizers, the content of a namespace.
pub(super) fn is_held(resource: &ResourceInfo, object: &Value) -> bool {
    let grace = at(object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let namespace = || {
        let finalizers = at(object, &["spec", "finalizers"]).and_then(Value::as_array);
        resource.is_core("namespaces") && finalizers.is_some_and(|list| !list.is_empty())
    };
    grace.unwrap_or(0) > 0 || finalizers(object).next().is_some() || namespace()
}

/// Whether an object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}

fn entries<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let entries = at(object, &["metadata", name]).and_then(Value::as_object);
    let text = |(key, value): (&'a String, &'a Value)| (key.as_str(), value.as_str().unwrap_or(""));
    entries.into_iter().flatten().map(text)
}

fn label_errors(object: &Value, errors: &mut Vec<FieldError>) {
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

fn annotation_errors(object: &Value, errors: &mut Vec<FieldError>) {
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

fn owner_errors(object: &Value, errors: &mut Vec<FieldError>) {
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

/// An owner with its members in Go's order.
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
