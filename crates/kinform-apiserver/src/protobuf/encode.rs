//! JSON values to protobuf.
//!
//! ```text
//! Type + { JSON name: value } -> bytes, in the order of the numbers
//! ```
//!
//! As upstream's generated code it writes a message from its end to its beginning, so that a length is
//! known when it is written, and turns the whole around once. Fields that are no pointers are always
//! written, zero or not; pointers, lists and maps only if they are there; maps by their sorted keys.
//!
//! It trusts its input as much as the server's storage: a value that does not fit its field is written
//! as zero.
//!
//! Upstream: the `MarshalToSizedBuffer` functions of `kubernetes/api`. Linear in the value.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

use super::wire::varint_bytes;

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;

/// Writes a message.
pub(crate) fn encode(of: &Type, value: &Map<String, Value>) -> Vec<u8> {
    let mut backwards = Backwards(Vec::with_capacity(1024));
    backwards.message(of, value);
    let mut out = backwards.0;
    out.reverse();
    out
}

/// The bytes so far, the last one first.
struct Backwards(Vec<u8>);

impl Backwards {
    fn message(&mut self, of: &Type, value: &Map<String, Value>) {
        for field in of.fields_by_number().rev() {
            if let (true, Some(of)) = (field.is_inline(), field.message()) {
                // Its fields stand in this object.
                let end = self.0.len();
                self.message(of, value);
                self.close(field.number(), end);
                continue;
            }
            let given = value.get(field.name()).filter(|value| !value.is_null());
            match (field.container(), given) {
                (Container::Single, Some(value)) => self.one(field, field.number(), value),
                (Container::Single, None) if field.is_pointer() => {}
                (Container::Single, None) => self.zero(field),
                (Container::List, Some(Value::Array(items))) => {
                    for item in items.iter().rev() {
                        self.one(field, field.number(), item);
                    }
                }
                (Container::Map, Some(Value::Object(entries))) => self.entries(field, entries),
                _ => {}
            }
        }
    }

    fn entries(&mut self, field: &Field, entries: &Map<String, Value>) {
        let mut sorted: Vec<(&String, &Value)> = entries.iter().collect();
        sorted.sort_by_key(|(key, _)| *key);
        for (key, value) in sorted.into_iter().rev() {
            let end = self.0.len();
            self.one(field, 2, value);
            self.field(1, key.as_bytes());
            self.close(field.number(), end);
        }
    }

    /// What is written for a field that has no value and is no pointer.
    fn zero(&mut self, field: &Field) {
        match field.field_type() {
            FieldType::Bytes | FieldType::Strings => {}
            FieldType::RawExtension | FieldType::Json | FieldType::FieldsV1 => {
                self.field(field.number(), b"");
            }
            FieldType::Quantity => self.one(field, field.number(), &Value::from("0")),
            FieldType::IntOrString => self.one(field, field.number(), &Value::from(0)),
            _ => self.one(field, field.number(), &Value::Null),
        }
    }

    /// One value: a field's, a list's item or a map's entry.
    fn one(&mut self, field: &Field, number: u32, value: &Value) {
        let text = value.as_str().unwrap_or_default();
        let end = self.0.len();
        match field.field_type() {
            FieldType::String => self.field(number, text.as_bytes()),
            FieldType::Bool => self.number(number, value.as_bool().unwrap_or(false).into()),
            // Negative numbers take ten bytes, of either size.
            FieldType::Int32 | FieldType::Int64 => {
                self.number(number, value.as_i64().unwrap_or(0) as u64);
            }
            FieldType::Double => {
                let bits = value.as_f64().unwrap_or(0.0).to_bits();
                self.bytes(&bits.to_le_bytes());
                self.tag(number, FIXED64);
            }
            FieldType::Bytes => self.field(number, &STANDARD.decode(text).unwrap_or_default()),
            FieldType::Strings => {
                for item in value.as_array().into_iter().flatten().rev() {
                    self.field(1, item.as_str().unwrap_or_default().as_bytes());
                }
                self.close(number, end);
            }
            FieldType::Time | FieldType::MicroTime => {
                if let Ok(time) = text.parse::<Timestamp>() {
                    // A time before 1970 has nanoseconds that count up from its second, as Go's.
                    let nanos = time.as_nanosecond().rem_euclid(1_000_000_000);
                    let seconds = time.as_nanosecond().div_euclid(1_000_000_000) as i64;
                    self.number(2, nanos as u64);
                    self.number(1, seconds as u64);
                }
                self.close(number, end);
            }
            FieldType::Quantity => {
                let written = match value {
                    Value::Number(number) => number.to_string(),
                    _ => text.to_owned(),
                };
                self.field(1, written.as_bytes());
                self.close(number, end);
            }
            FieldType::IntOrString => {
                self.field(3, text.as_bytes());
                self.number(2, value.as_i64().unwrap_or(0) as u64);
                self.number(1, value.is_string().into());
                self.close(number, end);
            }
            FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => {
                self.field(1, value.to_string().as_bytes());
                self.close(number, end);
            }
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => {
                self.schema(field.field_type(), value);
                self.close(number, end);
            }
            FieldType::Message(of) => {
                let empty = Map::new();
                self.message(of, value.as_object().unwrap_or(&empty));
                self.close(number, end);
            }
            _ => {}
        }
    }

    /// The forms in which a schema holds schemas.
    fn schema(&mut self, form: FieldType, value: &Value) {
        match (form, value) {
            (FieldType::JsonSchemaPropsOrBool, Value::Object(props)) => {
                self.schema_props(2, props);
                self.number(1, 1);
            }
            (FieldType::JsonSchemaPropsOrBool, value) => {
                self.number(1, value.as_bool().unwrap_or(false).into());
            }
            (_, Value::Object(props)) => self.schema_props(1, props),
            (_, Value::Array(items)) => {
                for item in items.iter().rev() {
                    match item {
                        Value::Object(props) => self.schema_props(2, props),
                        item => self.field(2, item.as_str().unwrap_or_default().as_bytes()),
                    }
                }
            }
            _ => {}
        }
    }

    fn schema_props(&mut self, number: u32, props: &Map<String, Value>) {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        if let Some(of) = kinform_schema::named_type(PACKAGE, "JSONSchemaProps") {
            let end = self.0.len();
            self.message(of, props);
            self.close(number, end);
        }
    }

    /// Length and tag of what was written since `end`.
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
