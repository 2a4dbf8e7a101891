//! Counts the elements of a list before its first one is decoded.
//!
//! ```text
//! text, position of `[` ─▶ Lengths ─▶ number of elements
//!                             └── outermost list: one walk, which also counts every list in it
//!                                 and keeps the masks of its quotes
//! ```
//!
//! Types allocate as many elements as the list reports. Callers ask for lists in the order of the
//! text, so the results of one walk are returned one after the other; lists that a caller skips are
//! passed over.
//!
//! INVARIANT: a length is of the list at the position asked for; a list that the walk did not
//! record is counted by another walk.
//! Upstream: none; `encoding/json` lets lists grow. Complexity: one look at the bytes of a list,
//! however deep; one more at those after the first [`MOST`] lists.

use smallvec::SmallVec;

use super::validate::{self, Fault, MAX_DEPTH};
use crate::wire::scan::{BLOCK, Nesting, filled};

/// BOUND: lists remembered at a time.
const MOST: usize = 1 << 10;
/// The initial capacity for blocks: enough for most objects.
const AT_ONCE: usize = 128;

/// The lists inside the outermost list that was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    known: SmallVec<[List; 24]>,
    next: usize,
    /// The offset at which the walk began; `stops` are the quotes and backslashes of its blocks.
    from: usize,
    /// BOUND: a bit for each byte of the text.
    stops: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct List {
    open: usize,
    len: usize,
}

/// A list that the walk is in: its index in `known`, and its elements so far.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    number: usize,
    len: usize,
}

impl Counted {
    /// Adds one element per comma. A block has few, so a loop is fast enough.
    #[inline(always)]
    fn add(&mut self, mut commas: u64) {
        while commas != 0 {
            commas &= commas - 1;
            self.len += 1;
        }
    }
}

impl Lengths {
    /// Returns the number of elements of the list whose bracket is at `open`. Positions must rise
    /// from call to call.
    ///
    /// # Errors
    /// The text ends before the list does.
    #[inline(never)]
    pub(crate) fn of(&mut self, bytes: &[u8], open: usize) -> Result<usize, Fault> {
        let inside = validate::space(bytes, open + 1);
        if bytes.get(inside) == Some(&b']') {
            return Ok(0);
        }
        let passed = self.known[self.next..].iter();
        self.next += passed.take_while(|list| list.open < open).count();
        match self.known.get(self.next) {
            Some(list) if list.open == open => {}
            _ => self.walk(bytes, open, inside)?,
        }
        self.next += 1;
        Ok(self.known[self.next - 1].len)
    }

    /// Returns the block of `at`, if the last walk saw it: its offset, and its quotes and
    /// backslashes.
    #[inline(always)]
    pub(crate) fn stops(&self, at: usize) -> Option<(usize, u64)> {
        let seen = at.checked_sub(self.from)?;
        let mask = *self.stops.get(seen / BLOCK)?;
        Some((at - seen % BLOCK, mask))
    }

    /// Counts the list, which is not empty, and the lists in it, by the brackets and commas outside
    /// of strings.
    fn walk(&mut self, bytes: &[u8], open: usize, inside: usize) -> Result<(), Fault> {
        self.known.clear();
        self.next = 0;
        self.from = inside;
        self.stops.clear();
        let blocks = bytes.len().saturating_sub(inside).div_ceil(BLOCK);
        self.stops.reserve(blocks.min(AT_ONCE));
        let mut nesting = Nesting::default();
        // A flag per open value, set if commas in it are counted: of the innermost, and of those
        // around.
        let (mut is_list, mut around, mut depth) = (true, 0_u128, 0);
        let mut lists = SmallVec::<[Counted; 8]>::new();
        let mut list = self.begin(open);
        let mut at = inside;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let marks = match rest.first_chunk() {
                Some(block) => nesting.marks(block),
                None => nesting.marks(&filled(rest)),
            };
            self.stops.push(marks.stops);
            let mut brackets = marks.brackets;
            let mut commas = marks.commas;
            while brackets != 0 {
                let bit = brackets.trailing_zeros();
                brackets &= brackets - 1;
                let before = commas & ((1 << bit) - 1);
                commas ^= before;
                if is_list {
                    list.add(before);
                }
                // Of the four brackets only the two opening ones have this bit.
                let place = at + bit as usize;
                if bytes.get(place).is_some_and(|bracket| bracket & 2 == 2) {
                    if depth >= MAX_DEPTH {
                        return Err(validate::too_deep(at));
                    }
                    depth += 1;
                    around = around << 1 | u128::from(is_list);
                    is_list = self.is_counted(bytes, place);
                    if is_list {
                        let inner = self.begin(place);
                        lists.push(std::mem::replace(&mut list, inner));
                    }
                    continue;
                }
                if is_list {
                    self.known[list.number].len = list.len;
                    list = lists.pop().unwrap_or_default();
                }
                if depth == 0 {
                    return Ok(());
                }
                depth -= 1;
                (is_list, around) = (around & 1 == 1, around >> 1);
            }
            if is_list {
                list.add(commas);
            }
            at += BLOCK;
        }
        Err(validate::ends(bytes.len()))
    }

    /// Returns whether the bracket at `open` begins a list that is not empty, and there is room for
    /// it.
    #[inline(always)]
    fn is_counted(&self, bytes: &[u8], open: usize) -> bool {
        bytes[open] == b'['
            && bytes.get(validate::space(bytes, open + 1)) != Some(&b']')
            && self.known.len() < MOST
    }

    /// Records a list that begins here and is not empty.
    fn begin(&mut self, open: usize) -> Counted {
        self.known.push(List { open, len: 1 });
        Counted {
            number: self.known.len() - 1,
            len: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The lists of a value in the order of its text.
    fn lists(value: &Value, found: &mut Vec<usize>) {
        match value {
            Value::Array(items) => {
                found.push(items.len());
                items.iter().for_each(|item| lists(item, found));
            }
            Value::Object(members) => members.values().for_each(|value| lists(value, found)),
            _ => {}
        }
    }

    /// The positions of brackets that open a list.
    fn opens(text: &str) -> Vec<usize> {
        let mut is_inside = false;
        let mut escaped = false;
        let mut found = Vec::new();
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => is_inside = !is_inside,
                b'[' if !is_inside => found.push(at),
                _ => {}
            }
        }
        found
    }

    /// Asks for every list but those of `passed_over`.
    fn check(text: &str, passed_over: impl Fn(usize) -> bool) {
        let mut expected = Vec::new();
        lists(&serde_json::from_str(text).unwrap(), &mut expected);
        let mut lengths = Lengths::default();
        for (number, (open, expected)) in opens(text).into_iter().zip(expected).enumerate() {
            if !passed_over(number) {
                let found = lengths.of(text.as_bytes(), open).unwrap();
                assert_eq!(found, expected, "{text} at {open}");
            }
        }
        assert!(lengths.known.len() <= MOST);
    }

    #[test]
    fn every_list_is_as_long_as_it_is() {
        for text in [
            "[]",
            " [ ] ",
            "[1]",
            r#"{"a":[1,[2,3,{"b":[ ],"c":[[]]}],{}],"d":["]",",\"[",4 , 5]}"#,
            r#"[[[],[ [ 1 , 2 ] , 3 ]],{"a":{"b":1,"c":2},"d":3},-1.5e3,true,null]"#,
        ] {
            check(text, |_| false);
            check(text, |number| number % 2 == 1);
            check(text, |number| number % 3 == 0);
        }
    }

    #[test]
    fn more_lists_than_are_remembered_are_counted_all_the_same() {
        let flat = format!("[{}]", vec!["[[1,2],3,[]]"; MOST].join(","));
        check(&flat, |_| false);
        check(&flat, |number| number % 5 == 1);
        let deep = format!(
            "{}{}",
            "[0,".repeat(126),
            "[1,2]".to_owned() + &"]".repeat(126)
        );
        check(&deep, |_| false);
    }

    #[test]
    fn what_ends_in_the_middle_is_a_fault() {
        let len = |text: &str| Lengths::default().of(text.as_bytes(), 0).ok();
        for text in ["[", "[1,", "[{\"a\":[1]", "[\""] {
            assert_eq!(len(text), None, "{text}");
        }
        // The walk does not check that brackets match; the reader does.
        assert_eq!(len("[1}"), Some(1));
        let deep = "[".repeat(100_000);
        assert!(Lengths::default().of(deep.as_bytes(), 0).is_err());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i32>().prop_map(Value::from),
            r#"[\[\]{},:"\\ é]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map("[a-c\\[,]{0,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_tells_its_lengths(value in values(), skipped in any::<u64>(), pretty: bool) {
            let text = match pretty {
                true => serde_json::to_string_pretty(&value).unwrap(),
                false => value.to_string(),
            };
            check(&text, |number| skipped >> (number % 64) & 1 == 1);
        }

        #[test]
        fn any_bytes_are_walked_to_an_end(
            body in proptest::collection::vec(proptest::sample::select(&b"{}[]\"\\a, :"[..]), 0..60),
        ) {
            let mut lengths = Lengths::default();
            for open in 0..body.len() {
                let _ = lengths.of(&body, open);
            }
        }
    }
}
