//! JSON of objects, around their stored bytes.
//!
//! ```text
//! Stored + Look ──▶ {"kind":..,"apiVersion":..,  + stored bytes  ──▶ item, frame, reply
//! ```
//!
//! Objects are encoded once, when they are stored; this encoder only writes the frame around them.
//! Items of built-in lists have no `kind` and `apiVersion`, those of custom ones have, watch events
//! always have: as upstream's. Built-in objects name the kind first, custom ones the version
//! (sorted members).
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/response.go`.

use bytes::{BufMut, BytesMut};
use kinform_api::{INITIAL_EVENTS_END, Status, WatchEventKind};

use super::frames::Frames;
use super::{Bookmark, EventParts, ListMeta, says_no_replicas};
use crate::http::negotiate::Look;
use crate::object::typed::empty_member;
use crate::resource::{Origin, ResourceInfo, Shape};
use crate::storage::{Stored, decimal};

/// Writes objects of one resource in one form.
#[derive(Clone, Debug)]
pub(crate) struct Json {
    look: Look,
    /// `{"kind":"Pod","apiVersion":"v1",`
    head: Box<[u8]>,
    list_head: Box<[u8]>,
    /// Members of a bookmark besides its metadata: upstream's are empty structs, which write the
    /// members that have no `omitempty`.
    bookmark_rest: Box<[u8]>,
    items_are_bare: bool,
    sorted: bool,
}

impl Json {
    pub(super) fn new(resource: &ResourceInfo, look: Look) -> Self {
        let custom = resource.origin == Origin::Custom;
        let (version, kind, list_kind) = match look {
            Look::Whole => (
                resource.api_version(),
                &*resource.kind,
                &*resource.list_kind,
            ),
            Look::Metadata | Look::Table(_) => (
                "meta.k8s.io/v1".to_owned(),
                "PartialObjectMetadata",
                "PartialObjectMetadataList",
            ),
        };
        let sorted = custom && look == Look::Whole;
        let head = |kind: &str| -> Box<[u8]> {
            let text = if sorted {
                format!(r#"{{"apiVersion":"{version}","kind":"{kind}","#)
            } else {
                format!(r#"{{"kind":"{kind}","apiVersion":"{version}","#)
            };
            text.into_bytes().into()
        };
        Self {
            look,
            head: head(kind),
            list_head: head(list_kind),
            bookmark_rest: match look {
                Look::Whole => empty_members(resource),
                Look::Metadata | Look::Table(_) => Box::default(),
            },
            items_are_bare: !custom && look == Look::Whole,
            sorted,
        }
    }

    /// An object of its own.
    pub(super) fn object(&self, out: &mut BytesMut, object: &Stored) {
        self.versioned(out, object, None);
    }

    /// An object in a list.
    pub(super) fn item(&self, out: &mut BytesMut, object: &Stored) {
        if self.items_are_bare {
            out.put_slice(object.bytes());
        } else {
            self.object(out, object);
        }
    }

    /// A frame of a watch.
    pub(super) fn event(&self, out: &mut Frames, event: EventParts<'_>) {
        begin_frame(out.small(), event.kind);
        self.shared(out, event.object, event.revision);
        out.small().put_slice(b"}\n");
    }

    /// Writes what [`Self::versioned`] writes. Large bytes are shared with the store.
    pub(super) fn shared(&self, out: &mut Frames, object: &Stored, revision: Option<u64>) {
        if self.look != Look::Whole {
            return self.versioned(out.small(), object, revision);
        }
        let bytes = object.bytes();
        out.small().put_slice(&self.head);
        match revision {
            None => out.share(bytes.slice(1..)),
            Some(revision) => {
                let (before, after) = object.around_version();
                out.share(bytes.slice_ref(&before[1..]));
                put_decimal(out.small(), revision);
                out.share(bytes.slice_ref(after));
            }
        }
    }

    /// A bookmark.
    pub(super) fn bookmark(&self, out: &mut BytesMut, revision: u64, mark: Bookmark) {
        begin_frame(out, WatchEventKind::Bookmark);
        out.put_slice(&self.head);
        out.put_slice(br#""metadata":{"resourceVersion":""#);
        put_decimal(out, revision);
        match mark {
            Bookmark::Periodic => out.put_slice(b"\"}"),
            Bookmark::InitialEventsEnd => {
                out.put_slice(br#"","annotations":{""#);
                out.put_slice(INITIAL_EVENTS_END.as_bytes());
                out.put_slice(b"\":\"true\"}}");
            }
        }
        out.put_slice(&self.bookmark_rest);
        out.put_slice(b"}}\n");
    }

    /// Everything of a list before its items.
    pub(super) fn begin_list(&self, out: &mut BytesMut, meta: &ListMeta) {
        out.put_slice(&self.list_head);
        if !self.sorted {
            meta.put(out, self.sorted);
            out.put_u8(b',');
        }
        out.put_slice(br#""items":["#);
    }

    /// Everything of a list after its items.
    pub(super) fn end_list(&self, out: &mut BytesMut, meta: &ListMeta) {
        out.put_u8(b']');
        if self.sorted {
            out.put_u8(b',');
            meta.put(out, self.sorted);
        }
        out.put_slice(b"}\n");
    }

    /// An object, under another version if one is given.
    pub(super) fn versioned(&self, out: &mut BytesMut, object: &Stored, revision: Option<u64>) {
        out.put_slice(&self.head);
        match self.look {
            Look::Metadata | Look::Table(_) => {
                let (metadata, version) = object.metadata();
                out.put_slice(br#""metadata":"#);
                out.put_slice(&metadata[..version.start]);
                put_decimal(out, revision.unwrap_or(object.revision()));
                out.put_slice(&metadata[version.end..]);
                out.put_u8(b'}');
            }
            // The stored object is not empty: it has metadata. Its brace is replaced by the head.
            Look::Whole => match revision {
                None => out.put_slice(&object.bytes()[1..]),
                Some(revision) => {
                    let (before, after) = object.around_version();
                    out.put_slice(&before[1..]);
                    put_decimal(out, revision);
                    out.put_slice(after);
                }
            },
        }
    }
}

/// The members of an empty object, its metadata apart, with a comma before each.
fn empty_members(resource: &ResourceInfo) -> Box<[u8]> {
    let Shape::Builtin(of) = &resource.shape else {
        return Box::default();
    };
    let mut text = String::new();
    for field in of
        .fields()
        .iter()
        .filter(|field| field.name() != "metadata")
    {
        if let Some(value) = empty_member(of, field.name()) {
            let mut value = value.to_string();
            if field.name() == "spec" && says_no_replicas(resource) {
                value = value.replacen('{', r#"{"replicas":0,"#, 1);
            }
            text.push_str(&format!(",\"{}\":{value}", field.name()));
        }
    }
    text.into_bytes().into()
}

impl ListMeta {
    pub(super) fn put(&self, out: &mut BytesMut, sorted: bool) {
        out.put_slice(br#""metadata":{"#);
        let token = self.continue_token.as_deref();
        if sorted {
            // Custom lists always name the token. Its alphabet needs no escapes.
            out.put_slice(br#""continue":""#);
            out.put_slice(token.unwrap_or_default().as_bytes());
            out.put_slice(b"\",");
            self.put_remaining(out);
        }
        out.put_slice(br#""resourceVersion":""#);
        put_decimal(out, self.revision);
        out.put_u8(b'"');
        if let (Some(token), false) = (token, sorted) {
            out.put_slice(br#","continue":""#);
            out.put_slice(token.as_bytes());
            out.put_u8(b'"');
            if self.remaining.is_some() {
                out.put_u8(b',');
                self.put_remaining(out);
                out.truncate(out.len() - 1);
            }
        }
        if let Some(shards) = &self.shards {
            // A selector needs no escapes.
            out.put_slice(br#","shardInfo":{"selector":""#);
            out.put_slice(shards.as_bytes());
            out.put_slice(b"\"}");
        }
        out.put_u8(b'}');
    }

    fn put_remaining(&self, out: &mut BytesMut) {
        if let Some(remaining) = self.remaining {
            out.put_slice(br#""remainingItemCount":"#);
            put_decimal(out, remaining as u64);
            out.put_u8(b',');
        }
    }
}

/// The frame of a watch that failed; the last one of its stream.
pub(super) fn error_frame(out: &mut BytesMut, status: &Status) {
    begin_frame(out, WatchEventKind::Error);
    out.put_slice(&status.to_json());
    out.put_slice(b"}\n");
}

pub(super) fn begin_frame(out: &mut BytesMut, kind: WatchEventKind) {
    out.put_slice(br#"{"type":""#);
    out.put_slice(kind.as_str().as_bytes());
    out.put_slice(br#"","object":"#);
}

pub(super) fn put_decimal(out: &mut BytesMut, number: u64) {
    out.put_slice(decimal(number, &mut [0; 20]));
}
