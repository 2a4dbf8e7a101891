//! The reflector: keeps asking a server for its state and its changes, and hands both on in order.
//!
//! ```text
//! Input (what the shell observed) + now → Reflector → Step (requests, deltas, reports), next_wake
//! ```
//!
//! A pure machine: it opens no connection, reads no clock, throws no dice but its own. The shell
//! performs each [`Step`] in order, reads at most one request, and tells what comes of it as
//! [`Input`]s; when [`Reflector::next_wake`] comes, it says [`Input::Timer`].
//!
//! INVARIANT: between `ListBegin` and `ListEnd` stands a whole list, or there is a `ListAbort`.
//! INVARIANT: the version to resume from moves only with what was handed on (`position`).
//! INVARIANT: until it is stopped, or nothing is wanted, it has a request open or a time to wake up at:
//! it never gives up.
//! BOUND: requests: what fails waits 0.8 s doubling to 30 s; what succeeds at once and ends at
//! once (`watch`) waits too, after the third time.
//!
//! `list` reads lists, streamed or in pages; `rejoin` goes on from a snapshot instead; `watch` follows
//! changes, and `silence` remembers watches that bring none; `select` changes what is asked for; `verdict`
//! is the error table, `recover` acts on it. `pager`, `position` hold what their names say.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector.go`.

pub mod config;
pub mod input;
pub mod limits;
mod list;
mod pager;
mod position;
mod recover;
mod rejoin;
pub mod report;
mod select;
mod silence;
#[cfg(test)]
mod tests;
mod verdict;
mod watch;

use std::collections::VecDeque;
use std::time::Duration;

use kinform_api::{ListOptions, ResourceVersion, WatchOptions, mutant};

use crate::backoff::Backoff;
use crate::delta::Delta;
use crate::dice::Dice;
use crate::stats::ReflectorStats;
use crate::time::Instant;

use config::ReflectorConfig;
use input::{Ending, Event, Failure, Input};
use list::ListCycle;
use pager::Pager;
use position::Position;
use recover::{InternalErrors, Next};
pub use rejoin::Resumption;
use rejoin::{Rejoin, Unconfirmed};
use report::{ReflectorEvent, RelistReason, State};
use silence::Silence;
use verdict::Ask;
use watch::StreamHabits;

/// One action for the shell; actions are carried out in order.
#[derive(Clone, Debug)]
pub enum Step {
    /// Make this request. None is open, but for a probe that is made beside a streaming list: that is
    /// not read until it is resumed.
    Request(Request),
    /// The probe has ended: read the streaming list on.
    Resume,
    /// Drop the request that is open, a streaming list beside it, and everything of them that is
    /// still unread.
    CloseRequest,
    /// Hand this to the fifo.
    Delta(Delta),
    /// Tell whom it may concern.
    Report(ReflectorEvent),
}

/// A request to send to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A list, or one page of it.
    List {
        /// Its parameters.
        options: ListOptions,
        /// The machine gives up by itself at this time, through `next_wake`.
        deadline: Instant,
    },
    /// A watch, or a streaming list.
    Watch {
        /// Its parameters.
        options: WatchOptions,
        /// The machine gives up by itself if it is not accepted at this time.
        deadline: Instant,
    },
    /// A list of one item, of which only its version matters, and whether there is an item.
    Probe {
        /// Its parameters.
        options: ListOptions,
        /// The machine gives up by itself at this time.
        deadline: Instant,
    },
}

/// The age of a watch that may have been resumed after an outage, while another cache was still away:
/// backoff lets a minute pass. A server that asks for longer pauses may make the news come too late.
const RESUMED: Duration = Duration::from_secs(120);
/// BOUND: the time in which one watch at most is given up for such news. A server behind the API server,
/// with versions of its own, may go back again and again.
const HEEDED: Duration = Duration::from_secs(600);

/// The reflector's current activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// A request was made.
    Opening(Ask),
    /// It was accepted.
    Reading(Ask),
    Waiting {
        until: Instant,
        next: Next,
    },
    Stopped,
}

/// The times of the request under way.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    asked_at: Instant,
    opened_at: Instant,
    heard_at: Instant,
    /// Its body has begun.
    has_bytes: bool,
}

/// BOUND: less patience than this would be a busy loop.
const MIN_PATIENCE: Duration = Duration::from_millis(50);

/// A machine that follows one resource of one server.
///
/// # Complexity
/// Each input is O(1) besides the copy of a version; memory is bounded by the steps not yet polled.
#[derive(Debug)]
pub struct Reflector {
    config: ReflectorConfig,
    dice: Dice,
    backoff: Backoff,
    // BOUND: a few steps an input; the shell polls after each.
    steps: VecDeque<Step>,
    phase: Phase,
    clock: Clock,
    /// When the server said something for the last time.
    heard_at: Option<Instant>,
    state: State,
    position: Position,
    pager: Pager,
    cycle: ListCycle,
    habits: StreamHabits,
    silence: Silence,
    rejoin: Option<Rejoin>,
    /// When a watch was last given up for what another cache said.
    heeded: Option<Instant>,
    unconfirmed: Unconfirmed,
    internal_errors: InternalErrors,
    has_synced: bool,
    stats: ReflectorStats,
}

impl Reflector {
    /// A reflector that does nothing yet. `seed` is all the chance there is: jitter and timeouts.
    pub fn new(mut config: ReflectorConfig, seed: u64) -> Self {
        config.silence_limit = config.silence_limit.max(MIN_PATIENCE);
        config.progress_limit = config.progress_limit.max(MIN_PATIENCE);
        config.first_byte_limit = config.first_byte_limit.max(MIN_PATIENCE);
        let cycle = ListCycle::new(config.streaming_list);
        let backoff = Backoff::new(config.backoff);
        Self {
            config,
            dice: Dice::new(seed),
            backoff,
            steps: VecDeque::new(),
            phase: Phase::Idle,
            clock: Clock::default(),
            heard_at: None,
            state: State::Pending,
            position: Position::default(),
            pager: Pager::default(),
            cycle,
            habits: StreamHabits::default(),
            silence: Silence::default(),
            rejoin: None,
            heeded: None,
            unconfirmed: Unconfirmed::default(),
            internal_errors: InternalErrors::default(),
            has_synced: false,
            stats: ReflectorStats::default(),
        }
    }

    /// Begins. Once: later calls do nothing.
    pub fn start(&mut self, now: Instant) {
        if self.phase == Phase::Idle {
            self.begin_cycle(now);
        }
    }

    /// Takes what was observed. What does not fit what was asked is ignored: it is left over from
    /// a request that was closed.
    pub fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Accepted => self.on_accepted(now),
            Input::Failed(failure) => self.on_failed(failure, now),
            Input::Bytes => self.on_bytes(now),
            Input::Item(item) => self.on_item(item, now),
            Input::PageEnd {
                version,
                continue_token,
                remaining,
            } => {
                let rest = match continue_token.is_empty() {
                    true => Some(0),
                    false => remaining,
                };
                match self.is_rejoining() {
                    true => self.on_rejoin_answered(&version, rest, now),
                    false => self.on_page_end(version, &continue_token, now),
                }
            }
            Input::Event(event) => self.on_event(event, now),
            Input::Ended(ending) => self.on_ended(ending, now),
            Input::Unblocked { blocked } => self.on_unblocked(blocked, now),
            Input::Timer => self.on_timer(now),
            Input::Relist => self.on_relist_wanted(RelistReason::Asked, now),
            Input::Diverged => {
                self.position.ask_consistent = true;
                self.on_relist_wanted(RelistReason::Diverged, now);
            }
            Input::ItemOutside => self.on_item_outside(now),
            Input::Extend { selector } => self.on_extended(selector, now),
            Input::Narrow { selector } => self.on_narrowed(selector),
            Input::Rest => self.on_rest(),
            Input::WentBackElsewhere { at } => self.on_went_back_elsewhere(at, now),
            Input::OverLimit => self.on_relist_wanted(RelistReason::OverLimit, now),
            Input::Stop => self.on_stop(),
        }
    }

    /// The next thing to do, in order.
    pub fn poll(&mut self) -> Option<Step> {
        self.steps.pop_front()
    }

    /// When to say [`Input::Timer`]; ask again after each input.
    pub fn next_wake(&self) -> Option<Instant> {
        let (clock, config) = (&self.clock, &self.config);
        match self.phase {
            Phase::Idle | Phase::Stopped => None,
            Phase::Waiting { until, .. } => Some(until),
            Phase::Opening(ask) => Some(self.opening_deadline(ask)),
            Phase::Reading(Ask::Page | Ask::NextPage | Ask::Probe | Ask::Confirm) => {
                Some(clock.asked_at + config.list_deadline)
            }
            Phase::Reading(Ask::Watch) if mutant!("B20") => None,
            Phase::Reading(Ask::Watch) => {
                let silent = clock.heard_at + config.silence_limit;
                Some(self.short_watch_end().map_or(silent, |end| end.min(silent)))
            }
            Phase::Reading(ask @ Ask::StreamingList) if !clock.has_bytes => {
                Some(self.opening_deadline(ask))
            }
            Phase::Reading(Ask::StreamingList) => {
                let end = clock.asked_at + config.initial_events_limit;
                Some(end.min(clock.heard_at + config.progress_limit))
            }
        }
    }

    /// Returns the current state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Returns whether a complete list has ever been handed on.
    pub const fn has_synced(&self) -> bool {
        self.has_synced
    }

    /// The version of what was handed on, if the server has versions.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.position.version()
    }

    /// When the server said something for the last time: it answered, or a complete event came.
    pub const fn heard_at(&self) -> Option<Instant> {
        self.heard_at
    }

    /// Returns the counts of its work so far.
    pub const fn stats(&self) -> &ReflectorStats {
        &self.stats
    }

    fn opening_deadline(&self, ask: Ask) -> Instant {
        let limit = match ask {
            Ask::StreamingList => self.config.progress_limit.min(self.config.first_byte_limit),
            Ask::Probe => self.config.progress_limit,
            // A selector that matches little costs a server as much as a list of everything.
            Ask::Confirm | Ask::Page | Ask::NextPage => self.config.list_deadline,
            // A proxy that sends no headers before the first event sends them with a bookmark.
            Ask::Watch => self.config.silence_limit,
        };
        self.clock.asked_at + limit
    }

    fn on_accepted(&mut self, now: Instant) {
        let Phase::Opening(ask) = self.phase else {
            return;
        };
        self.phase = Phase::Reading(ask);
        self.clock.opened_at = now;
        self.heard(now);
        match ask {
            Ask::StreamingList | Ask::Page => self.enter(State::Listing),
            Ask::Watch => self.on_watch_opened(now),
            Ask::NextPage | Ask::Probe | Ask::Confirm => {}
        }
    }

    fn on_bytes(&mut self, now: Instant) {
        match self.phase {
            Phase::Reading(Ask::Watch) if mutant!("K15") => self.heard(now),
            // Complete events count.
            Phase::Reading(Ask::StreamingList | Ask::Watch) => {
                self.clock.has_bytes = true;
            }
            Phase::Reading(Ask::Page | Ask::NextPage | Ask::Probe | Ask::Confirm) => {
                self.heard(now);
            }
            Phase::Idle | Phase::Opening(_) | Phase::Waiting { .. } | Phase::Stopped => {}
        }
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        if self.is_confirming_beside() {
            return self.confirm_alone(now);
        }
        let Phase::Reading(ask) = self.phase else {
            return;
        };
        self.heard(now);
        self.clock.has_bytes = true;
        match ask {
            Ask::StreamingList => {
                self.on_initial_event(event, now);
                self.check_size(now);
            }
            Ask::Watch => self.on_live_event(event, now),
            Ask::Page | Ask::NextPage | Ask::Probe | Ask::Confirm => {}
        }
    }

    fn on_ended(&mut self, ending: Ending, now: Instant) {
        if matches!(self.phase, Phase::Opening(_)) && self.is_confirming_beside() {
            return self.confirm_alone(now);
        }
        let Phase::Reading(ask) = self.phase else {
            return;
        };
        match ask {
            Ask::Watch => self.on_watch_ended(ending, now),
            Ask::StreamingList => self.on_streaming_list_ended(ending, now),
            Ask::Page | Ask::NextPage | Ask::Probe | Ask::Confirm => {
                self.on_page_cut(ask, ending, now);
            }
        }
    }

    fn on_timer(&mut self, now: Instant) {
        if self.next_wake().is_none_or(|wake| wake > now) {
            return;
        }
        match self.phase {
            Phase::Idle | Phase::Stopped => {}
            Phase::Waiting { next, .. } => self.go_on(next, now),
            Phase::Opening(_) => {
                self.close();
                self.on_failed(Failure::Deadline, now);
            }
            Phase::Reading(Ask::StreamingList) => self.on_streaming_list_late(now),
            Phase::Reading(Ask::Watch) => self.on_silence(now),
            Phase::Reading(ask) => {
                self.close();
                let message = "deadline exceeded".to_owned();
                self.on_page_cut(ask, Ending::Cut { message }, now);
            }
        }
    }

    fn on_unblocked(&mut self, blocked: Duration, now: Instant) {
        self.clock.asked_at = (self.clock.asked_at + blocked).min(now);
        self.clock.opened_at = (self.clock.opened_at + blocked).min(now);
        self.clock.heard_at = (self.clock.heard_at + blocked).min(now);
    }

    fn on_relist_wanted(&mut self, reason: RelistReason, now: Instant) {
        if matches!(
            self.phase,
            Phase::Opening(Ask::Watch | Ask::Probe) | Phase::Reading(Ask::Watch | Ask::Probe)
        ) {
            self.steps.push_back(Step::CloseRequest);
            self.relist_soon(reason, None, now);
        } else if let Phase::Waiting {
            next: next @ Next::Reopen,
            ..
        } = &mut self.phase
        {
            *next = Next::Cycle;
            self.cycle.reason = Some(reason);
        }
    }

    /// The version to go on from may be one of the history that is over, and the server may have reached
    /// it again: it would then go on from there as if nothing had happened. Only a list tells.
    fn on_went_back_elsewhere(&mut self, at: Instant, now: Instant) {
        let is_newer = self.cycle.began_at.is_some_and(|began| began >= at);
        let is_first = !self.has_synced && self.rejoin.is_none();
        if is_newer || is_first || self.is_rejoining() {
            return;
        }
        let is_due = self.heeded.is_none_or(|last| now.since(last) >= HEEDED);
        let is_recent = is_due && at.since(self.clock.opened_at) < RESUMED;
        let reason = RelistReason::WentBackElsewhere;
        match &mut self.phase {
            // A server that is restored ends its watches. One that is older than the outage goes on.
            Phase::Reading(Ask::Watch) if !is_recent => return,
            Phase::Idle | Phase::Stopped => return,
            Phase::Opening(Ask::Watch | Ask::Probe) | Phase::Reading(Ask::Watch | Ask::Probe) => {
                self.heeded = Some(now);
                self.steps.push_back(Step::CloseRequest);
                self.position.ask_consistent = true;
                return self.relist_soon(reason, None, now);
            }
            Phase::Waiting {
                next: next @ Next::Reopen,
                ..
            } => *next = Next::Cycle,
            // It is listed already; what it brings is compared byte by byte.
            Phase::Waiting { .. } | Phase::Opening(_) | Phase::Reading(_) => {}
        }
        self.position.ask_consistent = true;
        if self.cycle.reason != Some(RelistReason::ServerWentBack) {
            self.cycle.reason = Some(reason);
        }
    }

    fn on_stop(&mut self) {
        if matches!(self.phase, Phase::Opening(_) | Phase::Reading(_)) {
            self.close();
        }
        self.abort_list();
        self.phase = Phase::Stopped;
        self.enter(State::Stopped);
    }

    /// Makes a request: nothing is open.
    fn ask(&mut self, ask: Ask, now: Instant, request: impl FnOnce(Instant) -> Request) {
        self.phase = Phase::Opening(ask);
        self.clock.asked_at = now;
        self.clock.has_bytes = false;
        self.stats.requests += 1;
        let deadline = self.opening_deadline(ask);
        self.steps.push_back(Step::Request(request(deadline)));
    }

    fn close(&mut self) {
        self.cycle.is_beside = false;
        self.steps.push_back(Step::CloseRequest);
    }

    fn heard(&mut self, now: Instant) {
        self.clock.heard_at = now;
        self.heard_at = Some(now);
    }

    fn hand_on(&mut self, delta: Delta) {
        self.steps.push_back(Step::Delta(delta));
    }

    fn report(&mut self, event: ReflectorEvent) {
        self.steps.push_back(Step::Report(event));
    }

    fn enter(&mut self, state: State) {
        if self.state != state {
            self.state = state.clone();
            self.report(ReflectorEvent::State(state));
        }
    }
}
