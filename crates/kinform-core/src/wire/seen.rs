//! What arrays of one list have in common, block by block: checked once, compared from then on.
//!
//! ```text
//! block, its number, all before it remembered ─▶ Seen ─▶ the same as then: no check │ another: check, remember
//! ```
//!
//! Objects of a list are alike, and their managedFields most of all: replicas have the same fields, and their times
//! and uids are of one length. What a block leads to depends on its bytes and on what was known before it, and on
//! nothing else; so where both are as they were, what it leads to is known. One array is remembered, not several:
//! lists come in the order of keys, in which replicas are neighbours.
//!
//! What is not managedFields is remembered by its brackets (`brackets`), since it is seldom of one length.
//!
//! INVARIANT: a state is what its block leads to from the state before it, the first from the beginning.
//! Upstream: none. Complexity: a comparison of 64 bytes in place of a check.

use super::brackets::Values;
use super::dense::Dense;
use super::scan::BLOCK;

/// BOUND: blocks remembered, some 40 KiB; what is behind them is checked each time.
const MOST: usize = 256;

/// The blocks of the arrays that were checked before, and what was known after each.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    blocks: Vec<[u8; BLOCK]>,
    states: Vec<Dense>,
    most: usize,
    /// What is not managedFields.
    pub(super) values: Values,
}

impl Seen {
    /// For arrays that are alike. The default remembers nothing.
    pub(crate) fn new() -> Self {
        Self {
            most: MOST,
            values: Values::new(),
            ..Self::default()
        }
    }

    /// Whether this was the block at that place.
    #[inline(always)]
    pub(super) fn has(&self, number: usize, block: &[u8; BLOCK]) -> bool {
        self.blocks.get(number) == Some(block)
    }

    /// What is known before that block, all blocks before it being the remembered ones.
    pub(super) fn before(&self, number: usize) -> Dense {
        let last = number.checked_sub(1).and_then(|last| self.states.get(last));
        last.cloned().unwrap_or_default()
    }

    /// Remembers a block, if all before it are remembered, and says whether it is.
    pub(super) fn put(&mut self, number: usize, block: &[u8; BLOCK], after: &Dense) -> bool {
        if number >= self.most {
            return false;
        }
        if self.states.get(number) == Some(after) {
            self.blocks[number] = *block;
            return true;
        }
        // What is behind it was led to by another state.
        self.blocks.truncate(number);
        self.states.truncate(number);
        self.blocks.push(*block);
        self.states.push(after.clone());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::dense::array;
    use proptest::prelude::*;

    /// Each array ends where it would if none was seen before it.
    fn check<'a>(texts: impl IntoIterator<Item = &'a str>) -> Seen {
        let mut seen = Seen::new();
        for text in texts {
            let bytes = text.as_bytes();
            let alone = array(bytes, 0, &mut Seen::default());
            assert_eq!(array(bytes, 0, &mut seen), alone, "{text}");
            assert!(seen.blocks.len() <= MOST && seen.blocks.len() == seen.states.len());
        }
        seen
    }

    /// A piece that fills a block: `#` stands for as many letters as are missing.
    fn block(piece: &str) -> String {
        let missing = BLOCK + 1 - piece.len();
        piece.replacen('#', &"x".repeat(missing), 1)
    }

    #[test]
    fn what_is_alike_is_remembered_and_what_differs_is_checked() {
        let array = |piece: &str| {
            let blocks = [
                r##"[{"a":"#"},"##,
                piece,
                r##"{"b":"#"},"##,
                r##"{"c":"#"}]"##,
            ];
            blocks.map(block).concat()
        };
        let (one, same_form) = (array(r##"{"k":"#"},"##), array(r##"{"m":"#"},"##));
        let (other_form, broken) = (array(r##"["k","#"],"##), array(r##"{"k":["#"},"##));
        assert_eq!(check([&*one, &same_form, &one]).blocks.len(), 3);
        for order in [
            [&one, &other_form, &one, &broken, &one],
            [&broken, &one, &broken, &same_form, &other_form],
            [&one, &broken, &broken, &other_form, &broken],
        ] {
            check(order.map(String::as_str));
        }
    }

    #[test]
    fn what_followed_another_block_is_forgotten_with_it() {
        let pieces = [r##"[{"a":"#"},"##, r##"["#",["##, r##"{"k":"#"##, "#"];
        let [open, list, string, letters] = pieces.map(block);
        let long = format!("{open}{string}{letters}\"}}]");
        // The same beginning, and an end before the place where the long one goes on.
        let short = format!("{open}{list}]]]");
        let mixed = format!("{open}{list}{letters}\"}}]");
        assert!(array(long.as_bytes(), 0, &mut Seen::default()).is_some());
        check([&*long, &short, &mixed, &long, &mixed]);
    }

    #[test]
    fn of_a_long_array_the_first_blocks_are_remembered() {
        let element = block(r##"{"a":"#"},"##);
        let long = format!("[{}{{}}]", element.repeat(2 * MOST));
        let seen = check([&*long, &long, &long.replace("{}]", "[]]"), &long]);
        assert_eq!(seen.blocks.len(), MOST);
        assert_eq!(check(["[]", "[[]]", "[\"a\"]"]).blocks.len(), 0);
    }

    proptest! {
        #[test]
        fn arrays_end_where_they_would_alone(
            arrays in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::sample::select(vec![
                        r##"{"a":"#"},"##, r##"{"b":"#"},"##, r##"{"a":{"#":{}"##, r##"},"b":["#"]},"##, r##"["#","##,
                        r##""#"],"##, r##"["a",{"#":"##, r##"{}},"#","##, r##"x#"##, r##"#","##, r##"#\"##, r##"\"#"##,
                        r##""#":"##, r##"}#"##, r##"]#"##, r##"{},"#","##, r##""a","#"]"##, r##""a":"#"}]"##,
                    ]),
                    0..6,
                ),
                1..8,
            ),
        ) {
            let begin = |pieces: &Vec<&str>| format!("[{}", &pieces.iter().copied().map(block).collect::<String>());
            let texts: Vec<_> = arrays.iter().map(begin).collect();
            check(texts.iter().map(|text| &**text));
        }
    }
}
