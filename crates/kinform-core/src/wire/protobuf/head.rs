//! The head of a validated message: key, uid, version and the other spans of its metadata.
//!
//! ```text
//! validated message → read → Layout {spans, cuts, the length that the cuts change}
//! malformed message → salvage → Unreadable {key?, version?, path, why}
//! ```
//!
//! `metadata` is field 1 of every kind, and managedFields are field 17 in it: cutting them out
//! changes one length. The spans of labels and of annotations cover all their entries.
//!
//! Upstream: `metav1.ObjectMeta` (`generated.proto`).

use std::cell::RefCell;
use std::ops::Range;

use kinform_api::{INITIAL_EVENTS_END, mutant};
use kinform_schema::Type;
use smallvec::smallvec;

use super::alike::Alike;
use super::check::{self, Fault, Order};
use super::fields::{Fields, varint, varint_len};
use super::metadata::{
    ANNOTATIONS, DELETION_TIMESTAMP, LABELS, MANAGED_FIELDS, METADATA, NAME, NAMESPACE,
    OWNER_REFERENCES, RESOURCE_VERSION, UID,
};
use super::value;
use crate::wire::bookmark::Bookmark;
use crate::wire::layout::{Layout, ManagedFields};
use crate::wire::unreadable::{Unreadable, named};

/// Checks a message except its managedFields and finds its head; `None` if it is not in the usual
/// order. The parts that it has in common with previous items may be only compared.
pub(crate) fn read(
    of: &Type,
    bytes: &[u8],
    alike: Option<&RefCell<Alike>>,
) -> Result<Option<Layout>, Fault> {
    let order = match alike.and_then(|alike| alike.try_borrow_mut().ok()) {
        Some(mut alike) => alike.check(of, bytes)?,
        None => check::message(of, bytes, ManagedFields::Drop)?,
    };
    match order {
        Order::Usual => Ok(Some(layout(bytes))),
        Order::Unusual => Ok(None),
    }
}

/// Returns the head of a validated message in the usual order.
pub(crate) fn layout(bytes: &[u8]) -> Layout {
    let mut layout = Layout {
        body: 0..bytes.len(),
        ..Layout::default()
    };
    let Some(metadata) = Fields::of(bytes).find(|field| field.number == METADATA) else {
        return layout;
    };
    let inside = metadata.value.bytes().unwrap_or_default();
    let base = metadata.end - inside.len();
    let mut managed: Option<Range<usize>> = None;
    for field in Fields::of(inside) {
        let end = base + field.end;
        let value = field.value.bytes().unwrap_or_default();
        let text = || Some(end - value.len()..end);
        let run = |known: &Option<Range<usize>>| {
            let start = known.as_ref().map_or(base + field.start, |run| run.start);
            Some(start..end)
        };
        match field.number {
            NAME => layout.name = text(),
            NAMESPACE => layout.namespace = text(),
            UID => layout.uid = text(),
            RESOURCE_VERSION => layout.resource_version = text(),
            DELETION_TIMESTAMP => layout.terminating = !value.is_empty(),
            LABELS => layout.labels = run(&layout.labels),
            ANNOTATIONS => layout.annotations = run(&layout.annotations),
            OWNER_REFERENCES => layout.owners = run(&layout.owners),
            MANAGED_FIELDS => managed = run(&managed.filter(|_| !mutant!("K12"))),
            _ => {}
        }
    }
    if let Some(managed) = managed {
        let left = (inside.len() - managed.len()) as u64;
        let at = varint(bytes, metadata.start).map_or(base, |(_, at)| at);
        // The shorter length is written at the place of the longer one; the bytes that it saves are
        // cut.
        let excess = at + varint_len(left)..base;
        layout.set_managed(managed.len(), smallvec![excess, managed], (at, left));
    }
    layout
}

/// Returns the message without its version, in pieces, so that two messages can be compared apart
/// from it.
pub(crate) fn around_version(bytes: &[u8]) -> [&[u8]; 4] {
    let Some(metadata) = Fields::of(bytes).find(|field| field.number == METADATA) else {
        return [bytes, &[], &[], &[]];
    };
    let inside = metadata.value.bytes().unwrap_or_default();
    let version = Fields::of(inside).find(|field| field.number == RESOURCE_VERSION);
    let (start, end) = version.map_or((inside.len(), inside.len()), |field| {
        (field.start, field.end)
    });
    [
        &bytes[..metadata.start],
        &inside[..start],
        &inside[end..],
        &bytes[metadata.end..],
    ]
}

/// Reads the object of a bookmark.
pub(crate) fn bookmark(bytes: &[u8]) -> Result<Bookmark, Unreadable> {
    let mut fields = Fields::of(bytes);
    let metadata = fields.by_ref().filter(|field| field.number == METADATA);
    let metadata = metadata.last().and_then(|field| field.value.bytes());
    let mut inside = Fields::of(metadata.unwrap_or_default());
    let (mut version, mut is_end) = (None, false);
    for field in inside.by_ref() {
        match field.number {
            RESOURCE_VERSION => version = field.value.bytes(),
            ANNOTATIONS => {
                let entry = value::entry(field.value.bytes().unwrap_or_default());
                is_end |= entry == (INITIAL_EVENTS_END.as_bytes(), b"true");
            }
            _ => {}
        }
    }
    if let Some(why) = fields.broken().or(inside.broken()) {
        return Err(salvage(bytes, why));
    }
    let version = version.and_then(|version| std::str::from_utf8(version).ok());
    match version.filter(|version| !version.is_empty()) {
        Some(version) => Ok(Bookmark {
            resource_version: version.to_owned(),
            initial_events_end: is_end,
        }),
        None => Err(Unreadable::missing("metadata.resourceVersion")),
    }
}

/// Reports a malformed message.
pub(crate) fn unreadable(bytes: &[u8], fault: Fault) -> Unreadable {
    let mut found = salvage(bytes, fault.why);
    found.path = fault.path;
    found
}

/// Salvages the name of a malformed message, or of the first bytes of one.
pub(crate) fn salvage(bytes: &[u8], reason: impl Into<String>) -> Unreadable {
    let (mut name, mut namespace, mut version) = (None, None, None);
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next_open() {
        if field.number != METADATA {
            continue;
        }
        let mut inside = Fields::of(field.value.bytes().unwrap_or_default());
        for field in inside.by_ref() {
            let place = match field.number {
                NAME => &mut name,
                NAMESPACE => &mut namespace,
                RESOURCE_VERSION => &mut version,
                _ => continue,
            };
            *place = field
                .value
                .bytes()
                .and_then(|text| std::str::from_utf8(text).ok());
        }
        break;
    }
    named(name, namespace, version, reason)
}
