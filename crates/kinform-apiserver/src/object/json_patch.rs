//! JSON patch (RFC 6902), operation by operation and within bounds.
//!
//! ```text
//! object + operations ──▶ the object | Misfit: the operation that does not apply
//! ```
//!
//! Clients send such patches, and so do mutating webhooks. As upstream's library, and unlike the
//! RFC, a copy, a replace or a test of an absent member of an object is allowed.
//!
//! BOUND: 10,000 operations; 3 MiB copied; 100 levels, so that a result can be parsed again (128).
//!
//! Upstream: `gopkg.in/evanphx/json-patch.v4`.

use std::slice;

use ::json_patch::jsonptr::Pointer;
use ::json_patch::{AddOperation, PatchOperation};
use kinform_api::{Status, mutant};
use serde_json::Value;

use crate::budget::Meter;

pub(crate) use ::json_patch::PatchOperation as Operation;

/// BOUND: the operations of one patch.
pub(crate) const MAX_OPERATIONS: usize = 10_000;
const MAX_COPIED: usize = 3 << 20;
const MAX_DEPTH: usize = 100;
/// Items of a list that are moved in one step.
const MOVES: usize = 64;

/// The reason why a patch does not apply.
#[derive(Clone, Debug)]
pub(crate) enum Misfit {
    /// An operation does not fit the object; in the words of upstream's library.
    Operation(String),
    /// The copies are too large together.
    Copies,
    /// The request ran out of time or of room.
    Request(Box<Status>),
}

/// Applies operations one after the other. Their values move into the object, so that there is no
/// copy of them.
///
/// # Errors
/// The first operation that does not apply; the object is then half changed.
pub(crate) fn apply(
    value: &mut Value,
    operations: Vec<Operation>,
    meter: &Meter,
) -> Result<(), Misfit> {
    let mut copied = MAX_COPIED;
    operations.into_iter().try_for_each(|operation| {
        step(value, operation, (&mut copied, meter))?;
        meter.check().map_err(Misfit::Request)
    })
}

/// An operation in the words of upstream's library.
fn misfit(operation: &PatchOperation) -> Misfit {
    let path = operation.path();
    Misfit::Operation(match operation {
        PatchOperation::Test(_) => format!("testing value {path} failed: test failed"),
        PatchOperation::Add(_) => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        PatchOperation::Remove(remove) => {
            let last = remove
                .path
                .split_back()
                .map(|(_, last)| last.decoded().into_owned());
            format!(
                "error in remove for path: '{path}': Unable to remove nonexistent key: {}: missing \
                 value",
                last.unwrap_or_default()
            )
        }
        PatchOperation::Replace(_) => {
            format!("replace operation does not apply: doc is missing path: {path}: missing value")
        }
        PatchOperation::Move(moved) => format!(
            "move operation does not apply: doc is missing from path: {}: missing value",
            moved.from
        ),
        PatchOperation::Copy(copy) => format!(
            "copy operation does not apply: doc is missing from path: {}: missing value",
            copy.from
        ),
    })
}

/// Applies one operation, after a check of its size: copies can double a value, and moves deepen
/// it.
fn step(
    value: &mut Value,
    mut operation: PatchOperation,
    (budget, meter): (&mut usize, &Meter),
) -> Result<(), Misfit> {
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
        return Err(misfit(&operation));
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
    let unfit = || misfit(&operation);
    ::json_patch::patch(value, slice::from_ref(&operation)).map_err(|_| unfit())?;
    match content {
        // The library copies the values of operations: a null was put in the place.
        Some((path, content)) => put(value, &path, content).ok_or_else(unfit),
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
fn weigh(value: &Value, from: &Pointer, budget: &mut usize) -> Result<usize, Misfit> {
    let Ok(source) = from.resolve(value) else {
        let text = format!("doc is missing from path: {from}: missing value");
        return Err(Misfit::Operation(text));
    };
    let left = budget.checked_sub(source.to_string().len());
    *budget = left.ok_or(Misfit::Copies)?;
    Ok(depth(source))
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
