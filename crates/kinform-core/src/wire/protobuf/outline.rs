//! The positions of the values in a validated message, by which later messages are compared with
//! it.
//!
//! ```text
//! valid message ─▶ Outline::learn ─▶ spots, in order: length, value, end, how to validate it
//! another message ─▶ follow ─▶ number of bytes only compared, if it differs in values only
//! ```
//!
//! A message with the same tags in the same order is as valid as the learnt one, provided that its
//! values are valid and its lengths fit. Objects of a list differ mostly in values, such as names
//! and times. So a value that differs is validated, and the comparison continues after both. A
//! message of the same length as its counterpart needs no further check; the end of any other is
//! compared with the end of its contents.
//!
//! INVARIANT: the learnt message was validated, in the usual order, at the nesting depth of the
//! messages that are compared with it.
//! BOUND: 4,096 spots of 20 bytes. Upstream: none.
//! Complexity: linear.

use std::ops::Range;

use kinform_schema::Type;
use smallvec::SmallVec;

use super::fields::{BYTES, Fields, VARINT, varint};
use super::metadata::{MANAGED_FIELDS, METADATA};
use super::plan::{Form, Step, UNKNOWN, plans};
use super::types::MAX_DEPTH;
use crate::wire::scan::common;

/// BOUND: values of a message; recorded pods have some 250.
const MOST_SPOTS: usize = 4 << 10;

/// Stands for the whole message.
const ROOT: u16 = u16::MAX;

/// The positions of values. The default has none.
#[derive(Debug, Default)]
pub(super) struct Outline {
    spots: Vec<Spot>,
}

/// A value, and the conditions for another value in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// The offset of its length prefix, or of a number itself.
    at: u32,
    value: u32,
    end: u32,
    /// The spot of the message that contains it.
    outer: u16,
    /// The number of its type.
    pub(super) of: u16,
    /// The number of levels that may be nested in it.
    pub(super) depth: u8,
    pub(super) kind: Kind,
}

impl Spot {
    /// Returns the end of the bytes that only this spot describes: the fields of a message have
    /// their own spots.
    fn own_end(&self) -> usize {
        match self.kind {
            Kind::Message => self.value as usize,
            _ => self.end as usize,
        }
    }
}

/// The kind of value in a spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message, whose fields have spots of their own.
    Message,
    Number,
    /// managedFields, which are not validated.
    Skipped,
    /// An entry of a map with values of this form.
    Entry(Form),
    Value(Form),
}

/// The message that is compared, or a message in it whose length differs from its counterpart's, or
/// is encoded in another way.
struct Open {
    spot: u16,
    end: usize,
    /// The end of the counterpart.
    at_template: usize,
}

impl Outline {
    /// Learns a message that is valid, except its managedFields, and in the usual order. Of a
    /// message with too many values it learns no spot.
    pub(super) fn learn(&mut self, of: &Type, bytes: &[u8]) {
        self.spots.clear();
        let whole = (ROOT, 0..bytes.len());
        let read = self.read(of.number(), bytes, whole, MAX_DEPTH, &mut None);
        if read.is_none() {
            self.spots.clear();
        }
    }

    /// Reads one message and all messages in it. `metadata` is the spot of the object's first
    /// metadata, whose managedFields were not validated.
    fn read(
        &mut self,
        of: u16,
        bytes: &[u8],
        (outer, span): (u16, Range<usize>),
        depth: u32,
        metadata: &mut Option<u16>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        let steps = plans().steps(of);
        let mut fields = Fields::of(&bytes[..span.end]);
        fields.seek(span.start);
        while let Some((number, wire, at)) = fields.tag() {
            let step = steps.get(number as usize).unwrap_or(&UNKNOWN);
            let field = fields.next()?;
            let is_skipped = number == MANAGED_FIELDS && *metadata == Some(outer);
            let is_managed = is_skipped && matches!(step.form, Form::Message | Form::Json);
            let (kind, value) = match (wire, step.form, field.value.bytes()) {
                (VARINT, Form::Number, _) => (Kind::Number, at),
                (BYTES, _, Some(value)) => (kind(step, is_managed), field.end - value.len()),
                _ => continue,
            };
            if self.spots.len() == MOST_SPOTS {
                return None;
            }
            let spot = self.spots.len() as u16;
            let [at, end] = [at, field.end].map(|at| at as u32);
            self.spots.push(Spot {
                at,
                value: value as u32,
                end,
                outer,
                of: step.of,
                depth: depth as u8,
                kind,
            });
            if kind == Kind::Message {
                if outer == ROOT && number == METADATA {
                    metadata.get_or_insert(spot);
                }
                self.read(step.of, bytes, (spot, value..field.end), depth, metadata)?;
            }
        }
        Some(())
    }

    /// Returns the spot of the message whose value begins at `value` of the learnt one.
    pub(super) fn message_at(&self, value: usize) -> Option<u16> {
        let at = self
            .spots
            .partition_point(|spot| (spot.at as usize) < value);
        // The last spot that begins before `value`: those of its fields and its successors begin
        // later.
        let spot = at.checked_sub(1)?;
        let is_it = |spot: &&Spot| spot.kind == Kind::Message && spot.value as usize == value;
        self.spots.get(spot).filter(is_it).map(|_| spot as u16)
    }

    /// Compares a message with the learnt one, or with a message in that. Returns the number of
    /// equal bytes, if the messages differ in values only and `is_sound` accepts each value that
    /// differs.
    pub(super) fn follow(
        &self,
        learnt: &[u8],
        message: Option<u16>,
        bytes: &[u8],
        mut is_sound: impl FnMut(&Spot, &[u8]) -> bool,
    ) -> Option<usize> {
        let root = message.unwrap_or(ROOT);
        let whole = self.spots.get(usize::from(root));
        let (mut at_template, end) = whole.map_or((0, learnt.len()), |whole| {
            (whole.value as usize, whole.end as usize)
        });
        let mut inside = Open {
            spot: root,
            end: bytes.len(),
            at_template: end,
        };
        let mut outer: SmallVec<[Open; 16]> = SmallVec::new();
        // The distance between corresponding offsets. The next place follows from it and the spots
        // alone, so that the CPU may start to read there before the current value is known.
        let mut apart = 0_usize.wrapping_sub(at_template);
        let mut compared = 0;
        let mut next = message.map_or(0, |message| usize::from(message) + 1);
        loop {
            let same = common(
                &learnt[at_template..end],
                &bytes[at_template.wrapping_add(apart)..],
            );
            compared += same;
            let met = at_template + same;
            // A message whose counterpart ends here must end here, too.
            while inside.at_template <= met {
                if inside.at_template.wrapping_add(apart) != inside.end {
                    return None;
                }
                match outer.pop() {
                    Some(next) => inside = next,
                    None => return Some(compared),
                }
            }
            let spots = self.spots.get(next..)?;
            let begun = spots.iter().take_while(|spot| spot.at as usize <= met);
            next = (next + begun.count()).checked_sub(1)?;
            let spot = self.spots.get(next)?;
            if met >= spot.own_end() {
                return None;
            }
            let [at, value, end] = [spot.at, spot.value, spot.end].map(|place| place as usize);
            compared -= met - at;
            let start = at.wrapping_add(apart);
            let (from, value_end) = match spot.kind {
                Kind::Number => (start, varint(bytes, start)?.1),
                _ => {
                    let (length, from) = varint(bytes, start)?;
                    (from, from.checked_add(usize::try_from(length).ok()?)?)
                }
            };
            if value_end > inside.end {
                return None;
            }
            // A value of another length changes that of the message that contains it, which must
            // then be the innermost open one.
            let is_moved = value_end != end.wrapping_add(apart);
            if is_moved && inside.spot != spot.outer {
                return None;
            }
            if spot.kind == Kind::Message {
                let within = Open {
                    spot: next as u16,
                    end: value_end,
                    at_template: end,
                };
                outer.push(std::mem::replace(&mut inside, within));
                (at_template, apart) = (value, from.wrapping_sub(value));
            } else {
                if !is_sound(spot, &bytes[from..value_end]) {
                    return None;
                }
                if is_moved {
                    apart = value_end.wrapping_sub(end);
                }
                at_template = end;
            }
            next += 1;
        }
    }
}

fn kind(step: &Step, is_managed: bool) -> Kind {
    match step.form {
        _ if is_managed => Kind::Skipped,
        Form::Message => Kind::Message,
        Form::Entry => Kind::Entry(step.inside),
        form => Kind::Value(form),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::field;
    use super::super::types::type_of;
    use super::*;

    /// A pod of one container, whose managedFields are malformed.
    fn pod(name: &[u8], container: &[u8]) -> Vec<u8> {
        let metadata = field(1, &[&field(1, &[name]), &field(17, &[b"\x0a\x7f", name])]);
        let spec = field(2, &[&field(2, &[&field(1, &[container])])]);
        [metadata, spec].concat()
    }

    fn learnt(bytes: &[u8]) -> Outline {
        let mut outline = Outline::default();
        outline.learn(type_of("v1", "Pod").unwrap(), bytes);
        outline
    }

    #[test]
    fn values_that_differ_are_asked_about_and_managed_fields_are_none() {
        let (one, two) = (pod(b"a", b"main"), pod(b"bcd", b"proxy"));
        let outline = learnt(&one);
        let kinds: Vec<_> = outline.spots.iter().map(|spot| spot.kind).collect();
        let text = Kind::Value(Form::Text);
        let message = Kind::Message;
        let expected = [message, text, Kind::Skipped, message, message, text];
        assert_eq!(kinds, expected);
        let mut asked = Vec::new();
        let compared = outline.follow(&one, None, &two, |spot, value| {
            asked.push((spot.kind, value.to_vec()));
            true
        });
        let managed = [b"\x0a\x7f", &b"bcd"[..]].concat();
        let values = [
            (text, &b"bcd"[..]),
            (Kind::Skipped, &managed),
            (text, b"proxy"),
        ];
        assert_eq!(asked, values.map(|(kind, value)| (kind, value.to_vec())));
        // All tags; one of them takes two bytes.
        assert_eq!(compared, Some(7));
        let refused = outline.follow(&one, None, &two, |_, value| value != b"proxy");
        assert_eq!(refused, None);
    }

    #[test]
    fn a_message_in_a_message_is_followed_alone() {
        let (one, two) = (pod(b"a", b"main"), pod(b"b", b"proxy"));
        let outline = learnt(&one);
        let messages: Vec<_> = (0..=one.len())
            .filter_map(|at| outline.message_at(at).map(|message| (at, message)))
            .collect();
        assert_eq!(messages.len(), 3);
        for (at, message) in messages {
            let spot = outline.spots[usize::from(message)];
            assert_eq!(spot.value as usize, at);
            let own = &one[at..spot.end as usize];
            let followed = outline.follow(&one, Some(message), own, |_, _| false);
            assert_eq!(followed, Some(own.len()));
            let more = outline.follow(&one, Some(message), &one[at..], |_, _| true);
            assert_eq!(more.is_some(), spot.end as usize == one.len());
        }
        let (at, message) = (one.len() - 6, outline.spots.len() as u16 - 2);
        assert_eq!(outline.message_at(at), Some(message));
        let other = &two[two.len() - 7..];
        assert_eq!(
            outline.follow(&one, Some(message), other, |_, _| true),
            Some(1)
        );
    }

    #[test]
    fn of_a_message_with_very_many_values_none_is_known() {
        let many = field(1, &[&field(11, &[]).repeat(MOST_SPOTS)]);
        assert!(learnt(&many).spots.is_empty());
        assert_eq!(
            learnt(&many).follow(&many, None, &many[..4], |_, _| true),
            None
        );
    }
}
