//! A JSON object as any serde type: `k8s-openapi`'s structs, a user's own, `serde_json::Value`.
//!
//! ```text
//! bytes of an object + its kind → Reader (serde::Deserializer) → K
//! ```
//!
//! Drives a type's visitor as serde_json does for the same text with `apiVersion` and `kind` in
//! front, with two differences: nothing is copied to put them there, and lists report their length,
//! so that a type allocates what it needs and not the next power of two. An object that fails here
//! fails in serde_json, too, which reports the place; so the error is only a marker. A lone
//! surrogate reads as U+FFFD, as in Go.
//!
//! The code that every type needs (the next key, a string, a number) is compiled once, here. Each
//! `deserialize_*` method calls the visitor's method directly, without a `match` over the kinds of
//! values that the visitor does not accept.
//!
//! Upstream: `encoding/json`. Complexity: bytes in lists are read twice, all others once.

use std::borrow::Cow;

use kinform_api::TypeMeta;
use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserializer, forward_to_deserialize_any};

use self::ends::Ends;
use super::cursor::unescape;
use super::lengths::Lengths;
use super::validate::{self, Fault};
use crate::wire::scan::Stops;
use crate::wire::type_meta::{Mismatch, WithTypeMeta};

/// Deserializes the object in these validated bytes.
///
/// # Errors
/// The object does not fit the type.
pub(crate) fn read<K: DeserializeOwned>(bytes: &[u8], meta: &TypeMeta) -> Result<K, Mismatch> {
    let mut reader = Reader::over(bytes)?;
    if reader.peek() != Some(b'{') {
        return Err(Mismatch);
    }
    let members = reader.map();
    K::deserialize(WithTypeMeta { meta, members })
}

/// Passes any validated JSON value to a visitor: JSON that a protobuf message holds.
///
/// # Errors
/// The visitor does not accept the value.
pub(crate) fn value<'a, V: Visitor<'a>>(bytes: &'a [u8], visitor: V) -> Result<V::Value, Mismatch> {
    Reader::over(bytes)?.deserialize_any(visitor)
}

/// Walks over the text. `at` is always the offset of a value, or of the byte after one.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    ends: Ends,
    lengths: Lengths,
}

impl<'a> Reader<'a> {
    fn over(bytes: &'a [u8]) -> Result<Self, Mismatch> {
        Ok(Self {
            text: std::str::from_utf8(bytes).map_err(|_| Mismatch)?,
            at: validate::space(bytes, 0),
            ends: Ends::default(),
            lengths: Lengths::default(),
        })
    }

    #[inline(always)]
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the string that begins here, borrowed; `None` if it has escapes.
    #[inline(always)]
    fn plain(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let end = self.ends.find(bytes, &self.lengths, self.at + 1);
        if bytes.get(end) != Some(&b'"') {
            return None;
        }
        let inside = between(self.text, self.at + 1, end)?;
        self.at = end + 1;
        Some(inside)
    }

    /// Returns the string that begins here and has escapes.
    #[cold]
    fn escaped(&mut self) -> Result<String, Mismatch> {
        let bytes = self.text.as_bytes();
        let (start, mut end) = (self.at + 1, self.at + 1);
        loop {
            end = self.ends.find(bytes, &self.lengths, end);
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                _ => return Err(Mismatch),
            }
        }
        let inside = bytes.get(start..end).ok_or(Mismatch)?;
        self.at = end + 1;
        Ok(unescape(inside).into_owned())
    }

    #[inline(always)]
    fn text<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.plain() {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_string(self.escaped()?),
        }
    }

    /// Returns the key of the next member, which follows the byte `before`, and moves to its value.
    /// Accepts only the form that every server writes: no white space, and no escapes in the key.
    /// The result is returned in registers.
    #[inline(never)]
    fn next_key(&mut self, before: u8) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let start = self.at + 2;
        let [mark, b'"'] = bytes.get(self.at..start)? else {
            return None;
        };
        if *mark != before {
            return None;
        }
        let end = self.ends.find(bytes, &self.lengths, start);
        let [b'"', b':', after] = bytes.get(end..end + 3)? else {
            return None;
        };
        if *after <= b' ' {
            return None;
        }
        let key = between(self.text, start, end)?;
        self.at = end + 2;
        Some(key)
    }

    /// Returns the next key in any form that JSON allows; `None` at the end of the object.
    #[inline(never)]
    fn next_key_anyhow(&mut self, before: u8) -> Result<Option<Cow<'a, str>>, Mismatch> {
        let is_first = before == b'{';
        self.at += usize::from(is_first);
        if !self.next_in(b'}', is_first)? {
            return Ok(None);
        }
        if self.peek() != Some(b'"') {
            return Err(Mismatch);
        }
        let key = match self.plain() {
            Some(key) => Cow::Borrowed(key),
            None => Cow::Owned(self.escaped()?),
        };
        let bytes = self.text.as_bytes();
        self.at = validate::space(bytes, self.at);
        if self.peek() != Some(b':') {
            return Err(Mismatch);
        }
        self.at = validate::space(bytes, self.at + 1);
        Ok(Some(key))
    }

    fn skip(&mut self) -> Result<(), Mismatch> {
        self.at = validate::value(&mut Stops::new(self.text.as_bytes()), self.at, 0)?;
        Ok(())
    }

    /// Skips white space, the comma between two values, and white space; returns whether a value
    /// follows.
    fn next_in(&mut self, close: u8, is_first: bool) -> Result<bool, Mismatch> {
        let bytes = self.text.as_bytes();
        self.at = validate::space(bytes, self.at);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.at = validate::space(bytes, self.at + 1);
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(Mismatch),
        }
    }

    /// Skips one of the words of JSON.
    #[inline(always)]
    fn word(&mut self, word: &'static str) -> Result<(), Mismatch> {
        let end = self.at + word.len();
        if self.text.as_bytes().get(self.at..end) != Some(word.as_bytes()) {
            return Err(Mismatch);
        }
        self.at = end;
        Ok(())
    }

    #[inline]
    fn number<'de, V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.next_number()? {
            Number::Unsigned(number) => visitor.visit_u64(number),
            Number::Signed(number) => visitor.visit_i64(number),
            Number::Float(number) => visitor.visit_f64(number),
        }
    }

    fn next_number(&mut self) -> Result<Number, Mismatch> {
        let bytes = self.text.as_bytes();
        let is_negative = self.peek() == Some(b'-');
        let start = self.at + usize::from(is_negative);
        let (mut number, mut at) = (0_i64, start);
        // BOUND: eighteen digits always fit an `i64`.
        while let Some(digit @ b'0'..=b'9') = bytes.get(at)
            && at - start < 18
        {
            number = number * 10 + i64::from(digit - b'0');
            at += 1;
        }
        let is_small = match bytes.get(at) {
            Some(b'0'..=b'9' | b'.' | b'e' | b'E') => false,
            _ => at > start && (bytes[start] != b'0' || at == start + 1),
        };
        match (is_small, is_negative) {
            (true, true) if number != 0 => {
                self.at = at;
                Ok(Number::Signed(-number))
            }
            (true, false) => {
                self.at = at;
                Ok(Number::Unsigned(number.unsigned_abs()))
            }
            _ => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Result<Number, Mismatch> {
        let start = self.at;
        self.skip()?;
        let text = self.text.get(start..self.at).ok_or(Mismatch)?;
        let is_whole = text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_digit());
        if is_whole && text != "-0" {
            if let Ok(number) = text.parse() {
                return Ok(Number::Unsigned(number));
            }
            if let Ok(number) = text.parse() {
                return Ok(Number::Signed(number));
            }
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Number::Float(number)),
            _ => Err(Mismatch),
        }
    }

    /// Passes the list that begins here to the visitor.
    #[inline(always)]
    fn list<V: Visitor<'a>>(&mut self, visitor: V) -> Result<V::Value, Mismatch> {
        let left = self.lengths.of(self.text.as_bytes(), self.at)?;
        self.at += 1;
        let mut items = Items {
            reader: self,
            is_first: true,
            is_over: false,
            left,
        };
        let value = visitor.visit_seq(&mut items)?;
        items.end()?;
        Ok(value)
    }

    #[inline(always)]
    fn map<'s>(&'s mut self) -> Entries<'s, 'a> {
        Entries {
            reader: self,
            before: b'{',
        }
    }
}

/// A number, as it is passed to a visitor.
enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

/// Returns the text between two positions, in two steps that the compiler inlines.
#[inline(always)]
fn between(text: &str, start: usize, end: usize) -> Option<&str> {
    text.get(start..)?.get(..end.checked_sub(start)?)
}

/// Implements the methods by which a type asks for a number.
macro_rules! numbers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
            match self.peek() {
                Some(b'-' | b'0'..=b'9') => self.number(visitor),
                _ => Err(Mismatch),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'"') => self.text(visitor),
            Some(b'{') => visitor.visit_map(self.map()),
            Some(b'[') => self.list(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_unit()),
            Some(_) => self.number(visitor),
            None => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let value = self.peek() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        visitor.visit_bool(value)
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'"') => self.text(visitor),
            _ => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_str(visitor)
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'[') => self.list(visitor),
            _ => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'{') => visitor.visit_map(self.map()),
            _ => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'{') => visitor.visit_map(self.map()),
            _ => self.deserialize_seq(visitor),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.peek() {
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_none()),
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
            Some(b'"') => match self.plain() {
                Some(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                None => visitor.visit_byte_buf(self.escaped()?.into_bytes()),
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
            Some(b'"') => match self.plain() {
                Some(text) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
                None => visitor.visit_enum(self.escaped()?.into_deserializer()),
            },
            Some(b'{') => {
                let mut entries = self.map();
                let variant = MapAccessDeserializer::new(&mut entries);
                let value = variant.deserialize_enum(name, variants, visitor)?;
                match entries.next_key::<IgnoredAny>()? {
                    None => Ok(value),
                    Some(_) => Err(Mismatch),
                }
            }
            _ => Err(Mismatch),
        }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.skip()?;
        visitor.visit_unit()
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64
    }

    forward_to_deserialize_any! {
        i128 u128 char unit unit_struct tuple tuple_struct identifier
    }
}

/// The members of an object. A visitor must read all of them: the reader does not check this, and
/// would go on inside the object.
struct Entries<'s, 'a> {
    reader: &'s mut Reader<'a>,
    /// The byte before the next member: the bracket, or a comma.
    before: u8,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Mismatch;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mismatch> {
        let before = std::mem::replace(&mut self.before, b',');
        if let Some(key) = self.reader.next_key(before) {
            return seed
                .deserialize(BorrowedStrDeserializer::new(key))
                .map(Some);
        }
        match self.reader.next_key_anyhow(before)? {
            Some(key) => seed.deserialize(StrDeserializer::new(&key)).map(Some),
            None => Ok(None),
        }
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
    is_over: bool,
    left: usize,
}

impl Items<'_, '_> {
    /// Checks that the list has no more elements than its visitor took.
    #[inline(always)]
    fn end(&mut self) -> Result<(), Mismatch> {
        match self.is_over || !self.reader.next_in(b']', self.is_first)? {
            true => Ok(()),
            false => Err(Mismatch),
        }
    }
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
            self.is_over = true;
            return Ok(None);
        }
        self.left = self.left.saturating_sub(1);
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl From<Fault> for Mismatch {
    fn from(_: Fault) -> Self {
        Self
    }
}

mod ends;
#[cfg(test)]
mod tests;
