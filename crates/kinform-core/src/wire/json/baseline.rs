//! Recognises items that are stored already, by their bytes, before they are parsed.
//!
//! ```text
//! bytes of a list ─▶ name ─▶ stored object ─▶ equal, but for the dropped parts?
//!                                               └▶ that object, and the layout of the item
//! ```
//!
//! The name is only a hint for the look-up: every byte is compared. An item that is not equal, or
//! has an unusual form, is parsed as if the store was empty.
//!
//! Upstream: none; client-go decodes a relist as it does a first list.
//! Complexity: one look-up, one comparison of the kept bytes and one validation of managedFields;
//! two of each if the first guess is wrong.

use std::ops::Range;

use kinform_api::KeyRef;

use super::cursor;
use super::previous::PreviousItem;
use super::validate::{self, Checked};
use crate::wire::baseline::{BaselineRef, Stored};
use crate::wire::layout::{Cuts, Cutter, Layout};
use crate::wire::scan::{Stops, common};

const MANAGED: &[u8] = b",\"managedFields\":[";

/// Returns the stored object that equals the item at the start of `bytes`, and its layout there.
pub(super) fn find<'s>(
    bytes: &[u8],
    baseline: BaselineRef<'s>,
    previous: &mut PreviousItem,
) -> Option<(Layout, &'s dyn Stored)> {
    let start = Start::of(bytes)?;
    if let Some(object) = baseline.next()
        && let Some(layout) = layout_if_equal(bytes, &start, object, None, previous)
    {
        baseline.advance();
        return Some((layout, object));
    }
    let (key, checked) = key(bytes, start.inside, previous)?;
    let object = baseline.get(key)?;
    let layout = layout_if_equal(bytes, &start, object, checked, previous)?;
    Some((layout, object))
}

/// Returns the layout of the item at the start of `bytes`, if it equals this object. `checked` is
/// the span of its managedFields, if these were found and validated before.
fn layout_if_equal(
    bytes: &[u8],
    start: &Start,
    object: &dyn Stored,
    checked: Option<Range<usize>>,
    previous: &mut PreviousItem,
) -> Option<Layout> {
    if object.is_projected() || !object.is_of(None) {
        return None;
    }
    let (before, rest) = (&bytes[..start.first], &bytes[start.metadata..]);
    let kept = object.bytes().strip_prefix(before)?;
    let same = common(kept, rest);
    let inside = start.inside - start.metadata;
    let (end, managed_bytes);
    if same == kept.len() {
        end = start.metadata + same;
        managed_bytes = managed_bytes_kept(kept, inside);
    } else if object.keeps_managed_fields() {
        return None;
    } else {
        let checked = checked.map(|array| array.start - start.metadata..array.end - start.metadata);
        let cut = managed_fields(rest, same, checked, previous)?;
        // Only managedFields among the metadata's own members were cut out, so a member must end
        // at the cut. The search reads no farther than the cut, however large the object is.
        let before_cut = &kept[..=cut.start];
        let mut ends = cursor::members(before_cut, inside).map(|member| member.value.end);
        if !object.is_known_end(before.len() + cut.start)
            && ends.find(|end| *end >= cut.start) != Some(cut.start)
        {
            return None;
        }
        let left = &kept[cut.start..];
        if !rest[cut.end..].starts_with(left) {
            return None;
        }
        validate::utf8(&rest[cut.clone()]).ok()?;
        end = start.metadata + cut.end + left.len();
        managed_bytes = cut.len();
    }
    let mut layout = Layout {
        body: 0..end,
        kind: start.kind.clone(),
        api_version: start.api_version.clone(),
        ..Layout::default()
    };
    layout.set_managed_bytes(managed_bytes);
    Some(layout)
}

/// Returns the size of managedFields that were not cut out.
fn managed_bytes_kept(kept: &[u8], metadata: usize) -> usize {
    let (mut cutter, mut cuts) = (Cutter::default(), Cuts::new());
    for member in cursor::members(kept, metadata) {
        let span = member.key.start - 1..member.value.end;
        cutter.member(member.is(kept, "managedFields"), span, &mut cuts);
    }
    cutter.finish(&mut cuts);
    cuts.iter().map(ExactSizeIterator::len).sum()
}

/// The positions of an object's first members, up to its metadata.
struct Start {
    kind: Option<Range<usize>>,
    api_version: Option<Range<usize>>,
    /// The position of the first key.
    first: usize,
    /// The position of the key `metadata`, and of the brace after it.
    metadata: usize,
    inside: usize,
}

impl Start {
    /// Reads an object that begins with its metadata, or with its type and then its metadata;
    /// returns `None` for any other.
    fn of(bytes: &[u8]) -> Option<Self> {
        let stops = &mut Stops::new(bytes);
        let mut members = (bytes.first() == Some(&b'{')).then(|| Checked::after(0))?;
        let (mut kind, mut api_version, mut first) = (None, None, None);
        loop {
            let (key, value) = members.next(stops).ok()??;
            let at = key.start - 1;
            let first = *first.get_or_insert(at);
            let place = match &bytes[key] {
                b"metadata" => {
                    return (bytes.get(value) == Some(&b'{')).then_some(Self {
                        kind,
                        api_version,
                        first,
                        metadata: at,
                        inside: value,
                    });
                }
                b"kind" => &mut kind,
                b"apiVersion" => &mut api_version,
                _ => return None,
            };
            let end = validate::value(stops, value, 1).ok()?;
            validate::utf8(&bytes[value..end]).ok()?;
            *place = (bytes[value] == b'"').then_some(value + 1..end - 1);
            members.at = end;
        }
    }
}

/// Returns the key in the metadata that open at `at`, without resolving escapes, and the span of
/// managedFields, if they stand before it. Invalid managedFields make it `None`.
fn key<'a>(
    bytes: &'a [u8],
    at: usize,
    previous: &mut PreviousItem,
) -> Option<(KeyRef<'a>, Option<Range<usize>>)> {
    let (mut name, mut namespace, mut checked) = (None, "", None);
    let mut members = cursor::open_members(bytes, at);
    while let Some((key, value)) = members.next() {
        let text = || {
            let end = cursor::value_end(bytes, value)?;
            std::str::from_utf8(cursor::string_in(bytes, value..end)?).ok()
        };
        match &bytes[key] {
            b"name" => name = Some(text()?),
            b"namespace" => namespace = text()?,
            b"managedFields" => {
                let end = previous
                    .managed_fields(&mut Stops::new(bytes), value)
                    .ok()?;
                members.skip_to(end);
                checked = Some(value..end);
            }
            // In both orders that servers write, `uid` comes after name and namespace.
            b"uid" => break,
            _ => continue,
        }
        if name.is_some() && !namespace.is_empty() {
            break;
        }
    }
    let name = name?;
    Some((KeyRef { namespace, name }, checked))
}

/// Returns the span of the member `managedFields` with the comma before it, if it is valid and
/// begins at `at`, the first difference, or shortly before. The array at `checked` was validated
/// before, and is not validated again.
fn managed_fields(
    bytes: &[u8],
    at: usize,
    checked: Option<Range<usize>>,
    previous: &mut PreviousItem,
) -> Option<Range<usize>> {
    // The stored object may continue with another member. This begins with a comma and a quote,
    // too, so the first difference may lie after the start.
    let start = (at.saturating_sub(MANAGED.len())..=at)
        .rev()
        .find(|start| bytes[*start..].starts_with(MANAGED))?;
    let value = start + MANAGED.len() - 1;
    let end = match checked.filter(|checked| checked.start == value) {
        Some(checked) => checked.end,
        None => previous
            .managed_fields(&mut Stops::new(bytes), value)
            .ok()?,
    };
    Some(start..end)
}
