//! Bytes into borrowed items: nothing here builds an object or keeps one.
//!
//! ```text
//! body chunks → list (items of a list) ──┐
//! body chunks → watch (frames of a watch) ┴→ bytes of one object → head → object
//! ```
//!
//! This is JSON; `protobuf` has the same rooms for messages of built-in kinds, and `encoding` the readers
//! that fit a body. `item` is what is cut out, `piece` holds the one that chunks cut in two, `scan` finds ends (safe SIMD), `json` checks
//! every byte of an object once, `seen` spares what is as in an item before (`template`, `brackets`, `serving`), `cursor` walks what was checked, `head` finds key, version and
//! the other spans of an object's metadata, `broken` what is wrong with it, at which `path`, `known` tells what is stored already, `strip` copies what is kept, `reader` makes a type of
//! it (`whole` of what every object begins with), and `lengths` tells it how long lists are. Server data is hostile:
//! no recursion, no panic, every buffer bounded.
//! Upstream: `apimachinery:pkg/runtime/serializer/json`, `apimachinery:pkg/util/framer`.

mod brackets;
pub(crate) mod broken;
pub(crate) mod cursor;
pub mod encoding;
mod envelope;
pub mod error;
pub(crate) mod head;
pub mod item;
pub mod json;
pub mod known;
pub(crate) mod lengths;
pub mod list;
pub(crate) mod path;
mod piece;
pub mod protobuf;
pub(crate) mod reader;
pub(crate) mod scan;
pub(crate) mod seen;
mod serving;
pub(crate) mod strip;
mod template;
pub mod unreadable;
pub mod watch;
pub(crate) mod whole;

/// Largest item of a list or frame of a watch, unless set otherwise.
///
/// BOUND: etcd takes 1.5 MiB by default and about 10 MiB at most; JSON escapes make up to six
/// bytes of one.
pub const DEFAULT_MAX_ITEM_BYTES: usize = 64 << 20;
