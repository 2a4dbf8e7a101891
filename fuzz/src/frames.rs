//! Files of frames: taken apart, changed inside, and put together again with checksums that are right.
//!
//! ```text
//! a sound file ──payloads──▶ Draw: edits, frames that are gone, doubled or moved ──file──▶ a reader
//! ```
//!
//! A changed file whose checksums are wrong is refused at the first frame. These files reach the
//! readers behind the checksums, as a file does that another program has written.
//! Upstream: none.

use crate::draw::Draw;

/// A frame: its kind, and its payload, not compressed.
pub type Frame = (u8, Vec<u8>);

/// Bytes of a mark, and of a frame's head.
const MARK: usize = 8;
const HEAD: usize = 13;

/// The mark and the frames of a sound file.
///
/// # Panics
/// The file is not sound.
#[must_use]
pub fn taken_apart(file: &[u8]) -> ([u8; MARK], Vec<Frame>) {
    let (mark, mut rest) = file.split_first_chunk().expect("a mark");
    let mut frames = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<HEAD>() {
        let (packed, behind) = behind.split_at(number(head, 5));
        let payload = lz4_flex::block::decompress(packed, number(head, 1)).expect("it inflates");
        frames.push((head[0], payload));
        rest = behind;
    }
    (*mark, frames)
}

fn number(head: &[u8; HEAD], at: usize) -> usize {
    let bytes = head[at..at + 4].first_chunk::<4>().expect("four bytes");
    u32::from_le_bytes(*bytes) as usize
}

/// A file of these frames.
#[must_use]
pub fn file(mark: [u8; MARK], frames: &[Frame]) -> Vec<u8> {
    let mut file = mark.to_vec();
    for (kind, payload) in frames {
        let packed = lz4_flex::block::compress(payload);
        let mut head = vec![*kind];
        head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        head.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head);
        checksum.update(&packed);
        head.extend_from_slice(&checksum.finalize().to_le_bytes());
        file.extend_from_slice(&head);
        file.extend_from_slice(&packed);
    }
    file
}

/// Changes the payloads, and which frames there are, as drawn.
pub fn changed(draw: &mut Draw<'_>, frames: &mut Vec<Frame>) {
    // BOUND: an edit takes a few bytes of the input.
    while !draw.is_empty() && !frames.is_empty() {
        let at = draw.below(frames.len());
        match draw.below(12) {
            0 => {
                frames.remove(at);
            }
            1 => frames.insert(at, frames[at].clone()),
            2 => {
                let other = draw.below(frames.len());
                frames.swap(at, other);
            }
            3 => frames[at].0 = draw.below(5) as u8,
            _ => edit(draw, &mut frames[at].1),
        }
    }
}

fn edit(draw: &mut Draw<'_>, payload: &mut Vec<u8>) {
    let place = (draw.below(256) << 8 | draw.below(256)) % (payload.len() + 1);
    match draw.below(6) {
        0 => payload.truncate(place),
        1 if place < payload.len() => {
            payload.remove(place);
        }
        2 => payload.insert(place, draw.below(256) as u8),
        3 => {
            // A length, or a place, as readers have them.
            let number = draw.pick(&[0, 1, 7, 255, 4096, u32::MAX, u32::MAX - 3, 1 << 31]);
            let end = payload.len().min(place + 4);
            payload[place..end].copy_from_slice(&number.to_le_bytes()[..end - place]);
        }
        _ => {
            if let Some(byte) = payload.get_mut(place) {
                *byte = draw.below(256) as u8;
            }
        }
    }
}
