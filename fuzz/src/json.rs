//! The reference reading that kinform's is compared with: serde_json's, of one level at a time.
//!
//! ```text
//! text ──▶ members | elements ──▶ key, text of the value as it stands
//! ```
//!
//! Repeated keys stay apart, which a `Value` would not show; nothing is decoded but keys.

use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Pieces of which lists, watches and objects are made.
pub const WORDS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\\"",
    b"\n",
    b"\r\n",
    b" ",
    b"\t",
    b"null",
    b"true",
    b"false",
    b"0",
    b"-1",
    b"1e9",
    b"-",
    b".",
    b"1E+",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\\u00e9",
    b"\\u0069",
    b"\xc3\xa9",
    b"\xff",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"\0",
    b"\x1f",
    b"\"items\":[",
    b"\"items\":null",
    b"\"it\\u0065ms\":[",
    b"\"metadata\":{",
    b"\"metadata\":null",
    b"\"resourceVersion\":\"7\",",
    b"\"continue\":\"c\",",
    b"\"remainingItemCount\":3,",
    b"\"kind\":\"PodList\",",
    b"\"kind\":\"Status\",",
    b"\"kind\":\"Table\",",
    b"\"apiVersion\":\"v1\",",
    b"\"name\":\"a\",",
    b"\"name\":null,",
    b"\"name\":7,",
    b"\"na\\u006de\":\"b\",",
    b"\"namespace\":\"n\",",
    b"\"uid\":\"u\",",
    b"\"uid\":null,",
    b"\"labels\":{\"app\":\"x\"},",
    b"\"labels\":[],",
    b"\"annotations\":{\"k8s.io/initial-events-end\":\"true\"},",
    b"\"deletionTimestamp\":null,",
    b"\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",",
    b"\"managedFields\":[{\"manager\":\"m\"}],",
    b"\"managedFields\":null,",
    b"\"ownerReferences\":[{\"kind\":\"A\",\"name\":\"b\",\"uid\":\"c\",\"controller\":true}],",
    b"\"type\":\"ADDED\",",
    b"\"type\":\"MODIFIED\",",
    b"\"type\":\"DELETED\",",
    b"\"type\":\"BOOKMARK\",",
    b"\"type\":\"ERROR\",",
    b"\"type\":7,",
    b"\"object\":{",
    b"\"object\":null,",
    b"\"spec\":{",
    b"\"code\":410,",
    b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\"}}}\n",
    b"{\"metadata\":{\"name\":\"a\"}},",
];

/// Deeper than this serde_json and we differ on purpose.
const DEEP: u32 = 100;

/// The members of a JSON object, in order.
#[derive(Debug)]
pub struct Members(pub Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

impl Members {
    /// Those of the object that is all of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// The values under this key, in order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(known, _)| known == key);
        found.map(|(_, value)| value.get())
    }

    /// The value that counts of those under this key.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&str> {
        self.all(key).last()
    }
}

/// The elements of the array that is all of `text`.
#[must_use]
pub fn elements(text: &str) -> Option<Vec<Box<RawValue>>> {
    serde_json::from_str(text).ok()
}

/// Returns whether serde_json accepts the bytes as one value.
#[must_use]
pub fn is_valid(bytes: &[u8]) -> bool {
    let text = std::str::from_utf8(bytes);
    text.is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok())
}

/// Returns whether brackets nest deeply enough for limits to apply; brackets in strings count, too.
#[must_use]
pub fn is_deep(bytes: &[u8]) -> bool {
    let (mut depth, mut deepest) = (0_u32, 0);
    for byte in bytes {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > DEEP
}
