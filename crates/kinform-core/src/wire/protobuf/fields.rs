//! Tags, lengths and numbers of a message: no types, no copies.
//!
//! ```text
//! bytes → Fields → Field {number, start of its tag, value}
//! ```
//!
//! Total: iteration stops at malformed bytes, and [`Fields::broken`] returns the reason. Groups,
//! which no Kubernetes type has, count as malformed. `next_open` is lenient: of a last value that
//! is cut off it returns the bytes that are left.
//!
//! Upstream: `protowire`, `gogo/protobuf` (`skipGenerated`). Complexity: one look at the first
//! bytes of each field.

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    /// The offset of its tag.
    pub(crate) start: usize,
    /// The offset after its value.
    pub(crate) end: usize,
    pub(crate) value: Wire<'a>,
}

/// A value as encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    /// Returns the bytes of a text or a message.
    #[inline(always)]
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn varint(self) -> Option<u64> {
        match self {
            Self::Varint(number) => Some(number),
            _ => None,
        }
    }
}

/// The fields of a message, in order.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Moves to the start of a field, backward or forward.
    #[inline]
    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the number and the wire type of the next field, and the offset of its value.
    #[inline(always)]
    pub(crate) fn tag(&self) -> Option<(u32, u64, usize)> {
        let (tag, at) = varint(self.bytes, self.at)?;
        if tag >> 3 == 0 || tag >> 3 > MAX_NUMBER {
            return None;
        }
        Some(((tag >> 3) as u32, tag & 7, at))
    }

    /// Returns the bytes whose length is at `at`, and the offset after them.
    #[inline(always)]
    fn run(&self, at: usize) -> Option<(&'a [u8], usize)> {
        let (length, at) = varint(self.bytes, at)?;
        let end = at.checked_add(usize::try_from(length).ok()?)?;
        Some((self.bytes.get(at..end)?, end))
    }

    /// Returns why iteration stopped; `None` if it reached the end.
    #[inline]
    pub(crate) fn broken(&self) -> Option<&'static str> {
        match self.at >= self.bytes.len() {
            true => None,
            false => self.why_broken(),
        }
    }

    #[cold]
    fn why_broken(&self) -> Option<&'static str> {
        let Some((tag, at)) = varint(self.bytes, self.at) else {
            return Some("a number is broken");
        };
        if tag >> 3 == 0 || tag >> 3 > MAX_NUMBER {
            return Some("a field has no number");
        }
        Some(match (tag & 7, varint(self.bytes, at)) {
            (0, _) | (2, None) => "a number is broken",
            (1 | 2 | 5, _) => "a length leads beyond its message",
            _ => "a field has no wire type",
        })
    }

    /// Returns the next field; if the last value of the message is cut off, its bytes that are
    /// left.
    pub(crate) fn next_open(&mut self) -> Option<Field<'a>> {
        let whole = self.next();
        if whole.is_some() {
            return whole;
        }
        let start = self.at;
        let (tag, at) = varint(self.bytes, start)?;
        let (_, at) = varint(self.bytes, at)?;
        let end = self.bytes.len();
        self.at = end;
        (tag & 7 == 2).then(|| Field {
            number: (tag >> 3) as u32,
            start,
            end,
            value: Wire::Bytes(&self.bytes[at..]),
        })
    }
}

/// The wire type of numbers.
pub(crate) const VARINT: u64 = 0;
/// The wire type of doubles.
pub(crate) const FIXED64: u64 = 1;
const FIXED32: u64 = 5;
/// The wire type of texts and messages.
pub(crate) const BYTES: u64 = 2;

/// BOUND: the largest field number of protobuf.
pub(crate) const MAX_NUMBER: u64 = (1 << 29) - 1;

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Field<'a>> {
        let start = self.at;
        let (number, form, at) = self.tag()?;
        // Most fields have a length. This test stays a conditional branch, which the CPU predicts
        // better than the jump table of a `match`.
        let (value, end) = match form == BYTES {
            true => {
                let (bytes, end) = self.run(at)?;
                (Wire::Bytes(bytes), end)
            }
            false => of_known_length(self.bytes, at, form)?,
        };
        self.at = end;
        Some(Field {
            number,
            start,
            end,
            value,
        })
    }
}

/// A field, cut from the bytes after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split<'a> {
    pub(super) number: u32,
    pub(super) form: u64,
    /// The bytes of the value, without its length.
    pub(super) value: &'a [u8],
    pub(super) rest: &'a [u8],
}

impl<'a> Split<'a> {
    /// Splits off the first field: for loops whose only state is the bytes that are left.
    #[inline(always)]
    pub(super) fn of(bytes: &'a [u8]) -> Option<Self> {
        // Most tags, lengths and numbers take one byte.
        if let [tag, second, behind @ ..] = bytes
            && (tag | second) < 0x80
            && *tag >= 8
        {
            let (number, form) = (u32::from(tag >> 3), u64::from(tag & 7));
            if form == BYTES {
                let (value, rest) = behind.split_at_checked(usize::from(*second))?;
                return Some(Self {
                    number,
                    form,
                    value,
                    rest,
                });
            }
            if form == VARINT {
                return Some(Self {
                    number,
                    form,
                    value: &bytes[1..2],
                    rest: behind,
                });
            }
        }
        Self::long(bytes)
    }

    /// Returns the value, decoded.
    #[inline(always)]
    pub(super) fn wire(&self) -> Wire<'a> {
        match self.form {
            BYTES => Wire::Bytes(self.value),
            form => self.number_of(form),
        }
    }

    #[inline(never)]
    fn number_of(&self, form: u64) -> Wire<'a> {
        // The value has the length that its wire type requires, so this always succeeds.
        of_known_length(self.value, 0, form).map_or(Wire::Fixed32, |(value, _)| value)
    }

    #[inline(always)]
    fn long(bytes: &'a [u8]) -> Option<Self> {
        let (tag, rest) = first(bytes)?;
        if tag >> 3 == 0 || tag >> 3 > MAX_NUMBER {
            return None;
        }
        let (value, rest) = match tag & 7 {
            BYTES => {
                let (length, rest) = first(rest)?;
                rest.split_at_checked(usize::try_from(length).ok()?)?
            }
            form => rest.split_at_checked(known_length(rest, form)?)?,
        };
        Some(Self {
            number: (tag >> 3) as u32,
            form: tag & 7,
            value,
            rest,
        })
    }
}

/// Returns the number that the bytes begin with, and the bytes after it.
#[inline(always)]
pub(super) fn first(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [one, rest @ ..] if *one < 0x80 => Some((u64::from(*one), rest)),
        [one, two, rest @ ..] if *two < 0x80 => {
            Some((u64::from(*one & 0x7f) | u64::from(*two) << 7, rest))
        }
        [] => None,
        _ => {
            let (number, at) = long_varint(bytes, 0)?;
            Some((number, &bytes[at..]))
        }
    }
}

/// Returns the length of a value of a wire type without a length prefix.
#[inline(always)]
fn known_length(bytes: &[u8], form: u64) -> Option<usize> {
    match (form, bytes) {
        (VARINT, [one, ..]) if *one < 0x80 => Some(1),
        (VARINT, [_, two, ..]) if *two < 0x80 => Some(2),
        (VARINT, _) => long_varint(bytes, 0).map(|(_, end)| end),
        (FIXED64, _) => Some(8),
        (FIXED32, _) => Some(4),
        _ => None,
    }
}

/// Returns a value of a wire type without a length prefix, and the position after it.
#[inline(never)]
fn of_known_length(bytes: &[u8], at: usize, wire_type: u64) -> Option<(Wire<'static>, usize)> {
    match wire_type {
        VARINT => varint(bytes, at).map(|(number, end)| (Wire::Varint(number), end)),
        FIXED64 => {
            let eight = bytes.get(at..)?.first_chunk()?;
            Some((Wire::Fixed64(u64::from_le_bytes(*eight)), at + 8))
        }
        FIXED32 => {
            bytes.get(at..)?.first_chunk::<4>()?;
            Some((Wire::Fixed32, at + 4))
        }
        _ => None,
    }
}

/// Returns the number at `at`, and the position after it.
#[inline(always)]
pub(crate) fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    // The lengths of most messages take two bytes.
    match bytes.get(at + 1) {
        Some(&second) if second < 0x80 => {
            let number = u64::from(first & 0x7f) | u64::from(second) << 7;
            Some((number, at + 2))
        }
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut number = Varint::default();
    for (read, &byte) in bytes.get(at..)?.iter().enumerate() {
        if let Some(value) = number.push(byte)? {
            return Some((value, at + read + 1));
        }
    }
    None
}

/// A number, some bytes of which were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    /// Returns whether no byte was read yet.
    pub(crate) fn is_empty(self) -> bool {
        self.shift == 0
    }

    /// Takes the next byte; returns the number if it is the last one. `None` if no number is so
    /// long.
    pub(crate) fn push(&mut self, byte: u8) -> Option<Option<u64>> {
        // BOUND: ten bytes, the tenth of which has one bit.
        if self.shift > 63 || (self.shift == 63 && byte > 1) {
            return None;
        }
        self.value |= u64::from(byte & 0x7f) << self.shift;
        self.shift += 7;
        Some((byte < 0x80).then_some(self.value))
    }
}

/// Returns the number of bytes that a number takes.
pub(crate) fn varint_len(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a field of bytes: a text or a message.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Encodes a field of these bytes.
#[cfg(test)]
pub(super) fn field(number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, &parts.concat());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in [0, 1, 127, 128, 300, 1 << 32, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            assert_eq!(bytes.len(), varint_len(number));
            assert_eq!(varint(&bytes, 0), Some((number, bytes.len())));
            assert_eq!(varint(&bytes[..bytes.len() - 1], 0), None);
        }
        assert_eq!(varint(&[0xff; 10], 0), None);
        assert_eq!(varint(&[0x80; 11], 0), None);
    }

    #[test]
    fn broken_bytes_end_the_fields_and_say_why() {
        let check = |bytes: &[u8], count: usize, why: Option<&str>| {
            let mut fields = Fields::of(bytes);
            assert_eq!((fields.by_ref().count(), fields.broken()), (count, why));
        };
        check(&[], 0, None);
        check(&[0x0a, 1, b'x', 0x10, 5], 2, None);
        check(&[0x10, 5, 0x0a], 1, Some("a number is broken"));
        check(
            &[0x0a, 2, b'x'],
            0,
            Some("a length leads beyond its message"),
        );
        check(&[0x0b, 0x0c], 0, Some("a field has no wire type"));
        check(&[0x02, 0], 0, Some("a field has no number"));
        check(&[0x09, 0, 0], 0, Some("a length leads beyond its message"));
        let mut huge = vec![0x0a];
        put_varint(&mut huge, 1 << 63);
        check(&huge, 0, Some("a length leads beyond its message"));
        let open = Fields::of(&huge).next_open().unwrap();
        assert_eq!((open.number, open.value), (1, Wire::Bytes(&[])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut fields = Fields::of(&bytes);
            let mut end = 0;
            for field in fields.by_ref() {
                prop_assert!(field.start == end && field.end > field.start);
                end = field.end;
            }
            prop_assert_eq!(end == bytes.len(), fields.broken().is_none());
            // `Split` yields the same fields.
            let mut rest = &bytes[..];
            for field in Fields::of(&bytes) {
                let split = Split::of(rest).unwrap();
                prop_assert_eq!((split.number, split.wire()), (field.number, field.value));
                rest = split.rest;
                prop_assert_eq!(bytes.len() - rest.len(), field.end);
            }
            prop_assert!(Split::of(rest).is_none());
        }
    }
}
