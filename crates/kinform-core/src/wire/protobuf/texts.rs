//! The texts of one message, told to be UTF-8 all at once.
//!
//! ```text
//! message ─▶ Texts: the same bytes, but blanks for those above 127
//!              └── the bytes of a text, all ASCII ─▶ that piece of it
//! ```
//!
//! A message has a hundred texts of some bytes. To show each by itself to be UTF-8 costs more than all else that is
//! done with it; the whole is shown by words, and of a text is left to say that no byte of it was blanked.
//!
//! INVARIANT: a text that is told is byte for byte the one that was asked for.
//! Upstream: none; Go's strings need no proof. Complexity: two looks at each byte of the message.

use super::value::utf8;
use crate::wire::scan::is_ascii;

/// BOUND: of larger messages, most of which are a few long texts, there is no copy.
const MOST: usize = 64 << 10;

/// What the bytes of a message are as texts.
pub(crate) struct Texts {
    /// Where the message is. Never read from: what is asked for is found by its distance.
    base: usize,
    ascii: String,
}

/// No message is known: each text is shown by itself.
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

    /// The text in these bytes of the message; nothing if they are none.
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
            // What is not of the message is told all the same.
            prop_assert_eq!(texts.text(other.as_bytes()), &*other);
        }
    }

    #[test]
    fn of_a_large_message_every_text_is_told() {
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
