//! JSON: validates an object's bytes once, finds its head on the way, and walks validated bytes
//! without building a tree.
//!
//! ```text
//! body chunks → list (items of a list) ──┐
//! body chunks → watch (frames of a watch) ┴→ bytes of an object → validate → head → Layout
//!                        └ validated bytes → cursor → texts, paths │ reader → serde
//! ```
//!
//! `validate` checks every byte of an object once. It may take a `shortcut`: for the items of a
//! list, `previous` passes one, a `walk` of the preceding item (`template`). `cursor` walks
//! validated bytes. `head` finds the key, the version and the other spans of an object's metadata.
//! `broken` diagnoses a malformed object and names the `path` of its fault; `salvage` finds its
//! name. `item` cuts items out of a body, `baseline` recognises those that are stored already.
//! `piece` buffers an item that spans several chunks. `envelope` is the rest of a list.
//! `event_object` reads bookmarks and statuses. `reader` deserializes an object (`lengths` counts
//! its lists first).
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/json`.

mod baseline;
mod broken;
pub(crate) mod cursor;
pub(in crate::wire) mod envelope;
pub mod event_object;
pub(crate) mod head;
pub(crate) mod item;
mod lengths;
pub(in crate::wire) mod list;
pub(crate) mod path;
pub(in crate::wire) mod piece;
pub(in crate::wire) mod previous;
pub(crate) mod reader;
pub(crate) mod salvage;
mod shortcut;
mod template;
pub mod validate;
mod walk;
pub(in crate::wire) mod watch;
