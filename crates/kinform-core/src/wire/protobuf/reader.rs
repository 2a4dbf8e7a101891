//! A message as any serde type: `k8s-openapi`'s structs, a user's own, `serde_json::Value`.
//!
//! ```text
//! Node → Reader (serde::Deserializer) → K
//! ```
//!
//! Says to a type just what `serde_json` says of the server's JSON, without the text in between. What fails
//! here fails in JSON, too, and is told there, with its path; so the error is only a mark.
//!
//! Upstream: none; client-go has generated structs. Complexity: one look at each byte that the type reads.

use std::fmt;

use serde::Deserializer;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use kinform_schema::Type;

use super::text::{self, TimeText};
use super::value::{self, Elements, Entries, Kind, Members, Node, Nulls};

/// The type does not fit what is there.
#[derive(Debug)]
pub(crate) struct Mismatch;

/// One value.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    node: Node<'a>,
    nulls: Nulls,
}

impl<'a> Reader<'a> {
    pub(crate) fn kind(kind: &'a Kind<'a>, nulls: Nulls) -> Self {
        let node = Node::Kind(kind);
        Self { node, nulls }
    }

    pub(crate) fn message(of: &'static Type, bytes: &'a [u8]) -> Self {
        Self {
            node: Node::Object(of, bytes),
            nulls: Nulls::Told,
        }
    }

    pub(crate) fn with_nulls(self, nulls: Nulls) -> Self {
        Self { nulls, ..self }
    }

    #[inline(always)]
    fn is_null(self) -> bool {
        match self.node {
            Node::Null => true,
            Node::Json(raw) => is_null(raw),
            _ => false,
        }
    }

    #[inline(always)]
    fn object(self) -> Option<ObjectAccess<'a>> {
        let (before, of, bytes) = match self.node {
            Node::Kind(kind) => (Some(kind), kind.of, kind.bytes),
            Node::Object(of, bytes) => (None, of, bytes),
            _ => return None,
        };
        Some(ObjectAccess {
            before,
            has_version: before.is_none(),
            members: Members::of(of, bytes, self.nulls),
            value: Node::Null,
            nulls: self.nulls,
        })
    }
}

#[cold]
fn is_null(raw: &[u8]) -> bool {
    raw.trim_ascii() == b"null"
}

/// What a type's visitor is told of the kind that it asked for; of all else, whatever there is.
macro_rules! told {
    ($($method:ident: $node:pat => $visit:ident($value:expr);)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            match self.node {
                $node => visitor.$visit($value),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Mismatch;

    #[inline(never)]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.node {
            Node::Null => visitor.visit_unit(),
            Node::Bool(value) => visitor.visit_bool(value),
            Node::Int(number) => visitor.visit_i64(number),
            Node::Float(number) => visitor.visit_f64(number),
            Node::Text(text) => visitor.visit_borrowed_str(text),
            Node::Bytes(bytes) => visitor.visit_string(text::base64(bytes)),
            Node::Time(bytes) => visitor.visit_str(&TimeText::seconds(bytes)),
            Node::MicroTime(bytes) => visitor.visit_str(&TimeText::micros(bytes)),
            Node::Json(raw) => {
                let mut json = serde_json::Deserializer::from_slice(raw);
                json.deserialize_any(visitor).map_err(|_| Mismatch)
            }
            Node::Object(..) | Node::Kind(_) => match self.object() {
                Some(object) => visitor.visit_map(object),
                None => Err(Mismatch),
            },
            Node::Map(spec, run, count) => visitor.visit_map(EntryAccess {
                entries: value::entries(spec, run),
                left: count,
                value: Node::Null,
                nulls: self.nulls,
            }),
            Node::List(..) | Node::Texts(..) | Node::Schemas(_) => {
                match value::elements(self.node) {
                    Some(elements) => visitor.visit_seq(ElementAccess {
                        elements,
                        nulls: self.nulls,
                    }),
                    None => Err(Mismatch),
                }
            }
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.is_null() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.node {
            Node::Text(text) => visitor.visit_enum(text.into_deserializer()),
            Node::Map(spec, run, count) => MapAccessDeserializer::new(EntryAccess {
                entries: value::entries(spec, run),
                left: count,
                value: Node::Null,
                nulls: self.nulls,
            })
            .deserialize_enum(name, variants, visitor),
            _ => match self.object() {
                Some(object) => {
                    MapAccessDeserializer::new(object).deserialize_enum(name, variants, visitor)
                }
                None => Err(Mismatch),
            },
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.object() {
            Some(object) => visitor.visit_map(object),
            None => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match value::elements(self.node) {
            Some(elements) => visitor.visit_seq(ElementAccess {
                elements,
                nulls: self.nulls,
            }),
            None => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.node {
            Node::Map(spec, run, count) => visitor.visit_map(EntryAccess {
                entries: value::entries(spec, run),
                left: count,
                value: Node::Null,
                nulls: self.nulls,
            }),
            _ => self.deserialize_any(visitor),
        }
    }

    told! {
        deserialize_bool: Node::Bool(value) => visit_bool(value);
        deserialize_i32: Node::Int(number) => visit_i64(number);
        deserialize_i64: Node::Int(number) => visit_i64(number);
        deserialize_str: Node::Text(text) => visit_borrowed_str(text);
        deserialize_string: Node::Text(text) => visit_borrowed_str(text);
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf
        unit unit_struct tuple tuple_struct identifier
    }
}

/// The members of an object.
struct ObjectAccess<'a> {
    /// The type that is told first.
    before: Option<&'a Kind<'a>>,
    has_version: bool,
    members: Members<'a>,
    value: Node<'a>,
    nulls: Nulls,
}

impl<'de> MapAccess<'de> for ObjectAccess<'de> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let name = match self.before {
            Some(kind) if !self.has_version => {
                self.has_version = true;
                self.value = Node::Text(&kind.meta.api_version);
                "apiVersion"
            }
            Some(kind) => {
                self.before = None;
                self.value = Node::Text(&kind.meta.kind);
                "kind"
            }
            None => {
                let Some((name, node)) = self.members.next() else {
                    return Ok(None);
                };
                self.value = node;
                name
            }
        };
        seed.deserialize(BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(Reader {
            node: self.value,
            nulls: self.nulls,
        })
    }
}

/// The entries of a map.
struct EntryAccess<'a> {
    entries: Entries<'a>,
    left: u32,
    value: Node<'a>,
    nulls: Nulls,
}

impl<'de> MapAccess<'de> for EntryAccess<'de> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let Some((key, node)) = self.entries.next() else {
            return Ok(None);
        };
        self.left = self.left.saturating_sub(1);
        self.value = node;
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(Reader {
            node: self.value,
            nulls: self.nulls,
        })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// The elements of a list.
struct ElementAccess<'a> {
    elements: Elements<'a>,
    nulls: Nulls,
}

impl<'de> SeqAccess<'de> for ElementAccess<'de> {
    type Error = Mismatch;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let Some(node) = self.elements.next() else {
            return Ok(None);
        };
        let nulls = self.nulls;
        seed.deserialize(Reader { node, nulls }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.left())
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value does not fit the type")
    }
}

impl std::error::Error for Mismatch {}

impl serde::de::Error for Mismatch {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}
