//! The hashes that name ReplicaSets and ControllerRevisions.
//!
//! ```text
//! pod template + collision count     → FNV-1a of its canonical JSON → SafeEncode: "59c67766dc"
//! data of a revision + collisions    → FNV-1 of Go's JSON           → SafeEncode: "f9f8f9d8c"
//! ```
//!
//! Equal templates have equal hashes. Those of Deployments and DaemonSets differ from upstream's,
//! which hashes Go's printed form of a struct; those of StatefulSets are upstream's.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_utils.go` (`ComputeHash`),
//! `pkg/controller/history` (`HashControllerRevision`), `apimachinery:pkg/util/rand`
//! (`SafeEncodeString`).

use serde_json::Value;

use crate::json::canonical;

/// Letters and digits that form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The hash of a template, as it stands in names and labels.
pub(crate) fn template_hash(template: &Value, collisions: Option<i64>) -> String {
    let collisions = collisions.map(i64::to_le_bytes);
    let bytes = canonical(template).into_bytes();
    let sum = fnv1a(bytes.into_iter().chain(collisions.into_iter().flatten()));
    safe_encode(&sum.to_string())
}

/// The hash of a revision's data, as it stands in names and labels.
pub(crate) fn data_hash(data: &Value, collisions: i64) -> String {
    let bytes = format!("{}{collisions}", go_json(data));
    safe_encode(&fnv1(bytes.bytes()).to_string())
}

/// The JSON of a value as Go's encoder writes it: canonical, and safe within HTML.
fn go_json(value: &Value) -> String {
    let mut escaped = String::new();
    for letter in canonical(value).chars() {
        match letter {
            // They stand in strings only.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                escaped.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |sum: u32, byte| {
        sum.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    })
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
        assert_eq!(fnv1(b"foobar".iter().copied()), 0x31f0_b262);
    }

    #[test]
    fn the_hash_of_a_revision_is_the_recorded_one() {
        // As a real controller manager wrote it: the revision x-f9f8f9d8c.
        let data = |image: &str| {
            json!({"spec": {"template": {
                "$patch": "replace",
                "metadata": {"annotations": {"story/kubelet": "run"}, "labels": {"app": "x"}},
                "spec": {
                    "containers": [{
                        "image": image, "imagePullPolicy": "IfNotPresent", "name": "c",
                        "resources": {}, "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                    "schedulerName": "default-scheduler", "securityContext": {},
                    "terminationGracePeriodSeconds": 5,
                },
            }}})
        };
        assert_eq!(data_hash(&data("img:1"), 0), "f9f8f9d8c");
        assert_eq!(data_hash(&data("img:2"), 0), "d95c855f6");
        assert_eq!(data_hash(&data("img:3"), 0), "79cdc8dbbf");
        assert_ne!(data_hash(&data("img:1"), 1), "f9f8f9d8c");
    }

    #[test]
    fn letters_of_html_are_escaped_as_go_escapes_them() {
        let value = json!({"args": ["a<b && c>d \u{2028}", "\u{8}\u{1f}"]});
        let expected = r#"{"args":["a\u003cb \u0026\u0026 c\u003ed \u2028","\b\u001f"]}"#;
        assert_eq!(go_json(&value), expected);
    }
}
