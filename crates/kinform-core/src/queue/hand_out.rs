//! A key while a worker has it: taken, and given back with a verdict.
//!
//! ```text
//! lane → take → Taken { key, Ticket } → (worker) → settle(Ticket, Verdict) → lane, wheel or nothing
//! ```
//!
//! A ticket names its slot and the number of its hand-out, so that one that is given back late, or twice, finds
//! nothing.

use std::hash::Hash;
use std::time::Duration;

use super::pace::Pace;
use super::slots::State;
use super::table::NONE;
use super::{Priority, Queue, Times, wheel};
use crate::time::Instant;

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

#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOut {
    pub(super) slot: u32,
    /// Nothing if nobody asks for how long.
    pub(super) since: Option<Instant>,
}

impl<K: Eq + Hash + Clone> Queue<K> {
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
