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
//! BOUND: 10,000 operations; 3 MiB copied; 100 levels, so that a result can be parsed again (128).
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/handlers/patch.go`.

use json_patch::{AddOperation, PatchOperation, jsonptr::Pointer};
use kinform_api::{FieldError, GroupKind, Status, StatusDetails, mutant, reason};
use kinform_schema::Type;
use serde_json::{Map, Value};

use super::body::{
    Decoded, Refusal, bad_request, decode_patch, match_url, media_type, read_value, unsupported,
};
use super::{Context, apply, body};
use crate::budget::Meter;
use crate::builtin::strategic_merge;
use crate::object::part::Part;
use crate::object::typed::Voice;
use crate::ownership;
use crate::ownership::scale;
use crate::resource::{ResourceInfo, Shape};
use crate::write::patch::strategic_merge::refused;
use crate::write::proposal::{Owners, Proposal};

const MAX_OPERATIONS: usize = 10_000;
const MAX_COPIED: usize = 3 << 20;
const MAX_DEPTH: usize = 100;
/// Items of a list that are moved in one step.
const MOVES: usize = 64;

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// A change of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Patch {
    /// RFC 6902: operations one after the other.
    Json(Vec<PatchOperation>),
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
                if patch.0.len() > MAX_OPERATIONS {
                    return Err(too_large(&format!(
                        "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                        patch.0.len()
                    )));
                }
                Ok(Self::Json(patch.0))
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
                let mut copied = MAX_COPIED;
                operations.into_iter().try_for_each(|operation| {
                    step(value, operation, (&mut copied, meter))?;
                    meter.check()
                })
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
fn operations(patch: Value) -> Result<json_patch::Patch, Box<Status>> {
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
    ownership::updated(&cx.writer(), part, &mut object, current);
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

/// Applies one operation, after a check of its size: copies can double a value, and moves deepen
/// it.
fn step(
    value: &mut Value,
    mut operation: PatchOperation,
    (budget, meter): (&mut usize, &Meter),
) -> Result<(), Box<Status>> {
    if !meter.step(1 + moved(value, &operation) / MOVES) {
        return Ok(());
    }
    let deepest = match &operation {
        PatchOperation::Add(add) => add.path.tokens().count() + depth(&add.value),
        PatchOperation::Replace(replace) => replace.path.tokens().count() + depth(&replace.value),
        PatchOperation::Copy(copy) if lacks(value, &copy.from) => 0,
        PatchOperation::Copy(copy) => {
            copy.path.tokens().count() + weigh(value, &copy.from, budget)?
        }
        PatchOperation::Move(moved) => {
            moved.path.tokens().count() + weigh(value, &moved.from, budget)?
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
    };
    if deepest > MAX_DEPTH {
        return Err(refused());
    }
    let added = match &mut operation {
        PatchOperation::Test(_) if mutant!("S10") => return Ok(()),
        // RFC 6902 refuses these operations on an absent member; upstream's library does not.
        PatchOperation::Test(test) if test.value.is_null() && lacks(value, &test.path) => {
            return Ok(());
        }
        PatchOperation::Copy(copy) if lacks(value, &copy.from) => {
            Some(PatchOperation::Add(AddOperation {
                path: copy.path.clone(),
                value: Value::Null,
            }))
        }
        PatchOperation::Replace(replace) if lacks(value, &replace.path) => {
            Some(PatchOperation::Add(AddOperation {
                path: replace.path.clone(),
                value: replace.value.take(),
            }))
        }
        _ => None,
    };
    let mut operation = added.unwrap_or(operation);
    let content = match &mut operation {
        PatchOperation::Add(add) => Some((add.path.clone(), add.value.take())),
        PatchOperation::Replace(replace) => Some((replace.path.clone(), replace.value.take())),
        _ => None,
    };
    json_patch::patch(value, &[operation]).map_err(|_| refused())?;
    match content {
        // The library copies the values of operations: a null was put in the place.
        Some((path, content)) => put(value, &path, content).ok_or_else(refused),
        None => Ok(()),
    }
}

/// Puts a value into a place that exists.
fn put(value: &mut Value, path: &Pointer, content: Value) -> Option<()> {
    let place = match path.split_back() {
        Some((parent, last)) if last.encoded() == "-" => match parent.resolve_mut(value).ok()? {
            Value::Array(items) => items.last_mut()?,
            Value::Object(members) => members.get_mut("-")?,
            _ => return None,
        },
        _ => path.resolve_mut(value).ok()?,
    };
    *place = content;
    Some(())
}

/// Returns the number of items of a list that an operation moves at most: all of the list into which
/// it inserts, or from which it removes.
fn moved(value: &Value, operation: &PatchOperation) -> usize {
    let items = |path: &Pointer| {
        let (parent, _) = path.split_back()?;
        Some(parent.resolve(value).ok()?.as_array()?.len())
    };
    let items = |path: &Pointer| items(path).unwrap_or(0);
    match operation {
        PatchOperation::Add(add) => items(&add.path),
        PatchOperation::Remove(remove) => items(&remove.path),
        PatchOperation::Copy(copy) => items(&copy.path),
        PatchOperation::Move(moved) => items(&moved.from) + items(&moved.path),
        PatchOperation::Replace(_) | PatchOperation::Test(_) => 0,
    }
}

/// Returns whether the object that a path leads into lacks the path's last member.
fn lacks(value: &Value, path: &Pointer) -> bool {
    let member = path.split_back().and_then(|(parent, last)| {
        let members = parent.resolve(value).ok()?.as_object()?;
        Some(members.contains_key(last.decoded().as_ref()))
    });
    member == Some(false)
}

/// The depth of a copied value; its size is charged to the budget.
fn weigh(value: &Value, from: &Pointer, budget: &mut usize) -> Result<usize, Box<Status>> {
    let Ok(source) = from.resolve(value) else {
        return Err(refused());
    };
    let left = budget.checked_sub(source.to_string().len());
    *budget = left.ok_or_else(|| {
        too_large("Unable to process JSON Patch: the accumulated size of copies is too large")
    })?;
    Ok(depth(source))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 0,
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
