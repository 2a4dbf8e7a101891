//! A value of a document, whose texts are counted while it is built.
//!
//! ```text
//! within(bytes, parser) ──▶ parser ──text by text──▶ Counted(Value) │ an error: too many bytes
//! ```
//!
//! The parser counts the events that aliases repeat, not their size: a long text with a short alias
//! would fill the memory. serde builds a value without an argument, so what is left is kept for the
//! thread. It never outlives the call of [`within`].
//!
//! Upstream: `sigs.k8s.io/yaml/goyaml.v2` (`decode.go`), which bounds the share of aliases.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The error of a document that has too much text. It quotes nothing.
pub(super) const TOO_MUCH_TEXT: &str = "the aliases of the document make too much text";

thread_local! {
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Runs a parser of counted values that may have this number of bytes of text.
pub(super) fn within<T>(bytes: usize, parser: impl FnOnce() -> T) -> T {
    LEFT.set(bytes);
    let parsed = parser();
    LEFT.set(0);
    parsed
}

/// A value that was counted.
pub(super) struct Counted(pub(super) Value);

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Builder)
    }
}

/// A key that was counted.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = String::deserialize(deserializer)?;
        charge(&key)?;
        Ok(Self(key))
    }
}

/// Takes a text off what is left.
fn charge<E: Error>(text: &str) -> Result<(), E> {
    let left = LEFT.get().checked_sub(text.len());
    LEFT.set(left.ok_or_else(|| E::custom(TOO_MUCH_TEXT))?);
    Ok(())
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Counted;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Counted, E> {
        Ok(Counted(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Counted, E> {
        Ok(Counted(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Counted, E> {
        Ok(Counted(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Counted, E> {
        Ok(Counted(value.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Counted, E> {
        charge(text)?;
        Ok(Counted(text.into()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Counted, E> {
        charge(&text)?;
        Ok(Counted(text.into()))
    }

    fn visit_none<E>(self) -> Result<Counted, E> {
        Ok(Counted(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Counted, D::Error> {
        Counted::deserialize(deserializer)
    }

    fn visit_unit<E>(self) -> Result<Counted, E> {
        Ok(Counted(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Counted, A::Error> {
        let mut built = Vec::new();
        while let Some(Counted(item)) = items.next_element()? {
            built.push(item);
        }
        Ok(Counted(built.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Counted, A::Error> {
        let mut built = Map::new();
        while let Some((Key(name), Counted(value))) = members.next_entry()? {
            built.insert(name, value);
        }
        Ok(Counted(built.into()))
    }
}
