//! A body in protobuf as the JSON that says the same.
//!
//! ```text
//! chunks of a list or watch in protobuf ──ListReader │ WatchReader──▶ items, frames ──▶ JSON
//! ```
//!
//! A recording has one form of bodies, so that one redactor searches all of them for secrets. An item
//! that cannot be read becomes `null`, a frame that is malformed an event without an object: they are
//! unreadable in the replay, too.
//!
//! Upstream counterpart: none. Complexity: O(bytes), one object at a time.

use kinform_api::{INITIAL_EVENTS_END, TypeMeta, WatchEventKind};
use serde_json::json;

use crate::object::Object;
use crate::object::projection::Projection;
use crate::wire::encoding::{Encoding, ListReader, WatchReader};
use crate::wire::item::Item;
use crate::wire::list::{ListMeta, ListPart};
use crate::wire::watch::{Frame, FrameKind};

/// Translates one body.
#[derive(Debug)]
pub(super) struct Translator {
    /// The type of objects that state none.
    of: TypeMeta,
    body: Reader,
}

#[derive(Debug)]
enum Reader {
    List { reader: Box<ListReader>, items: u64 },
    Watch(WatchReader),
}

impl Translator {
    pub(super) fn of_list(of: TypeMeta) -> Self {
        let reader = Box::new(ListReader::new(Encoding::Protobuf));
        let body = Reader::List { reader, items: 0 };
        Self { of, body }
    }

    pub(super) fn of_watch(of: TypeMeta) -> Self {
        let body = Reader::Watch(WatchReader::new(Encoding::Protobuf));
        Self { of, body }
    }

    /// Reads the next bytes, and appends what they complete. Returns false if the body is no list or
    /// watch.
    pub(super) fn feed(&mut self, chunk: &[u8], to: &mut Vec<u8>) -> bool {
        let of = &self.of;
        match &mut self.body {
            Reader::List { reader, items } => reader
                .feed(chunk, &mut |part| {
                    let separator: &[u8] = if *items == 0 { b"{\"items\":[" } else { b"," };
                    to.extend_from_slice(separator);
                    *items += 1;
                    match part {
                        ListPart::Item(item) => append(&item, of, to),
                        ListPart::Unreadable(_) => to.extend_from_slice(b"null"),
                    }
                })
                .is_ok(),
            Reader::Watch(reader) => reader
                .feed(chunk, &mut |frame| event(&frame, of, to))
                .is_ok(),
        }
    }

    /// Ends a body that the server ended. Returns false if it is not whole.
    pub(super) fn finish(self, to: &mut Vec<u8>) -> bool {
        match self.body {
            Reader::List { reader, items } => match reader.finish() {
                Ok(meta) => {
                    let start: &[u8] = if items == 0 { b"{\"items\":[" } else { b"" };
                    to.extend_from_slice(start);
                    end_of_list(&meta, to);
                    true
                }
                Err(_) => false,
            },
            Reader::Watch(reader) => reader.finish().is_ok(),
        }
    }
}

fn end_of_list(meta: &ListMeta, to: &mut Vec<u8>) {
    let mut metadata = json!({ "resourceVersion": meta.resource_version });
    if !meta.continue_token.is_empty() {
        metadata["continue"] = json!(meta.continue_token);
    }
    if let Some(remaining) = meta.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    let rest = format!(
        "],\"metadata\":{metadata},\"kind\":{},\"apiVersion\":{}}}",
        json!(meta.kind),
        json!(meta.api_version)
    );
    to.extend_from_slice(rest.as_bytes());
}

fn append(item: &Item<'_>, of: &TypeMeta, to: &mut Vec<u8>) {
    let projection = Projection::new().keep_managed_fields();
    match Object::from_item(item, &projection) {
        Ok(object) => to.extend_from_slice(&object.to_json(of)),
        Err(_) => to.extend_from_slice(b"null"),
    }
}

fn event(frame: &Frame<'_>, of: &TypeMeta, to: &mut Vec<u8>) {
    let (word, object) =
        match &frame.kind {
            FrameKind::Known(WatchEventKind::Bookmark) => {
                let word = WatchEventKind::Bookmark.as_str().to_owned();
                (word, frame.object.bookmark().ok().map(|mark| {
                let mut metadata = json!({ "resourceVersion": mark.resource_version });
                if mark.initial_events_end {
                    metadata["annotations"] = json!({ INITIAL_EVENTS_END: "true" });
                }
                json!({ "kind": of.kind, "apiVersion": of.api_version, "metadata": metadata })
            }))
            }
            FrameKind::Known(WatchEventKind::Error) | FrameKind::Status => {
                let status = frame.object.status();
                let status = status.and_then(|status| serde_json::to_value(status).ok());
                (WatchEventKind::Error.as_str().to_owned(), status)
            }
            FrameKind::Known(kind) => {
                to.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
                append(&frame.object, of, to);
                to.extend_from_slice(b"}\n");
                return;
            }
            FrameKind::Unknown(word) => (word.clone(), Some(json!({}))),
            FrameKind::Malformed(_) => (String::new(), None),
        };
    to.extend_from_slice(
        json!({ "type": word, "object": object })
            .to_string()
            .as_bytes(),
    );
    to.push(b'\n');
}
