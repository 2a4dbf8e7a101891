//! Replicas around one server, a network between them, and what must hold.
//!
//! ```text
//! seed → events in order of true time → replicas, server → Violation │ quiet end
//! ```
//!
//! Time is true time in microseconds. Checked: no worker of a shard begins before the last one's
//! writes are over, in true time; queues close with their term; in the end each shard is worked on
//! by one member, all are within their bounds, and nothing moves.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::dice::Dice;
use crate::election::{Answer as LeaseAnswer, Input as LeaseInput};

use super::replica::{Replica, Reply, Request};
use super::server::Server;
use super::*;

pub(super) const SECOND: u64 = 1_000_000;
/// The distribution is reached by then. What follows takes up to half a minute: two members hand
/// over a dozen shards each, one at a time, and work ends within 1.5 s.
pub(super) const SCENE_AT: u64 = 25 * SECOND;

/// The events of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Faults of all kinds for a minute.
    Chaos,
    /// The same, and a person deletes leases of members.
    Hands,
    /// One crashes on a network without faults.
    Crash,
    /// One stops in order on such a network.
    Drain,
    /// One joins on such a network.
    Join,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Deliver,
    Rewatch,
    Wake,
    Reply(Reply),
    Synced(ShardId),
    Drained(u32, u32),
    TermEnded,
    Stop,
}

#[derive(Clone, Debug)]
pub(super) enum Happening {
    For(usize, u32, Event),
    Arrive(usize, u32, u64, Box<Request>),
    Restart(usize),
    Chaos,
    /// The one event of a scenario.
    Scene,
}

/// The worker of a shard, in truth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) by: Option<(usize, u32)>,
    /// Writes of workers that were killed take effect until then.
    pub(super) tail: u64,
    pub(super) ended_at: u64,
    pub(super) released_at: u64,
    pub(super) opened_at: u64,
    pub(super) gap: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) terms: u64,
    pub(super) losses: u64,
    pub(super) opens: u64,
    pub(super) shard_writes: u64,
    pub(super) moves: u64,
    pub(super) events: u64,
    /// The longest time without an owner, in microseconds.
    pub(super) longest: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64, u64, usize);

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) scenario: Scenario,
    pub(super) shards: Shards,
    pub(super) dice: Dice,
    pub(super) now: u64,
    pub(super) end: u64,
    pub(super) faults_until: u64,
    queue: BinaryHeap<Reverse<Due>>,
    happenings: Vec<Option<Happening>>,
    vacant: Vec<usize>,
    order: u64,
    pub(super) replicas: Vec<Replica>,
    pub(super) server: Server,
    pub(super) work: Vec<Work>,
    /// Names of renewals so far.
    pub(super) texts: u64,
    /// Shards whose leases a person deleted.
    pub(super) touched: BTreeSet<u32>,
    /// The time of the one event, the member that it is about, and the owners then.
    pub(super) scene: Option<u64>,
    pub(super) scene_member: Arc<str>,
    pub(super) before: Vec<Option<Holder>>,
    pub(super) tally: Tally,
    pub(super) violation: Option<String>,
}

impl World {
    /// Runs a seed to its end.
    pub(super) fn run(seed: u64, scenario: Scenario) -> Result<Tally, String> {
        let mut world = Self::new(seed, scenario);
        while let Some(Reverse(Due(at, _, index))) = world.queue.pop() {
            if at > world.end || world.violation.is_some() {
                break;
            }
            world.now = at;
            let happening = world.happenings[index].take();
            world.vacant.push(index);
            if let Some(happening) = happening {
                world.tally.events += 1;
                world.happen(happening);
            }
        }
        world.now = world.end;
        world.check_end();
        world.tally.shard_writes = world.server.shard_writes;
        match world.violation {
            Some(violation) => Err(format!("seed {seed}, {scenario:?}: {violation}")),
            None => Ok(world.tally),
        }
    }

    fn new(seed: u64, scenario: Scenario) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5a4d);
        let count = 3 + (dice.throw() * 6.0) as usize;
        let shards = [16, 16, 24, 32, 64][(dice.throw() * 5.0) as usize];
        let shards = Shards::by_uid(shards).unwrap();
        let is_weighted = dice.throw() < 0.2;
        let replicas: Vec<Replica> = (0..count)
            .map(|at| {
                let weight = match is_weighted {
                    true => [50, 100, 200][(dice.throw() * 3.0) as usize],
                    false => 100,
                };
                let name = Arc::from(format!("m{at}"));
                let mut replica = Replica::new(name, shards, seed * 16 + at as u64, weight);
                replica.rate = 1.0 + 0.03 * (2.0 * dice.throw() - 1.0);
                replica.start = (dice.throw() * 1e9) as u64;
                replica
            })
            .collect();
        let is_chaos = matches!(scenario, Scenario::Chaos | Scenario::Hands);
        let faults_until = if is_chaos { 45 * SECOND } else { 0 };
        let mut world = Self {
            seed,
            scenario,
            shards,
            dice,
            now: 0,
            end: if is_chaos {
                105 * SECOND
            } else {
                SCENE_AT + 45 * SECOND
            },
            faults_until,
            queue: BinaryHeap::new(),
            happenings: Vec::new(),
            vacant: Vec::new(),
            order: 0,
            server: Server::new(shards.count()),
            work: vec![Work::default(); shards.count() as usize],
            replicas,
            texts: 0,
            touched: BTreeSet::new(),
            scene: None,
            scene_member: Arc::from(""),
            before: Vec::new(),
            tally: Tally::default(),
            violation: None,
        };
        for at in 0..count {
            if scenario == Scenario::Join && at == 0 {
                world.replicas[at].is_dead = true;
                continue;
            }
            let after = world.between(0, 500);
            world.replicas[at].is_dead = true;
            world.push(after, Happening::Restart(at));
        }
        match is_chaos {
            true => world.push(5 * SECOND, Happening::Chaos),
            false => world.push(SCENE_AT, Happening::Scene),
        }
        world
    }

    pub(super) fn fail(&mut self, violation: String) {
        let now = self.now;
        self.violation
            .get_or_insert_with(|| format!("{violation}, at {now} us"));
    }

    pub(super) fn push(&mut self, after: u64, happening: Happening) {
        self.order += 1;
        let index = match self.vacant.pop() {
            Some(index) => {
                self.happenings[index] = Some(happening);
                index
            }
            None => {
                self.happenings.push(Some(happening));
                self.happenings.len() - 1
            }
        };
        self.queue
            .push(Reverse(Due(self.now + after, self.order, index)));
    }

    pub(super) fn push_for(&mut self, after: u64, at: usize, event: Event) {
        let life = self.replicas[at].life;
        self.push(after, Happening::For(at, life, event));
    }

    pub(super) fn is_likely(&mut self, percent: f64) -> bool {
        self.dice.throw() * 100.0 < percent
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.dice.throw() * end as f64) as usize
    }

    /// Microseconds between two numbers of milliseconds.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low * 1_000 + (self.dice.throw() * ((high - low) * 1_000) as f64) as u64
    }

    pub(super) fn has_faults(&self) -> bool {
        self.now < self.faults_until
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::For(at, life, event) => {
                let replica = &self.replicas[at];
                if replica.is_dead || replica.life != life {
                    return;
                }
                if replica.asleep_until > self.now {
                    let after = replica.asleep_until - self.now;
                    return self.push(after, Happening::For(at, life, event));
                }
                self.event(at, event);
            }
            Happening::Arrive(at, life, sent_at, request) => {
                self.arrive(at, life, sent_at, *request);
            }
            Happening::Restart(at) => self.restart(at),
            Happening::Chaos => self.chaos(),
            Happening::Scene => self.play(),
        }
    }

    fn event(&mut self, at: usize, event: Event) {
        match event {
            Event::Deliver => self.deliver(at),
            Event::Rewatch => {
                // A watch that comes back may be another server's, whose state is older.
                let back = self.below(20);
                self.replicas[at].cursor = self.replicas[at].cursor.saturating_sub(back);
                self.deliver(at);
            }
            Event::Wake => self.on_wake(at),
            Event::Reply(Reply::Elect(id, answer)) => {
                self.elect(at, LeaseInput::Answer { id, answer });
            }
            Event::Reply(Reply::Shards(input)) => self.feed(at, input),
            Event::Reply(Reply::LeaveAgain) => self.send(at, Request::Leave),
            Event::Synced(shard) => self.feed(at, Input::RangeSynced(shard)),
            Event::Drained(shard, epoch) => self.drained(at, shard, epoch),
            Event::TermEnded => self.term_ended(at),
            Event::Stop => {
                self.replicas[at].is_stopping = true;
                self.feed(at, Input::Stop);
            }
        }
    }

    /// Schedules the next delivery of a watch that is behind.
    pub(super) fn watch(&mut self, at: usize) {
        let replica = &self.replicas[at];
        let is_behind = replica.cursor < self.server.log.len();
        if !is_behind || replica.is_delivering || replica.is_dead {
            return;
        }
        self.replicas[at].is_delivering = true;
        let lag = if self.has_faults() && self.is_likely(10.0) {
            self.between(20, 1_500)
        } else {
            self.between(1, 20)
        };
        self.push_for(lag, at, Event::Deliver);
    }

    /// Sends a request, which may get lost on either way.
    pub(super) fn send(&mut self, at: usize, request: Request) {
        let is_cut = self.replicas[at].cut_until > self.now;
        let life = self.replicas[at].life;
        if is_cut || (self.has_faults() && self.is_likely(3.0)) {
            return self.unanswered(at, life, self.now, &request);
        }
        let delay = self.delay();
        let arrival = Happening::Arrive(at, life, self.now, Box::new(request));
        self.push(delay, arrival);
    }

    fn delay(&mut self) -> u64 {
        if !self.has_faults() {
            return self.between(1, 20);
        }
        match self.dice.throw() * 100.0 {
            ..1.0 => self.between(2_000, 12_000),
            1.0..6.0 => self.between(100, 4_000),
            _ => self.between(1, 50),
        }
    }

    /// The sender gives up after its timeout.
    fn unanswered(&mut self, at: usize, life: u32, sent_at: u64, request: &Request) {
        let reply = match request {
            Request::Write(Write { id, .. }) | Request::Bury(id, ..) => {
                let answer = Answer::Failed;
                Reply::Shards(Input::Answer { id: *id, answer })
            }
            Request::Leave => Reply::LeaveAgain,
            Request::Elect(..) | Request::ReadShard(_) | Request::ReadMember(..) => return,
        };
        let after = (sent_at + 2 * SECOND).saturating_sub(self.now);
        self.push(after, Happening::For(at, life, Event::Reply(reply)));
    }

    fn arrive(&mut self, at: usize, life: u32, sent_at: u64, request: Request) {
        let now = self.now;
        let before = self.server.log.len();
        let server = &mut self.server;
        let replica = &self.replicas[at];
        let reply = match &request {
            Request::Elect(id, action, text) => {
                let weight = replica.weight;
                let name = Arc::clone(&replica.name);
                let answer = server.elect(&name, action, text, weight, now);
                Reply::Elect(*id, answer)
            }
            Request::Write(write) => {
                let answer = server.write(write, now);
                let id = write.id;
                Reply::Shards(Input::Answer { id, answer })
            }
            Request::Bury(id, name, version) => {
                let (id, answer) = (*id, server.bury(name, *version, now));
                Reply::Shards(Input::Answer { id, answer })
            }
            Request::ReadShard(shard) => Reply::Shards(server.read(*shard)),
            Request::ReadMember(id, name) => {
                let lease = server.find(name).map(|stored| stored.member());
                let (id, name) = (*id, Arc::clone(name));
                Reply::Shards(Input::MemberRead { id, name, lease })
            }
            Request::Leave if replica.life == life => {
                let name = Arc::clone(&replica.name);
                server.leave(&name, now);
                self.tell(before);
                return;
            }
            Request::Leave => return,
        };
        if let (Request::Write(write), true) = (&request, self.server.log.len() > before) {
            self.stored(write);
        }
        self.tell(before);
        let is_cut = self.replicas[at].cut_until > self.now;
        let delay = self.delay();
        let is_late = self.now + delay > sent_at + 2 * SECOND;
        if is_cut || is_late || (self.has_faults() && self.is_likely(3.0)) {
            return self.unanswered(at, life, sent_at, &request);
        }
        let reply = match reply {
            Reply::Elect(id, _) if self.has_faults() && self.is_likely(2.0) => {
                let message = String::new();
                Reply::Elect(id, LeaseAnswer::Unanswered { message })
            }
            reply => reply,
        };
        self.push(delay, Happening::For(at, life, Event::Reply(reply)));
    }

    /// Tells watches of what was stored since.
    pub(super) fn tell(&mut self, before: usize) {
        if self.server.log.len() > before {
            for at in 0..self.replicas.len() {
                self.watch(at);
            }
        }
    }

    pub(super) fn kill(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        replica.is_dead = true;
        let tail = replica.tail();
        let until = self.now.min(replica.fence) + tail;
        let life = replica.life;
        for shard in std::mem::take(&mut replica.open).into_keys() {
            let work = &mut self.work[shard as usize];
            if work.by == Some((at, life)) {
                work.tail = work.tail.max(until);
                self.ended(shard, (at, life));
            }
        }
        if matches!(self.scenario, Scenario::Chaos | Scenario::Hands) {
            let after = self.between(0, 10_000);
            self.push(after, Happening::Restart(at));
        }
    }

    fn restart(&mut self, at: usize) {
        let seed = self.seed * 1_024 + self.order;
        let is_renamed = self.is_likely(50.0) && self.now > SECOND;
        let before = &self.replicas[at];
        let life = before.life + 1;
        let name = match is_renamed {
            true => Arc::from(format!("m{at}-{life}")),
            false => Arc::clone(&before.name),
        };
        let mut replica = Replica::new(name, self.shards, seed, before.weight);
        (replica.rate, replica.start) = (before.rate, before.start);
        replica.cut_until = before.cut_until;
        replica.life = life;
        self.replicas[at] = replica;
        self.boot(at);
    }
}
