//! The head of an object: key, uid, version and the spans of its metadata, found while every byte
//! of the object is checked.
//!
//! ```text
//! bytes of one object → read → Layout {spans, cuts} | HeadFault {at, why}
//! ```
//!
//! One pass. `kind`, `apiVersion` and (unless kept) `metadata.managedFields` become cuts: they are
//! checked, but not copied. As in Go the last of two equal keys counts and null is absence.
//! Nothing is allocated unless a key of the head is escaped.
//!
//! Upstream: `apimachinery:pkg/api/meta` (accessors on decoded objects).

use std::ops::Range;

use smallvec::SmallVec;

use super::cursor;
use super::json::{self, Checked, Fault, What, space};
use super::scan::Stops;
use super::seen::Seen;

/// Pieces of the input that are not kept, in order, not overlapping.
pub(crate) type Cuts = SmallVec<[Range<usize>; 3]>;

/// Whether `metadata.managedFields` is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Drop,
    Keep,
}

/// Where things are in the bytes of an object. Strings: between the quotes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// The object without white space around it.
    pub(crate) body: Range<usize>,
    pub(crate) name: Option<Range<usize>>,
    pub(crate) namespace: Option<Range<usize>>,
    pub(crate) uid: Option<Range<usize>>,
    pub(crate) resource_version: Option<Range<usize>>,
    pub(crate) labels: Option<Range<usize>>,
    pub(crate) annotations: Option<Range<usize>>,
    pub(crate) owners: Option<Range<usize>>,
    pub(crate) terminating: bool,
    pub(crate) kind: Option<Range<usize>>,
    pub(crate) api_version: Option<Range<usize>>,
    /// `kind` and `apiVersion`.
    type_cuts: Cuts,
    /// `metadata.managedFields`.
    managed_cuts: Cuts,
    /// What they weigh, where the cuts hold more than them.
    managed_bytes: usize,
    /// Where the length of the metadata stands, and what it is without managedFields: protobuf only.
    patch: Option<(usize, u64)>,
}

impl Layout {
    /// What `metadata.managedFields` weighs, name and comma included.
    pub(crate) fn managed_fields_bytes(&self) -> usize {
        match self.managed_bytes {
            0 => self.managed_cuts.iter().map(ExactSizeIterator::len).sum(),
            bytes => bytes,
        }
    }

    /// What managedFields weigh, where they are no cuts.
    pub(crate) fn set_managed_bytes(&mut self, bytes: usize) {
        self.managed_bytes = bytes;
    }

    /// As a message has it: what managedFields weigh, what goes with them, and the length that it changes.
    pub(crate) fn set_managed(&mut self, bytes: usize, cuts: Cuts, patch: (usize, u64)) {
        self.managed_bytes = bytes;
        self.managed_cuts = cuts;
        self.patch = Some(patch);
    }

    /// The length that is another one without what is not kept.
    pub(crate) fn patch(&self, managed: ManagedFields) -> Option<(usize, u64)> {
        self.patch.filter(|_| managed == ManagedFields::Drop)
    }

    /// What is not kept.
    pub(crate) fn cuts(&self, managed: ManagedFields) -> Cuts {
        let mut cuts = self.type_cuts.clone();
        if managed == ManagedFields::Drop {
            cuts.extend(self.managed_cuts.iter().cloned());
            cuts.sort_unstable_by_key(|cut| cut.start);
        }
        cuts
    }
}

/// Why an object has no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// The bytes are no JSON.
    Broken(Fault),
    /// They are, but a field of the head is not what it must be.
    Field {
        at: usize,
        path: &'static str,
        why: &'static str,
    },
}

impl HeadFault {
    /// Whether what was found in the bytes that an object begins is so of the object, of which there are this many.
    pub(crate) fn is_within(&self, length: usize) -> bool {
        match self {
            Self::Broken(fault) => fault.what != What::End && fault.at < length,
            Self::Field { at, .. } => *at < length,
        }
    }
}

impl From<Fault> for HeadFault {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

const NOT_AN_OBJECT: &str = "is not a JSON object";
const NOT_A_STRING: &str = "is not a string";

/// Checks the bytes of one object and finds its head.
pub(crate) fn read(bytes: &[u8]) -> Result<Layout, HeadFault> {
    json::utf8(bytes)?;
    let start = space(bytes, 0);
    if bytes.get(start) != Some(&b'{') {
        // Whatever else is wrong with an array, this is.
        if bytes.get(start) != Some(&b'[') {
            json::document(bytes)?;
        }
        return Err(HeadFault::Field {
            at: start,
            path: "",
            why: NOT_AN_OBJECT,
        });
    }
    let layout = object(bytes, start, &mut Seen::default())?;
    match space(bytes, layout.body.end) {
        end if end == bytes.len() => Ok(layout),
        at => Err(Fault {
            at,
            what: What::Trailing,
        }
        .into()),
    }
}

/// The object that `bytes` begin with, if it is whole and sound: saves a search for its end.
pub(crate) fn read_first(bytes: &[u8], seen: &mut Seen) -> Result<Layout, HeadFault> {
    if !bytes.starts_with(b"{") {
        return Err(HeadFault::Field {
            at: 0,
            path: "",
            why: NOT_AN_OBJECT,
        });
    }
    let layout = object(bytes, 0, seen)?;
    json::utf8(&bytes[layout.body.clone()])?;
    Ok(layout)
}

/// The object whose `{` is at `start`; UTF-8 is checked by the caller.
fn object(bytes: &[u8], start: usize, seen: &mut Seen) -> Result<Layout, HeadFault> {
    let stops = &mut Stops::new(bytes);
    let mut layout = Layout::default();
    let mut members = Checked::after(start);
    let (mut cutter, mut cuts) = (Cutter::default(), Cuts::new());
    let (mut kind, mut api_version, mut number) = (None, None, 0);
    while let Some((key, value)) = members.next(stops)? {
        let unescaped;
        let mut raw = &bytes[key.clone()];
        // Escapes in keys of the head are legal and never seen; they take the slow way.
        if members.is_escaped() {
            unescaped = cursor::key_text(raw);
            raw = &unescaped;
        }
        let end = match raw {
            b"metadata" => metadata(stops, value, &mut layout, seen)?,
            _ => {
                number += 1;
                seen.member(stops, value, number - 1)?
            }
        };
        let is_kind = raw == b"kind";
        let cut = is_kind || raw == b"apiVersion";
        if cut {
            let place = if is_kind { &mut kind } else { &mut api_version };
            *place = (bytes[value] == b'"').then_some(value + 1..end - 1);
        }
        cutter.member(cut, key.start - 1..end, &mut cuts);
        members.at = end;
    }
    cutter.finish(&mut cuts);
    (layout.kind, layout.api_version) = (kind, api_version);
    layout.type_cuts = cuts;
    layout.body = start..members.at;
    Ok(layout)
}

fn metadata(
    stops: &mut Stops<'_>,
    at: usize,
    layout: &mut Layout,
    seen: &mut Seen,
) -> Result<usize, HeadFault> {
    let bytes = stops.bytes();
    let managed_cuts = std::mem::take(&mut layout.managed_cuts);
    *layout = Layout {
        managed_cuts,
        ..Layout::default()
    };
    if bytes.get(at) != Some(&b'{') {
        let end = json::value(stops, at, 1)?;
        return match &bytes[at..end] {
            b"null" => Ok(end),
            _ => Err(HeadFault::Field {
                at,
                path: "metadata",
                why: NOT_AN_OBJECT,
            }),
        };
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
        let end = match cut.then(|| seen.managed_fields(stops, value)).flatten() {
            Some(end) => end,
            None => json::value(stops, value, 2)?,
        };
        cutter.member(cut, key.start - 1..end, &mut layout.managed_cuts);
        if !cut {
            field(bytes, raw, value..end, layout)?;
        }
        members.at = end;
    }
    cutter.finish(&mut layout.managed_cuts);
    Ok(members.at)
}

fn field(
    bytes: &[u8],
    key: &[u8],
    value: Range<usize>,
    layout: &mut Layout,
) -> Result<(), HeadFault> {
    let first = bytes[value.start];
    let bracketed = |open: u8| (first == open).then_some(value.clone());
    match key {
        b"name" => layout.name = text(bytes, value, "metadata.name")?,
        b"namespace" => layout.namespace = text(bytes, value, "metadata.namespace")?,
        b"uid" => layout.uid = text(bytes, value, "metadata.uid")?,
        b"resourceVersion" => {
            layout.resource_version = text(bytes, value, "metadata.resourceVersion")?;
        }
        b"labels" => layout.labels = bracketed(b'{'),
        b"annotations" => layout.annotations = bracketed(b'{'),
        b"ownerReferences" => layout.owners = bracketed(b'['),
        b"deletionTimestamp" => layout.terminating = first != b'n',
        _ => {}
    }
    Ok(())
}

fn text(
    bytes: &[u8],
    value: Range<usize>,
    path: &'static str,
) -> Result<Option<Range<usize>>, HeadFault> {
    match bytes[value.start] {
        b'"' => Ok(Some(value.start + 1..value.end - 1)),
        b'n' => Ok(None),
        _ => Err(HeadFault::Field {
            at: value.start,
            path,
            why: NOT_A_STRING,
        }),
    }
}

/// Turns members that are not kept into cuts that leave the commas right.
#[derive(Default)]
pub(crate) struct Cutter {
    kept: bool,
    pending: Option<usize>,
    previous_end: usize,
}

impl Cutter {
    /// The next member or element, in order, and whether it is cut out.
    pub(crate) fn member(&mut self, cut: bool, member: Range<usize>, cuts: &mut Cuts) {
        if !cut {
            if let Some(from) = self.pending.take() {
                cuts.push(from..member.start);
            }
            self.kept = true;
        } else if self.kept {
            cuts.push(self.previous_end..member.end);
        } else {
            self.pending.get_or_insert(member.start);
        }
        self.previous_end = member.end;
    }

    /// The closing bracket.
    pub(crate) fn finish(self, cuts: &mut Cuts) {
        if let Some(from) = self.pending {
            cuts.push(from..self.previous_end);
        }
    }
}
