//! The path of a place in an object: `spec.containers[0].image`.
//!
//! ```text
//! text, (offset of an unread member,) offset of a fault → Place {open brackets} → path, Nesting
//! ```
//!
//! Names keys and positions, never values. Every function is total, as in `cursor`: the bytes
//! before the offset are valid, except in the object of a watch event; those after it may be
//! anything.
//!
//! Upstream: `apimachinery:pkg/util/validation/field` (`Path`), made while values are walked.
//! Complexity: one look at the bytes before the offset, however deep it is.

use super::cursor::{LONGEST_CHAR, members_from, next_in, unescape, value_end};
use super::validate::{MAX_DEPTH, space};
use crate::wire::scan::{BLOCK, Nesting, filled};

/// BOUND: the number of characters of a key in a message.
const MOST_CHARS: usize = 128;
/// BOUND: the number of levels of a path that are shown, the outer ones and the inner ones.
pub(in crate::wire) const OUTER_LEVELS: usize = 24;
pub(in crate::wire) const INNER_LEVELS: usize = 8;
/// The initial capacity; most paths are shorter.
pub(in crate::wire) const USUAL_BYTES: usize = 128;
/// The replacement for levels that are not shown.
pub(in crate::wire) const LEFT_OUT: &str = "…";

/// A place in a text: the brackets that are open there.
#[derive(Debug, Default)]
pub(in crate::wire) struct Place {
    offset: usize,
    open: Vec<Open>,
    is_in_string: bool,
}

/// A bracket that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    bracket: usize,
    /// The number of commas in it so far.
    commas: usize,
    /// The offset after the last of them, or after the bracket.
    behind: usize,
}

/// Returns the path of the value at or before `offset`.
pub(crate) fn path_to(bytes: &[u8], offset: usize) -> String {
    Place::default().on(bytes, 0, offset).path(bytes)
}

impl Place {
    /// Returns the place `offset` in the object that opens at `bracket`. A member of the object, or
    /// the comma before one, is at `from`.
    pub(in crate::wire) fn within(
        bytes: &[u8],
        bracket: usize,
        from: usize,
        offset: usize,
    ) -> Self {
        let mut open = Vec::with_capacity(MAX_DEPTH as usize);
        open.push(Open {
            bracket,
            commas: 0,
            behind: from,
        });
        let place = Self {
            open,
            ..Self::default()
        };
        place.on(bytes, from, offset)
    }

    /// Returns a place in a member's value that is not in brackets.
    pub(in crate::wire) fn shallow(bracket: usize, offset: usize, is_in_string: bool) -> Self {
        let mut place = Self::within(&[], bracket, offset, offset);
        place.is_in_string = is_in_string;
        place
    }

    /// Reads the text between `from` and `offset`.
    fn on(mut self, bytes: &[u8], from: usize, offset: usize) -> Self {
        self.offset = offset;
        let mut nesting = Nesting::default();
        let before = bytes.get(from..offset.min(bytes.len()));
        for (number, block) in before.unwrap_or_default().chunks(BLOCK).enumerate() {
            let block = filled(block);
            let marks = nesting.marks(&block);
            let at = from + number * BLOCK;
            let (mut brackets, mut commas) = (marks.brackets, marks.commas);
            while brackets != 0 {
                let bit = brackets.trailing_zeros();
                brackets &= brackets - 1;
                let before = commas & ((1 << bit) - 1);
                self.commas(at, before);
                commas ^= before;
                match block[bit as usize] {
                    // BOUND: a deeper path is cut; validated text is no deeper.
                    b'{' | b'[' if self.open.len() >= MAX_DEPTH as usize => return self,
                    b'{' | b'[' => self.open.push(Open {
                        bracket: at + bit as usize,
                        commas: 0,
                        behind: at + bit as usize + 1,
                    }),
                    b'}' | b']' => {
                        self.open.pop();
                    }
                    // The scan also marks some other characters, which only strings may hold.
                    _ => {}
                }
            }
            self.commas(at, commas);
        }
        self.is_in_string = nesting.is_in_string();
        self
    }

    /// Counts commas of the block at `at`, which belong to the innermost open bracket.
    #[inline(always)]
    fn commas(&mut self, at: usize, commas: u64) {
        if commas != 0
            && let Some(open) = self.open.last_mut()
        {
            open.commas += commas.count_ones() as usize;
            open.behind = at + BLOCK - commas.leading_zeros() as usize;
        }
    }

    /// Returns the position after the bracket that closes all but `left` of the open ones; `None`
    /// if there is none.
    pub(in crate::wire) fn end(&self, bytes: &[u8], left: usize) -> Option<usize> {
        let depth = self.open.len().checked_sub(left)?;
        let before = bytes.get(..self.offset)?;
        // Whether the next byte is escaped depends on all of the backslashes before it.
        let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\');
        let from = self.offset - slashes.count();
        let mut nesting = Nesting::inside(depth as u64, self.is_in_string);
        nesting.advance(&bytes[from..]).map(|end| from + end)
    }

    /// Returns its path.
    pub(in crate::wire) fn path(&self, bytes: &[u8]) -> String {
        let mut path = String::with_capacity(USUAL_BYTES);
        let levels = self.open.len();
        let inner = levels.saturating_sub(INNER_LEVELS).max(OUTER_LEVELS);
        for (level, at) in self.open.iter().enumerate() {
            if (OUTER_LEVELS..inner).contains(&level) {
                if level == OUTER_LEVELS {
                    path.push_str(LEFT_OUT);
                }
                continue;
            }
            let is_last = level + 1 == levels;
            if bytes.get(at.bracket) == Some(&b'[') {
                let index = match is_last {
                    true => self.elements_until(bytes, at),
                    false => Some(at.commas),
                };
                if let Some(index) = index {
                    push_index(&mut path, index);
                }
                continue;
            }
            let mut members = members_from(bytes, at.behind);
            // An open value ends after `offset`, wherever that is.
            let found = match is_last {
                true => members
                    .take_while(|(key, _)| key.start <= self.offset + 1)
                    .find(|(_, value)| {
                        value_end(bytes, *value).is_none_or(|end| end >= self.offset)
                    }),
                false => members.next(),
            };
            let Some((key, _)) = found else { break };
            push_raw_key(&mut path, &bytes[key]);
        }
        path
    }

    /// Returns the index of the element at or before the place, starting from the last comma.
    fn elements_until(&self, bytes: &[u8], open: &Open) -> Option<usize> {
        let mut at = open.behind;
        for index in open.commas.. {
            // The comma before it was read, if there is one.
            let start = match index == open.commas && index > 0 {
                true => space(bytes, at),
                false => next_in(bytes, at)?,
            };
            if start > self.offset || matches!(bytes.get(start), None | Some(b']')) {
                return None;
            }
            match value_end(bytes, start) {
                Some(end) if end < self.offset => at = end,
                _ => return Some(index),
            }
        }
        None
    }
}

/// Appends an index. Most are small; where there are many, most are not.
fn push_index(path: &mut String, index: usize) {
    const SMALL: &str = "[0][1][2][3][4][5][6][7][8][9]";
    match SMALL.get(index.saturating_mul(3)..) {
        Some(from) if !from.is_empty() => path.push_str(&from[..3]),
        _ => path.push_str(&format!("[{index}]")),
    }
}

/// Appends a key as it is written.
pub(in crate::wire) fn push_raw_key(path: &mut String, key: &[u8]) {
    // BOUND: at most this much of it is shown, if every character is escaped as a surrogate pair.
    let most = 2 * LONGEST_CHAR * (MOST_CHARS + 1);
    push_key(path, &unescape(&key[..key.len().min(most)]));
}

/// Appends a key, after a dot if it is a plain name and the path is not empty.
pub(crate) fn push_key(path: &mut String, key: &str) {
    let cut = key.char_indices().nth(MOST_CHARS);
    let key = &key[..cut.map_or(key.len(), |(at, _)| at)];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'$');
    if !key.is_empty() && key.bytes().all(plain) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
        return;
    }
    let shown = |c: char| if c.is_control() { '?' } else { c };
    path.push_str("['");
    path.extend(key.chars().map(shown));
    path.push_str("']");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::cursor::{elements, open_members};
    use proptest::prelude::*;

    /// The same path, found by a new search at each level.
    fn path_by_levels(bytes: &[u8], offset: usize) -> String {
        let (mut path, mut at) = (String::new(), space(bytes, 0));
        for _ in 0..MAX_DEPTH {
            let ends = |value| value_end(bytes, value).is_none_or(|end| end >= offset);
            let mut members =
                open_members(bytes, at).take_while(|(key, _)| key.start <= offset + 1);
            let array = Open {
                bracket: at,
                commas: 0,
                behind: at + 1,
            };
            if let Some((key, value)) = members.find(|(_, value)| ends(*value)) {
                push_key(&mut path, &unescape(&bytes[key]));
                at = value;
            } else if bytes.get(at) == Some(&b'[')
                && let Some(index) = (Place {
                    offset,
                    ..Place::default()
                })
                .elements_until(bytes, &array)
            {
                path.push_str(&format!("[{index}]"));
                let mut inside = elements(bytes, at);
                let before = (0..index).filter_map(|_| inside.next()).last();
                let behind = before.map_or(at + 1, |before| before.end);
                at = next_in(bytes, behind).unwrap_or(bytes.len());
            } else {
                break;
            }
        }
        path
    }

    proptest! {
        #[test]
        fn where_a_text_breaks_is_told_as_level_by_level(
            pieces in proptest::collection::vec(proptest::sample::select(&[
                "{\"a\":", "[", "]", "}", "]", "}", ",", ",", "\"b\":", "\"c\\\"\"", " ", "1", "{}", "[]", "[1,2]", "é", "\"",
            ][..]), 0..60),
        ) {
            let text = pieces.concat();
            let bytes = text.as_bytes();
            if let Err(fault) = crate::wire::json::validate::document(bytes) {
                prop_assert_eq!(path_to(bytes, fault.at), path_by_levels(bytes, fault.at), "{} at {}", text, fault.at);
            }
        }
    }

    #[test]
    fn a_path_names_keys_and_positions() {
        let text = r#"{"a":1,"spec":{"list":[{"x":1},{"image":"!"}],"a.b/c":{"q":"?"}}}"#;
        for (mark, expected) in [
            ('!', "spec.list[1].image"),
            ('?', "spec['a.b/c'].q"),
            ('1', "a"),
        ] {
            assert_eq!(path_to(text.as_bytes(), text.find(mark).unwrap()), expected);
        }
    }
    #[test]
    fn a_path_is_as_deep_and_as_long_as_may_be_shown() {
        let check = |text: &str, expected: &str| {
            let at = text.find('!').unwrap_or(usize::MAX - 1);
            assert_eq!(path_to(text.as_bytes(), at), expected, "{text}");
        };
        check(r#"{"a":[0,{"b":[]},[1,"]",!"#, "a[2][2]");
        check(r#"{"a":{"b":1}!"#, "a");
        check(r#"{"a":[[],[0,1,2,3,4,5,6,7,8,9,10,!"#, "a[1][11]");
        check(r#"{"a":1,"b!":2}"#, "['b!']");
        check(r#"{"a":1,!"#, "");
        check(r#"{"a":1,"b"!"#, "");
        check(r#"}],{"a":!"#, "a");
        check("[", "");
        check(r#"{"a":1 "b":!"#, "b");
        check("[0 1 !", "[2]");
        check("", "");
        let most = OUTER_LEVELS + INNER_LEVELS;
        check(&format!("{}!", "[".repeat(most)), &"[0]".repeat(most));
        let shown = [
            &"[0]".repeat(OUTER_LEVELS),
            LEFT_OUT,
            &"[0]".repeat(INNER_LEVELS),
        ];
        check(&format!("{}!", "[".repeat(most + 1)), &shown.concat());
        check(&format!("{}!", "[".repeat(300)), &shown.concat());
        check(r#"{"a":{y}!"#, "a");
        let long = "k".repeat(MOST_CHARS + 1);
        check(&format!(r#"{{"{long}":!"#), &long[1..]);
        let (shown, pair) = ("\u{1f600}".repeat(MOST_CHARS), r"\ud83d\ude00");
        let key = pair.repeat(10 * MOST_CHARS);
        check(&format!(r#"{{"{key}":!"#), &format!("['{shown}']"));
    }
}
