//! The door to the terminal: all text on stdout and stderr goes through here.
//!
//! ```text
//! text with words of a server ──▶ Out │ shown ──▶ terminal: no letter that controls it
//!                                          └────▶ file or pipe, by Out: the text as it is
//! ```
//!
//! A server chooses names, messages and values, and a terminal obeys escape sequences, C1 controls
//! and marks that reverse the direction of text. In a cell or a message each such letter becomes
//! U+FFFD; in JSON it is written as `\uXXXX`, which every reader reads as the same letter.
//!
//! Upstream counterpart: `cli-runtime:pkg/printers/terminal.go` (`EscapeTerminal`: escapes, not
//! the direction of text).

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

/// Stdout, written through a buffer.
#[derive(Debug)]
pub(crate) struct Out {
    out: BufWriter<Stdout>,
    is_terminal: bool,
}

impl Out {
    /// The stdout of this process.
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        Self {
            is_terminal: stdout.is_terminal(),
            out: BufWriter::with_capacity(64 << 10, stdout),
        }
    }

    /// Writes text; a terminal gets no letter that controls it, but ends of lines and tabs.
    ///
    /// # Errors
    /// The reader has closed stdout, or the disk is full.
    pub(crate) fn text(&mut self, text: &str) -> io::Result<()> {
        let text = if self.is_terminal {
            shown(text)
        } else {
            Cow::Borrowed(text)
        };
        self.out.write_all(text.as_bytes())
    }

    /// Hands the buffer to the reader.
    ///
    /// # Errors
    /// As of [`Out::text`].
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns whether a letter controls a terminal or the direction of its text, or ends a line in
/// some readers' eyes.
pub(crate) fn is_control(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        )
        || matches!(letter, '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text of several lines without letters that could control a terminal.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| {
        !matches!(letter, '\n' | '\t') && is_control(letter)
    })
}

/// A cell or the words of a line, without letters that could control a terminal or end the line.
pub(crate) fn visible(cell: &str) -> Cow<'_, str> {
    replaced(cell, is_control)
}

fn replaced(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_bad) {
        return Cow::Borrowed(text);
    }
    let letters = text.chars();
    let letters = letters.map(|it| {
        if is_bad(it) {
            char::REPLACEMENT_CHARACTER
        } else {
            it
        }
    });
    Cow::Owned(letters.collect())
}

/// JSON whose texts have letters that control a terminal in escaped form only. Outside of texts
/// JSON has none of them but white space.
pub(crate) fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_bad = |letter: char| is_control(letter) && !matches!(letter, '\n' | '\r' | '\t');
    if !json.chars().any(is_bad) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for letter in json.chars() {
        if is_bad(letter) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\u{9b}2J\u{202e}c\u{7f}\u{2066}\u{200f}\rd";

    #[test]
    fn letters_that_control_a_terminal_are_not_passed_on() {
        let expected = "a\u{fffd}[31mb\u{fffd}2J\u{fffd}c\u{fffd}\u{fffd}\u{fffd}\u{fffd}d";
        assert_eq!(visible(HOSTILE), expected);
        assert_eq!(shown(HOSTILE), expected);
        assert_eq!(shown("a\n\tb"), "a\n\tb");
        assert_eq!(visible("a\n\tb"), "a\u{fffd}\u{fffd}b");
        assert_eq!(visible("\u{e9}\u{1f980}"), "\u{e9}\u{1f980}");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, 1] });
        for text in [value.to_string(), format!("{value:#}")] {
            let escaped = escaped_json(&text);
            assert!(
                !escaped.chars().any(|it| it != '\n' && is_control(it)),
                "{escaped}"
            );
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&escaped).unwrap(),
                value
            );
        }
    }
}
