//! A message as any serde type: `k8s-openapi`'s structs, a user's own, `serde_json::Value`.
//!
//! ```text
//! Node → Reader (serde::Deserializer) → K
//! ```
//!
//! Drives a type's visitor exactly as `serde_json` does for the server's JSON, without the text in
//! between. An object that fails here is read again as JSON, which reports the error with its path;
//! so the error here is only a marker. A user's type may have a struct, list or map where a field
//! holds any JSON; it is read as JSON, too. Visitors are compiled for the nodes that Kubernetes'
//! own types have there, and for no others.
//!
//! Upstream: none; client-go has generated structs. Complexity: one look at each byte that the type
//! reads.

use kinform_api::TypeMeta;
use kinform_schema::Type;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};

use super::members::{Members, Nulls};
use super::plan::Plan;
use super::text::{self, TimeText};
use super::texts::Texts;
use super::value::{self, Elements, Entries, Node};
use crate::wire::json;
use crate::wire::type_meta::{Mismatch, WithTypeMeta};

/// Deserializes a whole object, which was validated.
///
/// # Errors
/// The object does not fit the type.
pub(crate) fn read<K: DeserializeOwned>(
    of: &'static Type,
    bytes: &[u8],
    meta: &TypeMeta,
    nulls: Nulls,
) -> Result<K, Mismatch> {
    let texts = &Texts::of(bytes);
    let members = ObjectAccess::new(Plan::of(of), bytes, nulls, texts);
    K::deserialize(WithTypeMeta { meta, members })
}

/// Deserializes a message without adding `apiVersion` and `kind`.
///
/// # Errors
/// The message does not fit the type.
pub(crate) fn part<K: DeserializeOwned>(
    of: &'static Type,
    bytes: &[u8],
    nulls: Nulls,
) -> Result<K, Mismatch> {
    let node = Node::Object(Plan::of(of), bytes);
    let texts = &Texts::of(bytes);
    K::deserialize(&Reader { node, nulls, texts })
}

/// One value. It is not moved while it is read; deserializers take it by reference.
struct Reader<'a> {
    node: Node<'a>,
    nulls: Nulls,
    texts: &'a Texts,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    fn is_null(&self) -> bool {
        match self.node {
            Node::Null => true,
            Node::Json(raw) => is_null(raw),
            _ => false,
        }
    }

    #[inline(always)]
    fn object(&self) -> Option<ObjectAccess<'a>> {
        match self.node {
            Node::Object(plan, bytes) => {
                Some(ObjectAccess::new(plan, bytes, self.nulls, self.texts))
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn map(&self) -> Option<EntryAccess<'a>> {
        match self.node {
            Node::Map(step, run, count) => {
                let (node, nulls, texts) = (Node::Null, self.nulls, self.texts);
                let mut entries = value::entries(step, run);
                entries.texts = texts;
                Some(EntryAccess {
                    entries,
                    left: count,
                    value: Self { node, nulls, texts },
                })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn list(&self) -> Option<ElementAccess<'a>> {
        value::elements(self.node).map(|mut elements| {
            elements.texts = self.texts;
            ElementAccess {
                elements,
                nulls: self.nulls,
            }
        })
    }
}

#[cold]
fn is_null(raw: &[u8]) -> bool {
    raw.trim_ascii() == b"null"
}

/// Implements methods that pass a node of the kind asked for directly to the visitor, and any other
/// to `deserialize_any`.
macro_rules! deserialize_as {
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

impl<'de> Deserializer<'de> for &Reader<'de> {
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
            Node::Json(raw) => json::reader::value(raw, visitor),
            Node::Object(..) => visitor.visit_map(self.object().ok_or(Mismatch)?),
            Node::Map(..) => visitor.visit_map(self.map().ok_or(Mismatch)?),
            Node::List(..) | Node::Texts(..) | Node::Schemas(_) => {
                visitor.visit_seq(self.list().ok_or(Mismatch)?)
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
            Node::Map(..) => MapAccessDeserializer::new(self.map().ok_or(Mismatch)?)
                .deserialize_enum(name, variants, visitor),
            _ => MapAccessDeserializer::new(self.object().ok_or(Mismatch)?)
                .deserialize_enum(name, variants, visitor),
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
            None => visitor.visit_map(self.map().ok_or(Mismatch)?),
        }
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_seq(self.list().ok_or(Mismatch)?)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.map() {
            Some(map) => visitor.visit_map(map),
            None => visitor.visit_map(self.object().ok_or(Mismatch)?),
        }
    }

    deserialize_as! {
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
    members: Members<'a>,
    value: Reader<'a>,
}

impl<'a> ObjectAccess<'a> {
    #[inline(always)]
    fn new(plan: &'static Plan, bytes: &'a [u8], nulls: Nulls, texts: &'a Texts) -> Self {
        let (node, mut members) = (Node::Null, Members::of(plan, bytes, nulls));
        members.texts = texts;
        Self {
            members,
            value: Reader { node, nulls, texts },
        }
    }
}

impl<'de> MapAccess<'de> for ObjectAccess<'de> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        match self.members.read(&mut self.value.node) {
            Some(name) => seed
                .deserialize(BorrowedStrDeserializer::new(name))
                .map(Some),
            None => Ok(None),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(&self.value)
    }
}

/// The entries of a map.
struct EntryAccess<'a> {
    entries: Entries<'a>,
    left: u32,
    value: Reader<'a>,
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
        self.value.node = node;
        seed.deserialize(BorrowedStrDeserializer::new(key))
            .map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(&self.value)
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
        let (nulls, texts) = (self.nulls, self.elements.texts);
        let value = Reader { node, nulls, texts };
        seed.deserialize(&value).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.left())
    }
}
