//! The division that a group works by: replicas with another one wait for those that work.
//!
//! ```text
//! a term began → read the group's lease ─ own division ──▶ touch it ─────────────────▶ joined
//!                       ▲                └ another one ──▶ do members of it live?
//!                       └────────────── yes: wait ◀──────────┘ no: replace it ────────▶ joined
//! ```
//!
//! A rolling update that changes the number of shards has replicas of both divisions for a while,
//! whose shards overlap. A member touches the lease after its own was taken, so one that replaces it at
//! the version read before it looked at the members has seen them all.
//! INVARIANT: at one version of the group's lease, only members of its division work.
//! BOUND: one look each `PAUSE`; as many leases as the group has.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kinform_core::shards::MemberLease;
use kinform_core::time::Instant;

use super::lease::{DIVISION, Names, Read, division_of};
use super::requests::Requests;
use crate::leader::Leadership;

/// The pause between two looks at the members of another division, and between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// The group's lease with this division; at a version, an update.
pub(super) fn written(names: &Names, member: &str, before: Option<&Lease>) -> Lease {
    let mut lease = before.cloned().unwrap_or_default();
    lease.metadata.managed_fields = None;
    lease.metadata.name = Some(names.division_lease());
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(DIVISION.to_owned(), names.division.to_string());
    // Who joined last: a touch changes something, and so the version.
    let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(member.to_owned()),
        lease_transitions: Some(transitions.unwrap_or_default().wrapping_add(1)),
        ..LeaseSpec::default()
    });
    lease
}

/// The answer of a look at the group's lease.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Write the own division, at this state.
    Write,
    /// Wait for this many members of this division.
    Wait(usize, String),
}

/// Members as they were seen, to tell those that live.
#[derive(Debug, Default)]
struct Watched(BTreeMap<Arc<str>, (Arc<str>, Instant)>);

impl Watched {
    /// Returns whether a member may still work: it holds its lease, and has renewed it within its
    /// duration since it was first seen like this.
    fn may_work(&mut self, lease: &MemberLease, now: Instant) -> bool {
        if !lease.is_held {
            self.0.remove(&lease.name);
            return false;
        }
        let seen = self
            .0
            .get(&lease.name)
            .filter(|(renewal, _)| *renewal == lease.renewal);
        let since = seen.map_or(now, |(_, since)| *since);
        self.0
            .insert(Arc::clone(&lease.name), (Arc::clone(&lease.renewal), since));
        now.since(since) <= lease.duration
    }

    /// Decides by the group's lease and the members that were listed after it.
    fn next(
        &mut self,
        names: &Names,
        group: Option<&Lease>,
        members: &[Lease],
        now: Instant,
    ) -> Next {
        let Some(current) = group
            .and_then(division_of)
            .filter(|current| *current != &*names.division)
        else {
            return Next::Write;
        };
        let theirs = members
            .iter()
            .filter(|lease| division_of(lease) == Some(current));
        let theirs = theirs.filter_map(|lease| match names.read(lease)? {
            Read::Member(member) => Some(member),
            Read::Shard(_) => None,
        });
        match theirs.filter(|member| self.may_work(member, now)).count() {
            0 => Next::Write,
            count => Next::Wait(count, current.to_owned()),
        }
    }
}

/// Joins the group; returns once this member may work.
///
/// Cancel safety: the lease may have been touched, which harms nobody.
pub(super) async fn join(requests: &Requests, leadership: &Leadership, member: &str) {
    let (mut watched, mut told) = (Watched::default(), 0);
    loop {
        match look(requests, leadership, &mut watched).await {
            Some((Next::Write, group)) => {
                let lease = written(&requests.names, member, group.as_ref());
                if requests.put_division(&lease).await {
                    return;
                }
            }
            Some((Next::Wait(count, division), _)) if count != told => {
                tracing::warn!(
                    own = %requests.names.division, theirs = %division, members = count,
                    "replicas work by another division of keys; this one waits for their end"
                );
                told = count;
            }
            Some((Next::Wait(..), _)) | None => {}
        }
        leadership.sleep_until(leadership.now() + PAUSE).await;
    }
}

/// Reads the group's lease, then its members; `None` if either cannot be read now.
async fn look(
    requests: &Requests,
    leadership: &Leadership,
    watched: &mut Watched,
) -> Option<(Next, Option<Lease>)> {
    let group = requests.division().await?;
    let members = requests.members().await?;
    let next = watched.next(&requests.names, group.as_ref(), &members, leadership.now());
    Some((next, group))
}

#[cfg(test)]
mod tests {
    use kinform_core::shards::Shards;

    use super::*;

    fn names(count: u32) -> Names {
        Names::new("foo", Shards::by_namespace(count).unwrap())
    }

    fn member(id: &str, division: &str, holder: &str, renewal: &str) -> Lease {
        let lease = serde_json::json!({
            "metadata": {
                "name": format!("foo-member-{id}"), "uid": id, "resourceVersion": "5",
                "labels": { DIVISION: division },
            },
            "spec": { "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewal },
        });
        serde_json::from_value(lease).unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    const EARLY: &str = "2026-01-01T00:00:00.000000Z";
    const LATE: &str = "2026-01-01T00:00:10.000000Z";

    #[test]
    fn a_group_without_a_lease_or_of_the_own_division_is_joined() {
        let (own, mut watched) = (names(16), Watched::default());
        let others = [
            member("a", "16.namespace", "a", EARLY),
            member("b", "8.namespace", "b", EARLY),
        ];
        assert_eq!(watched.next(&own, None, &others, at(0)), Next::Write);
        let group = written(&own, "foo-member-a", None);
        assert_eq!(division_of(&group), Some("16.namespace"));
        assert_eq!(
            watched.next(&own, Some(&group), &others, at(0)),
            Next::Write
        );
        let touched = written(&own, "foo-member-a", Some(&group));
        assert_ne!(touched, group, "a touch changes its version");
    }

    #[test]
    fn members_of_another_division_are_waited_for_as_long_as_they_live() {
        let (own, mut watched) = (names(32), Watched::default());
        let group = written(&names(16), "foo-member-a", None);
        let mut look =
            |members: &[Lease], seconds| watched.next(&own, Some(&group), members, at(seconds));
        let waits = || Next::Wait(1, "16.namespace".to_owned());
        // One that waits, too, and one of a third division do not count.
        let idle = [
            member("b", "32.namespace", "b", EARLY),
            member("c", "8.namespace", "c", EARLY),
        ];
        let with = |lease: Lease| [&idle[..], &[lease]].concat();
        assert_eq!(
            look(&with(member("a", "16.namespace", "a", EARLY)), 0),
            waits()
        );
        assert_eq!(
            look(&with(member("a", "16.namespace", "a", EARLY)), 15),
            waits()
        );
        assert_eq!(
            look(&with(member("a", "16.namespace", "a", LATE)), 20),
            waits()
        );
        assert_eq!(
            look(&with(member("a", "16.namespace", "a", LATE)), 36),
            Next::Write,
            "it is dead"
        );
        assert_eq!(
            look(&with(member("a", "16.namespace", "a", EARLY)), 37),
            waits()
        );
        assert_eq!(
            look(&with(member("a", "16.namespace", "", EARLY)), 38),
            Next::Write,
            "it has left"
        );
        assert_eq!(look(&idle, 39), Next::Write);
    }
}
