//! The validator: one pass over a message and all messages in it, driven by the table of types.
//!
//! ```text
//! type, bytes, template? → message → Order (usual | unusual) | Fault {path, why}
//! ```
//!
//! Checks tags, lengths, wire types, the UTF-8 of every text, JSON inside of protobuf, that each
//! time has a text, and depth. Skips unknown numbers, which a newer server may send. Fields in the
//! order of their numbers, each single one at most once, are the usual order: every Kubernetes
//! writer makes it, and lenses rely on it. `metadata.managedFields` are skipped by their length
//! where they are not kept. Bytes that equal those at the same place of a template are only
//! compared; in a message that differs from its counterpart in values only, just these values are
//! validated.
//!
//! INVARIANT: `value` and `members` read validated messages without meeting an error.
//! Upstream: the generated `Unmarshal` functions of `kubernetes/api`. Complexity: linear; recursion
//! is bounded by `MAX_DEPTH`.

use std::borrow::Cow;

use kinform_api::mutant;
use kinform_schema::{Container, Field as Spec, FieldType, Type, numbered_type};

use super::counterpart::{Counterpart, Met, Template};
use super::fields::{BYTES, FIXED64, Field, Fields, Split, VARINT, Wire, varint};
use super::metadata::{MANAGED_FIELDS, METADATA};
use super::outline::{Kind, Outline};
use super::plan::{Form, Plans, Stands, Step, UNKNOWN, plans};
use super::types::{MAX_DEPTH, schema_props};
use crate::wire::json::path::{INNER_LEVELS, LEFT_OUT, OUTER_LEVELS, USUAL_BYTES, push_key};
use crate::wire::layout::ManagedFields;
use crate::wire::scan::is_ascii;

/// A number that no field has.
const NONE: u32 = 0;

/// The order of a message's fields, compared with that of Kubernetes' writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Usual,
    /// Fields are in another order, repeated or packed: `order` rewrites them.
    Unusual,
}

/// The kind and the place of a fault in a message; never the value at that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// A path such as `spec.containers[0].image`.
    pub(crate) path: String,
    pub(crate) why: &'static str,
    /// The number of levels between the start of its path and the fault.
    levels: usize,
}

impl Fault {
    /// Returns whether a text, or JSON, that is not UTF-8 may be the fault.
    pub(crate) fn is_in_text(&self) -> bool {
        is_in_text(self.why)
    }
}

/// The same of the reason in a report.
pub(super) fn is_in_text(why: &str) -> bool {
    why == UTF8 || why == JSON
}

const WIRE_TYPE: &str = "a field has the wrong wire type";
const UTF8: &str = "not UTF-8";
const DEEP: &str = "nested deeper than 128 levels";
const JSON: &str = "the JSON in it is broken";
const TIME: &str = "the time has no text";
const NUMBER: &str = "the number has no text";
const PACKED: &str = "a number is broken";

/// Checks a whole message; the contents of its managedFields only if they are kept.
pub(crate) fn message(of: &Type, bytes: &[u8], managed: ManagedFields) -> Result<Order, Fault> {
    Checker::check(of, bytes, managed, (&[], None)).map(|checked| checked.order())
}

/// Checks a message except its managedFields, by comparison with a message of the same type that
/// was found to be in the usual order, and with the outline of that. Returns also the number of
/// bytes that were only compared.
pub(super) fn with_template(
    of: &Type,
    bytes: &[u8],
    template: &[u8],
    outline: &Outline,
) -> Result<(Order, usize), Fault> {
    Checker::check(of, bytes, ManagedFields::Drop, (template, Some(outline)))
        .map(|checked| (checked.order(), checked.compared))
}

struct Checker<'a> {
    plans: &'static Plans,
    /// The message to compare with; empty if there is none.
    template: &'a [u8],
    outline: Option<&'a Outline>,
    is_unusual: bool,
    managed: Managed,
    /// The number of bytes that equal the template's.
    compared: usize,
    /// The number of bytes that may still be read in comparisons that are wasted.
    left_in_vain: usize,
}

/// BOUND: wasted comparisons read at most this many times an item's bytes. Messages that differ are
/// compared again once a level; replicas are not that deep.
const TIMES_IN_VAIN: usize = 8;

/// The progress towards the object's own managedFields, which are skipped: they are most of an
/// object's bytes, and never kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Managed {
    /// They are in the first metadata, which are still to come.
    Ahead,
    /// They are in the metadata that are being checked.
    Here,
    /// No more managedFields are skipped.
    Behind,
}

/// The number of levels left inside of the object, and inside of its metadata.
const IN_OBJECT: u32 = MAX_DEPTH - 1;
const IN_METADATA: u32 = MAX_DEPTH - 2;

/// The error is boxed, so that the usual result, `Ok`, fits into a register.
type Checked = Result<(), Box<Fault>>;

impl<'a> Checker<'a> {
    fn check(
        of: &Type,
        bytes: &[u8],
        managed: ManagedFields,
        (template, outline): (&'a [u8], Option<&'a Outline>),
    ) -> Result<Self, Fault> {
        let mut checker = Self {
            plans: plans(),
            template,
            outline,
            is_unusual: false,
            managed: match managed {
                ManagedFields::Drop => Managed::Ahead,
                ManagedFields::Keep => Managed::Behind,
            },
            compared: 0,
            left_in_vain: TIMES_IN_VAIN * bytes.len(),
        };
        let whole = Counterpart {
            bytes: template,
            at: 0,
        };
        match checker.message_with_template(of.number(), bytes, whole, MAX_DEPTH) {
            Ok(()) => Ok(checker),
            Err(fault) => Err(*fault),
        }
    }

    fn order(&self) -> Order {
        match self.is_unusual {
            false => Order::Usual,
            true => Order::Unusual,
        }
    }

    /// Checks a message that is not equal to its counterpart, which is empty where there is none.
    fn message_with_template(
        &mut self,
        of: u16,
        bytes: &[u8],
        other: Counterpart<'_>,
        depth: u32,
    ) -> Checked {
        // A message that differs in more than values is compared again, level by level.
        if other.bytes.is_empty() || self.left_in_vain < bytes.len() {
            return self.message(of, bytes, Counterpart::default(), depth);
        }
        if let Some(compared) = self.follow(bytes, other, depth) {
            self.compared += compared;
            return Ok(());
        }
        self.left_in_vain -= bytes.len();
        self.message(of, bytes, other, depth)
    }

    /// Returns the number of bytes that equal the counterpart's, if the message is valid and
    /// differs in values only.
    fn follow(&mut self, bytes: &[u8], other: Counterpart<'_>, depth: u32) -> Option<usize> {
        let outline = self.outline?;
        let message = match depth {
            MAX_DEPTH => None,
            _ => Some(outline.message_at(other.at)?),
        };
        outline.follow(self.template, message, bytes, |spot, value| {
            let depth = u32::from(spot.depth);
            let checked = match spot.kind {
                Kind::Message | Kind::Number | Kind::Skipped => Ok(()),
                Kind::Entry(form) => self.entry(form, spot.of, value, depth),
                // Most values are texts.
                Kind::Value(Form::Text) => text(value),
                Kind::Value(form) => self.value(form, spot.of, value, depth),
            };
            checked.is_ok()
        })
    }

    /// Checks a message; compares the messages in it with those in its counterpart.
    fn message(&mut self, of: u16, bytes: &[u8], template: Counterpart<'_>, depth: u32) -> Checked {
        let Some(depth) = depth.checked_sub(1) else {
            return fault(DEEP);
        };
        let steps = self.plans.steps(of);
        let (mut rest, mut template) = (bytes, Template::of(template));
        let mut last = NONE;
        while let Some(field) = Split::of(rest) {
            let number = field.number;
            let step = steps.get(number as usize).unwrap_or(&UNKNOWN);
            let checked = match (field.form, step.form) {
                // Most fields are texts.
                (BYTES, Form::Text) => text(field.value),
                (BYTES, Form::Message | Form::Json) => {
                    let raw = &rest[..rest.len() - field.rest.len()];
                    self.inner(*step, (number, raw, field.value), &mut template, depth)
                }
                (BYTES, Form::Time) => time(field.value),
                (BYTES, Form::Number) if step.stands == Stands::InList => self.packed(field.value),
                (BYTES, Form::Entry) => self.entry(step.inside, step.of, field.value, depth),
                (BYTES, form) => self.value(form, step.of, field.value, depth),
                (VARINT, Form::Number) => Ok(()),
                (wire, form) => scalar(form, wire, field.value),
            };
            if let Err(mut fault) = checked {
                fault.put_before(of, bytes, bytes.len() - rest.len(), depth);
                return Err(fault);
            }
            if number <= last {
                let is_again = number == last && step.stands.is_repeated();
                self.is_unusual |= !is_again && !mutant!("K9");
            }
            (last, rest) = (number, field.rest);
        }
        match rest {
            [] => Ok(()),
            rest => Fields::of(rest).broken().map_or(Ok(()), fault),
        }
    }

    /// Checks a message or JSON in a message. `field` is its number, its bytes and its value.
    #[inline(always)]
    fn inner(
        &mut self,
        step: Step,
        field: (u32, &[u8], &[u8]),
        template: &mut Template<'_>,
        depth: u32,
    ) -> Checked {
        match depth >= IN_METADATA && self.managed != Managed::Behind {
            true => self.outer(step, field, template, depth),
            false => self.compared(step, field, template, depth),
        }
    }

    /// The same at the levels of metadata and managedFields.
    #[inline(never)]
    fn outer(
        &mut self,
        step: Step,
        field: (u32, &[u8], &[u8]),
        template: &mut Template<'_>,
        depth: u32,
    ) -> Checked {
        match (self.managed, depth, field.0) {
            (Managed::Here, IN_METADATA, MANAGED_FIELDS) => Ok(()),
            (Managed::Ahead, IN_OBJECT, METADATA) => {
                // Only the first metadata may be compared with the template's, whose managedFields
                // were not validated. `compared` does not advance the template past them for an
                // empty value, so this does.
                if field.2.is_empty() {
                    template.meet(METADATA, field.1);
                }
                self.managed = Managed::Here;
                let checked = self.compared(step, field, template, depth);
                self.managed = Managed::Behind;
                checked
            }
            _ => self.compared(step, field, template, depth),
        }
    }

    #[inline(always)]
    fn compared(
        &mut self,
        step: Step,
        (number, raw, value): (u32, &[u8], &[u8]),
        template: &mut Template<'_>,
        depth: u32,
    ) -> Checked {
        // An empty value is valid, unless its level is one too many.
        if value.is_empty() && depth > 0 {
            return Ok(());
        }
        match template.meet(number, raw) {
            Met::Same => {
                self.compared += raw.len();
                Ok(())
            }
            Met::Other(other) if step.form == Form::Message => {
                self.message_with_template(step.of, value, other, depth)
            }
            Met::Other(_) => json(value),
        }
    }

    /// Checks packed numbers: the elements of a list in one field.
    #[cold]
    fn packed(&mut self, packed: &[u8]) -> Checked {
        self.is_unusual = true;
        let mut at = 0;
        while at < packed.len() {
            let Some((_, next)) = varint(packed, at) else {
                return fault(PACKED);
            };
            at = next;
        }
        Ok(())
    }

    fn entry(&mut self, form: Form, of: u16, entry: &[u8], depth: u32) -> Checked {
        let mut fields = Fields::of(entry);
        for field in fields.by_ref() {
            match (field.number, field.value) {
                (1, key) => text(bytes(key)?)?,
                (2, Wire::Bytes(value)) => self.value(form, of, value, depth)?,
                (2, Wire::Varint(_)) if form == Form::Number => {}
                (2, Wire::Fixed64(bits)) => scalar(form, FIXED64, &bits.to_le_bytes())?,
                (2, _) => return fault(WIRE_TYPE),
                _ => {}
            }
        }
        fields.broken().map_or(Ok(()), fault)
    }

    /// Checks one value that has a length: a field's, a list's element or a map's entry.
    fn value(&mut self, form: Form, of: u16, value: &[u8], depth: u32) -> Checked {
        match form {
            Form::Unknown | Form::Bytes => Ok(()),
            Form::Text => text(value),
            Form::Message => self.message(of, value, Counterpart::default(), depth),
            Form::Texts => texts(value),
            Form::Time => time(value),
            Form::IntOrString => every(value, |number, value| match number {
                1 | 2 => self::number(value),
                3 => bytes(value).and_then(text),
                _ => Ok(()),
            }),
            Form::Json => json(value),
            Form::SchemaOrBool | Form::SchemaOrArray | Form::SchemaOrTexts => {
                self.schema(form, value, depth)
            }
            Form::Number | Form::Double | Form::Entry => fault(WIRE_TYPE),
        }
    }

    fn schema(&mut self, form: Form, value: &[u8], depth: u32) -> Checked {
        let Some(of) = schema_props().map(Type::number) else {
            return fault(WIRE_TYPE);
        };
        every(value, |field, value| match (form, field) {
            (Form::SchemaOrBool, 1) => number(value),
            (Form::SchemaOrTexts, 2) => bytes(value).and_then(text),
            (_, 1 | 2) => self.message(of, bytes(value)?, Counterpart::default(), depth),
            _ => Ok(()),
        })
    }
}

/// Checks one value that has no length.
fn scalar(form: Form, wire: u64, value: &[u8]) -> Checked {
    match (form, wire, value.first_chunk()) {
        (Form::Unknown, ..) | (Form::Number, VARINT, _) => Ok(()),
        (Form::Double, FIXED64, Some(bits)) => match f64::from_le_bytes(*bits).is_finite() {
            true => Ok(()),
            false => fault(NUMBER),
        },
        _ => fault(WIRE_TYPE),
    }
}

/// Returns whether elements of a list may be packed.
pub(super) fn is_number(spec: &Spec) -> bool {
    matches!(
        spec.field_type(),
        FieldType::Int32 | FieldType::Int64 | FieldType::Bool
    )
}

#[cold]
fn fault<T>(why: &'static str) -> Result<T, Box<Fault>> {
    Err(Box::new(Fault {
        path: String::new(),
        why,
        levels: 0,
    }))
}

#[inline(always)]
fn bytes(value: Wire<'_>) -> Result<&[u8], Box<Fault>> {
    value.bytes().map_or_else(|| fault(WIRE_TYPE), Ok)
}

#[inline(always)]
fn text(bytes: &[u8]) -> Checked {
    match is_ascii(bytes) || std::str::from_utf8(bytes).is_ok() {
        true => Ok(()),
        false => fault(UTF8),
    }
}

#[inline(always)]
fn number(value: Wire<'_>) -> Checked {
    match value {
        Wire::Varint(_) => Ok(()),
        _ => fault(WIRE_TYPE),
    }
}

/// Checks every field of a small message that the table treats as one form.
fn every(value: &[u8], mut each: impl FnMut(u32, Wire<'_>) -> Checked) -> Checked {
    let mut fields = Fields::of(value);
    for field in fields.by_ref() {
        each(field.number, field.value)?;
    }
    fields.broken().map_or(Ok(()), fault)
}

fn texts(value: &[u8]) -> Checked {
    // The usual form: one short text.
    if let [0x0a, length, inside @ ..] = value
        && usize::from(*length) == inside.len()
        && *length < 0x80
    {
        return text(inside);
    }
    every(value, |number, value| match number {
        1 => bytes(value).and_then(text),
        _ => Ok(()),
    })
}

/// Five bytes of seconds, less than 2^32 of them, and no nanoseconds: the encoding of a time
/// between 1978 and 2106 without a fraction.
const MOMENT: u64 = u64::from_le_bytes([0x08, 0x80, 0x80, 0x80, 0x80, 0x00, 0x10, 0x00]);
const MOMENT_BITS: u64 = u64::from_le_bytes([0xff, 0x80, 0x80, 0x80, 0x80, 0xf0, 0xff, 0xff]);

fn time(value: &[u8]) -> Checked {
    match <[u8; 8]>::try_from(value) {
        Ok(eight) if u64::from_le_bytes(eight) & MOMENT_BITS == MOMENT => Ok(()),
        _ if value.is_empty() => Ok(()),
        _ => any_time(value),
    }
}

#[inline(never)]
fn any_time(value: &[u8]) -> Checked {
    every(value, |field, value| match field {
        1 | 2 => number(value),
        _ => Ok(()),
    })?;
    match super::text::has_text(value) {
        true => Ok(()),
        false => fault(TIME),
    }
}

fn json(value: &[u8]) -> Checked {
    every(value, |field, value| match (field, value) {
        (1, Wire::Bytes(b"")) => Ok(()),
        (1, Wire::Bytes(raw)) => {
            crate::wire::json::validate::document(raw).or_else(|_| fault(JSON))
        }
        (1, _) => fault(WIRE_TYPE),
        _ => Ok(()),
    })
}

impl Fault {
    /// Extends the path by the field that begins at `start` of a message, in which `depth` more
    /// levels may be nested.
    #[cold]
    fn put_before(&mut self, of: u16, message: &[u8], start: usize, depth: u32) {
        self.levels += 1;
        let (inner, outer) = (self.levels, (MAX_DEPTH - depth) as usize);
        if inner > INNER_LEVELS && outer > OUTER_LEVELS {
            if outer == OUTER_LEVELS + 1 {
                put_in_front(&mut self.path, LEFT_OUT);
            }
            return;
        }
        let mut index = 0;
        let mut last = NONE;
        let spec = |number| numbered_type(of)?.field_by_number(number);
        for field in Fields::of(message) {
            index = if field.number == last { index + 1 } else { 0 };
            last = field.number;
            if field.start == start {
                if let Some(spec) = spec(last) {
                    put_before(&mut self.path, spec, index, field);
                }
                break;
            }
        }
    }
}

/// Prepends a field to a path. In place: there may be many levels.
fn put_before(path: &mut String, spec: &Spec, index: usize, field: Field<'_>) {
    let mut front = Cow::Borrowed(spec.name());
    match spec.container() {
        Container::Single => {}
        Container::List => front.to_mut().push_str(&format!("[{index}]")),
        Container::Map => {
            let entry = field.value.bytes().unwrap_or_default();
            let (key, _) = super::value::entry(entry);
            if !entry.is_empty() {
                let key = String::from_utf8_lossy(key);
                push_key(front.to_mut(), &key);
            }
        }
    }
    put_in_front(path, &front);
}

fn put_in_front(path: &mut String, front: &str) {
    let needs_point = !path.is_empty() && !path.starts_with('[') && !path.starts_with(LEFT_OUT);
    if path.capacity() == 0 {
        path.reserve(USUAL_BYTES);
    }
    if needs_point && !front.is_empty() {
        path.insert(0, '.');
    }
    path.insert_str(0, front);
}
