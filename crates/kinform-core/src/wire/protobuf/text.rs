//! A message as JSON text: the text that the server would have sent, without white space.
//!
//! ```text
//! Node → write → JSON;  bytes → base64;  {seconds, nanos} → TimeText
//! ```
//!
//! INVARIANT: recursion is as deep as the validated message.
//! Upstream: `apimachinery:pkg/runtime/serializer/json`, `metav1.Time`, `metav1.MicroTime`.

use std::ops::Deref;

use kinform_api::TypeMeta;

use super::fields::{Fields, Wire};
use super::members::{Members, Nulls};
use super::value::{Node, elements, entries};

/// Appends the JSON of an object, beginning with its type.
pub(crate) fn write_whole(meta: &TypeMeta, members: Members<'_>, nulls: Nulls, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"apiVersion\":");
    string(&meta.api_version, out);
    out.extend_from_slice(b",\"kind\":");
    string(&meta.kind, out);
    for member in members {
        out.push(b',');
        pair(member, nulls, out);
    }
    out.push(b'}');
}

/// Appends the JSON of a value.
pub(crate) fn write(node: Node<'_>, nulls: Nulls, out: &mut Vec<u8>) {
    match node {
        Node::Null => out.extend_from_slice(b"null"),
        Node::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Node::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Node::Float(number) => {
            out.extend_from_slice(serde_json::Value::from(number).to_string().as_bytes());
        }
        Node::Text(text) => string(text, out),
        Node::Bytes(bytes) => string(&base64(bytes), out),
        Node::Time(bytes) => string(&TimeText::seconds(bytes), out),
        Node::MicroTime(bytes) => string(&TimeText::micros(bytes), out),
        Node::Json(raw) => out.extend_from_slice(raw),
        Node::Object(plan, bytes) => object(Members::of(plan, bytes, nulls), nulls, out),
        Node::Map(step, run, _) => object(entries(step, run), nulls, out),
        Node::List(..) | Node::Texts(..) | Node::Schemas(_) => {
            out.push(b'[');
            for (index, element) in elements(node).into_iter().flatten().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write(element, nulls, out);
            }
            out.push(b']');
        }
    }
}

fn object<'k, 'a>(
    members: impl Iterator<Item = (&'k str, Node<'a>)>,
    nulls: Nulls,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    for (index, member) in members.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        pair(member, nulls, out);
    }
    out.push(b'}');
}

fn pair((name, value): (&str, Node<'_>), nulls: Nulls, out: &mut Vec<u8>) {
    string(name, out);
    out.push(b':');
    write(value, nulls, out);
}

/// Appends a text in quotes.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    let is_plain = |byte| byte != b'"' && byte != b'\\' && byte >= 0x20;
    if text.bytes().all(is_plain) {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    }
}

/// Encodes the bytes in base64, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let is_there = place <= three.len();
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if is_there { char::from(letter) } else { '=' });
        }
    }
    text
}

/// The text of a time, on the stack; aligned so that it can be scanned by words.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
pub(crate) struct TimeText {
    text: [u8; 27],
    len: usize,
}

impl Deref for TimeText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.text[..self.len]).unwrap_or_default()
    }
}

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// The seconds of the years 0 to 9999, which have a text.
const RANGE: std::ops::Range<i64> = -62_167_219_200..253_402_300_800;

/// Returns seconds and nanoseconds since 1970; the nanoseconds are less than a second.
fn moment(bytes: &[u8]) -> (i64, i64) {
    match whole_seconds(bytes) {
        Some(seconds) => (seconds, 0),
        None => any_moment(bytes),
    }
}

/// Returns the seconds of a time in the usual encoding: five bytes of seconds, which reach from
/// 1978 to 3058, and nanoseconds that are absent or 0 (Go writes the 0).
#[inline(always)]
fn whole_seconds(bytes: &[u8]) -> Option<i64> {
    let (&[tag, a, b, c, d, e], rest) = bytes.split_first_chunk()?;
    let is_long = tag == 1 << 3 && a & b & c & d >= 0x80 && e < 0x80;
    if !is_long || !matches!(rest, [] | [0x10, 0]) {
        return None;
    }
    let seven = |byte: u8, place: u32| i64::from(byte & 0x7f) << (7 * place);
    Some(seven(a, 0) | seven(b, 1) | seven(c, 2) | seven(d, 3) | seven(e, 4))
}

fn any_moment(bytes: &[u8]) -> (i64, i64) {
    let (mut seconds, mut nanos) = (0_i64, 0_i64);
    for field in Fields::of(bytes) {
        match (field.number, field.value) {
            (1, Wire::Varint(value)) => seconds = value as i64,
            (2, Wire::Varint(value)) => nanos = i64::from(value as i32),
            _ => {}
        }
    }
    (
        seconds.saturating_add(nanos.div_euclid(NANOS)),
        nanos.rem_euclid(NANOS),
    )
}

/// Returns whether a time has a text: its year has four digits.
pub(crate) fn has_text(bytes: &[u8]) -> bool {
    RANGE.contains(&moment(bytes).0)
}

impl TimeText {
    /// Formats a time as `2006-01-02T15:04:05Z`.
    pub(crate) fn seconds(bytes: &[u8]) -> Self {
        Self::date(moment(bytes).0)
    }

    /// Formats a time as `2006-01-02T15:04:05.000000Z`.
    pub(crate) fn micros(bytes: &[u8]) -> Self {
        let (seconds, nanos) = moment(bytes);
        let mut time = Self::date(seconds);
        let micros = (nanos / 1_000) as u32;
        time.text[19..].copy_from_slice(b".000000Z");
        time.two(20, micros / 10_000);
        time.two(22, micros / 100 % 100);
        time.two(24, micros % 100);
        time.len = 27;
        time
    }

    fn date(seconds: i64) -> Self {
        let mut time = Self {
            text: *b"0000-00-00T00:00:00Z\0\0\0\0\0\0\0",
            len: 20,
        };
        let seconds = seconds.clamp(RANGE.start, RANGE.end - 1);
        let (year, month, day) = civil(seconds.div_euclid(DAY));
        let second = seconds.rem_euclid(DAY) as u32;
        time.two(0, year / 100);
        time.two(2, year % 100);
        time.two(5, month);
        time.two(8, day);
        time.two(11, second / 3600);
        time.two(14, second / 60 % 60);
        time.two(17, second % 60);
        time
    }

    /// Writes two digits at a place.
    #[inline(always)]
    fn two(&mut self, at: usize, number: u32) {
        self.text[at] = b'0' + (number / 10) as u8;
        self.text[at + 1] = b'0' + (number % 10) as u8;
    }
}

/// Returns year, month and day of a day since 1970, in the proleptic Gregorian calendar.
///
/// INVARIANT: the year is in `RANGE`, so that no number is negative.
fn civil(days: i64) -> (u32, u32, u32) {
    // Years begin in March, so that the leap day is the last one; eras have 400 years. The first
    // era begins before the year 0, and so does the count of years.
    let days = (days + 719_468 + 146_097) as u32;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next - 400, month, day)
}

#[cfg(test)]
mod tests {
    use super::super::fields::put_varint;
    use super::*;

    fn time(seconds: i64, nanos: i32) -> Vec<u8> {
        let mut bytes = vec![8];
        put_varint(&mut bytes, seconds as u64);
        bytes.push(16);
        put_varint(&mut bytes, nanos as u64);
        bytes
    }

    #[test]
    fn times_have_the_text_that_go_writes() {
        let check = |seconds, nanos, expected: &str| {
            let bytes = time(seconds, nanos);
            assert_eq!(&*TimeText::micros(&bytes), expected);
            assert!(has_text(&bytes));
            let (before, _) = expected.split_once('.').unwrap();
            assert_eq!(&*TimeText::seconds(&bytes), format!("{before}Z"));
        };
        check(0, 0, "1970-01-01T00:00:00.000000Z");
        check(951_782_400, 999_999_999, "2000-02-29T00:00:00.999999Z");
        check(1_767_225_599, 1_000, "2025-12-31T23:59:59.000001Z");
        check(-1, 0, "1969-12-31T23:59:59.000000Z");
        check(1, -1_000, "1970-01-01T00:00:00.999999Z");
        check(-62_135_596_800, 0, "0001-01-01T00:00:00.000000Z");
        check(253_402_300_799, 0, "9999-12-31T23:59:59.000000Z");
        assert!(!has_text(&time(253_402_300_800, 0)) && !has_text(&time(i64::MIN, -1)));
    }

    #[test]
    fn the_usual_form_of_a_time_says_the_same_as_any() {
        let edges = [
            0,
            1,
            1 << 28,
            1_767_225_599,
            1 << 35,
            i64::MAX,
            -1,
            i64::MIN,
        ];
        for seconds in edges
            .into_iter()
            .flat_map(|edge| [edge, edge.wrapping_sub(1)])
        {
            for nanos in [0, 1, -1] {
                let bytes = time(seconds, nanos);
                for end in 0..=bytes.len() {
                    assert_eq!(
                        moment(&bytes[..end]),
                        any_moment(&bytes[..end]),
                        "{seconds}"
                    );
                }
            }
        }
        assert_eq!(whole_seconds(&time(1_767_225_599, 0)), Some(1_767_225_599));
    }

    #[test]
    fn bytes_are_base64_with_padding() {
        for (bytes, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xfb\xff\xbf", "+/+/"),
        ] {
            assert_eq!(base64(bytes), expected);
        }
    }
}
