//! The hash of a pod template, which names its ReplicaSet.
//!
//! ```text
//! template + collision count → FNV-1a of its canonical JSON → SafeEncode: "59c67766dc"
//! ```
//!
//! Equal templates have equal hashes. The values differ from upstream's, which hashes Go's printed
//! form of a struct.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_utils.go` (`ComputeHash`),
//! `apimachinery:pkg/util/rand` (`SafeEncodeString`).

use serde_json::Value;

use crate::json::canonical;

/// Letters and digits that form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template, as it stands in names and labels.
pub(super) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let collisions = collisions.map(i64::to_le_bytes);
    let bytes = canonical(template).into_bytes();
    let sum = fnv1a(bytes.into_iter().chain(collisions.into_iter().flatten()));
    safe_encode(&sum.to_string())
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn safe_encode(text: &str) -> String {
    let letter = |byte: u8| char::from(ALPHABET[usize::from(byte) % ALPHABET.len()]);
    text.bytes().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hashes_are_of_the_template_alone() {
        let one = json!({"a": 1, "b": [2]});
        let same: Value = serde_json::from_str(r#"{"b": [2], "a": 1}"#).unwrap();
        assert_eq!(template_hash(&one, None), template_hash(&same, None));
        let other = template_hash(&json!({"a": 2, "b": [2]}), None);
        assert_ne!(template_hash(&one, None), other);
        assert_ne!(template_hash(&one, None), template_hash(&one, Some(1)));
        let letters = template_hash(&one, None);
        assert!(letters.bytes().all(|byte| ALPHABET.contains(&byte)));
    }

    #[test]
    fn sums_and_letters_are_upstreams() {
        assert_eq!(fnv1a(b"".iter().copied()), 0x811c_9dc5);
        assert_eq!(fnv1a(b"foobar".iter().copied()), 0xbf9c_f968);
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }
}
