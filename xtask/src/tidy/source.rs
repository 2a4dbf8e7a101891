//! Rust text as the checks see it: code without comments and without what strings say.
//!
//! ```text
//! let s = "todo!()"; // todo!() ──▶ let s = "       ";
//! ```
//!
//! Masked bytes become spaces, so offsets and lines stay those of the file. This is a lexer of
//! comments, strings and character literals only; lifetimes and raw identifiers are code.
//! Linear in the text.

use super::File;

/// One Rust file, masked once for all checks.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    /// Comments and the insides of literals are spaces.
    pub(crate) code: String,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        Self {
            path: &file.path,
            text: &file.text,
            code: mask(&file.text),
        }
    }

    /// The code before the test module, which by our order is the last thing in a file; nothing
    /// in a file of tests.
    pub(crate) fn production(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let attribute = "#[cfg(test)]";
        let starts_module = |(at, _): &(usize, &str)| {
            self.code[at + attribute.len()..]
                .trim_start()
                .starts_with("mod ")
        };
        let module = self.code.match_indices(attribute).find(starts_module);
        &self.code[..module.map_or(self.code.len(), |(at, _)| at)]
    }

    /// Whether the whole file is tests or benches.
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

/// Where `word` stands in code as a word of its own.
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

/// Where the comment or literal that starts here ends; `at` if none starts here.
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

/// Whether an `r` begins a literal rather than ending a word; `br` and `cr` do.
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
    fn production_ends_where_tests_begin() {
        let text = "fn a() {}\n#[cfg(test)]\nfn b() {}\n#[cfg(test)]\nmod tests { c }";
        let file = File {
            path: "crates/x/src/a.rs".into(),
            text: text.into(),
        };
        assert_eq!(
            Source::new(&file).production(),
            "fn a() {}\n#[cfg(test)]\nfn b() {}\n"
        );
        let file = File {
            path: "crates/x/tests/it/a.rs".into(),
            text: text.into(),
        };
        assert_eq!(Source::new(&file).production(), "");
    }

    #[test]
    fn words_stand_alone() {
        let at: Vec<usize> = words("todo! a_todo! todo!()", "todo!").collect();
        assert_eq!(at, [0, 14]);
    }
}
