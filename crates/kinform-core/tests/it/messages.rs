//! Messages, made field by field, and the bodies that they are sent in.
//!
//! ```text
//! numbers, bytes ──▶ field ──▶ message ──▶ envelope │ list ──▶ body
//! ```

pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, number << 3 | 2);
    put_number(&mut out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out
}

/// A body of a kind, with this message.
pub(crate) fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
    envelope_of("v1", kind, raw)
}

pub(crate) fn envelope_of(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    let parts = [field(1, &meta), field(2, raw), field(3, b""), field(4, b"")];
    [b"k8s\0".to_vec(), parts.concat()].concat()
}

/// The message of a list.
pub(crate) fn list_message(items: &[Vec<u8>]) -> Vec<u8> {
    let items: Vec<Vec<u8>> = items.iter().map(|item| field(2, item)).collect();
    [field(1, &field(2, b"7")), items.concat()].concat()
}
