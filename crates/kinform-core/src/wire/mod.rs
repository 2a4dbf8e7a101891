//! Bytes into borrowed items: nothing here builds an object or keeps one.
//!
//! ```text
//! body chunks → list (items of a list) ──┐
//! body chunks → watch (frames of a watch) ┴→ bytes of one object → head → object
//! ```
//!
//! `scan` finds ends (safe SIMD), `json` checks every byte of an object once, `cursor` walks what
//! was checked, `head` finds key, version and the other spans of an object's metadata, `strip`
//! copies what is kept. Server data is hostile: no recursion, no panic, every buffer bounded.
//! Upstream: `apimachinery:pkg/runtime/serializer/json`, `apimachinery:pkg/util/framer`.

pub(crate) mod cursor;
pub(crate) mod head;
pub mod json;
pub(crate) mod scan;
pub(crate) mod strip;
