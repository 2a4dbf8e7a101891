//! A value of a validated message as the JSON that a server would have sent.
//!
//! ```text
//! step, bytes → Node → Elements (Node) | Entries (key, Node)
//! ```
//!
//! Shows one value, and the elements of lists and maps. `members` decides which members an object
//! has, `plan` which of them are omitted. Nothing is copied.
//!
//! INVARIANT: the message was validated and is in the usual order; on other bytes every function is
//! total and ends early.
//! Upstream: the `json` tags of `kubernetes/api` with `encoding/json`. Complexity: one look at each
//! tag.

use super::fields::{Fields, Split, Wire};
use super::plan::{Plan, Shown, Step, plans};
use super::texts::{self, Texts, utf8};
use super::types::schema_props;

/// One value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(&'a str),
    /// Base64 text in JSON.
    Bytes(&'a [u8]),
    /// RFC 3339 text in JSON, from `{seconds, nanos}`.
    Time(&'a [u8]),
    MicroTime(&'a [u8]),
    /// Any JSON, unchanged.
    Json(&'a [u8]),
    Object(&'static Plan, &'a [u8]),
    /// The encoded fields of a list, and their number.
    List(Step, &'a [u8], u32),
    Map(Step, &'a [u8], u32),
    /// A list of texts: the fields of this number in a message.
    Texts(u32, &'a [u8]),
    /// A list of schemas: the fields of number 2 in a message.
    Schemas(&'a [u8]),
}

/// Returns the node of a field's value, or of an element of its list or map.
#[inline(always)]
pub(super) fn node<'a>(step: Step, value: Wire<'a>, texts: &'a Texts) -> Node<'a> {
    match (step.shown, value) {
        (Shown::Text, Wire::Bytes(text)) => Node::Text(texts.text(text)),
        (Shown::Message, Wire::Bytes(bytes)) => match plans().plan(step.of) {
            Some(plan) => Node::Object(plan, bytes),
            None => Node::Null,
        },
        (Shown::Bool, Wire::Varint(number)) => Node::Bool(number != 0),
        // Go keeps the low bits of a number that does not fit.
        (Shown::Int32, Wire::Varint(number)) => Node::Int(i64::from(number as i32)),
        (Shown::Int64, Wire::Varint(number)) => Node::Int(number as i64),
        (Shown::Double, Wire::Fixed64(bits)) => double(f64::from_bits(bits)),
        (Shown::Bytes, Wire::Bytes(bytes)) => Node::Bytes(bytes),
        (Shown::Time | Shown::MicroTime, Wire::Bytes([])) => Node::Null,
        (Shown::Time, Wire::Bytes(bytes)) => Node::Time(bytes),
        (Shown::MicroTime, Wire::Bytes(bytes)) => Node::MicroTime(bytes),
        (Shown::Quantity, Wire::Bytes(bytes)) => match last_bytes(bytes, 1) {
            b"" => Node::Text("0"),
            text => Node::Text(utf8(text)),
        },
        (Shown::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes),
        (Shown::Texts, Wire::Bytes([])) => Node::Null,
        (Shown::Texts, Wire::Bytes(bytes)) => Node::Texts(1, bytes),
        (Shown::Json, Wire::Bytes(bytes)) => match last_bytes(bytes, 1) {
            b"" => Node::Null,
            raw => Node::Json(raw),
        },
        (
            shown @ (Shown::SchemaOrBool | Shown::SchemaOrArray | Shown::SchemaOrTexts),
            Wire::Bytes(bytes),
        ) => schema(shown, bytes),
        _ => Node::Null,
    }
}

/// Returns the value of a map's entry that has only a key.
fn zero(step: Step) -> Node<'static> {
    match step.shown {
        Shown::Bool => Node::Bool(false),
        Shown::Int32 | Shown::Int64 | Shown::Double => Node::Int(0),
        _ => node(step, Wire::Bytes(&[]), &texts::NONE),
    }
}

/// Returns the node of a double. Go writes whole numbers without a fraction.
fn double(number: f64) -> Node<'static> {
    // BOUND: up to here every whole number is exact.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        Node::Int(number as i64)
    } else {
        Node::Float(number)
    }
}

fn int_or_string(bytes: &[u8]) -> Node<'_> {
    let (mut is_text, mut number, mut text) = (false, 0, &[][..]);
    for field in Fields::of(bytes) {
        match (field.number, field.value) {
            (1, Wire::Varint(value)) => is_text = value != 0,
            (2, Wire::Varint(value)) => number = value as i32,
            (3, Wire::Bytes(value)) => text = value,
            _ => {}
        }
    }
    match is_text {
        true => Node::Text(utf8(text)),
        false => Node::Int(i64::from(number)),
    }
}

fn schema(shown: Shown, bytes: &[u8]) -> Node<'_> {
    let number = match shown {
        Shown::SchemaOrBool => 2,
        _ => 1,
    };
    let schema = Fields::of(bytes).filter(|field| field.number == number);
    let schema = schema.last().and_then(|field| field.value.bytes());
    match (schema, schema_props(), shown) {
        (Some(schema), Some(of), _) => Node::Object(Plan::of(of), schema),
        (_, _, Shown::SchemaOrBool) => {
            let allows = Fields::of(bytes).filter(|field| field.number == 1).last();
            Node::Bool(allows.is_some_and(|field| field.value != Wire::Varint(0)))
        }
        (_, _, Shown::SchemaOrArray) => Node::Schemas(bytes),
        _ => Node::Texts(2, bytes),
    }
}

pub(crate) fn last_bytes(bytes: &[u8], number: u32) -> &[u8] {
    let fields = Fields::of(bytes).filter(|field| field.number == number);
    let last = fields.last().and_then(|field| field.value.bytes());
    last.unwrap_or_default()
}

/// The elements of a list.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    rest: &'a [u8],
    pub(super) texts: &'a Texts,
    of: ElementOf,
    left: u32,
}

#[derive(Clone, Copy)]
enum ElementOf {
    Step(Step),
    Text(u32),
    Schema,
}

/// Returns the elements of a node that is a list.
#[inline]
pub(crate) fn elements(node: Node<'_>) -> Option<Elements<'_>> {
    let (of, rest, left) = match node {
        Node::List(step, run, count) => (ElementOf::Step(step), run, count),
        Node::Texts(number, bytes) => (ElementOf::Text(number), bytes, 0),
        Node::Schemas(bytes) => (ElementOf::Schema, bytes, 0),
        _ => return None,
    };
    Some(Elements {
        rest,
        texts: &texts::NONE,
        of,
        left,
    })
}

impl Elements<'_> {
    /// Returns the least number of elements that are left.
    pub(crate) fn left(&self) -> usize {
        self.left as usize
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        loop {
            let field = Split::of(self.rest)?;
            self.rest = field.rest;
            self.left = self.left.saturating_sub(1);
            match (self.of, field.wire()) {
                (ElementOf::Step(step), value) => return Some(node(step, value, self.texts)),
                (ElementOf::Text(number), Wire::Bytes(text)) if field.number == number => {
                    return Some(Node::Text(utf8(text)));
                }
                (ElementOf::Schema, Wire::Bytes(schema)) if field.number == 2 => {
                    return schema_props().map(|of| Node::Object(Plan::of(of), schema));
                }
                _ => {}
            }
        }
    }
}

/// The entries of a map.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    rest: &'a [u8],
    pub(super) texts: &'a Texts,
    step: Step,
}

pub(crate) fn entries(step: Step, run: &[u8]) -> Entries<'_> {
    Entries {
        rest: run,
        texts: &texts::NONE,
        step,
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let field = Split::of(self.rest)?;
        self.rest = field.rest;
        let (key, value) = pair(field.wire().bytes().unwrap_or_default());
        let step = self.step;
        let value = value.map_or_else(|| zero(step), |value| node(step, value, self.texts));
        Some((self.texts.text(key), value))
    }
}

/// Returns the key and the value of an entry.
#[inline]
pub(crate) fn pair(entry: &[u8]) -> (&[u8], Option<Wire<'_>>) {
    let (mut key, mut value) = (&[][..], None);
    for field in Fields::of(entry) {
        match field.number {
            1 => key = field.value.bytes().unwrap_or_default(),
            2 => value = Some(field.value),
            _ => {}
        }
    }
    (key, value)
}

/// Returns the key and the text of an entry of a map of texts.
pub(crate) fn entry(entry: &[u8]) -> (&[u8], &[u8]) {
    let (key, value) = pair(entry);
    (key, value.and_then(Wire::bytes).unwrap_or_default())
}

/// Returns the entries of a map of texts.
pub(crate) fn texts(run: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    Fields::of(run).map(|field| {
        let (key, value) = entry(field.value.bytes().unwrap_or_default());
        (utf8(key), utf8(value))
    })
}
