//! Scalars at a path, read from the bytes: what path indexes and columns are made of.
//!
//! ```text
//! bytes, spec.containers[*].image → at → "nginx", "envoy"
//! ```
//!
//! Nothing is decoded. Upstream: `client-go:util/jsonpath`, index functions on decoded objects.
//! Complexity: one scan of the bytes before what is found.

use std::borrow::Cow;

use kinform_api::{FieldPath, PathSegment};

use super::Object;
use crate::wire::cursor;

impl Object {
    /// The scalars found at the path: strings unescaped, numbers and booleans as written.
    ///
    /// Nothing for null, objects, arrays and what is not there; `kind` and `apiVersion` are not
    /// there.
    #[must_use]
    pub fn at(&self, path: &FieldPath) -> Vec<Cow<'_, str>> {
        let mut found = Vec::new();
        collect(self.bytes(), 0, path.segments(), &mut found);
        found
    }
}

/// INVARIANT: recursion is as deep as the path, and never deeper than the checked bytes.
fn collect<'a>(bytes: &'a [u8], at: usize, path: &[PathSegment], found: &mut Vec<Cow<'a, str>>) {
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
        _ => Some(String::from_utf8_lossy(&bytes[span])),
    }
}
