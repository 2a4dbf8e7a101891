//! One object cut out of a body: its bytes, and its head if that was read on the way.
//!
//! ```text
//! list, watch → Item {bytes, layout?} → Object::from_item
//! ```
//!
//! Where a chunk holds an object whole, reading its head finds its end, too: one pass in place of
//! two. Only the time it takes tells whether that happened; the object is the same.
//!
//! Upstream: none.

use std::fmt;

use super::head::{self, Layout};

/// The bytes of one object, borrowed from the body until the next one is read.
pub struct Item<'a> {
    bytes: &'a [u8],
    // INVARIANT: if there is one, it is the layout of just these bytes, which were checked.
    layout: Option<Layout>,
}

impl<'a> Item<'a> {
    /// Bytes that were cut out by their brackets, and not checked.
    pub(super) fn cut(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            layout: None,
        }
    }

    /// The object that `bytes` begin with, if it is whole, sound and no longer than `limit`.
    pub(super) fn first(bytes: &'a [u8], limit: usize) -> Option<Self> {
        let window = &bytes[..bytes.len().min(limit)];
        let layout = head::read_first(window)?;
        Some(Self {
            bytes: &bytes[..layout.body.end],
            layout: Some(layout),
        })
    }

    /// The bytes; they may be no JSON.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What `metadata.managedFields` weighs in them; zero if they cannot be read.
    ///
    /// Complexity: free where the object lay whole in a chunk, one more pass over it elsewhere.
    #[must_use]
    pub fn managed_fields_bytes(&self) -> usize {
        match &self.layout {
            Some(layout) => layout.managed_fields_bytes(),
            None => head::read(self.bytes).map_or(0, |layout| layout.managed_fields_bytes()),
        }
    }

    pub(crate) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }
}

/// When it is worth the try to read an object's head at once: objects of one body are alike.
#[derive(Debug, Default)]
pub(super) struct Guess {
    last: usize,
}

impl Guess {
    /// Whether a chunk with `left` bytes may hold the next object whole.
    pub(super) fn may_hold(&self, left: usize) -> bool {
        left >= self.last
    }

    /// An object had `length` bytes.
    pub(super) fn was(&mut self, length: usize) {
        self.last = length;
    }
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({} bytes)", self.bytes.len())
    }
}
