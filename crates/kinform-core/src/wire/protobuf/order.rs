//! Rewrites a message in the order in which Kubernetes writes, on which lenses rely.
//!
//! ```text
//! validated message, unusual → usual → the same message: fields by number, each single one once
//! ```
//!
//! Kubernetes sends no message that needs this, but protobuf allows it. As in Go a message that
//! comes twice is merged, and of a scalar the last value counts. Unknown fields are dropped.
//!
//! Upstream: the generated `Unmarshal` functions, which take any order. Complexity: one pass over
//! the message for each number in it.

use kinform_api::mutant;
use kinform_schema::{Container, Field as Spec, FieldType, Type};

use super::check::is_number;
use super::fields::{Fields, Wire, put_bytes, put_varint, varint};

/// Returns the message in the usual order. It was validated, so its depth is bounded.
pub(crate) fn usual(of: &Type, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    message(of, bytes, &mut out);
    out
}

fn message(of: &Type, bytes: &[u8], out: &mut Vec<u8>) {
    let present = Fields::of(bytes)
        .filter_map(|field| of.position(field.number))
        .fold(0_u64, |present, at| present | 1 << (at % 64));
    for spec in of.fields_by_number() {
        let is_there = of
            .position(spec.number())
            .is_some_and(|at| present >> (at % 64) & 1 == 1);
        if is_there {
            field(spec, bytes, out);
        }
    }
}

/// Appends all values of one field.
fn field(spec: &Spec, bytes: &[u8], out: &mut Vec<u8>) {
    let number = spec.number();
    let values = || Fields::of(bytes).filter(move |field| field.number == number);
    match (spec.container(), spec.message()) {
        (Container::Single, Some(of)) => {
            // Two concatenated encodings are the encoding of both messages merged.
            let mut all: Vec<&[u8]> = values().filter_map(|field| field.value.bytes()).collect();
            if mutant!("K10") {
                all = all.pop().into_iter().collect();
            }
            if !all.is_empty() {
                let mut inside = Vec::new();
                message(of, &all.concat(), &mut inside);
                put_bytes(out, number, &inside);
            }
        }
        (Container::Single, None) => {
            if let Some(field) = values().last() {
                put(spec, field.value, out);
            }
        }
        (Container::List, Some(of)) => {
            for value in values().filter_map(|field| field.value.bytes()) {
                put_bytes(out, number, &usual(of, value));
            }
        }
        (Container::List, None) => {
            for field in values() {
                match field.value {
                    Wire::Bytes(packed) if is_number(spec) => {
                        let mut at = 0;
                        while let Some((value, next)) = varint(packed, at) {
                            put(spec, Wire::Varint(value), out);
                            at = next;
                        }
                    }
                    value => put(spec, value, out),
                }
            }
        }
        (Container::Map, _) => {
            for entry in values().filter_map(|field| field.value.bytes()) {
                put_bytes(out, number, &map_entry(spec, entry));
            }
        }
    }
}

fn map_entry(spec: &Spec, entry: &[u8]) -> Vec<u8> {
    let last = |number| {
        Fields::of(entry)
            .filter(|field| field.number == number)
            .last()
            .map(|field| field.value)
    };
    let mut out = Vec::with_capacity(entry.len());
    put_bytes(
        &mut out,
        1,
        last(1).and_then(Wire::bytes).unwrap_or_default(),
    );
    match (last(2), spec.message()) {
        (Some(Wire::Bytes(value)), Some(of)) => put_bytes(&mut out, 2, &usual(of, value)),
        (Some(value), _) => put_value(spec, 2, value, &mut out),
        (None, _) => {}
    }
    out
}

fn put(spec: &Spec, value: Wire<'_>, out: &mut Vec<u8>) {
    put_value(spec, spec.number(), value, out);
}

fn put_value(spec: &Spec, number: u32, value: Wire<'_>, out: &mut Vec<u8>) {
    let tag = u64::from(number) << 3;
    match value {
        Wire::Varint(value) => {
            put_varint(out, tag);
            put_varint(out, value);
        }
        Wire::Fixed64(bits) => {
            put_varint(out, tag | 1);
            out.extend_from_slice(&bits.to_le_bytes());
        }
        Wire::Fixed32 => {}
        Wire::Bytes(bytes) => match spec.field_type() {
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => {
                put_bytes(out, number, &schema(spec.field_type(), bytes));
            }
            _ => put_bytes(out, number, bytes),
        },
    }
}

fn schema(form: FieldType, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for field in Fields::of(bytes) {
        let is_schema = match form {
            FieldType::JsonSchemaPropsOrBool => field.number == 2,
            FieldType::JsonSchemaPropsOrStringArray => field.number == 1,
            _ => true,
        };
        match (field.value, super::types::schema_props()) {
            (Wire::Bytes(value), Some(of)) if is_schema => {
                put_bytes(&mut out, field.number, &usual(of, value));
            }
            _ => out.extend_from_slice(&bytes[field.start..field.end]),
        }
    }
    out
}
