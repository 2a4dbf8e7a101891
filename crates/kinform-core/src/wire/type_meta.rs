//! Puts `apiVersion` and `kind` before the other members of an object that is read as a type.
//!
//! ```text
//! TypeMeta + members of an object → WithTypeMeta (serde::Deserializer) → K
//! ```
//!
//! Objects do not keep these two, because they are the same for a whole collection; types expect
//! them. The other members come from the reader of their encoding.
//!
//! Upstream: `runtime.TypeMeta`, inline in each kind.

use std::fmt;

use kinform_api::TypeMeta;
use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};

/// A value does not fit the type; the caller lets serde_json find the place.
#[derive(Debug)]
pub(crate) struct Mismatch;

/// An object with `apiVersion` and `kind` as its first members.
pub(super) struct WithTypeMeta<'s, M> {
    pub(super) meta: &'s TypeMeta,
    pub(super) members: M,
}

impl<'de, M: MapAccess<'de, Error = Mismatch>> Deserializer<'de> for WithTypeMeta<'_, M> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_map(Chain {
            first: [
                ("apiVersion", &*self.meta.api_version),
                ("kind", &*self.meta.kind),
            ],
            given: 0,
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

/// Yields the two members, then those of the object.
struct Chain<'s, M> {
    first: [(&'static str, &'s str); 2],
    given: usize,
    members: M,
}

impl<'de, M: MapAccess<'de, Error = Mismatch>> MapAccess<'de> for Chain<'_, M> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        self.given += 1;
        match self.first.get(self.given - 1) {
            Some((name, _)) => seed
                .deserialize(BorrowedStrDeserializer::new(name))
                .map(Some),
            None => self.members.next_key_seed(seed),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        match self.first.get(self.given - 1) {
            Some((_, value)) => seed.deserialize(Text(value)),
            None => self.members.next_value_seed(seed),
        }
    }
}

/// The value of `apiVersion` or `kind`, as a string, newtype, option or enum: whichever the type
/// asks for.
struct Text<'s>(&'s str);

impl<'de> Deserializer<'de> for Text<'_> {
    type Error = Mismatch;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_str(self.0)
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

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_enum(StrDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde::de::value::MapDeserializer;

    use super::*;

    #[test]
    fn what_an_object_is_fits_however_a_type_asks_for_it() {
        #[derive(Debug, PartialEq, Deserialize)]
        struct Named(String);
        #[derive(Debug, PartialEq, Deserialize)]
        enum Kind {
            Pod,
        }
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Typed<A, K> {
            api_version: A,
            kind: K,
        }
        fn read<'de, K: Deserialize<'de>>() -> K {
            let meta = TypeMeta {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
            };
            let members = MapDeserializer::new(std::iter::empty::<(&str, &str)>());
            K::deserialize(WithTypeMeta {
                meta: &meta,
                members,
            })
            .unwrap()
        }
        let (version, kind) = ("v1".to_owned(), "Pod".to_owned());
        let plain: Typed<String, String> = read();
        assert_eq!((&plain.api_version, &plain.kind), (&version, &kind));
        let optional: Typed<Option<String>, Option<Kind>> = read();
        let found = (optional.api_version, optional.kind);
        assert_eq!(found, (Some(version.clone()), Some(Kind::Pod)));
        let own: Option<Typed<Named, Option<Named>>> = read();
        let own = own.unwrap();
        assert_eq!(own.api_version, Named(version));
        assert_eq!(own.kind, Some(Named(kind)));
    }
}
