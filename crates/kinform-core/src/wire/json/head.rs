//! The head of an object: key, uid, version and the spans of its metadata, found while every byte
//! of the object is validated.
//!
//! ```text
//! bytes of one object → read_whole, read_first → Reading {layout} | HeadFault {at, why}
//! ```
//!
//! One pass. `kind`, `apiVersion` and (unless kept) `metadata.managedFields` become cuts: they are
//! validated, but not copied. As in Go the last of two equal keys counts and null is absence. A
//! field of the wrong type is reported at the end of the object, when its other fields are known.
//! Allocates only if a key of the head has escapes.
//!
//! Upstream: `apimachinery:pkg/api/meta` (accessors on decoded objects).

use std::ops::Range;

use super::cursor;
use super::previous::PreviousItem;
use super::validate::{self, Checked, Fault, What, space};
use crate::wire::layout::{Cuts, Cutter, Layout};
use crate::wire::scan::Stops;

/// The reason why an object has no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// The bytes are not JSON.
    Broken(Fault),
    /// The bytes are JSON, but a field of the head has the wrong type.
    Field {
        at: usize,
        path: &'static str,
        why: &'static str,
    },
}

impl From<Fault> for HeadFault {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

/// The parsed part of an object: all of it, or all before its fault.
#[derive(Debug, Default)]
pub(in crate::wire) struct Reading {
    pub(in crate::wire) layout: Layout,
    /// The position of the brace that opens it.
    pub(in crate::wire) start: usize,
    /// The offset after the last complete member, or after the opening brace.
    pub(in crate::wire) done: usize,
    /// The member that is being read.
    pub(in crate::wire) open: Option<OpenMember>,
    /// Set once the metadata were read completely.
    pub(in crate::wire) has_metadata: bool,
    /// A ring of the offsets of the last members; `members` modulo its length is the next slot.
    begins: [usize; MOST_BEGINS],
    members: usize,
    /// The first field of the head that has the wrong type.
    field: Option<HeadFault>,
}

/// A member whose value is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) struct OpenMember {
    /// The offset of the opening quote of its key.
    pub(in crate::wire) key: usize,
    pub(in crate::wire) value: usize,
    pub(in crate::wire) is_metadata: bool,
}

/// BOUND: offsets of members that are remembered, to locate a fault that is found at the end of the
/// object (bad UTF-8); objects have no more members.
const MOST_BEGINS: usize = 8;

impl Reading {
    /// Returns the offset of the last member that begins at or before `at`; the offset after the
    /// opening brace, if that member is not remembered.
    pub(in crate::wire) fn member_before(&self, at: usize) -> usize {
        let known = &self.begins[..self.members.min(MOST_BEGINS)];
        let before = known.iter().filter(|&&begin| begin <= at);
        before.max().map_or(self.start + 1, |&begin| begin)
    }

    /// Records a field of the wrong type; only the first one is reported.
    #[cold]
    fn wrong_field(&mut self, at: usize, path: &'static str, why: &'static str) {
        self.field.get_or_insert(HeadFault::Field { at, path, why });
    }
}

const NOT_AN_OBJECT: &str = "is not a JSON object";
const NOT_A_STRING: &str = "is not a string";

/// Reads bytes that are one object, with nothing but white space around it.
pub(super) fn read_whole(bytes: &[u8], reading: &mut Reading) -> Result<(), HeadFault> {
    let start = space(bytes, 0);
    if !matches!(bytes.get(start), Some(b'{' | b'[')) {
        validate::document(bytes)?;
    }
    object(bytes, start, &mut PreviousItem::default(), reading)?;
    match space(bytes, reading.layout.body.end) {
        end if end == bytes.len() => sound(bytes, reading),
        at => Err(Fault {
            at,
            what: What::Trailing,
        }
        .into()),
    }
}

/// Reads the object that `bytes` begin with, which must be complete and valid. Saves a search for
/// its end.
pub(in crate::wire) fn read_first(
    bytes: &[u8],
    previous: &mut PreviousItem,
    reading: &mut Reading,
) -> Result<(), HeadFault> {
    object(bytes, 0, previous, reading)?;
    sound(bytes, reading)
}

/// Checks valid JSON further: that it is UTF-8, and that the fields of its head have their types.
fn sound(bytes: &[u8], reading: &Reading) -> Result<(), HeadFault> {
    validate::utf8(&bytes[reading.layout.body.clone()]).map_err(|fault| {
        let at = reading.layout.body.start + fault.at;
        Fault { at, ..fault }
    })?;
    reading.field.map_or(Ok(()), Err)
}

/// Reads the object whose `{` is at `start`. Leaves UTF-8 and the types of the head's fields to
/// `sound`.
fn object(
    bytes: &[u8],
    start: usize,
    previous: &mut PreviousItem,
    reading: &mut Reading,
) -> Result<(), HeadFault> {
    // An array may have other faults, too; that it is not an object is reported first.
    if bytes.get(start) != Some(&b'{') {
        return Err(HeadFault::Field {
            at: start,
            path: "",
            why: NOT_AN_OBJECT,
        });
    }
    let stops = &mut Stops::new(bytes);
    (reading.start, reading.done) = (start, start + 1);
    let mut members = Checked::after(start);
    let (mut cutter, mut cuts) = (Cutter::default(), Cuts::new());
    let (mut kind, mut api_version, mut number) = (None, None, 0);
    while let Some((key, value)) = members.next(stops)? {
        let unescaped;
        let mut raw = &bytes[key.clone()];
        // Escapes in keys of the head are legal but no server writes them; they take the slow path.
        if members.is_escaped() {
            unescaped = cursor::key_text(raw);
            raw = &unescaped;
        }
        let begin = key.start - 1;
        let is_metadata = raw == b"metadata";
        reading.begins[reading.members % MOST_BEGINS] = begin;
        reading.members += 1;
        reading.open = Some(OpenMember {
            key: begin,
            value,
            is_metadata,
        });
        let end = match is_metadata {
            true => metadata(stops, value, reading, previous)?,
            false => {
                number += 1;
                previous.member(stops, value, number - 1)?
            }
        };
        let is_kind = raw == b"kind";
        let cut = is_kind || raw == b"apiVersion";
        if cut {
            let place = if is_kind { &mut kind } else { &mut api_version };
            *place = (bytes[value] == b'"').then_some(value + 1..end - 1);
        }
        cutter.member(cut, begin..end, &mut cuts);
        members.at = end;
        (reading.done, reading.open) = (end, None);
    }
    cutter.finish(&mut cuts);
    let layout = &mut reading.layout;
    (layout.kind, layout.api_version) = (kind, api_version);
    layout.type_cuts = cuts;
    layout.body = start..members.at;
    Ok(())
}

fn metadata(
    stops: &mut Stops<'_>,
    at: usize,
    reading: &mut Reading,
    previous: &mut PreviousItem,
) -> Result<usize, HeadFault> {
    let bytes = stops.bytes();
    let managed_cuts = std::mem::take(&mut reading.layout.managed_cuts);
    reading.layout = Layout {
        managed_cuts,
        ..Layout::default()
    };
    reading.has_metadata = false;
    if bytes.get(at) != Some(&b'{') {
        let end = validate::value(stops, at, 1)?;
        if &bytes[at..end] != b"null" {
            reading.wrong_field(at, "metadata", NOT_AN_OBJECT);
        }
        reading.has_metadata = true;
        return Ok(end);
    }
    let mut members = Checked::after(at);
    let mut cutter = Cutter::default();
    while let Some((key, value)) = members.next(stops)? {
        let unescaped;
        let mut raw = &bytes[key.clone()];
        if members.is_escaped() {
            unescaped = cursor::key_text(raw);
            raw = &unescaped;
        }
        let cut = raw == b"managedFields";
        let end = match cut {
            true => previous.managed_fields(stops, value)?,
            false => validate::value(stops, value, 2)?,
        };
        cutter.member(cut, key.start - 1..end, &mut reading.layout.managed_cuts);
        if !cut {
            field(bytes, raw, value..end, reading);
        }
        members.at = end;
    }
    cutter.finish(&mut reading.layout.managed_cuts);
    reading.has_metadata = true;
    Ok(members.at)
}

fn field(bytes: &[u8], key: &[u8], value: Range<usize>, reading: &mut Reading) {
    let first = bytes[value.start];
    let bracketed = |open: u8| (first == open).then_some(value.clone());
    let mut text = |path| match first {
        b'"' => Some(value.start + 1..value.end - 1),
        b'n' => None,
        _ => {
            reading.wrong_field(value.start, path, NOT_A_STRING);
            None
        }
    };
    match key {
        b"name" => reading.layout.name = text("metadata.name"),
        b"namespace" => reading.layout.namespace = text("metadata.namespace"),
        b"uid" => reading.layout.uid = text("metadata.uid"),
        b"resourceVersion" => {
            reading.layout.resource_version = text("metadata.resourceVersion");
        }
        b"labels" => reading.layout.labels = bracketed(b'{'),
        b"annotations" => reading.layout.annotations = bracketed(b'{'),
        b"ownerReferences" => reading.layout.owners = bracketed(b'['),
        b"deletionTimestamp" => reading.layout.terminating = first != b'n',
        _ => {}
    }
}
