//! A validated value with the positions of its brackets and leaves, for comparison with later
//! values.
//!
//! ```text
//! valid value ─▶ learn ─▶ text ┬ brackets, in order: start, end, the next one after its end
//!                              └ leaves, in order: texts, keys too, numbers and words
//! another value ─▶ follow ─▶ its end, if only leaves differ │ the first place where more differs
//! ```
//!
//! A value with the same brackets, commas and colons in the same order is as valid as the template,
//! provided that its leaves are valid. Values of a list differ mostly in leaves, such as names and
//! times. So a leaf that differs is validated, and the comparison continues after both.
//!
//! INVARIANT: the template was validated at the nesting depth of the values that are compared with
//! it.
//! BOUND: 32 KiB, 2,048 brackets and 4,096 leaves. Upstream: none.
//! Complexity: linear; the equal beginning of a leaf that differs is read twice.

use std::ops::Range;

use smallvec::SmallVec;

use super::validate::{scalar, space, string};
use crate::wire::scan::{Stops, common};

/// BOUND: bytes of a template.
pub(in crate::wire) const MOST_BYTES: usize = 32 << 10;
/// BOUND: brackets of a template.
pub(in crate::wire) const MOST_BRACKETS: usize = 2 << 10;
/// BOUND: leaves of a template. Bytes after the last of these must be equal.
const MOST_LEAVES: usize = 4 << 10;

/// A validated value. The default resembles no value.
#[derive(Debug, Default)]
pub(in crate::wire) struct Template {
    pub(in crate::wire) text: Vec<u8>,
    pub(in crate::wire) brackets: Vec<Bracket>,
    leaves: Vec<Leaf>,
}

/// A value in brackets that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) struct Bracket {
    pub(in crate::wire) start: u32,
    pub(in crate::wire) end: u32,
    /// The index of the first bracket that begins after this one's end.
    pub(in crate::wire) next: u32,
}

impl Bracket {
    pub(in crate::wire) fn length(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A text with its quotes, a number or a word.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    start: u32,
    end: u32,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A text without escapes.
    Plain,
    Escaped,
    Scalar,
}

/// The extent to which a value matches a template: the number of bytes that were only compared, and
/// the place to go on at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::wire) enum Like {
    /// The value differs in leaves only, and ends before this position.
    All { end: usize, compared: usize },
    /// The value is valid up to the end of a value inside it.
    Begin {
        /// The position after that inner value.
        at: usize,
        /// The corresponding position in the template.
        at_template: usize,
        compared: usize,
    },
    /// The value differs at a place that is not the end of an inner value; `read` bytes were read.
    Nothing { read: usize },
}

impl Template {
    /// Learns a valid value; a value that is too large matches no other.
    pub(in crate::wire) fn learn(&mut self, text: &[u8]) {
        self.text.clear();
        self.brackets.clear();
        self.leaves.clear();
        if text.len() <= MOST_BYTES {
            self.text.extend_from_slice(text);
            if self.read().is_none() {
                self.brackets.clear();
                self.leaves.clear();
            }
        }
    }

    fn read(&mut self) -> Option<()> {
        let mut stops = Stops::new(&self.text);
        let mut open: SmallVec<[usize; 16]> = SmallVec::new();
        let mut at = 0;
        while let Some(&byte) = self.text.get(at) {
            match byte {
                b'"' => {
                    let (end, is_escaped) = string(&mut stops, at).ok()?;
                    let form = match is_escaped {
                        true => Form::Escaped,
                        false => Form::Plain,
                    };
                    put(&mut self.leaves, at..end, form);
                    at = end;
                }
                b'{' | b'[' => {
                    let start = at as u32;
                    at = space(&self.text, at + 1);
                    // `{` and `}`, `[` and `]` are two apart.
                    if self.text.get(at) == Some(&(byte + 2)) {
                        at += 1;
                        continue;
                    }
                    if self.brackets.len() == MOST_BRACKETS {
                        return None;
                    }
                    open.push(self.brackets.len());
                    let (end, next) = (start, 0);
                    self.brackets.push(Bracket { start, end, next });
                }
                b'}' | b']' => {
                    at += 1;
                    let next = self.brackets.len() as u32;
                    let closed = self.brackets.get_mut(open.pop()?)?;
                    (closed.end, closed.next) = (at as u32, next);
                }
                b',' | b':' | b' ' | b'\n' | b'\t' | b'\r' => at += 1,
                _ => {
                    let end = scalar(&self.text, at).ok()?;
                    put(&mut self.leaves, at..end, Form::Scalar);
                    at = end;
                }
            }
        }
        open.is_empty().then_some(())
    }

    /// Compares the value at `at` with the whole template.
    pub(in crate::wire) fn follow_all(&self, stops: &mut Stops<'_>, at: usize) -> Like {
        let all = self.brackets.first();
        let nothing = Like::Nothing { read: 0 };
        all.map_or(nothing, |all| self.follow(stops, at, *all))
    }

    /// Compares the value at `at` with a bracketed value of the template.
    pub(in crate::wire) fn follow(
        &self,
        stops: &mut Stops<'_>,
        mut at: usize,
        brackets: Bracket,
    ) -> Like {
        let (bytes, start) = (stops.bytes(), at);
        let (mut at_template, end) = (brackets.start as usize, brackets.end as usize);
        let (mut compared, mut leaves) = (0, None);
        loop {
            let same = common(&self.text[at_template..end], &bytes[at..]);
            (at_template, at, compared) = (at_template + same, at + same, compared + same);
            if at_template == end {
                return Like::All { end: at, compared };
            }
            let leaves = leaves.get_or_insert_with(|| self.leaves_behind(brackets.start).iter());
            let leaf = leaves.find(|leaf| leaf.end as usize >= at_template);
            // The number of equal bytes of the leaf: at least the quote of a text.
            let met =
                leaf.and_then(|leaf| Some((leaf, at_template.checked_sub(leaf.start as usize)?)));
            let read = at - start;
            let begin = Like::Begin {
                at,
                at_template,
                compared,
            };
            let Some((leaf, same)) = met else {
                return self.between(begin, at_template, read);
            };
            let end = match leaf.form {
                Form::Scalar => scalar(bytes, at - same),
                _ if at_template == leaf.end as usize => {
                    return self.between(begin, at_template, read);
                }
                _ if same == 0 => return Like::Nothing { read },
                // No escape begins in the equal bytes.
                Form::Plain => string(stops, at - 1).map(|(end, _)| end),
                Form::Escaped => string(stops, at - same).map(|(end, _)| end),
            };
            let end = match end {
                Ok(end) => end,
                Err(fault) => {
                    let read = read.max(fault.at.saturating_sub(start));
                    return Like::Nothing { read };
                }
            };
            (at, at_template, compared) = (end, leaf.end as usize, compared - same);
        }
    }

    /// Handles a difference in more than leaves: returns `begin` if a value has just ended there.
    fn between(&self, begin: Like, at_template: usize, read: usize) -> Like {
        // Otherwise the place may be inside a leaf that is not recorded.
        let is_between = self.leaves.len() < MOST_LEAVES;
        let before = self.text[..at_template].trim_ascii_end().last();
        match (before, self.text.get(at_template)) {
            // No value has ended inside an empty value.
            (Some(b'{' | b'['), _) => Like::Nothing { read },
            (_, Some(b',' | b'}' | b']')) if is_between => begin,
            _ => Like::Nothing { read },
        }
    }

    fn leaves_behind(&self, start: u32) -> &[Leaf] {
        let before = self.leaves.partition_point(|leaf| leaf.end <= start);
        &self.leaves[before..]
    }
}

fn put(leaves: &mut Vec<Leaf>, span: Range<usize>, form: Form) {
    if leaves.len() < MOST_LEAVES {
        let (start, end) = (span.start as u32, span.end as u32);
        leaves.push(Leaf { start, end, form });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::validate;
    use crate::wire::json::walk::Walk;
    use proptest::prelude::*;

    /// A value that matches, wholly or in part, ends where the validator says.
    fn follow(template: &str, text: &str) -> Option<usize> {
        let mut learnt = Template::default();
        learnt.learn(template.as_bytes());
        let (stops, alone) = (
            &mut Stops::new(text.as_bytes()),
            Stops::new(text.as_bytes()),
        );
        let walked = validate::value_with(stops, 0, 1, &mut Walk::along(&learnt));
        assert_eq!(
            walked,
            validate::value(&mut { alone }, 0, 1),
            "{template} {text}"
        );
        let stops = &mut Stops::new(text.as_bytes());
        let Like::All { end, compared } = learnt.follow_all(stops, 0) else {
            return None;
        };
        let alone = validate::value(&mut Stops::new(text.as_bytes()), 0, 1);
        assert_eq!(alone, Ok(end), "{template} {text}");
        assert!(compared <= end);
        Some(compared)
    }

    #[test]
    fn what_differs_in_leaves_is_followed_and_only_they_are_checked() {
        let one = r#"{"name":"web-1","at":[1,{"on":true}],"k:{\"a\"}":{},"n":null}"#;
        assert_eq!(follow(one, one), Some(one.len()));
        let check = |from: &str, to: &str, differing: Option<usize>| {
            let other = one.replace(from, to);
            assert_ne!(one, other);
            let expected = differing.map(|bytes| other.len() - bytes);
            assert_eq!(follow(one, &other), expected, "{other}");
            assert_eq!(follow(one, &format!("{other},[7")), expected, "{other}");
        };
        // The equal bytes of a leaf are validated, too.
        check("web-1", "web-2", Some("\"web-2\"".len()));
        check("web-1", "web", Some("\"web\"".len()));
        check("web-1", "web-1-é", Some("\"web-1-é\"".len()));
        check("web-1", "", Some("\"\"".len()));
        check("web-1", "web\\u0000", Some("\"web\\u0000\"".len()));
        check("name", "title", Some("\"title\"".len()));
        check("1,", "-17e2,", Some("-17e2".len()));
        check("1,", "12,", Some("12".len()));
        check("true", "false", Some("false".len()));
        check("null", "0", Some("0".len()));
        check(r#"\"a\""#, r#"\"b"#, Some(r#""k:{\"b}""#.len()));
        for (from, to) in [
            ("web-1", "web\\x"),
            ("web-1", "web\\"),
            ("web-1", "a\tb"),
            ("\"web-1\"", "7"),
            ("\"web-1\"", "{}"),
            ("\"name\"", "7"),
            ("1,", "01,"),
            ("1,", "\"1\","),
            ("1,", "1 ,"),
            ("1,", "1,2,"),
            ("1,", "[],"),
            ("true", "[true]"),
            ("true", "tru"),
            ("{}", "{\"a\":1}"),
            (r#"\"a\""#, r#"\"b\"#),
            (r#"\"a\""#, r#"\q"#),
            ("}],", "}}],"),
        ] {
            check(from, to, None);
        }
    }

    #[test]
    fn a_value_with_any_byte_changed_is_followed_only_if_it_is_sound() {
        let one = r#"{"a":{"b":[1,{"c":"x}"},[]],"d":{ }},"e":[ {"f":null} , {"g":"\"]\\"},[ ]],"h":{"i":-0.5e7}}"#;
        for at in 0..one.len() {
            for byte in [
                "", " ", "\"", "{", "}", "[", "]", ",", ":", "\\", "0", "x", "é", "\u{1}",
            ] {
                let changed = [&one[..at], byte, &one[at + 1..]].concat();
                let more = [&one[..at], byte, &one[at..]].concat();
                for text in [&changed, &more] {
                    follow(one, text);
                    if validate::value(&mut Stops::new(text.as_bytes()), 0, 1) == Ok(text.len()) {
                        follow(text, one);
                    }
                }
            }
        }
    }

    #[test]
    fn in_what_is_empty_no_value_ended() {
        for (one, other) in [
            ("[{ },1]", "[{ ,1]"),
            (r#"{"a":{ },"b":1}"#, r#"{"a":{ ,"b":1}"#),
            ("[1,[ ]]", "[1,[ ,2]"),
            ("[1,[\n]]", "[1,[\n}]"),
            ("[{\t}]", "[{\t]"),
            ("[1 ,2]", "[1 ]"),
            ("[1 ]", "[1 ,2]"),
        ] {
            follow(one, other);
            follow(other, one);
        }
    }

    #[test]
    fn what_is_large_has_no_brackets_and_what_has_many_leaves_is_followed_up_to_them() {
        let large = format!("[\"{}\"]", "x".repeat(MOST_BYTES));
        assert_eq!((follow(&large, &large), follow("7", "7")), (None, None));
        let many = |last: &str| format!("[{}{last}]", "1,".repeat(MOST_LEAVES));
        assert_eq!(follow(&many("2"), &many("2")), Some(many("2").len()));
        assert_eq!(follow(&many("2"), &many("3")), None);
    }

    proptest! {
        #[test]
        fn whatever_is_followed_is_sound(
            one in pieces(), other in pieces(),
        ) {
            let (one, other) = (format!("[{one}1]"), format!("[{other}1]"));
            if validate::document(one.as_bytes()).is_ok() {
                follow(&one, &other);
                prop_assert_eq!(follow(&one, &one), Some(one.len()));
            }
        }
    }

    fn pieces() -> impl Strategy<Value = String> {
        let piece = proptest::sample::select(vec![
            "\"a\",",
            "\"\\n\",",
            "\"b\\\"\",",
            "7,",
            "70,",
            "-1.5,",
            "true,",
            "null,",
            "{\"a\":",
            "}",
            "},",
            "[",
            "],",
            "\"\\u12",
            "ab\",",
            "\"",
            "1",
            ",",
            "{},",
            "[],",
            "\"long enough to need more than a block of it\",",
        ]);
        proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }
}
