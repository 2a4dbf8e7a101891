//! The work queue: keys that wait for a worker, as a pure machine.
//!
//! ```text
//! add, add_after, add_rate_limited → Queue<K> → take → (worker) → settle
//! ```
//!
//! Each key has one entry, and what it does is one state of it (`slots.rs`): ready in a lane, delayed
//! in the wheel, handed out, or handed out and wanted again. So a key is never handed out twice at once,
//! waits at most once, and is handed out again if it was added while a worker had it. Of several times
//! asked for, the earliest wins: an add at once also takes the place of a delayed one.
//! Lanes are first in, first out; a lower one gets every 16th turn, so none starves.
//! The machine never reads a clock, never blocks and never wakes anybody: `now` comes in, and
//! [`Queue::next_wake`] says when to ask again.
//!
//! BOUND: as many entries as there are distinct keys in flight; [`QueueStats::known`] is the gauge.
//!
//! Upstream counterpart: `client-go:util/workqueue` (`queue.go`, `delaying_queue.go`,
//! `rate_limiting_queue.go`). Differences: delayed keys are entries of the same queue, can be cancelled
//! and replaced; draining includes what is queued; adds after the shutdown say that they were refused.
//!
//! Complexity: every operation O(1) (amortised); stats O(keys handed out).

mod lanes;
mod limiter;
#[cfg(test)]
mod model;
mod pace;
mod slots;
mod stats;
mod table;
#[cfg(test)]
mod upstream;
mod wheel;

use std::hash::Hash;
use std::time::Duration;

use lanes::Lanes;
pub use limiter::Limiter;
use pace::Pace;
use slots::{Slots, State};
pub use stats::QueueStats;
use table::NONE;
use wheel::Wheel;

use crate::time::Instant;

/// Which lane a key waits in. A key that waits already moves up, never down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Behind everything else: the first list, resyncs.
    Low,
    /// What happens.
    #[default]
    Normal,
    /// Before everything else.
    High,
}

/// What became of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The key waits now: for a worker, or for the one that has it to give it back.
    Queued,
    /// The key waits for its time, or its time was changed.
    Delayed,
    /// The key was to be handed out at that time or earlier anyway.
    Merged,
    /// The queue is shut down: nothing will happen.
    Refused,
}

/// A key that was handed out, to be given back by [`Queue::settle`].
#[derive(Debug)]
pub struct Taken<K> {
    /// The key.
    pub key: K,
    /// What gives it back.
    pub ticket: Ticket,
    /// How often it failed in a row.
    pub failures: u32,
    /// How long it waited, if times are kept.
    pub waited_nanos: Option<u64>,
}

/// One hand-out of one key. It can be used once and cannot be made.
#[derive(Debug)]
#[must_use = "a key that is not given back is never handed out again"]
pub struct Ticket {
    slot: u32,
    generation: u32,
}

/// How a worker gives a key back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more; failures are still remembered (`Done`).
    Done,
    /// It succeeded: its failures are forgotten (`Forget`, `Done`).
    Forget,
    /// It succeeded and wants to be handed out again after this time (`Forget`, `AddAfter`, `Done`).
    Again(Duration),
    /// It failed: again when the limiter allows (`AddRateLimited`, `Done`).
    Retry,
}

/// What happens to a key that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing, until it is added.
    Nothing,
    /// It waits for a worker.
    Ready,
    /// It is due after this time.
    After(Duration),
    /// It should have been tried again, but the queue is shut down.
    Refused,
}

/// A key that a worker has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running<K> {
    /// The key.
    pub key: K,
    /// For how long, if times are kept.
    pub since: Option<Duration>,
}

/// Keys that wait for a worker.
#[derive(Debug)]
pub struct Queue<K> {
    slots: Slots<K>,
    lanes: Lanes,
    wheel: Wheel,
    running: Vec<HandedOut>,
    limiter: Limiter,
    generation: u32,
    times: Times,
    pace: Pace,
    life: Life,
    // Only what is counted; the rest is filled in when asked.
    counts: QueueStats,
}

#[derive(Clone, Copy, Debug)]
struct HandedOut {
    slot: u32,
    /// Nothing if nobody asks for how long.
    since: Option<Instant>,
}

/// Whether it is known of each key how long it waited and was worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Times {
    Kept,
    NotKept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    /// Nothing comes in; what waits is handed out.
    HandingOut,
    /// Nothing comes in, nothing is handed out.
    Closed,
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// An empty queue whose failed keys wait as `limiter` says.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self::of(limiter, Times::Kept)
    }

    /// The same, but nothing is known of how long keys waited and were worked on, so that who drives it need not read a
    /// clock for each of them. What `now` means then: [`add`](Self::add) does not look at it; [`settle`](Self::settle)
    /// and [`take`](Self::take) do if [`needs_time`](Self::needs_time) says so before both of them, else it may be
    /// [`Instant::ZERO`]; all others do.
    ///
    /// Upstream: a queue without a name, or without a provider of metrics.
    #[must_use]
    pub fn without_times(limiter: Limiter) -> Self {
        Self::of(limiter, Times::NotKept)
    }

    fn of(limiter: Limiter, times: Times) -> Self {
        Self {
            slots: Slots::new(),
            lanes: Lanes::new(),
            wheel: Wheel::new(),
            running: Vec::new(),
            limiter,
            generation: 0,
            times,
            pace: Pace::new(),
            life: Life::Open,
            counts: QueueStats::default(),
        }
    }

    /// Adds a key, to be handed out as soon as a worker is free.
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) -> Added {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.make_ready(at, priority, now)
    }

    /// Adds a key, to be handed out after `delay`. If it is to be handed out earlier, that stays.
    ///
    /// Upstream: `AddAfter`; there, a key that waits already is handed out a second time.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> Added {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.counts.retries += 1;
        self.make_delayed(at, delay, now)
    }

    /// Like [`Queue::add_after`], but if the key is delayed, the new time counts even if it is later.
    /// A key that waits for a worker already keeps its place.
    pub fn replace_after(&mut self, key: K, delay: Duration, now: Instant) -> Added {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.counts.retries += 1;
        self.drop_delay(at);
        self.make_delayed(at, delay, now)
    }

    /// Adds a key that failed, to be handed out when the limiter allows.
    ///
    /// Upstream: `AddRateLimited`.
    pub fn add_rate_limited(&mut self, key: K, now: Instant) -> Added {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        let delay = self.count_failure(at, now);
        self.make_delayed(at, delay, now)
    }

    /// Takes back a delayed add. True if there was one; a key that is ready stays so.
    pub fn cancel(&mut self, key: &K) -> bool {
        let Some(at) = self.slots.find(key) else {
            return false;
        };
        let cancelled = self.drop_delay(at);
        self.slots.release_if_unused(at);
        cancelled
    }

    /// Forgets a key's failures: its next delay is the first one again.
    pub fn forget(&mut self, key: &K) {
        if let Some(at) = self.slots.find(key) {
            self.slots[at].failures = 0;
            self.slots.release_if_unused(at);
        }
    }

    /// How often a key failed since it was last forgotten.
    ///
    /// Upstream: `NumRequeues`.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.slots.find(key).map_or(0, |at| self.slots[at].failures)
    }

    /// Hands the next key out, if one is ready. It is not handed out again before it is settled.
    ///
    /// # Order guarantees
    /// First in, first out within a priority; of delayed keys, the earliest due first.
    ///
    /// Upstream: `Get`, which blocks.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        self.advance(now);
        let at = self.lanes.pop(&mut self.slots)?;
        self.generation = self.generation.wrapping_add(1);
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.state, State::Ready, "what is in a lane is ready");
        let keeps_times = self.times == Times::Kept;
        let waited_nanos = keeps_times.then(|| now.nanos_since(slot.added()));
        slot.state = State::Running;
        slot.priority = Priority::Low;
        slot.generation = self.generation;
        slot.running_at = self.running.len() as u32;
        let ticket = Ticket {
            slot: at,
            generation: self.generation,
        };
        let key = slot.key.clone().expect("a slot in a lane has a key");
        let failures = slot.failures;
        let is_timed = keeps_times || Pace::samples(self.generation);
        self.running.push(HandedOut {
            slot: at,
            since: is_timed.then_some(now),
        });
        if let Some(waited) = waited_nanos {
            self.counts.queue_latency.record_micros(waited / 1_000);
        }
        Some(Taken {
            key,
            ticket,
            failures,
            waited_nanos,
        })
    }

    /// Takes a key back from its worker. The ticket must be one of this queue.
    ///
    /// Upstream: `Done`, with `Forget`, `AddAfter` or `AddRateLimited` before it.
    #[inline]
    pub fn settle(&mut self, ticket: Ticket, verdict: Verdict, now: Instant) -> Next {
        let at = ticket.slot;
        let running = self.slots.get(at).is_some_and(|slot| {
            let handed_out = self.running.get(slot.running_at as usize);
            slot.generation == ticket.generation && handed_out.is_some_and(|out| out.slot == at)
        });
        if !running {
            return Next::Nothing;
        }
        let refused = self.judge(at, verdict, now);
        self.stop_running(at, now);
        let next = self.give_back(at);
        self.slots.release_if_unused(at);
        match next {
            State::Ready => Next::Ready,
            State::Delayed => Next::After(wheel::instant_of(self.slots[at].due_tick()).since(now)),
            _ if refused => Next::Refused,
            _ => Next::Nothing,
        }
    }

    /// Whether `now` counts in [`settle`](Self::settle) of this, then [`take`](Self::take), in one turn: always
    /// where times are kept, while keys are delayed, or for a key that is wanted later; else, of one key in sixteen.
    #[must_use]
    #[inline]
    pub fn needs_time(&self, back: Option<(&Ticket, Verdict)>) -> bool {
        self.times == Times::Kept
            || self.wheel.len() > 0
            || Pace::samples(self.generation.wrapping_add(1))
            || back.is_some_and(|(ticket, verdict)| {
                Pace::samples(ticket.generation)
                    || matches!(verdict, Verdict::Again(_) | Verdict::Retry)
            })
    }

    /// Moves delayed keys that are due to where they wait for a worker. True if there were any.
    #[inline]
    pub fn advance(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(at) = self.wheel.expire(&mut self.slots, now) {
            moved = true;
            let slot = &mut self.slots[at];
            slot.state = match slot.state {
                State::RunningDelayed => State::Running,
                _ => State::Idle,
            };
            self.make_ready(at, Priority::Normal, now);
        }
        moved
    }

    /// When [`Queue::advance`] may have something to do: not later than the first delayed key is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Instant> {
        self.wheel.next_wake()
    }

    /// Refuses what comes from now on; what waits is still handed out. Delayed keys that are not due are
    /// given up and returned.
    ///
    /// Upstream: `ShutDown`, where delayed keys vanish.
    pub fn shut_down(&mut self, now: Instant) -> Vec<K> {
        self.advance(now);
        if self.life == Life::Open {
            self.life = Life::HandingOut;
        }
        let mut given_up = Vec::new();
        while let Some(at) = self.wheel.expire(&mut self.slots, Instant::FAR_FUTURE) {
            let slot = &mut self.slots[at];
            slot.state = match slot.state {
                State::RunningDelayed => State::Running,
                _ => State::Idle,
            };
            given_up.extend(slot.key.clone());
            self.slots.release_if_unused(at);
        }
        self.counts.refused += given_up.len() as u64;
        given_up
    }

    /// Like [`Queue::shut_down`], and what waits is given up and returned, too. Keys that workers have
    /// are not handed out again.
    pub fn close(&mut self, now: Instant) -> Vec<K> {
        let mut given_up = self.shut_down(now);
        let delayed = given_up.len();
        self.life = Life::Closed;
        while let Some(at) = self.lanes.pop(&mut self.slots) {
            let slot = &mut self.slots[at];
            slot.state = State::Idle;
            given_up.extend(slot.key.clone());
            self.slots.release_if_unused(at);
        }
        for out in 0..self.running.len() {
            let slot = &mut self.slots[self.running[out].slot];
            if slot.state == State::RunningAgain {
                slot.state = State::Running;
                given_up.extend(slot.key.clone());
            }
        }
        self.counts.refused += (given_up.len() - delayed) as u64;
        given_up
    }

    /// The keys that workers have, the longest held first: what a drain waits for.
    #[must_use]
    pub fn running(&self, now: Instant) -> Vec<Running<K>> {
        let keeps_times = self.times == Times::Kept;
        let told = |out: &HandedOut| {
            let slot = &self.slots[out.slot];
            let since = out.since.filter(|_| keeps_times);
            let running = Running {
                key: slot.key.clone()?,
                since: since.map(|since| now.since(since)),
            };
            // How many were handed out after it.
            Some((self.generation.wrapping_sub(slot.generation), running))
        };
        let mut running: Vec<_> = self.running.iter().filter_map(told).collect();
        running.sort_by_key(|(later, _)| std::cmp::Reverse(*later));
        running.into_iter().map(|(_, running)| running).collect()
    }

    /// The numbers at `now`.
    #[must_use]
    pub fn stats(&self, now: Instant) -> QueueStats {
        let timed = self.running.iter().filter_map(|out| out.since);
        let timed = timed.filter(|_| self.times == Times::Kept);
        let ages = timed.map(|since| now.since(since));
        QueueStats {
            depth: self.lanes.len(),
            delayed: self.wheel.len(),
            processing: self.running.len(),
            known: self.slots.len(),
            unfinished: ages.clone().fold(Duration::ZERO, Duration::saturating_add),
            longest_running: ages.max().unwrap_or_default(),
            ..self.counts.clone()
        }
    }

    fn refuse(&mut self) -> Added {
        self.counts.refused += 1;
        Added::Refused
    }

    fn make_ready(&mut self, at: u32, priority: Priority, now: Instant) -> Added {
        let slot = &mut self.slots[at];
        let raised = priority.max(slot.priority);
        match slot.state {
            State::Ready => {
                if raised > slot.priority {
                    self.lanes.raise(&mut self.slots, at, raised);
                }
                self.counts.merged += 1;
                return Added::Merged;
            }
            State::RunningAgain => {
                slot.priority = raised;
                self.counts.merged += 1;
                return Added::Merged;
            }
            State::Delayed | State::RunningDelayed => {
                self.drop_delay(at);
            }
            State::Idle | State::Running => {}
        }
        let slot = &mut self.slots[at];
        slot.set_added(now);
        slot.priority = raised;
        if slot.state == State::Running {
            slot.state = State::RunningAgain;
        } else {
            slot.state = State::Ready;
            self.lanes.push(&mut self.slots, at);
        }
        self.counts.adds += 1;
        Added::Queued
    }

    fn make_delayed(&mut self, at: u32, delay: Duration, now: Instant) -> Added {
        if delay.is_zero() {
            return self.make_ready(at, Priority::Normal, now);
        }
        let due = now + delay;
        let slot = &self.slots[at];
        let delayed = match slot.state {
            State::Idle => State::Delayed,
            State::Running => State::RunningDelayed,
            state @ (State::Delayed | State::RunningDelayed)
                if wheel::tick_not_before(due) < slot.due_tick() =>
            {
                self.wheel.remove(&mut self.slots, at);
                state
            }
            _ => {
                self.counts.merged += 1;
                return Added::Merged;
            }
        };
        self.slots[at].state = delayed;
        self.wheel.insert(&mut self.slots, at, due);
        Added::Delayed
    }

    /// Takes a key out of the wheel, if it is there.
    fn drop_delay(&mut self, at: u32) -> bool {
        let state = match self.slots[at].state {
            State::Delayed => State::Idle,
            State::RunningDelayed => State::Running,
            _ => return false,
        };
        self.wheel.remove(&mut self.slots, at);
        self.slots[at].state = state;
        true
    }

    fn count_failure(&mut self, at: u32, now: Instant) -> Duration {
        self.counts.retries += 1;
        let slot = &mut self.slots[at];
        let delay = self.limiter.delay(slot.failures, now);
        slot.failures = slot.failures.saturating_add(1);
        delay
    }

    /// Does what the verdict says while the key still counts as handed out. True if it was refused.
    fn judge(&mut self, at: u32, verdict: Verdict, now: Instant) -> bool {
        let delay = match verdict {
            Verdict::Done => return false,
            Verdict::Forget => {
                self.slots[at].failures = 0;
                return false;
            }
            Verdict::Again(delay) => {
                self.slots[at].failures = 0;
                self.counts.retries += 1;
                delay
            }
            Verdict::Retry => self.count_failure(at, now),
        };
        let refused = self.is_shut_down() && self.slots[at].state != State::RunningAgain;
        if refused {
            self.refuse();
            // Nobody will try it again, so nobody will forget it.
            self.slots[at].failures = 0;
        } else {
            self.make_delayed(at, delay, now);
        }
        refused
    }

    fn stop_running(&mut self, at: u32, now: Instant) {
        let place = self.slots[at].running_at as usize;
        let out = self.running.swap_remove(place);
        if let Some(moved) = self.running.get(place) {
            self.slots[moved.slot].running_at = place as u32;
        }
        self.slots[at].running_at = NONE;
        let Some(since) = out.since else { return };
        let worked = now.nanos_since(since);
        self.pace.worked(worked);
        if self.times == Times::Kept {
            self.counts.work_duration.record_micros(worked / 1_000);
        }
    }

    /// Moves a key that no worker has any more to where it belongs.
    fn give_back(&mut self, at: u32) -> State {
        let slot = &mut self.slots[at];
        slot.state = match slot.state {
            State::RunningAgain => State::Ready,
            State::RunningDelayed => State::Delayed,
            _ => State::Idle,
        };
        let state = slot.state;
        if state == State::Ready {
            self.lanes.push(&mut self.slots, at);
        }
        state
    }
}

impl<K> Queue<K> {
    /// How long workers had the last keys, about; never nothing. More than 100 µs counts as that, and so do
    /// all while nothing is known.
    #[must_use]
    pub fn usual_work(&self) -> Duration {
        self.pace.usual()
    }

    /// Keys that are ready to be handed out; those delayed or handed out do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether no key is ready to be handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.len() == 0
    }

    /// Whether adds are refused.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.life != Life::Open
    }

    /// Whether the queue is shut down and nothing waits for a worker: a worker can go home.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_shut_down() && self.is_empty()
    }

    /// Whether the queue is shut down, nothing waits and no worker has a key.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        (self.is_finished() || mutant!("B28")) && self.running.is_empty()
    }
}

impl<K: Eq + Hash + Clone> Default for Queue<K> {
    fn default() -> Self {
        Self::new(Limiter::default())
    }
}
