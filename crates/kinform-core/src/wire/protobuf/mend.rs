//! Texts that are not UTF-8, made as Go's JSON shows them.
//!
//! ```text
//! type, message, not validated → texts → the same message, U+FFFD for each byte that is not UTF-8
//! ```
//!
//! Servers store what clients sent in protobuf, where Go validates no text: the bytes are in every
//! reply. Only messages that were found to be malformed come here, and what leaves is validated
//! as if it had come so. Names, the uid and the version stay as they are: another name would be
//! another object.
//!
//! Upstream: `encoding/json` (`appendString`). Complexity: a copy of each message's bytes a level;
//! levels are bounded by `MAX_DEPTH`.

use kinform_schema::{Container, Field as Spec, FieldType, Type};

use super::fields::{Fields, Wire, put_bytes};
use super::metadata::{METADATA, NAME, NAMESPACE, RESOURCE_VERSION, UID};
use super::types::{MAX_DEPTH, schema_props};

/// Returns the message with U+FFFD in place of bytes that are not UTF-8; `None` if its texts have no
/// such bytes, or if it is malformed in another way.
#[cold]
pub(crate) fn texts(of: &Type, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut mender = Mender { has_mended: false };
    let mended = mender.message(of, bytes, MAX_DEPTH, &[])?;
    mender.has_mended.then_some(mended)
}

struct Mender {
    has_mended: bool,
}

/// Fields of the object's metadata that name it.
const IDENTITY: &[u32] = &[NAME, NAMESPACE, UID, RESOURCE_VERSION];

impl Mender {
    /// Copies a message; fields of the numbers in `kept` as they are.
    fn message(&mut self, of: &Type, bytes: &[u8], depth: u32, kept: &[u32]) -> Option<Vec<u8>> {
        let is_object = depth == MAX_DEPTH;
        let depth = depth.checked_sub(1)?;
        self.each(bytes, |mender, number, value| {
            let Some(spec) = of
                .field_by_number(number)
                .filter(|_| !kept.contains(&number))
            else {
                return Some(value.to_owned());
            };
            match (spec.container(), spec.message()) {
                (Container::Map, _) => mender.entry(spec, value, depth),
                (_, Some(of)) if is_object && number == METADATA => {
                    mender.message(of, value, depth, IDENTITY)
                }
                _ => mender.value(spec.field_type(), value, depth),
            }
        })
    }

    fn entry(&mut self, spec: &Spec, entry: &[u8], depth: u32) -> Option<Vec<u8>> {
        self.each(entry, |mender, number, value| match number {
            1 => Some(mender.text(value)),
            2 => mender.value(spec.field_type(), value, depth),
            _ => Some(value.to_owned()),
        })
    }

    fn value(&mut self, form: FieldType, value: &[u8], depth: u32) -> Option<Vec<u8>> {
        let texts_at = match form {
            FieldType::String => return Some(self.text(value)),
            FieldType::Message(of) => return self.message(of, value, depth, &[]),
            FieldType::Strings
            | FieldType::Quantity
            | FieldType::FieldsV1
            | FieldType::RawExtension
            | FieldType::Json => 1,
            FieldType::IntOrString => 3,
            FieldType::JsonSchemaPropsOrStringArray => 2,
            FieldType::JsonSchemaPropsOrBool | FieldType::JsonSchemaPropsOrArray => 0,
            // Numbers, times and bytes.
            _ => return Some(value.to_owned()),
        };
        let is_schema = texts_at == 0 || texts_at == 2;
        self.each(value, |mender, number, value| {
            if number == texts_at {
                Some(mender.text(value))
            } else if is_schema && matches!(number, 1 | 2) {
                mender.message(schema_props()?, value, depth, &[])
            } else {
                Some(value.to_owned())
            }
        })
    }

    /// Copies a message's fields, those with a length as `change` returns them.
    fn each(
        &mut self,
        bytes: &[u8],
        mut change: impl FnMut(&mut Self, u32, &[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut fields = Fields::of(bytes);
        for field in fields.by_ref() {
            match field.value {
                Wire::Bytes(value) => {
                    put_bytes(&mut out, field.number, &change(self, field.number, value)?);
                }
                _ => out.extend_from_slice(&bytes[field.start..field.end]),
            }
        }
        fields.broken().is_none().then_some(out)
    }

    fn text(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for chunk in bytes.utf8_chunks() {
            out.extend_from_slice(chunk.valid().as_bytes());
            for _ in chunk.invalid() {
                out.extend_from_slice("\u{fffd}".as_bytes());
                self.has_mended = true;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_is_not_utf_8_becomes_a_mark() {
        // Go 1.26: json.Marshal(string([]byte{..}))
        let check = |bytes: &[u8], expected: &str| {
            let mut mender = Mender { has_mended: false };
            assert_eq!(mender.text(bytes), expected.as_bytes(), "{bytes:?}");
            assert_eq!(mender.has_mended, bytes != expected.as_bytes());
        };
        check("grün \u{fffd}".as_bytes(), "grün \u{fffd}");
        check(b"a\xffb", "a\u{fffd}b");
        check(b"\xe2\x82", "\u{fffd}\u{fffd}");
        check(b"\xed\xa0\x80!", "\u{fffd}\u{fffd}\u{fffd}!");
        check(b"\xf0\x9f\x98\xc3\xbc", "\u{fffd}\u{fffd}\u{fffd}ü");
    }
}
