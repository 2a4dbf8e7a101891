//! Custom objects between the stored version of a definition and the others.
//!
//! ```text
//! stored object ──to_shown──▶ object of a version ──to_stored──▶ stored object
//! ```
//!
//! Versions of a definition without a conversion webhook only differ in their schemas. With one, these
//! are the steps around its call: `decoded` before it, `coerced` after it.
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/apiserver/conversion` (the `None` strategy).

use std::borrow::Cow;

use serde_json::Value;

use super::defaults::{default, drop_nulls};
use super::prune::prune;
use crate::budget::Meter;

/// The schemas of a version and of the stored one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions<'a> {
    /// The schema of the version that is read or written.
    pub(crate) shown: &'a Value,
    /// The schema that objects are stored by; `None` if it is always the shown one.
    pub(crate) stored: Option<&'a Value>,
}

/// Returns a stored object as clients of a version see it: without fields that the schemas lack,
/// and with defaults that were added to the schema since, as far as the meter allows.
pub(crate) fn to_shown(versions: Versions<'_>, mut object: Value, meter: &Meter) -> Value {
    let Some(stored) = versions.stored else {
        return object;
    };
    decoded(stored, &mut object, meter);
    if stored != versions.shown {
        coerced(versions.shown, &mut object);
    }
    object
}

/// Reads a stored object by the schema of its version: without fields that the schema lacks, and with
/// defaults that were added to it since.
pub(crate) fn decoded(schema: &Value, object: &mut Value, meter: &Meter) {
    coerced(schema, object);
    drop_nulls(schema, object);
    default(schema, object, meter);
}

/// Drops the fields that a schema lacks.
pub(crate) fn coerced(schema: &Value, object: &mut Value) {
    prune(schema, object, &mut Vec::new());
}

/// Returns an object as its field owners know it in a version: fields that the stored version lacks
/// are lost before the version's defaults are set.
pub(crate) fn of_version<'a>(
    versions: Versions<'_>,
    object: &'a Value,
    meter: &Meter,
) -> Cow<'a, Value> {
    match versions.stored {
        Some(stored) if stored != versions.shown => {
            let mut object = object.clone();
            coerced(stored, &mut object);
            default(versions.shown, &mut object, meter);
            Cow::Owned(object)
        }
        _ => Cow::Borrowed(object),
    }
}

/// Converts an object of a version to its stored form.
pub(crate) fn to_stored(versions: Versions<'_>, mut object: Value) -> Value {
    if let Some(stored) = versions.stored {
        coerced(stored, &mut object);
    }
    object
}
