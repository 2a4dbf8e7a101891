//! Leases of members and shards on the wire.
//!
//! ```text
//! Lease NAME-member-ID ──read──▶ MemberLease        Lease NAME-shard-K ◀──read, written──▶ ShardRecord
//! ```
//!
//! Terms are in annotations, since a Lease has no field for the uid of another one. An owner whose
//! term cannot be read has a term that no member has: it is taken for dead after a lease duration, and
//! not at once.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kinform::controller::LastWrites;
use kinform_core::shards::{
    Holder, MemberLease, MemberTerm, ShardField, ShardId, ShardLease, ShardRecord, Shards,
};

use crate::leader::Inherited;
use crate::leader::last_writes::{ANNOTATION, left, told};

/// The label by which the leases of one group of replicas are found; its value is the group's name.
pub(super) const GROUP: &str = "kinform.dev/sharding";
/// On a shard's lease: the owner's term, as `UID TRANSITIONS`.
const TERM: &str = "kinform.dev/term";
/// On a shard's lease: the next owner, as `MEMBER UID TRANSITIONS`.
const CLAIM: &str = "kinform.dev/claim";
/// On a member's lease: its part of the shards. 100 without it; 0 while it leaves.
pub(super) const WEIGHT: &str = "kinform.dev/shard-weight";

/// The label of a member's lease, and the annotation of the group's, that names the division.
pub(super) const DIVISION: &str = "kinform.dev/division";

/// The weight of a member that states none.
const DEFAULT_WEIGHT: u32 = 100;
/// The uid in the term of an owner whose term cannot be read: no object has it.
const UNREADABLE: &str = "unreadable";

/// The names of a group's leases.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) group: Arc<str>,
    /// The division that this process works by.
    pub(super) division: Arc<str>,
    /// The number of its shards.
    count: u32,
}

/// A lease of a group, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Member(MemberLease),
    Shard(ShardLease),
}

/// The object that a lease's name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Member(Arc<str>),
    Shard(ShardId),
}

impl Names {
    pub(super) fn new(group: &str, shards: Shards) -> Self {
        let division = division_text(shards).into();
        let group = group.into();
        let count = shards.count();
        Self {
            group,
            division,
            count,
        }
    }

    /// The name of the lease that tells the group's division.
    pub(super) fn division_lease(&self) -> String {
        format!("{}-sharding", self.group)
    }

    pub(super) fn member(&self, id: &str) -> String {
        format!("{}-member-{id}", self.group)
    }

    pub(super) fn shard(&self, shard: ShardId) -> String {
        format!("{}-shard-{shard}", self.group)
    }

    /// The meaning of a name; `None` if it is no name of this group, or of a shard that there is not.
    pub(super) fn parse(&self, name: &str) -> Option<Named> {
        let rest = name.strip_prefix(&*self.group)?;
        if rest.starts_with("-member-") {
            return Some(Named::Member(name.into()));
        }
        let number = rest.strip_prefix("-shard-")?;
        let shard = number.parse().ok().map(ShardId)?;
        let is_one = shard.0 < self.count && shard.to_string() == number;
        is_one.then_some(Named::Shard(shard))
    }

    /// The last writes of the owner before, if a shard's lease has none now.
    pub(super) fn left(lease: &Lease) -> Inherited {
        match record(lease).owner {
            None => left(annotation(lease, ANNOTATION)),
            Some(_) => Inherited::Unknown,
        }
    }

    /// Reads a lease; `None` if it is no lease of this group, or has no version that is a number.
    pub(super) fn read(&self, lease: &Lease) -> Option<Read> {
        let version = lease.metadata.resource_version.as_ref()?.parse().ok()?;
        match self.parse(lease.metadata.name.as_deref()?)? {
            Named::Member(name) => Some(Read::Member(self.member_of(lease, name, version))),
            Named::Shard(shard) => Some(Read::Shard(ShardLease {
                shard,
                version,
                record: record(lease),
            })),
        }
    }

    /// A member; one of another division takes no shard of this one.
    fn member_of(&self, lease: &Lease, name: Arc<str>, version: u64) -> MemberLease {
        let mut read = member(lease, name, version);
        if division_of(lease).is_some_and(|theirs| theirs != &*self.division) {
            read.weight = 0;
        }
        read
    }

    /// A shard's lease with this content; at a version, an update of the lease that has it. One without
    /// an owner tells the last writes of the one before.
    pub(super) fn written(
        &self,
        shard: ShardId,
        version: Option<u64>,
        record: &ShardRecord,
        last_writes: Option<&LastWrites>,
    ) -> Lease {
        let mut annotations = BTreeMap::new();
        if let Some(owner) = &record.owner {
            annotations.insert(TERM.to_owned(), term_text(&owner.term));
        }
        if let Some(claim) = &record.claim {
            let text = format!("{} {}", claim.member, term_text(&claim.term));
            annotations.insert(CLAIM.to_owned(), text);
        }
        if let Some(last) = last_writes.filter(|_| record.owner.is_none()) {
            annotations.insert(ANNOTATION.to_owned(), told(last));
        }
        let owner = record.owner.as_ref();
        Lease {
            metadata: ObjectMeta {
                name: Some(self.shard(shard)),
                labels: Some(BTreeMap::from([(GROUP.to_owned(), self.group.to_string())])),
                annotations: Some(annotations),
                resource_version: version.map(|version| version.to_string()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                // Empty, and not absent, as upstream's release.
                holder_identity: Some(owner.map_or_else(String::new, |o| o.member.to_string())),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// The name of a division, which is a label's value.
pub(super) fn division_text(shards: Shards) -> String {
    let field = match shards.field() {
        ShardField::Namespace => "namespace",
        ShardField::Uid => "uid",
    };
    format!("{}.{field}", shards.count())
}

/// The division of a lease.
pub(super) fn division_of(lease: &Lease) -> Option<&str> {
    let (labels, annotations) = (&lease.metadata.labels, &lease.metadata.annotations);
    let known = [labels, annotations].into_iter().flatten();
    known
        .filter_map(|all| all.get(DIVISION))
        .next()
        .map(String::as_str)
}

fn member(lease: &Lease, name: Arc<str>, version: u64) -> MemberLease {
    let none = LeaseSpec::default();
    let spec = lease.spec.as_ref().unwrap_or(&none);
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    let weight = annotation(lease, WEIGHT).and_then(|text| text.parse().ok());
    let renewal = spec.renew_time.as_ref();
    MemberLease {
        name,
        version,
        term: MemberTerm {
            uid: lease.metadata.uid.as_deref().unwrap_or_default().into(),
            transitions: spec.lease_transitions.unwrap_or_default(),
        },
        is_held: spec
            .holder_identity
            .as_ref()
            .is_some_and(|holder| !holder.is_empty()),
        renewal: renewal
            .map_or_else(String::new, |time| time.0.to_string())
            .into(),
        duration: Duration::from_secs(u64::try_from(seconds).unwrap_or_default()),
        weight: weight.unwrap_or(DEFAULT_WEIGHT),
    }
}

fn record(lease: &Lease) -> ShardRecord {
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref());
    let holder = holder.filter(|holder| !holder.is_empty());
    let owner = holder.map(|member| Holder {
        member: member.into(),
        term: annotation(lease, TERM)
            .and_then(term)
            .unwrap_or_else(|| MemberTerm {
                uid: UNREADABLE.into(),
                transitions: 0,
            }),
    });
    let claim = annotation(lease, CLAIM).and_then(|text| text.split_once(' '));
    // A claim that cannot be read is none: nothing runs by a claim.
    let claim = claim.and_then(|(member, text)| {
        let (member, term) = (member.into(), term(text)?);
        Some(Holder { member, term })
    });
    ShardRecord { owner, claim }
}

fn annotation<'a>(lease: &'a Lease, name: &str) -> Option<&'a str> {
    let annotations = lease.metadata.annotations.as_ref()?;
    annotations.get(name).map(String::as_str)
}

fn term_text(term: &MemberTerm) -> String {
    format!("{} {}", term.uid, term.transitions)
}

fn term(text: &str) -> Option<MemberTerm> {
    let (uid, transitions) = text.split_once(' ')?;
    Some(MemberTerm {
        uid: uid.into(),
        transitions: transitions.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use kinform::GroupResource;

    use super::*;

    fn names() -> Names {
        Names::new("foo", Shards::by_namespace(8).unwrap())
    }

    fn holder(member: &str, uid: &str, transitions: i32) -> Holder {
        let (member, uid) = (member.into(), uid.into());
        Holder {
            member,
            term: MemberTerm { uid, transitions },
        }
    }

    #[test]
    fn names_say_what_a_lease_is() {
        let names = names();
        assert_eq!(
            names.parse(&names.member("a")),
            Some(Named::Member("foo-member-a".into()))
        );
        assert_eq!(
            names.parse(&names.shard(ShardId(7))),
            Some(Named::Shard(ShardId(7)))
        );
        for other in [
            "foo",
            "bar-shard-1",
            "foo-shard-",
            "foo-shard-07",
            "foo-shard-8",
            "foo-shard-4294967295",
            "foo-shard--1",
            "foo-shard-x",
        ] {
            assert_eq!(names.parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_shard_that_was_written_is_read_as_it_was() {
        let (a, b) = (
            holder("foo-member-a", "u1", 3),
            holder("foo-member-b", "u2", 0),
        );
        for record in [
            ShardRecord::default(),
            ShardRecord {
                owner: Some(a.clone()),
                claim: None,
            },
            ShardRecord {
                owner: Some(a),
                claim: Some(b.clone()),
            },
            ShardRecord {
                owner: None,
                claim: Some(b),
            },
        ] {
            let lease = names().written(ShardId(4), Some(9), &record, None);
            let (shard, version) = (ShardId(4), 9);
            let expected = Read::Shard(ShardLease {
                shard,
                version,
                record,
            });
            assert_eq!(names().read(&lease), Some(expected));
        }
    }

    #[test]
    fn a_release_tells_last_writes_and_an_owner_tells_none() {
        let (mut last, maps) = (LastWrites::default(), GroupResource::new("", "configmaps"));
        last.add(&maps, Some(&"7".into()));
        let (owner, claim) = (Some(holder("foo-member-a", "u1", 3)), None);
        let free = names().written(ShardId(4), Some(9), &ShardRecord::default(), Some(&last));
        assert_eq!(Names::left(&free), Inherited::Told(last.clone()));
        let record = ShardRecord { owner, claim };
        let owned = names().written(ShardId(4), Some(9), &record, Some(&last));
        assert_eq!(Names::left(&owned), Inherited::Unknown);
        assert_eq!(owned.metadata.annotations.unwrap().get(ANNOTATION), None);
    }

    #[test]
    fn an_owner_without_a_readable_term_is_an_owner_and_a_claim_without_one_is_none() {
        for text in [None, Some(""), Some("u"), Some("u x"), Some("u x 2 3")] {
            let owner = ShardRecord {
                owner: Some(holder("foo-member-a", "u", 1)),
                claim: None,
            };
            let mut lease = names().written(ShardId(0), Some(1), &owner, None);
            let mut annotations = BTreeMap::new();
            if let Some(text) = text {
                annotations.insert(TERM.to_owned(), text.to_owned());
                annotations.insert(CLAIM.to_owned(), text.to_owned());
            }
            lease.metadata.annotations = Some(annotations);
            let Some(Read::Shard(read)) = names().read(&lease) else {
                panic!("{text:?}");
            };
            let owner = read.record.owner.unwrap();
            assert_eq!(
                (&*owner.member, &*owner.term.uid),
                ("foo-member-a", UNREADABLE),
                "{text:?}"
            );
            assert_eq!(read.record.claim, None, "{text:?}");
        }
    }

    #[test]
    fn a_member_is_held_by_whoever_is_in_it_and_weighs_what_it_says() {
        let mut lease = Lease::default();
        lease.metadata.name = Some("foo-member-a".to_owned());
        lease.metadata.resource_version = Some("5".to_owned());
        let read = |lease: &Lease| match names().read(lease) {
            Some(Read::Member(member)) => (member.is_held, member.weight),
            other => panic!("{other:?}"),
        };
        assert_eq!(read(&lease), (false, 100));
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some("a".to_owned());
        lease.metadata.annotations = Some(BTreeMap::from([(WEIGHT.to_owned(), "0".to_owned())]));
        assert_eq!(read(&lease), (true, 0));
        lease.metadata.resource_version = Some("opaque".to_owned());
        assert_eq!(names().read(&lease), None);
    }
}
