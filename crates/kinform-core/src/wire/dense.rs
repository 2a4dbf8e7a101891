//! The validator's fast way: an array of dense JSON, 64 bytes at a time.
//!
//! ```text
//! bytes, position of `[` → array → position after its `]` | nothing: ask `wire::json`
//! ```
//!
//! `metadata.managedFields` are two fifths of what servers send, nearly all of it short keys and
//! brackets, and not kept: checked byte by byte, they cost more than all else. Without white space and
//! scalars every rule of JSON is one about a byte and the one before it, but for two: which bracket is
//! open, which takes a step for each bracket, and whether a string is a key, which an addition carries
//! from its first quote to its last. So a block is checked by some ninety operations on words.
//!
//! INVARIANT: what is accepted here, `wire::json` accepts, with the same end; the other way round not:
//! white space, scalars, escapes other than of quotes and backslashes, and what is broken, are left to it.
//! Upstream: none; the masks are those of simdjson. Complexity: linear, 64 bytes of state.

use wide::u8x16;

use super::scan::{BLOCK, escaped_bytes, filled, prefix_xor};

/// BOUND: levels inside of the array; with those around it fewer than `json::MAX_DEPTH`.
const MAX_LEVELS: u32 = 64;

/// Position after the array whose `[` is at `at`, if it is dense and sound. At most sixty levels may be
/// open around it.
pub(crate) fn array(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..).filter(|rest| rest.first() == Some(&b'['))?;
    let (blocks, tail) = rest.as_chunks();
    let mut dense = Dense::default();
    for (number, block) in blocks.iter().enumerate() {
        if let Block::Ends(length) = dense.block(block)? {
            return Some(at + number * BLOCK + length);
        }
    }
    match dense.block(&filled(tail))? {
        Block::Ends(length) => Some(at + blocks.len() * BLOCK + length),
        Block::GoesOn => None,
    }
}

enum Block {
    GoesOn,
    /// The array ends after so many bytes of it.
    Ends(usize),
}

/// What is known of the bytes before a block.
#[derive(Debug, Default)]
struct Dense {
    /// One bit a level, the innermost lowest: 1 is an object.
    levels: u64,
    depth: u32,
    /// All bits, if the block begins in a string.
    in_string: u64,
    /// One, if that string is a key.
    in_key: u64,
    is_escaped: bool,
    last: Last,
}

/// What the last byte was: at most one of these is one.
#[derive(Debug, Default)]
struct Last {
    curly: u64,
    square: u64,
    colon: u64,
    comma_in_object: u64,
    comma_in_array: u64,
    key_end: u64,
    value_end: u64,
}

/// What brackets say of a block.
struct Context {
    /// Bytes that are directly inside of an object.
    objects: u64,
    /// Bytes of the array.
    inside: u64,
}

impl Dense {
    /// Checks a block; nothing, if it is not for us.
    fn block(&mut self, block: &[u8; BLOCK]) -> Option<Block> {
        let Masks {
            quotes,
            backslashes,
            colons,
            commas,
            mut brackets,
            controls,
        } = Masks::of(block);
        let escaped = escaped_bytes(backslashes, &mut self.is_escaped);
        let strings = prefix_xor(quotes & !escaped) ^ self.in_string;
        let openers = quotes & !escaped & strings;
        let closers = quotes & !escaped & !strings;
        let outside = !strings & !closers;
        let (colons, commas) = (colons & outside, commas & outside);
        brackets.keep(outside);
        let context = self.nest(&brackets)?;
        let Brackets {
            curly,
            square,
            curly_ends,
            square_ends,
        } = brackets;
        let (opens, closes) = (curly | square, curly_ends | square_ends);
        let comma_in_object = commas & context.objects;
        let comma_in_array = commas & !context.objects;

        let last = &self.last;
        let after_curly = curly << 1 | last.curly;
        let after_square = square << 1 | last.square;
        let after_colon = colons << 1 | last.colon;
        let after_member = comma_in_object << 1 | last.comma_in_object;
        let after_element = comma_in_array << 1 | last.comma_in_array;
        // Added to the first bit of a string, one is carried to the place after its last.
        let keys = openers & (after_curly | after_member) | self.in_key;
        let (carried, is_key_open) = strings.overflowing_add(keys);
        let key_ends = carried & closers;
        let value_ends = closers & !key_ends | closes;
        let after_value = value_ends << 1 | last.value_end;
        let after_key = key_ends << 1 | last.key_end;

        let wrong = outside & !(colons | commas | opens | closes)
            | after_curly & !(openers | curly_ends)
            | after_square & !(openers | opens | square_ends)
            | (after_colon | after_element) & !(openers | opens)
            | after_member & !openers
            | after_value & !(commas | closes)
            | after_key ^ colons
            | escaped & !(quotes | backslashes)
            | controls;
        if wrong & context.inside != 0 {
            return None;
        }
        if self.depth == 0 {
            return Some(Block::Ends(BLOCK - context.inside.leading_zeros() as usize));
        }
        self.in_string = (strings >> 63).wrapping_neg();
        self.in_key = u64::from(is_key_open);
        self.last = Last {
            curly: curly >> 63,
            square: square >> 63,
            colon: colons >> 63,
            comma_in_object: comma_in_object >> 63,
            comma_in_array: comma_in_array >> 63,
            key_end: key_ends >> 63,
            value_end: value_ends >> 63,
        };
        Some(Block::GoesOn)
    }

    /// Follows the brackets of a block, up to the one that closes the array; nothing, if they do not match.
    fn nest(&mut self, brackets: &Brackets) -> Option<Context> {
        let Brackets {
            curly,
            square,
            curly_ends,
            square_ends,
        } = brackets;
        // What is empty, as most of what managedFields open, changes nothing.
        let empty = match self.depth {
            0 => 0,
            _ => curly & curly_ends >> 1 | square & square_ends >> 1,
        };
        let all = curly | square | curly_ends | square_ends;
        let mut left = all & !(empty | empty << 1);
        let (mut objects, mut from) = (0, u64::MAX);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            objects |= self.in_object() & from & (bit - 1);
            from = bit.wrapping_neg();
            if bit & (curly | square) != 0 {
                if self.depth == MAX_LEVELS {
                    return None;
                }
                self.levels = self.levels << 1 | u64::from(bit & curly != 0);
                self.depth += 1;
            } else {
                if (bit & curly_ends != 0) != (self.levels & 1 == 1) {
                    return None;
                }
                self.levels >>= 1;
                self.depth = self.depth.checked_sub(1)?;
                if self.depth == 0 {
                    let inside = bit | (bit - 1);
                    return Some(Context { objects, inside });
                }
            }
            left ^= bit;
        }
        objects |= self.in_object() & from;
        Some(Context {
            objects,
            inside: u64::MAX,
        })
    }

    /// All bits, if the innermost level is an object.
    fn in_object(&self) -> u64 {
        (self.levels & 1).wrapping_neg()
    }
}

struct Brackets {
    curly: u64,
    square: u64,
    curly_ends: u64,
    square_ends: u64,
}

impl Brackets {
    fn keep(&mut self, bytes: u64) {
        self.curly &= bytes;
        self.square &= bytes;
        self.curly_ends &= bytes;
        self.square_ends &= bytes;
    }
}

/// Where in a block the bytes are that matter.
struct Masks {
    quotes: u64,
    backslashes: u64,
    colons: u64,
    commas: u64,
    brackets: Brackets,
    controls: u64,
}

impl Masks {
    #[inline(always)]
    fn of(block: &[u8; BLOCK]) -> Self {
        let lanes = block.as_chunks().0;
        let lanes: [u8x16; 4] = std::array::from_fn(|at| u8x16::new(lanes[at]));
        let equal = |byte: u8| lanes.map(|lane| lane.simd_eq(u8x16::splat(byte)));
        // `[` and `{`, `]` and `}` differ in one bit only, and in no other pair is it set.
        let folded = lanes.map(|lane| lane | u8x16::splat(0x20));
        let bracket = |byte: u8| mask(folded.map(|lane| lane.simd_eq(u8x16::splat(byte))));
        let (opens, closes) = (bracket(b'{'), bracket(b'}'));
        let mut brackets = Brackets {
            curly: opens,
            square: 0,
            curly_ends: closes,
            square_ends: 0,
        };
        let (square, square_ends) = (equal(b'['), equal(b']'));
        if any(square) | any(square_ends) != 0 {
            brackets.square = mask(square);
            brackets.curly ^= brackets.square;
            brackets.square_ends = mask(square_ends);
            brackets.curly_ends ^= brackets.square_ends;
        }
        // Few blocks have one of these.
        let seldom = |lanes: [u8x16; 4]| match any(lanes) {
            0 => 0,
            _ => mask(lanes),
        };
        let is_control = |lane: u8x16| lane.min(u8x16::splat(0x1f)).simd_eq(lane);
        Self {
            quotes: mask(equal(b'"')),
            backslashes: seldom(equal(b'\\')),
            colons: mask(equal(b':')),
            commas: mask(equal(b',')),
            brackets,
            controls: seldom(lanes.map(is_control)),
        }
    }
}

#[inline(always)]
fn mask(lanes: [u8x16; 4]) -> u64 {
    let bits = lanes.map(|lane| u64::from(lane.to_bitmask()));
    bits[0] | bits[1] << 16 | bits[2] << 32 | bits[3] << 48
}

#[inline(always)]
fn any(lanes: [u8x16; 4]) -> u32 {
    (lanes[0] | lanes[1] | lanes[2] | lanes[3]).to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json;
    use crate::wire::scan::Stops;
    use proptest::prelude::*;

    /// What is accepted ends where the validator says; returns whether it is.
    fn check(text: &str) -> bool {
        let bytes = text.as_bytes();
        let Some(end) = array(bytes, 0) else {
            return false;
        };
        assert_eq!(json::value(&mut Stops::new(bytes), 0, 2), Ok(end), "{text}");
        true
    }

    #[test]
    fn dense_arrays_are_accepted_wherever_blocks_begin() {
        let texts = [
            "[]",
            "[[]]",
            "[{}]",
            "[\"\"]",
            "[\"a\",\"b\"]",
            "[[],[[\"a\"],{}],{}]",
            "[{\"a\":{}},{\"a\":[],\"b\":\"c\"}]",
            "[{\"k:{\\\"type\\\":\\\"]}\\\\\\\"}\":{\".\":{},\"f:é\":{}}}]",
            "[{\"manager\":\"m\",\"operation\":\"Update\",\"fieldsV1\":{\"f:spec\":{\"f:x\":{},\"f:y\":{\".\":{}}}}}]",
        ];
        for text in texts {
            for shift in 0..2 * BLOCK {
                let text = format!("[\"{}\",{text}]", "x".repeat(shift));
                assert!(check(&text), "{text}");
                for after in [",{\"b\":1}", "}\n", &" ".repeat(BLOCK)] {
                    let text = format!("{text}{after}");
                    assert!(check(&text) || after.contains('\n'), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_is_broken_or_loose_is_left_to_the_validator() {
        let texts = [
            "",
            "[",
            "[}",
            "[{]",
            "[{]}",
            "[,]",
            "[\"a\",]",
            "[{},]",
            "[{,}]",
            "[{\"a\"}]",
            "[{\"a\":}]",
            "[{\"a\":\"b\":\"c\"}]",
            "[{\"a\":{},}]",
            "[{\"a\":{}{}}]",
            "[{\"a\",\"b\"}]",
            "[\"a\":\"b\"]",
            "[\"a\"\"b\"]",
            "[[]\"a\"]",
            "[{}[]]",
            "[{{}}]",
            "[{[]}]",
            "[:]",
            "[\"\\n\"]",
            "[\"\\x\"]",
            "[\"\\u0041\"]",
            "[\"\t\"]",
            "[ ]",
            "[1]",
            "[null]",
            "[{\"a\": {}}]",
            "[\\\"\"]",
            "[{\"a\":{}:{}}]",
            "[{\"a\":[\"b\":{}]}]",
            "[{\"a\":{\"b\"},\"c\":{}}]",
        ];
        assert_eq!(array(b"{}", 0), None);
        for text in texts {
            assert_eq!(array(text.as_bytes(), 0), None, "{text}");
            if text.len() < 2 {
                continue;
            }
            for shift in 0..2 * BLOCK {
                let text = format!("[\"{}\",{text}]", "x".repeat(shift));
                assert!(!check(&text), "{text}");
            }
        }
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check(&deep(64)) && check(&deep(65)) && !check(&deep(66)));
    }

    #[test]
    fn any_byte_of_it_that_changes_is_noticed_as_the_validator_notices_it() {
        let entry = "{\"manager\":\"m\",\"fieldsV1\":{\"f:status\":{\"k:{\\\"type\\\":\\\"Ready\\\"}\":{\".\":{},\"f:x\":{}},\"f:y\":[\"z\",[]]}}}";
        let text = format!("[{entry},{entry}]");
        assert!(check(&text));
        for at in 0..text.len() {
            for byte in *b"{}[]:,\"\\ 0a\n" {
                let mut bytes = text.clone().into_bytes();
                bytes[at] = byte;
                check(&String::from_utf8(bytes).unwrap());
            }
            let mut bytes = text.clone();
            bytes.remove(at);
            check(&bytes);
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_what_the_validator_accepts(
            tokens in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ":", ",", "\"a\"", "\"long enough to cross a block\"", "\"\\\"\\\\\"", "\\", "\"",
                    "\"a\":", "{\"a\":[", "]}", "{}", "[]", "\"a\":{},", "{\"a\":\"b\"}", ",\"c\":{\"d\":{}}",
                ]),
                0..60,
            ),
        ) {
            check(&format!("[{}", tokens.concat()));
        }
    }
}
