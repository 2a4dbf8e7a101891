//! Protobuf as values, so that recorded bytes are compared as JSON is, by the table's names alone.
//!
//! ```text
//! k8s\0 + Unknown { typeMeta, raw } -> { apiVersion, kind, name: value }      frames of a watch -> [event]
//! ```
//!
//! It shares no code with the server's codec: it keeps zero values and flattens no member, and
//! values without a message in the table (quantities, raw values) are kept by their field numbers.

use std::collections::HashMap;

use jiff::Timestamp;
use kinform_schema::{Container, Field, FieldType, Type};
use serde_json::{Map, Value};

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// Value of a field number.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A body with its envelope; `None` if the bytes are not a body.
pub(crate) fn body(bytes: &[u8]) -> Option<Value> {
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for (number, wire) in fields(bytes.strip_prefix(b"k8s\0")?)? {
        match (number, wire) {
            (1, Wire::Bytes(meta)) => {
                for (number, wire) in fields(meta)? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => version = text_of(text)?,
                        (2, Wire::Bytes(text)) => kind = text_of(text)?,
                        _ => return None,
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            // Encoding and media type of the content, empty.
            (3 | 4, Wire::Bytes(b"")) => {}
            _ => return None,
        }
    }
    let (group, name) = version.split_once('/').unwrap_or(("", &version));
    let of = match group {
        "meta.k8s.io" => kinform_schema::named_type(META, &kind)?,
        group => kinform_schema::builtin(group, name, &kind)?,
    };
    let mut value = message(of, raw)?;
    value.insert("apiVersion".to_owned(), Value::from(version));
    value.insert("kind".to_owned(), Value::from(kind));
    Some(Value::Object(value))
}

/// The events of a watch: `type` and `object`; `None` if the bytes are not frames.
pub(crate) fn frames(mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (frame, rest) = rest.split_at_checked(length)?;
        let mut event = Map::new();
        for (number, wire) in fields(frame)? {
            let (name, value) = match (number, wire) {
                (1, Wire::Bytes(text)) => ("type", Value::from(text_of(text)?)),
                (2, Wire::Bytes(object)) => match fields(object)?[..] {
                    [(1, Wire::Bytes(object))] => ("object", body(object)?),
                    _ => return None,
                },
                _ => return None,
            };
            event.insert(name.to_owned(), value);
        }
        events.push(Value::Object(event));
        bytes = rest;
    }
    bytes.is_empty().then_some(events)
}

/// A body with our uid and version in its metadata; `None` if the bytes are not a body.
pub(crate) fn in_ours(bytes: &[u8], learned: &HashMap<String, String>) -> Option<Vec<u8>> {
    const RAW: u32 = 2;
    const METADATA: u32 = 1;
    let metadata = |number, held: &[u8]| match (number, std::str::from_utf8(held)) {
        // The uid and the version of an object.
        (5 | 6, Ok(text)) => learned.get(text).map(|ours| ours.clone().into_bytes()),
        _ => None,
    };
    let object = |number, held: &[u8]| match number {
        METADATA => rewritten(held, metadata),
        _ => None,
    };
    let unknown = |number, held: &[u8]| match number {
        RAW => rewritten(held, object),
        _ => None,
    };
    let mut out = b"k8s\0".to_vec();
    out.extend(rewritten(bytes.strip_prefix(b"k8s\0")?, unknown)?);
    Some(out)
}

/// Rewrites some fields of a message, which contains only bytes and small numbers.
fn rewritten(bytes: &[u8], change: impl Fn(u32, &[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for (number, wire) in fields(bytes)? {
        match wire {
            Wire::Number(value) => {
                put_varint(&mut out, u64::from(number) << 3);
                put_varint(&mut out, value);
            }
            Wire::Bytes(held) => {
                let held = change(number, held).unwrap_or_else(|| held.to_vec());
                put_varint(&mut out, u64::from(number) << 3 | 2);
                put_varint(&mut out, held.len() as u64);
                out.extend(held);
            }
        }
    }
    Some(out)
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn message(of: &Type, bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut out = Map::new();
    for (number, wire) in fields(bytes)? {
        let Some(field) = of.field_by_number(number) else {
            out.insert(format!("#{number}"), unknown(wire));
            continue;
        };
        let name = format!(
            "{}{}",
            field.name(),
            if field.is_inline() { "#" } else { "" }
        );
        match field.container() {
            Container::Single => {
                out.insert(name, value(field, wire)?);
            }
            Container::List => {
                let list = out.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                list.as_array_mut()?.push(value(field, wire)?);
            }
            Container::Map => {
                let Wire::Bytes(bytes) = wire else {
                    return None;
                };
                let map = out.entry(name).or_insert_with(|| Value::Object(Map::new()));
                let (mut key, mut held) = (String::new(), Value::Null);
                for (number, wire) in fields(bytes)? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => key = text_of(text)?,
                        (2, wire) => held = value(field, wire)?,
                        _ => return None,
                    }
                }
                map.as_object_mut()?.insert(key, held);
            }
        }
    }
    Some(out)
}

fn value(field: &Field, wire: Wire<'_>) -> Option<Value> {
    Some(match (field.field_type(), wire) {
        (FieldType::Message(of), Wire::Bytes(bytes)) => Value::Object(message(of, bytes)?),
        (FieldType::String, Wire::Bytes(bytes)) => Value::from(text_of(bytes)?),
        (FieldType::Time | FieldType::MicroTime, Wire::Bytes(bytes)) => time(bytes)?,
        (_, wire) => unknown(wire),
    })
}

/// A time as JSON has it; an unset one is empty.
fn time(bytes: &[u8]) -> Option<Value> {
    let (mut seconds, mut nanos) = (None, 0);
    for (number, wire) in fields(bytes)? {
        match (number, wire) {
            (1, Wire::Number(number)) => seconds = i64::try_from(number).ok(),
            (2, Wire::Number(number)) => nanos = i32::try_from(number).ok()?,
            _ => return None,
        }
    }
    Some(match seconds {
        Some(seconds) => Value::from(Timestamp::new(seconds, nanos).ok()?.to_string()),
        None => Value::from(""),
    })
}

/// A value without a type: JSON, text, a message by its numbers, or otherwise its bytes.
fn unknown(wire: Wire<'_>) -> Value {
    let bytes = match wire {
        Wire::Number(number) => return Value::from(number),
        Wire::Bytes(bytes) => bytes,
    };
    if let Ok(json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_slice(bytes) {
        return json;
    }
    match (std::str::from_utf8(bytes), fields(bytes)) {
        (Ok(text), _)
            if !text.contains(|c: char| c < '\t' || ('\u{e}'..' ').contains(&c))
                && !text.starts_with('\n') =>
        {
            Value::from(text)
        }
        (_, Some(fields)) => fields
            .into_iter()
            .map(|(number, wire)| (format!("#{number}"), unknown(wire)))
            .collect(),
        _ => Value::from(bytes),
    }
}

fn text_of(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// The fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u32, Wire<'_>)>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => {
                let (number, rest) = bytes.split_first_chunk::<8>()?;
                bytes = rest;
                Wire::Number(u64::from_le_bytes(*number))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (held, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Wire::Bytes(held)
            }
            _ => return None,
        };
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        out.push((number, wire));
    }
    Some(out)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for at in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
