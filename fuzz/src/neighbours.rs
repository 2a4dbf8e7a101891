//! An object of a list, among others that are nearly equal: each reads as it does alone.
//!
//! ```text
//! bytes ──▶ bytes, edited, bytes, edited, .. ──▶ list, as it comes │ cut ──▶ items: as their bytes make them
//! ```
//!
//! Readers of lists compare an item with the one before and check only the difference, so an error
//! in that shows where two are alike. The edits depend on the bytes only, so that a failing input
//! fails again. They are smaller than those of [`Mutator`](crate::mutator::Mutator), and half of
//! them fall on punctuation and lengths. With the mutator's edits an error in empty values was not
//! found in 90 seconds, with these at the 23rd input.

use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};
use kinform_schema::Type;

use crate::list;
use crate::protobuf::{describe, list_of};

/// The punctuation of JSON.
const BRACKETS: &[u8] = b"{}[],:\"";
/// The bytes that mostly shape a message: small numbers.
const LENGTHS: &[u8] = b"\x02\x04\x06\x08\x0a\x10\x12\x18\x1a\x20\x22\x2a\x32";

/// Asserts it of an object that is read as JSON.
pub fn of_json(bytes: &[u8]) {
    // One list each, as a malformed item ends its list.
    for other in edited(bytes, BRACKETS) {
        let items = [bytes, &other, bytes].join(&b","[..]);
        let start = br#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":["#;
        list::is_the_same_however_cut(&[start, &items[..], b"]}"].concat());
    }
}

/// Asserts it of a message of that type.
pub fn of_message(of: &'static Type, bytes: &[u8]) {
    let edited = edited(bytes, LENGTHS);
    let body = list_of(of, among(bytes, &edited));
    let mut splitter = ListReader::new(Encoding::Protobuf);
    let mut items = 0;
    let fed = splitter.feed(&body, &mut |part| {
        let ListPart::Item(item) = part else {
            return;
        };
        items += 1;
        let alone = Object::from_protobuf(of, item.bytes(), &Projection::new());
        // Only items that are asked to be checked are compared with others.
        let found = item.checked();
        let found = found.and_then(|item| Object::from_item(&item, &Projection::new()));
        assert_eq!(describe(found), describe(alone), "beside another one");
    });
    assert!(fed.is_ok() && items == 2 * edited.len() + 1, "a sound list");
}

/// The valid object before, between and after the others.
fn among<'a>(bytes: &'a [u8], others: &'a [Vec<u8>]) -> impl Iterator<Item = &'a [u8]> {
    let pairs = others.iter().flat_map(move |other| [bytes, other]);
    pairs.chain([bytes])
}

/// The bytes with a small edit each, every other one at a byte of these.
fn edited(bytes: &[u8], places: &[u8]) -> Vec<Vec<u8>> {
    let mut seed = bytes.iter().fold(bytes.len() as u64 | 1, |seed, &byte| {
        (seed ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut below = |most: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % most.max(1)
    };
    let mut all = Vec::new();
    for kind in 0..6 {
        let mut from = below(bytes.len());
        if kind % 2 == 0 {
            let behind = &bytes[from..];
            from += behind
                .iter()
                .position(|byte| places.contains(byte))
                .unwrap_or(0);
        }
        let to = bytes.len().min(from + 1 + below(4) * below(2));
        let (before, piece, after) = (&bytes[..from], &bytes[from..to], &bytes[to..]);
        all.push(match kind % 3 {
            0 => [before, after].concat(),
            1 => [before, piece, piece, after].concat(),
            _ => {
                let other: Vec<u8> = piece.iter().map(|byte| byte ^ (1 << below(7))).collect();
                [before, &other, after].concat()
            }
        });
    }
    all
}
