//! A whole object as a type: what it is comes first, then its members.
//!
//! ```text
//! TypeMeta + members of an object → Whole (serde::Deserializer) → K
//! ```
//!
//! Objects do not keep `apiVersion` and `kind`, which are those of their collection; types want them. The
//! members are told by whoever reads their encoding.
//!
//! Upstream: `runtime.TypeMeta`, inline in each kind.

use std::fmt;

use kinform_api::TypeMeta;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

/// The type does not fit what is there: serde_json says where.
#[derive(Debug)]
pub(crate) struct Mismatch;

/// An object that begins with its type.
pub(super) struct Whole<'s, M> {
    pub(super) meta: &'s TypeMeta,
    pub(super) members: M,
}

impl<'de, M: MapAccess<'de, Error = Mismatch>> Deserializer<'de> for Whole<'_, M> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_map(Told {
            before: [
                ("apiVersion", &*self.meta.api_version),
                ("kind", &*self.meta.kind),
            ],
            told: 0,
            members: self.members,
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// What an object is, and then its members.
struct Told<'s, M> {
    before: [(&'static str, &'s str); 2],
    told: usize,
    members: M,
}

impl<'de, M: MapAccess<'de, Error = Mismatch>> MapAccess<'de> for Told<'_, M> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        self.told += 1;
        match self.before.get(self.told - 1) {
            Some((name, _)) => seed
                .deserialize(BorrowedStrDeserializer::new(name))
                .map(Some),
            None => self.members.next_key_seed(seed),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        match self.before.get(self.told - 1) {
            Some((_, value)) => seed.deserialize(StrDeserializer::<Mismatch>::new(value)),
            None => self.members.next_value_seed(seed),
        }
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
