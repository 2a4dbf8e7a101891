//! Shards: ranges of hashes that divide the objects of a resource.
//!
//! ```text
//! uid or namespace ──key_hash──▶ hash ──ShardRange, Ranges──▶ in or out
//! field + Ranges ──selector──▶ text of `shardSelector` ──parse──▶ field + Ranges
//! ```
//!
//! A client asks for a part of a list or a watch, and a server filters by it. Both need the hash, the
//! ranges and the text; how a client divides the ranges among its replicas is no matter of this crate.
//!
//! `hash.rs`, `range.rs`, `selector.rs`.
//!
//! Upstream counterpart: KEP-5866, `apimachinery:pkg/sharding`, `apiserver:pkg/sharding`.

mod hash;
mod range;
mod selector;

pub use hash::key_hash;
pub use range::{Ranges, ShardRange, TOP};
pub use selector::{
    MAX_SELECTOR_BYTES, SelectorError, SelectorErrorKind, ShardField, parse, parse_terms, selector,
    terms_text,
};
