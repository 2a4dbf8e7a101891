//! Sharding: the keys of a controller, divided among the replicas that are there.
//!
//! ```text
//! leases, answers, informers, workers + now → Sharding → orders to informers, queues, lease client
//! ```
//!
//! A pure machine for one replica, a *member*: it opens no connection, reads no clock and throws no
//! dice. The shell performs each [`Step`] in order and hands in [`Input`]s; when
//! [`Sharding::next_wake`] comes, it says [`Input::Timer`]. `now` comes from a clock that counts
//! while the machine is suspended. The member's own lease is held by an
//! [`Election`](crate::election::Election) without rivals, whose terms the shell passes on.
//!
//! A shard's lease names its owner and the owner's term, and is never renewed: it holds while the
//! term does. A shard passes on in two ways. From a member that lives: the next owner extends its
//! informers, claims, waits for the release, acquires. From a term that is dead: it is acquired at
//! once, while the informers are extended.
//!
//! INVARIANT: each write is at the version of the lease that was seen.
//! INVARIANT: a queue is open only while the lease names this member's running term, and the term
//! has not ended by the own clock.
//! INVARIANT: a lease is released only when no work of the shard runs, and a shard whose release
//! was written is not opened again in the same term.
//! INVARIANT: a shard of another member is acquired only once its term is dead; see `roster`.
//! BOUND: one write a shard, and one a member, at a time; members as `roster` has it.
//!
//! `split` is the division of keys, on the hashes, ranges and selectors of [`kinform_api::shards`];
//! `record` is what leases say, `roster` who lives, `rank` who has the first claim, `ledger` who has
//! what, `plan` who should have what, `flow` the way of one shard.
//!
//! Upstream counterpart: none; the division of keys is that of KEP-5866.

mod flow;
pub mod input;
mod ledger;
pub mod options;
mod plan;
mod rank;
pub mod record;
mod roster;
pub mod split;
pub mod step;
mod term;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use kinform_api::mutant;
pub use kinform_api::shards::{
    MAX_SELECTOR_BYTES, Ranges, SelectorError, SelectorErrorKind, ShardField, ShardRange, key_hash,
    parse, selector,
};

use crate::time::Instant;

pub use input::{Answer, Input};
pub use options::ShardingOptions;
pub use record::{Holder, MemberLease, MemberTerm, ShardLease, ShardRecord};
pub use roster::MAX_MEMBERS;
pub use split::{MAX_SHARDS, ShardId, Shards};
pub use step::{CloseReason, Purpose, Report, RequestId, Step, Write};

use ledger::{Extent, Ledger, Stage};
use roster::{NOBODY, Roster, Shift};

/// The owner's will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Leaving,
    Left,
}

/// The machine of one member.
///
/// # Complexity
/// A renewal of another member is O(log members). A change of the members, or a term that dies, is
/// O(shards); a plan with free shards is O(free shards * members).
#[derive(Debug)]
pub struct Sharding {
    shards: Shards,
    options: ShardingOptions,
    roster: Roster,
    ledger: Ledger,
    // BOUND: a few steps a shard and input; the shell polls after each.
    steps: VecDeque<Step>,
    phase: Phase,
    is_listed: bool,
    /// This member in the roster.
    me: u32,
    /// Its running term in the roster; nobody without one.
    mine: u32,
    /// The running term is over then, unless it is renewed.
    ends_at: Instant,
    next_id: u64,
    /// The least and the most shards of each member; without limit for one that takes no part.
    floors: Vec<u32>,
    ceilings: Vec<u32>,
    /// Something changed that the distribution depends on.
    is_dirty: bool,
    planned_at: Instant,
    /// A free shard goes to the next in order then.
    next_turn: Instant,
    /// The shard that is being handed over.
    handing: Option<u32>,
    wake: Instant,
}

impl Sharding {
    /// Makes the machine of a member without a term. `member` is the name of its lease.
    #[must_use]
    pub fn new(member: impl Into<Arc<str>>, shards: Shards, options: ShardingOptions) -> Self {
        let mut roster = Roster::new(options.lease_duration);
        let me = roster.member(&member.into()).unwrap_or(NOBODY);
        Self {
            ledger: Ledger::new(shards.count()),
            shards,
            options,
            roster,
            steps: VecDeque::new(),
            phase: Phase::Working,
            is_listed: false,
            me,
            mine: NOBODY,
            ends_at: Instant::ZERO,
            next_id: 0,
            floors: Vec::new(),
            ceilings: Vec::new(),
            is_dirty: false,
            planned_at: Instant::ZERO,
            next_turn: Instant::FAR_FUTURE,
            handing: None,
            wake: Instant::FAR_FUTURE,
        }
    }

    /// Takes what was observed at `now`.
    pub fn handle(&mut self, input: Input, now: Instant) {
        if self.phase == Phase::Left {
            return;
        }
        if !mutant!("H2") && self.mine != NOBODY && self.ends_at <= now {
            self.end_term(now);
        }
        match input {
            Input::Timer => {}
            Input::Listed => self.on_listed(now),
            Input::MemberSeen(lease) => self.on_member(lease, now),
            Input::MemberGone { name, version } => {
                let shift = self.roster.gone(&name, Some(version), now);
                self.shifted(shift, now);
            }
            Input::MemberRead { id, name, lease } => self.on_member_read(id, &name, lease, now),
            Input::ShardSeen(lease) => self.on_shard(&lease, now),
            Input::ShardGone { shard, version } => {
                if self.ledger.gone(shard.0, version) {
                    self.settle(shard.0, now);
                }
            }
            Input::Answer { id, answer } => self.on_answer(id, answer, now),
            Input::RangeSynced(shard) => self.on_synced(shard.0, now),
            Input::Drained(shard) => self.on_drained(shard.0, now),
            Input::TermBegan {
                term,
                version,
                ends_at,
            } => self.begin_term(term, version, ends_at, now),
            Input::TermExtended { ends_at } if self.mine != NOBODY => {
                self.ends_at = self.ends_at.max(ends_at);
            }
            Input::TermExtended { .. } => {}
            Input::TermEnded => self.end_term(now),
            Input::Stop => self.on_stop(now),
        }
        self.advance(now);
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// The time at which to say [`Input::Timer`]; ask again after each input. `None` after the end.
    pub fn next_wake(&self) -> Option<Instant> {
        (self.phase != Phase::Left).then_some(self.wake)
    }

    /// Returns whether work of this shard may begin, and its writes may be sent, at `now`. A guard
    /// asks it before each write: running work of a queue that was closed for a hand-over may still
    /// write, and no work after the end of the term.
    pub fn may_work(&self, shard: ShardId, now: Instant) -> bool {
        let slot = self.ledger.slots.get(shard.0 as usize);
        let is_open = slot.is_some_and(|slot| slot.is_open && slot.owner == self.mine);
        is_open && self.mine != NOBODY && now < self.ends_at
    }

    /// The shards whose queues are open.
    pub fn open(&self) -> impl Iterator<Item = ShardId> {
        let active = self.ledger.active.iter();
        active
            .filter(|shard| {
                let slot = self.ledger.slot(**shard);
                slot.is_open && slot.stage == Stage::Owned
            })
            .map(|shard| ShardId(*shard))
    }

    /// The hashes by which the informers are to be extended, as of the steps that were polled.
    #[must_use]
    pub fn ranges(&self) -> Ranges {
        let active = self.ledger.active.iter();
        active
            .filter(|shard| self.ledger.slot(**shard).extent != Extent::Without)
            .filter_map(|shard| self.shards.range(ShardId(*shard)))
            .collect()
    }

    /// The owner of a shard, as it was last observed, if its term may still live.
    #[must_use]
    pub fn owner(&self, shard: ShardId) -> Option<Holder> {
        let slot = self.ledger.slots.get(shard.0 as usize)?;
        let is_living = self.roster.living(slot.owner) != NOBODY;
        is_living.then(|| self.roster.holder(slot.owner))?
    }

    /// The least and the most shards that this member should have; `None` while it takes no part.
    #[must_use]
    pub fn quota(&self) -> Option<(u32, u32)> {
        let at = self.me as usize;
        let takes_part = self.mine != NOBODY && self.roster.takes_part(self.me);
        takes_part.then(|| Some((*self.floors.get(at)?, *self.ceilings.get(at)?)))?
    }

    /// Returns whether this member may take and give shards.
    fn acts(&self) -> bool {
        self.is_listed && self.mine != NOBODY && self.phase == Phase::Working
    }

    fn next_request(&mut self) -> RequestId {
        self.next_id += 1;
        RequestId(self.next_id - 1)
    }

    fn on_listed(&mut self, now: Instant) {
        self.is_listed = true;
        for since in self.ledger.free.values_mut() {
            *since = now;
        }
        self.recount(now);
    }

    fn on_member(&mut self, mut lease: MemberLease, now: Instant) {
        if self.roster.find(&lease.name) == Some(self.me) {
            lease.weight = self.weight();
        }
        let name = Arc::clone(&lease.name);
        match self.roster.see(lease, now) {
            Shift::Full => {
                let report = Report::TooManyMembers { name };
                self.steps.push_back(Step::Report(report));
            }
            shift => self.shifted(shift, now),
        }
    }

    fn on_member_read(
        &mut self,
        id: RequestId,
        name: &Arc<str>,
        lease: Option<MemberLease>,
        now: Instant,
    ) {
        match lease {
            Some(lease) => self.on_member(lease, now),
            None => {
                let shift = self.roster.gone(name, None, now);
                self.shifted(shift, now);
            }
        }
        if let Some(at) = self.roster.find(name) {
            self.roster.doom(at, id, now);
        }
    }

    fn weight(&self) -> u32 {
        match self.phase {
            Phase::Working => self.options.weight,
            Phase::Leaving | Phase::Left => 0,
        }
    }

    fn shifted(&mut self, shift: Shift, now: Instant) {
        if shift == Shift::Moved {
            self.recount(now);
        }
    }

    /// Counts all shards anew, after the life or the weight of a member changed.
    fn recount(&mut self, now: Instant) {
        self.find_quotas();
        for shard in 0..self.shards.count() {
            self.ledger.count(shard, self.me, &self.roster, now);
        }
        self.is_dirty = true;
        let active: Vec<u32> = self.ledger.active.iter().copied().collect();
        for shard in active {
            self.settle(shard, now);
        }
    }

    /// Does what is due.
    fn advance(&mut self, now: Instant) {
        if self.roster.expire(now) {
            self.recount(now);
        }
        if self.is_listed {
            let period = self.options.retry_period;
            for (id, name) in self.roster.due_reads(&mut self.next_id, period, now) {
                self.steps.push_back(Step::ReadMember { id, name });
            }
        }
        let mut wake = self.roster.next_wake().min(self.roster.next_expiry);
        if self.mine != NOBODY {
            wake = wake.min(self.ends_at).min(self.bury(now));
        }
        self.retry(now);
        self.hand_over(now);
        wake = wake.min(self.plan(now));
        self.finish();
        let retries = self.ledger.retries.values().min();
        self.wake = retries.map_or(wake, |at| wake.min(*at));
    }

    /// The end, once nothing is held and nothing is under way.
    fn finish(&mut self) {
        let is_idle = self.ledger.active.is_empty() && self.ledger.writes.is_empty();
        if self.phase == Phase::Leaving && is_idle {
            self.phase = Phase::Left;
            self.steps.push_back(Step::Left);
        }
    }
}
