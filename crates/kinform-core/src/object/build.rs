//! Puts an object together: head and bytes into one allocation.
//!
//! ```text
//! bytes → wire::head → (projection →) identity + layout → assemble → Object
//! ```
//!
//! The identity (key, uid, version) is taken from the wire once and never changes, whatever a
//! projection or transform leaves of the bytes: strings that the bytes do not hold as they are
//! (escaped, dropped, changed) are copied behind them.
//!
//! Upstream: none. Complexity: one pass to check, one copy to pack, one copy into place.

use std::borrow::Cow;
use std::ops::Range;

use kinform_api::KeyRef;
use triomphe::ThinArc;

use super::projection::Projection;
use super::typed::TypedSlot;

use super::{Encoding, Flags, Head, Object, Span};
use crate::wire::cursor;
use crate::wire::head::{self, HeadFault, Layout, ManagedFields};
use crate::wire::item::Item;
use crate::wire::strip;
use crate::wire::unreadable::{Unreadable, is_name};

/// What of an object never changes.
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
    match item.layout() {
        Some(layout) => from_layout(item.bytes(), layout, projection),
        None => from_json(item.bytes(), projection),
    }
}

fn from_layout(
    body: &[u8],
    layout: &Layout,
    projection: &Projection,
) -> Result<Object, Unreadable> {
    let identity = Identity::of(body, layout)?;
    let cuts = layout.cuts(projection.managed_fields());
    if projection.keeps_all_else() {
        return Ok(assemble(body, layout, &cuts, &identity));
    }
    let mut plain = Vec::with_capacity(strip::length(&layout.body, &cuts));
    strip::copy(body, layout.body.clone(), &cuts, &mut plain);
    match projection.apply(&plain) {
        Some(json) => replace(identity, &json),
        None => Ok(assemble(body, layout, &cuts, &identity)),
    }
}

pub(super) fn with_payload(object: &Object, json: &[u8]) -> Result<Object, Unreadable> {
    let head = object.head();
    let identity = Identity {
        name: Cow::Borrowed(object.text(head.name)),
        namespace: Cow::Borrowed(object.text(head.namespace)),
        uid: Cow::Borrowed(object.text(head.uid)),
        resource_version: Cow::Borrowed(object.text(head.resource_version)),
        flags: head.flags,
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
    let cuts = layout.cuts(ManagedFields::Keep);
    Ok(assemble(json, &layout, &cuts, &identity))
}

fn read(bytes: &[u8]) -> Result<Layout, Unreadable> {
    // BOUND: spans are 32 bits; half of that leaves room for the copies behind the bytes.
    if bytes.len() > (u32::MAX / 2) as usize {
        return Err(Unreadable::salvage(&[], "larger than 2 GiB"));
    }
    head::read(bytes).map_err(|fault| Unreadable::at(bytes, fault))
}

impl<'a> Identity<'a> {
    fn of(bytes: &'a [u8], layout: &Layout) -> Result<Self, Unreadable> {
        let text = |span: &Option<Range<usize>>| {
            span.clone()
                .map(|span| cursor::unescape(&bytes[span]))
                .unwrap_or_default()
        };
        let identity = Self {
            name: text(&layout.name),
            namespace: text(&layout.namespace),
            uid: text(&layout.uid),
            resource_version: text(&layout.resource_version),
            flags: Flags::default().with(Flags::TERMINATING, layout.terminating),
        };
        let field = |path, why| Err(Unreadable::at(bytes, HeadFault::Field { at: 0, path, why }));
        if identity.name.is_empty() {
            return field("metadata.name", "is missing");
        }
        if !is_name(&identity.name) {
            return field("metadata.name", "contains a slash");
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
    cuts: &[Range<usize>],
    identity: &Identity<'_>,
) -> Object {
    let length = strip::length(&layout.body, cuts);
    let mut payload = Vec::with_capacity(length);
    strip::copy(bytes, layout.body.clone(), cuts, &mut payload);
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
        flags: identity.flags.with(Flags::HAS_REVISION, revision.is_some()),
        encoding: Encoding::Json,
        typed: TypedSlot::default(),
    };
    Object(ThinArc::from_header_and_slice(head, &payload))
}

/// A version as a number: digits only, no leading zero.
fn revision(text: &str) -> Option<u64> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok()).flatten()
}
