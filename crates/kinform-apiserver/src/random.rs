//! The random numbers of a server: uids, suffixes of names, durations of watches.
//!
//! ```text
//! a simulated thread's sequence, or the system's randomness ──▶ Uuid, bytes, numbers
//! ```
//!
//! The one place that draws them, but for secrets: tokens and keys always come from the system.
//!
//! Upstream counterpart: `k8s.io/apimachinery:pkg/util/rand`.

use kinform_api::simulated;

/// Returns a number out of all.
pub(crate) fn number() -> u64 {
    simulated::next().unwrap_or_else(rand::random)
}

/// Returns a new uid, in version 4.
pub(crate) fn uid() -> String {
    let halves = [number(), number()].map(u64::to_be_bytes);
    let bytes = halves.concat().try_into().unwrap_or_default();
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}

/// Returns the five bytes of a generated name.
pub(crate) fn suffix() -> [u8; 5] {
    let [a, b, c, d, e, ..] = number().to_be_bytes();
    [a, b, c, d, e]
}

/// Returns a number in `[0, 1)`.
pub(crate) fn share() -> f64 {
    (number() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn uids_are_of_version_4_and_a_seed_gives_the_same() {
        let one = uid();
        let parsed: Uuid = one.parse().unwrap();
        assert_eq!(parsed.get_version_num(), 4);
        assert_ne!(one, uid());
        let of_seed = || {
            let _guard = simulated::begin(3);
            (uid(), suffix(), share())
        };
        assert_eq!(of_seed(), of_seed());
        assert!((0.0..1.0).contains(&share()));
    }
}
