//! The shards as they were last observed, this member's stage in each, and the count of each member.
//!
//! ```text
//! records of shards + Roster + stages → owner, heir of each shard → loads, free shards
//! ```
//!
//! The heir of a shard is the member that will have it if nothing else happens: this one where it
//! has begun to take it, else the claimant, else the owner. A shard without an heir is free, also
//! while an owner that leaves still works on it.
//!
//! INVARIANT: the load of a member is the number of shards whose heir it is, and its possession the
//! number that it owns.
//! BOUND: shards: 16,384, of 40 bytes each.
//!
//! Upstream counterpart: none.

use std::collections::{BTreeMap, BTreeSet};

use kinform_api::mutant;

use crate::time::Instant;

use super::record::{Holder, ShardRecord};
use super::roster::{NOBODY, Roster};
use super::step::{Purpose, RequestId};

/// This member's stage in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    /// The informers are being extended, or the claim or acquisition is being written.
    Preparing,
    /// The claim is stored; the owner is to release.
    Claimed,
    /// The claim is being taken back.
    Withdrawing,
    /// The lease names this member.
    Owned,
    /// The queue is closed, and work may run.
    Draining,
    /// No work runs, and the lease is to be released.
    Releasing,
}

/// The part that the informers have in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Without,
    Extending,
    Synced,
}

/// The doubt that a write without success leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    None,
    /// The lease has another version than is known.
    Stale,
    /// It is not known whether the write was stored.
    Unsure,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Holders, by their index in the roster.
    pub(super) owner: u32,
    pub(super) claim: u32,
    /// Members, by their index in the roster.
    pub(super) heir: u32,
    possessor: u32,
    /// The version that is known; zero without a lease.
    pub(super) version: u64,
    /// The latest version of which anything is known, a deletion included.
    pub(super) latest: u64,
    pub(super) stage: Stage,
    pub(super) extent: Extent,
    /// Work may run.
    pub(super) is_open: bool,
    pub(super) doubt: Doubt,
}

/// A write under way.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: RequestId,
    pub(super) purpose: Purpose,
    pub(super) version: u64,
    pub(super) record: ShardRecord,
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) slots: Vec<Slot>,
    /// Shards whose heir a member is, by member.
    pub(super) loads: Vec<u32>,
    /// Shards that a member owns, by member.
    pub(super) owned: Vec<u32>,
    /// Shards without an heir, and since when.
    pub(super) free: BTreeMap<u32, Instant>,
    /// Shards in which this member's stage is not idle.
    pub(super) active: BTreeSet<u32>,
    /// Shards of this member that another one claims.
    pub(super) asked: BTreeSet<u32>,
    pub(super) writes: BTreeMap<u32, Open>,
    /// The next attempt, where a write left a doubt.
    pub(super) retries: BTreeMap<u32, Instant>,
}

impl Ledger {
    pub(super) fn new(shards: u32) -> Self {
        let slot = Slot {
            owner: NOBODY,
            claim: NOBODY,
            heir: NOBODY,
            possessor: NOBODY,
            version: 0,
            latest: 0,
            stage: Stage::Idle,
            extent: Extent::Without,
            is_open: false,
            doubt: Doubt::None,
        };
        Self {
            slots: vec![slot; shards as usize],
            loads: Vec::new(),
            owned: Vec::new(),
            free: (0..shards).map(|shard| (shard, Instant::ZERO)).collect(),
            active: BTreeSet::new(),
            asked: BTreeSet::new(),
            writes: BTreeMap::new(),
            retries: BTreeMap::new(),
        }
    }

    pub(super) fn slot(&self, shard: u32) -> &Slot {
        &self.slots[shard as usize]
    }

    pub(super) fn slot_mut(&mut self, shard: u32) -> &mut Slot {
        &mut self.slots[shard as usize]
    }

    /// Takes the record of a shard at a version. Returns whether it is newer than what is known.
    pub(super) fn see(
        &mut self,
        shard: u32,
        version: u64,
        record: &ShardRecord,
        roster: &mut Roster,
        now: Instant,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(shard as usize) else {
            return false;
        };
        let is_known = match slot.version {
            // A read that found no lease tells no version, and may be older than what was known: a
            // lease that is seen at that version again is there.
            0 if !mutant!("H15") => version < slot.latest,
            _ => version <= slot.latest,
        };
        if is_known && !mutant!("H10") {
            return false;
        }
        let mut index = |holder: &Option<Holder>| match holder {
            Some(holder) => roster.hold(holder, now),
            None => Some(NOBODY),
        };
        // Without room for a member the sighting counts as none: a write would then fail.
        let (Some(owner), Some(claim)) = (index(&record.owner), index(&record.claim)) else {
            return false;
        };
        (slot.version, slot.latest) = (version, version);
        slot.doubt = Doubt::None;
        self.retries.remove(&shard);
        let before = (slot.owner, slot.claim);
        (slot.owner, slot.claim) = (owner, claim);
        roster.release(before.0);
        roster.release(before.1);
        true
    }

    /// The lease of a shard is gone. Who owned it still does; the owner makes it again.
    pub(super) fn gone(&mut self, shard: u32, version: Option<u64>) -> bool {
        let Some(slot) = self.slots.get_mut(shard as usize) else {
            return false;
        };
        if slot.version == 0 || version.is_some_and(|version| version <= slot.latest) {
            return false;
        }
        slot.latest = version.unwrap_or(slot.latest);
        slot.version = 0;
        slot.doubt = Doubt::None;
        self.retries.remove(&shard);
        true
    }

    /// Counts a shard anew: after its record, a stage or the life of a member changed. Returns
    /// whether its heir is another one.
    pub(super) fn count(&mut self, shard: u32, me: u32, roster: &Roster, now: Instant) -> bool {
        let slot = self.slots[shard as usize];
        let owner = roster.living(slot.owner);
        let claimant = roster.living(slot.claim);
        let heir = match slot.stage {
            Stage::Preparing | Stage::Claimed => me,
            Stage::Withdrawing if claimant == me => owner,
            _ if claimant != NOBODY && roster.takes_part(claimant) => claimant,
            _ if owner != NOBODY && roster.members[owner as usize].weight > 0 => owner,
            // Of a member that is not known yet.
            _ if owner != NOBODY && !roster.members[owner as usize].is_held => owner,
            _ => NOBODY,
        };
        let is_asked = slot.stage == Stage::Owned && heir != me && heir != NOBODY;
        match is_asked {
            true => self.asked.insert(shard),
            false => self.asked.remove(&shard),
        };
        if (heir, owner) == (slot.heir, slot.possessor) {
            return false;
        }
        self.loads.resize(roster.members.len(), 0);
        self.owned.resize(roster.members.len(), 0);
        for (counts, before, after) in [
            (&mut self.loads, slot.heir, heir),
            (&mut self.owned, slot.possessor, owner),
        ] {
            if before != NOBODY {
                counts[before as usize] -= 1;
            }
            if after != NOBODY {
                counts[after as usize] += 1;
            }
        }
        if heir == NOBODY {
            self.free.insert(shard, now);
        } else if slot.heir == NOBODY {
            self.free.remove(&shard);
        }
        let slot = &mut self.slots[shard as usize];
        (slot.heir, slot.possessor) = (heir, owner);
        true
    }

    /// Sets the stage, and keeps the set of active shards.
    pub(super) fn set_stage(&mut self, shard: u32, stage: Stage) {
        debug_assert!(
            !self.slot(shard).is_open || matches!(stage, Stage::Owned | Stage::Draining),
            "#{shard}: {stage:?} while work runs"
        );
        self.slots[shard as usize].stage = stage;
        match stage {
            Stage::Idle => self.active.remove(&shard),
            _ => self.active.insert(shard),
        };
    }
}
