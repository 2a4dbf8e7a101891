//! Protobuf of objects.
//!
//! ```text
//! Stored ──▶ JSON value ──the table──▶ message ──▶ body, item of a list, frame of a watch
//! ```
//!
//! Objects are stored as JSON. The first read of an object in protobuf converts it by the table;
//! the message is then cached with the object, for lists and watches alike. Metadata alone is
//! encoded each time. A list's length precedes its items, so all of them are encoded before the
//! first is sent.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/protobuf`.

use bytes::{BufMut, Bytes, BytesMut};
use kinform_api::{INITIAL_EVENTS_END, Status, WatchEventKind};
use kinform_schema::Type;
use serde_json::{Map, Value, json};

use super::frames::Frames;
use super::{Bookmark, EventParts, ListMeta, says_no_replicas};
use crate::http::negotiate::Look;
use crate::protobuf;
use crate::resource::{ResourceInfo, Shape};
use crate::storage::Stored;

/// Writes objects of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    /// `None` only for whole custom resources, which are never offered in protobuf.
    of: Option<&'static Type>,
    look: Look,
    api_version: String,
    kind: String,
    list_kind: String,
    /// Set if a bookmark contains a count of zero replicas.
    says_no_replicas: bool,
}

impl Binary {
    pub(super) fn new(resource: &ResourceInfo, look: Look) -> Self {
        match look {
            Look::Whole => Self {
                of: match &resource.shape {
                    Shape::Builtin(of) => Some(of),
                    Shape::Custom(_) => None,
                },
                look,
                api_version: resource.api_version(),
                kind: resource.kind.clone(),
                list_kind: resource.list_kind.clone(),
                says_no_replicas: says_no_replicas(resource),
            },
            // A table is never negotiated as protobuf.
            Look::Metadata | Look::Table(_) => Self {
                of: protobuf::message_of("meta.k8s.io/v1", "PartialObjectMetadata"),
                look,
                api_version: "meta.k8s.io/v1".to_owned(),
                kind: "PartialObjectMetadata".to_owned(),
                list_kind: "PartialObjectMetadataList".to_owned(),
                says_no_replicas: false,
            },
        }
    }

    pub(super) fn object(&self, out: &mut BytesMut, object: &Stored) {
        self.body(out, &self.message(object, None));
    }

    pub(super) fn prepare(&self, object: &Stored) {
        if self.look == Look::Whole {
            self.message(object, None);
        }
    }

    pub(super) fn item(&self, out: &mut BytesMut, object: &Stored) {
        protobuf::list_item(out, &self.message(object, None));
    }

    pub(super) fn begin_list(&self, out: &mut BytesMut, meta: &ListMeta, length: usize) {
        let mut shown = Map::new();
        let version = Value::from(meta.revision.to_string());
        shown.insert("resourceVersion".to_owned(), version);
        if let Some(token) = &meta.continue_token {
            shown.insert("continue".to_owned(), Value::from(token.as_str()));
        }
        if let Some(remaining) = meta.remaining {
            shown.insert("remainingItemCount".to_owned(), Value::from(remaining));
        }
        if let Some(shards) = &meta.shards {
            shown.insert("shardInfo".to_owned(), json!({"selector": shards}));
        }
        let mut head = BytesMut::new();
        protobuf::list_meta(&mut head, &shown);
        let length = head.len() + length;
        out.put_slice(&protobuf::envelope(
            &self.api_version,
            &self.list_kind,
            length,
        ));
        out.put_slice(&head);
    }

    pub(super) fn end_list(&self, out: &mut BytesMut) {
        out.put_slice(protobuf::ENVELOPE_END);
    }

    pub(super) fn event(&self, out: &mut Frames, event: EventParts<'_>) {
        let message = self.message(event.object, event.revision);
        let head = protobuf::envelope(&self.api_version, &self.kind, message.len());
        let length = head.len() + message.len() + protobuf::ENVELOPE_END.len();
        protobuf::begin_frame(out.small(), event.kind.as_str(), length);
        out.small().put_slice(&head);
        out.share(message);
        out.small().put_slice(protobuf::ENVELOPE_END);
    }

    pub(super) fn bookmark(&self, out: &mut BytesMut, revision: u64, mark: Bookmark) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if mark == Bookmark::InitialEventsEnd {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let mut object = Map::new();
        object.insert("metadata".to_owned(), metadata);
        if self.says_no_replicas {
            object.insert("spec".to_owned(), json!({"replicas": 0}));
        }
        let mut body = BytesMut::new();
        self.body(&mut body, &self.encode(&object));
        protobuf::frame(out, WatchEventKind::Bookmark.as_str(), &body);
    }

    fn body(&self, out: &mut BytesMut, message: &[u8]) {
        protobuf::seal(out, &self.api_version, &self.kind, message);
    }

    fn message(&self, object: &Stored, revision: Option<u64>) -> Bytes {
        if let (Look::Whole, Some(of), None) = (self.look, self.of, revision) {
            return object.message(of, protobuf::encode_text);
        }
        let mut value = match self.look {
            Look::Whole => object.value(),
            Look::Metadata | Look::Table(_) => {
                let (metadata, _) = object.metadata();
                json!({"metadata": serde_json::from_slice::<Value>(metadata).unwrap_or_default()})
            }
        };
        if let Some(revision) = revision {
            value["metadata"]["resourceVersion"] = Value::from(revision.to_string());
        }
        value
            .as_object()
            .map(|object| self.encode(object))
            .unwrap_or_default()
            .into()
    }

    fn encode(&self, object: &Map<String, Value>) -> Vec<u8> {
        self.of
            .map(|of| protobuf::encode(of, object))
            .unwrap_or_default()
    }
}

pub(super) fn error_frame(out: &mut BytesMut, status: &Status) {
    let shown: Value = serde_json::from_slice(&status.to_json()).unwrap_or_default();
    let body = shown.as_object().and_then(protobuf::body);
    let kind = WatchEventKind::Error.as_str();
    protobuf::frame(out, kind, &body.unwrap_or_default());
}
