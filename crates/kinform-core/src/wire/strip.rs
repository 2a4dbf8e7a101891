//! Copies an object without the parts that are dropped.
//!
//! ```text
//! bytes, cuts → copy → bytes kept
//! position in the bytes → moved → position in the copy
//! ```
//!
//! Upstream: `client-go:tools/cache` transforms that set `ManagedFields` to nil, after decoding.

use std::ops::Range;

/// Appends `bytes[body]` without the cuts, which are sorted and lie inside `body`.
pub(crate) fn copy(bytes: &[u8], body: Range<usize>, cuts: &[Range<usize>], to: &mut Vec<u8>) {
    let mut at = body.start;
    for cut in cuts {
        to.extend_from_slice(&bytes[at..cut.start]);
        at = cut.end;
    }
    to.extend_from_slice(&bytes[at..body.end]);
}

/// Returns the position in the copy of the byte at `at`, which lies in no cut.
pub(crate) fn moved(at: usize, body: &Range<usize>, cuts: &[Range<usize>]) -> usize {
    let gone: usize = cuts
        .iter()
        .take_while(|cut| cut.end <= at)
        .map(ExactSizeIterator::len)
        .sum();
    at - body.start - gone
}

/// Returns the length of the copy.
pub(crate) fn length(body: &Range<usize>, cuts: &[Range<usize>]) -> usize {
    body.len() - cuts.iter().map(ExactSizeIterator::len).sum::<usize>()
}
