//! Text in quotes as Go's `%q` prints it, since API servers' messages contain it.
//!
//! ```text
//! text ──▶ "text" with \" \\ \n \x07 \u200b
//! ```
//!
//! Never meant to be read back; pure and total. Upstream: `go:strconv/quote.go`.

use std::fmt::Write;

/// The text in double quotes, escaped as Go's `%q` does.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\'' => out.push('\''),
            c if is_print(c) => out.push(c),
            c => push_escape(&mut out, u32::from(c)),
        }
    }
    out.push('"');
    out
}

/// Go's `IsPrint`, but for a few characters of the last Unicode versions.
fn is_print(c: char) -> bool {
    // A combining mark is escaped only at the start of a text, which a letter before it prevents.
    let after_letter = String::from_iter(['a', c]);
    after_letter.escape_debug().count() == 2
}

fn push_escape(out: &mut String, code: u32) {
    let written = match code {
        0..0x80 => write!(out, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
    written.expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::quote;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("", r#""""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("it's é 漢字 😀", r#""it's é 漢字 😀""#),
            ("a\"b\\c\n\t\r", r#""a\"b\\c\n\t\r""#),
            (
                "\0\u{7}\u{7f}\u{80}\u{200b}\u{e0001}",
                r#""\x00\a\x7f\u0080\u200b\U000e0001""#,
            ),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
