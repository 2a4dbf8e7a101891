//! The same bytes in other pieces: a reader that is resumed anywhere returns the same.
//!
//! ```text
//! bytes ──▶ whole │ byte by byte │ small chunks │ two at a cut ──▶ each to the reader
//! ```
//!
//! The cuts depend on the bytes only, so that a failing input fails again.

/// BOUND: longer bodies are not read byte by byte.
const MOST_BYTES: usize = 16 << 10;

/// Ways to cut the bytes, the whole apart.
#[must_use]
pub fn ways(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways: Vec<Vec<&[u8]>> = Vec::new();
    for size in [1, 3, 17, 64, 1000] {
        if bytes.len() / size <= MOST_BYTES && bytes.len() > size {
            ways.push(bytes.chunks(size).collect());
        }
    }
    let mut seed = bytes.iter().fold(bytes.len() as u64 | 1, |seed, &byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    for _ in 0..3 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (head, tail) = bytes.split_at((seed >> 33) as usize % (bytes.len() + 1));
        ways.push(vec![head, tail]);
    }
    ways
}
