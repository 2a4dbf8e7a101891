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

use super::slots::{NO_TICK, NONE, Slots, State};
use super::{Life, Priority, Queue, wheel};
use crate::causes::{Causes, Reasons};
use crate::time::Instant;

/// A key that was handed out, to be given back by [`Queue::settle`].
#[derive(Debug)]
pub struct Taken<K> {
    /// The key.
    pub key: K,
    /// The ticket that gives it back.
    pub ticket: Ticket,
    /// The lane that it waited in.
    pub priority: Priority,
    /// The number of its failures in a row.
    pub failures: u32,
    /// Time that it waited since it was added.
    pub waited: Duration,
    /// The reasons of the queue itself, such as a delay that is over.
    pub reasons: Reasons,
    /// The causes that its callers stated.
    pub causes: Option<Box<Causes>>,
}

/// One hand-out of one key. It can be used once and cannot be made.
#[derive(Debug)]
#[must_use = "a key that is not given back is never handed out again"]
pub struct Ticket {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The verdict with which a worker gives a key back. A wake-up time that the key had before stays, but for
/// [`Verdict::WakeAfter`] and [`Verdict::Gone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing more; failures are still remembered (`Done`).
    Done,
    /// It succeeded: its failures are forgotten (`Forget`, `Done`).
    Forget,
    /// It succeeded and wants to be handed out again after this time, with the same priority (`Forget`,
    /// `AddAfter`, `Done`).
    Again(Duration),
    /// It succeeded and is to be handed out after this time in any case, whatever is added until then
    /// (`Forget`, `Done`): this is its wake-up time from now on.
    WakeAfter(Duration),
    /// Its object is gone: failures and wake-up time are forgotten.
    Gone,
    /// It neither succeeded nor failed: it is handed out again after this time, and its failures are still
    /// remembered (`AddAfter`, `Done`).
    Later(Duration),
    /// It failed: again when the limiter allows, with the same priority (`AddRateLimited`, `Done`).
    Retry,
}

/// The next state of a key that was given back.
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
    /// Time since it was handed out.
    pub since: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HandedOut {
    pub(super) slot: u32,
    /// The lane that it waited in.
    pub(super) priority: Priority,
    pub(super) since: Instant,
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// Hands the next key out, if one is ready. It is not handed out again before it is settled.
    ///
    /// # Order guarantees
    /// The highest priority first, but see [`Priority`]; within it groups take turns ([`Fairness`]); within a
    /// group first in, first out; of delayed keys, the earliest due first.
    ///
    /// [`Fairness`]: super::Fairness
    ///
    /// # Panics
    /// If `Clone` of the key does: it is forgotten then, its failures too, and can be added again.
    ///
    /// Upstream: `Get`, which blocks.
    #[inline]
    pub fn take(&mut self, now: Instant) -> Option<Taken<K>> {
        self.advance(now);
        let at = self.lanes.pop(&mut self.slots)?;
        // It is in no list now, and must not stay known if its clone panics.
        let popped = Popped(&mut self.slots, at);
        let key = popped.0[at].key.clone();
        std::mem::forget(popped);
        let key = key.expect("a slot in a lane has a key");
        self.generation = self.generation.wrapping_add(1);
        let slot = &mut self.slots[at];
        debug_assert_eq!(slot.state, State::Ready, "what is in a lane is ready");
        let waited_nanos = now.nanos_since(slot.added());
        slot.state = State::Running;
        let (priority, mut reasons) = (slot.priority(), slot.reasons());
        slot.set_priority(Priority::Low);
        slot.generation = self.generation;
        if slot.wake != NO_TICK && slot.wake <= wheel::tick_reached(now) {
            slot.wake = NO_TICK;
            reasons = reasons | Reasons::WOKEN;
        }
        slot.place = self.running.len() as u32;
        let ticket = Ticket {
            slot: at,
            generation: self.generation,
        };
        let failures = u32::from(slot.failures);
        let causes = self.slots.take_causes(at);
        self.running.push(HandedOut {
            slot: at,
            priority,
            since: now,
        });
        self.counts
            .queue_latency
            .record_micros(waited_nanos / 1_000);
        Some(Taken {
            key,
            ticket,
            priority,
            failures,
            waited: Duration::from_nanos(waited_nanos),
            reasons,
            causes,
        })
    }

    /// Takes a key back from its worker. The ticket must be one of this queue.
    ///
    /// Upstream: `Done`, with `Forget`, `AddAfter` or `AddRateLimited` before it.
    #[inline]
    pub fn settle(&mut self, ticket: Ticket, verdict: Verdict, now: Instant) -> Next {
        let at = ticket.slot;
        let running = self.slots.get(at).is_some_and(|slot| {
            let handed_out = self.running.get(slot.place as usize);
            slot.generation == ticket.generation && handed_out.is_some_and(|out| out.slot == at)
        });
        if !running {
            return Next::Nothing;
        }
        let refused = self.judge(at, verdict, now);
        self.stop_running(at, now);
        let next = self.give_back(at, now);
        self.slots.release_if_unused(at);
        match next {
            State::Ready => Next::Ready,
            State::Delayed => Next::After(wheel::instant_of(self.slots[at].due_tick()).since(now)),
            _ if refused => Next::Refused,
            _ => Next::Nothing,
        }
    }

    /// The keys that workers have, the longest held first: what a drain waits for.
    #[must_use]
    pub fn running(&self, now: Instant) -> Vec<Running<K>> {
        let told = |out: &HandedOut| {
            let slot = &self.slots[out.slot];
            let running = Running {
                key: slot.key.clone()?,
                since: now.since(out.since),
            };
            // How many were handed out after it.
            Some((self.generation.wrapping_sub(slot.generation), running))
        };
        let mut running: Vec<_> = self.running.iter().filter_map(told).collect();
        running.sort_by_key(|(later, _)| std::cmp::Reverse(*later));
        running.into_iter().map(|(_, running)| running).collect()
    }

    /// Does what the verdict says while the key still counts as handed out. True if it was refused.
    #[inline]
    fn judge(&mut self, at: u32, verdict: Verdict, now: Instant) -> bool {
        let slot = &mut self.slots[at];
        match verdict {
            Verdict::Forget if slot.wake == NO_TICK => {
                slot.failures = 0;
                false
            }
            _ => self.judge_further(at, verdict, now),
        }
    }

    /// The same, for a key that is wanted again.
    #[inline(never)]
    fn judge_further(&mut self, at: u32, verdict: Verdict, now: Instant) -> bool {
        let slot = &mut self.slots[at];
        let (mut delay, mut reason) = (None, Reasons::RETRIED);
        match verdict {
            Verdict::Done => {}
            Verdict::Forget => slot.failures = 0,
            Verdict::WakeAfter(delay) => {
                slot.failures = 0;
                self.set_wake(at, wheel::tick_not_before(now + delay));
            }
            Verdict::Gone => {
                slot.failures = 0;
                self.set_wake(at, NO_TICK);
            }
            Verdict::Again(after) => {
                slot.failures = 0;
                self.counts.retries += 1;
                delay = Some(after);
                reason = Reasons::REQUEUED;
            }
            Verdict::Later(after) => {
                self.counts.retries += 1;
                delay = Some(after);
            }
            Verdict::Retry => delay = Some(self.count_failure(at, now)),
        }
        let slot = &mut self.slots[at];
        let is_wanted = delay.is_some() || slot.wake != NO_TICK;
        let refused = is_wanted && self.life != Life::Open && slot.state != State::RunningAgain;
        if refused {
            // Nobody will try it again, so nobody will forget it.
            (slot.failures, slot.wake) = (0, NO_TICK);
            self.refuse();
        } else if let Some(delay) = delay {
            let priority = self.running[self.slots[at].place as usize].priority;
            self.make_delayed(at, delay, priority, reason, now);
        }
        refused
    }

    fn stop_running(&mut self, at: u32, now: Instant) {
        let place = self.slots[at].place as usize;
        let out = self.running.swap_remove(place);
        if let Some(moved) = self.running.get(place) {
            self.slots[moved.slot].place = place as u32;
        }
        self.slots[at].place = NONE;
        let worked = now.nanos_since(out.since);
        self.counts.work_duration.record_micros(worked / 1_000);
    }

    /// Moves a key that no worker has any more to where it belongs.
    #[inline]
    fn give_back(&mut self, at: u32, now: Instant) -> State {
        if self.slots[at].wake != NO_TICK {
            self.wake_running(at, now);
        }
        let slot = &mut self.slots[at];
        slot.state = match slot.state {
            State::RunningAgain => State::Ready,
            State::RunningDelayed => State::Delayed,
            _ if slot.wake != NO_TICK => {
                slot.state = State::Idle;
                self.wait_for_wake(at);
                return State::Delayed;
            }
            _ => State::Idle,
        };
        let state = slot.state;
        if state == State::Ready {
            self.lanes.push(&mut self.slots, at);
        }
        state
    }
}

/// A slot that was taken out of its lane and is not handed out yet. Dropped (the clone of its key
/// panicked), it is forgotten: otherwise it would stay known and never be handed out.
struct Popped<'s, K: Eq + Hash>(&'s mut Slots<K>, u32);

impl<K: Eq + Hash> Drop for Popped<'_, K> {
    fn drop(&mut self) {
        let Self(slots, at) = self;
        let slot = &mut slots[*at];
        slot.state = State::Idle;
        (slot.failures, slot.wake) = (0, NO_TICK);
        drop(slots.take_causes(*at));
        slots.release_if_unused(*at);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use super::super::{AddOutcome, Limiter};
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    /// A key that panics when it is cloned, as long as somebody else holds what is in it.
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Key(Arc<str>);

    impl Clone for Key {
        fn clone(&self) -> Self {
            assert_eq!(Arc::strong_count(&self.0), 1, "it is held");
            Self(Arc::clone(&self.0))
        }
    }

    fn key(name: &str) -> Key {
        Key(name.into())
    }

    /// A key as it waits, and what makes its clone panic until it is dropped.
    fn held() -> (Key, Arc<str>) {
        let key = key("held");
        let hold = Arc::clone(&key.0);
        (key, hold)
    }

    fn panics<T>(what: impl FnOnce() -> T) -> bool {
        catch_unwind(AssertUnwindSafe(what)).is_err()
    }

    fn sizes(queue: &Queue<Key>) -> (usize, usize, usize, usize) {
        let stats = queue.stats(at(9));
        (stats.depth, stats.delayed, stats.processing, stats.known)
    }

    #[test]
    fn a_key_that_panics_while_it_is_handed_out_is_forgotten_and_can_be_added_again() {
        type Add = fn(&mut Queue<Key>, Key) -> AddOutcome;
        let adds: [Add; 3] = [
            |queue, key| queue.add(key, Priority::High, at(0)),
            |queue, key| queue.add_after(key, 4 * MS, at(0)),
            // It failed before.
            |queue, key| queue.add_rate_limited(key, at(0)),
        ];
        for add in adds {
            let mut queue = Queue::new(Limiter::exponential(5 * MS, 1_000 * MS));
            let (one, hold) = held();
            add(&mut queue, one);
            queue.add(key("after"), Priority::Low, at(9));
            assert!(panics(|| queue.take(at(9))));
            assert_eq!(sizes(&queue), (1, 0, 0, 1), "nothing is left of it");
            let other = queue.take(at(9)).expect("the other one is ready");
            assert_eq!(other.key, key("after"));
            drop(hold);
            assert_eq!(
                queue.add(key("held"), Priority::Normal, at(9)),
                AddOutcome::Queued
            );
            let again = queue.take(at(9)).expect("it was added again");
            assert_eq!((again.key, again.failures), (key("held"), 0));
            queue.settle(again.ticket, Verdict::Forget, at(9));
            queue.settle(other.ticket, Verdict::Forget, at(9));
            assert_eq!(sizes(&queue), (0, 0, 0, 0));
        }
    }

    #[test]
    fn what_is_given_up_is_not_cloned_if_nothing_more_is_known_of_it() {
        let mut queue = Queue::default();
        let mut holds = Vec::new();
        for name in ["ready", "delayed"] {
            let key = key(name);
            holds.push(Arc::clone(&key.0));
            match name {
                "ready" => queue.add(key, Priority::Normal, at(0)),
                _ => queue.add_after(key, 5 * MS, at(0)),
            };
        }
        let given_up = queue.close(at(0));
        assert_eq!(given_up, [key("delayed"), key("ready")]);
        assert_eq!(sizes(&queue), (0, 0, 0, 0));
    }

    #[test]
    fn a_key_that_panics_while_it_is_given_up_keeps_no_other_from_being_given_up() {
        let mut queue = Queue::new(Limiter::exponential(5 * MS, 1_000 * MS));
        let (one, _hold) = held();
        queue.add_rate_limited(one, at(0));
        queue.add_after(key("later"), 50 * MS, at(0));
        queue.add(key("ready"), Priority::Normal, at(0));
        assert!(panics(|| queue.close(at(0))));
        assert!(queue.is_shut_down());
        assert_eq!(queue.close(at(0)), [key("later"), key("ready")]);
        queue.forget(&key("held"));
        assert_eq!((sizes(&queue), queue.is_drained()), ((0, 0, 0, 0), true));
        assert_eq!(queue.stats(at(0)).refused, 3);
    }
}
