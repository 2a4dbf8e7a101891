//! A cursor in a validated message, kept in step with the message under check.
//!
//! ```text
//! number and bytes of a field ─▶ Template::meet ─▶ Same: equal bytes │ Other: the counterpart
//! ```
//!
//! A template is a validated message of the same type, in the usual order and at the same depth as
//! the message under check: so a field with the same bytes is valid and in order, too. The k-th
//! element of a list is compared with the k-th. The cursor advances only when a field is looked up,
//! so that messages without inner messages cost nothing.
//!
//! INVARIANT: the cursor is at the start of a field, or at the end.
//! Complexity: a level is linear in its template; the caller bounds how often bytes are compared in
//! vain.
//! Upstream: none.

use super::fields::Split;

/// The reference message, or a message in it, and its offset in the reference message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counterpart<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

/// The part of a counterpart that the cursor has not passed.
#[derive(Debug)]
pub(super) struct Template<'a>(Counterpart<'a>);

/// The field at the same place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met<'a> {
    /// The same field, with equal bytes.
    Same,
    /// Another value of that field; empty if the template does not have the field.
    Other(Counterpart<'a>),
}

impl<'a> Template<'a> {
    /// Places the cursor at the start of a counterpart. An empty one has no fields to compare with.
    #[inline(always)]
    pub(super) fn of(counterpart: Counterpart<'a>) -> Self {
        Self(counterpart)
    }

    /// Returns the next field of that number, compared with the bytes of one: tag, length and
    /// value.
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
                // Equal bytes begin with an equal length, so both fields end together.
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
