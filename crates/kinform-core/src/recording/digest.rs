//! Keyed digests that stand for secret values.
//!
//! ```text
//! bytes of a value, key ──SipHash-2-4, twice──▶ 128 bits ──▶ "redacted" and 32 hexadecimal digits
//! ```
//!
//! Equal bytes have equal digests under one key. The key is random, is never written, and is dropped
//! with the writer: a value of few possibilities cannot be found by trying them.
//! A digest is letters and digits, 40 of them: it is also valid base64, which a Secret's `data` must
//! be.
//! Never: the value itself, its length, or a part of it.
//!
//! Upstream counterpart: none.

use std::fmt;
use std::hash::Hasher as _;
#[expect(
    deprecated,
    reason = "the only keyed function of std whose key a caller chooses"
)]
use std::hash::SipHasher;

/// The word that each digest of a text begins with.
pub const DIGEST_PREFIX: &str = "redacted";

/// A secret key for the digests of one recording.
#[derive(Clone)]
pub struct DigestKey([u64; 4]);

impl DigestKey {
    /// A key of these bytes, which must come from the system's source of secrets.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let bytes = bytes.first_chunk::<8>();
            *word = u64::from_le_bytes(bytes.copied().unwrap_or_default());
        }
        Self(words)
    }

    /// A digest to be fed.
    pub(super) fn digest(&self) -> Digest {
        let [a, b, c, d] = self.0;
        #[expect(deprecated, reason = "as above")]
        Digest {
            first: SipHasher::new_with_keys(a, b),
            second: SipHasher::new_with_keys(c, d),
        }
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The digest of a value that is read piece by piece.
#[expect(deprecated, reason = "as above")]
pub(super) struct Digest {
    first: SipHasher,
    second: SipHasher,
}

impl Digest {
    /// Adds further bytes of the value. Where they are cut makes no difference.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.first.write(bytes);
        self.second.write(bytes);
    }

    /// Appends the digest of a text, without quotes.
    pub(super) fn append_text(&self, to: &mut Vec<u8>) {
        let text = format!(
            "{DIGEST_PREFIX}{:016x}{:016x}",
            self.first.finish(),
            self.second.finish()
        );
        to.extend_from_slice(text.as_bytes());
    }

    /// Appends the digest of a number: a positive number of 31 bits.
    pub(super) fn append_number(&self, to: &mut Vec<u8>) {
        let number = self.first.finish() >> 33;
        to.extend_from_slice(number.to_string().as_bytes());
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: u8, pieces: &[&[u8]]) -> String {
        let mut digest = DigestKey::new([key; 32]).digest();
        pieces.iter().for_each(|piece| digest.write(piece));
        let mut text = Vec::new();
        digest.append_text(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn equal_values_have_equal_digests_under_one_key_however_they_are_cut() {
        let value = b"c3VwZXItc2VjcmV0LXZhbHVl";
        let whole = text(1, &[value]);
        for cut in 0..value.len() {
            assert_eq!(text(1, &[&value[..cut], &value[cut..]]), whole);
        }
        let bytes: Vec<&[u8]> = value.chunks(1).collect();
        assert_eq!(text(1, &bytes), whole);
        assert_ne!(text(2, &[value]), whole);
        assert_ne!(text(1, &[&value[1..]]), whole);
    }

    #[test]
    fn a_digest_of_a_text_is_valid_base64_and_its_key_is_not_printed() {
        use base64::Engine as _;
        let digest = text(9, &[b"x"]);
        assert_eq!(digest.len(), 40);
        assert!(
            base64::engine::general_purpose::STANDARD
                .decode(&digest)
                .is_ok()
        );
        assert_eq!(format!("{:?}", DigestKey::new([7; 32])), "DigestKey");
    }
}
