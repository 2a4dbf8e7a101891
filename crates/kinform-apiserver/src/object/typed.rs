//! Reads and writes the fields of a built-in type as Go's structs do.
//!
//! ```text
//! JSON value + Type -> value in the form that the server writes + unknown fields | type error
//! ```
//!
//! A real server decodes a built-in object into a struct and encodes it again. This module does the
//! same to a value, by the table of types: unknown fields vanish, null is absent, zero values of
//! `omitempty` fields are left out, structs and fields without `omitempty` are always present,
//! times lose their fraction, quantities get one form, and a value of another type is an error.
//!
//! BOUND: the recursion is as deep as the value, which the parser limits to 128.
//!
//! Upstream: `encoding/json`, `sigs.k8s.io/json`; for strategic merge patches
//! `apimachinery:pkg/runtime/converter.go`, which has other error messages.

use base64::Engine as _;
use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

use super::quantity::Quantity;
use super::{go_types, strict, syntax_error};
use crate::budget::{Meter, encoded_size};

/// A value that does not match its field, in Go's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TypeError(pub(crate) String);

/// The upstream component that reports a type error; each has its own wording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The decoder of JSON.
    #[default]
    Decoder,
    /// The converter that applies strategic merge patches.
    Converter,
}

/// Reads a value of the server itself as a type. Paths of unknown fields are added to `unknown`.
pub(crate) fn read(of: &Type, value: Value, unknown: &mut Vec<String>) -> Result<Value, TypeError> {
    read_as(of, value, unknown, (Voice::Decoder, &Meter::endless()))
}

/// Reads a value as a type, with errors in the words of `voice`. Fields that are always present
/// take their size from the meter; an error without words is one of a spent meter.
pub(crate) fn read_as(
    of: &Type,
    value: Value,
    unknown: &mut Vec<String>,
    (voice, meter): (Voice, &Meter),
) -> Result<Value, TypeError> {
    let mut reader = Reader {
        unknown,
        voice,
        meter,
    };
    reader.message(of, value, &Place::root(of))
}

/// Returns the value of a member that is not set.
pub(crate) fn empty_member(of: &Type, name: &str) -> Option<Value> {
    let field = of.field(name)?;
    let mut unknown = Vec::new();
    Reader {
        unknown: &mut unknown,
        voice: Voice::Decoder,
        meter: &Meter::endless(),
    }
    .absent(field, &Place::root(of))
    .ok()
    .flatten()
}

struct Reader<'a> {
    unknown: &'a mut Vec<String>,
    voice: Voice,
    meter: &'a Meter,
}

/// The position of a value. It is formatted only for an error.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The enclosing struct, which is not embedded.
    of: &'a Type,
    step: Step<'a>,
    above: Option<&'a Self>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Member(&'a str),
    /// A struct whose members are inlined in its parent.
    Embedded(&'a str),
    Item(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    fn root(of: &'a Type) -> Self {
        Self {
            of,
            step: Step::Root,
            above: None,
        }
    }

    fn below(&'a self, step: Step<'a>) -> Self {
        Self {
            of: self.of,
            step,
            above: Some(self),
        }
    }

    fn steps(&self) -> Vec<Step<'a>> {
        let mut steps = vec![self.step];
        let mut above = self.above;
        while let Some(place) = above {
            steps.push(place.step);
            above = place.above;
        }
        steps.reverse();
        steps
    }

    /// Returns the path as `spec.containers[0].image`.
    fn path(&self) -> String {
        let mut path = String::new();
        for step in self.steps() {
            match step {
                Step::Root | Step::Embedded(_) => {}
                Step::Item(at) => path.push_str(&format!("[{at}]")),
                Step::Member(name) | Step::Key(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
            }
        }
        path
    }

    /// Returns the path as Go's decoder reports it: the fields alone, including embedded structs.
    fn fields(&self) -> String {
        let steps = self.steps();
        let names = steps.iter().filter_map(|step| match step {
            Step::Member(name) | Step::Embedded(name) => Some(*name),
            Step::Root | Step::Item(_) | Step::Key(_) => None,
        });
        names.collect::<Vec<&str>>().join(".")
    }

    fn error(&self, voice: Voice, value: &Value, go_type: &str) -> TypeError {
        if voice == Voice::Converter {
            return TypeError(converter_words(value, go_type));
        }
        let kind = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if go_type.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let (of, path) = (self.of.name(), self.fields());
        TypeError(format!(
            "json: cannot unmarshal {kind} into Go struct field {of}.{path} of type {go_type}"
        ))
    }
}

/// Upstream: `fromUnstructured`.
fn converter_words(value: &Value, go_type: &str) -> String {
    let from = match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    };
    let is_number = |name: &str| matches!(name, "int32" | "int64" | "float64");
    if go_type.starts_with("[]") && go_type != "[]uint8" {
        return format!("cannot restore slice from {from}");
    }
    if go_type.starts_with("map[") || go_type == "v1.ResourceList" {
        return format!("cannot restore map from {from}");
    }
    if is_struct_name(go_type) {
        return format!("cannot restore struct from: {from}");
    }
    let is_text = !is_number(go_type) && !matches!(go_type, "bool" | "[]uint8");
    if (is_number(from) && is_number(go_type)) || (from == "int64" && is_text) {
        return format!("cannot convert {from} to {go_type}");
    }
    let kind = if is_text { "string" } else { go_type };
    format!("unrecognized type: {kind}")
}

/// The callers pass such names for structs.
fn is_struct_name(go_type: &str) -> bool {
    go_type.starts_with("struct ")
}

impl Reader<'_> {
    fn message(&mut self, of: &Type, value: Value, place: &Place<'_>) -> Result<Value, TypeError> {
        let Value::Object(mut given) = value else {
            let package = of.package().rsplit('/').next().unwrap_or_default();
            let go_type = match self.voice {
                Voice::Decoder => format!("{package}.{}", of.name()),
                Voice::Converter => format!("struct {}", of.name()),
            };
            return Err(place.error(self.voice, &value, &go_type));
        };
        if !self.meter.step(1) {
            return Err(TypeError::default());
        }
        let mut out = Map::new();
        let inside = Place { of, ..*place };
        self.fields(of, &mut given, &mut out, &inside)?;
        if of.is_kind() {
            given.remove("apiVersion");
            given.remove("kind");
        }
        let path = |name: &String| place.below(Step::Member(name)).path();
        strict::tell(self.unknown, given.keys().map(path));
        Ok(Value::Object(out))
    }

    /// Moves the fields of a type, and of its inline structs, from the given value to the written
    /// one.
    fn fields(
        &mut self,
        of: &Type,
        given: &mut Map<String, Value>,
        out: &mut Map<String, Value>,
        place: &Place<'_>,
    ) -> Result<(), TypeError> {
        for field in of.fields() {
            if let (true, Some(message)) = (field.is_inline(), field.message()) {
                self.fields(
                    message,
                    given,
                    out,
                    &place.below(Step::Embedded(message.name())),
                )?;
                continue;
            }
            let place = place.below(Step::Member(field.name()));
            let written = match given.remove(field.name()).filter(|value| !value.is_null()) {
                None => {
                    let made = self.absent(field, &place)?;
                    self.take(field, made.as_ref())?;
                    made
                }
                Some(value) => Some(self.present((of, field), value, &place)?)
                    .filter(|value| !(omits(field) && is_empty(value))),
            };
            if let Some(value) = written {
                out.insert(field.name().to_owned(), value);
            }
        }
        Ok(())
    }

    /// Takes the size of a value that is written for an absent field. Members of a struct took
    /// theirs when they were made.
    fn take(&self, field: &Field, made: Option<&Value>) -> Result<(), TypeError> {
        let size = match made {
            None => return Ok(()),
            Some(Value::Object(_)) => 2,
            Some(value) => encoded_size(value),
        };
        match self.meter.take(field.name().len() + 4 + size) {
            true => Ok(()),
            false => Err(TypeError::default()),
        }
    }

    /// Returns the value that is written for an absent field.
    fn absent(&mut self, field: &Field, place: &Place<'_>) -> Result<Option<Value>, TypeError> {
        let nothing = (!field.omits_empty()).then_some(Value::Null);
        if field.is_pointer() || field.container() != Container::Single {
            return Ok(nothing);
        }
        if field.omits_zero() {
            return Ok(None);
        }
        Ok(match field.field_type() {
            FieldType::Message(of) => Some(self.message(of, Value::Object(Map::new()), place)?),
            FieldType::Time | FieldType::MicroTime | FieldType::RawExtension => Some(Value::Null),
            FieldType::Quantity => Some(Value::from("0")),
            FieldType::IntOrString => Some(Value::from(0)),
            FieldType::String if !field.omits_empty() => Some(Value::from("")),
            FieldType::Bool if !field.omits_empty() => Some(Value::from(false)),
            FieldType::Int32 | FieldType::Int64 | FieldType::Double if !field.omits_empty() => {
                Some(Value::from(0))
            }
            _ => nothing,
        })
    }

    fn present(
        &mut self,
        (of, field): (&Type, &Field),
        value: Value,
        place: &Place<'_>,
    ) -> Result<Value, TypeError> {
        match (field.container(), value) {
            (Container::Single, value) => self.one((of, field), value, place),
            (Container::List, Value::Array(items)) => {
                let items = items.into_iter().enumerate();
                items
                    .map(|(at, item)| self.one((of, field), item, &place.below(Step::Item(at))))
                    .collect()
            }
            (Container::Map, Value::Object(entries)) => {
                let entry = |(name, value): (String, Value)| {
                    let value = self.one((of, field), value, &place.below(Step::Key(&name)))?;
                    Ok((name, value))
                };
                let entries: Result<Map<_, _>, _> = entries.into_iter().map(entry).collect();
                Ok(Value::Object(entries?))
            }
            (_, value) => Err(place.error(self.voice, &value, &go_types::of_whole(of, field))),
        }
    }

    /// Reads one value: a field's, a list item's or a map entry's.
    fn one(
        &mut self,
        (of, field): (&Type, &Field),
        value: Value,
        place: &Place<'_>,
    ) -> Result<Value, TypeError> {
        match field.field_type() {
            FieldType::Message(of) if value.is_null() => {
                // A null item of a list of structs becomes an empty struct.
                return self.message(of, Value::Object(Map::new()), place);
            }
            FieldType::Message(of) => return self.message(of, value, place),
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => return self.schema(value, place),
            _ => {}
        }
        if let Some(written) = self.rewritten(field.field_type(), &value) {
            return written;
        }
        if fits(field.field_type(), &value) {
            Ok(value)
        } else {
            Err(place.error(self.voice, &value, &go_types::of_one(of, field)))
        }
    }

    /// Returns a value in normalized form, or the reason why it has none. Returns `None` if the
    /// value needs no normalization.
    fn rewritten(&self, of: FieldType, value: &Value) -> Option<Result<Value, TypeError>> {
        let written = match (of, value) {
            (FieldType::String | FieldType::Bytes, Value::Null) => Ok(Value::from("")),
            (FieldType::Int32 | FieldType::Int64 | FieldType::Double, Value::Null) => {
                Ok(Value::from(0))
            }
            (FieldType::Bool, Value::Null) => Ok(Value::from(false)),
            (FieldType::Int32, Value::Number(number)) if self.voice == Voice::Converter => {
                // The converter truncates a number that is too large.
                let bytes = number.as_i64()?.to_le_bytes();
                let low = [bytes[0], bytes[1], bytes[2], bytes[3]];
                Ok(Value::from(i32::from_le_bytes(low)))
            }
            (FieldType::Time, Value::String(text)) => {
                parse_time(text, "2006-01-02T15:04:05Z07:00").map(time)
            }
            (FieldType::MicroTime, Value::String(text)) => {
                parse_time(text, "2006-01-02T15:04:05.000000Z07:00").map(micro_time)
            }
            (FieldType::Quantity, Value::Number(number)) => quantity(&number.to_string()),
            (FieldType::Quantity, Value::String(text)) => quantity(text.trim()),
            (FieldType::Quantity, Value::Null) => Ok(Value::from("0")),
            (FieldType::Quantity, _) => quantity("!"),
            (FieldType::Bytes, Value::String(text)) => {
                let at = syntax_error::base64(text)?;
                let error = format!("illegal base64 data at input byte {at}");
                Err(TypeError(match self.voice {
                    Voice::Decoder => error,
                    Voice::Converter => format!("error decoding from json: {error}"),
                }))
            }
            (FieldType::Bytes, Value::Array(items)) if items.iter().all(is_byte) => {
                Ok(bytes(items))
            }
            _ => return None,
        };
        Some(written)
    }

    /// Reads one of the forms in which a schema contains schemas.
    fn schema(&mut self, value: Value, place: &Place<'_>) -> Result<Value, TypeError> {
        const PACKAGE: &str = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        match (
            kinform_schema::named_type(PACKAGE, "JSONSchemaProps"),
            value,
        ) {
            (Some(of), value @ Value::Object(_)) => self.message(of, value, place),
            (Some(of), Value::Array(items)) => {
                let one = |(at, item): (usize, Value)| match item {
                    item @ Value::Object(_) => self.message(of, item, &place.below(Step::Item(at))),
                    item => Ok(item),
                };
                items.into_iter().enumerate().map(one).collect()
            }
            (_, value) => Ok(value),
        }
    }
}

/// Returns whether a value that needs no normalization is of its type.
fn fits(of: FieldType, value: &Value) -> bool {
    let is_int32 = |number| i32::try_from(number).is_ok();
    match of {
        FieldType::String | FieldType::Duration | FieldType::Bytes => value.is_string(),
        FieldType::Time | FieldType::MicroTime => value.is_null(),
        FieldType::Bool => value.is_boolean(),
        FieldType::Int32 => value.as_i64().is_some_and(is_int32),
        FieldType::Int64 => value.is_i64(),
        FieldType::Double => value.is_number(),
        FieldType::IntOrString => value.is_string() || value.as_i64().is_some_and(is_int32),
        FieldType::Strings => value
            .as_array()
            .is_some_and(|items| items.iter().all(Value::is_string)),
        _ => true,
    }
}

/// Converts a list of small numbers, which Go also accepts as bytes.
fn bytes(items: &[Value]) -> Value {
    let bytes: Vec<u8> = items
        .iter()
        .filter_map(|item| u8::try_from(item.as_u64()?).ok())
        .collect();
    Value::from(base64::engine::general_purpose::STANDARD.encode(bytes))
}

fn is_byte(item: &Value) -> bool {
    item.as_u64().is_some_and(|number| number < 256)
}

/// Returns whether the field is left out if it has its zero value. Structs are never left out.
fn omits(field: &Field) -> bool {
    let is_struct = field.container() == Container::Single
        && matches!(
            field.field_type(),
            FieldType::Message(_) | FieldType::IntOrString | FieldType::Quantity
        );
    field.omits_empty() && !field.is_pointer() && !is_struct
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

fn time(at: Timestamp) -> Value {
    Value::from(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn micro_time(at: Timestamp) -> Value {
    Value::from(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

fn quantity(text: &str) -> Result<Value, TypeError> {
    let quantity: Result<Quantity, _> = text.parse();
    quantity
        .map(|quantity| Value::from(quantity.to_string()))
        .map_err(|error| TypeError(error.0.to_owned()))
}

fn parse_time(text: &str, layout: &str) -> Result<Timestamp, TypeError> {
    text.parse().map_err(|_| {
        let (rest, element) = syntax_error::time(text);
        TypeError(format!(
            "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"
        ))
    })
}

#[cfg(test)]
mod tests;
