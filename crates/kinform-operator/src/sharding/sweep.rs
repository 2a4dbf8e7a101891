//! Leases of processes that are gone: each process has a lease of its own name, and one that was
//! killed leaves it behind.
//!
//! ```text
//! members' leases as seen + now ──▶ Sweep ──due──▶ delete, at the version seen
//! ```
//!
//! A lease is deleted only long after it was cleared, at the version at which it was: the shards of
//! that term were taken by then, and a process that takes the lease again changes the version.
//! BOUND: as many as the group's leases without a holder.
//!
//! Upstream counterpart: none; the API server deletes its own identity leases an hour after they
//! expired.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kinform_core::shards::MemberLease;
use kinform_core::time::Instant;

/// BOUND: the time after which a lease without a holder is deleted.
pub(super) const KEEPS: Duration = Duration::from_secs(600);

/// The leases without a holder.
#[derive(Debug, Default)]
pub(super) struct Sweep(BTreeMap<Arc<str>, Idle>);

#[derive(Debug)]
struct Idle {
    version: u64,
    since: Instant,
}

impl Sweep {
    /// A member's lease was seen.
    pub(super) fn seen(&mut self, lease: &MemberLease, now: Instant) {
        if lease.is_held {
            self.0.remove(&lease.name);
            return;
        }
        let idle = Idle {
            version: lease.version,
            since: now,
        };
        let known = self.0.get(&lease.name);
        if known.is_none_or(|known| known.version != lease.version) {
            self.0.insert(Arc::clone(&lease.name), idle);
        }
    }

    /// A member's lease is gone.
    pub(super) fn gone(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The leases to delete at `now`, with the versions that they must have; again until they are gone.
    pub(super) fn due(&self, now: Instant) -> Vec<(Arc<str>, u64)> {
        let due = self
            .0
            .iter()
            .filter(|(_, idle)| now.since(idle.since) >= KEEPS);
        due.map(|(name, idle)| (Arc::clone(name), idle.version))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use kinform_core::shards::MemberTerm;

    use super::*;

    fn lease(version: u64, is_held: bool) -> MemberLease {
        MemberLease {
            name: "foo-member-a".into(),
            version,
            term: MemberTerm {
                uid: "u".into(),
                transitions: 1,
            },
            is_held,
            renewal: "".into(),
            duration: Duration::from_secs(15),
            weight: 100,
        }
    }

    #[test]
    fn a_lease_is_deleted_once_it_had_no_holder_at_one_version_for_long() {
        let mut sweep = Sweep::default();
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        sweep.seen(&lease(1, true), at(0));
        assert_eq!(sweep.due(at(10_000)), []);
        sweep.seen(&lease(2, false), at(10_000));
        sweep.seen(&lease(2, false), at(10_500));
        assert_eq!(sweep.due(at(10_599)), []);
        sweep.seen(&lease(3, false), at(10_599));
        assert_eq!(sweep.due(at(10_600)), [], "it is another version");
        sweep.seen(&lease(4, true), at(10_700));
        assert_eq!(sweep.due(at(20_000)), [], "somebody took it");
        sweep.seen(&lease(5, false), at(20_000));
        assert_eq!(sweep.due(at(20_600)), [("foo-member-a".into(), 5)]);
        let again = [("foo-member-a".into(), 5)];
        assert_eq!(sweep.due(at(30_000)), again, "the delete may have failed");
        sweep.seen(&lease(6, false), at(30_000));
        sweep.gone("foo-member-a");
        assert_eq!(sweep.due(at(40_000)), []);
    }
}
