//! The members as they were last observed, and whether a term that a shard names still lives.
//!
//! ```text
//! leases of members (watch, read) + own clock → Roster → Life of (member, term)
//! ```
//!
//! INVARIANT: a term counts as dead only if its member's lease says so at a version: it was
//! released, buried, or taken for a later term. Time alone makes a member suspect, and a suspect is
//! buried by a write at the version that expired, which a renewal on its way makes fail.
//! INVARIANT: a term of a lease that does not exist is dead a lease duration after a consistent
//! read, or the watch, said so: it could not be renewed since.
//!
//! BOUND: [`MAX_MEMBERS`]; those that are dead and own nothing make room.
//!
//! Upstream counterpart: none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::mutant;
use kinform_api::shards::key_hash;

use crate::time::Instant;

use super::record::{Holder, MemberLease, MemberTerm};
use super::step::RequestId;

/// BOUND: members that are kept in mind.
pub const MAX_MEMBERS: usize = 4_096;

/// The index of nobody.
pub(super) const NOBODY: u32 = u32::MAX;

/// The state of a term: may it still work?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Dead,
    /// Not told by what is known of the member; it counts as live, and the member is read.
    Unknown,
}

#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) name: Arc<str>,
    pub(super) hash: u64,
    pub(super) version: u64,
    /// `None` for a member that only a shard has named.
    term: Option<MemberTerm>,
    pub(super) is_held: bool,
    pub(super) weight: u32,
    renewal: Arc<str>,
    duration: Duration,
    /// Its last renewal was observed at this time.
    seen_at: Instant,
    /// Its lease was found to be deleted at this time.
    gone_at: Option<Instant>,
    /// Its lease has not changed for its duration.
    pub(super) is_suspect: bool,
    /// The next attempt to bury it, if it is suspect.
    pub(super) bury_at: Instant,
    pub(super) burial: Option<RequestId>,
    /// The next read of its lease, if a term of it is unknown.
    read_at: Instant,
    /// The terms that shards name.
    holders: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    member: u32,
    term: MemberTerm,
    /// A lease of this term was found to be missing: it is dead from then on.
    doomed_at: Option<Instant>,
    /// The read that is to tell about it.
    asked: Option<RequestId>,
    life: Life,
    /// Shards that name it.
    uses: u32,
}

/// The effect of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    /// Nothing that a distribution depends on.
    Same,
    /// A member lives or dies, or has another weight.
    Moved,
    /// There is no room.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Roster {
    pub(super) members: Vec<Member>,
    by_name: BTreeMap<Arc<str>, u32>,
    entries: Vec<Entry>,
    spare: Vec<u32>,
    /// No member that is held expires before this time.
    pub(super) next_expiry: Instant,
    /// Members that are, or were a moment ago, suspect.
    pub(super) suspects: Vec<u32>,
    /// Terms that are unknown, or that die at a known time.
    unsettled: u32,
    lease_duration: Duration,
}

impl Roster {
    pub(super) fn new(lease_duration: Duration) -> Self {
        Self {
            next_expiry: Instant::FAR_FUTURE,
            lease_duration,
            ..Self::default()
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The index of a member, which is made if it is new. `None` without room.
    pub(super) fn member(&mut self, name: &Arc<str>) -> Option<u32> {
        if let Some(at) = self.find(name) {
            return Some(at);
        }
        let member = Member {
            name: Arc::clone(name),
            hash: key_hash(name),
            version: 0,
            term: None,
            is_held: false,
            weight: 0,
            renewal: Arc::from(""),
            duration: self.lease_duration,
            seen_at: Instant::ZERO,
            gone_at: None,
            is_suspect: false,
            bury_at: Instant::ZERO,
            burial: None,
            read_at: Instant::ZERO,
            holders: Vec::new(),
        };
        let at = if self.members.len() < MAX_MEMBERS {
            self.members.push(member);
            u32::try_from(self.members.len() - 1).ok()?
        } else {
            // The first one is this member.
            let mut others = self.members.iter().skip(1);
            let at = 1 + others.position(|m| !m.is_held && m.holders.is_empty())?;
            self.by_name.remove(&self.members[at].name);
            self.members[at] = member;
            u32::try_from(at).ok()?
        };
        self.by_name.insert(Arc::clone(name), at);
        Some(at)
    }

    /// Takes the lease of a member.
    pub(super) fn see(&mut self, lease: MemberLease, now: Instant) -> Shift {
        let Some(at) = self.member(&lease.name) else {
            return Shift::Full;
        };
        let member = &mut self.members[at as usize];
        if lease.version <= member.version && !mutant!("H10") {
            return Shift::Same;
        }
        let is_term = member.term.as_ref() == Some(&lease.term);
        let is_same = is_term && (member.is_held, member.weight) == (lease.is_held, lease.weight);
        let is_renewed = !is_term || !member.is_held || member.renewal != lease.renewal;
        member.version = lease.version;
        member.gone_at = None;
        if is_renewed {
            if member.is_suspect {
                self.next_expiry = self.next_expiry.min(now + lease.duration);
            }
            member.seen_at = now;
            member.is_suspect = false;
            member.renewal = lease.renewal;
        }
        member.duration = lease.duration;
        if is_same {
            return Shift::Same;
        }
        member.term = Some(lease.term);
        member.is_held = lease.is_held;
        member.is_suspect &= lease.is_held;
        member.weight = lease.weight;
        if lease.is_held {
            self.next_expiry = self.next_expiry.min(now + lease.duration);
        }
        self.reconsider(at, now);
        Shift::Moved
    }

    /// The lease of a member is gone. `version` is that of the deletion.
    pub(super) fn gone(&mut self, name: &str, version: Option<u64>, now: Instant) -> Shift {
        let Some(at) = self.find(name) else {
            return Shift::Same;
        };
        let member = &mut self.members[at as usize];
        if version.is_some_and(|version| version <= member.version) {
            return Shift::Same;
        }
        member.version = version.unwrap_or(member.version);
        if !member.is_held {
            return Shift::Same;
        }
        member.is_held = false;
        member.is_suspect = false;
        if !mutant!("H11") {
            member.gone_at = Some(now);
        }
        self.reconsider(at, now);
        Shift::Moved
    }

    /// A consistent read that was asked for after these terms became known did not tell more about
    /// them: their leases do not exist.
    pub(super) fn doom(&mut self, at: u32, read: RequestId, now: Instant) {
        let until = now + self.lease_duration;
        for index in 0..self.members[at as usize].holders.len() {
            let index = self.members[at as usize].holders[index];
            let entry = &mut self.entries[index as usize];
            if entry.life == Life::Unknown && entry.asked == Some(read) {
                entry.doomed_at = Some(until);
                self.judge(index, now);
            }
        }
    }

    /// A burial was stored at this version.
    pub(super) fn buried(&mut self, at: u32, version: u64, now: Instant) -> Shift {
        let member = &mut self.members[at as usize];
        if version <= member.version {
            return Shift::Same;
        }
        member.version = version;
        member.is_held = false;
        member.is_suspect = false;
        self.reconsider(at, now);
        Shift::Moved
    }

    pub(super) fn set_weight(&mut self, at: u32, weight: u32) {
        self.members[at as usize].weight = weight;
    }

    /// The index of a holder, which counts one use more. `None` without room.
    pub(super) fn hold(&mut self, holder: &Holder, now: Instant) -> Option<u32> {
        let member = self.member(&holder.member)?;
        let known = self.members[member as usize].holders.iter().copied();
        let known = known
            .into_iter()
            .find(|at| self.entries[*at as usize].term == holder.term);
        if let Some(at) = known {
            self.entries[at as usize].uses += 1;
            return Some(at);
        }
        let entry = Entry {
            member,
            term: holder.term.clone(),
            doomed_at: None,
            asked: None,
            life: Life::Dead,
            uses: 1,
        };
        let at = match self.spare.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).ok()?
            }
        };
        self.members[member as usize].holders.push(at);
        self.judge(at, now);
        Some(at)
    }

    /// A use of a holder ends.
    pub(super) fn release(&mut self, at: u32) {
        if at == NOBODY {
            return;
        }
        let entry = &mut self.entries[at as usize];
        entry.uses -= 1;
        if entry.uses == 0 {
            self.unsettled -= u32::from(is_unsettled(entry));
            entry.life = Life::Dead;
            entry.doomed_at = None;
            let member = &mut self.members[entry.member as usize];
            member.holders.retain(|other| *other != at);
            self.spare.push(at);
        }
    }

    pub(super) fn holder(&self, at: u32) -> Option<Holder> {
        let entry = self.entries.get(at as usize)?;
        Some(Holder {
            member: Arc::clone(&self.members[entry.member as usize].name),
            term: entry.term.clone(),
        })
    }

    /// The member of a holder that may still work; else [`NOBODY`].
    pub(super) fn living(&self, holder: u32) -> u32 {
        match self.entries.get(holder as usize) {
            Some(entry) if entry.life != Life::Dead => entry.member,
            _ => NOBODY,
        }
    }

    pub(super) fn member_of(&self, holder: u32) -> u32 {
        self.entries
            .get(holder as usize)
            .map_or(NOBODY, |entry| entry.member)
    }

    /// Returns whether a member takes part in the distribution.
    pub(super) fn takes_part(&self, member: u32) -> bool {
        let member = self.members.get(member as usize);
        member.is_some_and(|member| member.is_held && member.weight > 0)
    }

    /// Finds members whose leases expired, and terms that died meanwhile. Returns whether a term
    /// did.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        if self.next_expiry <= now {
            let mut next = Instant::FAR_FUTURE;
            let members = (0..).zip(&mut self.members);
            for (at, member) in members.filter(|(_, m)| m.is_held) {
                let expiry = member.seen_at + member.duration;
                if expiry > now {
                    next = next.min(expiry);
                } else if !member.is_suspect {
                    member.is_suspect = true;
                    self.suspects.retain(|other| *other != at);
                    self.suspects.push(at);
                    // The order of those who may bury it is found by the machine.
                    member.bury_at = Instant::ZERO;
                    member.burial = None;
                }
            }
            self.next_expiry = next;
        }
        let mut has_died = false;
        if self.unsettled > 0 {
            for at in 0..self.entries.len() {
                let before = self.entries[at].life;
                if is_unsettled(&self.entries[at]) {
                    self.judge(at as u32, now);
                }
                has_died |= self.entries[at].life != before;
            }
        }
        has_died
    }

    /// The members to read, since a term of theirs is unknown; each again after `period`. The first
    /// read gets the number `next_id`, which is raised.
    pub(super) fn due_reads(
        &mut self,
        next_id: &mut u64,
        period: Duration,
        now: Instant,
    ) -> Vec<(RequestId, Arc<str>)> {
        let mut reads: Vec<(RequestId, Arc<str>)> = Vec::new();
        if self.unsettled == 0 {
            return reads;
        }
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            let mut unknown = member.holders.iter().filter(|at| {
                let entry = &self.entries[**at as usize];
                entry.life == Life::Unknown
            });
            if member.read_at > now || unknown.next().is_none() {
                continue;
            }
            member.read_at = now + period;
            let id = RequestId(*next_id);
            *next_id += 1;
            reads.push((id, Arc::clone(&member.name)));
            for at in &member.holders {
                self.entries[*at as usize].asked = Some(id);
            }
        }
        reads
    }

    /// The next time at which a term dies or a member is to be read.
    pub(super) fn next_wake(&self) -> Instant {
        if self.unsettled == 0 {
            return Instant::FAR_FUTURE;
        }
        let unsettled = self.entries.iter().filter(|entry| is_unsettled(entry));
        let times = unsettled.map(|entry| {
            let read_at = self.members[entry.member as usize].read_at;
            entry.doomed_at.unwrap_or(read_at)
        });
        times.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Judges the terms of a member anew.
    fn reconsider(&mut self, member: u32, now: Instant) {
        for index in 0..self.members[member as usize].holders.len() {
            let at = self.members[member as usize].holders[index];
            self.judge(at, now);
        }
    }

    fn judge(&mut self, at: u32, now: Instant) {
        let entry = &self.entries[at as usize];
        let was_unsettled = is_unsettled(entry);
        let (life, doomed_at) = self.life(entry, now);
        let entry = &mut self.entries[at as usize];
        (entry.life, entry.doomed_at) = (life, doomed_at);
        let is_now = is_unsettled(entry);
        self.unsettled = self.unsettled + u32::from(is_now) - u32::from(was_unsettled);
    }

    /// The state of a term, and the time until which it lives, where that is known.
    fn life(&self, entry: &Entry, now: Instant) -> (Life, Option<Instant>) {
        let member = &self.members[entry.member as usize];
        let until = |at: Instant| match at > now {
            true => (Life::Live, Some(at)),
            false => (Life::Dead, Some(at)),
        };
        match &member.term {
            Some(term) if *term == entry.term => match member.gone_at {
                _ if member.is_held => (Life::Live, None),
                Some(gone_at) => until(entry.doomed_at.unwrap_or(gone_at + member.duration)),
                None => (Life::Dead, None),
            },
            Some(term)
                if term.uid == entry.term.uid && term.transitions > entry.term.transitions =>
            {
                (Life::Dead, None)
            }
            _ if mutant!("H5") => (Life::Dead, None),
            _ => entry.doomed_at.map_or((Life::Unknown, None), until),
        }
    }
}

/// Returns whether time or a read is to decide about a term.
fn is_unsettled(entry: &Entry) -> bool {
    let is_doomed = entry.doomed_at.is_some() && entry.life != Life::Dead;
    entry.life == Life::Unknown || is_doomed
}
