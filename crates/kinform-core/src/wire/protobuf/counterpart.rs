//! A cursor in a validated message, kept at the place of the message under check.
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

/// A message that is alike, or a message in it, and where it begins in that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counterpart<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// What of a counterpart was not passed yet.
#[derive(Debug)]
pub(super) struct Template<'a>(Counterpart<'a>);

/// What stands at the same place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met<'a> {
    /// The same field, byte for byte.
    Same,
    /// Another value of that field; nothing, where there is none.
    Other(Counterpart<'a>),
}

impl<'a> Template<'a> {
    /// A template of which nothing was passed. An empty one is like nothing.
    #[inline(always)]
    pub(super) fn of(counterpart: Counterpart<'a>) -> Self {
        Self(counterpart)
    }

    /// The next field of that number, beside the bytes of one: tag, length and value.
    #[inline(always)]
    pub(super) fn meet(&mut self, number: u32, raw: &[u8]) -> Met<'a> {
        let Counterpart { bytes, at } = &mut self.0;
        while let Some(next) = Split::of(bytes) {
            if next.number > number {
                break;
            }
            let before = std::mem::replace(bytes, next.rest);
            *at += before.len() - next.rest.len();
            if next.number == number {
                // A field ends where the same bytes end.
                return match before.starts_with(raw) {
                    true => Met::Same,
                    false => Met::Other(Counterpart {
                        bytes: next.value,
                        at: *at - next.value.len(),
                    }),
                };
            }
        }
        Met::Other(Counterpart::default())
    }
}
