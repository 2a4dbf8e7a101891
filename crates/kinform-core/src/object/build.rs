//! Puts an object together: head and bytes into one allocation.
//!
//! ```text
//! bytes → wire::json::head | wire::protobuf::head → (projection →) identity + layout → assemble → Object
//! ```
//!
//! The identity (key, uid, version) is taken from the wire once and never changes, whatever a
//! projection or transform leaves of the bytes: strings that the bytes do not hold as they are
//! (escaped, dropped, changed) are copied behind them.
//!
//! Upstream: none. Complexity: one pass to check, one copy to pack, one copy into place.

use std::any::Any;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use kinform_api::{KeyRef, mutant};
use kinform_schema::Type;
use triomphe::ThinArc;

use super::projection::Projection;
use super::typed::TypedSlot;

use super::{Flags, Head, Object, Span};
use crate::wire::encoding::Encoding;
use crate::wire::item::Item;
use crate::wire::json::cursor;
use crate::wire::json::item;
use crate::wire::json::salvage::invalid_field;
use crate::wire::layout::{Layout, ManagedFields};
use crate::wire::protobuf::check::{self, Order};
use crate::wire::protobuf::fields::put_varint;
use crate::wire::protobuf::{head as message, mend, order};
use crate::wire::strip;
use crate::wire::unreadable::{MISSING, NAME, Unreadable, is_name};

/// BOUND: bytes that a thread keeps to pack objects in.
const PACKED_BYTES: usize = 64 << 10;

thread_local! {
    /// Scratch space in which objects are packed, one after the other: memory that was just used is
    /// in the processor's cache, unlike a fresh allocation.
    static PACKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The parts of an object that never change.
struct Identity<'a> {
    name: Cow<'a, str>,
    namespace: Cow<'a, str>,
    uid: Cow<'a, str>,
    resource_version: Cow<'a, str>,
    flags: Flags,
}

pub(super) fn from_json(body: &[u8], projection: &Projection) -> Result<Object, Unreadable> {
    from_layout(body, &read(body)?, projection)
}

pub(super) fn from_item(item: &Item<'_>, projection: &Projection) -> Result<Object, Unreadable> {
    let known: Option<&dyn Any> = item.stored().map(|stored| stored as _);
    if let Some(object) = known.and_then(<dyn Any>::downcast_ref::<Object>) {
        return Ok(object.clone());
    }
    match (item.message_type(), item.layout()) {
        // What was checked on the way was not their managedFields.
        (Some(of), Some(layout)) if projection.managed_fields() == ManagedFields::Drop => {
            from_message(of, item.bytes(), layout, projection)
        }
        (Some(of), _) => from_protobuf(of, item.bytes(), projection),
        (None, _) if item.is_message() => {
            Err(Unreadable::unknown("is of a kind that is not built in"))
        }
        (None, Some(layout)) => from_layout(item.bytes(), layout, projection),
        (None, None) => from_json(item.bytes(), projection),
    }
}

pub(super) fn from_protobuf(
    of: &'static Type,
    bytes: &[u8],
    projection: &Projection,
) -> Result<Object, Unreadable> {
    check_size(bytes)?;
    let order = match check::message(of, bytes, projection.managed_fields()) {
        Ok(order) => order,
        Err(fault) => {
            // What is mended has no such texts, so it is not mended again.
            let may_be_mended = fault.is_in_text() && !mutant!("K18");
            let mended = may_be_mended.then(|| mend::texts(of, bytes)).flatten();
            let object = mended.and_then(|mended| from_protobuf(of, &mended, projection).ok());
            return object.ok_or_else(|| message::unreadable(bytes, fault));
        }
    };
    let bytes = match order {
        Order::Usual => Cow::Borrowed(bytes),
        Order::Unusual => Cow::Owned(order::usual(of, bytes)),
    };
    from_message(of, &bytes, &message::layout(&bytes), projection)
}

fn from_message(
    of: &'static Type,
    bytes: &[u8],
    layout: &Layout,
    projection: &Projection,
) -> Result<Object, Unreadable> {
    let identity = Identity::of_message(bytes, layout)?;
    let managed = projection.managed_fields();
    if projection.keeps_all_else() {
        return Ok(assemble(bytes, layout, managed, &identity, Some(of)));
    }
    let mut plain = Vec::with_capacity(bytes.len());
    copy(bytes, layout, managed, &mut plain);
    let left = projection.apply_message(of, &plain);
    match left {
        Some(left) => {
            let flags = identity.flags.with(Flags::PROJECTED, true);
            let identity = Identity { flags, ..identity };
            let (layout, keep) = (message::layout(&left), ManagedFields::Keep);
            Ok(assemble(&left, &layout, keep, &identity, Some(of)))
        }
        None => Ok(assemble(bytes, layout, managed, &identity, Some(of))),
    }
}

/// Appends what is kept, with the length that is another one then.
fn copy(bytes: &[u8], layout: &Layout, managed: ManagedFields, to: &mut Vec<u8>) {
    let cuts = layout.cuts(managed);
    strip::copy(bytes, layout.body.clone(), &cuts, to);
    if let Some((at, length)) = layout.patch(managed) {
        let mut number = Vec::with_capacity(10);
        put_varint(&mut number, length);
        let at = strip::moved(at, &layout.body, &cuts);
        to[at..at + number.len()].copy_from_slice(&number);
    }
}

fn from_layout(
    body: &[u8],
    layout: &Layout,
    projection: &Projection,
) -> Result<Object, Unreadable> {
    let identity = Identity::of(body, layout)?;
    let managed = projection.managed_fields();
    if projection.keeps_all_else() {
        return Ok(assemble(body, layout, managed, &identity, None));
    }
    let mut plain = Vec::with_capacity(body.len());
    copy(body, layout, managed, &mut plain);
    match projection.apply(&plain) {
        Some(json) => replace(identity, &json),
        None => Ok(assemble(body, layout, managed, &identity, None)),
    }
}

pub(super) fn with_payload(object: &Object, json: &[u8]) -> Result<Object, Unreadable> {
    let identity = Identity {
        name: Cow::Borrowed(object.name()),
        namespace: Cow::Borrowed(object.key_ref().namespace),
        uid: Cow::Borrowed(object.uid()),
        resource_version: Cow::Borrowed(object.resource_version()),
        flags: object.head().flags,
    };
    replace(identity, json)
}

fn replace(mut identity: Identity<'_>, json: &[u8]) -> Result<Object, Unreadable> {
    let layout = read(json).map_err(|mut unreadable| {
        unreadable.key = Some(identity.key().to_key());
        unreadable.resource_version = Some(identity.resource_version.clone().into_owned());
        unreadable
    })?;
    identity.flags = identity.flags.with(Flags::PROJECTED, true);
    Ok(assemble(
        json,
        &layout,
        ManagedFields::Keep,
        &identity,
        None,
    ))
}

fn check_size(bytes: &[u8]) -> Result<(), Unreadable> {
    // BOUND: spans are 32 bits; half of that leaves room for the copies behind the bytes.
    match bytes.len() > (u32::MAX / 2) as usize {
        true => Err(Unreadable::unknown("larger than 2 GiB")),
        false => Ok(()),
    }
}

fn read(bytes: &[u8]) -> Result<Layout, Unreadable> {
    check_size(bytes)?;
    item::read(bytes)
}

impl<'a> Identity<'a> {
    fn of(bytes: &'a [u8], layout: &Layout) -> Result<Self, Unreadable> {
        let field = |path, why| invalid_field(bytes, layout, path, why);
        Self::of_layout(bytes, layout, cursor::unescape, field)
    }

    fn of_message(bytes: &'a [u8], layout: &Layout) -> Result<Self, Unreadable> {
        let field = |path: &str, why| {
            let mut found = message::salvage(bytes, why);
            path.clone_into(&mut found.path);
            found
        };
        Self::of_layout(bytes, layout, cursor::text, field)
    }

    fn of_layout(
        bytes: &'a [u8],
        layout: &Layout,
        read: fn(&'a [u8]) -> Cow<'a, str>,
        field: impl Fn(&'static str, &'static str) -> Unreadable,
    ) -> Result<Self, Unreadable> {
        let text = |span: &Option<Range<usize>>| {
            span.clone()
                .map(|span| read(&bytes[span]))
                .unwrap_or_default()
        };
        let identity = Self {
            name: text(&layout.name),
            namespace: text(&layout.namespace),
            uid: text(&layout.uid),
            resource_version: text(&layout.resource_version),
            flags: Flags::default().with(Flags::TERMINATING, layout.terminating),
        };
        let field = |path, why| Err(field(path, why));
        if identity.name.is_empty() {
            return field(NAME, MISSING);
        }
        if !is_name(&identity.name) {
            return field(NAME, "contains a slash");
        }
        if !identity.namespace.is_empty() && !is_name(&identity.namespace) {
            return field("metadata.namespace", "contains a slash");
        }
        Ok(identity)
    }

    fn key(&self) -> KeyRef<'_> {
        KeyRef {
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

fn assemble(
    bytes: &[u8],
    layout: &Layout,
    managed: ManagedFields,
    identity: &Identity<'_>,
    of: Option<&'static Type>,
) -> Object {
    PACKED.with_borrow_mut(|payload| {
        let object = assemble_in(payload, bytes, layout, managed, identity, of);
        payload.clear();
        payload.shrink_to(PACKED_BYTES);
        object
    })
}

/// The same, packed in `payload`, in which is nothing, or what a panic left.
fn assemble_in(
    payload: &mut Vec<u8>,
    bytes: &[u8],
    layout: &Layout,
    managed: ManagedFields,
    identity: &Identity<'_>,
    of: Option<&'static Type>,
) -> Object {
    let cuts = &layout.cuts(managed);
    let length = strip::length(&layout.body, cuts);
    payload.clear();
    payload.reserve(length);
    copy(bytes, layout, managed, payload);
    let moved = |span: &Option<Range<usize>>| {
        span.as_ref().map_or(Span::default(), |span| Span {
            start: strip::moved(span.start, &layout.body, cuts) as u32,
            len: span.len() as u32,
        })
    };
    let mut place = |text: &str, span: &Option<Range<usize>>| match span {
        Some(span) if &bytes[span.clone()] == text.as_bytes() => moved(&Some(span.clone())),
        _ => {
            let start = payload.len() as u32;
            payload.extend_from_slice(text.as_bytes());
            Span {
                start,
                len: text.len() as u32,
            }
        }
    };
    let revision = revision(&identity.resource_version);
    let head = Head {
        key_hash: identity.key().hash64(),
        revision: revision.unwrap_or_default(),
        name: place(&identity.name, &layout.name),
        namespace: place(&identity.namespace, &layout.namespace),
        uid: place(&identity.uid, &layout.uid),
        resource_version: place(&identity.resource_version, &layout.resource_version),
        labels: moved(&layout.labels),
        annotations: moved(&layout.annotations),
        owners: moved(&layout.owners),
        body: length as u32,
        flags: identity
            .flags
            .with(Flags::HAS_REVISION, revision.is_some())
            .with(Flags::MANAGED, managed == ManagedFields::Keep),
        encoding: match of {
            None => Encoding::Json,
            Some(_) => Encoding::Protobuf,
        },
        of: of.map_or(0, Type::number),
        typed: TypedSlot::default(),
        cold: None,
    };
    Object(ThinArc::from_header_and_slice(head, payload))
}

/// A version as a number: digits only, no leading zero.
pub(super) fn revision(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_object_leaves_no_large_buffer() {
        let text = "x".repeat(4 * PACKED_BYTES);
        let json = format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":\"{text}\"}}");
        for body in [&json, "{\"metadata\":{\"name\":\"b\"}}", &json] {
            let object = from_json(body.as_bytes(), &Projection::default()).unwrap();
            assert_eq!(object.bytes(), body.as_bytes());
            PACKED.with_borrow(|packed| {
                assert!(packed.is_empty() && packed.capacity() <= PACKED_BYTES);
            });
        }
    }
}
