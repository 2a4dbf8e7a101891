//! The two views of an event: `v1` and `events.k8s.io/v1` name the same fields differently.
//!
//! ```text
//! events.k8s.io/v1 object ──to_stored──▶ v1 object, as it is stored ──to_shown──▶ events.k8s.io/v1 object
//! ```
//!
//! An event is the same object in whichever version it is written, listed or watched. It is stored
//! in the older version's form. Only the names differ, so no field is lost either way. The values
//! written for unset fields differ as well, so each view is read as its own type.
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/events/v1/conversion.go`.

use serde_json::{Map, Value};

use super::{ResourceInfo, Shape, fields};

use crate::budget::Meter;
use crate::object::typed;
use crate::schema::convert;
use crate::storage::{Draft, Stored};

/// The stored name, and the name in the newer view.
const NAMES: [(&str, &str); 7] = [
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("involvedObject", "regarding"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
];

impl ResourceInfo {
    /// Returns whether the objects are stored under other field names than the resource shows.
    pub(crate) fn is_renamed(&self) -> bool {
        match &self.shape {
            Shape::Custom(custom) => custom.storage.is_some() || custom.conversion.is_some(),
            Shape::Builtin(_) => self.group == "events.k8s.io" && self.plural == "events",
        }
    }

    /// Converts an object of the resource to its stored form. Without a call of a webhook it is
    /// stored in the version that it has.
    pub(crate) fn to_stored(&self, object: Value) -> Value {
        if !self.is_renamed() {
            return object;
        }
        if let Shape::Custom(custom) = &self.shape {
            let version = match &custom.conversion {
                None => &custom.stored.now,
                Some(_) => &self.version,
            };
            let mut object = convert::to_stored(custom.versions(), object);
            custom.stored.mark(version, &mut object);
            return object;
        }
        let of = kinform_schema::builtin("", "v1", "Event");
        canonical(
            of,
            rename(object, |name| {
                NAMES.iter().find(|it| it.1 == name).map(|it| it.0)
            }),
        )
    }

    /// Converts a stored object to the form that the resource shows. What is added takes its size
    /// from the meter.
    ///
    /// An object of another version is not converted by a webhook here: its fields are those that both
    /// versions have.
    pub(crate) fn to_shown(&self, mut object: Value, meter: &Meter) -> Value {
        if !self.is_renamed() {
            return object;
        }
        if let Shape::Custom(custom) = &self.shape {
            let version = custom.stored.unmark(&mut object);
            let Some(conversion) = &custom.conversion else {
                return convert::to_shown(custom.versions(), object, meter);
            };
            if let Some(schema) = conversion.schemas.get(&version) {
                convert::decoded(schema, &mut object, meter);
            }
            if version != self.version {
                convert::coerced(&custom.schema, &mut object);
            }
            return object;
        }
        let of = match &self.shape {
            Shape::Builtin(of) => Some(*of),
            Shape::Custom(_) => None,
        };
        canonical(
            of,
            rename(object, |name| {
                NAMES.iter().find(|it| it.0 == name).map(|it| it.1)
            }),
        )
    }

    /// Converts a stored version of an object to the shown form, at the same revision. Defaults that
    /// a definition got since the object was stored are left out if they make it too large.
    pub(crate) fn shown(&self, object: &Stored) -> Option<Stored> {
        let meter = Meter::of_object();
        let shown = self.to_shown(object.value(), &meter);
        let draft = Draft::new(&[], shown)?;
        Some(draft.seal(object.revision()))
    }
}

fn rename(object: Value, other: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(members) = object else {
        return object;
    };
    let renamed = members.into_iter().map(|(name, value)| match other(&name) {
        Some(other) => (other.to_owned(), value),
        None => (name, value),
    });
    Value::Object(renamed.collect::<Map<_, _>>())
}

/// Normalizes an object by its type. A stored object was read as the other type.
fn canonical(of: Option<&kinform_schema::Type>, object: Value) -> Value {
    let read = of.map(|of| typed::read(of, object.clone(), &mut Vec::new()));
    debug_assert!(matches!(read, Some(Ok(_))));
    match read {
        Some(Ok(read)) => read,
        Some(Err(_)) | None => object,
    }
}

/// Returns the fields that selectors of the newer view know: the stored ones under its names.
pub(super) fn renamed_fields() -> Vec<crate::storage::stored::SelectableField> {
    let stored = fields::of_builtin("", "events");
    let known = stored.iter().map(|field| {
        let name = field.name();
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        let shown = NAMES
            .iter()
            .find(|it| it.0 == first)
            .map_or(first, |it| it.1);
        match (first, rest) {
            // This view has no selector for the source. The entry stays, because both views share
            // positions.
            ("source", _) => field.renamed(""),
            (_, "") => field.renamed(shown),
            (_, rest) => field.renamed(&format!("{shown}.{rest}")),
        }
    });
    known.collect()
}
