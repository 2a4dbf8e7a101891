//! Replicas, one store of a lease, and a network between them that loses, delays and reorders.
//!
//! ```text
//! seed → chaos (pauses, partitions, kills, hands) → World<E> → electors → Violation │ quiet end
//! ```
//!
//! Time is true time in microseconds; each replica has a clock of its own rate and start. An event
//! for a replica that is paused waits until it wakes. What is checked: at no instant lead two
//! replicas, no term begins while a request of an earlier term can take effect, and the writes of
//! `work` take effect in the order of their terms.

use std::collections::BTreeMap;

use crate::dice::Dice;

use super::*;

/// BOUND: an event of a watch that is not cut comes within this time.
pub(super) const MAX_LAG: u64 = 1_000_000;
const SECOND: u64 = 1_000_000;
/// Faults happen until then.
pub(super) const FAULTS_UNTIL: u64 = 150 * SECOND;
/// A leader must exist then: late requests (20 s), a lease (15 s), the rest after losses (33 s).
const END: u64 = FAULTS_UNTIL + 75 * SECOND;
pub(super) const REPLICAS: usize = 3;

/// An elector: ours, or upstream's.
pub(super) trait Elector {
    /// Makes one with this identity.
    fn make(identity: &str, seed: u64) -> Self;
    fn take(&mut self, input: Input, now: Instant);
    fn step(&mut self) -> Option<Step>;
    fn wake(&self) -> Option<Instant>;
    /// Returns whether its work may write at this time.
    fn leads(&self, now: Instant) -> bool;
    /// Returns whether a coordinator names the holder.
    const IS_COORDINATED: bool = false;
    /// Returns whether a paused one counts as leading, since a guard looks at the clock.
    const LEADS_ASLEEP: bool;
}

/// The things that people do to a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hands {
    Off,
    On,
}

/// The safeguards of the work's writes, and what they must bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Safety {
    /// Clocks differ by 3 %, and a write that was looked at is sent.
    Guard,
    /// Clocks differ by 20 %, and anything may happen between the look and the send.
    Fence,
}

#[derive(Debug)]
pub(super) enum Event {
    Work,
    Wake,
    Send(Request),
    Reply(RequestId, Answer),
    Watch(Sighting),
    Joined,
    Stop,
}

#[derive(Debug)]
pub(super) enum Happening {
    /// For a replica in this life.
    For(usize, u32, Event),
    /// A write of the work arrives.
    Write(work::Write),
    /// The server's own watch of the lease.
    Cache(Option<Lease>),
    Arrive(usize, u32, Action, RequestId, String),
    Restart(usize),
    Rewatch(usize),
    Chaos,
    /// The coordinator looks at the lease.
    Coordinate,
}

pub(super) struct Replica<E> {
    pub(super) elector: E,
    /// The holder in its leases.
    pub(super) identity: String,
    life: u32,
    pub(super) is_dead: bool,
    pub(super) rate: f64,
    start: u64,
    pub(super) asleep_until: u64,
    pub(super) cut_until: u64,
    pub(super) unwatched_until: u64,
    watch_due: u64,
    wake_at: u64,
    /// A request of its last term can take effect until then.
    tail: u64,
    /// The term that its work runs in.
    pub(super) term: Option<Term>,
    /// A guarded write of its work is over then.
    pub(super) busy_until: u64,
    /// Its work begins no other write.
    pub(super) is_stopping: bool,
}

impl<E> Replica<E> {
    pub(super) fn clock(&self, at: u64) -> Instant {
        Instant::from_start(Duration::from_micros(
            self.start + (at as f64 * self.rate) as u64,
        ))
    }

    /// The true time at which its clock has reached an instant.
    pub(super) fn truth(&self, local: Instant) -> u64 {
        let micros = local.since_start().as_nanos() as f64 / 1e3 - self.start as f64;
        (micros / self.rate).ceil() as u64 + 1
    }
}

/// The facts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) terms: u32,
    pub(super) losses: u32,
    pub(super) releases: u32,
    /// Writes of the work that took effect.
    pub(super) writes: u32,
    /// Writes of an older term that the fence refused.
    pub(super) refusals: u32,
}

pub(super) struct World<E> {
    seed: u64,
    pub(super) dice: Dice,
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), Happening>,
    order: u64,
    pub(super) replicas: Vec<Replica<E>>,
    pub(super) lease: Option<Lease>,
    pub(super) version: u64,
    pub(super) hands: Hands,
    pub(super) safety: Safety,
    pub(super) server: work::Server,
    pub(super) coordinator: coordinator::Coordinator,
    pub(super) touched_at: Option<u64>,
    pub(super) tally: Tally,
    pub(super) violation: Option<String>,
}

impl<E: Elector> World<E> {
    /// Runs a seed to its end.
    pub(super) fn run(seed: u64, hands: Hands, safety: Safety) -> Result<Tally, String> {
        let mut world = Self::new(seed, hands, safety);
        while let Some(((at, _), happening)) = world.queue.pop_first() {
            if at > world.now {
                world.check();
            }
            if at > END || world.violation.is_some() {
                break;
            }
            world.now = at;
            world.happen(happening);
        }
        world.now = world.now.max(END);
        if world.violation.is_none() && world.leaders().len() != 1 {
            world.violation = Some(format!("leaders at the end: {:?}", world.leaders()));
        }
        match world.violation {
            Some(violation) => Err(format!(
                "seed {seed}, hands {hands:?}, {safety:?}: {violation}"
            )),
            None => Ok(world.tally),
        }
    }

    fn new(seed: u64, hands: Hands, safety: Safety) -> Self {
        let mut dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        let spread = if safety == Safety::Guard { 0.03 } else { 0.2 };
        let replicas = (0..REPLICAS).map(|at| Replica {
            identity: format!("{at}.0"),
            elector: E::make(&format!("{at}.0"), seed + at as u64),
            life: 0,
            is_dead: false,
            rate: 1.0 + spread * (2.0 * dice.throw() - 1.0),
            start: (dice.throw() * 1e9) as u64,
            asleep_until: 0,
            cut_until: 0,
            unwatched_until: 0,
            watch_due: 0,
            wake_at: u64::MAX,
            tail: 0,
            term: None,
            busy_until: 0,
            is_stopping: false,
        });
        let replicas = replicas.collect();
        let mut world = Self {
            seed,
            dice,
            now: 0,
            queue: BTreeMap::new(),
            order: 0,
            replicas,
            lease: None,
            version: 0,
            hands,
            safety,
            server: work::Server::default(),
            coordinator: coordinator::Coordinator::default(),
            touched_at: None,
            tally: Tally::default(),
            violation: None,
        };
        for at in 0..REPLICAS {
            world.feed(at, Input::Timer);
            world.push_for(SECOND, at, Event::Work);
        }
        world.push(SECOND, Happening::Chaos);
        if E::IS_COORDINATED {
            world.push(SECOND, Happening::Coordinate);
        }
        world
    }

    pub(super) fn push(&mut self, after: u64, happening: Happening) {
        self.order += 1;
        self.queue.insert((self.now + after, self.order), happening);
    }

    pub(super) fn push_for(&mut self, after: u64, at: usize, event: Event) {
        let life = self.replicas[at].life;
        self.push(after, Happening::For(at, life, event));
    }

    pub(super) fn is_likely(&mut self, percent: f64) -> bool {
        self.dice.throw() * 100.0 < percent
    }

    /// Microseconds between two numbers of milliseconds.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low * 1_000 + (self.dice.throw() * ((high - low) * 1_000) as f64) as u64
    }

    pub(super) fn has_faults(&self) -> bool {
        self.now < FAULTS_UNTIL
    }

    fn leaders(&self) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        let leading = all.filter(|(_, replica)| {
            let is_awake = replica.asleep_until <= self.now;
            let counts = is_awake || (E::LEADS_ASLEEP && self.hands == Hands::Off);
            !replica.is_dead && counts && replica.elector.leads(replica.clock(self.now))
        });
        leading.map(|(at, _)| at).collect()
    }

    /// At this instant, all that happened in it being done.
    fn check(&mut self) {
        let is_exempt = self.safety == Safety::Fence
            || self.touched_at.is_some_and(|at| self.now <= at + MAX_LAG);
        let leaders = self.leaders();
        if leaders.len() > 1 && !is_exempt && self.violation.is_none() {
            self.violation = Some(format!("{leaders:?} lead at {} us", self.now));
        }
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
            Happening::Arrive(at, life, action, id, text) => {
                self.arrive(at, life, &action, id, &text)
            }
            Happening::Write(write) => self.written(&write),
            Happening::Cache(lease) => self.server.lease = lease,
            Happening::Restart(at) => self.restart(at),
            Happening::Rewatch(at) => {
                if let Some(lease) = self.lease.clone() {
                    self.push_for(0, at, Event::Watch(Sighting::Present(lease)));
                }
            }
            Happening::Chaos => self.chaos(),
            Happening::Coordinate => self.coordinate(),
        }
    }

    fn event(&mut self, at: usize, event: Event) {
        let input = match event {
            Event::Wake if self.replicas[at].wake_at > self.now => return,
            Event::Wake => {
                self.replicas[at].wake_at = u64::MAX;
                Input::Timer
            }
            Event::Send(request) => return self.send(at, request),
            Event::Work => return self.work(at),
            Event::Reply(id, answer) => Input::Answer { id, answer },
            Event::Watch(sighting) => Input::Watched(sighting),
            Event::Joined => Input::Idle,
            Event::Stop => {
                // Work that is joined in order has the answers of its writes.
                self.replicas[at].is_stopping = true;
                let busy = self.replicas[at].busy_until.saturating_sub(self.now);
                let drain = self.between(0, 2_000).max(busy);
                self.push_for(drain, at, Event::Joined);
                Input::Stop
            }
        };
        self.feed(at, input);
    }

    fn feed(&mut self, at: usize, input: Input) {
        let now = self.replicas[at].clock(self.now);
        self.replicas[at].elector.take(input, now);
        while let Some(step) = self.replicas[at].elector.step() {
            self.step(at, step);
        }
        let replica = &mut self.replicas[at];
        let Some(wake) = replica.elector.wake() else {
            return;
        };
        let wake = replica.truth(wake).max(self.now + 1);
        if wake < replica.wake_at && wake < END + SECOND {
            replica.wake_at = wake;
            self.push_for(wake - self.now, at, Event::Wake);
        }
    }

    fn step(&mut self, at: usize, step: Step) {
        match step {
            Step::Request(request) => {
                let after = if self.is_likely(5.0) {
                    self.between(0, 400)
                } else {
                    self.between(0, 2)
                };
                self.push_for(after, at, Event::Send(request));
            }
            Step::TermBegan(term) => {
                self.replicas[at].term = Some(term);
                self.tally.terms += 1;
                let now = self.now;
                let tails = self.replicas.iter().map(|replica| replica.tail);
                let tail = tails.max().unwrap_or(0);
                let is_sure = self.hands == Hands::Off && self.safety == Safety::Guard;
                if tail > now && E::LEADS_ASLEEP && is_sure {
                    self.violation =
                        Some(format!("{at} leads at {now} us, requests end at {tail} us"));
                }
            }
            Step::TermEnded { term, reason } => {
                self.replicas[at].term = None;
                if reason == EndReason::Released {
                    self.tally.releases += 1;
                } else {
                    self.tally.losses += 1;
                    // A coordinator that changes its mind ends a term early.
                    let now = self.replicas[at].clock(self.now);
                    let is_early = matches!(reason, EndReason::Preferred { .. });
                    self.leave_tail(at, if is_early { now } else { term.ends_at });
                    let join = self.between(0, 3_000);
                    self.push_for(join, at, Event::Joined);
                }
            }
            Step::Stopped => self.kill(at),
            Step::TermExtended { ends_at } => {
                if let Some(term) = &mut self.replicas[at].term {
                    term.ends_at = ends_at;
                }
            }
            Step::Close(_) | Step::LeaderChanged { .. } => {}
            Step::Report(_) => {}
        }
    }

    /// The last request of a term was sent at its end, and takes effect within its timeout.
    pub(super) fn leave_tail(&mut self, at: usize, ends_at: Instant) {
        let timeout = LeaseOptions::default().request_timeout;
        let replica = &mut self.replicas[at];
        let span = (timeout.as_micros() as f64 / replica.rate) as u64;
        replica.tail = replica.tail.max(replica.truth(ends_at) + span);
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.replicas[at].is_dead = true;
        self.replicas[at].term = None;
        let after = self.between(0, 10_000);
        self.push(after, Happening::Restart(at));
    }

    fn restart(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        replica.life += 1;
        replica.is_dead = false;
        replica.wake_at = u64::MAX;
        replica.is_stopping = false;
        replica.identity = format!("{at}.{}", replica.life);
        replica.elector = E::make(&replica.identity, self.seed + self.order);
        self.feed(at, Input::Timer);
        self.push_for(SECOND, at, Event::Work);
        self.push(0, Happening::Rewatch(at));
    }

    fn send(&mut self, at: usize, request: Request) {
        let Request { id, action } = request;
        let text = format!("{:?}", self.replicas[at].clock(self.now));
        self.coordinator.note(&text, self.now);
        self.feed(
            at,
            Input::Sent {
                id,
                renew_time: text.clone(),
            },
        );
        let is_cut = self.replicas[at].cut_until > self.now;
        if is_cut || (self.has_faults() && self.is_likely(3.0)) {
            return;
        }
        let delay = self.delay();
        let life = self.replicas[at].life;
        self.push(delay, Happening::Arrive(at, life, action, id, text));
    }

    pub(super) fn delay(&mut self) -> u64 {
        let kind = self.dice.throw() * 100.0;
        match kind {
            _ if !self.has_faults() => self.between(1, 50),
            ..1.0 => self.between(2_000, 20_000),
            1.0..8.0 => self.between(100, 5_000),
            _ => self.between(1, 50),
        }
    }

    fn arrive(&mut self, at: usize, life: u32, action: &Action, id: RequestId, text: &str) {
        let faults = self.has_faults();
        let answer = if faults && self.is_likely(1.0) {
            let (kind, message) = (RefusalKind::Throttled, "slow down".to_owned());
            Answer::Refused(Refusal { kind, message })
        } else {
            self.apply(action, text)
        };
        let is_cut = self.replicas[at].cut_until > self.now;
        if is_cut || (faults && self.is_likely(3.0)) {
            return;
        }
        let message = "reset".to_owned();
        let is_reset = faults && self.is_likely(2.0);
        let answer = if is_reset {
            Answer::Unanswered { message }
        } else {
            answer
        };
        let delay = self.delay();
        self.push(delay, Happening::For(at, life, Event::Reply(id, answer)));
    }

    /// The server: reads, or stores and tells all watches.
    fn apply(&mut self, action: &Action, text: &str) -> Answer {
        match (action, &self.lease) {
            (Action::Get, None) => Answer::Absent,
            (Action::Get, Some(lease)) => Answer::Found(lease.clone()),
            (Action::Create { .. }, Some(_)) => Answer::Conflict,
            (Action::Create { record }, None) => {
                let uid = format!("u{}", self.version);
                self.store(uid, stamp(record, text), String::new())
            }
            (Action::Update { .. } | Action::Release { .. }, None) => Answer::Absent,
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
                Some(lease),
            ) => {
                if *uid != lease.uid || *version != lease.version {
                    return Answer::Conflict;
                }
                let preferred = lease.preferred_holder.clone();
                self.store(uid.clone(), stamp(record, text), preferred)
            }
        }
    }

    /// The server's watch lags, too.
    fn tell_server(&mut self) {
        let lag = self.between(0, 1_000);
        self.server.due = self.server.due.max(self.now + lag);
        let lease = self.lease.clone();
        self.push(self.server.due - self.now, Happening::Cache(lease));
    }

    pub(super) fn store(&mut self, uid: String, record: Record, preferred: String) -> Answer {
        self.version += 1;
        let lease = Lease {
            uid,
            version: self.version.into(),
            record,
            preferred_holder: preferred,
        };
        self.lease = Some(lease.clone());
        self.tell(&Sighting::Present(lease.clone()));
        Answer::Stored(lease)
    }

    pub(super) fn tell(&mut self, sighting: &Sighting) {
        self.tell_server();
        for at in 0..REPLICAS {
            let is_slow = self.has_faults() && self.is_likely(10.0);
            let lag = if is_slow {
                self.between(20, 1_000)
            } else {
                self.between(0, 20)
            };
            let now = self.now;
            let replica = &mut self.replicas[at];
            replica.watch_due = replica.watch_due.max(now + lag);
            let after = replica.watch_due - now;
            if replica.unwatched_until <= now {
                self.push_for(after, at, Event::Watch(sighting.clone()));
            }
        }
    }
}
