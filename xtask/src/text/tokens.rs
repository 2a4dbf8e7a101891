//! Masked Rust code as words, path separators and signs.
//!
//! ```text
//! "use a::b;" ──▶ Word(use) Word(a) Path Word(b) Sign(;)
//! ```
//!
//! Literals and comments are masked before. Numbers are words as well; a raw identifier is one word
//! with its `r#`. Linear in the code.

use super::source::is_ident;

/// A token and its offset in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Kind and text.
    pub(crate) kind: Kind<'a>,
}

/// The kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// `::`
    Path,
    /// Any other character.
    Sign(char),
}

impl<'a> Token<'a> {
    /// The text of a word.
    pub(crate) fn word(&self) -> Option<&'a str> {
        match self.kind {
            Kind::Word(word) => Some(word),
            Kind::Path | Kind::Sign(_) => None,
        }
    }

    /// Returns whether it is this character.
    pub(crate) fn is(&self, sign: char) -> bool {
        self.kind == Kind::Sign(sign)
    }
}

/// Splits masked code into tokens.
pub(crate) fn tokens(code: &str) -> Vec<Token<'_>> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        let (kind, length) = if c == ':' && bytes.get(at + 1) == Some(&b':') {
            (Kind::Path, 2)
        } else if is_start(c) {
            let length = word_length(&code[at..]);
            (Kind::Word(&code[at..at + length]), length)
        } else {
            (Kind::Sign(c), c.len_utf8())
        };
        if !c.is_whitespace() {
            found.push(Token { at, kind });
        }
        at += length;
    }
    found
}

fn is_start(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_length(rest: &str) -> usize {
    let raw = rest.strip_prefix("r#").map_or(0, |_| 2);
    let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
    let word = rest[raw..].find(is_end).unwrap_or(rest.len() - raw);
    debug_assert!(
        rest.bytes()
            .next()
            .is_some_and(|b| is_ident(b) || b >= 0x80)
    );
    if word == 0 { 1 } else { raw + word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let found: Vec<String> = tokens(code)
            .iter()
            .map(|token| match token.kind {
                Kind::Word(word) => word.to_owned(),
                Kind::Path => "::".to_owned(),
                Kind::Sign(c) => c.to_string(),
            })
            .collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn code_is_words_paths_and_signs() {
        check("use a::b_1;", &["use", "a", "::", "b_1", ";"]);
        check("x: &'a T", &["x", ":", "&", "'", "a", "T"]);
        check("r#type r #\" \"", &["r#type", "r", "#", "\"", "\""]);
        check("größe::<T>", &["größe", "::", "<", "T", ">"]);
    }
}
