//! The hash of a key, by which objects are divided.
//!
//! ```text
//! uid or namespace → FNV-1a 64 → a point of the circle that ranges divide
//! ```
//!
//! It is part of the API: a server computes it for sharded lists and watches, and a client to know
//! the range of an object.
//!
//! Upstream counterpart: `apimachinery:pkg/sharding`.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

/// Returns the hash of a key: FNV-1a of 64 bits over its bytes.
///
/// # Complexity
/// O(length of the key).
#[must_use]
pub const fn key_hash(key: &str) -> u64 {
    let bytes = key.as_bytes();
    let mut hash = OFFSET_BASIS;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_hashes_that_the_algorithm_publishes() {
        let table = [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ];
        for (key, expected) in table {
            assert_eq!(key_hash(key), expected, "{key}");
        }
    }

    // Which half of the hashes a server of 1.37 listed each uid in.
    #[test]
    fn uids_fall_into_the_half_in_which_a_real_server_listed_them() {
        let lower = [
            "694988e6-43e9-457c-a795-99fca21edab3",
            "1f947937-99ca-46c1-a321-28e1e94212aa",
            "7e88b921-d453-4203-85a2-92d2da43f737",
            "2da5228d-3243-424b-aa58-873d6d0e229d",
            "38eaec8f-bec3-498c-a24b-3b13d1b24d93",
            "bcca4b16-0106-4687-a300-ecbdbc475ef9",
            "cf41baf4-01a7-4492-afe7-941fbb1837ad",
            "ae6c1af8-8add-44f8-9afa-299ca28df70b",
            "edc7bc8f-43e8-4f5c-98cd-183d2b919cf8",
            "c735da05-baa8-4e43-9e13-6475c1b221c2",
        ];
        let upper = [
            "a5e530e9-cc5c-4a0c-b690-e8b12e1bdcd7",
            "f6db36f3-b04d-4719-b393-2d4b70278079",
            "8b795e30-99ec-4792-8cfc-8001ac36694c",
            "28228b1b-15ab-4acc-8bc0-1f46dc9f1492",
            "b87c3b31-9d71-42d7-9989-dfd40691de91",
            "dfe067e3-f4d5-4346-9593-485b6656417f",
            "1b012a75-f772-4bc6-ab63-9af7a7f65c93",
            "0a859398-ad46-4c89-84ff-ee600a242355",
            "12e586f1-40fc-403e-b039-9f85f6ac2505",
            "557fb08e-d6e8-4075-b351-788a36b92ef6",
        ];
        let halves = lower.map(|uid| (uid, 0)).into_iter();
        for (uid, half) in halves.chain(upper.map(|uid| (uid, 1))) {
            assert_eq!(key_hash(uid) >> 63, half, "{uid}");
        }
    }
}
