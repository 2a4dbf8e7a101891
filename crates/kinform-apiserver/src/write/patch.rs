//! JSON patch, merge patch and strategic merge patch.
//!
//! ```text
//! content type + body -> Patch          Patch + stored state -> the object -> as an update
//! ```
//!
//! A patch without a version applies to any stored state. Strategic merge patches are for
//! built-ins, whose types define how lists are merged (`builtin/strategic_merge/`). Server-side
//! apply is in `apply.rs`.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/patch.go`.

use kinform_api::{FieldError, GroupKind, Status, StatusDetails, reason};
use kinform_schema::Type;
use serde_json::{Map, Value};

use super::body::{
    Decoded, Refusal, bad_request, decode_patch, match_url, media_type, read_value, unsupported,
};
use super::{Context, apply, body};
use crate::budget::Meter;
use crate::builtin::strategic_merge;
use crate::object::json_patch::{self, MAX_OPERATIONS, Misfit, Operation};
use crate::object::part::Part;
use crate::object::typed::Voice;
use crate::ownership;
use crate::ownership::scale;
use crate::resource::{ResourceInfo, Shape};
use crate::write::patch::strategic_merge::refused;
use crate::write::proposal::{Owners, Proposal};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// RFC 6902: operations one after the other.
    Json(Vec<Operation>),
    /// RFC 7396: a value laid over another; null removes.
    Merge(Value, Doubled),
    /// A merge that knows the type.
    Strategic(Map<String, Value>, Doubled),
}

/// Paths of duplicate members of a patch.
type Doubled = Vec<String>;

impl Patch {
    /// Parses a request's body.
    ///
    /// # Errors
    /// 415 for another kind of patch, 400 for a malformed one, 413 for too many operations.
    pub(crate) fn read(
        resource: &ResourceInfo,
        content_type: Option<&str>,
        bytes: &[u8],
    ) -> Result<Self, Box<Status>> {
        match media_type(content_type) {
            STRATEGIC_PATCH if !resource.is_custom() => match decode_patch(bytes)? {
                (Value::Object(patch), doubled) => Ok(Self::Strategic(patch, doubled)),
                (other, _) => Err(bad_request(unfit(&other, MEMBERS))),
            },
            MERGE_PATCH => match decode_patch(bytes)? {
                (patch @ Value::Object(_), doubled) => Ok(Self::Merge(patch, doubled)),
                (other, _) => {
                    let unfit = unfit(&other, MEMBERS);
                    Err(bad_request(format!("error decoding patch: {unfit}")))
                }
            },
            JSON_PATCH => {
                let patch = operations(decode_patch(bytes)?.0)?;
                if patch.len() > MAX_OPERATIONS {
                    return Err(too_large(&format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                        patch.len()
                    )));
                }
                Ok(Self::Json(patch))
            }
            STRATEGIC_PATCH | "application/apply-patch+cbor" => {
                let accepted = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply::MEDIA_TYPE];
                let is_accepted = |kind: &&str| !resource.is_custom() || *kind != STRATEGIC_PATCH;
                let accepted: Vec<&str> = accepted.into_iter().filter(is_accepted).collect();
                Err(unsupported(&accepted))
            }
            _ => {
                let message = "415: Unsupported Media Type";
                let status = Status::failure(415, reason::UNSUPPORTED_MEDIA_TYPE, message);
                Err(Box::new(status.with_details(StatusDetails::default())))
            }
        }
    }

    /// Component whose wording errors of the result follow.
    fn voice(&self) -> Voice {
        match self {
            Self::Strategic(..) => Voice::Converter,
            _ => Voice::Decoder,
        }
    }

    /// Duplicate members of the patch, as messages.
    fn doubled(&self) -> Vec<String> {
        match self {
            Self::Merge(_, doubled) | Self::Strategic(_, doubled) => {
                let words = doubled
                    .iter()
                    .map(|path| format!("duplicate field {path:?}"));
                words.collect()
            }
            Self::Json(_) => Vec::new(),
        }
    }

    /// Lays the patch over a value. Its own values move there, so that there is no copy of them.
    fn apply(self, of: Option<&Type>, value: &mut Value, meter: &Meter) -> Result<(), Box<Status>> {
        match self {
            Self::Strategic(patch, _) => match (of, value) {
                (Some(of), Value::Object(value)) => strategic_merge::merge(of, value, patch),
                _ => Err(refused()),
            },
            Self::Merge(patch, _) => {
                merge(value, patch);
                Ok(())
            }
            Self::Json(operations) => {
                json_patch::apply(value, operations, meter).map_err(not_applied)
            }
        }
    }
}

/// Lays a value over another by RFC 7396.
fn merge(value: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *value = patch;
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let Some(members) = value.as_object_mut() else {
        return;
    };
    for (name, patch) in patch {
        match patch {
            Value::Null => _ = members.remove(&name),
            patch => merge(members.entry(name).or_insert(Value::Null), patch),
        }
    }
}

/// The Go type of a patch of members.
const MEMBERS: &str = "map[string]interface {}";

/// Go's message for a value of another type.
fn unfit(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go value of type {wanted}")
}

/// The operations of a JSON patch.
///
/// # Errors
/// 400 for a value that is not a list of objects, 422 for an unknown or incomplete operation.
fn operations(patch: Value) -> Result<Vec<Operation>, Box<Status>> {
    let refuse = |value: &Value, wanted: &str| {
        let unfit = unfit(value, wanted);
        Err(bad_request(format!("error decoding patch: {unfit}")))
    };
    let Value::Array(operations) = &patch else {
        return refuse(&patch, "[]handlers.jsonPatchOp");
    };
    if let Some(other) = operations.iter().find(|operation| !operation.is_object()) {
        return refuse(other, "handlers.jsonPatchOp");
    }
    serde_json::from_value(patch).map_err(|_| refused())
}

/// Error for operations that do not apply to the object.
fn not_applied(misfit: Misfit) -> Box<Status> {
    match misfit {
        Misfit::Operation(_) => refused(),
        Misfit::Copies => {
            too_large("Unable to process JSON Patch: the accumulated size of copies is too large")
        }
        Misfit::Request(status) => status,
    }
}

/// Proposes the result of a patch on the stored state.
///
/// # Errors
/// 404 without a stored state, 422 for a patch that does not apply, and those of an update.
pub(crate) fn propose(
    cx: &Context<'_>,
    name: &str,
    part: Part,
    patch: Patch,
    current: Option<&Value>,
) -> Result<Proposal, Box<Status>> {
    let resource = cx.resource;
    let Some(current) = current else {
        return Err(Box::new(Status::not_found(
            &resource.group_resource(),
            name,
        )));
    };
    let mut value = match part {
        Part::Scale => scale::scale_of(resource, current),
        _ => current.clone(),
    };
    if part != Part::Scale {
        value["apiVersion"] = Value::from(resource.api_version());
        value["kind"] = Value::from(resource.kind.as_str());
    }
    let of = match (&resource.shape, part) {
        (_, Part::Scale) => kinform_schema::builtin("autoscaling", "v1", "Scale"),
        (Shape::Builtin(of), _) => Some(*of),
        (Shape::Custom(_), _) => None,
    };
    let (doubled, voice) = (patch.doubled(), patch.voice());
    patch.apply(of, &mut value, cx.meter)?;
    let Decoded {
        mut object,
        warnings,
    } = read_value(cx, part, value, (body::Doubled::Told(doubled), voice)).map_err(not_decoded)?;
    match_url(cx, Some(name), &mut object)?;
    if part == Part::Scale {
        object = scale::into_object(resource, &object, current)?;
    }
    ownership::updated_in(&cx.writer(), part, (&mut object, current), cx.versions());
    Ok(Proposal {
        object,
        warnings,
        owners: Owners::Spared,
    })
}

/// Error for a result that is not an object of its kind, or that has unknown fields where they are
/// forbidden.
fn not_decoded(refusal: Refusal) -> Box<Status> {
    match refusal {
        Refusal::Type(what) | Refusal::Strict(what) => {
            // The error quotes neither object nor patch: they may hold a secret.
            let error = FieldError::invalid("patch", "", what);
            Box::new(Status::invalid(&GroupKind::new("", ""), "", &[error]))
        }
        Refusal::Status(status) => status,
    }
}

fn too_large(message: &str) -> Box<Status> {
    Box::new(Status::failure(
        413,
        reason::REQUEST_ENTITY_TOO_LARGE,
        message,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::{Found, Registry};
    use crate::storage::Store;

    fn apply(content_type: &str, patch: &Value, mut value: Value) -> Result<Value, u16> {
        let store = Store::new(crate::storage::HistoryLimits::default());
        let Found::Resource(maps) = Registry::built_in(&store).find("", "v1", "configmaps") else {
            panic!("no config maps")
        };
        let Shape::Builtin(of) = &maps.shape else {
            panic!("not built in")
        };
        let patch = Patch::read(&maps, Some(content_type), patch.to_string().as_bytes());
        let patch = patch.map_err(|status| status.code)?;
        let done = patch.apply(Some(of), &mut value, &Meter::of_object());
        done.map_err(|status| status.code)?;
        Ok(value)
    }

    #[test]
    fn s10_patches_apply_or_are_refused_whole() {
        let value = || json!({"a": {"b": 1}, "c": [1]});
        assert_eq!(
            apply(
                MERGE_PATCH,
                &json!({"a": null, "d": {"e": null, "f": 2}}),
                value()
            ),
            Ok(json!({"c": [1], "d": {"f": 2}}))
        );
        let add = json!([{"op": "test", "path": "/a/b", "value": 1},
            {"op": "add", "path": "/c/-", "value": 2}]);
        assert_eq!(
            apply(JSON_PATCH, &add, value()),
            Ok(json!({"a": {"b": 1}, "c": [1, 2]}))
        );
        let absent = json!([{"op": "replace", "path": "/a/new", "value": 3},
            {"op": "test", "path": "/a/none", "value": null}]);
        assert_eq!(
            apply(JSON_PATCH, &absent, value()),
            Ok(json!({"a": {"b": 1, "new": 3}, "c": [1]}))
        );
        for refused in [
            json!([{"op": "replace", "path": "/nope/new", "value": 3}]),
            json!([{"op": "replace", "path": "/c/7", "value": 3}]),
            json!([{"op": "test", "path": "/a/none", "value": 1}]),
            json!([{"op": "nope", "path": "/a"}]),
        ] {
            assert_eq!(apply(JSON_PATCH, &refused, value()), Err(422), "{refused}");
        }
        let missing = json!([{"op": "remove", "path": "/nope"}]);
        assert_eq!(apply(JSON_PATCH, &missing, value()), Err(422));
        assert_eq!(apply(JSON_PATCH, &json!({"op": "add"}), value()), Err(400));
        assert_eq!(apply("application/x-patch", &json!({}), value()), Err(415));
        let labels = json!({"metadata": {"labels": {"a": null, "b": "c"}}});
        let before = json!({"metadata": {"labels": {"a": "b"}}});
        let after = json!({"metadata": {"labels": {"b": "c"}}});
        assert_eq!(apply(STRATEGIC_PATCH, &labels, before), Ok(after));
        assert_eq!(apply(STRATEGIC_PATCH, &json!([]), value()), Err(400));
        assert_eq!(
            apply("application/apply-patch+cbor", &json!({}), value()),
            Err(415)
        );
    }

    #[test]
    fn a_patch_cannot_grow_without_bound() {
        let mut operations = vec![json!({"op": "add", "path": "/x", "value": "y".repeat(1000)})];
        for at in 0..40 {
            operations.push(json!({"op": "copy", "from": "", "path": format!("/z{at}")}));
        }
        let grown = apply(JSON_PATCH, &Value::from(operations), json!({}));
        assert_eq!(grown.err(), Some(413));
        let mut operations = vec![json!({"op": "add", "path": "/m", "value": {}})];
        for _ in 0..300 {
            operations.push(json!({"op": "add", "path": "/n", "value": {}}));
            operations.push(json!({"op": "move", "from": "/m", "path": "/n/m"}));
            operations.push(json!({"op": "move", "from": "/n", "path": "/m"}));
        }
        assert_eq!(
            apply(JSON_PATCH, &Value::from(operations), json!({})),
            Err(422)
        );
        let many = vec![json!({"op": "test", "path": "", "value": {}}); MAX_OPERATIONS + 1];
        assert_eq!(apply(JSON_PATCH, &Value::from(many), json!({})), Err(413));
    }
}
