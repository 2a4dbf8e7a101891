//! The record of an object in a snapshot: its head as numbers, then its bytes.
//!
//! ```text
//! Object ──append_record──▶ lengths, flags, spans │ bytes │ copies of the head's strings ──from_record──▶ Object
//! ```
//!
//! Reading a record costs a copy: the bytes were checked when they came over the wire, and a
//! snapshot's checksum says that they are those. The spans are checked again, so that a record that
//! lies has no object.
//! Never: a decoded value, or compressed bytes; a cold object is written as it inflates.
//!
//! Upstream: none. Complexity: one copy.

use triomphe::ThinArc;

use super::typed::TypedSlot;
use super::{Flags, Head, Object, Span};
use crate::wire::encoding::Encoding;
use crate::wire::unreadable::is_name;

/// Bytes of a record before its payload.
const HEADER: usize = 4 + 4 + 1 + 1 + 2 + SPANS * 8;
/// Spans of a head.
const SPANS: usize = 7;

impl Object {
    /// Appends the record of this object.
    pub(crate) fn append_record(&self, to: &mut Vec<u8>) {
        let object = self.thawed();
        let (head, payload) = (object.head(), &object.0.slice);
        to.reserve(HEADER + payload.len());
        to.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        to.extend_from_slice(&head.body.to_le_bytes());
        let encoding = match head.encoding {
            Encoding::Json => 0,
            Encoding::Protobuf => 1,
        };
        to.extend_from_slice(&[head.flags.0, encoding]);
        to.extend_from_slice(&head.of.to_le_bytes());
        for span in head.spans() {
            to.extend_from_slice(&span.start.to_le_bytes());
            to.extend_from_slice(&span.len.to_le_bytes());
        }
        to.extend_from_slice(payload);
    }

    /// Reads the record that `bytes` begin with, and returns the rest. `None` if there is no record
    /// of an object.
    pub(crate) fn from_record(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_at_checked(HEADER)?;
        let mut header = Numbers(header);
        let length = header.u32()? as usize;
        let body = header.u32()?;
        let [flags, encoding] = header.take()?;
        let of = u16::from_le_bytes(header.take()?);
        let (payload, rest) = rest.split_at_checked(length)?;
        if body as usize > length {
            return None;
        }
        let mut span = |within: usize| {
            let (start, len) = (header.u32()?, header.u32()?);
            let end = start.checked_add(len)? as usize;
            (end <= within).then_some(Span { start, len })
        };
        let mut head = Head {
            key_hash: 0,
            revision: 0,
            body,
            flags: Flags(flags),
            encoding: match encoding {
                0 => Encoding::Json,
                1 => Encoding::Protobuf,
                _ => return None,
            },
            of,
            cold: None,
            name: span(length)?,
            namespace: span(length)?,
            uid: span(length)?,
            resource_version: span(length)?,
            labels: span(body as usize)?,
            annotations: span(body as usize)?,
            owners: span(body as usize)?,
            typed: TypedSlot::default(),
        };
        if head.encoding == Encoding::Protobuf && kinform_schema::numbered_type(of).is_none() {
            return None;
        }
        let text = |span: Span| std::str::from_utf8(&payload[span.start as usize..span.end()]).ok();
        let (name, namespace) = (text(head.name)?, text(head.namespace)?);
        let is_key = !name.is_empty() && is_name(name);
        if !is_key || !(namespace.is_empty() || is_name(namespace)) {
            return None;
        }
        text(head.uid)?;
        let revision = super::build::revision(text(head.resource_version)?);
        let key = kinform_api::KeyRef { namespace, name };
        head.key_hash = key.hash64();
        head.revision = revision.unwrap_or_default();
        head.flags = head.flags.with(Flags::HAS_REVISION, revision.is_some());
        Some((Self(ThinArc::from_header_and_slice(head, payload)), rest))
    }
}

impl Head {
    fn spans(&self) -> [Span; SPANS] {
        [
            self.name,
            self.namespace,
            self.uid,
            self.resource_version,
            self.labels,
            self.annotations,
            self.owners,
        ]
    }
}

/// Numbers, taken from the front.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::projection::Projection;

    fn object(json: &str) -> Object {
        Object::from_json(json.as_bytes(), &Projection::default()).unwrap()
    }

    fn record(object: &Object) -> Vec<u8> {
        let mut record = Vec::new();
        object.append_record(&mut record);
        record
    }

    #[test]
    fn a_record_is_the_same_object_again() {
        let plain = object(
            r#"{"metadata":{"name":"cart","namespace":"shop","uid":"u","resourceVersion":"7",
            "labels":{"app":"x"},"annotations":{"a":"b"},"ownerReferences":[{"uid":"o"}],
            "deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"a":1}}"#,
        );
        let escaped = object(r#"{"metadata":{"name":"c\u0061rt","resourceVersion":"x"}}"#);
        let changed = plain
            .with_payload(br#"{"metadata":{"name":"other"},"spec":{}}"#)
            .unwrap();
        let mut all = Vec::new();
        let objects = [plain, escaped, changed];
        objects
            .iter()
            .for_each(|object| object.append_record(&mut all));
        let mut rest = &all[..];
        for object in &objects {
            let (found, after) = Object::from_record(rest).unwrap();
            rest = after;
            assert!(found.same_content(object));
            assert_eq!(found.key(), object.key());
            assert_eq!(found.key_hash(), object.key_hash());
            assert_eq!(
                (found.uid(), found.resource_version()),
                (object.uid(), object.resource_version())
            );
            assert_eq!(found.revision(), object.revision());
            assert_eq!(found.is_terminating(), object.is_terminating());
            assert_eq!(found.is_projected(), object.is_projected());
            assert_eq!(found.label("app"), object.label("app"));
            assert_eq!(found.heap_size(), object.heap_size());
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_record_that_lies_has_no_object() {
        let good = record(&object(r#"{"metadata":{"name":"cart","uid":"u"}}"#));
        for at in 0..good.len() {
            assert!(Object::from_record(&good[..at]).is_none(), "cut at {at}");
        }
        // Whatever a byte of the header is: if there is an object, its head can be read.
        for at in 0..HEADER {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                if let Some((object, _)) = Object::from_record(&bad) {
                    assert!(!object.name().is_empty());
                    let _ = (
                        object.key(),
                        object.uid(),
                        object.bytes(),
                        object.label("app"),
                    );
                }
            }
        }
    }
}
