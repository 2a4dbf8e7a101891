//! Upstream's algorithm, as it is: what the simulation must find fault with.
//!
//! ```text
//! acquire: get → create │ update      renew: update → get → update, until the deadline
//! ```
//!
//! It counts from answers, its client's timeout is half of the renew deadline, it does not watch,
//! and it goes on leading after it read another holder. Lease 15 s, deadline 10 s, period 2 s.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/leaderelection.go`, decision by decision.

use std::collections::VecDeque;

use crate::dice::Dice;

use super::network::Elector;
use super::*;

const LEASE: Duration = Duration::from_secs(15);
const DEADLINE: Duration = Duration::from_secs(10);
const PERIOD: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fast,
    Get,
    Put,
}

/// `LeaderElector`.
pub(super) struct Naive {
    identity: String,
    dice: Dice,
    steps: VecDeque<Step>,
    lease: Option<Lease>,
    observed: Record,
    observed_at: Instant,
    is_leader: bool,
    is_over: bool,
    round_began: Option<Instant>,
    tried_at: Instant,
    next_try: Instant,
    open: Option<(RequestId, Stage, Instant)>,
    next_id: u64,
}

impl Elector for Naive {
    const LEADS_ASLEEP: bool = false;

    fn make(identity: &str, seed: u64) -> Self {
        Self {
            identity: identity.to_owned(),
            dice: Dice::new(seed),
            steps: VecDeque::new(),
            lease: None,
            observed: Record::default(),
            observed_at: Instant::ZERO,
            is_leader: false,
            is_over: false,
            round_began: None,
            tried_at: Instant::ZERO,
            next_try: Instant::ZERO,
            open: None,
            next_id: 0,
        }
    }

    fn take(&mut self, input: Input, now: Instant) {
        if self.is_over {
            return;
        }
        if self
            .round_began
            .is_some_and(|began| began + DEADLINE <= now)
        {
            return self.end();
        }
        match input {
            Input::Answer { id, answer } if self.open.is_some_and(|(open, ..)| open == id) => {
                let stage = self.open.take().map(|(_, stage, _)| stage);
                self.answered(stage.expect("one is open"), answer, now);
            }
            Input::Stop => return self.end(),
            _ => {}
        }
        if let Some((_, stage, sent_at)) = self.open
            && sent_at + TIMEOUT <= now
        {
            self.open = None;
            let message = String::new();
            self.answered(stage, Answer::Unanswered { message }, now);
        }
        if self.open.is_none() && self.next_try <= now {
            self.attempt(now);
        }
    }

    fn step(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    fn wake(&self) -> Option<Instant> {
        let open = self.open.map(|(_, _, sent_at)| sent_at + TIMEOUT);
        let deadline = self.round_began.map(|began| began + DEADLINE);
        let wake = open.unwrap_or(self.next_try);
        (!self.is_over).then(|| wake.min(deadline.unwrap_or(wake)))
    }

    fn leads(&self, _now: Instant) -> bool {
        self.is_leader && !self.is_over
    }
}

impl Naive {
    fn attempt(&mut self, now: Instant) {
        self.tried_at = now;
        if self.is_leader {
            self.round_began.get_or_insert(now);
        }
        if self.observed.holder == self.identity && self.is_valid(now) {
            self.put(Stage::Fast, now);
        } else {
            self.ask(Stage::Get, Action::Get, now);
        }
    }

    fn is_valid(&self, now: Instant) -> bool {
        let seconds = self.observed.duration_seconds.unsigned_abs();
        self.observed_at + Duration::from_secs(seconds.into()) > now
    }

    fn ask(&mut self, stage: Stage, action: Action, now: Instant) {
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.open = Some((id, stage, now));
        self.steps.push_back(Step::Request(Request { id, action }));
    }

    fn put(&mut self, stage: Stage, now: Instant) {
        let is_mine = self.observed.holder == self.identity;
        let acquired = self.observed.acquire_time.clone();
        let record = NewRecord {
            holder: self.identity.clone(),
            duration_seconds: LEASE.as_secs() as i32,
            transitions: self.observed.transitions + i32::from(!is_mine),
            acquire_time: if is_mine {
                AcquireTime::Kept(acquired)
            } else {
                AcquireTime::Now
            },
        };
        let action = match self.lease.clone() {
            Some(Lease { uid, version, .. }) => Action::Update {
                uid,
                version,
                record,
            },
            None => Action::Create {
                record: NewRecord {
                    transitions: 0,
                    ..record
                },
            },
        };
        self.ask(stage, action, now);
    }

    fn answered(&mut self, stage: Stage, answer: Answer, now: Instant) {
        match (stage, answer) {
            (Stage::Get, Answer::Found(lease)) => {
                if self.observed != lease.record {
                    self.observed = lease.record.clone();
                    self.observed_at = now;
                }
                self.lease = Some(lease);
                let is_other = self.observed.holder != self.identity;
                let is_held = !self.observed.holder.is_empty();
                if is_other && is_held && self.is_valid(self.tried_at) {
                    self.failed(now);
                } else {
                    self.put(Stage::Put, now);
                }
            }
            (Stage::Get, Answer::Absent) => {
                self.lease = None;
                self.put(Stage::Put, now);
            }
            (_, Answer::Stored(lease)) => {
                self.observed = lease.record.clone();
                self.observed_at = now;
                self.succeeded(&lease, now);
                self.lease = Some(lease);
            }
            (Stage::Fast, _) => self.ask(Stage::Get, Action::Get, now),
            _ => self.failed(now),
        }
    }

    fn succeeded(&mut self, lease: &Lease, now: Instant) {
        self.round_began = None;
        self.next_try = now + PERIOD;
        if !self.is_leader {
            self.is_leader = true;
            self.next_try = now;
            self.steps.push_back(Step::TermBegan(Term {
                uid: lease.uid.clone(),
                transitions: lease.record.transitions,
                version: lease.version.clone(),
                ends_at: Instant::FAR_FUTURE,
            }));
        }
    }

    fn failed(&mut self, now: Instant) {
        self.next_try = if self.is_leader {
            (self.tried_at + PERIOD).max(now)
        } else {
            now + PERIOD.mul_f64(1.0 + 1.2 * self.dice.throw())
        };
    }

    /// The process exits.
    fn end(&mut self) {
        self.is_over = true;
        self.steps.push_back(Step::Stopped);
    }
}
