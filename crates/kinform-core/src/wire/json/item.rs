//! Items in JSON: cut out of a body, with their heads where a chunk holds them whole.
//!
//! ```text
//! brackets ─▶ cut ─▶ Item, not validated
//! chunk ─▶ first_stored ─▶ Item with the stored object that it equals
//!      └─▶ first ────────▶ Item with its head, or with its fault
//! ```
//!
//! Upstream: none.

use std::borrow::Cow;

use kinform_api::Status;
use kinform_schema::Type;

use super::broken::Broken;
use super::head::{self, Reading};
use super::previous::PreviousItem;
use super::{baseline, cursor, event_object};
use crate::wire::baseline::{BaselineRef, Stored};
use crate::wire::bookmark::Bookmark;
use crate::wire::item::{Item, ItemCodec};
use crate::wire::layout::Layout;
use crate::wire::unreadable::Unreadable;

/// Validates the bytes of one object and finds its head.
pub(crate) fn read(bytes: &[u8]) -> Result<Layout, Unreadable> {
    let mut reading = Reading::default();
    match head::read_whole(bytes, &mut reading) {
        Ok(()) => Ok(reading.layout),
        Err(fault) => Err(Broken::new(fault, reading).unreadable(bytes)),
    }
}

/// Creates an item from JSON that was cut out by its brackets, not validated.
pub(super) fn cut(bytes: &[u8]) -> Item<'_> {
    Item::new(bytes, None, &Json)
}

/// Cuts out the object at the start of `bytes`, if it equals a stored one and is not longer than
/// `limit`.
pub(super) fn first_stored<'a, 's: 'a>(
    bytes: &'a [u8],
    limit: usize,
    baseline: Option<BaselineRef<'s>>,
    previous: &mut PreviousItem,
) -> Option<Item<'a>> {
    let window = &bytes[..bytes.len().min(limit)];
    let (layout, object) = baseline::find(window, baseline?, previous)?;
    let item = cut(&bytes[..layout.body.end]);
    Some(item.with_layout(layout).with_stored(object))
}

/// Cuts out the bracketed value at the start of `bytes`, with its head or its fault, if it is
/// complete and not longer than `limit`. The parts that equal those of the previous item may be
/// compared with it only, and not validated.
pub(super) fn first<'a>(
    bytes: &'a [u8],
    limit: usize,
    previous: &mut PreviousItem,
) -> Option<Item<'a>> {
    let window = &bytes[..bytes.len().min(limit)];
    let mut reading = Reading::default();
    match head::read_first(window, previous, &mut reading) {
        Ok(()) => {
            let item = cut(&bytes[..reading.layout.body.end]);
            Some(item.with_layout(reading.layout))
        }
        Err(fault) => {
            let mut broken = Broken::new(fault, reading);
            let whole = &bytes[..broken.find_end(window)?];
            let fault = broken.unreadable(whole);
            debug_assert_eq!(read(whole).err().as_ref(), Some(&fault));
            Some(cut(whole).with_fault(fault))
        }
    }
}

/// The codec of items in JSON.
struct Json;

impl ItemCodec for Json {
    fn head(&self, bytes: &[u8], _: Option<&Type>) -> Result<Option<Layout>, Unreadable> {
        read(bytes).map(Some)
    }

    fn find_stored<'s>(
        &self,
        bytes: &[u8],
        _: Option<&'static Type>,
        baseline: BaselineRef<'s>,
    ) -> Option<(Layout, &'s dyn Stored)> {
        baseline::find(bytes, baseline, &mut PreviousItem::default())
            .filter(|(layout, _)| layout.body.end == bytes.len())
    }

    fn managed_fields_bytes(&self, bytes: &[u8]) -> usize {
        read(bytes).map_or(0, |layout| layout.managed_fields_bytes())
    }

    fn bookmark(&self, bytes: &[u8]) -> Result<Bookmark, Unreadable> {
        event_object::bookmark(bytes)
    }

    fn status(&self, bytes: &[u8], _: &str) -> Option<Status> {
        Status::from_slice(bytes)
    }

    fn text<'b>(&self, raw: &'b [u8]) -> Cow<'b, str> {
        cursor::unescape(raw)
    }
}

/// Predicts whether a chunk holds the next object whole, by the length of the last one: objects
/// of one body are similar.
#[derive(Debug, Default)]
pub(super) struct Guess {
    last: usize,
}

impl Guess {
    /// Returns whether a chunk with `left` bytes may hold the next object whole.
    pub(super) fn may_hold(&self, left: usize) -> bool {
        left >= self.last
    }

    /// Records the length of an object.
    pub(super) fn was(&mut self, length: usize) {
        self.last = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_states_its_type_wherever_it_stands() {
        let check = |body: &str, expected: [&str; 2]| {
            let items = [cut(body.as_bytes()).checked().unwrap()];
            let first = first(body.as_bytes(), 1_000, &mut PreviousItem::default());
            for item in items.iter().chain(&first) {
                assert_eq!([&*item.kind(), &*item.api_version()], expected, "{body}");
            }
        };
        check(
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#,
            ["Pod", "v1"],
        );
        check(
            r#"{"metadata":{"kind":"x"},"apiVersion":"v1","kind":"P\u006fd"}"#,
            ["Pod", "v1"],
        );
        check(r#"{"kind":"A","metadata":{},"kind":"B"}"#, ["B", ""]);
        check(r#"{"kind":7,"apiVersion":null,"metadata":{}}"#, ["", ""]);
        assert!(cut(b"[1]").checked().is_err());
    }
}
