//! The validator: one pass over a message and all that is in it, by the table.
//!
//! ```text
//! type, bytes → message → Order (as Kubernetes writes | to be put right) | Fault {path, why}
//! ```
//!
//! Checked are tags, lengths, wire types, UTF-8 of every text, JSON inside of protobuf, times that have a text,
//! depth. Unknown numbers, which a newer server may send, are stepped over. Fields in the order of their
//! numbers, each single one once, are what every Kubernetes writer makes, and what lenses rely on. What is
//! in `metadata.managedFields` is stepped over where they are not kept: their length says where they end.
//!
//! INVARIANT: whatever passed here can be read by `value` without meeting an error.
//! Upstream: the generated `Unmarshal` functions of `kubernetes/api`. Complexity: linear; recursion is
//! bounded by `MAX_DEPTH`.

use kinform_schema::{Container, Field as Spec, FieldType, Type};

use super::fields::{Field, Fields, Wire};
use super::head::{MANAGED_FIELDS, METADATA};
use super::{MAX_DEPTH, schema_props};
use crate::wire::head::ManagedFields;
use crate::wire::json;
use crate::wire::scan::is_ascii;

/// No field has this number.
const NONE: u32 = 0;

/// Whether a message is as Kubernetes' writers make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Usual,
    /// Fields come in another order, repeated or packed: `order` puts them right.
    Unusual,
}

/// What is wrong with a message, and where; never what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// As `spec.containers[0].image`.
    pub(crate) path: String,
    pub(crate) why: &'static str,
}

const WIRE_TYPE: &str = "a field has the wrong wire type";
const UTF8: &str = "not UTF-8";
const DEEP: &str = "nested deeper than 128 levels";
const JSON: &str = "the JSON in it is broken";
const TIME: &str = "the time has no text";
const NUMBER: &str = "the number has no text";

/// Checks a whole message; what is in its managedFields only if they are kept.
pub(crate) fn message(of: &Type, bytes: &[u8], managed: ManagedFields) -> Result<Order, Fault> {
    let metadata = match managed {
        ManagedFields::Drop => Fields::of(bytes).find(|field| field.number == METADATA),
        ManagedFields::Keep => None,
    };
    let mut checker = Checker {
        order: Order::Usual,
        metadata: metadata.and_then(|field| field.value.bytes()),
    };
    match checker.message(of, bytes, MAX_DEPTH) {
        Ok(()) => Ok(checker.order),
        Err(fault) => Err(*fault),
    }
}

struct Checker<'a> {
    order: Order,
    /// The metadata of the object itself, if its managedFields are skipped: the bytes that
    /// are most of what is read, and never kept.
    metadata: Option<&'a [u8]>,
}

/// Boxed: what is nearly always right is handed on in a register.
type Checked = Result<(), Box<Fault>>;

impl Checker<'_> {
    fn message(&mut self, of: &Type, bytes: &[u8], depth: u32) -> Checked {
        let Some(depth) = depth.checked_sub(1) else {
            return fault(DEEP);
        };
        let skipped = match self.metadata {
            Some(metadata) if std::ptr::eq(metadata, bytes) => MANAGED_FIELDS,
            _ => NONE,
        };
        let mut fields = Fields::of(bytes);
        let (mut last, mut index) = (0, 0_usize);
        for field in fields.by_ref() {
            let number = field.number;
            if number < last {
                self.order = Order::Unusual;
            }
            index = if number == last { index + 1 } else { 0 };
            let is_again = number == last;
            last = number;
            let Some(spec) = of.field_by_number(number) else {
                continue;
            };
            if number == skipped && field.value.bytes().is_some() {
                continue;
            }
            let container = spec.container();
            if is_again && container == Container::Single {
                self.order = Order::Unusual;
            }
            let checked = match container {
                // Most fields are texts.
                Container::Single if matches!(spec.field_type(), FieldType::String) => {
                    text(field.value)
                }
                Container::Single => self.value(spec, field.value, depth),
                Container::List => self.element(spec, field.value, depth),
                Container::Map => self.entry(spec, field.value, depth),
            };
            if let Err(fault) = checked {
                return Err(Box::new(fault.inside(spec, index, field)));
            }
        }
        fields.broken().map_or(Ok(()), fault)
    }

    /// An element of a list, or packed numbers.
    fn element(&mut self, spec: &Spec, value: Wire<'_>, depth: u32) -> Checked {
        match value {
            Wire::Bytes(packed) if is_number(spec) => {
                self.order = Order::Unusual;
                let mut at = 0;
                while at < packed.len() {
                    let Some((_, next)) = super::fields::varint(packed, at) else {
                        return fault("a number is broken");
                    };
                    at = next;
                }
                Ok(())
            }
            value => self.value(spec, value, depth),
        }
    }

    fn entry(&mut self, spec: &Spec, entry: Wire<'_>, depth: u32) -> Checked {
        let mut fields = inside(entry)?;
        for field in fields.by_ref() {
            match field.number {
                1 => text(field.value)?,
                2 => self.value(spec, field.value, depth)?,
                _ => {}
            }
        }
        fields.broken().map_or(Ok(()), fault)
    }

    /// One value: a field's, a list's element or a map's entry.
    fn value(&mut self, spec: &Spec, value: Wire<'_>, depth: u32) -> Checked {
        match spec.field_type() {
            FieldType::String => text(value),
            FieldType::Bool | FieldType::Int32 | FieldType::Int64 => number(value),
            FieldType::Message(of) => self.message(of, bytes(value)?, depth),
            FieldType::Double => match value {
                Wire::Fixed64(bits) if f64::from_bits(bits).is_finite() => Ok(()),
                Wire::Fixed64(_) => fault(NUMBER),
                _ => fault(WIRE_TYPE),
            },
            FieldType::Bytes => bytes(value).map(drop),
            FieldType::Quantity | FieldType::Strings => {
                every(value, |number, value| match number {
                    1 => text(value),
                    _ => Ok(()),
                })
            }
            FieldType::Time | FieldType::MicroTime => time(value),
            FieldType::IntOrString => every(value, |field, value| match field {
                1 | 2 => number(value),
                3 => text(value),
                _ => Ok(()),
            }),
            FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json => raw(value),
            FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray => {
                self.schema(spec.field_type(), value, depth)
            }
            _ => bytes(value).map(drop),
        }
    }

    fn schema(&mut self, form: FieldType, value: Wire<'_>, depth: u32) -> Checked {
        let Some(of) = schema_props() else {
            return fault(WIRE_TYPE);
        };
        every(value, |field, value| match (form, field) {
            (FieldType::JsonSchemaPropsOrBool, 1) => number(value),
            (FieldType::JsonSchemaPropsOrStringArray, 2) => text(value),
            (_, 1 | 2) => self.message(of, bytes(value)?, depth),
            _ => Ok(()),
        })
    }
}

/// Whether elements of a list may come packed.
pub(super) fn is_number(spec: &Spec) -> bool {
    matches!(
        spec.field_type(),
        FieldType::Int32 | FieldType::Int64 | FieldType::Bool
    )
}

#[cold]
fn fault<T>(why: &'static str) -> Result<T, Box<Fault>> {
    let path = String::new();
    Err(Box::new(Fault { path, why }))
}

#[inline(always)]
fn bytes(value: Wire<'_>) -> Result<&[u8], Box<Fault>> {
    value.bytes().map_or_else(|| fault(WIRE_TYPE), Ok)
}

fn inside(value: Wire<'_>) -> Result<Fields<'_>, Box<Fault>> {
    bytes(value).map(Fields::of)
}

#[inline(always)]
fn text(value: Wire<'_>) -> Checked {
    match value {
        Wire::Bytes(bytes) if is_text(bytes) => Ok(()),
        Wire::Bytes(_) => fault(UTF8),
        _ => fault(WIRE_TYPE),
    }
}

#[inline(always)]
fn is_text(bytes: &[u8]) -> bool {
    is_ascii(bytes) || std::str::from_utf8(bytes).is_ok()
}

#[inline(always)]
fn number(value: Wire<'_>) -> Checked {
    match value {
        Wire::Varint(_) => Ok(()),
        _ => fault(WIRE_TYPE),
    }
}

/// Every field of a small message that the table has as one form.
fn every(value: Wire<'_>, mut each: impl FnMut(u32, Wire<'_>) -> Checked) -> Checked {
    let mut fields = inside(value)?;
    for field in fields.by_ref() {
        each(field.number, field.value)?;
    }
    fields.broken().map_or(Ok(()), fault)
}

fn time(value: Wire<'_>) -> Checked {
    every(value, |field, value| match field {
        1 | 2 => number(value),
        _ => Ok(()),
    })?;
    match value.bytes().is_none_or(super::text::has_text) {
        true => Ok(()),
        false => fault(TIME),
    }
}

fn raw(value: Wire<'_>) -> Checked {
    every(value, |field, value| match (field, value) {
        (1, Wire::Bytes(b"")) => Ok(()),
        (1, Wire::Bytes(raw)) => json::document(raw).or_else(|_| fault(JSON)),
        (1, _) => fault(WIRE_TYPE),
        _ => Ok(()),
    })
}

impl Fault {
    /// The same fault, told from outside of this field.
    fn inside(mut self, spec: &Spec, index: usize, field: Field<'_>) -> Self {
        let mut path = spec.name().to_owned();
        match spec.container() {
            Container::Single => {}
            Container::List => path.push_str(&format!("[{index}]")),
            Container::Map => {
                let entry = field.value.bytes().unwrap_or_default();
                let (key, _) = super::value::entry(entry);
                if !entry.is_empty() {
                    crate::wire::cursor::push_key(&mut path, &String::from_utf8_lossy(key));
                }
            }
        }
        if !self.path.is_empty() && !path.is_empty() && !self.path.starts_with('[') {
            path.push('.');
        }
        path.push_str(&self.path);
        self.path = path;
        self
    }
}
