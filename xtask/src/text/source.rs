//! Rust text as the checks see it: code without comments and the contents of strings.
//!
//! ```text
//! let s = "todo!()"; // todo!() ──▶ let s = "       ";
//! ```
//!
//! Masked bytes become spaces, so offsets and lines stay those of the file. This is a lexer of
//! comments, strings and character literals only; lifetimes and raw identifiers are code.
//! Linear in the text.

use super::file::File;

/// Starts of attributes that leave their item to tests.
const TEST_ATTRIBUTES: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test"];
/// First words of items; a field or an arm begins with a name or a pattern.
const ITEMS: [&str; 12] = [
    "mod",
    "fn",
    "struct",
    "enum",
    "trait",
    "impl",
    "const",
    "static",
    "type",
    "async",
    "unsafe",
    "macro_rules",
];

/// One Rust file, masked once for all checks.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    /// Comments and the insides of literals are spaces.
    pub(crate) code: String,
    /// The code with its tests masked as well.
    product: String,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        let code = mask(&file.text);
        Self {
            path: &file.path,
            text: &file.text,
            product: without_tests(&code),
            code,
        }
    }

    /// The code without items for tests alone; `""` for a file of tests.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() { "" } else { &self.product }
    }

    /// Returns whether the whole file is tests or benches.
    pub(crate) fn is_test(&self) -> bool {
        let mut folders = self.path.split('/');
        self.path.ends_with("/tests.rs") || folders.any(|f| matches!(f, "tests" | "benches"))
    }

    /// The line of an offset in the code, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.code.as_bytes()[..at]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    }
}

/// The offsets of `word` in code as a word of its own.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let after = bytes.get(at + word.len()).copied();
            let joins = |edge: Option<u8>, inside: Option<u8>| {
                edge.is_some_and(is_ident) && inside.is_some_and(is_ident)
            };
            !joins(before, word.bytes().next()) && !joins(after, word.bytes().last())
        })
}

pub(crate) fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Masks the items, statements and fields that are compiled for tests alone.
fn without_tests(code: &str) -> String {
    let mut out = code.as_bytes().to_vec();
    let mut done = 0;
    let attributes = TEST_ATTRIBUTES.iter().flat_map(|a| code.match_indices(a));
    let mut starts: Vec<usize> = attributes.map(|(at, _)| at).collect();
    starts.sort_unstable();
    for at in starts {
        if at < done {
            continue; // inside of another
        }
        done = item_end(code.as_bytes(), at);
        for byte in &mut out[at..done] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(out).expect("whole items are masked")
}

/// The end of the item that begins with an attribute: its `;`, its block's end, or, of a field, its
/// comma.
fn item_end(code: &[u8], at: usize) -> usize {
    let (mut depth, mut in_attribute, mut shape) = (0_usize, false, None);
    for (index, byte) in code.iter().enumerate().skip(at) {
        match byte {
            b'#' if depth == 0 && shape.is_none() => in_attribute = true,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return index,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 && *byte == b'}' && shape != Some(Shape::Use) {
                    return index + 1;
                }
                in_attribute &= depth > 0;
            }
            b';' if depth == 0 => return index + 1,
            b',' if depth == 0 && shape == Some(Shape::Field) => return index + 1,
            byte if depth == 0 && !in_attribute && shape.is_none() && is_ident(*byte) => {
                shape = Some(Shape::of(&code[index..]));
            }
            _ => {}
        }
    }
    code.len()
}

/// The kinds of things after an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Use,
    Item,
    Field,
}

impl Shape {
    /// Reads the first word, or the first after a `pub`.
    fn of(code: &[u8]) -> Self {
        let mut word: &[u8] = code.split(|b| !is_ident(*b)).next().unwrap_or_default();
        if word == b"pub" {
            let mut rest = code[3..].trim_ascii_start();
            if rest.first() == Some(&b'(') {
                let end = rest.iter().position(|b| *b == b')').unwrap_or(0);
                rest = rest[end + 1..].trim_ascii_start();
            }
            word = rest.split(|b| !is_ident(*b)).next().unwrap_or_default();
        }
        match word {
            b"use" => Self::Use,
            _ if ITEMS.iter().any(|item| item.as_bytes() == word) => Self::Item,
            _ => Self::Field,
        }
    }
}

fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = text.as_bytes().to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        // The first and last byte of a string stay, so that it is still one.
        let keep = usize::from(bytes[at] != b'/');
        for byte in out
            .iter_mut()
            .take(end.saturating_sub(keep))
            .skip(at + keep)
        {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("whole characters are masked")
}

/// The line comments of a text: where each begins and ends.
pub(crate) fn comments(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_end(bytes, at);
        if bytes[at..end.max(at)].starts_with(b"//") {
            found.push((at, end));
        }
        at = end.max(at + 1);
    }
    found
}

/// The end of the comment or literal that starts here; `at` if none starts here.
fn literal_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => at + find(rest, b"\n").unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + string(rest),
        [b'r', b'"' | b'#', ..] if at == 0 || starts_raw(bytes, at) => at + raw_string(rest),
        [b'\'', ..] => at + character(rest),
        _ => at,
    }
}

/// Returns whether an `r` begins a literal rather than ending a word; `br` and `cr` do.
fn starts_raw(bytes: &[u8], at: usize) -> bool {
    match bytes[at - 1] {
        b'b' | b'c' => at < 2 || !is_ident(bytes[at - 2]),
        before => !is_ident(before),
    }
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|w| w == needle)
}

fn block_comment(bytes: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn raw_string(bytes: &[u8]) -> usize {
    let hashes = bytes[1..].iter().take_while(|b| **b == b'#').count();
    if bytes.get(1 + hashes) != Some(&b'"') {
        return 0; // a raw identifier
    }
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let start = hashes + 2;
    find(&bytes[start..], &close).map_or(bytes.len(), |at| start + at + close.len())
}

/// A character literal's length; 0 if it is a lifetime.
fn character(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        None => 0,
        Some(b'\\') => bytes
            .iter()
            .skip(3)
            .position(|b| *b == b'\'')
            .map_or(0, |at| at + 4),
        Some(first) => {
            let width = match first {
                0..0x80 => 1,
                0x80..0xe0 => 2,
                0xe0..0xf0 => 3,
                _ => 4,
            };
            if bytes.get(1 + width) == Some(&b'\'') {
                width + 2
            } else {
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, code: &str) {
        assert_eq!(mask(text), code);
    }

    #[test]
    fn comments_and_literals_are_masked() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */ d */ e", "a                   e");
        check(
            r#"f("a\"b", 'x', '\'', '"')"#,
            r#"f("    ", ' ', '  ', ' ')"#,
        );
        check("r#\"a\"b\"# r#fn br\"x\" bar", "r      # r#fn br  \" bar");
        check(
            "&'a str, 'é', b'x', '\\u{1f}'",
            "&'a str, '  ', b' ', '      '",
        );
        check("\"//\" x", "\"  \" x");
        check("'a' < 'b' //", "' ' < ' '   ");
    }

    #[test]
    fn broken_text_does_not_panic() {
        for text in [
            "\"", "'", "'\\", "/*", "r#\"", "r", "br\"", "\"\\", "/* /*", "'é",
        ] {
            assert_eq!(mask(text).len(), text.len());
        }
    }

    #[test]
    fn production_is_without_tests() {
        for (text, expected) in [
            (
                "fn a() {} #[cfg(test)] fn b<T, U>() { x[1] } fn c() {}",
                "fn a() {} fn c() {}",
            ),
            ("fn a() {}\n#[cfg(test)]\nmod tests { c }", "fn a() {}"),
            ("#[cfg(test)]\n#[path = \"x\"] mod tests; mod a;", "mod a;"),
            ("#[cfg(test)] use a::{b, c}; use d;", "use d;"),
            (
                "#[cfg(test)] pub(in crate::a) use a::{b, c}; use d;",
                "use d;",
            ),
            (
                "struct A { #[cfg(test)] b: [u8; 2], c: u8 }",
                "struct A { c: u8 }",
            ),
            ("A { #[cfg(test)] b: f(1, 2) }", "A { }"),
            ("#[cfg(all(test, unix))] const X: [A; 2] = [a, b]; f", "f"),
            ("#[cfg(not(test))] fn a() {}", "#[cfg(not(test))] fn a() {}"),
        ] {
            let file = |path: &str| File {
                path: path.into(),
                text: text.into(),
            };
            let code = file("crates/x/src/a.rs");
            let code = Source::new(&code);
            let words: Vec<&str> = code.production().split_whitespace().collect();
            assert_eq!(words.join(" "), expected);
            assert_eq!(code.production().len(), text.len());
            assert_eq!(
                Source::new(&file("crates/x/tests/it/a.rs")).production(),
                ""
            );
        }
    }

    #[test]
    fn words_stand_alone() {
        let at: Vec<usize> = words("todo! a_todo! todo!()", "todo!").collect();
        assert_eq!(at, [0, 14]);
    }
}
