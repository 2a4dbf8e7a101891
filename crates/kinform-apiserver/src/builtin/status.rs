//! The status of an object: kept by writes of the object, written by writes of the `status` subresource.
//!
//! ```text
//! write of the object ──put_status──▶ status as it was
//! write of the status ──prepare_status──▶ all else as it was
//! ```
//!
//! Upstream: `PrepareForUpdate` of the strategies and of their status strategies.

use serde_json::Value;

use crate::object::part::Part;
use crate::object::{at, typed};
use crate::ownership::resets;
use crate::resource::{ResourceInfo, Shape};

/// Sets the status, or the initial one if no status is set.
pub(super) fn put_status(resource: &ResourceInfo, object: &mut Value, status: Option<&Value>) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let empty = || match &resource.shape {
        Shape::Builtin(of) => typed::empty_member(of, "status"),
        Shape::Custom(_) => None,
    };
    match status.cloned().or_else(empty) {
        Some(status) => _ = object.insert("status".to_owned(), status),
        None => _ = object.remove("status"),
    }
}

/// Keeps all that a write of the status does not write: of a custom object all but the status, of a
/// built-in the fields that its strategy resets.
pub(super) fn prepare_status(resource: &ResourceInfo, new: &mut Value, old: &Value) {
    if resource.is_custom() {
        let status = new.get("status").cloned();
        *new = old.clone();
        put_status(resource, new, status.as_ref());
        return;
    }
    for path in resets::of(resource, Part::Status) {
        put_back(path, new, old);
    }
}

/// Restores the member at a path.
fn put_back(path: &str, new: &mut Value, old: &Value) {
    let (parents, last) = match path.rsplit_once('.') {
        Some((parents, last)) => (parents.split('.').collect(), last),
        None => (Vec::new(), path),
    };
    let was = at(old, &parents).and_then(|parent| parent.get(last));
    let place = parents
        .iter()
        .try_fold(new, |value, name| value.get_mut(*name));
    let Some(place) = place.and_then(Value::as_object_mut) else {
        return;
    };
    match was {
        Some(was) => _ = place.insert(last.to_owned(), was.clone()),
        None => _ = place.remove(last),
    }
}
