//! Finds the ends of strings in a validated text.
//!
//! ```text
//! text, position in a string ─▶ Ends ─▶ position of the next quote or backslash
//!                                 └── 64 bytes at a time: as Lengths saw them, else looked at here
//! ```
//!
//! Most keys and texts are short: most ends are found by a shift. Whatever is not, is found out of line, so that what
//! is compiled into every caller is little.
//!
//! INVARIANT: bit n of `mask` tells of the byte at `from + n`. Control characters, which no string of a checked text
//! has, may stop or not.
//! Upstream: none. Complexity: one look at each byte, none at those of lists.

use super::super::lengths::Lengths;
use crate::wire::scan::{BLOCK, filled, stops};

/// What was seen last.
#[derive(Debug)]
pub(in crate::wire) struct Ends {
    from: usize,
    mask: u64,
}

impl Default for Ends {
    /// Nothing was seen; no position is so near to this one.
    fn default() -> Self {
        Self {
            from: usize::MAX / 2,
            mask: 0,
        }
    }
}

impl Ends {
    /// Position of the first quote or backslash at or after `at`; the length if there is none.
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
            // What a walk saw, whether it came to an end or not.
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
