//! Tables of objects: cells, and the requested part of each object.
//!
//! ```text
//! Stored ──columns──▶ cells ──▶ row ──▶ table of one, row of a list, frame of a watch
//! ```
//!
//! The columns are described in lists, and in the first frame of a watch. A bookmark is a row of an
//! object that has only a version. Ages are relative to the start of the reply; in a watch, to the
//! time a frame is written.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/response.go` (`asTable`),
//! `pkg/registry/rest/table.go`.

use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use kinform_api::{INITIAL_EVENTS_END, WatchEventKind};
use serde_json::{Value, json};

use super::frames::Frames;
use super::json::{Json, begin_frame, put_decimal};
use super::{Bookmark, EventParts, ListMeta};
use crate::columns::{Columns, conditions};
use crate::http::negotiate::{Include, Look, TableLook};

use crate::clock::Clock;
use crate::columns::builtin_columns;
use crate::resource::ResourceInfo;
use crate::resource::Shape;
use crate::storage::Stored;

/// The columns of a resource.
fn columns_of(resource: &ResourceInfo) -> Columns {
    match &resource.shape {
        Shape::Builtin(_) => builtin_columns(&resource.group, &resource.plural),
        Shape::Custom(custom) => custom.columns.clone(),
    }
}

/// Writes tables of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Columns,
    look: TableLook,
    api_version: String,
    kind: String,
    /// Object that a row includes.
    shown: Option<Json>,
    /// Set once the columns of a watch have been sent.
    is_described: bool,
    clock: Clock,
    now: Timestamp,
}

impl Table {
    pub(crate) fn new(resource: &ResourceInfo, look: TableLook, clock: Clock) -> Self {
        let shown = match look.include {
            Include::None => None,
            Include::Metadata => Some(Json::new(resource, Look::Metadata)),
            Include::Object => Some(Json::new(resource, Look::Whole)),
        };
        Self {
            columns: columns_of(resource),
            look,
            api_version: resource.api_version(),
            kind: resource.kind.clone(),
            shown,
            is_described: false,
            clock,
            now: clock.now(),
        }
    }

    /// The table of an object that is not stored.
    pub(crate) fn of_value(&self, object: &Value) -> Value {
        let mut row = json!({"cells": self.cells(object), "object": match self.look.include {
            Include::None => Value::Null,
            Include::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            }),
            Include::Object => {
                let mut object = object.clone();
                object["apiVersion"] = Value::from(self.api_version.as_str());
                object["kind"] = Value::from(self.kind.as_str());
                object
            }
        }});
        if let Some(conditions) = conditions(&self.kind, object) {
            row["conditions"] = conditions;
        }
        let definitions: Vec<Value> = self
            .columns
            .iter()
            .filter_map(|it| it.definition())
            .collect();
        let version = &object["metadata"]["resourceVersion"];
        json!({
            "kind": "Table", "apiVersion": self.look.api_version,
            "metadata": if version.is_null() { json!({}) } else { json!({"resourceVersion": version}) },
            "columnDefinitions": definitions, "rows": [row],
        })
    }

    /// A table of one object.
    pub(super) fn object(&self, out: &mut BytesMut, object: &Stored) {
        self.put_head(out);
        put_version(out, object.revision());
        self.put_columns(out);
        out.put_slice(br#","rows":["#);
        self.put_row(out, object);
        out.put_slice(b"]}");
    }

    /// An object in a list.
    pub(super) fn item(&self, out: &mut BytesMut, object: &Stored) {
        self.put_row(out, object);
    }

    /// Everything of a list before its rows.
    pub(super) fn begin_list(&self, out: &mut BytesMut, meta: &ListMeta) {
        self.put_head(out);
        meta.put(out, false);
        self.put_columns(out);
        out.put_slice(br#","rows":["#);
    }

    /// Everything of a list after its rows.
    pub(super) fn end_list(&self, out: &mut BytesMut) {
        out.put_slice(b"]}\n");
    }

    /// A frame of a watch.
    pub(super) fn event(&mut self, out: &mut Frames, event: EventParts<'_>) {
        let revision = event.revision.unwrap_or(event.object.revision());
        self.begin_event(out.small(), event.kind, revision);
        self.begin_row(out.small(), event.object);
        match &self.shown {
            None => out.small().put_slice(b"null"),
            Some(json) => json.shared(out, event.object, event.revision),
        }
        out.small().put_slice(b"}]}}\n");
    }

    /// A bookmark.
    pub(super) fn bookmark(&mut self, out: &mut BytesMut, revision: u64, mark: Bookmark) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if mark == Bookmark::InitialEventsEnd {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let cells = self.cells(&json!({"metadata": metadata}));
        let object = match self.look.include {
            Include::None => Value::Null,
            Include::Metadata => json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
            Include::Object => json!({
                "kind": self.kind, "apiVersion": self.api_version, "metadata": metadata,
            }),
        };
        self.begin_event(out, WatchEventKind::Bookmark, revision);
        out.put_slice(
            json!({"cells": cells, "object": object})
                .to_string()
                .as_bytes(),
        );
        out.put_slice(b"]}}\n");
    }

    fn begin_event(&mut self, out: &mut BytesMut, kind: WatchEventKind, revision: u64) {
        self.now = self.clock.now();
        begin_frame(out, kind);
        self.put_head(out);
        put_version(out, revision);
        if std::mem::replace(&mut self.is_described, true) {
            out.put_slice(br#","columnDefinitions":null"#);
        } else {
            self.put_columns(out);
        }
        out.put_slice(br#","rows":["#);
    }

    /// Everything before `metadata`.
    fn put_head(&self, out: &mut BytesMut) {
        out.put_slice(br#"{"kind":"Table","apiVersion":""#);
        out.put_slice(self.look.api_version.as_bytes());
        out.put_slice(b"\",");
    }

    fn put_columns(&self, out: &mut BytesMut) {
        let definitions: Vec<Value> = self
            .columns
            .iter()
            .filter_map(|it| it.definition())
            .collect();
        out.put_slice(br#","columnDefinitions":"#);
        out.put_slice(Value::from(definitions).to_string().as_bytes());
    }

    fn put_row(&self, out: &mut BytesMut, object: &Stored) {
        self.begin_row(out, object);
        match &self.shown {
            None => out.put_slice(b"null"),
            Some(json) => json.versioned(out, object, None),
        }
        out.put_u8(b'}');
    }

    /// Everything of a row before its object.
    fn begin_row(&self, out: &mut BytesMut, object: &Stored) {
        let value = object.value();
        out.put_slice(br#"{"cells":"#);
        out.put_slice(self.cells(&value).to_string().as_bytes());
        if let Some(conditions) = conditions(&self.kind, &value) {
            out.put_slice(br#","conditions":"#);
            out.put_slice(conditions.to_string().as_bytes());
        }
        out.put_slice(br#","object":"#);
    }

    fn cells(&self, object: &Value) -> Value {
        let cells = self.columns.iter().map(|it| it.cell(object, self.now));
        cells.collect()
    }
}

/// The metadata of a table of one row.
fn put_version(out: &mut BytesMut, revision: u64) {
    out.put_slice(br#""metadata":{"resourceVersion":""#);
    put_decimal(out, revision);
    out.put_slice(b"\"}");
}
