//! The work queue: keys that wait for a worker, as a pure machine.
//!
//! ```text
//! add, add_after, add_rate_limited → Queue<K> → take → (worker) → settle
//! ```
//!
//! Each key has one entry, and what it does is one state of it (`slots.rs`): ready in a lane, delayed
//! in the wheel, handed out, or handed out and wanted again. So a key is never handed out twice at once,
//! waits at most once, and is handed out again if it was added while a worker had it. Of several times
//! asked for, the earliest wins: an add at once also takes the place of a delayed one, but never of the
//! key's wake-up time (`wake.rs`).
//! A lower lane gets every 16th turn, so none starves; in a lane, groups take turns, so none waits for all
//! keys of another (`fairness.rs`, `turns.rs`).
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

mod caused;
mod fairness;
mod hand_out;
mod lanes;
mod limiter;
#[cfg(test)]
mod model;
#[cfg(test)]
mod priorities;
mod slots;
mod stats;
mod turns;
#[cfg(test)]
mod upstream;
mod waiting;
mod wake;
mod wheel;

use std::hash::Hash;
use std::time::Duration;

use kinform_api::mutant;

pub use fairness::Fairness;
use hand_out::HandedOut;
pub use hand_out::{Next, Running, Taken, Ticket, Verdict};
use lanes::Lanes;
pub use limiter::Limiter;
use slots::{NO_TICK, Slots, State};
pub use stats::QueueStats;
pub use waiting::{Waiting, Waits};
use wheel::Wheel;

use crate::causes::Reasons;
use crate::time::Instant;

/// The lane that a key waits in. A key that waits already moves up, never down.
///
/// A higher lane is served first, but a lane that was passed over 15 times in a row is served then.
/// A key that is retried stays in its lane.
///
/// Upstream: the priority of controller-runtime's queue is any integer, from which
/// [`Priority::from`] makes a lane: one above 0 is high, 0 (the default there) normal, one below 0
/// (-100 for initial lists and resyncs) low. A lower one starves there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Behind everything else: the first list, resyncs.
    Low,
    /// Live changes.
    #[default]
    Normal,
    /// Before everything else.
    High,
}

impl From<i32> for Priority {
    /// The lane of an integer of controller-runtime's.
    fn from(priority: i32) -> Self {
        match priority {
            1.. => Self::High,
            0 => Self::Normal,
            _ => Self::Low,
        }
    }
}

/// The outcome of an add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The key waits now: for a worker, or for the one that has it to give it back.
    Queued,
    /// The key waits for its time, or its time was changed.
    Delayed,
    /// The key was to be handed out at that time or earlier anyway.
    Merged,
    /// The queue is shut down: nothing will happen.
    Refused,
}

/// Keys that wait for a worker.
#[derive(Debug)]
pub struct Queue<K> {
    slots: Slots<K>,
    lanes: Lanes<K>,
    wheel: Wheel,
    running: Vec<HandedOut>,
    limiter: Limiter,
    generation: u32,
    life: Life,
    // Only what is counted; the rest is filled in when asked.
    counts: QueueStats,
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
        Self {
            slots: Slots::new(),
            lanes: Lanes::new(),
            wheel: Wheel::new(),
            running: Vec::new(),
            limiter,
            generation: 0,
            life: Life::Open,
            counts: QueueStats::default(),
        }
    }

    /// The same, whose groups take turns. Keys that wait already stay in their groups.
    #[must_use]
    pub fn with_fairness(mut self, fairness: Fairness<K>) -> Self {
        self.be_fair(fairness);
        self
    }

    /// Lets groups take turns from now on, as [`with_fairness`](Self::with_fairness).
    pub fn be_fair(&mut self, fairness: Fairness<K>) {
        self.lanes.fairness = fairness;
    }

    /// Adds a key, to be handed out as soon as a worker is free.
    pub fn add(&mut self, key: K, priority: Priority, now: Instant) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.make_ready(at, priority, Reasons::ASKED, now)
    }

    /// Adds a key, to be handed out after `delay`. If it is to be handed out earlier, that stays.
    ///
    /// Upstream: `AddAfter`; there, a key that waits already is handed out a second time.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.counts.retries += 1;
        self.make_delayed(at, delay, Priority::Normal, Reasons::ASKED, now)
    }

    /// Like [`Queue::add_after`], but if the key is delayed, the new time counts even if it is later.
    /// A key that waits for a worker already keeps its place.
    pub fn replace_after(&mut self, key: K, delay: Duration, now: Instant) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.counts.retries += 1;
        self.drop_delay(at);
        self.make_delayed(at, delay, Priority::Normal, Reasons::ASKED, now)
    }

    /// Adds a key that failed, to be handed out when the limiter allows.
    ///
    /// Upstream: `AddRateLimited`.
    pub fn add_rate_limited(&mut self, key: K, now: Instant) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        let delay = self.count_failure(at, now);
        self.make_delayed(at, delay, Priority::Normal, Reasons::RETRIED, now)
    }

    /// Takes back a delayed add. True if there was one; a key that is ready stays so, and a wake-up time
    /// is kept.
    pub fn cancel(&mut self, key: &K) -> bool {
        let Some(at) = self.slots.find(key) else {
            return false;
        };
        // What waits for its wake-up time alone keeps its place.
        let cancelled = self.slots[at].delay_tick() != NO_TICK && self.drop_delay(at);
        if cancelled {
            self.slots[at].set_priority(Priority::Low);
            self.wait_for_wake(at);
        }
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

    /// Returns the number of times that a key failed since it was last forgotten, 65,535 at most.
    ///
    /// Upstream: `NumRequeues`.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.slots
            .find(key)
            .map_or(0, |at| u32::from(self.slots[at].failures))
    }

    /// Moves delayed keys that are due to where they wait for a worker. True if there were any.
    #[inline]
    pub fn advance(&mut self, now: Instant) -> bool {
        let mut moved = false;
        while let Some(at) = self.wheel.expire(&mut self.slots, now) {
            moved = true;
            let slot = &mut self.slots[at];
            slot.state = slot.state.out_of_wheel();
            // What is delayed has its priority; a wake-up time is normal.
            let reached = wheel::tick_reached(now);
            let mut reasons = Reasons::NONE;
            if slot.delay_tick() <= reached {
                reasons = slot.reasons();
            }
            let priority = if slot.wake <= reached {
                reasons = reasons | Reasons::WOKEN;
                Priority::Normal
            } else {
                Priority::Low
            };
            slot.set_reasons(Reasons::NONE);
            self.make_ready(at, priority, reasons, now);
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
            slot.state = slot.state.out_of_wheel();
            given_up.extend(self.give_up(at));
        }
        given_up
    }

    /// Like [`Queue::shut_down`], and what waits is given up and returned, too. Keys that workers have
    /// are not handed out again.
    pub fn close(&mut self, now: Instant) -> Vec<K> {
        let mut given_up = self.shut_down(now);
        self.life = Life::Closed;
        while let Some(at) = self.lanes.pop(&mut self.slots) {
            self.slots[at].state = State::Idle;
            given_up.extend(self.give_up(at));
        }
        for out in 0..self.running.len() {
            let at = self.running[out].slot;
            if self.slots[at].state == State::RunningAgain {
                self.slots[at].state = State::Running;
                given_up.extend(self.give_up(at));
            }
        }
        given_up
    }

    /// Removes what waits and what is delayed, with its failures, and takes adds as before. Returns the
    /// number of keys. A queue that is shut down stays so.
    pub fn clear(&mut self, now: Instant) -> usize {
        let life = self.life;
        let given_up = self.close(now);
        given_up.iter().for_each(|key| self.forget(key));
        // What is delayed was given up as at the end of time: later delays would begin there.
        self.wheel = Wheel::new();
        self.life = if life == Life::Open {
            Life::Open
        } else {
            Life::Closed
        };
        given_up.len()
    }

    /// The numbers at `now`.
    #[must_use]
    pub fn stats(&self, now: Instant) -> QueueStats {
        let ages = self.running.iter().map(|out| now.since(out.since));
        QueueStats {
            depth: self.lanes.len(),
            depth_high: self.lanes.len_of(Priority::High),
            depth_low: self.lanes.len_of(Priority::Low),
            delayed: self.wheel.len(),
            processing: self.running.len(),
            known: self.slots.len(),
            unfinished: ages.clone().fold(Duration::ZERO, Duration::saturating_add),
            longest_running: ages.max().unwrap_or_default(),
            ..self.counts.clone()
        }
    }

    /// The key of a slot that was taken out of its list: cloned only if something is still known of it.
    fn give_up(&mut self, at: u32) -> Option<K> {
        self.counts.refused += 1;
        self.slots[at].wake = NO_TICK;
        drop(self.slots.take_causes(at));
        let key = self.slots.take_if_unused(at);
        key.or_else(|| self.slots[at].key.clone())
    }

    fn refuse(&mut self) -> AddOutcome {
        self.counts.refused += 1;
        AddOutcome::Refused
    }

    fn make_ready(
        &mut self,
        at: u32,
        priority: Priority,
        reasons: Reasons,
        now: Instant,
    ) -> AddOutcome {
        let slot = &mut self.slots[at];
        let raised = priority.max(slot.priority());
        match slot.state {
            State::Ready => {
                slot.add_reasons(reasons);
                if raised > slot.priority() {
                    self.lanes.raise(&mut self.slots, at, raised);
                }
                self.counts.merged += 1;
                return AddOutcome::Merged;
            }
            State::RunningAgain => {
                slot.add_reasons(reasons);
                slot.set_priority(raised);
                self.counts.merged += 1;
                return AddOutcome::Merged;
            }
            State::Delayed | State::RunningDelayed => {
                // A delay that somebody asked for while a worker has the key stays a reason: it is
                // not asked for again.
                if slot.state == State::Delayed {
                    slot.set_reasons(Reasons::NONE);
                }
                self.drop_delay(at);
                if mutant!("Q1") {
                    self.slots[at].wake = NO_TICK;
                }
            }
            State::Idle | State::Running => slot.set_reasons(Reasons::NONE),
        }
        let slot = &mut self.slots[at];
        slot.set_added(now);
        slot.set_priority(raised);
        slot.add_reasons(reasons);
        if slot.state == State::Running {
            slot.state = State::RunningAgain;
        } else {
            slot.state = State::Ready;
            self.lanes.push(&mut self.slots, at);
        }
        self.counts.adds += 1;
        AddOutcome::Queued
    }

    fn make_delayed(
        &mut self,
        at: u32,
        delay: Duration,
        priority: Priority,
        reasons: Reasons,
        now: Instant,
    ) -> AddOutcome {
        let priority = if mutant!("Q5") {
            Priority::Normal
        } else {
            priority
        };
        if delay.is_zero() {
            return self.make_ready(at, priority, reasons, now);
        }
        let due = wheel::tick_not_before(now + delay);
        let slot = &mut self.slots[at];
        if !matches!(slot.state, State::Ready | State::RunningAgain) {
            slot.set_priority(priority.max(slot.priority()));
        } else {
            slot.add_reasons(reasons);
        }
        let delayed = match slot.state {
            State::Idle => State::Delayed,
            State::Running => State::RunningDelayed,
            state @ (State::Delayed | State::RunningDelayed) if due < slot.delay_tick() => {
                self.wheel.remove(&mut self.slots, at);
                state
            }
            _ => {
                self.counts.merged += 1;
                return AddOutcome::Merged;
            }
        };
        let slot = &mut self.slots[at];
        slot.state = delayed;
        slot.set_reasons(reasons);
        slot.set_delay_tick(due);
        self.wheel.insert(&mut self.slots, at);
        AddOutcome::Delayed
    }

    /// Takes a key out of the wheel, if it is there. True if it was delayed.
    fn drop_delay(&mut self, at: u32) -> bool {
        let state = match self.slots[at].state {
            State::Delayed => State::Idle,
            State::RunningDelayed => State::Running,
            _ => return false,
        };
        self.wheel.remove(&mut self.slots, at);
        let slot = &mut self.slots[at];
        slot.state = state;
        slot.delay_tick() != NO_TICK
    }

    fn count_failure(&mut self, at: u32, now: Instant) -> Duration {
        self.counts.retries += 1;
        let slot = &mut self.slots[at];
        let delay = self.limiter.delay(u32::from(slot.failures), now);
        slot.failures = slot.failures.saturating_add(1);
        delay
    }
}

impl<K> Queue<K> {
    /// Keys that are ready to be handed out; those delayed or handed out do not count.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Returns whether no key is ready to be handed out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.len() == 0
    }

    /// Returns whether adds are refused.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.life != Life::Open
    }

    /// Returns whether the queue is shut down and no key waits for a worker: a worker can go home.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.is_shut_down() && self.is_empty()
    }

    /// Returns whether the queue is shut down, no key waits and no worker has a key.
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
