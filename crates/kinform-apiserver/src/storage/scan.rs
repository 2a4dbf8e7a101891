//! Finds the positions of a few values in encoded JSON, without decoding the rest.
//!
//! ```text
//! encoded object ──▶ walk members ──▶ descend into wanted paths, skip the others ──▶ spans
//! ```
//!
//! The bytes come from the server's own encoder, so they are well formed. Even on malformed bytes
//! the scanner neither panics nor recurses without bound: it ends early, and values that it has not
//! found are absent. Skipping keeps a depth counter instead of a stack.
//!
//! Complexity: one pass, linear in the object's length. Each byte outside of the wanted paths is
//! looked at once.

use std::ops::Range;
use std::slice::Iter;

/// The position of a value in an object's bytes; empty if the object has no such value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(range: Range<usize>) -> Self {
        // BOUND: objects are far below 4 GiB (requests end at 3 MiB).
        Self {
            start: u32::try_from(range.start).unwrap_or(u32::MAX),
            end: u32::try_from(range.end).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn is_absent(self) -> bool {
        self.start == self.end
    }

    /// Returns the text at this position; empty if absent.
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.range()).unwrap_or_default()
    }

    /// Returns the position of the same value after each byte at a place moved to `to(place)`.
    pub(crate) fn moved(self, to: &impl Fn(usize) -> usize) -> Self {
        if self.is_absent() {
            return self;
        }
        let range = self.range();
        Self::new(to(range.start)..to(range.end))
    }

    /// Returns the position of the same value after `by` bytes were inserted at `at`.
    pub(crate) fn shifted(self, at: usize, by: usize) -> Self {
        if self.is_absent() || (self.start as usize) <= at {
            return self;
        }
        let range = self.range();
        Self::new(range.start + by..range.end + by)
    }
}

/// Calls `visit(name, value)` for each member of the object that starts at `at`, in order. The name
/// has no quotes and is not unescaped. The value's range includes its quotes or brackets.
pub(crate) fn members(bytes: &[u8], at: usize, mut visit: impl FnMut(&[u8], Range<usize>)) {
    walk(bytes, at, |name, start| {
        let end = end_of_value(bytes, start);
        visit(name, start..end);
        end
    });
}

/// Calls `visit(name, start)` for each member of the object that starts at `at`. `visit` returns
/// the end of the value, which it may already know from looking inside. Returns the end of the
/// object.
pub(crate) fn walk(bytes: &[u8], at: usize, mut visit: impl FnMut(&[u8], usize) -> usize) -> usize {
    if bytes.get(at) != Some(&b'{') {
        return end_of_value(bytes, at);
    }
    let mut at = skip_space(bytes, at + 1);
    while bytes.get(at) == Some(&b'"') {
        let name_end = end_of_string(bytes, at);
        let Some(name) = bytes.get(at + 1..name_end.saturating_sub(1)) else {
            return bytes.len();
        };
        at = skip_space(bytes, name_end);
        if bytes.get(at) != Some(&b':') {
            return bytes.len();
        }
        let start = skip_space(bytes, at + 1);
        at = skip_space(bytes, visit(name, start));
        if bytes.get(at) != Some(&b',') {
            break;
        }
        at = skip_space(bytes, at + 1);
    }
    if bytes.get(at) == Some(&b'}') {
        at + 1
    } else {
        bytes.len()
    }
}

/// Returns the text of a scalar without its quotes. Escapes are kept.
pub(crate) fn unquoted(bytes: &[u8], value: Range<usize>) -> Range<usize> {
    if bytes.get(value.start) == Some(&b'"') && value.len() >= 2 {
        value.start + 1..value.end - 1
    } else {
        value
    }
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Returns the position after the closing quote of the string whose opening quote is at `at`.
fn end_of_string(bytes: &[u8], at: usize) -> usize {
    let mut rest = bytes.get(at + 1..).unwrap_or_default().iter();
    skip_string(&mut rest);
    bytes.len() - rest.len()
}

/// Skips the rest of a string, and its closing quote.
fn skip_string(rest: &mut Iter<'_, u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

/// Returns the position after the value that starts at `at`.
pub(crate) fn end_of_value(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => end_of_string(bytes, at),
        Some(b'{' | b'[') => end_of_nested(bytes, at),
        _ => end_of_word(bytes, at),
    }
}

fn end_of_word(bytes: &[u8], mut at: usize) -> usize {
    while let Some(byte) = bytes.get(at) {
        if matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t') {
            break;
        }
        at += 1;
    }
    at
}

fn end_of_nested(bytes: &[u8], at: usize) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default().iter();
    let mut depth = 0usize;
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => skip_string(&mut rest),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            _ => {}
        }
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(json: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        members(json.as_bytes(), 0, |name, value| {
            found.push((
                String::from_utf8_lossy(name).into_owned(),
                json[value].to_owned(),
            ));
        });
        found
    }

    #[test]
    fn members_are_found_with_everything_that_belongs_to_them() {
        let got = walk(r#"{"a":{"x":["}\"",{}]},"b" : "q\\" , "c":12,"d":null}"#);
        let want = [
            ("a", r#"{"x":["}\"",{}]}"#),
            ("b", r#""q\\""#),
            ("c", "12"),
            ("d", "null"),
        ];
        assert_eq!(
            got,
            want.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn broken_bytes_end_the_walk() {
        assert_eq!(
            super::walk(b"{\"a\":{}} ", 0, |_, at| end_of_value(b"{\"a\":{}} ", at)),
            8
        );
        for json in [
            "", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":{", "[1]", "{\"a\\", "nul",
        ] {
            walk(json);
        }
    }
}
