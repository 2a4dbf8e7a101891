//! The own term: its begin, its end by message or by clock, the stop, and the burial of others.
//!
//! ```text
//! TermBegan → old shards are free → plan        TermEnded │ clock → every queue is closed at once
//! Stop → weight 0, every shard drained and released → Left
//! suspect member ──in rendezvous order──▶ its holder is cleared at the version that expired
//! ```
//!
//! A member that was buried loses its term by the record of its own lease, if it still runs.
//! Upstream counterpart: none.

use std::sync::Arc;

use kinform_api::mutant;

use crate::time::Instant;

use super::input::Answer;
use super::ledger::{Doubt, Extent, Stage};
use super::rank::rendezvous;
use super::record::{Holder, MemberLease, MemberTerm};
use super::roster::NOBODY;
use super::step::{CloseReason, RequestId, Step};
use super::{Phase, Sharding};

/// BOUND: members that wait for their turn to bury one; those after them have the same turn.
const MAX_TURNS: u32 = 16;

impl Sharding {
    pub(super) fn begin_term(
        &mut self,
        term: MemberTerm,
        version: u64,
        ends_at: Instant,
        now: Instant,
    ) {
        self.end_term(now);
        debug_assert!(
            self.ledger.slots.iter().all(|slot| !slot.is_open),
            "a term begins while work of an earlier one runs"
        );
        let name = Arc::clone(&self.roster.members[self.me as usize].name);
        let lease = MemberLease {
            name: Arc::clone(&name),
            version,
            term: term.clone(),
            is_held: true,
            renewal: Arc::from(""),
            duration: self.options.lease_duration,
            weight: self.weight(),
        };
        self.roster.see(lease, now);
        let holder = Holder { member: name, term };
        self.mine = self.roster.hold(&holder, now).unwrap_or(NOBODY);
        self.ends_at = ends_at;
        self.recount(now);
        // Writes of this term that were seen before the term itself.
        for shard in 0..self.shards.count() {
            if self.is_mine(shard) {
                self.settle(shard, now);
            }
        }
    }

    pub(super) fn end_term(&mut self, now: Instant) {
        if self.mine == NOBODY {
            return;
        }
        self.ledger.writes.clear();
        for shard in std::mem::take(&mut self.ledger.retries).into_keys() {
            self.ledger.slot_mut(shard).doubt = Doubt::None;
        }
        self.handing = None;
        let active: Vec<u32> = self.ledger.active.iter().copied().collect();
        for shard in active {
            self.lose(shard, now);
        }
        let mine = std::mem::replace(&mut self.mine, NOBODY);
        self.roster.release(mine);
        self.next_turn = Instant::FAR_FUTURE;
        for shard in 0..self.shards.count() {
            self.ledger.count(shard, self.me, &self.roster, now);
        }
    }

    /// The shard is not this member's any more, or not for long: no lease is written.
    pub(super) fn lose(&mut self, shard: u32, now: Instant) {
        let slot = self.ledger.slot(shard);
        if !slot.is_open {
            return self.leave_shard(shard, now);
        }
        self.steps.push_back(Step::Close {
            shard: super::ShardId(shard),
            reason: CloseReason::Lost,
        });
        self.ledger.set_stage(shard, Stage::Draining);
    }

    pub(super) fn on_stop(&mut self, now: Instant) {
        if self.phase != Phase::Working {
            return;
        }
        self.phase = Phase::Leaving;
        self.steps.push_back(Step::Leave);
        self.roster.set_weight(self.me, 0);
        let active: Vec<u32> = self.ledger.active.iter().copied().collect();
        for shard in active {
            match self.ledger.slot(shard).stage {
                Stage::Preparing | Stage::Claimed | Stage::Withdrawing => {
                    self.leave_shard(shard, now);
                }
                Stage::Owned if !mutant!("H9") => self.close(shard, CloseReason::Stop, now),
                _ => {}
            }
        }
        self.recount(now);
    }

    /// Clears the leases of members that expired. Returns the time of the next attempt.
    pub(super) fn bury(&mut self, now: Instant) -> Instant {
        let mut next = Instant::FAR_FUTURE;
        if !self.is_listed || !self.roster.takes_part(self.me) {
            return next;
        }
        let members = &self.roster.members;
        self.roster
            .suspects
            .retain(|at| members[*at as usize].is_suspect);
        for at in self.roster.suspects.clone() {
            let at = at as usize;
            let member = &self.roster.members[at];
            if !member.is_suspect || at == self.me as usize {
                continue;
            }
            if member.bury_at == Instant::ZERO {
                let turn = self.turn(at);
                let wait = self.options.patience.saturating_mul(turn);
                self.roster.members[at].bury_at = now + wait;
            }
            let member = &self.roster.members[at];
            if member.burial.is_none() && member.bury_at <= now {
                let (member, version) = (Arc::clone(&member.name), member.version);
                let id = self.next_request();
                self.roster.members[at].burial = Some(id);
                self.roster.members[at].bury_at = now + self.options.retry_period;
                self.steps.push_back(Step::Bury {
                    id,
                    member,
                    version,
                });
                if mutant!("H1") {
                    self.roster.buried(at as u32, version + 1, now);
                    self.recount(now);
                }
            } else if member.burial.is_none() {
                next = next.min(member.bury_at);
            }
        }
        next
    }

    /// The number of members that come before this one to bury a member.
    fn turn(&self, dead: usize) -> u32 {
        let members = &self.roster.members;
        let rank = |hash: u64| rendezvous(hash ^ members[dead].hash, 0);
        let own = rank(members[self.me as usize].hash);
        let living = members.iter().filter(|m| m.is_held && !m.is_suspect);
        let before = living.filter(|m| rank(m.hash) > own).count();
        u32::try_from(before).unwrap_or(MAX_TURNS).min(MAX_TURNS)
    }

    /// The outcome of a burial. Returns whether it was one.
    pub(super) fn on_burial(&mut self, id: RequestId, answer: Answer, now: Instant) -> bool {
        let burials = self.roster.members.iter();
        let Some(at) = burials.into_iter().position(|m| m.burial == Some(id)) else {
            return false;
        };
        let retry_at = now + self.options.retry_period;
        let member = &mut self.roster.members[at];
        member.burial = None;
        member.bury_at = retry_at;
        match answer {
            Answer::Stored { version } => {
                let shift = self.roster.buried(at as u32, version, now);
                self.shifted(shift, now);
            }
            Answer::Conflict => {
                let name = Arc::clone(&member.name);
                let id = self.next_request();
                self.steps.push_back(Step::ReadMember { id, name });
            }
            Answer::Failed => {}
        }
        true
    }

    /// Gives up what this member has of a shard without work.
    pub(super) fn leave_shard(&mut self, shard: u32, now: Instant) {
        let slot = self.ledger.slot_mut(shard);
        debug_assert!(!slot.is_open, "#{shard}: left while work runs");
        let extent = std::mem::replace(&mut slot.extent, Extent::Without);
        if extent != Extent::Without {
            self.steps.push_back(Step::Shrink(super::ShardId(shard)));
        }
        self.ledger.set_stage(shard, Stage::Idle);
        if self.handing == Some(shard) {
            self.handing = None;
        }
        self.ledger.count(shard, self.me, &self.roster, now);
        self.is_dirty = true;
    }
}
