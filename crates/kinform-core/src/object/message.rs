//! Lenses over an object that is a message: paths, JSON, values.
//!
//! ```text
//! type, bytes, path → Node ... → texts;  type, bytes → JSON | Value
//! ```
//!
//! Names, inline structs and forms are those of the JSON that the server would have sent, so a path finds
//! the same in both encodings. Inside of raw JSON the JSON lens goes on.
//!
//! Upstream: none. Complexity: one look at the tags before what is found.

use std::borrow::Cow;

use kinform_api::{PathSegment, TypeMeta};
use kinform_schema::Type;

use super::{Flags, Object, lens};
use crate::wire::baseline::Stored;
use crate::wire::encoding::Encoding;
use crate::wire::protobuf::members::{Members, Nulls, member};
use crate::wire::protobuf::plan::Plan;
use crate::wire::protobuf::reader;
use crate::wire::protobuf::text::{self, TimeText};
use crate::wire::protobuf::value::{self, Node};

impl Stored for Object {
    fn bytes(&self) -> &[u8] {
        Self::bytes(self)
    }

    fn is_of(&self, message: Option<&Type>) -> bool {
        match (message, self.encoding()) {
            (None, Encoding::Json) => true,
            (Some(of), Encoding::Protobuf) => self.head().of == of.number(),
            _ => false,
        }
    }

    fn is_projected(&self) -> bool {
        Self::is_projected(self)
    }

    fn keeps_managed_fields(&self) -> bool {
        self.head().flags.has(Flags::MANAGED)
    }

    fn is_known_end(&self, at: usize) -> bool {
        let head = self.head();
        // Texts have no quotes here. Copies of them lie behind all members.
        let texts = [head.name, head.namespace, head.uid, head.resource_version];
        let texts = texts.map(|span| span.end() + 1);
        let values = [head.labels, head.annotations, head.owners].map(|span| span.end());
        texts.iter().chain(&values).any(|end| *end == at)
    }
}

/// The object as JSON, with `apiVersion` and `kind` first.
pub(super) fn to_json(of: &'static Type, bytes: &[u8], meta: &TypeMeta, nulls: Nulls) -> Vec<u8> {
    let mut json = Vec::with_capacity(bytes.len() * 2);
    let members = Members::of(Plan::of(of), bytes, nulls);
    text::write_whole(meta, members, nulls, &mut json);
    json
}

/// The content without `apiVersion` and `kind`.
pub(super) fn value(of: &'static Type, bytes: &[u8], nulls: Nulls) -> Option<serde_json::Value> {
    reader::part(of, bytes, nulls).ok()
}

/// The scalars at a path.
pub(super) fn collect<'a>(
    of: &'static Type,
    bytes: &'a [u8],
    path: &[PathSegment],
    found: &mut Vec<Cow<'a, str>>,
) {
    walk(Node::Object(Plan::of(of), bytes), path, found);
}

/// INVARIANT: recursion is as deep as the path, and never deeper than the checked bytes.
fn walk<'a>(node: Node<'a>, path: &[PathSegment], found: &mut Vec<Cow<'a, str>>) {
    if let Node::Json(raw) = node {
        let start = raw.len() - raw.trim_ascii_start().len();
        return lens::collect(raw, start, path, found);
    }
    let Some((first, rest)) = path.split_first() else {
        found.extend(scalar(node));
        return;
    };
    match (first, node) {
        (PathSegment::Field(name), Node::Object(plan, bytes)) => {
            if let Some(node) = member(plan, bytes, name) {
                walk(node, rest, found);
            }
        }
        (PathSegment::Field(name), Node::Map(step, run, _)) => {
            let entry = value::entries(step, run).filter(|(key, _)| key == name);
            if let Some((_, node)) = entry.last() {
                walk(node, rest, found);
            }
        }
        (PathSegment::Each, node) => {
            for element in value::elements(node).into_iter().flatten() {
                walk(element, rest, found);
            }
        }
        (PathSegment::Index(index), node) => {
            let element = value::elements(node).and_then(|mut all| all.nth(*index));
            if let Some(element) = element {
                walk(element, rest, found);
            }
        }
        _ => {}
    }
}

fn scalar(node: Node<'_>) -> Option<Cow<'_, str>> {
    Some(match node {
        Node::Text(text) => Cow::Borrowed(text),
        Node::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
        Node::Int(number) => Cow::Owned(number.to_string()),
        Node::Float(number) => Cow::Owned(serde_json::Value::from(number).to_string()),
        Node::Bytes(bytes) => Cow::Owned(text::base64(bytes)),
        Node::Time(bytes) => Cow::Owned(TimeText::seconds(bytes).to_string()),
        Node::MicroTime(bytes) => Cow::Owned(TimeText::micros(bytes).to_string()),
        _ => return None,
    })
}
