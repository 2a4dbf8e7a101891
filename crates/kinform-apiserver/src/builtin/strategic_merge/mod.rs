//! Strategic merge patch: a merge that knows which lists are merged, and by which key.
//!
//! ```text
//! patch + stored value + Type -> merged value | refused in upstream's words
//! ```
//!
//! Maps are merged member by member, null deletes. Lists whose field says `merge` are merged item
//! by item: objects by the merge key, scalars by value; other lists are replaced. Directives:
//! * `$patch: delete | replace` in a map, or in an item that names the merge key;
//! * `$deleteFromPrimitiveList/x`: scalars that leave the list `x`;
//! * `$setElementOrder/x`: the order of the list `x`; items that it does not name keep their
//!   places;
//! * `$retainKeys`: members that the list does not name go away.
//!
//! Custom resources have no such types: their patches of this kind are refused before they come
//! here. Recursion is as deep as the patch, which the parser bounds (128). Lists are merged by
//! hashed keys: n log n.
//!
//! Upstream: `apimachinery:pkg/util/strategicpatch/patch.go`.

use std::collections::{HashMap, HashSet};

use kinform_api::Status;
use kinform_api::StatusDetails;
use kinform_api::reason;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

const BAD_PRIMITIVE_LIST: &str = "invalid patch format of primitive list";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_ORDER: &str = "invalid patch format of setElementOrder list";

type Result<T> = std::result::Result<T, Box<Status>>;

/// Lays a patch over an object of a type.
///
/// # Errors
/// 400 and 422 for directives that are malformed, 500 as upstream for patches that contradict
/// themselves or the type.
pub(crate) fn merge(
    of: &Type,
    original: &mut Map<String, Value>,
    patch: Map<String, Value>,
) -> Result<()> {
    merge_map(Place::Struct(of), original, patch)
}

/// Schema of the place of a map: the type of its members.
#[derive(Clone, Copy)]
enum Place<'a> {
    Struct(&'a Type),
    /// A map with arbitrary keys.
    Map,
    /// A value that Go keeps as bytes.
    Raw,
}

impl<'a> Place<'a> {
    /// The field of a member that is merged with another of its kind.
    fn field(self, name: &str) -> Result<&'a Field> {
        match self {
            Place::Struct(of) => of.field(name).ok_or_else(|| {
                let of = of.name();
                other(format!(
                    "unable to find api field in struct {of} for the json field {name:?}"
                ))
            }),
            Place::Map => {
                let text = "merging an object in json but data type is not struct, instead is: map";
                Err(other(text.to_owned()))
            }
            Place::Raw => Err(other(format!(
                "unable to find api field in struct RawExtension for the json field {name:?}"
            ))),
        }
    }

    fn of_member(field: &'a Field) -> Self {
        match (field.container(), field.field_type()) {
            (Container::Map, _) => Place::Map,
            (Container::Single | Container::List, FieldType::Message(of)) => Place::Struct(of),
            _ => Place::Raw,
        }
    }
}

fn merge_map(
    place: Place<'_>,
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
) -> Result<()> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        *original = match directive.as_str() {
            Some("replace") => patch,
            Some("delete") => Map::new(),
            _ => return Err(unknown_directive(&directive)),
        };
        return Ok(());
    }
    retain_keys(original, &mut patch)?;
    merge_ordered_lists(place, original, &mut patch)?;
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM_LIST) {
            let name = list
                .strip_prefix('/')
                .ok_or_else(|| bad(BAD_PRIMITIVE_LIST))?;
            delete_from_list(original, name, &value)?;
            continue;
        }
        match (original.get_mut(&name), value) {
            (_, Value::Null) => _ = original.remove(&name),
            (Some(Value::Object(before)), Value::Object(after)) => {
                let field = place.field(&name)?;
                if field.patch_strategy().replace {
                    *before = after;
                } else {
                    merge_map(Place::of_member(field), before, after)?;
                }
            }
            (Some(Value::Array(before)), Value::Array(after)) => {
                let field = place.field(&name)?;
                merge_list(field, before, after)?;
            }
            (_, value) => _ = original.insert(name, cleaned(value)),
        }
    }
    Ok(())
}

/// Takes `$retainKeys` out of the patch and applies it.
fn retain_keys(original: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let keys = keys.as_array().ok_or_else(|| bad(BAD_RETAIN_KEYS))?;
    let keys: HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_named = |(name, value): (&String, &Value)| {
        value.is_null()
            || name.starts_with(DELETE_FROM_LIST)
            || name.starts_with(SET_ORDER)
            || keys.contains(name.as_str())
    };
    if !patch.iter().all(is_named) {
        return Err(bad(BAD_RETAIN_KEYS));
    }
    original.retain(|name, _| keys.contains(name.as_str()));
    Ok(())
}

/// Takes the lists with a declared order out of the patch, merges and orders them.
fn merge_ordered_lists(
    place: Place<'_>,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
) -> Result<()> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let order = list(patch.remove(&directive).unwrap_or_default())?;
        let name = directive[SET_ORDER.len()..].strip_prefix('/');
        let name = name.ok_or_else(|| bad(BAD_ORDER))?;
        let before = original.get(name).cloned().map(list).transpose()?;
        let after = patch.remove(name).filter(|value| !value.is_null());
        let after = after.map(list).transpose()?;
        let field = place.field(name)?;
        let key = field.merge_key();
        check_order(key, after.as_deref().unwrap_or_default(), &order)?;
        let server_order = before.clone().unwrap_or_default();
        let merged = match (before, after) {
            (None, None) => continue,
            (Some(before), None) => before,
            (None, Some(after)) => after.into_iter().filter_map(clean_item).collect(),
            (Some(mut before), Some(after)) => {
                merge_list(field, &mut before, after)?;
                before
            }
        };
        let ordered = in_order(key, merged, &order, &server_order)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

/// Checks that the items of a patch stand in the order that the patch declares.
fn check_order(key: Option<&str>, items: &[Value], order: &[Value]) -> Result<()> {
    if items.is_empty() || order.is_empty() {
        return Ok(());
    }
    let is_delete =
        |item: &&Value| key.is_some() && item.get(DIRECTIVE).is_some_and(|d| d == "delete");
    let mut places = order.iter();
    for item in items.iter().filter(|item| !is_delete(item)) {
        let wanted = identity(key, item)?;
        let found = places
            .by_ref()
            .any(|place| identity(key, place).is_ok_and(|it| it == wanted));
        if !found {
            // Upstream prints both lists, which may hold secrets.
            let text = "The order in patch list doesn't match $setElementOrder list";
            return Err(other(text.to_owned()));
        }
    }
    Ok(())
}

fn merge_list(field: &Field, original: &mut Vec<Value>, patch: Vec<Value>) -> Result<()> {
    if !field.patch_strategy().merge {
        *original = patch;
        return Ok(());
    }
    let is_object = is_list_of_objects(original.iter().chain(&patch))?;
    let server_order = original.clone();
    let (merged, order, key) = match (is_object, field.merge_key()) {
        (false, _) => {
            let mut seen = HashSet::new();
            let mut both = std::mem::take(original);
            both.extend(patch.iter().cloned());
            both.retain(|item| seen.insert(item.to_string()));
            (both, patch, None)
        }
        (true, None) => {
            let text = format!("cannot merge lists without merge key for {}", field.name());
            return Err(other(text));
        }
        (true, Some(key)) => {
            let before = std::mem::take(original);
            let (before, patch) = obey_items(key, before, patch)?;
            let order = patch.clone();
            (merge_items(field, key, before, patch)?, order, Some(key))
        }
    };
    *original = in_order(key, merged, &order, &server_order)?;
    Ok(())
}

/// Applies the `$patch` directives of items; returns the rest of the list and of the patch.
fn obey_items(
    key: &str,
    mut original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut kept, mut deleted, mut replace) = (Vec::new(), HashSet::new(), false);
    for item in patch {
        match item.get(DIRECTIVE) {
            None => kept.push(item),
            Some(directive) => match directive.as_str() {
                Some("delete") => _ = deleted.insert(identity(Some(key), &item)?),
                Some("replace") => replace = true,
                Some("merge") => {
                    let text = "merging lists cannot yet be specified in the patch";
                    return Err(other(text.to_owned()));
                }
                _ => return Err(unknown_directive(directive)),
            },
        }
    }
    if replace {
        return Ok((kept, Vec::new()));
    }
    original.retain(|item| !identity(Some(key), item).is_ok_and(|it| deleted.contains(&it)));
    Ok((original, kept))
}

fn merge_items(
    field: &Field,
    key: &str,
    mut original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>> {
    let mut places = HashMap::new();
    for (at, item) in original.iter().enumerate() {
        if let Ok(identity) = identity(Some(key), item) {
            places.entry(identity).or_insert(at);
        }
    }
    for item in patch {
        let identity = identity(Some(key), &item)?;
        match (places.get(&identity), item) {
            (Some(at), Value::Object(item)) => {
                if let Some(Value::Object(before)) = original.get_mut(*at) {
                    merge_map(Place::of_member(field), before, item)?;
                }
            }
            (_, item) => {
                places.insert(identity, original.len());
                original.push(cleaned(item));
            }
        }
    }
    Ok(original)
}

/// Orders a merged list: items of the patch in the patch's order, the others in the server's, each
/// of these before its former successors.
fn in_order(
    key: Option<&str>,
    merged: Vec<Value>,
    order: &[Value],
    server_order: &[Value],
) -> Result<Vec<Value>> {
    let positions = |items: &[Value]| -> HashMap<String, usize> {
        let mut positions = HashMap::new();
        for (at, item) in items.iter().enumerate() {
            if let Ok(identity) = identity(key, item) {
                positions.entry(identity).or_insert(at);
            }
        }
        positions
    };
    let (named, served) = (positions(order), positions(server_order));
    let (mut of_patch, mut of_server) = (Vec::new(), Vec::new());
    for item in merged {
        // An item may have lost its key: the patch said that it is null.
        let identity = identity(key, &item).ok();
        let at_server = identity.as_ref().and_then(|of| served.get(of).copied());
        match identity.and_then(|of| named.get(&of)) {
            Some(at) => of_patch.push((*at, at_server, item)),
            None => of_server.push((at_server, item)),
        }
    }
    of_patch.sort_by_key(|(at, ..)| *at);
    of_server.sort_by_key(|(at, _)| at.unwrap_or(usize::MAX));
    let mut ordered = Vec::with_capacity(of_patch.len() + of_server.len());
    let mut rest = of_server.into_iter().peekable();
    for (_, at, item) in of_patch {
        let stands_before = |(other, _): &(Option<usize>, Value)| match (other, at) {
            (Some(other), Some(at)) => *other < at,
            _ => false,
        };
        while let Some((_, earlier)) = rest.next_if(stands_before) {
            ordered.push(earlier);
        }
        ordered.push(item);
    }
    ordered.extend(rest.map(|(_, item)| item));
    Ok(ordered)
}

fn delete_from_list(original: &mut Map<String, Value>, name: &str, value: &Value) -> Result<()> {
    let Some(Value::Array(items)) = original.get_mut(name) else {
        return Ok(());
    };
    let Value::Array(deleted) = value else {
        return Ok(());
    };
    if is_list_of_objects(items.iter().chain(deleted))? {
        return Err(bad(BAD_PRIMITIVE_LIST));
    }
    let deleted: HashSet<String> = deleted.iter().map(Value::to_string).collect();
    items.retain(|item| !deleted.contains(&item.to_string()));
    Ok(())
}

/// Identity of an item within its list: the value of its merge key, or the item itself.
fn identity(key: Option<&str>, item: &Value) -> Result<String> {
    match key {
        None => Ok(item.to_string()),
        Some(key) => item.get(key).map(Value::to_string).ok_or_else(|| {
            // Upstream prints the item, which may hold a secret.
            other(format!(
                "map: map[] does not contain declared merge key: {key}"
            ))
        }),
    }
}

/// Returns whether the items are objects. Items of different types are an error.
fn is_list_of_objects<'a>(items: impl Iterator<Item = &'a Value>) -> Result<bool> {
    let mut first: Option<&Value> = None;
    for item in items {
        let kind = first.get_or_insert(item);
        if std::mem::discriminant(*kind) != std::mem::discriminant(item) {
            return Err(other("list element types are not identical".to_owned()));
        }
    }
    match first {
        Some(Value::Array(_)) => Err(refused()),
        first => Ok(first.is_some_and(Value::is_object)),
    }
}

/// Returns a value that the original lacks, without nulls and directives.
fn cleaned(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let is_directive = |name: &str| {
                name == DIRECTIVE
                    || name == RETAIN_KEYS
                    || name.starts_with(SET_ORDER)
                    || name.starts_with(DELETE_FROM_LIST)
            };
            let kept = members
                .into_iter()
                .filter(|(name, value)| !value.is_null() && !is_directive(name));
            Value::Object(kept.map(|(name, value)| (name, cleaned(value))).collect())
        }
        Value::Array(items) => items.into_iter().filter_map(clean_item).collect(),
        value => value,
    }
}

/// Returns an item that the original list lacks, cleaned; `None` for an item to delete.
fn clean_item(item: Value) -> Option<Value> {
    let is_deleted = item
        .get(DIRECTIVE)
        .is_some_and(|directive| directive == "delete");
    (!is_deleted).then(|| cleaned(item))
}

fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(bad(BAD_ORDER)),
    }
}

fn bad(text: &str) -> Box<Status> {
    bad_request(text.to_owned())
}

/// Error to which upstream assigns no code.
fn other(text: String) -> Box<Status> {
    Box::new(Status::failure(500, "", text))
}

fn unknown_directive(directive: &Value) -> Box<Status> {
    let directive = directive.as_str().unwrap_or_default();
    other(format!("unknown patch type: {directive} in map"))
}

#[cfg(test)]
mod tests;

/// Upstream's answer to a patch that does not apply.
pub(crate) fn refused() -> Box<Status> {
    let message = "the server rejected our request due to an error in our request";
    let status = Status::failure(422, reason::INVALID, message);
    Box::new(status.with_details(StatusDetails::default()))
}

fn bad_request(message: String) -> Box<Status> {
    Box::new(Status::bad_request(message))
}
