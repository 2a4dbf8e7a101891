//! The keys of a queue, listed for people.
//!
//! ```text
//! slots → those that wait or are delayed → the oldest few → Waiting { key, state, failures, causes }
//! ```
//!
//! It changes nothing: the order of hand-outs, delays and counters stay as they are.
//!
//! Complexity: a pass over the slots, and a clone of each listed key.
//! Upstream counterpart: none; a queue there tells its length only.

use std::cmp::Reverse;
use std::hash::Hash;
use std::time::Duration;

use super::slots::State;
use super::{Priority, Queue, wheel};
use crate::causes::{Causes, Reasons};
use crate::time::Instant;

/// A key that waits for a worker, or for its time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Waiting<K> {
    /// The key.
    pub key: K,
    /// The thing that it waits for.
    pub waits: Waits,
    /// The lane of its next hand-out.
    pub priority: Priority,
    /// The number of its failures in a row.
    pub failures: u32,
    /// The reasons of the queue itself.
    pub reasons: Reasons,
    /// The causes that callers stated.
    pub causes: Option<Causes>,
}

/// The thing that a key waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waits {
    /// A free worker, since this time.
    Worker(Duration),
    /// The worker that has it: it was added again this time ago.
    Itself(Duration),
    /// Its time, which comes after this.
    Time(Duration),
}

impl Waits {
    /// The time since it could have been worked on; zero if that lies ahead.
    #[must_use]
    pub fn age(self) -> Duration {
        match self {
            Self::Worker(age) | Self::Itself(age) => age,
            Self::Time(_) => Duration::ZERO,
        }
    }
}

impl<K: Eq + Hash + Clone> Queue<K> {
    /// The keys that wait: first those that wait for a worker, the oldest first, then those that wait
    /// for their time, the earliest first. At most `limit`.
    #[must_use]
    pub fn waiting(&self, limit: usize, now: Instant) -> Vec<Waiting<K>> {
        let mut found: Vec<(bool, Reverse<Duration>, Duration, u32)> = Vec::new();
        for (at, slot) in self.slots.numbered() {
            let Some(waits) = self.waits(slot.state, at, now) else {
                continue;
            };
            let due = match waits {
                Waits::Time(due) => due,
                Waits::Worker(_) | Waits::Itself(_) => Duration::ZERO,
            };
            let is_delayed = matches!(waits, Waits::Time(_));
            found.push((is_delayed, Reverse(waits.age()), due, at));
        }
        if found.len() > limit {
            found.select_nth_unstable(limit);
            found.truncate(limit);
        }
        found.sort_unstable();
        let listed = found.into_iter();
        listed
            .filter_map(|(.., at)| self.waiting_at(at, now))
            .collect()
    }

    /// The same, of one key; `None` if it does not wait.
    #[must_use]
    pub fn waiting_for(&self, key: &K, now: Instant) -> Option<Waiting<K>> {
        self.waiting_at(self.slots.find(key)?, now)
    }

    fn waiting_at(&self, at: u32, now: Instant) -> Option<Waiting<K>> {
        let slot = self.slots.get(at)?;
        Some(Waiting {
            key: slot.key.clone()?,
            waits: self.waits(slot.state, at, now)?,
            priority: slot.priority(),
            failures: u32::from(slot.failures),
            reasons: slot.reasons(),
            causes: self.slots.causes(at).cloned(),
        })
    }

    fn waits(&self, state: State, at: u32, now: Instant) -> Option<Waits> {
        let slot = self.slots.get(at)?;
        slot.key.as_ref()?;
        let due = || wheel::instant_of(slot.due_tick()).since(now);
        Some(match state {
            State::Ready => Waits::Worker(now.since(slot.added())),
            State::RunningAgain => Waits::Itself(now.since(slot.added())),
            State::Delayed | State::RunningDelayed => Waits::Time(due()),
            State::Idle | State::Running => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::causes::{Cause, Event};

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn told(queue: &Queue<u8>, limit: usize, millis: u64) -> Vec<(u8, Waits)> {
        let waiting = queue.waiting(limit, at(millis));
        waiting.into_iter().map(|w| (w.key, w.waits)).collect()
    }

    #[test]
    fn the_oldest_keys_come_first_and_delayed_ones_last() {
        let ms = Duration::from_millis;
        let mut queue = Queue::<u8>::default();
        queue.add(1, Priority::Normal, at(0));
        let taken = queue.take(at(1)).expect("a key is ready");
        queue.add_after(4, ms(500), at(2));
        queue.add_after(5, ms(100), at(2));
        queue.add_caused(2, Priority::High, Cause::of(Event::Updated), at(3));
        queue.add(3, Priority::Low, at(2));
        queue.add(1, Priority::Normal, at(5));
        let all = [
            (3, Waits::Worker(ms(8))),
            (2, Waits::Worker(ms(7))),
            (1, Waits::Itself(ms(5))),
            (5, Waits::Time(ms(92))),
            (4, Waits::Time(ms(492))),
        ];
        assert_eq!(told(&queue, 10, 10), all);
        for limit in [0, 2, all.len()] {
            assert_eq!(told(&queue, limit, 10), all[..limit]);
        }
        let two = queue.waiting_for(&2, at(10)).expect("it waits");
        assert_eq!(two.causes.map(|causes| causes.total()), Some(1));
        assert_eq!((two.priority, two.failures), (Priority::High, 0));
        queue.settle(taken.ticket, Verdict::Retry, at(10));
        assert!(queue.waiting_for(&9, at(10)).is_none());
        let stats = queue.stats(at(10));
        assert_eq!(told(&queue, 10, 10).len(), stats.depth + stats.delayed);
    }
}
