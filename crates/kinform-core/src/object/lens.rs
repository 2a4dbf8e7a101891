//! Reads parts of an object's bytes in place: labels, annotations, owners, scalars at a path.
//!
//! ```text
//! Object, key | path → cursor over the bytes → texts, borrowed unless they are escaped
//! ```
//!
//! Nothing is decoded or kept. Of equal keys the last one counts, as in Go; a label whose value is
//! no string is not there.
//! Upstream: `meta.Accessor`, `client-go:util/jsonpath`, index functions on decoded objects.
//! Complexity: one scan of the bytes before what is found.

use std::borrow::Cow;

use kinform_api::{FieldPath, PathSegment};

use super::owner::OwnerReference;
use super::{Object, Span, message, owner};
use crate::wire::encoding::Encoding;
use crate::wire::json::cursor;
use crate::wire::protobuf::value::texts;

impl Object {
    /// The labels, in the order of the bytes.
    pub fn labels(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.entries(self.head().labels)
    }

    /// One label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<Cow<'_, str>> {
        self.entry(self.head().labels, key)
    }

    /// The annotations, in the order of the bytes.
    pub fn annotations(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.entries(self.head().annotations)
    }

    /// One annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<Cow<'_, str>> {
        self.entry(self.head().annotations, key)
    }

    /// The owner references, in the order of the bytes.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        let span = self.head().owners;
        match self.encoding() {
            _ if span.len == 0 => Vec::new(),
            Encoding::Json => owner::read(self.bytes(), span.start as usize),
            Encoding::Protobuf => owner::read_run(self.run(span)),
        }
    }

    /// The scalars found at the path: strings unescaped, numbers and booleans as written.
    ///
    /// Nothing for null, objects, arrays and what is not there; `kind` and `apiVersion` are not
    /// there.
    #[must_use]
    pub fn at(&self, path: &FieldPath) -> Vec<Cow<'_, str>> {
        let mut found = Vec::new();
        match self.message() {
            Some((of, bytes)) => message::collect(of, bytes, path.segments(), &mut found),
            None => collect(self.bytes(), 0, path.segments(), &mut found),
        }
        found
    }

    /// The bytes of a span.
    fn run(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        self.bytes()
            .get(start..start + span.len as usize)
            .unwrap_or_default()
    }

    fn entries(&self, span: Span) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        let (json, run): (&[u8], &[u8]) = match self.encoding() {
            _ if span.len == 0 => (&[], &[]),
            Encoding::Json => (self.bytes(), &[]),
            Encoding::Protobuf => (&[], self.run(span)),
        };
        let members = cursor::members(json, span.start as usize).filter_map(move |member| {
            let value = cursor::string_in(json, member.value)?;
            Some((cursor::unescape(&json[member.key]), cursor::unescape(value)))
        });
        let borrowed = |(key, value)| (Cow::Borrowed(key), Cow::Borrowed(value));
        members.chain(texts(run).map(borrowed))
    }

    fn entry(&self, span: Span, key: &str) -> Option<Cow<'_, str>> {
        if self.encoding() == Encoding::Protobuf {
            let found = texts(self.run(span)).filter(|(known, _)| *known == key);
            return found.last().map(|(_, value)| Cow::Borrowed(value));
        }
        let bytes = if span.len == 0 { &[] } else { self.bytes() };
        let found = cursor::members(bytes, span.start as usize)
            .filter(|member| member.is(bytes, key))
            .last()?;
        cursor::string_in(bytes, found.value).map(cursor::unescape)
    }
}

/// INVARIANT: recursion is as deep as the path, and never deeper than the checked bytes.
pub(super) fn collect<'a>(
    bytes: &'a [u8],
    at: usize,
    path: &[PathSegment],
    found: &mut Vec<Cow<'a, str>>,
) {
    let Some((first, rest)) = path.split_first() else {
        found.extend(scalar(bytes, at));
        return;
    };
    match first {
        PathSegment::Field(name) => {
            let member = cursor::members(bytes, at)
                .filter(|member| member.is(bytes, name))
                .last();
            if let Some(member) = member {
                collect(bytes, member.value.start, rest, found);
            }
        }
        PathSegment::Each => {
            for element in cursor::elements(bytes, at) {
                collect(bytes, element.start, rest, found);
            }
        }
        PathSegment::Index(index) => {
            if let Some(element) = cursor::elements(bytes, at).nth(*index) {
                collect(bytes, element.start, rest, found);
            }
        }
    }
}

fn scalar(bytes: &[u8], at: usize) -> Option<Cow<'_, str>> {
    let span = at..cursor::value_end(bytes, at)?;
    match bytes.get(at)? {
        b'{' | b'[' | b'n' => None,
        b'"' => cursor::string_in(bytes, span).map(cursor::unescape),
        _ => Some(cursor::text(&bytes[span])),
    }
}
