//! Finds the first invalid position of a text, for error messages.
//!
//! ```text
//! "eA=x" -> byte 3          "2026-1" -> ("1", "01")
//! ```
//!
//! Upstream: `encoding/base64`'s `CorruptInputError`, `time.Parse`.

use base64::Engine as _;

/// Returns the offset of the first byte that is not valid base64.
pub(crate) fn base64(text: &str) -> Option<usize> {
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .err()?;
    // Line ends do not count towards the offset.
    let kept: Vec<u8> = text
        .bytes()
        .filter(|letter| !b"\r\n".contains(letter))
        .collect();
    base64::engine::general_purpose::STANDARD
        .decode(&kept)
        .err()?;
    let is_letter = |letter: &u8| letter.is_ascii_alphanumeric() || b"+/".contains(letter);
    let good = text
        .bytes()
        .take_while(|letter| is_letter(letter) || b"\r\n".contains(letter));
    let good = good.count();
    let rest = &text.as_bytes()[good..];
    Some(match rest {
        [] => good - good % 4,
        [b'=', ..] if good % 4 >= 2 => {
            good + rest.iter().take_while(|letter| **letter == b'=').count()
        }
        _ => good,
    })
}

/// Returns the rest of a text from the point where it is not a time, and the expected element.
pub(crate) fn time(text: &str) -> (&str, &'static str) {
    let mut rest = text;
    for element in [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05",
    ] {
        let length = element.len();
        let Some(piece) = rest.get(..length) else {
            return (rest, element);
        };
        let is_number = element.starts_with(|first: char| first.is_ascii_digit());
        let fits = if is_number {
            piece.bytes().all(|letter| letter.is_ascii_digit())
        } else {
            piece == element
        };
        if !fits {
            return (rest, element);
        }
        rest = &rest[length..];
    }
    (rest, "Z07:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_byte_is_named() {
        for (text, at) in [
            ("eA==", None),
            ("", None),
            ("-x", Some(0)),
            ("eA", Some(0)),
            ("e A=", Some(1)),
        ] {
            assert_eq!(base64(text), at, "{text}");
        }
        assert_eq!(base64(&"a".repeat(254)), Some(252));
    }

    #[test]
    fn the_unexpected_and_the_expected_text_are_named() {
        for (text, rest, element) in [
            ("x", "x", "2006"),
            ("2026-1", "1", "01"),
            ("2026-01-02 03", " 03", "T"),
            ("2026-01-02T03:04:05", "", "Z07:00"),
            ("\u{e9}", "\u{e9}", "2006"),
        ] {
            assert_eq!(time(text), (rest, element), "{text}");
        }
    }
}
