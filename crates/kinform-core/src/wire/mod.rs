//! Bytes into borrowed items: nothing here builds an object or keeps one.
//!
//! ```text
//! body chunks → encoding → json | protobuf → list, watch (items, frames) → bytes of one object, its head → object
//! ```
//!
//! `json` and `protobuf` read the two encodings, in rooms of the same names; `encoding` has the readers that fit a body,
//! each a `feeder` of one of them.
//! `item` is what is cut out, `scan` finds ends (safe SIMD), `known` finds what is stored already, `strip` copies what is
//! kept, `type_meta` puts `apiVersion` and `kind` in front. Server data is hostile: no recursion, no panic, every buffer
//! bounded.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/json`, `apimachinery:pkg/util/framer`.

pub mod encoding;
pub mod error;
mod feeder;
pub mod item;
pub mod json;
pub mod known;
pub mod list;
pub mod protobuf;
pub(crate) mod scan;
mod serving;
pub(crate) mod strip;
pub(crate) mod type_meta;
pub mod unreadable;
pub mod watch;

/// Largest item of a list or frame of a watch, unless set otherwise.
///
/// BOUND: etcd takes 1.5 MiB by default and about 10 MiB at most; JSON escapes make up to six
/// bytes of one.
pub const DEFAULT_MAX_ITEM_BYTES: usize = 64 << 20;
