//! The texts of one message, proven to be UTF-8 in one pass.
//!
//! ```text
//! message ─▶ Texts: the same bytes, with blanks for those above 127
//!              └── the bytes of a text, if all ASCII ─▶ that part of the copy
//! ```
//!
//! A message has a hundred short texts. To validate each by itself costs more than all other work
//! on it. The copy is made word by word; for a text it remains to check that none of its bytes was
//! blanked.
//!
//! INVARIANT: the text that is returned equals the bytes asked for.
//! Upstream: none; Go's strings need not be valid. Complexity: two looks at each byte of the
//! message.

use crate::wire::scan::is_ascii;

/// BOUND: the bytes of a message that are copied; larger messages consist mostly of a few long
/// texts.
const MOST: usize = 64 << 10;

/// The bytes of a message as text.
pub(crate) struct Texts {
    /// The address of the message. Never dereferenced: a text is located by its distance from it.
    base: usize,
    ascii: String,
}

/// The text in these bytes; the empty text if they are not UTF-8.
#[inline(always)]
pub(crate) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// No message: each text is validated by itself.
pub(crate) static NONE: Texts = Texts {
    base: 0,
    ascii: String::new(),
};

impl Texts {
    pub(crate) fn of(message: &[u8]) -> Self {
        let message = message.get(..MOST.min(message.len())).unwrap_or_default();
        let blanked = message
            .iter()
            .map(|&byte| if byte < 0x80 { byte } else { b' ' });
        Self {
            base: message.as_ptr().addr(),
            ascii: String::from_utf8(blanked.collect()).unwrap_or_default(),
        }
    }

    /// Returns the text in these bytes of the message; the empty text if they are not UTF-8.
    #[inline(never)]
    pub(crate) fn text<'a>(&'a self, bytes: &'a [u8]) -> &'a str {
        if is_ascii(bytes) {
            let at = bytes.as_ptr().addr().wrapping_sub(self.base);
            let text = self
                .ascii
                .get(at..)
                .and_then(|rest| rest.get(..bytes.len()));
            if let Some(text) = text {
                debug_assert_eq!(text.as_bytes(), bytes);
                return text;
            }
        }
        utf8(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_piece_is_the_text_that_it_is(
            bytes in proptest::collection::vec(prop_oneof![8 => 0_u8..0x80, 1 => any::<u8>()], 0..80),
            other in "\\PC{0,20}",
        ) {
            let texts = Texts::of(&bytes);
            for start in 0..=bytes.len() {
                for end in start..=bytes.len() {
                    let piece = &bytes[start..end];
                    prop_assert_eq!(texts.text(piece), std::str::from_utf8(piece).unwrap_or_default());
                    prop_assert_eq!(NONE.text(piece), std::str::from_utf8(piece).unwrap_or_default());
                }
            }
            // A text outside of the message is returned, too.
            prop_assert_eq!(texts.text(other.as_bytes()), &*other);
        }
    }

    #[test]
    fn every_text_of_a_large_message_is_found() {
        let bytes = "kinform ".repeat(MOST / 8 + 2).into_bytes();
        let texts = Texts::of(&bytes);
        assert_eq!(texts.ascii.len(), MOST);
        for start in [0, MOST - 8, MOST - 4, MOST, MOST + 8] {
            assert_eq!(
                texts.text(&bytes[start..start + 8]).as_bytes(),
                &bytes[start..start + 8]
            );
        }
    }
}
