//! Cuts one bracketed value out of a stream of chunks: borrowed if one chunk holds it whole,
//! otherwise buffered.
//!
//! ```text
//! chunk, position → Piece::read → Whole(bytes) | TooLarge(first bytes) | the chunk is used up
//! ```
//!
//! INVARIANT: the values depend on the bytes only, never on where the chunks were cut.
//! BOUND: at most `limit` bytes are held; of a larger value only the first ones, which are likely
//! to hold its name. Upstream: `apimachinery:pkg/util/framer` (`jsonFrameReader`).

use crate::wire::scan::Nesting;

/// The number of bytes of an oversized value that are kept to find its name.
const SALVAGE_BYTES: usize = 64 << 10;

/// The capacity that is kept for the next value.
const KEPT_CAPACITY: usize = 1 << 20;

#[derive(Debug)]
pub(in crate::wire) struct Piece {
    limit: usize,
    nesting: Nesting,
    held: Vec<u8>,
    length: usize,
}

/// The part of the value that a chunk held.
#[derive(Debug, PartialEq)]
pub(in crate::wire) enum Read<'a> {
    More,
    Whole(&'a [u8]),
    TooLarge(&'a [u8]),
}

impl Piece {
    pub(in crate::wire) fn new(limit: usize) -> Self {
        Self {
            limit,
            nesting: Nesting::default(),
            held: Vec::new(),
            length: 0,
        }
    }

    /// Returns whether no byte of the value was read yet.
    pub(in crate::wire) fn is_fresh(&self) -> bool {
        self.length == 0
    }

    /// Returns the length of the longest value that is returned whole.
    pub(in crate::wire) fn limit(&self) -> usize {
        self.limit
    }

    /// Begins a new value: the next byte is its opening bracket.
    pub(in crate::wire) fn begin(&mut self) {
        self.nesting = Nesting::default();
        self.length = 0;
        self.held.clear();
        self.held.shrink_to(KEPT_CAPACITY);
    }

    /// Reads on; returns the number of bytes of the chunk that belong to the value.
    pub(in crate::wire) fn read<'a>(&'a mut self, chunk: &'a [u8]) -> (usize, Read<'a>) {
        let Some(end) = self.nesting.advance(chunk) else {
            self.hold(chunk);
            return (chunk.len(), Read::More);
        };
        let salvage = SALVAGE_BYTES.min(self.limit);
        if self.length == 0 {
            let whole = &chunk[..end];
            let read = match end > self.limit {
                true => Read::TooLarge(&whole[..salvage]),
                false => Read::Whole(whole),
            };
            return (end, read);
        }
        self.hold(&chunk[..end]);
        let read = match self.length > self.limit {
            true => Read::TooLarge(&self.held),
            false => Read::Whole(&self.held),
        };
        (end, read)
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len());
        if self.length <= self.limit {
            hold(&mut self.held, bytes, self.limit);
            return;
        }
        let salvage = SALVAGE_BYTES.min(self.limit);
        let missing = salvage.saturating_sub(self.held.len()).min(bytes.len());
        self.held.extend_from_slice(&bytes[..missing]);
        self.held.truncate(salvage);
        self.held.shrink_to(KEPT_CAPACITY);
    }
}

/// Appends bytes; the caller ensures that `held` has at most `most` bytes afterwards. Neither does
/// its capacity exceed `most`.
pub(in crate::wire) fn hold(held: &mut Vec<u8>, bytes: &[u8], most: usize) {
    let is_full = held.capacity() - held.len() < bytes.len();
    if is_full && 2 * held.capacity() > most {
        held.reserve_exact(most.saturating_sub(held.len()));
    }
    held.extend_from_slice(bytes);
}
