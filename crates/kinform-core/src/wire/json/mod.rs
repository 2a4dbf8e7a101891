//! JSON: an object's bytes are validated once, its head is found on the way, and checked bytes are walked without a tree.
//!
//! ```text
//! body chunks → list (items of a list) ──┐
//! body chunks → watch (frames of a watch) ┴→ bytes of an object → validate → head → Layout
//!                        └ checked bytes → cursor → texts, paths │ reader → serde
//! ```
//!
//! `validate` checks every byte of an object once. It may be given a `shortcut`: for an item of a list `previous` has
//! one, a `walk` of the item before (`template`). `cursor` walks checked bytes, `head` finds key, version and the other spans
//! of an object's metadata, `broken` names a malformed object and its `path`, `piece` holds the item that chunks cut in
//! two, `envelope` is the rest of a list, `reader` makes a type of an object (`lengths` counts its lists first).
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/json`.

pub(crate) mod broken;
pub(crate) mod cursor;
pub(in crate::wire) mod envelope;
pub(crate) mod head;
mod lengths;
pub(in crate::wire) mod list;
pub(crate) mod path;
pub(in crate::wire) mod piece;
pub(in crate::wire) mod previous;
pub(crate) mod reader;
mod shortcut;
mod template;
pub mod validate;
mod walk;
pub mod watch;
