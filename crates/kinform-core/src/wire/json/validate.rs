//! The validator: one pass over the bytes of one JSON value, without recursion, without a tree.
//!
//! ```text
//! bytes, position of a value → value → position after it | Fault {at, what}
//! ```
//!
//! Accepts what RFC 8259 and serde_json's `IgnoredAny` accept, except nesting deeper than
//! [`MAX_DEPTH`]. In strings, it checks escapes and control characters; the caller checks UTF-8,
//! for the whole body in one call. It accepts lone surrogates (`\ud800`), as serde_json does for
//! ignored values and Go does everywhere; they read as U+FFFD. It accepts duplicate keys: the last
//! one counts, as in Go.
//!
//! INVARIANT: `json::cursor` walks validated bytes without meeting an error.
//! Upstream: `sigs.k8s.io/json` (a fork of encoding/json's `scanner.go`).
//! Complexity: linear, one look at each byte; the stack is one `u128`.

use std::ops::Range;

use super::shortcut::{NoShortcut, Shortcut, Sound};
use crate::wire::scan::Stops;

/// The deepest nesting of arrays and objects that is accepted; serde_json's recursion limit.
pub const MAX_DEPTH: u32 = 128;

/// The kind and the place of a fault in a piece of JSON; never the value at that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    End,
    Value,
    Key,
    Colon,
    CommaOrEnd,
    Control,
    Escape,
    Number,
    Trailing,
    TooDeep,
    Utf8,
}

impl What {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::End => "the JSON ends in the middle",
            Self::Value => "expected a JSON value",
            Self::Key => "expected a key in quotes",
            Self::Colon => "expected a colon",
            Self::CommaOrEnd => "expected a comma or a closing bracket",
            Self::Control => "control character in a string",
            Self::Escape => "bad escape in a string",
            Self::Number => "bad number",
            Self::Trailing => "bytes after the end of the value",
            Self::TooDeep => "nested deeper than 128 levels",
            Self::Utf8 => "not UTF-8",
        }
    }
}

type Result<T> = std::result::Result<T, Fault>;

#[inline]
fn fault<T>(bytes: &[u8], at: usize, what: What) -> Result<T> {
    let what = if at >= bytes.len() { What::End } else { what };
    Err(Fault {
        at: at.min(bytes.len()),
        what,
    })
}

/// A fault: the text ends at `at`, inside a value.
pub(crate) fn ends(at: usize) -> Fault {
    let what = What::End;
    Fault { at, what }
}

/// A fault: the bracket at `at` exceeds [`MAX_DEPTH`].
pub(crate) fn too_deep(at: usize) -> Fault {
    let what = What::TooDeep;
    Fault { at, what }
}

/// Checks that the bytes are UTF-8.
pub(crate) fn utf8(bytes: &[u8]) -> Result<()> {
    // Most bodies are ASCII, which a check confirms in a third of the time.
    if bytes.is_ascii() {
        return Ok(());
    }
    std::str::from_utf8(bytes)
        .map(|_| ())
        .map_err(|error| Fault {
            at: error.valid_up_to(),
            what: What::Utf8,
        })
}

/// Checks one whole document: one value, white space around it, nothing else.
pub(crate) fn document(bytes: &[u8]) -> Result<()> {
    utf8(bytes)?;
    let end = value(&mut Stops::new(bytes), space(bytes, 0), 0)?;
    let end = space(bytes, end);
    if end == bytes.len() {
        Ok(())
    } else {
        fault(bytes, end, What::Trailing)
    }
}

/// Returns the position of the first byte at or after `at` that is not white space.
#[inline(always)]
pub(crate) fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\t' | b'\r') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Reads a string whose opening quote is at `at`; returns the position after its closing quote
/// and whether it holds escapes.
#[inline(always)]
pub(crate) fn string(stops: &mut Stops<'_>, at: usize) -> Result<(usize, bool)> {
    let stop = stops.find(at + 1);
    if stops.bytes().get(stop) == Some(&b'"') {
        return Ok((stop + 1, false));
    }
    string_with_escapes(stops, stop).map(|end| (end, true))
}

#[inline(never)]
fn string_with_escapes(stops: &mut Stops<'_>, mut at: usize) -> Result<usize> {
    let bytes = stops.bytes();
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape(bytes, at)?,
            _ => return fault(bytes, at, What::Control),
        }
        at = stops.find(at);
    }
}

fn escape(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            for digit in at + 2..at + 6 {
                if !bytes.get(digit).is_some_and(u8::is_ascii_hexdigit) {
                    return fault(bytes, digit, What::Escape);
                }
            }
            Ok(at + 6)
        }
        _ => fault(bytes, at + 1, What::Escape),
    }
}

/// Reads an object's key with its colon; returns the span between the quotes, whether it holds
/// escapes, and the position of its value.
#[inline(always)]
pub(crate) fn key(stops: &mut Stops<'_>, at: usize) -> Result<(Range<usize>, bool, usize)> {
    let bytes = stops.bytes();
    if bytes.get(at) != Some(&b'"') {
        return fault(bytes, at, What::Key);
    }
    let (end, escaped) = string(stops, at)?;
    let mut after = end;
    if bytes.get(after) != Some(&b':') {
        after = space(bytes, after);
        if bytes.get(after) != Some(&b':') {
            return fault(bytes, after, What::Colon);
        }
    }
    Ok((at + 1..end - 1, escaped, space(bytes, after + 1)))
}

/// Checks the value that begins at `at` (no white space before it), with `depth` levels open
/// around it; returns the position after it.
pub(crate) fn value(stops: &mut Stops<'_>, at: usize, depth: u32) -> Result<usize> {
    value_with(stops, at, depth, &mut NoShortcut)
}

/// Checks a value as `value` does, with a shortcut that may know values in it to be valid.
pub(in crate::wire) fn value_with(
    stops: &mut Stops<'_>,
    mut at: usize,
    mut depth: u32,
    shortcut: &mut impl Shortcut,
) -> Result<usize> {
    let bytes = stops.bytes();
    // One bit a level, the innermost lowest: 1 is an object, 0 an array.
    let mut objects: u128 = 0;
    let outside = depth;
    loop {
        // A value begins at `at`. Strings and objects first: most values are one.
        match bytes.get(at) {
            Some(b'"') => at = string(stops, at)?.0,
            Some(&open) if open == b'{' || open == b'[' => {
                let inside = space(bytes, at + 1);
                if depth >= MAX_DEPTH {
                    return fault(bytes, at, What::TooDeep);
                }
                // `{` and `}`, `[` and `]` are two apart.
                if bytes.get(inside) == Some(&(open + 2)) {
                    at = inside + 1;
                } else {
                    match shortcut.open(stops, at) {
                        Sound::All(end) => at = end,
                        Sound::Begin {
                            at: end,
                            levels,
                            objects: inner,
                        } => {
                            at = end;
                            depth += levels;
                            objects = objects.unbounded_shl(levels) | inner;
                        }
                        Sound::Nothing => {
                            depth += 1;
                            objects = objects << 1 | u128::from(open == b'{');
                            if open == b'[' {
                                at = inside;
                                continue;
                            }
                            match member(stops, at)? {
                                Member::Text(end) => at = end,
                                Member::Value(value) => {
                                    at = value;
                                    continue;
                                }
                            }
                        }
                    }
                }
            }
            _ => at = scalar(bytes, at)?,
        }
        // A value ended before `at`: closes the values that end here, and moves to the next one.
        while depth != outside {
            let in_object = objects & 1 == 1;
            let close = if in_object { b'}' } else { b']' };
            match bytes.get(at) {
                Some(b',') if in_object => match member(stops, at)? {
                    Member::Text(end) => at = end,
                    Member::Value(value) => {
                        at = value;
                        break;
                    }
                },
                Some(b',') => {
                    at = space(bytes, at + 1);
                    break;
                }
                Some(&byte) if byte == close => {
                    depth -= 1;
                    objects >>= 1;
                    at += 1;
                    shortcut.close();
                    if depth == outside {
                        return Ok(at);
                    }
                }
                _ => at = close_or_comma(bytes, at)?,
            }
        }
        if depth == outside {
            return Ok(at);
        }
    }
}

/// The part of a member that was read.
enum Member {
    /// The whole member: its value is a text, and ends before this position.
    Text(usize),
    /// The key; the value is at this position.
    Value(usize),
}

/// Reads the member after the comma or brace at `at`. The fast path is the form that servers write:
/// no white space, and a text without escapes.
#[inline(always)]
fn member(stops: &mut Stops<'_>, at: usize) -> Result<Member> {
    let bytes = stops.bytes();
    if bytes.get(at + 1) == Some(&b'"') {
        let stop = stops.find(at + 2);
        match bytes.get(stop..).and_then(|rest| rest.first_chunk()) {
            Some(b"\":\"") => {
                let end = stops.find(stop + 3);
                return Ok(match bytes.get(end) {
                    Some(b'"') => Member::Text(end + 1),
                    _ => Member::Value(stop + 2),
                });
            }
            Some([b'"', b':', value]) if *value > b' ' => return Ok(Member::Value(stop + 2)),
            _ => {}
        }
    }
    let (.., value) = key(stops, space(bytes, at + 1))?;
    Ok(Member::Value(value))
}

/// Handles a value without a comma or the closing bracket after it: skips white space, or fails.
#[inline(never)]
fn close_or_comma(bytes: &[u8], at: usize) -> Result<usize> {
    match space(bytes, at) {
        same if same == at => fault(bytes, at, What::CommaOrEnd),
        after => Ok(after),
    }
}

/// Checks the number or the word at `at`; returns the position after it.
#[inline(always)]
pub(in crate::wire) fn scalar(bytes: &[u8], at: usize) -> Result<usize> {
    match short_scalar(bytes, at) {
        Some(end) => Ok(end),
        None => any_scalar(bytes, at),
    }
}

/// Returns the end of a word, or of a number of digits only; the caller checks the byte after it.
#[inline(always)]
fn short_scalar(bytes: &[u8], at: usize) -> Option<usize> {
    let four = bytes.get(at..)?.first_chunk()?;
    match four {
        b"true" | b"null" => Some(at + 4),
        [b'0', b',' | b'}' | b']', ..] => Some(at + 1),
        [b'1'..=b'9', ..] => {
            let end = digits(bytes, at + 1);
            (!matches!(bytes.get(end), Some(b'.' | b'e' | b'E'))).then_some(end)
        }
        _ => None,
    }
}

#[inline(never)]
fn any_scalar(bytes: &[u8], at: usize) -> Result<usize> {
    match bytes.get(at) {
        Some(b't') => literal(bytes, at, b"true"),
        Some(b'f') => literal(bytes, at, b"false"),
        Some(b'n') => literal(bytes, at, b"null"),
        Some(b'-' | b'0'..=b'9') => number(bytes, at),
        _ => fault(bytes, at, What::Value),
    }
}

/// The members of an object under validation. The caller validates each value and moves `at`.
pub(crate) struct Checked {
    pub(crate) at: usize,
    first: bool,
    is_escaped: bool,
}

impl Checked {
    pub(crate) fn after(open: usize) -> Self {
        Self {
            at: open + 1,
            first: true,
            is_escaped: false,
        }
    }

    /// Returns whether the last key returned holds escapes.
    #[inline]
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// Returns the span of the next key between its quotes, and the position of its value.
    pub(crate) fn next(&mut self, stops: &mut Stops<'_>) -> Result<Option<(Range<usize>, usize)>> {
        let bytes = stops.bytes();
        let mut at = space(bytes, self.at);
        let first = std::mem::replace(&mut self.first, false);
        match bytes.get(at) {
            Some(b'}') => {
                self.at = at + 1;
                return Ok(None);
            }
            Some(b',') if !first => at = space(bytes, at + 1),
            Some(_) if first => {}
            Some(_) => {
                return Err(Fault {
                    at,
                    what: What::CommaOrEnd,
                });
            }
            None => {
                return Err(Fault {
                    at,
                    what: What::End,
                });
            }
        }
        let (key, is_escaped, value) = key(stops, at)?;
        self.is_escaped = is_escaped;
        Ok(Some((key, value)))
    }
}

fn literal(bytes: &[u8], at: usize, word: &[u8]) -> Result<usize> {
    if bytes[at..].starts_with(word) {
        return Ok(at + word.len());
    }
    let same = bytes[at..]
        .iter()
        .zip(word)
        .take_while(|(a, b)| a == b)
        .count();
    fault(bytes, at + same, What::Value)
}

#[inline]
fn digits(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    at
}

fn some_digits(bytes: &[u8], at: usize) -> Result<usize> {
    let end = digits(bytes, at);
    if end == at {
        fault(bytes, at, What::Number)
    } else {
        Ok(end)
    }
}

fn number(bytes: &[u8], mut at: usize) -> Result<usize> {
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    if bytes.get(at) == Some(&b'0') {
        at += 1;
        if let Some(b'0'..=b'9') = bytes.get(at) {
            return fault(bytes, at, What::Number);
        }
    } else {
        at = some_digits(bytes, at)?;
    }
    if bytes.get(at) == Some(&b'.') {
        at = some_digits(bytes, at + 1)?;
    }
    if let Some(b'e' | b'E') = bytes.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = bytes.get(at) {
            at += 1;
        }
        at = some_digits(bytes, at)?;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str) {
        let ours = document(text.as_bytes());
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text);
        assert_eq!(ours.is_ok(), theirs.is_ok(), "{text}: {ours:?} {theirs:?}");
    }

    #[test]
    fn what_serde_json_accepts_is_accepted_and_nothing_else() {
        let texts = [
            "",
            " ",
            "{}",
            "[]",
            "{ }",
            "[ ]",
            "{]",
            "[}",
            "null",
            "nul",
            "nulll",
            "true",
            "tru",
            "false",
            "0",
            "-0",
            "-",
            "00",
            "01",
            "1.",
            "1.0",
            ".5",
            "1e",
            "1e5",
            "1E+5",
            "1e-",
            "1e-7",
            "-1.25e+30",
            "1e999",
            "+1",
            "\"\"",
            "\"",
            "\"\\\"",
            "\"\\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u00e9\"",
            "\"\\ud800\"",
            "\"\t\"",
            "\"\u{1}\"",
            "\"é\"",
            "\u{7f}",
            "10",
            "[0]",
            "[10]",
            "[00]",
            "[0.5]",
            "[12.5,1e3,7E2]",
            "[12.]",
            "[1e]",
            "[12x]",
            "[truex]",
            "[true,null,false]",
            "[1,2]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1,,2]",
            "{\"a\":1}",
            "{\"a\":1,}",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\" : [ 1 , { } ] } ",
            "{\"a\":1 \"b\":2}",
            "{,}",
            "{\"a\":1}}",
            "[[]",
            "[]]",
            "{1:2}",
            "{\"a\":{\"b\":[{\"c\":null}]},\"a\":2}",
            "\u{feff}{}",
            "[1]x",
            "{\"a\":1},",
            "[\"a\",]",
        ];
        for text in texts {
            check(text);
        }
    }

    #[test]
    fn nesting_is_accepted_up_to_the_limit() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            for (depth, accepted) in [(127, true), (128, true), (129, false), (100_000, false)] {
                let text = open.repeat(depth) + "1" + &close.repeat(depth);
                assert_eq!(document(text.as_bytes()).is_ok(), accepted, "{depth}");
            }
        }
    }

    #[test]
    fn a_fault_says_where() {
        for (text, at, what) in [
            ("{\"a\":tru}", 8, What::Value),
            ("{\"a\":1", 6, What::End),
            ("{\"a\" 1}", 5, What::Colon),
            ("[1 2]", 3, What::CommaOrEnd),
            ("[\"\\q\"]", 3, What::Escape),
            ("[] []", 3, What::Trailing),
        ] {
            assert_eq!(document(text.as_bytes()), Err(Fault { at, what }), "{text}");
        }
        assert_eq!(
            document(b"\"\xff\""),
            Err(Fault {
                at: 1,
                what: What::Utf8
            })
        );
    }

    proptest! {
        #[test]
        fn any_text_of_tokens_is_accepted_as_serde_json_accepts_it(
            tokens in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ":", ",", "\"a\"", "\"é\\n\"", "0", "-1.5e3", "true", "null", " ", "\\",
                    "\"a\":", "{\"a\":[", "]}", "{}", "[]", "tru", "\u{1}", "\"", "01",
                    "{\"a\":\"b\"", ",\"c\":\"\"", ",\"c\":\"\\n\"", ",\"\\n\":\"d\"", ",\"e\" :\"f\"", "\"g\":1,",
                ]),
                0..24,
            ),
        ) {
            check(&tokens.concat());
        }
    }
}
