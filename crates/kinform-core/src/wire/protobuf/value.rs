//! A checked message as the JSON that a server would have sent: names, values, what is left out.
//!
//! ```text
//! type, bytes → Node → Members (name, Node) | Elements (Node) | Entries (key, Node)
//! ```
//!
//! The one place for the rules of the two encodings: inline structs come out flat, zero values go where Go
//! leaves them out, what protobuf has no bytes for is null where Go writes null. Nothing is copied.
//!
//! INVARIANT: the message was checked and is in the usual order; on other bytes everything here is total
//! and ends early.
//! Upstream: the `json` tags of `kubernetes/api` with `encoding/json`. Complexity: one look at each tag.

use kinform_schema::{Container, Field as Spec, FieldType, Type};
use smallvec::SmallVec;

use super::fields::{BYTES, Fields, VARINT, Wire, varint};
use super::schema_props;
use super::texts::{self, Texts};

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
    /// Any JSON, as it is.
    Json(&'a [u8]),
    Object(&'static Type, &'a [u8]),
    /// The fields of a list, one after the other, and how many.
    List(&'static Spec, &'a [u8], u32),
    Map(&'static Spec, &'a [u8], u32),
    /// The texts of the fields of one number.
    Texts(u32, &'a [u8]),
    /// The schemas of the fields of number 2.
    Schemas(&'a [u8]),
}

/// Whether null is told where a server tells it. Not of what a projection took something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    Told,
    Hidden,
}

/// The members of an object.
pub(crate) struct Members<'a> {
    top: Level<'a>,
    outer: SmallVec<[Level<'a>; 1]>,
    nulls: Nulls,
    /// Those of the whole, where they are known.
    pub(super) texts: &'a Texts,
}

/// A message whose fields stand in one object: the object's own, or an inline one.
struct Level<'a> {
    of: &'static Type,
    fields: Fields<'a>,
    /// By position in the type, which has less than 64 fields.
    seen: u64,
    nulls: usize,
}

impl<'a> Level<'a> {
    fn new(of: &'static Type, bytes: &'a [u8]) -> Self {
        Self {
            of,
            fields: Fields::of(bytes),
            seen: 0,
            nulls: 0,
        }
    }

    /// Over a field that the type does not have.
    #[cold]
    fn skip(&mut self) -> Step {
        match self.fields.next() {
            Some(_) => Step::Skipped,
            None => Step::Over,
        }
    }

    /// Over a field of the type.
    #[inline(always)]
    fn pass(&mut self, position: usize, end: usize) {
        self.fields.seek(end);
        self.seen |= 1 << (position % 64);
    }

    /// The next field that protobuf left out and JSON has as null.
    fn null(&mut self) -> Option<&'static str> {
        loop {
            let position = *self.of.nulls().get(self.nulls)?;
            self.nulls += 1;
            if self.seen >> (position % 64) & 1 == 0 {
                return self.of.fields().get(usize::from(position)).map(Spec::name);
            }
        }
    }
}

impl<'a> Members<'a> {
    pub(crate) fn of(of: &'static Type, bytes: &'a [u8], nulls: Nulls) -> Self {
        Self {
            top: Level::new(of, bytes),
            outer: SmallVec::new(),
            nulls,
            texts: &texts::NONE,
        }
    }

    /// The name of the next member; then `value` is its value.
    #[inline(never)]
    pub(crate) fn read(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        match self.usual(value) {
            Some(name) => Some(name),
            None if self.is_over() => None,
            None => self.unusual(value),
        }
    }

    /// Whether this was all: no field is left, no null, nothing around it.
    #[inline(always)]
    fn is_over(&self) -> bool {
        let level = &self.top;
        level.fields.at() >= level.fields.bytes().len()
            && level.nulls >= level.of.nulls().len()
            && self.outer.is_empty()
    }

    /// What most fields are: one text, message or number, which is told in JSON. All else begins anew in `unusual`.
    #[inline(always)]
    fn usual(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        let level = &mut self.top;
        loop {
            let (number, form, at) = level.fields.tag()?;
            let position = level.of.position(number)?;
            let spec = level.of.fields().get(position)?;
            if spec.container() != Container::Single {
                return None;
            }
            let (found, end) = match (spec.field_type(), form) {
                (FieldType::String, BYTES) => {
                    let (bytes, end) = level.fields.run(at)?;
                    // Go writes what is empty, too: these are many.
                    let found = (!bytes.is_empty()).then(|| Node::Text(self.texts.text(bytes)));
                    (found, end)
                }
                (FieldType::Message(of), BYTES) if !spec.is_inline() => {
                    let (bytes, end) = level.fields.run(at)?;
                    (Some(Node::Object(of, bytes)), end)
                }
                (FieldType::Time, BYTES) => {
                    let (bytes, end) = level.fields.run(at)?;
                    if bytes.is_empty() {
                        return None;
                    }
                    (Some(Node::Time(bytes)), end)
                }
                (FieldType::Bool | FieldType::Int32 | FieldType::Int64, VARINT) => {
                    let (number, end) = varint(level.fields.bytes(), at)?;
                    let found = node(spec, Wire::Varint(number), self.texts);
                    let is_zero = matches!(found, Node::Bool(false) | Node::Int(0));
                    ((!is_zero).then_some(found), end)
                }
                _ => return None,
            };
            match found {
                Some(node) => {
                    level.pass(position, end);
                    *value = node;
                    return Some(spec.name());
                }
                None if !spec.is_pointer() && spec.omits_empty() => level.pass(position, end),
                None => return None,
            }
        }
    }

    #[inline(never)]
    fn unusual(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        loop {
            match self.step(value) {
                Step::Member(name) => return Some(name),
                Step::Skipped => {}
                Step::Over if self.nulls == Nulls::Told || !self.outer.is_empty() => {
                    if let Some(name) = self.null(value) {
                        return Some(name);
                    }
                    self.top = self.outer.pop()?;
                }
                Step::Over => return None,
            }
        }
    }

    /// The next field of the message, whatever it is.
    #[inline(always)]
    fn step(&mut self, value: &mut Node<'a>) -> Step {
        let level = &mut self.top;
        let Some((number, _, _)) = level.fields.tag() else {
            return Step::Over;
        };
        let Some(position) = level.of.position(number) else {
            return level.skip();
        };
        match level.of.fields().get(position) {
            Some(spec) => self.other(position, spec, value),
            None => level.skip(),
        }
    }

    /// The next field, which is this one.
    #[inline(never)]
    fn other(&mut self, position: usize, spec: &'static Spec, value: &mut Node<'a>) -> Step {
        let level = &mut self.top;
        let Some(field) = level.fields.next() else {
            return Step::Over;
        };
        level.seen |= 1 << (position % 64);
        *value = match spec.container() {
            Container::Single if spec.is_inline() => {
                if let (Some(of), Some(bytes)) = (spec.message(), field.value.bytes()) {
                    let outer = std::mem::replace(level, Level::new(of, bytes));
                    self.outer.push(outer);
                }
                return Step::Skipped;
            }
            Container::Single => node(spec, field.value, self.texts),
            container => {
                let (run, count) = run(&mut level.fields, field.start, field.number);
                match container {
                    Container::Map => Node::Map(spec, run, count),
                    _ => Node::List(spec, run, count),
                }
            }
        };
        match is_left_out(spec, *value) {
            true => Step::Skipped,
            false => Step::Member(spec.name()),
        }
    }

    /// The next member of the message that is null.
    #[inline(always)]
    fn null(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        if self.nulls == Nulls::Hidden {
            return None;
        }
        let name = self.top.null()?;
        *value = Node::Null;
        Some(name)
    }
}

/// What a field of a message is to its JSON.
enum Step {
    /// A member of that name.
    Member(&'static str),
    /// No member: the next field may be one.
    Skipped,
    /// There are no more fields.
    Over,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'static str, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut value = Node::Null;
        let name = self.read(&mut value)?;
        Some((name, value))
    }
}

/// The fields of one number from `start` on, the first of which was read, and how many.
#[inline]
fn run<'a>(fields: &mut Fields<'a>, start: usize, number: u32) -> (&'a [u8], u32) {
    let mut count = 1;
    let mut end = fields.at();
    for next in fields.by_ref() {
        if next.number != number {
            break;
        }
        (end, count) = (next.end, count + 1);
    }
    fields.seek(end);
    (&fields.bytes()[start..end], count)
}

/// Whether Go's JSON leaves the value out.
#[inline(always)]
fn is_left_out(spec: &Spec, node: Node<'_>) -> bool {
    let is_zero = match node {
        Node::Null => true,
        Node::Text(text) => text.is_empty(),
        Node::Bool(value) => !value,
        Node::Int(number) => number == 0,
        Node::Float(number) => number == 0.0,
        Node::Bytes(bytes) => bytes.is_empty(),
        _ => false,
    };
    is_zero && is_zero_left_out(spec, node)
}

fn is_zero_left_out(spec: &Spec, node: Node<'_>) -> bool {
    if spec.is_pointer() || !spec.omits_empty() {
        return false;
    }
    match (node, spec.field_type()) {
        // To Go these are structs, which are never empty.
        (_, FieldType::IntOrString) => false,
        (Node::Null, FieldType::Time | FieldType::MicroTime) => spec.omits_zero(),
        (Node::Null, _) => false,
        _ => true,
    }
}

/// A member of an object by its name: what [`Members`] would give.
pub(crate) fn member<'a>(of: &'static Type, bytes: &'a [u8], name: &str) -> Option<Node<'a>> {
    let fields = of.fields();
    let own = fields
        .iter()
        .find(|spec| spec.name() == name && !spec.is_inline());
    let Some(spec) = own else {
        let inline = fields.iter().filter(|spec| spec.is_inline());
        return inline
            .filter(|spec| spec.message().is_some_and(|of| of.field(name).is_some()))
            .find_map(|spec| {
                let mut found = Fields::of(bytes).filter(|field| field.number == spec.number());
                member(spec.message()?, found.next()?.value.bytes()?, name)
            });
    };
    let mut found = Fields::of(bytes);
    let field = found.find(|field| field.number == spec.number())?;
    match spec.container() {
        Container::Single => {
            Some(node(spec, field.value, &texts::NONE)).filter(|node| !is_left_out(spec, *node))
        }
        container => {
            let (run, count) = run(&mut found, field.start, field.number);
            Some(match container {
                Container::Map => Node::Map(spec, run, count),
                _ => Node::List(spec, run, count),
            })
        }
    }
}

/// A field's value, or an element of its list or map.
#[inline(always)]
pub(crate) fn node<'a>(spec: &'static Spec, value: Wire<'a>, texts: &'a Texts) -> Node<'a> {
    match (spec.field_type(), value) {
        (FieldType::String, Wire::Bytes(text)) => Node::Text(texts.text(text)),
        (FieldType::Message(of), Wire::Bytes(bytes)) => Node::Object(of, bytes),
        (FieldType::Bool, Wire::Varint(number)) => Node::Bool(number != 0),
        // Go keeps the low bits of what does not fit.
        (FieldType::Int32, Wire::Varint(number)) => Node::Int(i64::from(number as i32)),
        (FieldType::Int64, Wire::Varint(number)) => Node::Int(number as i64),
        (FieldType::Double, Wire::Fixed64(bits)) => double(f64::from_bits(bits)),
        (FieldType::Bytes, Wire::Bytes(bytes)) => Node::Bytes(bytes),
        (FieldType::Time | FieldType::MicroTime, Wire::Bytes([])) => Node::Null,
        (FieldType::Time, Wire::Bytes(bytes)) => Node::Time(bytes),
        (FieldType::MicroTime, Wire::Bytes(bytes)) => Node::MicroTime(bytes),
        (FieldType::Quantity, Wire::Bytes(bytes)) => match last_bytes(bytes, 1) {
            b"" => Node::Text("0"),
            text => Node::Text(utf8(text)),
        },
        (FieldType::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes),
        (FieldType::Strings, Wire::Bytes([])) => Node::Null,
        (FieldType::Strings, Wire::Bytes(bytes)) => Node::Texts(1, bytes),
        (FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json, Wire::Bytes(bytes)) => {
            match last_bytes(bytes, 1) {
                b"" => Node::Null,
                raw => Node::Json(raw),
            }
        }
        (
            form @ (FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray),
            Wire::Bytes(bytes),
        ) => schema(form, bytes),
        _ => Node::Null,
    }
}

/// What stands for an element of a map that has a key only.
fn zero(spec: &'static Spec) -> Node<'static> {
    match spec.field_type() {
        FieldType::Bool => Node::Bool(false),
        FieldType::Int32 | FieldType::Int64 | FieldType::Double => Node::Int(0),
        _ => node(spec, Wire::Bytes(&[]), &texts::NONE),
    }
}

/// Go writes whole numbers without a fraction.
fn double(number: f64) -> Node<'static> {
    // BOUND: up to here every whole number is its own.
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

fn schema(form: FieldType, bytes: &[u8]) -> Node<'_> {
    let number = match form {
        FieldType::JsonSchemaPropsOrBool => 2,
        _ => 1,
    };
    let schema = Fields::of(bytes).filter(|field| field.number == number);
    let schema = schema.last().and_then(|field| field.value.bytes());
    match (schema, schema_props(), form) {
        (Some(schema), Some(of), _) => Node::Object(of, schema),
        (_, _, FieldType::JsonSchemaPropsOrBool) => {
            let allows = Fields::of(bytes).filter(|field| field.number == 1).last();
            Node::Bool(allows.is_some_and(|field| field.value != Wire::Varint(0)))
        }
        (_, _, FieldType::JsonSchemaPropsOrArray) => Node::Schemas(bytes),
        _ => Node::Texts(2, bytes),
    }
}

pub(crate) fn last_bytes(bytes: &[u8], number: u32) -> &[u8] {
    let fields = Fields::of(bytes).filter(|field| field.number == number);
    let last = fields.last().and_then(|field| field.value.bytes());
    last.unwrap_or_default()
}

#[inline(always)]
pub(crate) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// The elements of a list.
#[derive(Clone)]
pub(crate) struct Elements<'a> {
    fields: Fields<'a>,
    pub(super) texts: &'a Texts,
    of: ElementOf,
    left: u32,
}

#[derive(Clone, Copy)]
enum ElementOf {
    Spec(&'static Spec),
    Text(u32),
    Schema,
}

/// The elements of a node that is a list.
pub(crate) fn elements(node: Node<'_>) -> Option<Elements<'_>> {
    let (of, bytes, left) = match node {
        Node::List(spec, run, count) => (ElementOf::Spec(spec), run, count),
        Node::Texts(number, bytes) => (ElementOf::Text(number), bytes, 0),
        Node::Schemas(bytes) => (ElementOf::Schema, bytes, 0),
        _ => return None,
    };
    Some(Elements {
        fields: Fields::of(bytes),
        texts: &texts::NONE,
        of,
        left,
    })
}

impl Elements<'_> {
    /// How many there are at least.
    pub(crate) fn left(&self) -> usize {
        self.left as usize
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Node<'a>;

    #[inline]
    fn next(&mut self) -> Option<Node<'a>> {
        loop {
            let field = self.fields.next()?;
            self.left = self.left.saturating_sub(1);
            match (self.of, field.value) {
                (ElementOf::Spec(spec), value) => {
                    return Some(match (spec.field_type(), value) {
                        (FieldType::Message(of), Wire::Bytes(bytes)) => Node::Object(of, bytes),
                        _ => node(spec, value, self.texts),
                    });
                }
                (ElementOf::Text(number), Wire::Bytes(text)) if field.number == number => {
                    return Some(Node::Text(utf8(text)));
                }
                (ElementOf::Schema, Wire::Bytes(schema)) if field.number == 2 => {
                    return schema_props().map(|of| Node::Object(of, schema));
                }
                _ => {}
            }
        }
    }
}

/// The entries of a map.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    fields: Fields<'a>,
    pub(super) texts: &'a Texts,
    spec: &'static Spec,
}

pub(crate) fn entries<'a>(spec: &'static Spec, run: &'a [u8]) -> Entries<'a> {
    Entries {
        fields: Fields::of(run),
        texts: &texts::NONE,
        spec,
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a str, Node<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let field = self.fields.next()?;
        let (key, value) = pair(field.value.bytes().unwrap_or_default());
        let spec = self.spec;
        let value = value.map_or_else(|| zero(spec), |value| node(spec, value, self.texts));
        Some((self.texts.text(key), value))
    }
}

/// The key and the value of an entry.
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

/// The key and the text of an entry of a map of texts.
pub(crate) fn entry(entry: &[u8]) -> (&[u8], &[u8]) {
    let (key, value) = pair(entry);
    (key, value.and_then(Wire::bytes).unwrap_or_default())
}

/// The entries of a map of texts.
pub(crate) fn texts(run: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    Fields::of(run).map(|field| {
        let (key, value) = entry(field.value.bytes().unwrap_or_default());
        (utf8(key), utf8(value))
    })
}
