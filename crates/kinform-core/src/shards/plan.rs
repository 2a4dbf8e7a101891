//! The distribution: how many shards each member should have, and which this one takes.
//!
//! ```text
//! weights → floor and ceiling of each member
//! free shards: in turn, each to the first in rendezvous order that has room → mine are taken
//! below the floor, or below the ceiling of others' excess → claims, in rendezvous order
//! ```
//!
//! Every member computes the same from the same view, so that free shards are seldom raced for; a
//! race ends at the version of the lease. If the member whose turn it is does not take a shard, it
//! is the next one's turn, `patience` later.
//!
//! A member has from floor to ceiling of its part. With ceilings alone 16,384 shards could be on 964
//! of 1,000 members, and one that joins would get none. Each claim lowers an excess or a lack and
//! raises no other, so claims end; where all are within their bounds, none is made.
//!
//! BOUND: free shards in a plan: 1,024.
//!
//! Upstream counterpart: none.

use kinform_api::mutant;

use crate::time::Instant;

use super::Sharding;
use super::ledger::Stage;
use super::rank::rendezvous;
use super::roster::NOBODY;

/// BOUND: free shards that one plan distributes, the first in order. Others wait for the next plan.
const MAX_FREE: usize = 1_024;

impl Sharding {
    /// Finds the bounds of each member, by the weights of those that take part.
    pub(super) fn find_quotas(&mut self) {
        let members = &self.roster.members;
        let takes_part = |at: usize| self.roster.takes_part(u32::try_from(at).unwrap_or(NOBODY));
        let weights = || (0..members.len()).filter(|at| takes_part(*at));
        let total: u64 = weights().map(|at| u64::from(members[at].weight)).sum();
        let shards = u64::from(self.shards.count());
        let share = |at: usize| match takes_part(at) {
            true => shards * u64::from(members[at].weight),
            false => 0,
        };
        let bound = |parts: u64| u32::try_from(parts).unwrap_or(u32::MAX);
        let all = 0..members.len();
        self.floors = all
            .clone()
            .map(|at| bound(share(at).checked_div(total).unwrap_or(0)))
            .collect();
        self.ceilings = all
            .map(|at| match takes_part(at) {
                true => bound(share(at).div_ceil(total.max(1))),
                false => u32::MAX,
            })
            .collect();
        if mutant!("H12") {
            self.floors = self.ceilings.clone();
        }
    }

    /// Looks at the distribution if something changed. Returns the time of the next look.
    pub(super) fn plan(&mut self, now: Instant) -> Instant {
        if !self.acts() || !self.roster.takes_part(self.me) {
            return Instant::FAR_FUTURE;
        }
        if !self.is_dirty && now < self.next_turn {
            return self.next_turn;
        }
        let due = self.planned_at + self.options.plan_period;
        if now < due && self.planned_at != Instant::ZERO {
            return due;
        }
        self.is_dirty = false;
        self.planned_at = now;
        self.ledger.loads.resize(self.roster.members.len(), 0);
        self.ledger.owned.resize(self.roster.members.len(), 0);
        self.give_up(now);
        let mut loads = self.ledger.loads.clone();
        let taken = self.share_out(&mut loads, now);
        let claimed = self.choose_claims(&mut loads);
        for shard in taken.into_iter().chain(claimed) {
            self.take(shard, now);
        }
        // Taking changed the loads of this member, as planned.
        self.is_dirty = false;
        self.next_turn
    }

    /// Takes back wishes that are too many, or that their owners will not fulfil.
    fn give_up(&mut self, now: Instant) {
        let me = self.me as usize;
        let wishes: Vec<u32> = self.ledger.active.iter().copied().collect();
        for shard in wishes {
            let slot = *self.ledger.slot(shard);
            if !matches!(slot.stage, Stage::Preparing | Stage::Claimed) {
                continue;
            }
            let owner = self.roster.living(slot.owner);
            let is_hopeless = self.roster.takes_part(owner) && !self.may_give(owner);
            if is_hopeless || self.ledger.loads[me] > self.ceilings[me] {
                self.withdraw(shard, now);
            }
        }
    }

    /// Distributes the free shards. Returns those that this member is to take.
    fn share_out(&mut self, loads: &mut [u32], now: Instant) -> Vec<u32> {
        let mut taken = Vec::new();
        self.next_turn = Instant::FAR_FUTURE;
        let patience = self.options.patience;
        let members: Vec<u32> = (0..loads.len() as u32)
            .filter(|at| self.roster.takes_part(*at))
            .collect();
        for (shard, since) in self.ledger.free.iter().take(MAX_FREE) {
            // While an owner that leaves ends its work, there is nothing to be taken.
            let is_released = self.roster.living(self.ledger.slot(*shard).owner) == NOBODY;
            let waited = match is_released {
                true => now.since(*since).as_nanos() / patience.as_nanos().max(1),
                false => 0,
            };
            let waited = u32::try_from(waited).unwrap_or(u32::MAX);
            if let Some(heir) = self.heir(&members, loads, *shard, waited) {
                loads[heir as usize] += 1;
                // One whose release is not answered yet is looked at again when it is.
                let is_idle = self.ledger.slot(*shard).stage == Stage::Idle;
                if heir == self.me && is_idle {
                    taken.push(*shard);
                    continue;
                }
            }
            if !is_released {
                continue;
            }
            let next = *since + patience.saturating_mul(waited.saturating_add(1));
            self.next_turn = self.next_turn.min(next);
        }
        if self.ledger.free.len() > MAX_FREE {
            self.next_turn = self.next_turn.min(now + self.options.plan_period);
        }
        taken
    }

    /// The member whose turn it is to take a shard: the first in rendezvous order with room, after
    /// as many others as have had their turn.
    fn heir(&self, members: &[u32], loads: &[u32], shard: u32, waited: u32) -> Option<u32> {
        let has_room = |bounds: &[u32]| {
            let has_room = |at: &&u32| loads[**at as usize] < bounds[**at as usize];
            members.iter().filter(has_room).count() as u32
        };
        let below_floor = has_room(&self.floors);
        let bounds = match below_floor {
            0 => &self.ceilings,
            _ => &self.floors,
        };
        let candidates = match below_floor {
            0 => has_room(bounds),
            count => count,
        };
        let mut turns = waited.checked_rem(candidates)?;
        let rank = |at: u32| rendezvous(self.roster.members[at as usize].hash, shard);
        let mut limit = None;
        loop {
            let candidates = members.iter().copied().filter(|at| {
                let has_room = loads[*at as usize] < bounds[*at as usize];
                has_room && limit.is_none_or(|limit| (rank(*at), *at) < limit)
            });
            let first = candidates.max_by_key(|at| (rank(*at), *at))?;
            if turns == 0 {
                return Some(first);
            }
            turns -= 1;
            limit = Some((rank(first), first));
        }
    }

    /// Returns whether a member hands shards over: it keeps its floor.
    fn may_give(&self, member: u32) -> bool {
        self.ledger.owned[member as usize] > self.floors[member as usize]
    }

    /// Chooses shards of others to claim: first of those above their ceiling, then, below the own
    /// floor, of those above theirs.
    fn choose_claims(&self, loads: &mut [u32]) -> Vec<u32> {
        let me = self.me as usize;
        let mut chosen = Vec::new();
        for (bound, limits) in [
            (&self.ceilings, &self.ceilings),
            (&self.floors, &self.floors),
        ] {
            let is_over =
                |at: usize| at != me && self.roster.takes_part(at as u32) && loads[at] > limits[at];
            let lacks =
                |at: usize| self.roster.takes_part(at as u32) && loads[at] < self.floors[at];
            // One that is not below its floor leaves the excess of others to those that are.
            let is_due = lacks(me) || !(0..loads.len()).any(lacks);
            if loads[me] >= bound[me] || !is_due || !(0..loads.len()).any(is_over) {
                continue;
            }
            let hash = self.roster.members[me].hash;
            let shards = 0..self.shards.count();
            let mut shards: Vec<u32> = shards
                .filter(|shard| {
                    let slot = self.ledger.slot(*shard);
                    let is_settled = self.roster.living(slot.owner) == slot.heir;
                    let is_idle = slot.stage == Stage::Idle && !chosen.contains(shard);
                    is_settled
                        && is_idle
                        && slot.heir != NOBODY
                        && is_over(slot.heir as usize)
                        && self.may_give(slot.heir)
                })
                .collect();
            shards.sort_unstable_by_key(|shard| std::cmp::Reverse(rendezvous(hash, *shard)));
            for shard in shards {
                let heir = self.ledger.slot(shard).heir as usize;
                if loads[me] < bound[me] && loads[heir] > limits[heir] {
                    loads[heir] -= 1;
                    loads[me] += 1;
                    chosen.push(shard);
                }
            }
        }
        chosen
    }
}
