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

use super::cursor::{self, text_is};
use super::json::{self, Checked, Fault, What, space};

/// Pieces of the input that are not kept, in order, not overlapping.
pub(crate) type Cuts = SmallVec<[Range<usize>; 4]>;

/// Whether `metadata.managedFields` is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagedFields {
    Drop,
    Keep,
}

/// Where things are in the bytes of an object. Strings: between the quotes.
#[derive(Debug, Default)]
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
    pub(crate) cuts: Cuts,
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

impl From<Fault> for HeadFault {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

const NOT_AN_OBJECT: &str = "is not a JSON object";
const NOT_A_STRING: &str = "is not a string";

/// Checks the bytes of one object and finds its head.
pub(crate) fn read(bytes: &[u8], managed: ManagedFields) -> Result<Layout, HeadFault> {
    json::utf8(bytes)?;
    let mut layout = Layout::default();
    let start = space(bytes, 0);
    if bytes.get(start) != Some(&b'{') {
        json::document(bytes)?;
        return Err(HeadFault::Field {
            at: start,
            path: "",
            why: NOT_AN_OBJECT,
        });
    }
    let mut members = Checked::after(bytes, start);
    let mut cutter = Cutter::default();
    while let Some((key, value)) = members.next()? {
        let end = match &bytes[key.clone()] {
            raw if text_is(raw, "metadata") => metadata(bytes, value, managed, &mut layout)?,
            _ => json::value(bytes, value, 1)?,
        };
        let raw = &bytes[key.clone()];
        let cut = text_is(raw, "kind") || text_is(raw, "apiVersion");
        cutter.member(cut, key.start - 1..end, &mut layout.cuts);
        members.at = end;
    }
    cutter.finish(&mut layout.cuts);
    let end = space(bytes, members.at);
    if end != bytes.len() {
        return Err(Fault {
            at: end,
            what: What::Trailing,
        }
        .into());
    }
    layout.cuts.sort_unstable_by_key(|cut| cut.start);
    layout.body = start..members.at;
    Ok(layout)
}

fn metadata(
    bytes: &[u8],
    at: usize,
    managed: ManagedFields,
    layout: &mut Layout,
) -> Result<usize, HeadFault> {
    let cuts = std::mem::take(&mut layout.cuts);
    *layout = Layout {
        cuts,
        ..Layout::default()
    };
    if bytes.get(at) != Some(&b'{') {
        let end = json::value(bytes, at, 1)?;
        return match &bytes[at..end] {
            b"null" => Ok(end),
            _ => Err(HeadFault::Field {
                at,
                path: "metadata",
                why: NOT_AN_OBJECT,
            }),
        };
    }
    let mut members = Checked::after(bytes, at);
    let mut cutter = Cutter::default();
    while let Some((key, value)) = members.next()? {
        let end = json::value(bytes, value, 2)?;
        let cut = managed == ManagedFields::Drop && text_is(&bytes[key.clone()], "managedFields");
        cutter.member(cut, key.start - 1..end, &mut layout.cuts);
        if !cut {
            field(bytes, &key, value..end, layout)?;
        }
        members.at = end;
    }
    cutter.finish(&mut layout.cuts);
    Ok(members.at)
}

fn field(
    bytes: &[u8],
    key: &Range<usize>,
    value: Range<usize>,
    layout: &mut Layout,
) -> Result<(), HeadFault> {
    let raw = &bytes[key.clone()];
    // Escapes in keys of the head are legal and never seen; they take the slow way.
    let unescaped;
    let raw = if raw.contains(&b'\\') {
        unescaped = cursor::unescape(raw);
        unescaped.as_bytes()
    } else {
        raw
    };
    let first = bytes[value.start];
    let bracketed = |open: u8| (first == open).then_some(value.clone());
    match raw {
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
