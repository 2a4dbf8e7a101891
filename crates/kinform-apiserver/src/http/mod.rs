//! The HTTP layer of reads and writes: paths, parameters, negotiation, replies.
//!
//! ```text
//! request ──▶ route ──▶ read or write ──▶ reply
//! ```

pub(crate) mod body;
pub(crate) mod list_options;
pub(crate) mod negotiate;
pub(crate) mod pretty;
pub(crate) mod query;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod shard_selector;
pub(crate) mod yaml;
mod yaml_value;
