//! Walks over JSON that was checked already: members, elements, texts; no tree.
//!
//! ```text
//! bytes, position → Members | Elements → spans → unescape → text
//! ```
//!
//! Everything here is total: on bytes that were not checked it ends early, and never panics or
//! loops. That is also how the key of a broken object is salvaged.
//!
//! Upstream: none. Complexity: skipping a value is one block scan of its bytes.

use std::borrow::Cow;
use std::ops::Range;

use super::json::{MAX_DEPTH, space};
use super::scan::{BLOCK, Nesting, filled, quote, string_stop};

/// BOUND: a key in a message has at most so many characters.
const MOST_CHARS: usize = 128;
/// The longest that is written of one character of ASCII: `\u0061`.
pub(crate) const LONGEST_CHAR: usize = 6;
/// No key that is looked for is longer, however it was escaped.
const LONGEST_KEY: usize = LONGEST_CHAR * "deletionTimestamp".len();

/// One `"key": value` of an object, as spans.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Between the quotes.
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
}

impl Member {
    /// Whether the key is `name`, however it was escaped.
    pub(crate) fn is(&self, bytes: &[u8], name: &str) -> bool {
        text_is(&bytes[self.key.clone()], name)
    }
}

/// Whether the inside of a string reads as `text`.
pub(crate) fn text_is(raw: &[u8], text: &str) -> bool {
    let may_be = raw.len() <= LONGEST_CHAR * text.len() && raw.contains(&b'\\');
    raw == text.as_bytes() || (may_be && unescape(raw) == text)
}

/// The text of a key, if it may be one that is looked for; what is too long for that is left as it stands.
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

/// As [`Members`], but each value is given by its start only: the last may have no end.
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

/// The members of the object at `at`; none if it is not an object.
pub(crate) fn members(bytes: &[u8], at: usize) -> Members<'_> {
    let at = if bytes.get(at) == Some(&b'{') {
        at + 1
    } else {
        bytes.len()
    };
    Members { bytes, at }
}

/// As [`members`], for bytes that may break off or be broken.
pub(crate) fn open_members(bytes: &[u8], at: usize) -> OpenMembers<'_> {
    let Members { bytes, at } = members(bytes, at);
    OpenMembers {
        bytes,
        at,
        value: None,
    }
}

/// The elements of the array at `at`; none if it is not an array.
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
    /// The value that was given last ends there: saves a search.
    pub(crate) fn skip_to(&mut self, end: usize) {
        (self.value, self.at) = (None, end);
    }

    /// Behind the object, if all of its members were given and it is closed.
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

/// The next member at or after `at`: the span of its key, and where its value starts.
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

/// Position of the next key or element: over white space and one comma.
fn next_in(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = space(bytes, at);
    if bytes.get(at) == Some(&b',') {
        at = space(bytes, at + 1);
    }
    (at < bytes.len()).then_some(at)
}

/// Position after the string whose opening quote is at `at`.
fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let stop = string_stop(bytes, at + 1);
    match bytes.get(stop)? {
        b'"' => Some(stop + 1),
        _ => quote(bytes, stop).map(|quote| quote + 1),
    }
}

/// Position after the value at `at`; `None` if there is none or it has no end.
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

/// The inside of the string that `span` covers with its quotes; `None` if it is no string.
pub(crate) fn string_in(bytes: &[u8], span: Range<usize>) -> Option<&[u8]> {
    bytes.get(span)?.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The text that some bytes are. Nearly all are, and a look at them as a whole is cheaper than a lossy one.
pub(crate) fn text(raw: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed)
}

/// The text of the inside of a string. A lone surrogate reads as U+FFFD, as in Go.
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

/// One escape at the start of `rest`: how long it is, and the character that it stands for.
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

/// The number in `\uXXXX` at the start of `rest`.
fn hex(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |number, &digit| {
        Some(number << 4 | char::from(digit).to_digit(16)?)
    })
}

/// The path of the value at or before `offset`: `spec.containers[0].image`. Names keys and
/// positions, never values.
///
/// Complexity: one look at what stands before, however deep it is.
pub(crate) fn path_to(bytes: &[u8], offset: usize) -> String {
    let mut path = String::new();
    let open = open_at(bytes, offset);
    for (level, at) in open.iter().enumerate() {
        let is_last = level + 1 == open.len();
        if bytes.get(at.bracket) == Some(&b'[') {
            let index = match is_last {
                true => elements_until(bytes, at, offset),
                false => Some(at.commas),
            };
            if let Some(index) = index {
                push_index(&mut path, index);
            }
            continue;
        }
        let mut members = OpenMembers {
            bytes,
            at: at.behind,
            value: None,
        };
        // What is open ends behind `offset`, wherever that is.
        let found = match is_last {
            true => members
                .take_while(|(key, _)| key.start <= offset + 1)
                .find(|(_, value)| value_end(bytes, *value).is_none_or(|end| end >= offset)),
            false => members.next(),
        };
        let Some((key, _)) = found else { break };
        // BOUND: so much of it is shown, if all of it is escaped as pairs.
        let end = key.end.min(key.start + 2 * LONGEST_CHAR * (MOST_CHARS + 1));
        push_key(&mut path, &unescape(&bytes[key.start..end]));
    }
    path
}

/// The index of the element at or before `offset`, after the last comma.
fn elements_until(bytes: &[u8], open: &Open, offset: usize) -> Option<usize> {
    let mut at = open.behind;
    for index in open.commas.. {
        // The comma before it was read, if there is one.
        let start = match index == open.commas && index > 0 {
            true => space(bytes, at),
            false => next_in(bytes, at)?,
        };
        if start > offset || matches!(bytes.get(start), None | Some(b']')) {
            return None;
        }
        match value_end(bytes, start) {
            Some(end) if end < offset => at = end,
            _ => return Some(index),
        }
    }
    None
}

/// A bracket that is open.
struct Open {
    bracket: usize,
    /// How many commas stand in it.
    commas: usize,
    /// Behind the last of them, or behind the bracket.
    behind: usize,
}

/// The brackets that are open before `offset`.
fn open_at(bytes: &[u8], offset: usize) -> Vec<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut nesting = Nesting::default();
    for (number, block) in bytes[..offset.min(bytes.len())].chunks(BLOCK).enumerate() {
        let block = filled(block);
        let marks = nesting.marks(&block);
        let mut left = marks.brackets | marks.commas;
        while left != 0 {
            let bit = left.trailing_zeros() as usize;
            left &= left - 1;
            let at = number * BLOCK + bit;
            match block[bit] {
                // BOUND: a deeper path is cut; what was checked is no deeper.
                b'{' | b'[' if open.len() >= MAX_DEPTH as usize => return open,
                b'{' | b'[' => open.push(Open {
                    bracket: at,
                    commas: 0,
                    behind: at + 1,
                }),
                b'}' | b']' => {
                    open.pop();
                }
                b',' => {
                    if let Some(open) = open.last_mut() {
                        (open.commas, open.behind) = (open.commas + 1, at + 1);
                    }
                }
                _ => {}
            }
        }
    }
    open
}

/// Most are small, and where there are many, all.
fn push_index(path: &mut String, index: usize) {
    const SMALL: &str = "[0][1][2][3][4][5][6][7][8][9]";
    match SMALL.get(index.saturating_mul(3)..) {
        Some(from) if !from.is_empty() => path.push_str(&from[..3]),
        _ => path.push_str(&format!("[{index}]")),
    }
}

pub(crate) fn push_key(path: &mut String, key: &str) {
    let key: String = key
        .chars()
        .take(MOST_CHARS)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '$';
    if !key.is_empty() && key.chars().all(plain) {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&key);
    } else {
        path.push_str("['");
        path.push_str(&key);
        path.push_str("']");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same, each level looked at anew.
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
                && let Some(index) = elements_until(bytes, &array, offset)
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
            if let Err(fault) = crate::wire::json::document(bytes) {
                prop_assert_eq!(path_to(bytes, fault.at), path_by_levels(bytes, fault.at), "{} at {}", text, fault.at);
            }
        }
    }

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
        check(&format!("{}!", "[".repeat(300)), &"[0]".repeat(128));
        let (shown, pair) = ("\u{1f600}".repeat(MOST_CHARS), r"\ud83d\ude00");
        let key = pair.repeat(10 * MOST_CHARS);
        check(&format!(r#"{{"{key}":!"#), &format!("['{shown}']"));
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
