//! JSON values to protobuf.
//!
//! ```text
//! Type + JSON text -> tree over it (`tape.rs`) -> bytes, in the order of the field numbers
//! ```
//!
//! As upstream's generated code does, it writes a message from its end to its beginning, so that a
//! length is known when it is written, and reverses the whole once. Fields that are not pointers
//! are always written, even if they are zero. Pointers, lists and maps are written only if they are
//! present, and maps in the order of their keys.
//!
//! It trusts its input, which the server itself has stored: a value that does not match its field
//! is written as zero.
//!
//! Upstream: the `MarshalToSizedBuffer` functions of `kubernetes/api`. Linear in the value.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

use super::tape::{Json, Tape};
use super::wire::varint_bytes;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Encodes a message.
pub(crate) fn encode(of: &Type, value: &Map<String, Value>) -> Vec<u8> {
    encode_text(of, &serde_json::to_vec(value).unwrap_or_default())
}

/// Encodes a message from the JSON text of an object, which this server has written.
pub(crate) fn encode_text(of: &Type, text: &[u8]) -> Vec<u8> {
    let mut backwards = Backwards(Vec::with_capacity(text.len()));
    let tape = Tape::read(text);
    backwards.message(of, tape.as_ref().map(Tape::root));
    let mut out = backwards.0;
    out.reverse();
    out
}

/// The bytes written so far, in reverse order.
struct Backwards(Vec<u8>);

impl Backwards {
    /// Writes the fields of an object, all absent if there is no object.
    fn message(&mut self, of: &Type, value: Option<Json<'_>>) {
        for field in of.fields_by_number().rev() {
            if let (true, Some(of)) = (field.is_inline(), field.message()) {
                // An inline struct: its fields are in this object.
                let end = self.0.len();
                self.message(of, value);
                self.close(field.number(), end);
                continue;
            }
            let given = value.and_then(|value| value.member(field.name()));
            match (field.container(), given.filter(|value| !value.is_null())) {
                (Container::Single, Some(value)) => self.one(field, field.number(), value),
                (Container::Single, None) if field.is_pointer() => {}
                (Container::Single, None) => self.zero(field),
                (Container::List, Some(list)) if list.is_list() => {
                    for item in reversed(list) {
                        self.one(field, field.number(), item);
                    }
                }
                (Container::Map, Some(map)) if map.is_object() => self.entries(field, map),
                _ => {}
            }
        }
    }

    fn entries(&mut self, field: &Field, map: Json<'_>) {
        let mut sorted: Vec<(Cow<'_, [u8]>, Json<'_>)> =
            map.parts().map(|part| (part.key(), part)).collect();
        sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, value) in sorted.into_iter().rev() {
            let end = self.0.len();
            self.one(field, 2, value);
            self.field(1, &key);
            self.close(field.number(), end);
        }
    }

    /// Writes a field that has no value and is not a pointer.
    fn zero(&mut self, field: &Field) {
        let end = self.0.len();
        match field.field_type() {
            FieldType::Bytes | FieldType::Strings => {}
            FieldType::String => self.field(field.number(), b""),
            FieldType::Bool | FieldType::Int32 | FieldType::Int64 => self.number(field.number(), 0),
            FieldType::Message(of) => {
                self.message(of, None);
                self.close(field.number(), end);
            }
            FieldType::RawExtension | FieldType::Json | FieldType::FieldsV1 => {
                self.field(field.number(), b"");
            }
            FieldType::Quantity => self.given(field, br#""0""#),
            FieldType::IntOrString => self.given(field, b"0"),
            _ => self.given(field, b"null"),
        }
    }

    /// Writes a field with a value that is not in the object.
    fn given(&mut self, field: &Field, text: &[u8]) {
        if let Some(tape) = Tape::read(text) {
            self.one(field, field.number(), tape.root());
        }
    }

    /// Writes one value: a field's, a list item's or a map entry's.
    fn one(&mut self, field: &Field, number: u32, value: Json<'_>) {
        let end = self.0.len();
        match field.field_type() {
            FieldType::String => self.field(number, &value.text()),
            FieldType::Bool => self.number(number, value.is_true().into()),
            // Negative numbers take ten bytes in both sizes.
            FieldType::Int32 | FieldType::Int64 => self.number(number, value.int() as u64),
            FieldType::Double => {
                let bits = value.number().parse().unwrap_or(0.0_f64).to_bits();
                self.bytes(&bits.to_le_bytes());
                self.tag(number, FIXED64);
            }
            FieldType::Bytes => {
                let bytes = STANDARD.decode(value.text());
                self.field(number, &bytes.unwrap_or_default());
            }
            FieldType::Strings => {
                for item in reversed(value) {
                    self.field(1, &item.text());
                }
                self.close(number, end);
            }
            FieldType::Time | FieldType::MicroTime => {
                let text = value.text();
                let text = std::str::from_utf8(&text).unwrap_or_default();
                if let Ok(time) = text.parse::<Timestamp>() {
                    // The nanoseconds of a time before 1970 count up from its second, as in Go.
                    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
                    let seconds = time.as_nanosecond().div_euclid(1_000_000_000) as i64;
                    self.number(2, nanos as u64);
                    self.number(1, seconds as u64);
                }
                self.close(number, end);
            }
            FieldType::Quantity => {
                match value.number() {
                    "" => self.field(1, &value.text()),
                    written => self.field(1, written.as_bytes()),
                }
                self.close(number, end);
            }
            FieldType::IntOrString => {
                self.field(3, &value.text());
                self.number(2, value.int() as u64);
                self.number(1, value.is_string().into());
                self.close(number, end);
            }
            FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => {
                self.field(1, value.raw());
                self.close(number, end);
            }
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => {
                self.schema(field.field_type(), value);
                self.close(number, end);
            }
            FieldType::Message(of) => {
                self.message(of, Some(value));
                self.close(number, end);
            }
            _ => {}
        }
    }

    /// Writes one of the forms in which a schema contains schemas.
    fn schema(&mut self, form: FieldType, value: Json<'_>) {
        if matches!(form, FieldType::JsonSchemaPropsOrBool) {
            if value.is_object() {
                self.schema_props(2, value);
            }
            self.number(1, (value.is_object() || value.is_true()).into());
        } else if value.is_object() {
            self.schema_props(1, value);
        } else {
            for item in reversed(value) {
                match item.is_object() {
                    true => self.schema_props(2, item),
                    false => self.field(2, &item.text()),
                }
            }
        }
    }

    fn schema_props(&mut self, number: u32, props: Json<'_>) {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        if let Some(of) = kinform_schema::named_type(PACKAGE, "JSONSchemaProps") {
            let end = self.0.len();
            self.message(of, Some(props));
            self.close(number, end);
        }
    }

    /// Writes the length and the tag of the bytes written since `end`.
    fn close(&mut self, number: u32, end: usize) {
        self.varint((self.0.len() - end) as u64);
        self.tag(number, BYTES);
    }

    fn field(&mut self, number: u32, bytes: &[u8]) {
        self.bytes(bytes);
        self.varint(bytes.len() as u64);
        self.tag(number, BYTES);
    }

    fn number(&mut self, number: u32, value: u64) {
        self.varint(value);
        self.tag(number, VARINT);
    }

    fn tag(&mut self, number: u32, wire: u32) {
        self.varint(u64::from(number << 3 | wire));
    }

    fn varint(&mut self, number: u64) {
        let (bytes, length) = varint_bytes(number);
        self.bytes(&bytes[..length]);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.iter().rev());
    }
}

/// Iterates over the items of a list in reverse order.
fn reversed(list: Json<'_>) -> impl Iterator<Item = Json<'_>> {
    let items: Vec<Json<'_>> = list.parts().filter(|_| list.is_list()).collect();
    items.into_iter().rev()
}
