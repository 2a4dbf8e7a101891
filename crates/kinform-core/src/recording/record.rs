//! One record of a block: its kind, its exchange, its time, and its content.
//!
//! ```text
//! kind (1 byte) │ exchange (4) │ milliseconds since the start (8) │ length (4) │ content
//! ```
//!
//! Numbers are little-endian. Their many zeros cost next to nothing once a block is compressed.
//!
//! Upstream counterpart: none.

use super::MAX_CONTENT;

/// Bytes before a content.
pub(super) const HEAD: usize = 1 + 4 + 8 + 4;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Asked = 1,
    Opened = 2,
    Refused = 3,
    Chunk = 4,
    Ended = 5,
    Broken = 6,
    Abandoned = 7,
    Gap = 8,
    Withheld = 9,
}

const KINDS: [Kind; 9] = [
    Kind::Asked,
    Kind::Opened,
    Kind::Refused,
    Kind::Chunk,
    Kind::Ended,
    Kind::Broken,
    Kind::Abandoned,
    Kind::Gap,
    Kind::Withheld,
];

/// A record, borrowed from its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) kind: Kind,
    pub(super) exchange: u32,
    pub(super) at_ms: u64,
    pub(super) content: &'a [u8],
}

impl<'a> Record<'a> {
    pub(super) fn append(&self, to: &mut Vec<u8>) {
        debug_assert!(
            self.content.len() <= MAX_CONTENT,
            "contents are split before"
        );
        to.push(self.kind as u8);
        to.extend_from_slice(&self.exchange.to_le_bytes());
        to.extend_from_slice(&self.at_ms.to_le_bytes());
        to.extend_from_slice(&(self.content.len() as u32).to_le_bytes());
        to.extend_from_slice(self.content);
    }

    /// Reads the record that `bytes` begin with, and what is behind it; `None` if it is none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let kind = KINDS.into_iter().find(|kind| *kind as u8 == head[0])?;
        let exchange = u32::from_le_bytes(*head[1..].first_chunk()?);
        let at_ms = u64::from_le_bytes(*head[5..].first_chunk()?);
        let length = u32::from_le_bytes(*head[13..].first_chunk()?) as usize;
        let (content, rest) = rest.split_at_checked(length)?;
        let record = Self {
            kind,
            exchange,
            at_ms,
            content,
        };
        Some((record, rest))
    }
}
