//! Protobuf to JSON values.
//!
//! ```text
//! Type + bytes -> { JSON name: value }     without zero values of fields that are not pointers
//! ```
//!
//! Inline structs, which protobuf nests, become flat. Unknown field numbers are skipped. A message
//! that occurs twice is merged, and the last of several scalars counts.
//!
//! BOUND: 100 levels of JSON, so that the result can be parsed again; a million values, since a few
//! bytes of protobuf become a much larger value.
//!
//! Upstream: the `Unmarshal` functions of `kubernetes/api`, `apimachinery:pkg/apis/meta/v1/{time,micro_time}_proto.go`,
//! `apiextensions-apiserver:pkg/apis/apiextensions/v1/marshal.go`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Number, Value};

use super::WireError;
use super::wire::{Raw, Reader};

const MAX_DEPTH: usize = 100;
const MAX_VALUES: usize = 1_000_000;

/// Decodes a message.
///
/// # Errors
/// The bytes are malformed or too deep, or contain invalid JSON.
pub(crate) fn decode(of: &Type, bytes: &[u8]) -> Result<Map<String, Value>, WireError> {
    let mut out = Map::new();
    Decoder { left: MAX_VALUES }.message(of, bytes, &mut out, 1)?;
    Ok(out)
}

struct Decoder {
    /// The number of values that may still be created.
    left: usize,
}

impl Decoder {
    fn message(
        &mut self,
        of: &Type,
        bytes: &[u8],
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let mut reader = Reader::new(bytes, of.name());
        while let Some((number, raw)) = reader.next()? {
            if let Some(field) = of.field_by_number(number) {
                self.field(field, raw, out, depth)?;
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        raw: Raw<'_>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        self.pay()?;
        let name = field.name();
        let member = || name.to_owned();
        match (field.container(), field.message()) {
            (Container::Single, Some(of)) if field.is_inline() => {
                // Flat in JSON, but one more level of this recursion.
                self.message(of, raw.bytes(of.name())?, out, depth + 1)?;
            }
            (Container::Single, Some(of)) => {
                let known = out.get_mut(name).and_then(Value::as_object_mut);
                let mut value = known.map(std::mem::take).unwrap_or_default();
                self.message(of, raw.bytes(name)?, &mut value, depth + 1)?;
                if value.is_empty() && !field.is_pointer() {
                    out.remove(name);
                } else {
                    out.insert(member(), Value::Object(value));
                }
            }
            (Container::Single, None) => {
                let value = self.value(field, raw, depth)?;
                if !field.is_pointer() && is_zero(field, &value) {
                    out.remove(name);
                } else {
                    out.insert(member(), value);
                }
            }
            (Container::List, _) => {
                let list = out
                    .entry(member())
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(items) = list {
                    self.item(field, raw, items, depth + 1)?;
                }
            }
            (Container::Map, _) => {
                let map = out
                    .entry(member())
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = map {
                    self.entry(field, raw, entries, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn item(
        &mut self,
        field: &Field,
        raw: Raw<'_>,
        items: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        let is_number = matches!(field.field_type(), FieldType::Int32 | FieldType::Int64);
        match raw {
            Raw::Bytes(packed) if is_number => {
                let mut reader = Reader::new(packed, field.name());
                while !reader.is_empty() {
                    self.pay()?;
                    let number = Raw::Varint(reader.varint()?);
                    items.push(self.value(field, number, depth)?);
                }
            }
            raw => items.push(self.value(field, raw, depth)?),
        }
        Ok(())
    }

    /// Decodes an entry of a map: a message of a key and a value, either of which may be missing.
    fn entry(
        &mut self,
        field: &Field,
        raw: Raw<'_>,
        entries: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), WireError> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(raw.bytes(field.name())?, field.name());
        while let Some((number, raw)) = reader.next()? {
            match number {
                1 => key = raw.text(field.name())?,
                2 => value = Some(self.value(field, raw, depth)?),
                _ => {}
            }
        }
        entries.insert(key, value.unwrap_or_else(|| zero(field)));
        Ok(())
    }

    /// Decodes one value: a field's, a list item's or a map entry's.
    fn value(&mut self, field: &Field, raw: Raw<'_>, depth: usize) -> Result<Value, WireError> {
        let name = field.name();
        Ok(match field.field_type() {
            FieldType::String => Value::from(raw.text(name)?),
            FieldType::Bool => Value::from(raw.varint(name)? != 0),
            // Go keeps the low bits of a number that does not fit.
            FieldType::Int32 => Value::from(raw.varint(name)? as u32 as i32),
            FieldType::Int64 => Value::from(raw.varint(name)? as i64),
            FieldType::Double => {
                let number = f64::from_bits(raw.fixed64(name)?);
                // Go writes whole numbers without a fraction.
                let number = if number.fract() == 0.0 && number.abs() < 1e15 {
                    Some(Number::from(number as i64))
                } else {
                    Number::from_f64(number)
                };
                Value::Number(number.ok_or_else(|| WireError("unsupported value".to_owned()))?)
            }
            FieldType::Bytes => Value::from(STANDARD.encode(raw.bytes(name)?)),
            FieldType::Strings => {
                let mut items = Vec::new();
                let mut reader = Reader::new(raw.bytes(name)?, name);
                while let Some((number, raw)) = reader.next()? {
                    if number == 1 {
                        self.pay()?;
                        items.push(Value::from(raw.text(name)?));
                    }
                }
                Value::Array(items)
            }
            FieldType::Time => time(raw.bytes(name)?, "%Y-%m-%dT%H:%M:%SZ")?,
            FieldType::MicroTime => time(raw.bytes(name)?, "%Y-%m-%dT%H:%M:%S.%6fZ")?,
            FieldType::Quantity => {
                let mut text = String::new();
                let mut reader = Reader::new(raw.bytes(name)?, "Quantity");
                while let Some((number, raw)) = reader.next()? {
                    if number == 1 {
                        text = raw.text("String_")?;
                    }
                }
                Value::from(if text.is_empty() { "0" } else { &text })
            }
            FieldType::IntOrString => int_or_string(raw.bytes(name)?)?,
            FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => {
                json(raw.bytes(name)?, depth)?
            }
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => {
                self.schema(field.field_type(), raw.bytes(name)?, depth)?
            }
            FieldType::Message(of) => {
                let mut value = Map::new();
                self.message(of, raw.bytes(name)?, &mut value, depth + 1)?;
                Value::Object(value)
            }
            // The table has no durations in protobuf, and unknown types are skipped.
            _ => Value::Null,
        })
    }

    /// Decodes one of the forms in which a schema contains schemas.
    fn schema(&mut self, form: FieldType, bytes: &[u8], depth: usize) -> Result<Value, WireError> {
        let mut allows = false;
        let (mut schema, mut items) = (None, Vec::new());
        let mut reader = Reader::new(bytes, "JSONSchemaProps");
        while let Some((number, raw)) = reader.next()? {
            self.pay()?;
            match (form, number) {
                (FieldType::JsonSchemaPropsOrBool, 1) => allows = raw.varint("Allows")? != 0,
                (FieldType::JsonSchemaPropsOrBool, 2) | (_, 1) => {
                    schema = Some(self.schema_props(raw.bytes("Schema")?, depth + 1)?);
                }
                (FieldType::JsonSchemaPropsOrArray, 2) => {
                    items.push(self.schema_props(raw.bytes("JSONSchemas")?, depth + 2)?);
                }
                (FieldType::JsonSchemaPropsOrStringArray, 2) => {
                    items.push(Value::from(raw.text("Property")?));
                }
                _ => {}
            }
        }
        Ok(match (schema, form) {
            (Some(schema), _) => schema,
            (None, FieldType::JsonSchemaPropsOrBool) => Value::from(allows),
            (None, _) => Value::Array(items),
        })
    }

    fn schema_props(&mut self, bytes: &[u8], depth: usize) -> Result<Value, WireError> {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        let mut value = Map::new();
        if let Some(of) = kinform_schema::named_type(PACKAGE, "JSONSchemaProps") {
            self.message(of, bytes, &mut value, depth)?;
        }
        Ok(Value::Object(value))
    }

    fn pay(&mut self) -> Result<(), WireError> {
        let text = || WireError("the message holds too many values".to_owned());
        self.left = self.left.checked_sub(1).ok_or_else(text)?;
        Ok(())
    }
}

/// Returns whether a field has the zero value of its Go type.
fn is_zero(field: &Field, value: &Value) -> bool {
    match (field.field_type(), value) {
        (_, Value::Null) => true,
        (FieldType::IntOrString | FieldType::Quantity, value) => *value == zero(field),
        (_, Value::Bool(value)) => !value,
        (_, Value::Number(number)) => number.as_f64() == Some(0.0),
        (_, Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

/// Returns the value of a map's entry without one.
fn zero(field: &Field) -> Value {
    match field.field_type() {
        FieldType::String | FieldType::Bytes => Value::from(""),
        FieldType::Bool => Value::from(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString => {
            Value::from(0)
        }
        FieldType::Quantity => Value::from("0"),
        FieldType::Strings => Value::Array(Vec::new()),
        FieldType::Message(_) => Value::Object(Map::new()),
        _ => Value::Null,
    }
}

fn time(bytes: &[u8], format: &str) -> Result<Value, WireError> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut reader = Reader::new(bytes, "Timestamp");
    while let Some((number, raw)) = reader.next()? {
        match number {
            1 => seconds = raw.varint("Seconds")? as i64,
            2 => nanos = raw.varint("Nanos")? as u32 as i32,
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos);
    let time = time.map_err(|_| WireError("the time is out of range".to_owned()))?;
    Ok(Value::from(time.strftime(format).to_string()))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, WireError> {
    let (mut is_text, mut number_value, mut text) = (false, 0_i32, String::new());
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some((number, raw)) = reader.next()? {
        match number {
            1 => is_text = raw.varint("Type")? != 0,
            2 => number_value = raw.varint("IntVal")? as u32 as i32,
            3 => text = raw.text("StrVal")?,
            _ => {}
        }
    }
    Ok(if is_text {
        Value::from(text)
    } else {
        Value::from(number_value)
    })
}

/// Parses JSON inside of protobuf.
fn json(bytes: &[u8], depth: usize) -> Result<Value, WireError> {
    let mut raw_json: &[u8] = &[];
    let mut reader = Reader::new(bytes, "RawExtension");
    while let Some((number, raw)) = reader.next()? {
        if number == 1 {
            raw_json = raw.bytes("Raw")?;
        }
    }
    if raw_json.is_empty() {
        return Ok(Value::Null);
    }
    // The error does not show the JSON, which may hold a secret.
    let value: Value = serde_json::from_slice(raw_json)
        .map_err(|_| WireError("invalid JSON in a raw value".to_owned()))?;
    if depth + levels(&value) > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(value)
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn too_deep() -> WireError {
    WireError("exceeded max depth".to_owned())
}
