//! A JSON object as any serde type: `k8s-openapi`'s structs, a user's own, `serde_json::Value`.
//!
//! ```text
//! bytes of an object + its kind → Reader (serde::Deserializer) → K
//! ```
//!
//! Says to a type what serde_json says of the same text with `apiVersion` and `kind` in front, with two
//! differences: nothing is copied to put them there, and lists say how long they are, so that a type
//! allocates what it needs and not the next power of two. What fails here fails in serde_json, too, and
//! is told there, with its place; so the error is only a mark. A lone surrogate reads as U+FFFD, as in Go.
//!
//! Upstream: `encoding/json`. Complexity: two looks at what is in a list, three in a list in a list; else one.

use std::fmt;

use kinform_api::TypeMeta;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};

use super::cursor::unescape;
use super::json::{self, Fault};
use super::scan::Stops;

/// The type does not fit what is there.
#[derive(Debug)]
pub(crate) struct Mismatch;

/// The object in these bytes, which have passed the check, as a value of a type.
///
/// # Errors
/// It does not fit the type.
pub(crate) fn read<K: DeserializeOwned>(bytes: &[u8], meta: &TypeMeta) -> Result<K, Mismatch> {
    let mut reader = Reader {
        text: std::str::from_utf8(bytes).map_err(|_| Mismatch)?,
        stops: Stops::new(bytes),
        at: json::space(bytes, 0),
    };
    if reader.peek() != Some(b'{') {
        return Err(Mismatch);
    }
    K::deserialize(Whole {
        reader: &mut reader,
        meta,
    })
}

/// Walks over the text. Where it stands is always at a value, or behind one.
struct Reader<'a> {
    text: &'a str,
    stops: Stops<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The string that begins here: as it stands there, if it has no escapes.
    fn string(&mut self) -> Result<Text<'a>, Mismatch> {
        let (end, has_escapes) = json::string(&mut self.stops, self.at)?;
        let inside = self.text.get(self.at + 1..end - 1).ok_or(Mismatch)?;
        self.at = end;
        Ok(match has_escapes {
            true => Text::Escaped(unescape(inside.as_bytes()).into_owned()),
            false => Text::Plain(inside),
        })
    }

    fn skip(&mut self) -> Result<(), Mismatch> {
        self.at = json::value(&mut self.stops, self.at, 0)?;
        Ok(())
    }

    /// Over white space, the comma between two, and white space; whether anything follows.
    fn next_in(&mut self, close: u8, is_first: bool) -> Result<bool, Mismatch> {
        let bytes = self.text.as_bytes();
        self.at = json::space(bytes, self.at);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.at = json::space(bytes, self.at + 1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(Mismatch),
        }
    }

    /// How many elements the list has that begins behind this place.
    fn count(&self, open: usize) -> Result<usize, Mismatch> {
        let bytes = self.text.as_bytes();
        let mut stops = Stops::new(bytes);
        let mut at = json::space(bytes, open + 1);
        if bytes.get(at) == Some(&b']') {
            return Ok(0);
        }
        let mut count = 0;
        loop {
            count += 1;
            at = json::space(bytes, json::value(&mut stops, at, 0)?);
            match bytes.get(at) {
                Some(b',') => at = json::space(bytes, at + 1),
                Some(b']') => return Ok(count),
                _ => return Err(Mismatch),
            }
        }
    }

    fn number<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Mismatch> {
        let start = self.at;
        self.skip()?;
        let text = self.text.get(start..self.at).ok_or(Mismatch)?;
        let is_whole = text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_digit());
        if is_whole && text != "-0" {
            if let Ok(number) = text.parse::<u64>() {
                return visitor.visit_u64(number);
            }
            if let Ok(number) = text.parse::<i64>() {
                return visitor.visit_i64(number);
            }
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => visitor.visit_f64(number),
            _ => Err(Mismatch),
        }
    }

    fn map<'s>(&'s mut self) -> Entries<'s, 'a> {
        self.at += 1;
        Entries {
            reader: self,
            is_first: true,
        }
    }
}

/// A string.
enum Text<'a> {
    Plain(&'a str),
    Escaped(String),
}

impl<'a> Text<'a> {
    fn visit<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self {
            Self::Plain(text) => visitor.visit_borrowed_str(text),
            Self::Escaped(text) => visitor.visit_string(text),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'"') => self.string()?.visit(visitor),
            Some(b'{') => visitor.visit_map(self.map()),
            Some(b'[') => {
                let left = self.count(self.at)?;
                self.at += 1;
                visitor.visit_seq(Items {
                    reader: self,
                    is_first: true,
                    left,
                })
            }
            Some(b't') => self.skip().and_then(|()| visitor.visit_bool(true)),
            Some(b'f') => self.skip().and_then(|()| visitor.visit_bool(false)),
            Some(b'n') => self.skip().and_then(|()| visitor.visit_unit()),
            Some(_) => self.number(visitor),
            None => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'n') => self.skip().and_then(|()| visitor.visit_none()),
            _ => visitor.visit_some(self),
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

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'"') => match self.string()? {
                Text::Plain(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                Text::Escaped(text) => visitor.visit_byte_buf(text.into_bytes()),
            },
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'"') => match self.string()? {
                Text::Plain(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                Text::Escaped(text) => visitor.visit_enum(text.into_deserializer()),
            },
            Some(b'{') => {
                MapAccessDeserializer::new(self.map()).deserialize_enum(name, variants, visitor)
            }
            _ => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string
        unit unit_struct seq tuple tuple_struct map struct identifier
    }
}

/// The members of an object. Whoever does not read all of them has left the text.
struct Entries<'s, 'a> {
    reader: &'s mut Reader<'a>,
    is_first: bool,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let is_first = std::mem::take(&mut self.is_first);
        if !self.reader.next_in(b'}', is_first)? {
            return Ok(None);
        }
        let (span, has_escapes, value) = json::key(&mut self.reader.stops, self.reader.at)?;
        let key = self.reader.text.get(span).ok_or(Mismatch)?;
        self.reader.at = value;
        match has_escapes {
            true => {
                let key = unescape(key.as_bytes());
                seed.deserialize(StrDeserializer::<Mismatch>::new(&key))
            }
            false => seed.deserialize(BorrowedStrDeserializer::new(key)),
        }
        .map(Some)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        seed.deserialize(&mut *self.reader)
    }
}

/// The elements of a list.
struct Items<'s, 'a> {
    reader: &'s mut Reader<'a>,
    is_first: bool,
    left: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Mismatch;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let is_first = std::mem::take(&mut self.is_first);
        if !self.reader.next_in(b']', is_first)? {
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// The whole object, with what it is before its members.
struct Whole<'s, 'a> {
    reader: &'s mut Reader<'a>,
    meta: &'s TypeMeta,
}

impl<'de> Deserializer<'de> for Whole<'_, 'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_map(Told {
            before: [
                ("apiVersion", &*self.meta.api_version),
                ("kind", &*self.meta.kind),
            ],
            told: 0,
            entries: self.reader.map(),
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
struct Told<'s, 'a> {
    before: [(&'static str, &'s str); 2],
    told: usize,
    entries: Entries<'s, 'a>,
}

impl<'de> MapAccess<'de> for Told<'_, 'de> {
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
            None => self.entries.next_key_seed(seed),
        }
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mismatch> {
        match self.before.get(self.told - 1) {
            Some((_, value)) => seed.deserialize(StrDeserializer::<Mismatch>::new(value)),
            None => self.entries.next_value_seed(seed),
        }
    }
}

impl From<Fault> for Mismatch {
    fn from(_: Fault) -> Self {
        Self
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    fn meta() -> TypeMeta {
        TypeMeta {
            api_version: "v1".to_owned(),
            kind: "Thing".to_owned(),
        }
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Thing {
        api_version: String,
        kind: String,
        #[serde(default)]
        text: Option<String>,
        #[serde(default)]
        list: Vec<Small>,
        #[serde(default)]
        map: BTreeMap<String, i64>,
        #[serde(default)]
        float: Option<f64>,
        #[serde(default)]
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Small {
        number: i32,
        on: Option<bool>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    enum Choice {
        One,
        Two { a: u8 },
    }

    /// What serde_json makes of the same.
    fn by_serde<K: DeserializeOwned>(text: &str) -> Option<K> {
        let inside = &text.trim_start()[1..];
        let comma = if inside.trim_start().starts_with('}') {
            ""
        } else {
            ","
        };
        let text = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Thing\"{comma}{inside}");
        serde_json::from_str(&text).ok()
    }

    #[test]
    fn a_type_gets_what_serde_json_gives_it() {
        for text in [
            "{}",
            " { } ",
            r#"{"text":"a","list":[{"number":1,"on":true},{"number":-2}],"map":{"x":7}}"#,
            r#"{ "text" : "ä\n\u00e9\ud83d\ude00\"" , "list" : [ ] , "float" : 1.5e3 }"#,
            r#"{"text":null,"float":7,"choice":"One","unknown":{"deep":[[1,[2]],{"a":"]"}]}}"#,
            r#"{"choice":{"Two":{"a":255}}}"#,
            r#"{"choice":{"Two":{"a":256}}}"#,
            r#"{"choice":"Three"}"#,
            r#"{"text":5}"#,
            r#"{"list":{"number":1}}"#,
            r#"{"list":[{"number":1.5}]}"#,
            r#"{"list":[{"number":99999999999}]}"#,
            r#"{"float":-0,"map":{"\u0061":-9223372036854775808}}"#,
            r#"{"text":"a","text":"b"}"#,
        ] {
            let ours = read::<Thing>(text.as_bytes(), &meta()).ok();
            assert_eq!(ours, by_serde(text), "{text}");
        }
        let lone = read::<Thing>(br#"{"text":"\ud800"}"#, &meta()).unwrap();
        assert_eq!(lone.text.as_deref(), Some("\u{fffd}"));
    }

    #[test]
    fn lists_are_as_large_as_what_is_in_them() {
        let five =
            json!({"list": (0..5).map(|number| json!({"number": number})).collect::<Vec<_>>()});
        let thing: Thing = read(five.to_string().as_bytes(), &meta()).unwrap();
        assert_eq!((thing.list.len(), thing.list.capacity()), (5, 5));
    }

    #[test]
    fn what_breaks_off_is_refused() {
        let text = r#"{"text":"aä","list":[{"number":1}],"map":{"x":[1]},"float":1}"#;
        for end in 0..text.len() {
            assert!(
                read::<Value>(&text.as_bytes()[..end], &meta()).is_err(),
                "{end}"
            );
        }
        for text in [
            "[]",
            "1",
            "",
            "{\"a\" 1}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":[1,]}",
            "{\"a\":[1 2]}",
        ] {
            assert!(read::<Value>(text.as_bytes(), &meta()).is_err(), "{text}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<u32>().prop_map(|number| Value::from(f64::from(number) / 8.0)),
            "\\PC*".prop_map(Value::from),
            "[\"\\\\\n\t/a]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\ä]{0,3}", inner, 0..6)
                    .prop_map(Value::from_iter),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_what_serde_json_reads(members in prop::collection::btree_map("[a-z]{1,4}", values(), 0..5)) {
            let value = Value::from_iter(members);
            for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let ours = read::<Value>(text.as_bytes(), &meta()).unwrap();
                prop_assert_eq!(Some(ours), by_serde::<Value>(&text));
            }
        }
    }
}
