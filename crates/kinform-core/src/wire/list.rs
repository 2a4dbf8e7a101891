//! The parts of a list, in any encoding: its items and its metadata.
//!
//! ```text
//! body of a list → json::list | protobuf::list → ListPart .., ListMeta
//! ```
//!
//! Upstream: `metav1.ListMeta`; `client-go:tools/pager` receives its lists decoded.

use super::item::Item;
use super::unreadable::Unreadable;

/// A part of a list, borrowed until the next one is read.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a part lives on the stack for one call; a box would be an allocation an item"
)]
pub enum ListPart<'a> {
    /// One item.
    Item(Item<'a>),
    /// An item that cannot be an object: null, a scalar, or too large.
    Unreadable(Unreadable),
}

/// The metadata of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the list; empty if the server sent none.
    pub resource_version: String,
    /// The token that asks for the next page; empty on the last page.
    pub continue_token: String,
    /// The number of items on later pages, if the server counted them.
    pub remaining: Option<u64>,
    /// The kind of the list, as `PodList`; empty if the server sent none.
    pub kind: String,
    /// The `apiVersion` of the list, as `v1`; empty if the server sent none.
    pub api_version: String,
}
