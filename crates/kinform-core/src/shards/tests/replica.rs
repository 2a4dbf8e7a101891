//! A process in a simulation: its election, its machine, its informers and workers.
//!
//! ```text
//! Election ──terms──▶ Sharding ──orders──▶ informers (Synced), workers (Drained), requests
//! ```
//!
//! A process may pause for any time, and be killed. Its clock has a rate and a start of its own.
//! It carries out orders as the shell of the library does.

use std::collections::BTreeMap;

use crate::election::{
    Action, Answer as LeaseAnswer, EndReason, Input as LeaseInput, RequestId as LeaseId, Sighting,
    Step as LeaseStep,
};
use crate::election::{Election, LeaseOptions, OnStop};

use super::server::{Change, Stored};
use super::world::{Event, SCENE_AT, Scenario, World};
use super::*;

/// The timings of member leases: the default, with half of the renewals.
pub(super) fn lease_options() -> LeaseOptions {
    LeaseOptions {
        renew_deadline: Duration::from_secs(6),
        retry_period: Duration::from_secs(4),
        on_stop: OnStop::Release,
        ..LeaseOptions::default()
    }
}

/// A request under way.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Elect(LeaseId, Action, Arc<str>),
    Write(Write),
    Bury(RequestId, Arc<str>, u64),
    ReadShard(ShardId),
    ReadMember(RequestId, Arc<str>),
    Leave,
}

/// The answer to one.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Elect(LeaseId, LeaseAnswer),
    Shards(Input),
    /// The weight is not written yet.
    LeaveAgain,
}

#[derive(Debug)]
pub(super) struct Replica {
    pub(super) election: Election,
    pub(super) machine: Sharding,
    pub(super) name: Arc<str>,
    pub(super) life: u32,
    pub(super) is_dead: bool,
    pub(super) is_stopping: bool,
    pub(super) weight: u32,
    pub(super) rate: f64,
    pub(super) start: u64,
    pub(super) asleep_until: u64,
    pub(super) cut_until: u64,
    pub(super) unwatched_until: u64,
    /// The next change that its watch delivers.
    pub(super) cursor: usize,
    pub(super) is_delivering: bool,
    wake_at: u64,
    /// True time at which its guard refuses writes of the last term.
    pub(super) fence: u64,
    /// The message that the last term ended was handed in.
    has_heard: bool,
    /// Shards on which its workers are, and how often each was opened.
    pub(super) open: BTreeMap<u32, u32>,
    epoch: u32,
    /// The shard that it is draining for a hand-over.
    pub(super) handing: Option<u32>,
}

impl Replica {
    pub(super) fn new(name: Arc<str>, shards: Shards, seed: u64, weight: u32) -> Self {
        let identity = format!("{name}/{seed}");
        let options = ShardingOptions {
            weight,
            ..ShardingOptions::default()
        };
        Self {
            election: Election::new(identity, lease_options(), seed).unwrap(),
            machine: Sharding::new(Arc::clone(&name), shards, options),
            name,
            life: 0,
            is_dead: false,
            is_stopping: false,
            weight,
            rate: 1.0,
            start: 0,
            asleep_until: 0,
            cut_until: 0,
            unwatched_until: 0,
            cursor: 0,
            is_delivering: false,
            wake_at: u64::MAX,
            fence: 0,
            has_heard: true,
            open: BTreeMap::new(),
            epoch: 0,
            handing: None,
        }
    }

    pub(super) fn clock(&self, at: u64) -> Instant {
        let micros = self.start + (at as f64 * self.rate) as u64;
        Instant::from_start(Duration::from_micros(micros))
    }

    /// The true time at which its clock has reached an instant.
    pub(super) fn truth(&self, local: Instant) -> u64 {
        let micros = local.since_start().as_nanos() as f64 / 1e3 - self.start as f64;
        (micros / self.rate).ceil() as u64 + 1
    }

    /// The time in which a request of a term takes effect after the end of the term.
    pub(super) fn tail(&self) -> u64 {
        (lease_options().request_timeout.as_micros() as f64 / self.rate) as u64
    }
}

impl World {
    /// Starts a process: it lists, then watches.
    pub(super) fn boot(&mut self, at: usize) {
        let stale = if self.has_faults() && self.is_likely(20.0) {
            self.below(20)
        } else {
            0
        };
        let until = self.server.log.len().saturating_sub(stale);
        self.replicas[at].cursor = 0;
        self.deliver_until(at, until);
        self.feed(at, Input::Listed);
        self.elect(at, LeaseInput::Timer);
        self.watch(at);
    }

    /// Delivers all that its watch has by now.
    pub(super) fn deliver(&mut self, at: usize) {
        self.replicas[at].is_delivering = false;
        let replica = &self.replicas[at];
        if replica.unwatched_until > self.now || replica.cut_until > self.now {
            let until = replica.unwatched_until.max(replica.cut_until);
            self.replicas[at].is_delivering = true;
            let after = until + 1 - self.now;
            return self.push_for(after, at, Event::Rewatch);
        }
        self.deliver_until(at, self.server.log.len());
    }

    pub(super) fn deliver_until(&mut self, at: usize, end: usize) {
        while self.replicas[at].cursor < end && !self.replicas[at].is_dead {
            let cursor = self.replicas[at].cursor;
            self.replicas[at].cursor += 1;
            let change = self.server.log[cursor].1.clone();
            match change {
                Change::Member(stored) => self.see_member(at, &stored),
                Change::MemberGone(stored) => {
                    if stored.name == self.replicas[at].name {
                        let sighting = Sighting::Deleted(stored.lease());
                        self.elect(at, LeaseInput::Watched(sighting));
                    }
                    let name = Arc::clone(&stored.name);
                    let version = stored.version;
                    self.feed(at, Input::MemberGone { name, version });
                }
                Change::Shard(lease) => self.feed(at, Input::ShardSeen(lease)),
                Change::ShardGone(shard, version) => {
                    let version = Some(version);
                    self.feed(at, Input::ShardGone { shard, version });
                }
            }
        }
        self.watch(at);
    }

    fn see_member(&mut self, at: usize, stored: &Stored) {
        if stored.name == self.replicas[at].name {
            let sighting = Sighting::Present(stored.lease());
            self.elect(at, LeaseInput::Watched(sighting));
        }
        self.feed(at, Input::MemberSeen(stored.member()));
    }

    /// Hands an input to the election, and does what it asks for.
    pub(super) fn elect(&mut self, at: usize, input: LeaseInput) {
        let now = self.replicas[at].clock(self.now);
        self.replicas[at].election.handle(input, now);
        while let Some(step) = self.replicas[at].election.poll() {
            self.election_step(at, step);
        }
        self.set_wake(at);
    }

    fn election_step(&mut self, at: usize, step: LeaseStep) {
        match step {
            LeaseStep::Request(request) => {
                self.texts += 1;
                let text: Arc<str> = Arc::from(self.texts.to_string());
                let now = self.replicas[at].clock(self.now);
                let sent = LeaseInput::Sent {
                    id: request.id,
                    renew_time: text.to_string(),
                };
                self.replicas[at].election.handle(sent, now);
                let request = Request::Elect(request.id, request.action, text);
                self.send(at, request);
            }
            LeaseStep::TermBegan(term) => {
                self.tally.terms += 1;
                let replica = &mut self.replicas[at];
                replica.has_heard = false;
                replica.fence = replica.truth(term.ends_at);
                self.check_joined(at);
                let input = Input::TermBegan {
                    term: MemberTerm {
                        uid: Arc::from(term.uid),
                        transitions: term.transitions,
                    },
                    version: term.version.parsed().unwrap(),
                    ends_at: term.ends_at,
                };
                self.feed(at, input);
            }
            LeaseStep::TermExtended { ends_at } => {
                let replica = &mut self.replicas[at];
                replica.fence = replica.truth(ends_at);
                self.feed(at, Input::TermExtended { ends_at });
            }
            LeaseStep::TermEnded { reason, .. } => {
                let replica = &mut self.replicas[at];
                replica.fence = replica.fence.min(self.now);
                if !matches!(reason, EndReason::Released | EndReason::Stopped) {
                    self.tally.losses += 1;
                    // The message takes a while; the clock does not.
                    let after = self.between(0, 300);
                    self.push_for(after, at, Event::TermEnded);
                }
            }
            LeaseStep::Stopped => self.kill(at),
            LeaseStep::Close(_) | LeaseStep::LeaderChanged { .. } | LeaseStep::Report(_) => {}
        }
    }

    pub(super) fn term_ended(&mut self, at: usize) {
        self.feed(at, Input::TermEnded);
        self.replicas[at].has_heard = true;
        let open = self.machine_open(at);
        if open > 0 {
            self.fail(format!("{at} has {open} queues open after its term"));
        }
        self.join(at);
    }

    fn machine_open(&self, at: usize) -> usize {
        self.replicas[at].machine.open().count()
    }

    /// Tells the election once no work of a lost term runs.
    pub(super) fn join(&mut self, at: usize) {
        let replica = &self.replicas[at];
        if replica.has_heard && replica.open.is_empty() && replica.election.term().is_none() {
            self.elect(at, LeaseInput::Idle);
        }
    }

    /// Hands an input to the machine, and does what it asks for.
    pub(super) fn feed(&mut self, at: usize, input: Input) {
        if self.replicas[at].is_dead {
            return;
        }
        let now = self.replicas[at].clock(self.now);
        self.replicas[at].machine.handle(input, now);
        while let Some(step) = self.replicas[at].machine.poll() {
            self.step(at, step);
        }
        self.set_wake(at);
    }

    fn step(&mut self, at: usize, step: Step) {
        match step {
            Step::Extend(shard) => {
                let slow = match self.scenario {
                    Scenario::Join => 30.0,
                    _ => 5.0,
                };
                let after = if self.is_likely(slow) {
                    self.between(200, 2_500)
                } else {
                    self.between(1, 200)
                };
                self.push_for(after, at, Event::Synced(shard));
            }
            Step::Shrink(_) => {}
            Step::Open(shard) => self.open(at, shard.0),
            Step::Close { shard, reason } => self.close(at, shard.0, reason),
            Step::Write(write) => self.send(at, Request::Write(write)),
            Step::Bury {
                id,
                member,
                version,
            } => self.send(at, Request::Bury(id, member, version)),
            Step::ReadShard(shard) => self.send(at, Request::ReadShard(shard)),
            Step::ReadMember { id, name } => self.send(at, Request::ReadMember(id, name)),
            Step::Leave => self.send(at, Request::Leave),
            Step::Report(report) => self.fail(format!("{report:?}")),
            Step::Left => {
                self.elect(at, LeaseInput::Stop);
                if !self.replicas[at].is_dead {
                    self.elect(at, LeaseInput::Idle);
                }
            }
        }
    }

    fn close(&mut self, at: usize, shard: u32, reason: CloseReason) {
        let after = match reason {
            CloseReason::HandOver | CloseReason::Stop if self.is_scene() => self.between(0, 1_500),
            CloseReason::HandOver | CloseReason::Stop => self.between(0, 150),
            CloseReason::Lost => self.between(0, 200),
        };
        // A term may end in the moment in which a shard has drained.
        let Some(epoch) = self.replicas[at].open.get(&shard).copied() else {
            return;
        };
        if reason == CloseReason::HandOver {
            let replica = &mut self.replicas[at];
            if replica.handing.replace(shard).is_some() {
                self.fail(format!("{at} hands over two shards at a time"));
            }
        }
        self.push_for(after, at, Event::Drained(shard, epoch));
    }

    pub(super) fn drained(&mut self, at: usize, shard: u32, epoch: u32) {
        let replica = &mut self.replicas[at];
        if replica.open.get(&shard) != Some(&epoch) {
            return;
        }
        replica.handing.take_if(|handing| *handing == shard);
        replica.open.remove(&shard);
        let life = replica.life;
        self.ended(shard, (at, life));
        self.feed(at, Input::Drained(ShardId(shard)));
        self.join(at);
    }

    /// A worker has ended. Another one may be left: after a deletion by hand there are two for a while.
    pub(super) fn ended(&mut self, shard: u32, worker: (usize, u32)) {
        let work = &mut self.work[shard as usize];
        if work.by != Some(worker) {
            return;
        }
        let mut replicas = self.replicas.iter();
        let left = replicas.position(|other| !other.is_dead && other.open.contains_key(&shard));
        work.by = left.map(|at| (at, self.replicas[at].life));
        work.ended_at = self.now;
    }

    /// A worker begins: no other one may still write.
    fn open(&mut self, at: usize, shard: u32) {
        let life = self.replicas[at].life;
        let now = self.replicas[at].clock(self.now);
        if !self.replicas[at].machine.may_work(ShardId(shard), now) {
            self.fail(format!("{at} opens #{shard}, and may not work on it"));
        }
        let work = self.work[shard as usize];
        let others = work.by.filter(|by| *by != (at, life)).map(|(other, _)| {
            let other = &self.replicas[other];
            other.fence + other.tail()
        });
        let busy_until = others.unwrap_or(0).max(work.tail);
        // By hand, there may be two for the lag of a watch.
        if busy_until > self.now && !self.is_touched(shard) {
            self.fail(format!(
                "#{shard} is opened by {at}, and its last worker {:?} writes until {busy_until}",
                work.by
            ));
        }
        let gap = self.now.saturating_sub(work.ended_at);
        let work = &mut self.work[shard as usize];
        work.by = Some((at, life));
        // The longest one since the scene.
        let before = if work.opened_at > SCENE_AT {
            work.gap
        } else {
            0
        };
        work.opened_at = self.now;
        work.gap = gap.max(before);
        self.tally.opens += 1;
        let replica = &mut self.replicas[at];
        replica.epoch += 1;
        replica.open.insert(shard, replica.epoch);
    }

    fn check_joined(&mut self, at: usize) {
        if !self.replicas[at].open.is_empty() {
            let open = self.replicas[at].open.len();
            self.fail(format!(
                "{at} begins a term while {open} shards are worked on"
            ));
        }
    }

    pub(super) fn set_wake(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        if replica.is_dead {
            return;
        }
        let wakes = [replica.election.next_wake(), replica.machine.next_wake()];
        let Some(wake) = wakes.into_iter().flatten().min() else {
            return;
        };
        let wake = replica.truth(wake).max(self.now + 1);
        if wake < replica.wake_at && wake < self.end {
            replica.wake_at = wake;
            self.push_for(wake - self.now, at, Event::Wake);
        }
    }

    pub(super) fn on_wake(&mut self, at: usize) {
        if self.replicas[at].wake_at > self.now {
            return;
        }
        self.replicas[at].wake_at = u64::MAX;
        let now = self.replicas[at].clock(self.now);
        let is_due = |wake: Option<Instant>| wake.is_some_and(|wake| wake <= now);
        // Either thread may be the first.
        if self.is_likely(50.0) {
            if is_due(self.replicas[at].machine.next_wake()) {
                self.feed(at, Input::Timer);
            }
            if is_due(self.replicas[at].election.next_wake()) {
                self.elect(at, LeaseInput::Timer);
            }
        } else {
            if is_due(self.replicas[at].election.next_wake()) {
                self.elect(at, LeaseInput::Timer);
            }
            if is_due(self.replicas[at].machine.next_wake()) {
                self.feed(at, Input::Timer);
            }
        }
        self.set_wake(at);
    }
}
