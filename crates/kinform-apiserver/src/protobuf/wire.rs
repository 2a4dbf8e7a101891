//! Tags, varints and lengths of protobuf.
//!
//! ```text
//! bytes ──Reader::next──▶ (number, Raw)          number + bytes ──put_field──▶ tag, length, bytes
//! ```
//!
//! Reading never copies and never goes past the end. Groups, which are obsolete, are skipped.
//!
//! Upstream: the `Unmarshal` functions that gogo/protobuf generates, whose errors these are.

use bytes::{BufMut, BytesMut};

use super::WireError;

/// The value of a field, not yet decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
    Group,
}

impl<'a> Raw<'a> {
    /// The bytes of a length-delimited field.
    pub(super) fn bytes(self, field: &str) -> Result<&'a [u8], WireError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong(field)),
        }
    }

    pub(super) fn varint(self, field: &str) -> Result<u64, WireError> {
        match self {
            Self::Varint(number) => Ok(number),
            other => Err(other.wrong(field)),
        }
    }

    pub(super) fn fixed64(self, field: &str) -> Result<u64, WireError> {
        match self {
            Self::Fixed64(number) => Ok(number),
            other => Err(other.wrong(field)),
        }
    }

    /// Returns the text. Bytes that are not UTF-8 are replaced, as Go's JSON does.
    pub(super) fn text(self, field: &str) -> Result<String, WireError> {
        Ok(String::from_utf8_lossy(self.bytes(field)?).into_owned())
    }

    fn wrong(self, field: &str) -> WireError {
        let wire = match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Group => 3,
            Self::Fixed32 => 5,
        };
        WireError(format!("proto: wrong wireType = {wire} for field {field}"))
    }
}

/// Reads the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// The message's name, for errors.
    of: &'a str,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], of: &'a str) -> Self {
        Self { rest: bytes, of }
    }

    /// Returns the next field, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Raw<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.tag()?;
        let raw = match wire {
            3 => {
                self.skip_group()?;
                Raw::Group
            }
            4 => {
                let text = format!("proto: {}: wiretype end group for non-group", self.of);
                return Err(WireError(text));
            }
            wire => self.value(wire)?,
        };
        Ok(Some((number, raw)))
    }

    fn tag(&mut self) -> Result<(u32, u64), WireError> {
        let tag = self.varint()?;
        let (number, wire) = (tag >> 3, tag & 7);
        match u32::try_from(number) {
            Ok(number) if number > 0 && number < 1 << 29 => Ok((number, wire)),
            _ => {
                let of = self.of;
                let text = format!("proto: {of}: illegal tag {number} (wire type {wire})");
                Err(WireError(text))
            }
        }
    }

    fn value(&mut self, wire: u64) -> Result<Raw<'a>, WireError> {
        Ok(match wire {
            0 => Raw::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                let mut number = [0; 8];
                number.copy_from_slice(bytes);
                Raw::Fixed64(u64::from_le_bytes(number))
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).ok();
                let length = length.filter(|length| i64::try_from(*length).is_ok());
                let Some(length) = length else {
                    let text = "proto: negative length found during unmarshaling";
                    return Err(WireError(text.to_owned()));
                };
                Raw::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Raw::Fixed32
            }
            wire => return Err(WireError(format!("proto: illegal wireType {wire}"))),
        })
    }

    /// Skips to the end of a group. Nested groups are counted without recursion.
    fn skip_group(&mut self) -> Result<(), WireError> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.tag()?.1 {
                3 => depth += 1,
                4 => depth -= 1,
                wire => _ = self.value(wire)?,
            }
        }
        Ok(())
    }

    /// Reads one number, also of a list that is packed into one field.
    pub(super) fn varint(&mut self) -> Result<u64, WireError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or_else(cut)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(WireError("proto: integer overflow".to_owned()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(cut)?;
        self.rest = rest;
        Ok(taken)
    }
}

fn cut() -> WireError {
    WireError("unexpected EOF".to_owned())
}

/// Writes a field of bytes.
pub(super) fn put_field(out: &mut BytesMut, number: u8, bytes: &[u8]) {
    begin_field(out, number, bytes.len());
    out.put_slice(bytes);
}

/// Writes the tag and the length of a field of bytes.
pub(super) fn begin_field(out: &mut BytesMut, number: u8, length: usize) {
    out.put_u8(number << 3 | 2);
    put_varint(out, length as u64);
}

/// Writes a number.
pub(crate) fn put_varint(out: &mut BytesMut, number: u64) {
    let (bytes, length) = varint_bytes(number);
    out.put_slice(&bytes[..length]);
}

/// Encodes a number with seven bits in each byte. Returns the bytes and their count.
pub(super) fn varint_bytes(mut number: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut length) = ([0; 10], 0);
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        bytes[length] = if number == 0 { low } else { low | 0x80 };
        length += 1;
        if number == 0 {
            return (bytes, length);
        }
    }
}
