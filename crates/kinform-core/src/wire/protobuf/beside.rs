//! The same place in a message that is alike: walked beside the message that is checked.
//!
//! ```text
//! number and bytes of a field ─▶ Template::meet ─▶ Same, byte for byte │ Other: the counterpart, to go on with inside of it
//! ```
//!
//! A template is a message of the same type that was found to be sound and in the usual order, as deep as the one that
//! is checked: so a field of it, byte for byte, is so in the other, too. The k-th element of a list meets the k-th.
//! Its fields are passed when somebody asks for one, so that messages without messages in them cost nothing.
//!
//! INVARIANT: the cursor is where a field begins, or at the end.
//! Complexity: a level is linear in its template; who descends bounds how often bytes are compared in vain.
//! Upstream: none.

use super::fields::Split;

/// What of a message that is alike was not passed yet.
#[derive(Debug)]
pub(super) struct Template<'a>(&'a [u8]);

/// What stands at the same place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met<'a> {
    /// The same field, byte for byte.
    Same,
    /// Another value of that field; nothing, where there is none.
    Other(&'a [u8]),
}

impl<'a> Template<'a> {
    /// A template of which nothing was passed. An empty one is like nothing.
    #[inline(always)]
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next field of that number, beside the bytes of one: tag, length and value.
    #[inline(always)]
    pub(super) fn meet(&mut self, number: u32, raw: &[u8]) -> Met<'a> {
        while let Some(next) = Split::of(self.0) {
            if next.number > number {
                break;
            }
            let before = std::mem::replace(&mut self.0, next.rest);
            if next.number == number {
                return match before.strip_prefix(raw) {
                    // A field ends where the same bytes end.
                    Some(_) => Met::Same,
                    None => Met::Other(next.value),
                };
            }
        }
        Met::Other(&[])
    }
}
