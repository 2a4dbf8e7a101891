//! Bookmarks of a watch, in any encoding.
//!
//! ```text
//! object of a BOOKMARK event → json::event_object | protobuf::head → Bookmark
//! ```
//!
//! Upstream: `apimachinery:pkg/watch` (`Bookmark`), KEP-3157 (`initial-events-end`).

/// The content of a bookmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The resource version up to which the watch has sent every event.
    pub resource_version: String,
    /// True on the bookmark that follows the last object that existed at the start of the watch.
    pub initial_events_end: bool,
}
