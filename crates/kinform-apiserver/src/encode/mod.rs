//! Puts stored objects into replies: objects, list items, watch events, bookmarks.
//!
//! ```text
//! Stored + Form ──▶ Encoder: Json | Table | Yaml | Protobuf ──▶ object, item, frame, bookmark, failure
//! ```
//!
//! Readers and writers choose the content, an encoder the bytes: no other module depends on the
//! negotiated form.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/response.go`.

mod binary;
pub(crate) mod frames;
mod json;
mod renamed;
pub(crate) mod select;
pub(crate) mod table;
mod yaml;

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use kinform_api::{Status, WatchEventKind};

use self::binary::Binary;
use self::frames::Frames;
use self::json::Json;
use self::renamed::Renamed;
pub(crate) use self::table::Table;
use self::yaml::Yaml;
use crate::Body;
use crate::clock::Clock;
use crate::http::negotiate::{Encoding, Form, Look};
use crate::http::reply;
use crate::resource::ResourceInfo;
use crate::storage::Stored;
use http::Response;
use http::StatusCode;

/// Writes objects of one resource in one form.
#[derive(Clone, Debug)]
pub(crate) enum Encoder {
    Json(Box<Json>),
    Table(Box<Table>),
    Yaml(Box<Yaml>),
    Renamed(Box<Renamed>),
    Protobuf(Box<Binary>),
}

/// Kind of a bookmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bookmark {
    Periodic,
    InitialEventsEnd,
}

/// Metadata of a list.
#[derive(Clone, Debug)]
pub(crate) struct ListMeta {
    pub(crate) revision: u64,
    pub(crate) continue_token: Option<String>,
    pub(crate) remaining: Option<usize>,
    /// The selector of shards, for lists that name it.
    pub(crate) shards: Option<String>,
}

/// An object and its change, as a watch reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventParts<'a> {
    pub(crate) kind: WatchEventKind,
    pub(crate) object: &'a Stored,
    /// Replaces the object's own version.
    pub(crate) revision: Option<u64>,
}

impl Encoder {
    pub(crate) fn new(resource: &Arc<ResourceInfo>, form: Form, clock: Clock) -> Self {
        let encoder = Self::plain(resource, form, clock);
        if resource.is_renamed() {
            return Self::Renamed(Box::new(Renamed::of(resource.clone(), encoder)));
        }
        encoder
    }

    /// Returns an encoder of objects that have the form that the resource shows.
    pub(crate) fn plain(resource: &ResourceInfo, form: Form, clock: Clock) -> Self {
        let json = || match form.look {
            Look::Table(look) => Self::Table(Box::new(Table::new(resource, look, clock))),
            look => Self::Json(Box::new(Json::new(resource, look))),
        };
        match form.encoding {
            Encoding::Json => json(),
            Encoding::Yaml => Self::Yaml(Box::new(Yaml::of(json()))),
            Encoding::Protobuf => Self::Protobuf(Box::new(Binary::new(resource, form.look))),
        }
    }

    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            Self::Json(_) | Self::Table(_) => Encoding::Json,
            Self::Yaml(_) => Encoding::Yaml,
            Self::Renamed(renamed) => renamed.encoder.encoding(),
            Self::Protobuf(_) => Encoding::Protobuf,
        }
    }

    /// An object of its own.
    pub(crate) fn object(&self, out: &mut BytesMut, object: &Stored) {
        match self {
            Self::Json(json) => {
                json.object(out, object);
                out.put_u8(b'\n');
            }
            Self::Table(table) => {
                table.object(out, object);
                out.put_u8(b'\n');
            }
            Self::Yaml(yaml) => yaml.object(out, object),
            Self::Renamed(renamed) => renamed.object(out, object),
            Self::Protobuf(binary) => binary.object(out, object),
        }
    }

    /// Fills the object's cache for readers of this encoding, if it has one.
    pub(crate) fn prepare(&self, object: &Stored) {
        match self {
            Self::Protobuf(binary) => binary.prepare(object),
            Self::Json(_) | Self::Table(_) | Self::Yaml(_) | Self::Renamed(_) => {}
        }
    }

    /// An object in a list.
    pub(crate) fn item(&mut self, out: &mut BytesMut, object: &Stored) {
        match self {
            Self::Json(json) => json.item(out, object),
            Self::Table(table) => table.item(out, object),
            Self::Yaml(yaml) => yaml.item(out, object),
            Self::Renamed(renamed) => renamed.item(out, object),
            Self::Protobuf(binary) => binary.item(out, object),
        }
    }

    /// Writes the separator of two objects of a list.
    pub(crate) fn separate(&self, out: &mut BytesMut) {
        match self {
            Self::Json(_) | Self::Table(_) => out.put_u8(b','),
            Self::Yaml(_) | Self::Protobuf(_) => {}
            Self::Renamed(renamed) => renamed.encoder.separate(out),
        }
    }

    /// Returns whether the length of a list's items must be known before they are written.
    pub(crate) fn tells_length_first(&self) -> bool {
        match self {
            Self::Protobuf(_) => true,
            Self::Renamed(renamed) => renamed.encoder.tells_length_first(),
            Self::Json(_) | Self::Table(_) | Self::Yaml(_) => false,
        }
    }

    /// Everything of a list before its items; `length` is used only if it must be written first.
    pub(crate) fn begin_list(&mut self, out: &mut BytesMut, meta: &ListMeta, length: usize) {
        match self {
            Self::Json(json) => json.begin_list(out, meta),
            Self::Table(table) => table.begin_list(out, meta),
            Self::Yaml(yaml) => yaml.begin_list(out, meta),
            Self::Renamed(renamed) => renamed.encoder.begin_list(out, meta, length),
            Self::Protobuf(binary) => binary.begin_list(out, meta, length),
        }
    }

    /// Everything of a list after its items.
    pub(crate) fn end_list(&mut self, out: &mut BytesMut, meta: &ListMeta) {
        match self {
            Self::Json(json) => json.end_list(out, meta),
            Self::Table(table) => table.end_list(out),
            Self::Yaml(yaml) => yaml.end_list(out),
            Self::Renamed(renamed) => renamed.encoder.end_list(out, meta),
            Self::Protobuf(binary) => binary.end_list(out),
        }
    }

    /// A frame of a watch. Large bytes of the object are shared with the store.
    pub(crate) fn event(&mut self, out: &mut Frames, event: EventParts<'_>) {
        match self {
            Self::Json(json) => json.event(out, event),
            Self::Table(table) => table.event(out, event),
            Self::Renamed(renamed) => renamed.event(out, event),
            // A watch is never negotiated as YAML.
            Self::Yaml(_) => {}
            Self::Protobuf(binary) => binary.event(out, event),
        }
    }

    /// A bookmark.
    pub(crate) fn bookmark(&mut self, out: &mut BytesMut, revision: u64, mark: Bookmark) {
        match self {
            Self::Json(json) => json.bookmark(out, revision, mark),
            Self::Table(table) => table.bookmark(out, revision, mark),
            Self::Renamed(renamed) => renamed.encoder.bookmark(out, revision, mark),
            Self::Yaml(_) => {}
            Self::Protobuf(binary) => binary.bookmark(out, revision, mark),
        }
    }
}

/// The frame of a watch that failed; the last one of its stream.
pub(crate) fn error_frame(out: &mut BytesMut, status: &Status, encoding: Encoding) {
    match encoding {
        Encoding::Json | Encoding::Yaml => json::error_frame(out, status),
        Encoding::Protobuf => binary::error_frame(out, status),
    }
}

/// Returns whether an empty object of this kind contains a count of zero replicas: upstream's
/// internal structs hold a number where their versions have a pointer.
fn says_no_replicas(resource: &ResourceInfo) -> bool {
    let scaled = ["deployments", "replicasets", "statefulsets"];
    resource.group == "apps" && scaled.contains(&resource.plural.as_str())
}

/// An object as a reply of its own.
pub(crate) fn object_reply(
    code: StatusCode,
    resource: &Arc<ResourceInfo>,
    object: &Stored,
    (form, clock): (Form, Clock),
) -> Response<Body> {
    let encoder = Encoder::new(resource, form, clock);
    encoded(code, &encoder, object, form)
}

/// An object that has the form that the resource shows, as a reply of its own.
pub(crate) fn shown_reply(
    code: StatusCode,
    resource: &ResourceInfo,
    object: &Stored,
    (form, clock): (Form, Clock),
) -> Response<Body> {
    let encoder = Encoder::plain(resource, form, clock);
    encoded(code, &encoder, object, form)
}

fn encoded(code: StatusCode, encoder: &Encoder, object: &Stored, form: Form) -> Response<Body> {
    let mut out = BytesMut::with_capacity(object.bytes().len() + 128);
    encoder.object(&mut out, object);
    reply::whole(code, form.encoding, out)
}
