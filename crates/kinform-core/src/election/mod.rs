//! Leader election: takes, renews, loses and releases one lease.
//!
//! ```text
//! Input (answers, watch, stop) + now → Election → Step (requests, terms, reports), next_wake
//! ```
//!
//! A pure machine: it opens no connection, reads no clock, throws no dice but its own. The shell
//! performs each [`Step`] in order, has at most one request open, and hands in [`Input`]s; when
//! [`Election::next_wake`] comes, it says [`Input::Timer`]. `now` comes from a clock that counts
//! while the machine is suspended.
//!
//! The protocol is upstream's, so that clients of client-go may compete for the same lease.
//!
//! INVARIANT: a term ends at the send time of its last stored write + lease duration - request
//! timeout - margin, and at once if another holder, another record or a deletion is observed.
//! INVARIANT: the lease of another holder is taken only a lease duration after its last change was
//! observed, at the version that was read.
//! INVARIANT: a lease is released, and another term begins, only while no work of a term runs. After
//! a term was lost its lease is not released while a dropped request of it may still take effect.
//! BOUND: requests: three an attempt; from attempt to attempt a retry period, for candidates with
//! jitter.
//!
//! `options` are the timings, `view` is what was observed, `flow` decides what follows an answer,
//! `coordinated` is the election whose holder another process chooses, `leave` is the way out.
//!
//! Upstream counterpart: `client-go:tools/leaderelection/leaderelection.go`.

mod coordinated;
mod flow;
pub mod input;
pub mod lease;
mod leave;
pub mod options;
pub mod step;
#[cfg(test)]
mod tests;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use kinform_api::{ResourceVersion, mutant};

use crate::backoff::Backoff;
use crate::dice::Dice;
use crate::time::Instant;

pub use input::{Answer, Input, Refusal, RefusalKind, RequestId, Sighting};
pub use lease::{AcquireTime, Lease, NewRecord, Record};
pub use options::{LeaseOptions, LeaseOptionsError, OnStop};
pub use step::{Action, EndReason, Report, Request, Step, Term, Verb};

use view::{Age, Change, View, Write};

/// BOUND: writes without an answer that are remembered. One that was forgotten and is found later
/// counts as another client's.
const MAX_WRITES: usize = 8;

/// The request under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    id: RequestId,
    verb: Verb,
    sent_at: Instant,
}

/// The owner's will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Standing,
    /// A stop was asked for, and work may still run.
    Stopping,
    /// The lease is released, until this time at most.
    Leaving {
        until: Instant,
    },
    Stopped,
}

/// A machine that stands for one lease.
///
/// # Complexity
/// Each input is O(1) besides copies of a record; memory is bounded by the steps not yet polled.
///
/// Upstream: `LeaderElector`, which leads once.
#[derive(Debug)]
pub struct Election {
    identity: String,
    options: LeaseOptions,
    dice: Dice,
    backoff: Backoff,
    // BOUND: a few steps an input; the shell polls after each.
    steps: VecDeque<Step>,
    phase: Phase,
    view: View,
    writes: Vec<Write>,
    open: Option<Open>,
    next_id: u64,
    term: Option<Term>,
    /// Work of a term may run.
    is_busy: bool,
    /// The next attempt begins at this time, unless a request is open.
    next_try: Instant,
    /// The attempt under way began at this time.
    tried_at: Instant,
    /// The attempt under way has read the lease a second time.
    has_reread: bool,
    /// Something may have happened that only a read can tell.
    is_in_doubt: bool,
    /// After a loss the lease is left alone until this time.
    rests_until: Instant,
    /// The last term was lost: a request of it may take effect after its work was joined.
    has_lost: bool,
    /// A coordinator names the holder.
    is_coordinated: bool,
    /// The holder that was last reported.
    leader: Option<String>,
}

impl Election {
    /// Makes an election that begins with the first input. `identity` is unique to this process;
    /// `seed` is all the chance there is: jitter.
    ///
    /// # Errors
    /// The identity is empty, or the options are not valid.
    ///
    /// Upstream: `NewLeaderElector`.
    pub fn new(
        identity: impl Into<String>,
        options: LeaseOptions,
        seed: u64,
    ) -> Result<Self, LeaseOptionsError> {
        options.validate()?;
        let identity = identity.into();
        if identity.is_empty() {
            return Err(LeaseOptionsError::EmptyIdentity);
        }
        Ok(Self {
            identity,
            dice: Dice::new(seed),
            backoff: Backoff::new(options.backoff()),
            options,
            steps: VecDeque::new(),
            phase: Phase::Standing,
            view: View::default(),
            writes: Vec::new(),
            open: None,
            next_id: 0,
            term: None,
            is_busy: false,
            next_try: Instant::ZERO,
            tried_at: Instant::ZERO,
            has_reread: false,
            is_in_doubt: false,
            rests_until: Instant::ZERO,
            has_lost: false,
            is_coordinated: false,
            leader: None,
        })
    }

    /// Leaves the choice of the holder to a coordinator: the lease is never created, and taken only
    /// while it names this process; see `coordinated`.
    ///
    /// Upstream: `LeaderElectionConfig.Coordinated`.
    #[must_use]
    pub fn coordinated(mut self) -> Self {
        self.is_coordinated = true;
        self
    }

    /// Takes what was observed at `now`.
    pub fn handle(&mut self, input: Input, now: Instant) {
        if self.phase == Phase::Stopped {
            return;
        }
        if !mutant!("L5") || input == Input::Timer {
            self.expire(now);
        }
        match input {
            Input::Sent { id, renew_time } => self.on_sent(id, renew_time, now),
            Input::Answer { id, answer } => self.on_answer(id, answer, now),
            Input::Watched(sighting) => self.on_watched(sighting, now),
            Input::Timer => {}
            Input::Stop => self.on_stop(now),
            Input::Idle => self.on_idle(now),
        }
        self.advance(now);
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// The time at which to say [`Input::Timer`]; ask again after each input. `None` after the end.
    pub fn next_wake(&self) -> Option<Instant> {
        if self.phase == Phase::Stopped {
            return None;
        }
        let open = self
            .open
            .map(|open| open.sent_at + self.options.request_timeout);
        let mut wake = open.unwrap_or(self.next_try);
        if let Some(term) = &self.term {
            wake = wake.min(term.ends_at);
        }
        if let Phase::Leaving { until } = self.phase {
            wake = wake.min(until);
        }
        Some(wake)
    }

    /// The running term. It is over at its `ends_at`, also before an input says so.
    pub fn term(&self) -> Option<&Term> {
        self.term.as_ref()
    }

    /// The lease as it was last observed, with the time of its last change.
    pub fn lease(&self) -> Option<(&Lease, Instant)> {
        self.view.lease().map(|lease| (lease, self.view.seen_at()))
    }

    /// The time since the running term should have ended; zero if none is overdue. More than a
    /// tolerance means that the owner no longer hands in inputs.
    ///
    /// Upstream: `LeaderElector.Check`.
    pub fn overdue(&self, now: Instant) -> Duration {
        let term = self.term.as_ref();
        term.map_or(Duration::ZERO, |term| now.since(term.ends_at))
    }

    /// Ends a term whose time is over, however late that is noticed.
    fn expire(&mut self, now: Instant) {
        if self.term.as_ref().is_some_and(|term| term.ends_at <= now) {
            self.lose(EndReason::Expired, now);
        }
    }

    fn on_sent(&mut self, id: RequestId, renew_time: String, now: Instant) {
        if let Some(open) = self.open.as_mut().filter(|open| open.id == id) {
            open.sent_at = now;
        }
        if let Some(write) = self.writes.iter_mut().find(|write| write.id == id) {
            write.sent_at = now;
            write.renew_time = renew_time;
        }
    }

    fn on_watched(&mut self, sighting: Sighting, now: Instant) {
        let (Sighting::Present(lease) | Sighting::Deleted(lease)) = &sighting;
        match self.view.age(&lease.version) {
            Age::Older | Age::Same => {}
            Age::Unknown => {
                self.is_in_doubt = true;
                self.next_try = self.next_try.min(now);
            }
            Age::Newer => match sighting {
                Sighting::Present(lease) => self.see(lease, None, now),
                Sighting::Deleted(lease) => self.on_deleted(lease, now),
            },
        }
    }

    fn on_deleted(&mut self, lease: Lease, now: Instant) {
        let version = lease.version.clone();
        // Its last record is waited out, also if this is the first that is heard of it.
        self.view
            .observe(lease, None, self.options.lease_duration, now);
        self.gone(Some(version), now);
    }

    /// Takes a lease that is newer than what is known.
    fn see(&mut self, lease: Lease, write: Option<Write>, now: Instant) {
        let write = write
            .or_else(|| self.written(&lease))
            .filter(|w| self.is_kept(w, &lease));
        let holder = lease.record.holder.clone();
        let default = self.options.lease_duration;
        let change = self.view.observe(lease, write.as_ref(), default, now);
        // A renewal at an older version cannot be stored any more; a create can, after a deletion.
        let open = self.open.map(|open| open.id);
        self.writes
            .retain(|w| Some(w.id) == open || w.verb == Verb::Take);
        if let Some(write) = &write {
            self.writes
                .retain(|w| Some(w.id) == open || w.id > write.id);
        }
        self.tell_leader();
        match change {
            Change::Same => {}
            Change::Ours(_) if self.is_another_term() => self.lose(EndReason::Deleted, now),
            Change::Ours(sent_at) => {
                let sent_at = if mutant!("L1") { now } else { sent_at };
                self.count(sent_at, write.is_some_and(|w| w.verb == Verb::Take), now);
            }
            Change::Released | Change::Foreign if self.term.is_some() => {
                let is_taken = !holder.is_empty() && holder != self.identity;
                let reason = if is_taken {
                    EndReason::Taken { holder }
                } else {
                    EndReason::Edited
                };
                if !(mutant!("L4") && is_taken) {
                    self.lose(reason, now);
                }
            }
            Change::Released | Change::Foreign => {}
        }
        self.yield_to_preferred(now);
        if change != Change::Same {
            self.hurry(now);
        }
    }

    /// Returns whether the lease is not that of the running term: it was deleted, and a create of ours
    /// that was still on its way made another one.
    fn is_another_term(&self) -> bool {
        let (Some(term), Some(lease)) = (&self.term, self.view.lease()) else {
            return false;
        };
        let is_same = lease.uid == term.uid && lease.record.transitions == term.transitions;
        !is_same && !mutant!("L19")
    }

    /// The write of ours that this lease is, by the text of its `renewTime`.
    fn written(&self, lease: &Lease) -> Option<Write> {
        let text = &lease.record.renew_time;
        let writes = self
            .writes
            .iter()
            .filter(|w| !text.is_empty() && w.renew_time == *text);
        writes.min_by_key(|write| write.sent_at).cloned()
    }

    /// Returns whether the server stored what the write said: admission may change a record.
    fn is_kept(&self, write: &Write, lease: &Lease) -> bool {
        let record = &lease.record;
        if write.verb == Verb::Release {
            return record.holder.is_empty();
        }
        let seconds = self.options.duration_seconds();
        record.holder == self.identity && record.duration_seconds >= seconds
    }

    /// The lease is gone.
    fn gone(&mut self, version: Option<ResourceVersion>, now: Instant) {
        self.view.remove(version);
        let open = self.open.map(|open| open.id);
        self.writes
            .retain(|w| Some(w.id) == open || w.verb == Verb::Take);
        self.tell_leader();
        if self.term.is_some() && !mutant!("L3") {
            self.lose(EndReason::Deleted, now);
        }
        self.hurry(now);
    }

    /// A write of ours is in the record: a term begins, or lasts longer. A late renewal of a lost
    /// term begins no other: the two would share their number.
    fn count(&mut self, sent_at: Instant, is_take: bool, now: Instant) {
        let ends_at = sent_at + self.options.term_length();
        let may_begin = is_take && self.may_begin(now) && ends_at > now;
        match (&mut self.term, self.view.lease()) {
            (Some(term), _) if ends_at > term.ends_at => {
                term.ends_at = ends_at;
                self.steps.push_back(Step::TermExtended { ends_at });
            }
            (None, Some(lease)) if may_begin => {
                let term = Term {
                    uid: lease.uid.clone(),
                    transitions: lease.record.transitions,
                    version: lease.version.clone(),
                    ends_at,
                };
                self.is_busy = true;
                self.has_lost = false;
                self.backoff.healthy(now);
                self.term = Some(term.clone());
                self.next_try = sent_at + self.options.retry_period;
                self.steps.push_back(Step::TermBegan(term));
            }
            _ => {}
        }
    }

    fn may_begin(&self, now: Instant) -> bool {
        self.phase == Phase::Standing && !self.is_busy && self.rests_until <= now
    }

    /// The term is over before its owner gave it up.
    fn lose(&mut self, reason: EndReason, now: Instant) {
        let Some(term) = self.term.take() else {
            return;
        };
        // A coordinator that changes its mind is no failure.
        let rest = match reason {
            EndReason::Preferred { .. } => Duration::ZERO,
            _ => self.backoff.failed(now, self.dice.throw()),
        };
        // The last request of this term is over before another term begins here.
        self.rests_until = now + rest.max(self.options.request_timeout + self.options.margin);
        self.has_lost = true;
        self.retry_later(now);
        self.steps.push_back(Step::TermEnded { term, reason });
    }

    fn tell_leader(&mut self) {
        if self.view.holder() != self.leader.as_deref() {
            self.leader = self.view.holder().map(str::to_owned);
            let identity = self.leader.clone();
            self.steps.push_back(Step::LeaderChanged { identity });
        }
    }
}
