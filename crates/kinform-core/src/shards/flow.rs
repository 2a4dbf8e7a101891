//! The way of one shard, from a wish to its release.
//!
//! ```text
//! Preparing ──synced──▶ claim ──▶ Claimed ──released──▶ acquire ──▶ Owned ──synced──▶ Open
//!     └──free, or the owner's term is dead──────────────▶ acquire
//! Owned ──claimed by another, or a stop──▶ Draining ──drained──▶ Releasing ──▶ Idle
//!   ◀──────────the claim was taken back───────┘
//! ```
//!
//! One function looks at a shard and does what its record and stage ask for, whatever it was that
//! changed. A write without success leaves a doubt: the lease is read, and nothing is written
//! before a newer version is known, or before the time of a retry.
//!
//! Upstream counterpart: none.

use kinform_api::mutant;

use crate::time::Instant;

use super::input::Answer;
use super::ledger::{Doubt, Extent, Open, Stage};
use super::record::{ShardLease, ShardRecord};
use super::roster::NOBODY;
use super::split::ShardId;
use super::step::{CloseReason, Purpose, RequestId, Step, Write};
use super::{Phase, Sharding};

impl Sharding {
    pub(super) fn is_mine(&self, shard: u32) -> bool {
        let owner = self.ledger.slot(shard).owner;
        let is_mine = owner == self.mine && self.mine != NOBODY;
        is_mine || (mutant!("H4") && self.mine != NOBODY && self.roster.member_of(owner) == self.me)
    }

    pub(super) fn on_shard(&mut self, lease: &ShardLease, now: Instant) {
        let shard = lease.shard.0;
        let before = self.ledger.slots.get(shard as usize).map(|slot| slot.owner);
        let is_newer = self
            .ledger
            .see(shard, lease.version, &lease.record, &mut self.roster, now);
        if is_newer {
            self.on_record(shard, before.unwrap_or(NOBODY), now);
        }
    }

    /// The record of a shard is another one; `before` owned it.
    fn on_record(&mut self, shard: u32, before: u32, now: Instant) {
        let slot = *self.ledger.slot(shard);
        let is_another = slot.owner != before && slot.owner != self.mine;
        let is_taken = is_another && self.roster.living(slot.owner) != NOBODY;
        let is_wished = matches!(slot.stage, Stage::Preparing | Stage::Claimed);
        if is_wished && is_taken {
            self.leave_shard(shard, now);
        }
        self.is_dirty |= self.ledger.count(shard, self.me, &self.roster, now);
        self.settle(shard, now);
    }

    pub(super) fn on_answer(&mut self, id: RequestId, answer: Answer, now: Instant) {
        let open = self.ledger.writes.iter().find(|(_, open)| open.id == id);
        let Some(shard) = open.map(|(shard, _)| *shard) else {
            self.on_burial(id, answer, now);
            return;
        };
        let Some(open) = self.ledger.writes.remove(&shard) else {
            return;
        };
        let slot = self.ledger.slot_mut(shard);
        let before = slot.owner;
        let has_moved = slot.version != open.version;
        match answer {
            Answer::Stored { version } => {
                let record = &open.record;
                self.ledger
                    .see(shard, version, record, &mut self.roster, now);
                return self.on_record(shard, before, now);
            }
            // What was seen since is the answer.
            _ if has_moved => {}
            Answer::Conflict => slot.doubt = Doubt::Stale,
            Answer::Failed => slot.doubt = Doubt::Unsure,
        }
        if mutant!("H6") && open.purpose == Purpose::Release && slot.doubt == Doubt::Unsure {
            slot.is_open = true;
            self.ledger.set_stage(shard, Stage::Owned);
            self.steps.push_back(Step::Open(ShardId(shard)));
            return;
        }
        if self.ledger.slot(shard).doubt != Doubt::None {
            self.ledger
                .retries
                .insert(shard, now + self.options.retry_period);
            self.steps.push_back(Step::ReadShard(ShardId(shard)));
        }
        self.settle(shard, now);
    }

    /// Goes on with shards whose doubt was not cleared in time.
    pub(super) fn retry(&mut self, now: Instant) {
        let due = self.ledger.retries.iter().filter(|(_, at)| **at <= now);
        let due: Vec<u32> = due.map(|(shard, _)| *shard).collect();
        for shard in due {
            let slot = self.ledger.slot_mut(shard);
            if slot.doubt == Doubt::Stale {
                let at = now + self.options.retry_period;
                self.ledger.retries.insert(shard, at);
                self.steps.push_back(Step::ReadShard(ShardId(shard)));
                continue;
            }
            // The version is the known one: the write was not stored, or not yet. Of two at one
            // version only one is stored.
            slot.doubt = Doubt::None;
            self.ledger.retries.remove(&shard);
            self.settle(shard, now);
        }
    }

    pub(super) fn on_synced(&mut self, shard: u32, now: Instant) {
        let Some(slot) = self.ledger.slots.get_mut(shard as usize) else {
            return;
        };
        if slot.extent == Extent::Extending {
            slot.extent = Extent::Synced;
            self.settle(shard, now);
        }
    }

    pub(super) fn on_drained(&mut self, shard: u32, now: Instant) {
        let Some(slot) = self.ledger.slots.get_mut(shard as usize) else {
            return;
        };
        if slot.stage != Stage::Draining {
            return;
        }
        slot.is_open = false;
        if self.keeps(shard) && !mutant!("H17") {
            self.handing.take_if(|handing| *handing == shard);
            self.ledger.set_stage(shard, Stage::Owned);
        } else {
            self.ledger.set_stage(shard, Stage::Releasing);
        }
        self.settle(shard, now);
    }

    /// Returns whether a shard whose work has drained stays with this member: who claimed it has
    /// taken the claim back, leaves or is dead. Released, it would have no worker until another
    /// member has synced it.
    fn keeps(&self, shard: u32) -> bool {
        self.acts() && self.is_mine(shard) && !self.is_outbid(shard)
    }

    /// Begins to take a shard.
    pub(super) fn take(&mut self, shard: u32, now: Instant) {
        debug_assert_eq!(self.ledger.slot(shard).stage, Stage::Idle, "#{shard}");
        self.ledger.set_stage(shard, Stage::Preparing);
        self.extend(shard);
        self.ledger.count(shard, self.me, &self.roster, now);
        self.settle(shard, now);
    }

    fn extend(&mut self, shard: u32) {
        let slot = self.ledger.slot_mut(shard);
        if slot.extent == Extent::Without {
            slot.extent = Extent::Extending;
            self.steps.push_back(Step::Extend(ShardId(shard)));
        }
    }

    /// Takes back the wish for a shard.
    pub(super) fn withdraw(&mut self, shard: u32, now: Instant) {
        self.ledger.set_stage(shard, Stage::Withdrawing);
        self.ledger.count(shard, self.me, &self.roster, now);
        self.settle(shard, now);
    }

    /// Closes the queue of a shard; its lease is released when it has drained.
    pub(super) fn close(&mut self, shard: u32, reason: CloseReason, now: Instant) {
        if self.ledger.slot(shard).is_open {
            self.ledger.set_stage(shard, Stage::Draining);
            let shard = ShardId(shard);
            self.steps.push_back(Step::Close { shard, reason });
            if mutant!("H3") {
                let slot = self.ledger.slot_mut(shard.0);
                slot.is_open = false;
                self.ledger.set_stage(shard.0, Stage::Releasing);
                self.settle(shard.0, now);
            }
            return;
        }
        self.ledger.set_stage(shard, Stage::Releasing);
        self.settle(shard, now);
    }

    /// Hands over the first shard that is claimed, one at a time.
    pub(super) fn hand_over(&mut self, now: Instant) {
        if !self.acts() || (self.handing.is_some() && !mutant!("H8")) {
            return;
        }
        let floor = self.floors.get(self.me as usize).copied();
        let owned = self.ledger.owned.get(self.me as usize).copied();
        if owned.unwrap_or(0) <= floor.unwrap_or(0) {
            return;
        }
        let Some(shard) = self.ledger.asked.pop_first() else {
            return;
        };
        self.handing = Some(shard);
        self.close(shard, CloseReason::HandOver, now);
    }

    /// Does what the record and the stage of a shard ask for.
    pub(super) fn settle(&mut self, shard: u32, now: Instant) {
        if self.ledger.writes.contains_key(&shard) && self.ledger.slot(shard).stage != Stage::Owned
        {
            return; // its answer comes
        }
        let is_mine = self.is_mine(shard);
        let slot = *self.ledger.slot(shard);
        let claims = slot.claim == self.mine && self.mine != NOBODY;
        let is_free = self.roster.living(slot.owner) == NOBODY;
        match slot.stage {
            Stage::Draining => {}
            Stage::Releasing if is_mine => self.write(shard, Purpose::Release, now),
            Stage::Releasing => {
                self.leave_shard(shard, now);
                self.take_up(shard, now);
            }
            Stage::Owned if !is_mine => {
                self.lose(shard, now);
                self.take_up(shard, now);
            }
            Stage::Owned => self.settle_owned(shard, now),
            _ if is_mine => {
                self.ledger.set_stage(shard, Stage::Owned);
                self.ledger.count(shard, self.me, &self.roster, now);
                self.settle(shard, now);
            }
            Stage::Idle if claims && self.acts() => self.adopt(shard, now),
            Stage::Idle => {}
            Stage::Withdrawing if claims => self.write(shard, Purpose::Withdraw, now),
            Stage::Withdrawing => self.leave_shard(shard, now),
            Stage::Preparing | Stage::Claimed if self.is_outbid(shard) => {
                self.leave_shard(shard, now);
            }
            Stage::Preparing | Stage::Claimed if is_free => {
                self.write(shard, Purpose::Acquire, now);
            }
            Stage::Claimed if claims => {}
            Stage::Claimed => {
                self.ledger.set_stage(shard, Stage::Preparing);
                self.settle(shard, now);
            }
            Stage::Preparing if claims => self.ledger.set_stage(shard, Stage::Claimed),
            Stage::Preparing if slot.extent == Extent::Synced || mutant!("H7") => {
                self.write(shard, Purpose::Claim, now);
            }
            Stage::Preparing => {}
        }
    }

    /// Looks at a lost shard once more: its lease may claim it for this term, for example when a
    /// person deleted the lease and the previous owner's release, written a second time, made it
    /// again with an old claim. Nobody else takes a shard that is claimed by a living term.
    fn take_up(&mut self, shard: u32, now: Instant) {
        if !mutant!("H16") {
            self.settle(shard, now);
        }
    }

    fn settle_owned(&mut self, shard: u32, now: Instant) {
        if self.phase == Phase::Leaving && !mutant!("H9") {
            return self.close(shard, CloseReason::Stop, now);
        }
        self.extend(shard);
        let slot = *self.ledger.slot(shard);
        if slot.version == 0 {
            // Somebody deleted the lease: it is made again as it was.
            self.write(shard, Purpose::Acquire, now);
        }
        if slot.extent == Extent::Synced && !slot.is_open {
            debug_assert!(self.is_mine(shard) && self.ends_at > now || cfg!(kinform_mutants));
            self.ledger.slot_mut(shard).is_open = true;
            self.steps.push_back(Step::Open(ShardId(shard)));
        }
    }

    /// A claim of this term that was stored late, after the wish for the shard was over.
    fn adopt(&mut self, shard: u32, now: Instant) {
        let at = self.me as usize;
        let load = self.ledger.loads.get(at).copied().unwrap_or(0);
        // The claim itself counts.
        match self.ceilings.get(at) {
            Some(ceiling) if load <= *ceiling => self.take(shard, now),
            _ => self.withdraw(shard, now),
        }
    }

    /// Returns whether another member claims the shard.
    fn is_outbid(&self, shard: u32) -> bool {
        let claim = self.ledger.slot(shard).claim;
        let claimant = self.roster.living(claim);
        claim != self.mine && claimant != NOBODY && self.roster.takes_part(claimant)
    }

    fn write(&mut self, shard: u32, purpose: Purpose, now: Instant) {
        let slot = *self.ledger.slot(shard);
        let is_open = self.ledger.writes.contains_key(&shard);
        if is_open || slot.doubt != Doubt::None || !self.is_listed || self.ends_at <= now {
            return;
        }
        debug_assert!(
            purpose != Purpose::Release || !slot.is_open,
            "#{shard}: released at work"
        );
        let mine = self.roster.holder(self.mine);
        let owner = self.roster.holder(slot.owner);
        let claim = self.roster.holder(slot.claim);
        let record = match purpose {
            Purpose::Claim => ShardRecord { owner, claim: mine },
            Purpose::Withdraw => ShardRecord { owner, claim: None },
            Purpose::Acquire => ShardRecord {
                owner: mine,
                claim: None,
            },
            Purpose::Release => ShardRecord { owner: None, claim },
        };
        let id = self.next_request();
        let open = Open {
            id,
            purpose,
            version: slot.version,
            record: record.clone(),
        };
        self.ledger.writes.insert(shard, open);
        self.steps.push_back(Step::Write(Write {
            id,
            shard: ShardId(shard),
            version: (slot.version > 0).then_some(slot.version),
            record,
            purpose,
        }));
    }
}
