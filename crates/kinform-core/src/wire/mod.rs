//! Parses bodies into borrowed items; builds and keeps no objects.
//!
//! ```text
//! body chunks → encoding → json | protobuf → list, watch (items, frames)
//! items, frames → bytes of one object, its head → object
//! ```
//!
//! Top to bottom: `encoding` selects the encoding of a body, and `feeder` feeds it chunk by chunk.
//! `json` and `protobuf` parse the two encodings and divide the work into modules of the same
//! names. Below them are nouns that both use and that import neither: `list` and `watch` have the
//! parts of the two kinds of body, `item` is one object cut out of a body, `layout` the spans of
//! its head, `baseline` the stored objects that items are compared with. `error` has the errors of
//! a whole body, `unreadable` the report on one object.
//!
//! `scan` finds the ends of strings and values (safe SIMD). `serving` decides when an item is
//! compared with an earlier one. `strip` copies an object without the parts that are dropped;
//! `type_meta` puts `apiVersion` and `kind` in front.
//!
//! INVARIANT: hostile bodies cause no recursion and no panic, and every buffer is bounded.
//!
//! Upstream: `apimachinery:pkg/runtime/serializer/json`, `apimachinery:pkg/util/framer`.

pub mod baseline;
pub mod bookmark;
pub mod encoding;
pub mod error;
mod feeder;
pub mod item;
pub mod json;
pub(crate) mod layout;
pub mod list;
pub mod protobuf;
pub(crate) mod scan;
mod serving;
pub(crate) mod strip;
pub(crate) mod type_meta;
pub mod unreadable;
pub mod watch;

/// The largest size of an item of a list or an object of a watch, unless set otherwise.
///
/// BOUND: etcd accepts 1.5 MiB by default and about 10 MiB at most; a JSON escape makes up to six
/// bytes of one.
pub const DEFAULT_MAX_ITEM_BYTES: usize = 64 << 20;
