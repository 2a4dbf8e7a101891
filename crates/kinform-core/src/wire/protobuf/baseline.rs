//! Recognises items that are stored already, by their bytes, before they are validated.
//!
//! ```text
//! bytes of an item ─▶ layout: name ─▶ stored object ─▶ equal, but for managedFields?
//!                                                       └▶ that object, and the layout
//! ```
//!
//! Upstream: none; client-go decodes a relist as it does a first list.
//! Complexity: one look-up and one comparison; two comparisons if the first guess is wrong.

use std::ops::Range;

use kinform_api::KeyRef;
use kinform_schema::Type;

use super::fields::{Fields, put_varint};
use super::head;
use super::metadata::MANAGED_FIELDS;
use crate::wire::baseline::{BaselineRef, Stored};
use crate::wire::layout::{Layout, ManagedFields};

/// Returns the stored object that a message of this type equals, and the message's layout.
pub(super) fn find<'s>(
    of: &'static Type,
    bytes: &[u8],
    baseline: BaselineRef<'s>,
) -> Option<(Layout, &'s dyn Stored)> {
    let layout = head::layout(bytes);
    if let Some(object) = baseline
        .next()
        .filter(|object| equals(of, bytes, &layout, *object))
    {
        baseline.advance();
        return Some((layout, object));
    }
    let text = |span: &Option<Range<usize>>| {
        let span = span.clone().unwrap_or_default();
        std::str::from_utf8(&bytes[span]).ok()
    };
    let object = baseline.get(KeyRef {
        namespace: text(&layout.namespace)?,
        name: text(&layout.name)?,
    })?;
    equals(of, bytes, &layout, object).then_some((layout, object))
}

/// Returns whether a message equals this object.
fn equals(of: &'static Type, bytes: &[u8], layout: &Layout, object: &dyn Stored) -> bool {
    if object.is_projected() || !object.is_of(Some(of)) {
        return false;
    }
    let kept = object.bytes();
    match layout.patch(ManagedFields::Drop) {
        None => bytes == kept,
        Some(_) if object.keeps_managed_fields() => bytes == kept,
        Some((at, length)) => equals_without_managed(layout, bytes, kept, at, length),
    }
}

/// Returns whether a message equals `kept` once its managedFields are cut out and `length`, the
/// new length of its metadata, is written at `at`.
fn equals_without_managed(
    layout: &Layout,
    bytes: &[u8],
    kept: &[u8],
    at: usize,
    length: u64,
) -> bool {
    let [excess, managed] = &layout.cuts(ManagedFields::Drop)[..] else {
        return false;
    };
    // The cut spans the first to the last of the managedFields; no other field may be between.
    let mut run = Fields::of(&bytes[managed.clone()]);
    let is_run = run
        .by_ref()
        .all(|field| field.number == MANAGED_FIELDS && field.value.bytes().is_some());
    let mut number = Vec::with_capacity(10);
    put_varint(&mut number, length);
    let pieces = [
        &bytes[..at],
        &number,
        &bytes[excess.end..managed.start],
        &bytes[managed.end..],
    ];
    let mut left = kept;
    let is_same = pieces.into_iter().all(|piece| {
        let rest = left.strip_prefix(piece);
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    is_run && run.broken().is_none() && is_same && left.is_empty()
}
