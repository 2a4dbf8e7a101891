//! Finds the ends of strings in a validated text.
//!
//! ```text
//! text, position in a string ─▶ Ends ─▶ position of the next quote or backslash
//!                                 └── 64 bytes at a time: the masks of Lengths, else scanned here
//! ```
//!
//! Most keys and texts are short, so a shift of the last mask finds most ends. All other cases are
//! handled out of line, so that little is compiled into every caller.
//!
//! INVARIANT: bit n of `mask` describes the byte at `from + n`. Whether a control character stops
//! does not matter: no string of a validated text has one.
//! Upstream: none. Complexity: one look at each byte, none at the bytes of lists.

use super::super::lengths::Lengths;
use crate::wire::scan::{BLOCK, filled, stops};

/// The block that was scanned last, and the positions of its quotes and backslashes.
#[derive(Debug)]
pub(in crate::wire) struct Ends {
    from: usize,
    mask: u64,
}

impl Default for Ends {
    /// No block was scanned; no position is within a block of this `from`.
    fn default() -> Self {
        Self {
            from: usize::MAX / 2,
            mask: 0,
        }
    }
}

impl Ends {
    /// Returns the position of the first quote or backslash at or after `at`; the length if there
    /// is none.
    #[inline(always)]
    pub(in crate::wire) fn find(&mut self, bytes: &[u8], lengths: &Lengths, at: usize) -> usize {
        let seen = at.wrapping_sub(self.from);
        if seen < BLOCK {
            let mask = self.mask >> seen;
            if mask != 0 {
                return at + mask.trailing_zeros() as usize;
            }
        }
        self.look(bytes, lengths, at)
    }

    #[inline(never)]
    fn look(&mut self, bytes: &[u8], lengths: &Lengths, mut at: usize) -> usize {
        while at < bytes.len() {
            let (from, mask) = match lengths.stops(at) {
                Some(seen) => seen,
                None => (at, stops_at(bytes, at)),
            };
            let left = mask >> (at - from);
            if left != 0 {
                (self.from, self.mask) = (from, mask);
                return at + left.trailing_zeros() as usize;
            }
            at = from + BLOCK;
        }
        bytes.len()
    }
}

#[inline(never)]
fn stops_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk() {
        Some(block) => stops(block),
        None => stops(&filled(rest)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strings_end_where_they_end(
            body in proptest::collection::vec(proptest::sample::select(&b"[]\"\\abc, "[..]), 0..400),
            walked in 0_usize..400,
        ) {
            let mut lengths = Lengths::default();
            // The masks of a walk, whether it came to the end of the list or not.
            let _ = lengths.of(&body, walked);
            let mut ends = Ends::default();
            for at in 0..body.len() + 2 {
                let stop = body.iter().skip(at).position(|byte| matches!(byte, b'"' | b'\\'));
                let stop = stop.map_or(body.len(), |stop| at + stop);
                prop_assert_eq!(ends.find(&body, &lengths, at), stop);
                prop_assert_eq!(Ends::default().find(&body, &lengths, at), stop);
            }
        }
    }
}
