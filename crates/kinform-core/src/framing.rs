//! A frame of a file: a kind, lengths, a checksum, and a compressed payload.
//!
//! ```text
//! kind │ length │ packed length │ checksum │ packed bytes
//! ```
//!
//! The checksum covers everything before and behind it, and is compared before anything is inflated.
//! Compression is LZ4: it inflates faster than the objects are built, and needs no C code.
//! Snapshots and recordings are sequences of frames behind a mark of their own.
//! BOUND: [`MAX_BYTES`] a frame: a length above it is refused before memory is asked for.
//!
//! Upstream counterpart: none.

/// BOUND: bytes of a frame's payload: the largest object that an informer reads, and a block.
pub(crate) const MAX_BYTES: usize = (64 << 20) + (16 << 20);
/// Bytes before a payload.
pub(crate) const HEAD: usize = 1 + 4 + 4 + 4;

/// The contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Header = 1,
    Block = 2,
    End = 3,
}

/// The head of a frame, as read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) length: usize,
    pub(crate) packed: usize,
    checksum: u32,
}

/// Appends a frame.
pub(crate) fn append(kind: Kind, payload: &[u8], to: &mut Vec<u8>) {
    let start = to.len();
    to.push(kind as u8);
    to.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    to.extend_from_slice(&[0; 8]);
    let most = lz4_flex::block::get_maximum_output_size(payload.len());
    let packed_from = to.len();
    to.resize(packed_from + most, 0);
    // The room is the most that is ever needed.
    let packed = lz4_flex::block::compress_into(payload, &mut to[packed_from..]).unwrap_or(0);
    to.truncate(packed_from + packed);
    to[start + 5..start + 9].copy_from_slice(&(packed as u32).to_le_bytes());
    let checksum = checksum(&to[start..start + 9], &to[packed_from..]);
    to[start + 9..packed_from].copy_from_slice(&checksum.to_le_bytes());
}

fn checksum(head: &[u8], packed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(packed);
    hasher.finalize()
}

impl Head {
    /// Reads the head that `bytes` begin with; `None` if it is not there as a whole yet.
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let Some(head) = bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let number = |at: usize| {
            let bytes = head[at..at + 4].first_chunk::<4>();
            u32::from_le_bytes(bytes.copied().unwrap_or_default())
        };
        let kind = match head[0] {
            1 => Kind::Header,
            2 => Kind::Block,
            3 => Kind::End,
            _ => return Err("a frame of no known kind"),
        };
        let (length, packed) = (number(1) as usize, number(5) as usize);
        if length > MAX_BYTES || packed > lz4_flex::block::get_maximum_output_size(MAX_BYTES) {
            return Err("a frame larger than any");
        }
        Ok(Some(Self {
            kind,
            length,
            packed,
            checksum: number(9),
        }))
    }

    /// The payload of `frame`, the bytes of the whole frame, written to `plain`.
    pub(crate) fn open(&self, frame: &[u8], plain: &mut Vec<u8>) -> Result<(), &'static str> {
        let (head, packed) = frame.split_at(HEAD);
        if checksum(&head[..9], packed) != self.checksum {
            return Err("a frame whose checksum is another");
        }
        plain.clear();
        plain.resize(self.length, 0);
        match lz4_flex::block::decompress_into(packed, plain) {
            Ok(length) if length == self.length => Ok(()),
            _ => Err("a frame that does not inflate"),
        }
    }
}
