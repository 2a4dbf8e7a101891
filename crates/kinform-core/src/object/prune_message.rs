//! A projection of a message: fields go, and the lengths around them are written again.
//!
//! ```text
//! type, bytes, paths → prune → smaller message, if something went
//! ```
//!
//! Paths are those of JSON: inline structs take no segment, keys of a map one. A schema or a list
//! that the table holds as one form is kept whole or dropped whole.
//!
//! INVARIANT: recursion is as deep as the longest path, and never deeper than the checked bytes.
//! Upstream: none.

use kinform_api::PathSegment;
use kinform_schema::{Container, Field as Spec, FieldType, Type};

use super::prune_json::{self, Unmatched, rests};
use crate::wire::protobuf::fields::{Field, Fields, Wire, put_bytes};
use crate::wire::protobuf::texts::utf8;
use crate::wire::protobuf::value::{last_bytes, pair as entry_value};

type Paths<'p> = [&'p [PathSegment]];

/// Returns the rest of a message; `None` if no field is dropped.
pub(super) fn prune(
    of: &'static Type,
    bytes: &[u8],
    paths: &Paths<'_>,
    unmatched: Unmatched,
) -> Option<Vec<u8>> {
    let mut pruner = Pruner {
        bytes,
        copied: 0,
        out: Vec::new(),
        unmatched,
    };
    let (mut last, mut index) = (0, 0_usize);
    for field in Fields::of(bytes) {
        index = if field.number == last { index + 1 } else { 0 };
        last = field.number;
        match of.field_by_number(field.number) {
            Some(spec) => pruner.field(spec, field, index, paths),
            // A field that the table does not know has no name, so no path matches it.
            None if unmatched == Unmatched::Cut => pruner.drop(field),
            None => {}
        }
    }
    pruner.finish()
}

fn is_one_form(of: FieldType) -> bool {
    matches!(
        of,
        FieldType::Strings
            | FieldType::JsonSchemaPropsOrBool
            | FieldType::JsonSchemaPropsOrArray
            | FieldType::JsonSchemaPropsOrStringArray
    )
}

/// Copies what stays in one piece, from change to change.
struct Pruner<'a> {
    bytes: &'a [u8],
    copied: usize,
    out: Vec<u8>,
    unmatched: Unmatched,
}

impl Pruner<'_> {
    fn field(&mut self, spec: &'static Spec, field: Field<'_>, index: usize, paths: &Paths<'_>) {
        if spec.is_inline() {
            let inside = spec.message().zip(field.value.bytes());
            if let Some((of, bytes)) = inside
                && let Some(left) = prune(of, bytes, paths, self.unmatched)
            {
                self.replace(field, &left);
            }
            return;
        }
        let named = rests(
            paths,
            |first| matches!(first, PathSegment::Field(name) if name == spec.name()),
        );
        let value = field.value;
        let rest = match spec.container() {
            Container::Single => return self.value(spec, field, value, &named, None),
            Container::List => rests(&named, |first| match first {
                PathSegment::Each => true,
                PathSegment::Index(wanted) => *wanted == index,
                PathSegment::Field(_) => false,
            }),
            Container::Map => {
                let (key, _) = entry_value(value.bytes().unwrap_or_default());
                rests(
                    &named,
                    |first| matches!(first, PathSegment::Field(name) if name == utf8(key)),
                )
            }
        };
        if named.iter().any(|rest| rest.is_empty()) {
            // The list or map as a whole.
            if self.unmatched == Unmatched::Keep {
                self.drop(field);
            }
            return;
        }
        match spec.container() {
            Container::Map => {
                let (key, inner) = entry_value(value.bytes().unwrap_or_default());
                self.value(
                    spec,
                    field,
                    inner.unwrap_or(Wire::Bytes(&[])),
                    &rest,
                    Some(key),
                );
            }
            _ => self.value(spec, field, value, &rest, None),
        }
    }

    /// Prunes one value by the rests of the paths that match it; `key` is that of a map's entry.
    fn value(
        &mut self,
        spec: &'static Spec,
        field: Field<'_>,
        value: Wire<'_>,
        rest: &Paths<'_>,
        key: Option<&[u8]>,
    ) {
        let is_whole = rest.iter().any(|rest| rest.is_empty());
        let inside = value.bytes().unwrap_or_default();
        let is_deep = !is_whole && !rest.is_empty();
        let left = match spec.field_type() {
            FieldType::Message(of) if is_deep => prune(of, inside, rest, self.unmatched),
            FieldType::FieldsV1 | FieldType::RawExtension | FieldType::Json if is_deep => {
                prune_json::prune(last_bytes(inside, 1), rest, self.unmatched).map(|json| {
                    let mut message = Vec::new();
                    put_bytes(&mut message, 1, &json);
                    message
                })
            }
            of => {
                // The inside of such a form is not read: a path that leads there keeps it whole.
                let leads_in = is_deep && is_one_form(of);
                let is_dropped = match self.unmatched {
                    Unmatched::Keep => is_whole,
                    Unmatched::Cut => !is_whole && !leads_in,
                };
                if is_dropped {
                    self.drop(field);
                }
                return;
            }
        };
        match (left, key) {
            (None, _) => {}
            (Some(left), None) => self.replace(field, &left),
            (Some(left), Some(key)) => {
                let mut entry = Vec::with_capacity(left.len() + key.len() + 8);
                put_bytes(&mut entry, 1, key);
                put_bytes(&mut entry, 2, &left);
                self.replace(field, &entry);
            }
        }
    }

    fn drop(&mut self, field: Field<'_>) {
        self.out
            .extend_from_slice(&self.bytes[self.copied..field.start]);
        self.copied = field.end;
    }

    fn replace(&mut self, field: Field<'_>, with: &[u8]) {
        self.drop(field);
        put_bytes(&mut self.out, field.number, with);
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        if self.copied == 0 {
            return None;
        }
        self.out.extend_from_slice(&self.bytes[self.copied..]);
        Some(self.out)
    }
}
