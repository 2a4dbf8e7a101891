//! Items that are stored already: told by their bytes, before anything is read of them.
//!
//! ```text
//! bytes of a list ─▶ name ─▶ stored object ─▶ the same but for what is not kept? ─▶ that object, and where the item ends
//! ```
//!
//! Most of what a relist brings has not changed. Its bytes are those of the stored object, with `kind`,
//! `apiVersion` and managedFields put back where they were cut out; bytes that are equal to checked ones need no
//! check, and make no second object. The name is a hint where to look, no more: what is compared is every byte.
//! Whatever is not equal, or looks unusual, is read as if nothing was stored. Lists come in the order of keys, and so
//! do the objects of a store that a list filled: what is stored behind the last one is looked at before the name is.
//!
//! INVARIANT: the item is handed on with the object that its bytes would make.
//! Upstream: none; client-go decodes a relist as it does a first list.
//! Complexity: a look-up, one comparison of what is kept, one check of managedFields; two of each, where the guess is
//! wrong.

use std::any::Any;
use std::ops::Range;

use kinform_api::KeyRef;
use kinform_schema::Type;

use super::json::cursor;
use super::json::head::{Cuts, Cutter, Layout, ManagedFields};
use super::json::previous::PreviousItem;
use super::json::validate::{self, Checked};
use super::protobuf::fields::{Fields, put_varint};
use super::protobuf::head::{self as message, MANAGED_FIELDS};
use super::scan::{Stops, common};

/// What is stored under a key, as far as bytes can tell whether an item is just that.
///
/// An object of the store, seen from where bytes are read; nothing else is one.
pub trait Stored: Any {
    /// What is kept of it, as encoded.
    fn bytes(&self) -> &[u8];

    /// Whether it is a message of this type; of none, whether it is JSON.
    fn is_of(&self, message: Option<&Type>) -> bool;

    /// Whether a projection took something out, beside managedFields.
    fn is_projected(&self) -> bool;

    /// Whether its managedFields, if it has some, are kept: then an item that has others is another object.
    fn keeps_managed_fields(&self) -> bool;

    /// Whether a member of its metadata ends at this byte, as far as that is known without reading them.
    fn is_known_end(&self, at: usize) -> bool;
}

/// Finds what is stored, for who reads a list of it: [`RootBaseline`](crate::store::baseline::RootBaseline).
pub trait Shelf<'s> {
    /// What is stored under a key.
    fn get(&self, key: KeyRef<'_>) -> Option<&'s dyn Stored>;

    /// What is likely listed next. A wrong guess costs a comparison, which ends where both differ, and a check of
    /// managedFields if that is where they do.
    fn next(&self) -> Option<&'s dyn Stored>;

    /// What was likely listed next is what was listed.
    fn advance(&self);
}

/// Whom to ask.
pub type Lookup<'s> = &'s dyn Shelf<'s>;

const MANAGED: &[u8] = b",\"managedFields\":[";

/// The stored object that `bytes` begin with, and its layout in them.
pub(super) fn json<'s>(
    bytes: &[u8],
    stored: Lookup<'s>,
    previous: &mut PreviousItem,
) -> Option<(Layout, &'s dyn Stored)> {
    let start = Start::of(bytes)?;
    if let Some(object) = stored.next()
        && let Some(layout) = json_is(bytes, &start, object, None, previous)
    {
        stored.advance();
        return Some((layout, object));
    }
    let (key, checked) = key(bytes, start.inside, previous)?;
    let object = stored.get(key)?;
    let layout = json_is(bytes, &start, object, checked, previous)?;
    Some((layout, object))
}

/// The layout of the item that `bytes` begin with, if it is this object. Where managedFields are, may be known, and
/// that they are sound.
fn json_is(
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
        // Only those of the object itself were cut out.
        // No farther than the cut, however large the object is.
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
    let mut layout = Layout::default();
    layout.body = 0..end;
    (layout.kind, layout.api_version) = (start.kind.clone(), start.api_version.clone());
    layout.set_managed_bytes(managed_bytes);
    Some(layout)
}

/// What managedFields weigh that were not cut out.
fn managed_bytes_kept(kept: &[u8], metadata: usize) -> usize {
    let (mut cutter, mut cuts) = (Cutter::default(), Cuts::new());
    for member in cursor::members(kept, metadata) {
        let span = member.key.start - 1..member.value.end;
        cutter.member(member.is(kept, "managedFields"), span, &mut cuts);
    }
    cutter.finish(&mut cuts);
    cuts.iter().map(ExactSizeIterator::len).sum()
}

/// Where things are before an object's metadata.
struct Start {
    kind: Option<Range<usize>>,
    api_version: Option<Range<usize>>,
    /// The first key.
    first: usize,
    /// The key `metadata`, and the brace after it.
    metadata: usize,
    inside: usize,
}

impl Start {
    /// Of an object that begins with its metadata, or with its type and then its metadata.
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

/// The key in the metadata whose `{` is at `at`, if it can be read at a glance, and where managedFields are,
/// if they stand before it and are sound.
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
            // In both orders that servers write, it comes after the others.
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

/// The member `managedFields` with the comma before it, if it begins not far before `at`, and is sound.
/// An array that was found to be sound before is not looked at again.
fn managed_fields(
    bytes: &[u8],
    at: usize,
    checked: Option<Range<usize>>,
    previous: &mut PreviousItem,
) -> Option<Range<usize>> {
    // What comes behind it in the stored object begins with a comma, too, and a quote.
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

/// The stored object that a message of this type is, and its layout.
pub(super) fn protobuf<'s>(
    of: &'static Type,
    bytes: &[u8],
    stored: Lookup<'s>,
) -> Option<(Layout, &'s dyn Stored)> {
    let layout = message::layout(bytes);
    if let Some(object) = stored
        .next()
        .filter(|object| message_is(of, bytes, &layout, *object))
    {
        stored.advance();
        return Some((layout, object));
    }
    let text = |span: &Option<Range<usize>>| {
        let span = span.clone().unwrap_or_default();
        std::str::from_utf8(&bytes[span]).ok()
    };
    let object = stored.get(KeyRef {
        namespace: text(&layout.namespace)?,
        name: text(&layout.name)?,
    })?;
    message_is(of, bytes, &layout, object).then_some((layout, object))
}

/// Whether a message is this object.
fn message_is(of: &'static Type, bytes: &[u8], layout: &Layout, object: &dyn Stored) -> bool {
    if object.is_projected() || !object.is_of(Some(of)) {
        return false;
    }
    let kept = object.bytes();
    match layout.patch(ManagedFields::Drop) {
        None => bytes == kept,
        Some(_) if object.keeps_managed_fields() => bytes == kept,
        Some((at, length)) => is_same_without(layout, bytes, kept, at, length),
    }
}

/// Whether a message with managedFields is one without, whose metadata are as long as `length` at `at` says.
fn is_same_without(layout: &Layout, bytes: &[u8], kept: &[u8], at: usize, length: u64) -> bool {
    let [excess, managed] = &layout.cuts(ManagedFields::Drop)[..] else {
        return false;
    };
    // Nothing else may stand between the first and the last of them.
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
