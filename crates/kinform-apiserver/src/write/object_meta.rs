//! The metadata of an object under a request: set, kept and validated by the server.
//!
//! ```text
//! new object -> uid, creationTimestamp set, server-only fields removed -> errors
//! new + old object -> absent fields are kept
//! ```
//!
//! `managedFields` are made before (`ownership/`) and not checked here. The checks that need no
//! resource are in `object/metadata.rs`.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/rest/{create,update,meta}.go`,
//! `kubernetes/apimachinery:pkg/api/validation/objectmeta.go`.

use kinform_api::{FieldError, names as texts};
use serde_json::Value;

use super::Context;
use crate::builtin::names;
use crate::object::metadata::{
    MOST_ERRORS, annotation_errors, finalizers, is_standard_finalizer, label_errors, of,
    owner_errors, time,
};
use crate::object::{at, text};
use crate::resource::PrefixRule;

/// Fields that an update keeps if it omits them.
const KEPT: [&str; 5] = [
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// Sets the system fields of a new object, and generates its name if requested.
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
        // Limit ranges are not looked up by name.
        metadata.insert("name".to_owned(), Value::from(cx.fresh.uid.as_str()));
    }
}

/// Keeps the fields that an update omits.
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

/// Errors of an object's metadata.
pub(super) fn errors(cx: &Context<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = text(object, &["metadata", "generateName"]);
    let is_checked = match cx.resource.rules.prefix {
        PrefixRule::Never => false,
        PrefixRule::New => old.is_none(),
        PrefixRule::Always => true,
    };
    if !prefix.is_empty() && is_checked {
        let wrong = names::errors_in(object, cx.resource.rules.name, prefix, true);
        let error = |detail| FieldError::invalid("metadata.generateName", prefix, detail);
        errors.extend(wrong.into_iter().map(error));
    }
    let name = text(object, &["metadata", "name"]);
    if name.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required("metadata.name", detail));
    } else {
        let wrong = names::errors_in(object, cx.resource.rules.name, name, false);
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
