//! The parts of a list, in any encoding: its items and its metadata.
//!
//! ```text
//! body of a list → json::list | protobuf::list → ListPart .., ListMeta
//! ```
//!
//! Upstream: `metav1.ListMeta`; lists of `client-go:tools/pager` come decoded.

use super::item::Item;
use super::unreadable::Unreadable;

/// Something of a list, borrowed until the next one.
#[derive(Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a part lives on the stack for one call; a box would be an allocation an item"
)]
pub enum ListPart<'a> {
    /// One item.
    Item(Item<'a>),
    /// An item that can be no object: null, a scalar, or too large.
    Unreadable(Unreadable),
}

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// The version of the list; empty if the server sent none.
    pub resource_version: String,
    /// Where the next page begins; empty on the last one.
    pub continue_token: String,
    /// How many items the later pages hold, if the server counted.
    pub remaining: Option<u64>,
    /// `PodList`; empty if the server sent none.
    pub kind: String,
    /// `v1`; empty if the server sent none.
    pub api_version: String,
}
