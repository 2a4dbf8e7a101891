//! The frames of a watch, in any encoding: events, and frames that are malformed.
//!
//! ```text
//! body of a watch → json::watch | protobuf::watch → Frame {kind, object}
//! ```
//!
//! Upstream: `apimachinery:pkg/watch` (`Event`), `metav1.WatchEvent`.

use kinform_api::WatchEventKind;

use super::item::Item;
use super::unreadable::Unreadable;

/// BOUND: the size of a frame beyond its object.
pub(super) const FRAME_BYTES: usize = 1 << 10;

/// One frame of a watch, borrowed until the next one is read.
#[derive(Debug, PartialEq)]
pub struct Frame<'a> {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// The object of the frame; empty if the frame is malformed.
    pub object: Item<'a>,
}

/// The kind of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum FrameKind {
    /// An event of a known type.
    Known(WatchEventKind),
    /// An event of another type: the first 64 characters of that type.
    Unknown(String),
    /// A bare `Status` in place of an event; the status is the frame's object.
    Status,
    /// Not an event: the frame is malformed, too large, or has no type or object.
    Malformed(Unreadable),
}

/// Creates a malformed frame; `empty` is an item without bytes.
pub(super) fn malformed<'a>(unreadable: Unreadable, empty: Item<'a>) -> Frame<'a> {
    Frame {
        kind: FrameKind::Malformed(unreadable),
        object: empty,
    }
}
