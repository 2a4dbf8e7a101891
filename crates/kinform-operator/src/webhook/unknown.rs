//! The fields of an object that its type does not know.
//!
//! ```text
//! text ──▶ typed value + places of the fields that decoding ignored ──▶ the same places elsewhere
//! ```
//!
//! A place is carried over if the other object has what leads to it: the objects above it, and of a
//! list as many elements. A field that is there already stays. Types that flatten a map ignore no
//! field, so they have to keep the others themselves.
//!
//! Upstream counterpart: none; Go's types drop what they do not know.

use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;
use serde_json::value::RawValue;

/// BOUND: places that are kept of one object; a body can have millions of fields of one letter.
const MOST: usize = 10_000;

/// A place in an object: the way from the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Member(String),
    Element(usize),
}

/// Decodes a text, and returns the places that the type does not know.
pub(super) fn decode<K: DeserializeOwned>(
    text: &RawValue,
) -> Result<(K, Vec<Place>), serde_json::Error> {
    let mut places = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text.get());
    let typed = serde_ignored::deserialize(&mut reader, |path| {
        if places.len() < MOST {
            places.push(Place::of(&path));
        }
    })?;
    // `apiVersion` and `kind` are ignored by some types, and set in the end.
    places.retain(|place| !place.is_type());
    Ok((typed, places))
}

impl Place {
    fn of(path: &Path<'_>) -> Self {
        let (mut parts, mut at) = (Vec::new(), path);
        loop {
            at = match at {
                Path::Root => break,
                Path::Seq { parent, index } => {
                    parts.push(Part::Element(*index));
                    parent
                }
                Path::Map { parent, key } => {
                    parts.push(Part::Member(key.clone()));
                    parent
                }
                Path::Some { parent }
                | Path::NewtypeStruct { parent }
                | Path::NewtypeVariant { parent } => parent,
            };
        }
        parts.reverse();
        Self(parts)
    }

    fn is_type(&self) -> bool {
        match self.0.as_slice() {
            [Part::Member(name)] => name == "apiVersion" || name == "kind",
            _ => false,
        }
    }

    /// Puts the value that `from` has here into `to`.
    pub(super) fn carry(&self, from: &Value, to: &mut Value) {
        let Some((Part::Member(name), way)) = self.0.split_last() else {
            return;
        };
        let (mut from, mut to) = (from, to);
        for part in way {
            let (Some(inner), Some(same)) = (part.of(from), part.same(from, to)) else {
                return;
            };
            (from, to) = (inner, same);
        }
        let (Some(value), Some(members)) = (from.get(name), to.as_object_mut()) else {
            return;
        };
        members.entry(name).or_insert_with(|| value.clone());
    }
}

impl Part {
    fn of<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Member(name) => value.get(name),
            Self::Element(index) => value.get(index),
        }
    }

    /// The part of `to`, if it stands for that of `from`.
    fn same<'a>(&self, from: &Value, to: &'a mut Value) -> Option<&'a mut Value> {
        match self {
            Self::Member(name) => to.get_mut(name),
            Self::Element(index) => {
                let is_as_long = from.as_array()?.len() == to.as_array()?.len();
                is_as_long.then_some(to.get_mut(index)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Known {
        #[serde(rename = "a", default)]
        _a: u32,
        #[serde(rename = "list", default)]
        _list: Vec<Inner>,
        #[serde(rename = "inner")]
        _inner: Option<Inner>,
    }

    #[derive(Deserialize)]
    struct Inner {
        #[serde(rename = "b", default)]
        _b: u32,
    }

    #[test]
    fn unknown_fields_go_to_the_same_place_and_to_no_other() {
        for (from, to, expected) in [
            (
                json!({"a": 0, "x": {"y": [1]}}),
                json!({}),
                json!({"x": {"y": [1]}}),
            ),
            // The field is there already.
            (json!({"x": 1}), json!({"x": 2}), json!({"x": 2})),
            (
                json!({"inner": {"b": 1, "x": 1}}),
                json!({"inner": {"c": 1}}),
                json!({"inner": {"c": 1, "x": 1}}),
            ),
            (
                json!({"inner": {"x": 1}}),
                json!({"other": {}}),
                json!({"other": {}}),
            ),
            (
                json!({"inner": {"x": 1}}),
                json!({"inner": 1}),
                json!({"inner": 1}),
            ),
            (
                json!({"list": [{"x": 1}, {"b": 2}]}),
                json!({"list": [{}, {}]}),
                json!({"list": [{"x": 1}, {}]}),
            ),
            // Another number of elements: nobody knows which is which.
            (
                json!({"list": [{"x": 1}]}),
                json!({"list": [{}, {}]}),
                json!({"list": [{}, {}]}),
            ),
            // The type of an object is no field.
            (
                json!({"kind": "A", "apiVersion": "v1"}),
                json!({}),
                json!({}),
            ),
        ] {
            let text = serde_json::value::to_raw_value(&from).unwrap();
            let (_, places) = decode::<Known>(&text).unwrap();
            let mut result = to;
            for place in &places {
                place.carry(&from, &mut result);
            }
            assert_eq!(result, expected, "{from}");
        }
    }

    #[test]
    fn the_places_of_one_object_are_bounded() {
        let members: serde_json::Map<_, _> =
            (0..MOST + 5).map(|n| (format!("x{n}"), json!(1))).collect();
        let text = serde_json::value::to_raw_value(&members).unwrap();
        let (_, places) = decode::<Known>(&text).unwrap();
        assert_eq!(places.len(), MOST);
    }
}
