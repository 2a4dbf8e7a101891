//! The API server of a simulation: leases with versions, and a history that watches read.
//!
//! ```text
//! writes at a version → leases, log of changes ──lag──▶ watches of replicas
//! ```
//!
//! Writes and reads are consistent; a watch is as far behind as its replica's connection.

use crate::election::{Action, Answer as LeaseAnswer, Lease, NewRecord, Record};

use super::*;

/// The lease of a member.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) name: Arc<str>,
    pub(super) uid: Arc<str>,
    pub(super) version: u64,
    pub(super) record: Record,
    pub(super) renewal: Arc<str>,
    pub(super) weight: u32,
}

impl Stored {
    pub(super) fn member(&self) -> MemberLease {
        let seconds = self.record.duration_seconds;
        MemberLease {
            name: Arc::clone(&self.name),
            version: self.version,
            term: MemberTerm {
                uid: Arc::clone(&self.uid),
                transitions: self.record.transitions,
            },
            is_held: !self.record.holder.is_empty(),
            renewal: Arc::clone(&self.renewal),
            duration: Duration::from_secs(u64::try_from(seconds).unwrap()),
            weight: self.weight,
        }
    }

    pub(super) fn lease(&self) -> Lease {
        Lease {
            uid: self.uid.to_string(),
            version: self.version.into(),
            record: self.record.clone(),
            preferred_holder: String::new(),
        }
    }
}

/// A change in the history.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Member(Arc<Stored>),
    /// With the version of the deletion.
    MemberGone(Arc<Stored>),
    Shard(ShardLease),
    ShardGone(ShardId, u64),
}

#[derive(Debug, Default)]
pub(super) struct Server {
    version: u64,
    pub(super) members: Vec<Arc<Stored>>,
    /// Versions, zero for none, and records.
    pub(super) shards: Vec<(u64, ShardRecord)>,
    /// Changes, with their times.
    pub(super) log: Vec<(u64, Change)>,
    pub(super) shard_writes: u64,
    pub(super) last_shard_write: u64,
}

impl Server {
    pub(super) fn new(shards: u32) -> Self {
        Self {
            shards: vec![(0, ShardRecord::default()); shards as usize],
            ..Self::default()
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Arc<Stored>> {
        self.members.iter().find(|stored| &*stored.name == name)
    }

    fn put(&mut self, mut stored: Stored, now: u64) -> Arc<Stored> {
        self.version += 1;
        stored.version = self.version;
        let stored = Arc::new(stored);
        self.members.retain(|other| other.name != stored.name);
        self.members.push(Arc::clone(&stored));
        self.log.push((now, Change::Member(Arc::clone(&stored))));
        stored
    }

    /// A request of a member's election on its own lease; a take sets the weight.
    pub(super) fn elect(
        &mut self,
        name: &Arc<str>,
        action: &Action,
        text: &Arc<str>,
        weight: u32,
        now: u64,
    ) -> LeaseAnswer {
        let known = self.find(name).cloned();
        let (record, uid) = match (action, &known) {
            (Action::Get, None) => return LeaseAnswer::Absent,
            (Action::Get, Some(stored)) => return LeaseAnswer::Found(stored.lease()),
            (Action::Create { .. }, Some(_)) => return LeaseAnswer::Conflict,
            (Action::Create { record }, None) => (record, Arc::from(format!("u{}", self.version))),
            (_, None) => return LeaseAnswer::Absent,
            (
                Action::Update {
                    uid,
                    version,
                    record,
                }
                | Action::Release {
                    uid,
                    version,
                    record,
                },
                Some(stored),
            ) => {
                if **uid != *stored.uid || version.parsed() != Some(stored.version) {
                    return LeaseAnswer::Conflict;
                }
                (record, Arc::clone(&stored.uid))
            }
        };
        let is_renewal = known.as_ref().is_some_and(|stored| {
            stored.record.holder == record.holder && stored.record.transitions == record.transitions
        });
        let stored = Stored {
            name: Arc::clone(name),
            uid,
            version: 0,
            record: stamp(record, text),
            renewal: Arc::clone(text),
            weight: match known {
                Some(stored) if is_renewal || record.holder.is_empty() => stored.weight,
                _ => weight,
            },
        };
        LeaseAnswer::Stored(self.put(stored, now).lease())
    }

    /// Clears the holder of a lease at a version.
    pub(super) fn bury(&mut self, name: &str, version: u64, now: u64) -> Answer {
        let Some(stored) = self.find(name).filter(|stored| stored.version == version) else {
            return Answer::Conflict;
        };
        let mut stored = Stored::clone(stored);
        stored.record.holder.clear();
        let version = self.put(stored, now).version;
        Answer::Stored { version }
    }

    /// Annotates a member with the weight zero.
    pub(super) fn leave(&mut self, name: &str, now: u64) {
        if let Some(stored) = self.find(name) {
            let mut stored = Stored::clone(stored);
            stored.weight = 0;
            self.put(stored, now);
        }
    }

    /// A person deletes the lease of a member.
    pub(super) fn delete_member(&mut self, at: usize, now: u64) {
        let mut stored = Stored::clone(&self.members.swap_remove(at));
        self.version += 1;
        stored.version = self.version;
        self.log.push((now, Change::MemberGone(Arc::new(stored))));
    }

    pub(super) fn write(&mut self, write: &Write, now: u64) -> Answer {
        let (version, record) = &mut self.shards[write.shard.0 as usize];
        if write.version.unwrap_or(0) != *version {
            return Answer::Conflict;
        }
        self.version += 1;
        *version = self.version;
        *record = write.record.clone();
        let lease = ShardLease {
            shard: write.shard,
            version: self.version,
            record: record.clone(),
        };
        self.log.push((now, Change::Shard(lease)));
        self.shard_writes += 1;
        self.last_shard_write = now;
        Answer::Stored {
            version: self.version,
        }
    }

    /// A person deletes the lease of a shard.
    pub(super) fn delete_shard(&mut self, shard: u32, now: u64) {
        let (version, record) = &mut self.shards[shard as usize];
        if *version > 0 {
            self.version += 1;
            (*version, *record) = (0, ShardRecord::default());
            let change = Change::ShardGone(ShardId(shard), self.version);
            self.log.push((now, change));
        }
    }

    pub(super) fn read(&self, shard: ShardId) -> Input {
        match &self.shards[shard.0 as usize] {
            (0, _) => Input::ShardGone {
                shard,
                version: None,
            },
            (version, record) => Input::ShardSeen(ShardLease {
                shard,
                version: *version,
                record: record.clone(),
            }),
        }
    }
}

fn stamp(record: &NewRecord, renew_time: &str) -> Record {
    Record {
        holder: record.holder.clone(),
        duration_seconds: record.duration_seconds,
        transitions: record.transitions,
        acquire_time: String::new(),
        renew_time: renew_time.to_owned(),
    }
}
