//! Finds the end of a string or a bracketed value, sixteen bytes at a time.
//!
//! ```text
//! bytes → string_stop, Stops → position of the next quote, backslash or control character
//! chunks, cut at any byte → Nesting::advance → position after the bracket that closes the value
//! ```
//!
//! `Nesting` only counts brackets outside strings; it does not check that they match. The value
//! that it cuts out is validated by `wire::json::validate` before other modules parse it. No unsafe
//! code: `wide` has SSE2, NEON or plain loops behind one safe type.
//!
//! Upstream: none; client-go decodes every byte (`encoding/json`, `json.Decoder`).
//! Complexity: linear, each byte once, for any division into chunks.

use wide::u8x16;

const QUOTE: u8 = b'"';
const BACKSLASH: u8 = b'\\';
/// The number of bytes that one mask covers.
pub(crate) const BLOCK: usize = 64;

/// Returns the last bytes of a text as a block, padded with spaces.
pub(super) fn filled(rest: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// Returns the position of the first `"`, `\` or control character at or after `at`, or else the
/// length.
pub(crate) fn string_stop(bytes: &[u8], mut at: usize) -> usize {
    while let Some(window) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let mask = stops(window);
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += BLOCK;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let stop = |&byte: &u8| byte == QUOTE || byte == BACKSLASH || byte < 0x20;
    at + rest.iter().position(stop).unwrap_or(rest.len())
}

/// Returns the position of the first byte at or after `at` that is in `wanted`, or else the length.
pub(crate) fn first_of<const N: usize>(bytes: &[u8], mut at: usize, wanted: [u8; N]) -> usize {
    while let Some(window) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let lane = u8x16::new(*window);
        let hits = wanted.map(|byte| lane.simd_eq(u8x16::splat(byte)));
        let mask = hits
            .into_iter()
            .fold(u8x16::splat(0), |any, hits| any | hits)
            .to_bitmask();
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += 16;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let found = rest.iter().position(|byte| wanted.contains(byte));
    at + found.unwrap_or(rest.len())
}

/// Returns the position of the first quote at or after `at` that is not escaped by a backslash in
/// between.
///
/// Complexity: linear, independent of the number of escapes.
pub(crate) fn quote(bytes: &[u8], at: usize) -> Option<usize> {
    let mut is_escaped = false;
    for (number, block) in bytes.get(at..)?.chunks(BLOCK).enumerate() {
        let masks = Masks::of(&filled(block));
        let quotes = masks.quotes & !escaped_bytes(masks.backslashes, &mut is_escaped);
        if quotes != 0 {
            return Some(at + number * BLOCK + quotes.trailing_zeros() as usize);
        }
    }
    None
}

/// Returns whether no byte is above 127.
///
/// Faster for short texts than `[u8]::is_ascii`, which checks these byte by byte: here the last
/// piece overlaps the one before it, so no remainder is left.
#[inline(always)]
pub(crate) fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let lane = |bytes: &[u8; 16]| u8x16::new(*bytes);
        let all = bytes.as_chunks().0.iter();
        let seen = all.fold(lane(first) | lane(last), |seen, next| seen | lane(next));
        return seen.to_bitmask() == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let seen = u64::from_ne_bytes(*first) | u64::from_ne_bytes(*last);
        return seen & HIGH == 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let seen = u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last);
        return seen & HIGH as u32 == 0;
    }
    bytes.iter().fold(0, |seen, byte| seen | byte) < 0x80
}

/// Returns the length of the common prefix.
#[inline]
pub(crate) fn common(one: &[u8], other: &[u8]) -> usize {
    const LANES: usize = 32;
    let length = one.len().min(other.len());
    let (one, other) = (&one[..length], &other[..length]);
    let (lanes, others) = (one.as_chunks::<LANES>().0, other.as_chunks().0);
    for (number, (lane, other)) in lanes.iter().zip(others).enumerate() {
        let differs = differing(lane, other);
        if differs != 0 {
            return number * LANES + differs.trailing_zeros() as usize;
        }
    }
    // The last `LANES` bytes, of which the first ones were compared before and are equal.
    if let (Some(last), Some(other)) = (one.last_chunk::<LANES>(), other.last_chunk()) {
        return match differing(last, other) {
            0 => length,
            differs => length - LANES + differs.trailing_zeros() as usize,
        };
    }
    let differs = one.iter().zip(other).position(|(one, other)| one != other);
    differs.unwrap_or(length)
}

/// Returns a mask with a bit for each byte that differs.
#[inline(always)]
fn differing(one: &[u8; 32], other: &[u8; 32]) -> u32 {
    let same = |at: usize| {
        let lane = |bytes: &[u8; 32]| u8x16::new(bytes.as_chunks().0[at]);
        lane(one).simd_eq(lane(other)).to_bitmask()
    };
    !(same(0) | same(1) << 16)
}

/// [`string_stop`] for consecutive strings: keeps the mask of the last block.
///
/// Most strings are short, so most stops are found by a shift. The latency of a load and
/// comparisons would otherwise bound the validator.
#[derive(Debug)]
pub(crate) struct Stops<'a> {
    bytes: &'a [u8],
    // INVARIANT: bit n of `mask` is set if the byte at `from + n` is a stop.
    from: usize,
    mask: u64,
}

impl<'a> Stops<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        // No block was scanned yet: no position lies within a block of this one.
        Self {
            bytes,
            from: usize::MAX / 2,
            mask: 0,
        }
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the position of the first stop at or after `at`, or else the length.
    #[inline(always)]
    pub(crate) fn find(&mut self, at: usize) -> usize {
        let seen = at.wrapping_sub(self.from);
        if seen >= BLOCK {
            return self.look(at);
        }
        let mask = self.mask >> seen;
        if mask == 0 {
            return self.look(self.from + BLOCK);
        }
        at + mask.trailing_zeros() as usize
    }

    #[inline(always)]
    fn look(&mut self, at: usize) -> usize {
        let Some(window) = self.bytes.get(at..).and_then(|rest| rest.first_chunk()) else {
            return string_stop(self.bytes, at);
        };
        let mask = stops(window);
        if mask == 0 {
            return string_stop(self.bytes, at + BLOCK);
        }
        (self.from, self.mask) = (at, mask);
        at + mask.trailing_zeros() as usize
    }
}

/// Returns the mask of the quotes, backslashes and control characters of a block.
#[inline(always)]
pub(super) fn stops(window: &[u8; BLOCK]) -> u64 {
    let mut mask = 0;
    for (index, lane) in window.as_chunks::<16>().0.iter().enumerate() {
        let lane = u8x16::new(*lane);
        let stops = lane.simd_eq(u8x16::splat(QUOTE))
            | lane.simd_eq(u8x16::splat(BACKSLASH))
            | lane.min(u8x16::splat(0x1f)).simd_eq(lane);
        mask |= u64::from(stops.to_bitmask()) << (16 * index);
    }
    mask
}

/// The search for the end of a bracketed value; the state between two chunks.
///
/// Starts before the opening bracket, or inside the value at a known depth. The depth is a counter,
/// so deeply nested input allocates no memory. A caller that counts the brackets itself uses
/// [`marks`](Self::marks) instead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nesting {
    depth: u64,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// Starts in the middle of a value, with `depth` brackets open. The byte before must not be
    /// an unescaped backslash.
    pub(crate) fn inside(depth: u64, in_string: bool) -> Self {
        Self {
            depth,
            in_string,
            escaped: false,
        }
    }

    /// Returns whether the next byte is inside a string.
    pub(crate) fn is_in_string(&self) -> bool {
        self.in_string
    }

    /// Scans the next chunk; returns the position after the bracket that closes the value, or
    /// `None` if the value continues in the next chunk.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut blocks = bytes.chunks_exact(BLOCK);
        let mut at = 0;
        for block in &mut blocks {
            if let Some(end) = self.block(Masks::of(block)) {
                return Some(at + end);
            }
            at += BLOCK;
        }
        let rest = blocks.remainder();
        if rest.is_empty() {
            return None;
        }
        self.tail(rest).map(|end| at + end)
    }

    fn block(&mut self, masks: Masks) -> Option<usize> {
        let strings = self.strings(masks.quotes, masks.backslashes);
        let mut opens = masks.opens & !strings;
        let mut closes = masks.closes & !strings;
        if self.depth > 0 {
            // An empty pair, as `{}`, cannot close the value. Half of all brackets in managedFields
            // are such pairs; without them, few blocks have enough closing brackets to be searched.
            let empty = opens & closes >> 1;
            opens ^= empty;
            closes ^= empty << 1;
        }
        if self.depth <= u64::from(closes.count_ones()) {
            let mut left = closes;
            while left != 0 {
                let bit = left.trailing_zeros();
                let upto = u64::MAX >> (63 - bit);
                let opened = self.depth + u64::from((opens & upto).count_ones());
                let closed = u64::from((closes & upto).count_ones());
                if opened <= closed {
                    return Some(bit as usize + 1);
                }
                left &= left - 1;
            }
        }
        self.depth += u64::from(opens.count_ones());
        self.depth -= u64::from(closes.count_ones());
        None
    }

    /// Returns the marks of a block, for a caller with a stack of brackets of its own.
    #[inline(always)]
    pub(crate) fn marks(&mut self, block: &[u8; BLOCK]) -> Marks {
        let (mut stops, mut commas, mut brackets) = (0, 0, 0);
        let mut slashes = u8x16::splat(0);
        for (index, lane) in block.as_chunks::<16>().0.iter().enumerate() {
            let lane = u8x16::new(*lane);
            let mask = |hits: u8x16| u64::from(hits.to_bitmask()) << (16 * index);
            let slash = lane.simd_eq(u8x16::splat(BACKSLASH));
            slashes |= slash;
            stops |= mask(slash | lane.simd_eq(u8x16::splat(QUOTE)));
            commas |= mask(lane.simd_eq(u8x16::splat(b',')));
            // The four brackets, and `Y`, `y`, `_` and DEL, which JSON has in strings only.
            let folded = lane | u8x16::splat(0x26);
            brackets |= mask(folded.simd_eq(u8x16::splat(0x7f)));
        }
        let backslashes = match slashes.to_bitmask() {
            0 => 0,
            _ => Masks::of(block).backslashes,
        };
        let strings = self.strings(stops & !backslashes, backslashes);
        Marks {
            stops,
            brackets: brackets & !strings,
            commas: commas & !strings,
        }
    }

    /// Returns the mask of the block's bytes in strings, opening quotes included.
    #[inline(always)]
    fn strings(&mut self, quotes: u64, backslashes: u64) -> u64 {
        let quotes = quotes & !escaped_bytes(backslashes, &mut self.escaped);
        let strings = prefix_xor(quotes) ^ (self.in_string as u64).wrapping_neg();
        self.in_string = strings >> 63 == 1;
        strings
    }

    fn tail(&mut self, rest: &[u8]) -> Option<usize> {
        for (at, &byte) in rest.iter().enumerate() {
            if self.step(byte) {
                return Some(at + 1);
            }
        }
        None
    }

    /// Scans one byte; returns whether it closed the value.
    fn step(&mut self, byte: u8) -> bool {
        // A backslash escapes only a quote or a backslash, as in `block`: both must agree on
        // malformed input, too.
        let escaped = std::mem::take(&mut self.escaped);
        match byte {
            BACKSLASH => self.escaped = !escaped,
            QUOTE if escaped => {}
            QUOTE => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => self.depth += 1,
            b'}' | b']' if !self.in_string => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

/// Returns the mask of the bytes of a block that a backslash escapes. `carry` says whether the
/// first byte is escaped, and receives the same for the next block.
#[inline(always)]
fn escaped_bytes(backslashes: u64, carry: &mut bool) -> u64 {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let carried = u64::from(*carry);
    if backslashes == 0 {
        *carry = false;
        return carried;
    }
    // A run of backslashes escapes the byte after it if its length is odd. Subtraction and XOR
    // leave the bits of the first, third, .. backslash of each run, and of the byte after an odd
    // run.
    let starting = backslashes & !carried;
    let follows = starting << 1;
    let maybe = follows | ODD;
    let codes = maybe.wrapping_sub(starting);
    let escapes_and_codes = codes ^ ODD;
    let escaped = escapes_and_codes ^ (backslashes | carried);
    *carry = (escapes_and_codes & backslashes) >> 63 == 1;
    escaped
}

/// The marks of a block of valid JSON: bit n stands for the nth byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    /// Quotes and backslashes, in and outside of strings.
    pub(crate) stops: u64,
    /// Brackets of all four kinds outside of strings.
    pub(crate) brackets: u64,
    /// Commas outside of strings.
    pub(crate) commas: u64,
}

struct Masks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Masks {
    #[inline(always)]
    fn of(block: &[u8]) -> Self {
        let mut masks = Self {
            quotes: 0,
            backslashes: 0,
            opens: 0,
            closes: 0,
        };
        for (index, lane) in block.as_chunks::<16>().0.iter().enumerate() {
            let lane = u8x16::new(*lane);
            // Setting this bit turns `[` into `{` and `]` into `}`, and no other byte into either.
            let folded = lane | u8x16::splat(0x20);
            let mask = |hits: u8x16| u64::from(hits.to_bitmask()) << (16 * index);
            masks.quotes |= mask(lane.simd_eq(u8x16::splat(QUOTE)));
            masks.backslashes |= mask(lane.simd_eq(u8x16::splat(BACKSLASH)));
            masks.opens |= mask(folded.simd_eq(u8x16::splat(b'{')));
            masks.closes |= mask(folded.simd_eq(u8x16::splat(b'}')));
        }
        masks
    }
}

/// Turns each bit into the parity of the bits up to it: from quotes to "inside a string".
#[inline(always)]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_end(bytes: &[u8]) -> Option<usize> {
        let mut nesting = Nesting::default();
        nesting.tail(bytes)
    }

    #[test]
    fn a_byte_above_127_is_found_wherever_it_stands() {
        for length in 0..70 {
            let mut text = vec![0x7f; length];
            assert!(is_ascii(&text), "{length}");
            for at in 0..length {
                text[at] = 0x80;
                assert!(!is_ascii(&text), "{at} of {length}");
                text[at] = 0;
            }
        }
    }

    #[test]
    fn a_string_stops_at_quotes_backslashes_and_controls() {
        let text =
            b"0123456789abcdefghijklmnopqrstuvwxyz\xc3\xa9\x7f0123456789abcdefghijklmnopqrstuvwxyz\
            0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz01234567890123";
        for at in 0..text.len() {
            for stop in [b'"', b'\\', 0, 0x1f] {
                let mut text = text.to_vec();
                text[at] = stop;
                assert_eq!(quote(&text, 0), (stop == b'"').then_some(at));
                let mut stops = Stops::new(&text);
                for from in 0..=at {
                    assert_eq!(string_stop(&text, from), at);
                    assert_eq!(stops.find(from), at);
                    assert_eq!(Stops::new(&text).find(from), at);
                }
            }
        }
        assert_eq!(string_stop(text, 0), text.len());
        assert_eq!(quote(text, 0), None);
        assert_eq!(string_stop(text, text.len()), text.len());
    }

    #[test]
    fn the_first_of_some_bytes_is_found_wherever_it_stands() {
        for length in 0..70 {
            let text = vec![b'x'; length];
            for from in 0..=length {
                assert_eq!(first_of(&text, from, *b",]"), length);
            }
            for at in 0..length {
                let mut text = text.clone();
                text[at..].fill(b']');
                text[at] = b',';
                for from in 0..=at {
                    assert_eq!(first_of(&text, from, *b"],"), at);
                }
            }
        }
    }

    #[test]
    fn a_quote_is_found_behind_however_many_escapes() {
        for escapes in 0..150 {
            for escape in ["\\\"", "\\\\"] {
                let text = [&escape.repeat(escapes), "\""].concat();
                for at in 0..=escapes {
                    assert_eq!(quote(text.as_bytes(), 2 * at), Some(2 * escapes));
                }
                assert_eq!(quote(&text.as_bytes()[..2 * escapes], 0), None);
            }
        }
    }

    proptest! {
        #[test]
        fn blocks_and_bytes_find_the_same_end(
            body in proptest::collection::vec(
                proptest::sample::select(&b"{}[]{}{{\"\\\\\\a, :"[..]), 0..400),
            cut in 0usize..400,
        ) {
            let mut bytes = vec![b'{'];
            bytes.extend(body);
            let expected = naive_end(&bytes);
            prop_assert_eq!(Nesting::default().advance(&bytes), expected);
            let cut = cut.min(bytes.len());
            let mut nesting = Nesting::default();
            let (head, tail) = bytes.split_at(cut);
            let found = nesting.advance(head).or_else(|| nesting.advance(tail).map(|end| cut + end));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn what_both_begin_with_ends_at_the_first_byte_that_differs() {
        for length in 0..150 {
            let one: Vec<u8> = (0..length).map(|at| at as u8).collect();
            assert_eq!(common(&one, &one), length);
            for at in 0..length {
                let mut other = one.clone();
                other[at] ^= 0x80;
                assert_eq!(common(&one, &other), at);
                assert_eq!(common(&one, &one[..at]), at);
                other.truncate(at + 1);
                assert_eq!([common(&other, &one), common(&one, &other)], [at; 2]);
            }
        }
    }
}
