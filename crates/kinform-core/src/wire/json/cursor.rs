//! Walks over validated JSON: members, elements, texts; builds no tree.
//!
//! ```text
//! bytes, position → Members | Elements → spans → unescape → text
//! ```
//!
//! Every function is total: on bytes that were not validated it ends early, and never panics or
//! loops. The key of a malformed object is salvaged that way.
//!
//! Upstream: none. Complexity: skipping a value is one block scan of its bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::validate::space;
use crate::wire::scan::{Nesting, quote, string_stop};

/// The length of the longest escape of an ASCII character: `\u0061`.
pub(crate) const LONGEST_CHAR: usize = 6;
/// The length of the longest key that callers look for, with every character escaped.
const LONGEST_KEY: usize = LONGEST_CHAR * "deletionTimestamp".len();

/// One `"key": value` of an object, as spans.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The text between the quotes.
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

impl Member {
    /// Returns whether the key is `name`, escaped or not.
    pub(crate) fn is(&self, bytes: &[u8], name: &str) -> bool {
        text_is(&bytes[self.key.clone()], name)
    }
}

/// Returns whether the inside of a string reads as `text`.
pub(crate) fn text_is(raw: &[u8], text: &str) -> bool {
    let may_be = raw.len() <= LONGEST_CHAR * text.len() && raw.contains(&b'\\');
    raw == text.as_bytes() || (may_be && unescape(raw) == text)
}

/// Returns the text of a key; a key longer than any that callers look for is returned as written.
#[cold]
pub(crate) fn key_text(raw: &[u8]) -> Cow<'_, [u8]> {
    match raw.len() <= LONGEST_KEY && raw.contains(&b'\\') {
        true => Cow::Owned(unescape(raw).into_owned().into_bytes()),
        false => Cow::Borrowed(raw),
    }
}

/// The members of the object whose `{` is at the position given.
pub(crate) struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// As [`Members`], but yields only the start of each value: the last value may have no end.
pub(crate) struct OpenMembers<'a> {
    bytes: &'a [u8],
    at: usize,
    value: Option<usize>,
}

/// The elements of the array whose `[` is at the position given.
pub(crate) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Returns the members of the object at `at`; empty if there is no object.
pub(crate) fn members(bytes: &[u8], at: usize) -> Members<'_> {
    let at = if bytes.get(at) == Some(&b'{') {
        at + 1
    } else {
        bytes.len()
    };
    Members { bytes, at }
}

/// As [`members`], for bytes that may be truncated or malformed.
pub(crate) fn open_members(bytes: &[u8], at: usize) -> OpenMembers<'_> {
    let Members { bytes, at } = members(bytes, at);
    members_from(bytes, at)
}

/// Returns the members at or after `at`, which is inside an object.
pub(crate) fn members_from(bytes: &[u8], at: usize) -> OpenMembers<'_> {
    OpenMembers {
        bytes,
        at,
        value: None,
    }
}

/// Returns the elements of the array at `at`; empty if there is no array.
pub(crate) fn elements(bytes: &[u8], at: usize) -> Elements<'_> {
    let at = if bytes.get(at) == Some(&b'[') {
        at + 1
    } else {
        bytes.len()
    };
    Elements { bytes, at }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let (key, start) = member_at(self.bytes, self.at)?;
        let end = value_end(self.bytes, start)?;
        self.at = end;
        Some(Member {
            key,
            value: start..end,
        })
    }
}

impl OpenMembers<'_> {
    /// Takes the end of the last value from the caller, which saves a search.
    pub(crate) fn skip_to(&mut self, end: usize) {
        (self.value, self.at) = (None, end);
    }

    /// Returns the position after the object, if all of its members were returned and it is closed.
    pub(crate) fn end(&self) -> Option<usize> {
        let at = space(self.bytes, self.at);
        (self.value.is_none() && self.bytes.get(at) == Some(&b'}')).then_some(at + 1)
    }
}

impl Iterator for OpenMembers<'_> {
    type Item = (Range<usize>, usize);

    fn next(&mut self) -> Option<(Range<usize>, usize)> {
        if let Some(value) = self.value.take() {
            self.at = value_end(self.bytes, value)?;
        }
        let (key, value) = member_at(self.bytes, self.at)?;
        self.value = Some(value);
        Some((key, value))
    }
}

/// Returns the next member at or after `at`: the span of its key, and the position of its value.
fn member_at(bytes: &[u8], at: usize) -> Option<(Range<usize>, usize)> {
    let open = next_in(bytes, at)?;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let close = string_end(bytes, open)?;
    let colon = space(bytes, close);
    if bytes.get(colon) != Some(&b':') {
        return None;
    }
    Some((open + 1..close - 1, space(bytes, colon + 1)))
}

impl Iterator for Elements<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = next_in(self.bytes, self.at)?;
        if self.bytes.get(start) == Some(&b']') {
            self.at = self.bytes.len();
            return None;
        }
        let end = value_end(self.bytes, start)?;
        self.at = end;
        Some(start..end)
    }
}

/// Returns the position of the next key or element, after white space and at most one comma.
pub(in crate::wire) fn next_in(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = space(bytes, at);
    if bytes.get(at) == Some(&b',') {
        at = space(bytes, at + 1);
    }
    (at < bytes.len()).then_some(at)
}

/// Returns the position after the string whose opening quote is at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let stop = string_stop(bytes, at + 1);
    match bytes.get(stop)? {
        b'"' => Some(stop + 1),
        _ => quote(bytes, stop).map(|quote| quote + 1),
    }
}

/// Returns the position after the value at `at`; `None` if there is none or it has no end.
pub(crate) fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string_end(bytes, at),
        b'{' | b'[' => Nesting::default().advance(&bytes[at..]).map(|end| at + end),
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\t' | b'\r');
            let length = bytes[at..].iter().take_while(|byte| !ends(byte)).count();
            (length > 0).then_some(at + length)
        }
    }
}

/// Returns the inside of the string that `span` covers with its quotes; `None` if it is not a
/// string.
pub(crate) fn string_in(bytes: &[u8], span: Range<usize>) -> Option<&[u8]> {
    bytes.get(span)?.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Returns bytes as text. Nearly all are valid UTF-8, and validating is cheaper than a lossy
/// conversion.
pub(crate) fn text(raw: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed)
}

/// Returns the text of the inside of a string. A lone surrogate reads as U+FFFD, as in Go.
pub(crate) fn unescape(raw: &[u8]) -> Cow<'_, str> {
    if !raw.contains(&b'\\') {
        return text(raw);
    }
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (read, character) = escape(rest);
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[read.min(rest.len())..];
    }
    text.extend_from_slice(rest);
    Cow::Owned(
        String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// Returns the length of the escape that `rest` begins with, and the character that it stands for.
fn escape(rest: &[u8]) -> (usize, char) {
    let simple = match rest.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(rest),
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        _ => char::REPLACEMENT_CHARACTER,
    };
    (2, simple)
}

fn unicode(rest: &[u8]) -> (usize, char) {
    let Some(first) = hex(rest) else {
        return (2, char::REPLACEMENT_CHARACTER);
    };
    if let Some(character) = char::from_u32(first) {
        return (6, character);
    }
    let second = rest
        .get(6..)
        .and_then(hex)
        .filter(|low| (0xdc00..0xe000).contains(low));
    match second {
        Some(low) if first < 0xdc00 => {
            let code = 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            (
                12,
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
            )
        }
        _ => (6, char::REPLACEMENT_CHARACTER),
    }
}

/// Returns the number in `\uXXXX` at the start of `rest`.
fn hex(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |number, &digit| {
        Some(number << 4 | char::from(digit).to_digit(16)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_unescaped_as_serde_json_does() {
        for raw in [
            "",
            "plain",
            "é",
            r#"a\"b\\c\/d"#,
            r"\b\f\n\r\t",
            r"\u00e9\uD83D\ude00x",
        ] {
            let expected: String = serde_json::from_str(&format!("\"{raw}\"")).unwrap();
            assert_eq!(unescape(raw.as_bytes()), expected);
        }
        for raw in [r"\ud800", r"\ude00", r"\ud800x", r"\u12", r"\", r"\q"] {
            assert!(unescape(raw.as_bytes()).contains('\u{fffd}'), "{raw}");
        }
        assert_eq!(unescape(br"\ud800\u0041"), "\u{fffd}A");
    }

    #[test]
    fn members_and_elements_are_walked_in_order() {
        let bytes = br#" {"a" : 1 , "b":[ 1,"x]" , {"c":[]} ],"d\u0065":{}} "#;
        let found: Vec<_> = members(bytes, 1)
            .map(|m| {
                let text = |span: Range<usize>| String::from_utf8_lossy(&bytes[span]).into_owned();
                (text(m.key), text(m.value))
            })
            .collect();
        let expected = [
            ("a", "1"),
            ("b", r#"[ 1,"x]" , {"c":[]} ]"#),
            ("d\\u0065", "{}"),
        ];
        assert_eq!(found, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        assert!(members(bytes, 1).nth(2).unwrap().is(bytes, "de"));
        let array = members(bytes, 1).nth(1).unwrap().value.start;
        assert_eq!(elements(bytes, array).count(), 3);
        assert_eq!(
            elements(bytes, 1).count() + members(bytes, array).count(),
            0
        );
    }

    #[test]
    fn a_key_is_known_however_it_is_escaped_and_no_longer_one_is() {
        let escaped = r"\u006e\u0061\u006d\u0065";
        assert!(text_is(escaped.as_bytes(), "name") && &*key_text(escaped.as_bytes()) == b"name");
        assert!(!text_is(format!(r"{escaped}\u0000").as_bytes(), "name"));
        let longest: String = "deletionTimestamp"
            .bytes()
            .map(|byte| format!(r"\u{byte:04x}"))
            .collect();
        assert_eq!(&*key_text(longest.as_bytes()), b"deletionTimestamp");
        let longer = format!("{longest}x");
        assert_eq!(&*key_text(longer.as_bytes()), longer.as_bytes());
    }
}
