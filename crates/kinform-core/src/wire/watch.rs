//! The frames of a watch, in any encoding: events and broken ones.
//!
//! ```text
//! body of a watch → json::watch | protobuf::watch → Frame {kind, object}
//! ```
//!
//! Upstream: `apimachinery:pkg/watch` (`Event`), `metav1.WatchEvent`.

use kinform_api::WatchEventKind;

use super::item::Item;
use super::unreadable::Unreadable;

/// BOUND: what a frame adds to its object.
pub(super) const FRAME_BYTES: usize = 1 << 10;

/// One frame of a watch, borrowed until the next one.
#[derive(Debug, PartialEq)]
pub struct Frame<'a> {
    /// What the frame is.
    pub kind: FrameKind,
    /// Its object; empty if the frame is malformed.
    pub object: Item<'a>,
}

/// What a frame is.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameKind {
    /// An event of a type that we know.
    Known(WatchEventKind),
    /// An event of another type; its first 64 characters.
    Unknown(String),
    /// A bare `Status` in place of an event; it is the frame's object.
    Status,
    /// No event: the frame is broken, too large, or has no type or object.
    Malformed(Unreadable),
}

/// What a bookmark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The version up to which the watch has told everything.
    pub resource_version: String,
    /// Whether the objects that existed at the start have all been told.
    pub initial_events_end: bool,
}

/// A frame that is no event.
pub(super) fn malformed(unreadable: Unreadable) -> Frame<'static> {
    Frame {
        kind: FrameKind::Malformed(unreadable),
        object: Item::cut(&[]),
    }
}

/// A frame or an object without this member.
pub(super) fn missing(path: &str) -> Unreadable {
    let mut unreadable = Unreadable::unknown("is missing");
    path.clone_into(&mut unreadable.path);
    unreadable
}
