//! The order of the members for a shard: rendezvous hashing.
//!
//! ```text
//! hash of a member's name + shard → rendezvous → rank
//! ```
//!
//! The hash of names is that of the API (`kinform_api::shards`). The ranks are this engine's own, and
//! all replicas of one version compute the same.
//!
//! Upstream counterpart: none.

/// Returns the rank of a member for a shard; the greatest has the first claim. `member` is the
/// hash of its name.
#[must_use]
pub(super) const fn rendezvous(member: u64, shard: u32) -> u64 {
    mix(member ^ mix(shard as u64 + 1))
}

/// The finalizer of SplitMix64: each bit of the input changes each bit of the output.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use kinform_api::shards::key_hash;

    use super::*;

    #[test]
    fn ranks_of_members_are_spread_evenly() {
        let members: Vec<u64> = (0..8).map(|at| key_hash(&format!("member-{at}"))).collect();
        let mut firsts = [0_u32; 8];
        for shard in 0..16_384 {
            let first = (0..8).max_by_key(|at| rendezvous(members[*at], shard));
            firsts[first.unwrap()] += 1;
        }
        assert!(
            firsts.iter().all(|n| (1_900..2_200).contains(n)),
            "{firsts:?}"
        );
    }
}
