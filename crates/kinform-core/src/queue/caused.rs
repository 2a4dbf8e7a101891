//! Keys with their causes: added, put back, and taken back where no cause counts any more.
//!
//! ```text
//! add_caused(key, cause) → the slot's record → take → Taken { causes, reasons } → (worker frees it)
//! ```
//!
//! A cause is stored with the add, so a key is never handed out between the two: each hand-out has a
//! cause or a reason of the queue.
//!
//! Upstream counterpart: none.

use std::hash::Hash;

use kinform_api::mutant;

use super::slots::State;
use super::{AddOutcome, Priority, Queue, Ticket};
use crate::causes::{Cause, Causes, Reasons};
use crate::time::Instant;

impl<K: Eq + Hash + Clone> Queue<K> {
    /// Adds a key as [`add`](Self::add) does, and states why. The cause gets the time.
    pub fn add_caused(
        &mut self,
        key: K,
        priority: Priority,
        cause: Cause,
        now: Instant,
    ) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        let outcome = self.make_ready(at, priority, Reasons::NONE, now);
        let enqueued = now;
        self.slots.add_cause(at, Cause { enqueued, ..cause });
        outcome
    }

    /// Adds a key that was handed out and not worked on, with the causes of that hand-out.
    pub fn add_back(
        &mut self,
        key: K,
        priority: Priority,
        causes: Box<Causes>,
        now: Instant,
    ) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        let outcome = self.make_ready(at, priority, Reasons::NONE, now);
        self.slots.add_earlier(at, causes);
        outcome
    }

    /// Takes back the adds of a key since it was handed out, if each of them stated a cause and
    /// `is_moot` holds for all. Returns whether there were some.
    pub fn retract(&mut self, ticket: &Ticket, is_moot: impl FnMut(&Cause) -> bool) -> bool {
        let at = ticket.slot;
        let Some(slot) = self.slots.get(at) else {
            return false;
        };
        let is_wanted = slot.generation == ticket.generation && slot.state == State::RunningAgain;
        let is_caused = is_wanted && (slot.reasons().is_empty() || mutant!("Q9"));
        let is_moot = is_caused
            && self
                .slots
                .causes(at)
                .is_some_and(|all| all.are_all(is_moot));
        if is_moot {
            drop(self.slots.take_causes(at));
            let slot = &mut self.slots[at];
            slot.state = State::Running;
            slot.set_priority(Priority::Low);
        }
        is_moot
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::{Taken, Verdict};
    use super::*;
    use crate::causes::Event;

    const MS: Duration = Duration::from_millis(1);
    const NORMAL: Priority = Priority::Normal;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn take(queue: &mut Queue<u8>, millis: u64) -> Taken<u8> {
        queue.take(at(millis)).expect("a key is ready")
    }

    /// The causes of a hand-out, those of the queue last.
    fn events(taken: &Taken<u8>) -> Vec<Event> {
        let stated = taken.causes.iter().flat_map(|causes| causes.iter());
        let stated = stated.map(|cause| cause.event);
        stated.chain(taken.reasons.events()).collect()
    }

    fn added(event: Event) -> Cause {
        Cause::of(event)
    }

    #[test]
    fn a_hand_out_has_the_causes_since_the_last_one() {
        let mut queue = Queue::default();
        queue.add_caused(1, NORMAL, added(Event::Initial), at(0));
        queue.add_caused(1, NORMAL, added(Event::Updated), at(5));
        let first = take(&mut queue, 7);
        assert_eq!(events(&first), [Event::Initial, Event::Updated]);
        let times = first.causes.iter().flat_map(|causes| causes.iter());
        let times: Vec<_> = times.map(|cause| cause.enqueued).collect();
        assert_eq!(times, [at(0), at(5)]);
        queue.add_caused(1, NORMAL, added(Event::Deleted), at(8));
        queue.settle(first.ticket, Verdict::Forget, at(9));
        let second = take(&mut queue, 9);
        assert_eq!(events(&second), [Event::Deleted]);
        queue.settle(second.ticket, Verdict::Forget, at(9));
        assert_eq!(queue.stats(at(9)).known, 0);
    }

    #[test]
    fn the_queue_states_its_own_reasons() {
        let hour = 3_600_000 * MS;
        for (verdict, expected) in [
            (Verdict::Again(5 * MS), vec![Event::Requeued]),
            (Verdict::Retry, vec![Event::Retried]),
            (Verdict::Later(5 * MS), vec![Event::Retried]),
            (Verdict::WakeAfter(5 * MS), vec![Event::Woken]),
        ] {
            let mut queue = Queue::default();
            queue.add(1, NORMAL, at(0));
            let first = take(&mut queue, 0);
            assert_eq!(events(&first), [Event::Asked]);
            queue.settle(first.ticket, verdict, at(0));
            let taken = take(&mut queue, 3_600_000);
            assert_eq!(events(&taken), expected, "{verdict:?}");
            queue.settle(taken.ticket, verdict, at(3_600_000));
            // An event before it takes its place, but never that of a wake-up time.
            queue.add_caused(1, NORMAL, added(Event::Updated), at(3_600_001));
            let taken = take(&mut queue, 3_600_001);
            assert_eq!(events(&taken), [Event::Updated], "{verdict:?}");
            queue.settle(taken.ticket, Verdict::Forget, at(3_600_001));
        }
        let mut queue = Queue::default();
        queue.add_after(1, hour, at(0));
        assert_eq!(events(&take(&mut queue, 3_600_000)), [Event::Asked]);
    }

    #[test]
    fn a_key_that_is_put_back_keeps_its_causes_before_later_ones() {
        let mut queue = Queue::default();
        queue.add_caused(1, NORMAL, added(Event::Initial), at(0));
        let taken = take(&mut queue, 0);
        queue.settle(taken.ticket, Verdict::Done, at(0));
        queue.add_caused(1, NORMAL, added(Event::Updated), at(1));
        queue.add_back(1, NORMAL, taken.causes.unwrap(), at(2));
        assert_eq!(
            events(&take(&mut queue, 2)),
            [Event::Initial, Event::Updated]
        );
    }

    #[test]
    fn q9_only_adds_whose_causes_are_all_moot_are_taken_back() {
        let is_moot = |cause: &Cause| cause.event == Event::Updated;
        let moot = |queue: &mut Queue<u8>| {
            queue.add_caused(1, NORMAL, added(Event::Updated), at(1));
        };
        type Add = fn(&mut Queue<u8>);
        let others: [(Add, bool); 5] = [
            (|_| {}, true),
            (|queue| _ = queue.add(1, NORMAL, at(1)), false),
            (|queue| _ = queue.add_after(1, MS, at(1)), false),
            (|queue| _ = queue.add_rate_limited(1, at(1)), false),
            (
                |queue| _ = queue.add_caused(1, NORMAL, added(Event::Deleted), at(1)),
                false,
            ),
        ];
        for (number, (other, expected)) in others.into_iter().enumerate() {
            for is_first in [true, false] {
                let mut queue = Queue::default();
                queue.add_caused(1, NORMAL, added(Event::Initial), at(0));
                let taken = take(&mut queue, 0);
                if is_first {
                    other(&mut queue);
                }
                moot(&mut queue);
                if !is_first {
                    other(&mut queue);
                }
                assert_eq!(
                    queue.retract(&taken.ticket, is_moot),
                    expected,
                    "{number} {is_first}"
                );
                assert!(!queue.retract(&taken.ticket, |_| false));
                queue.settle(taken.ticket, Verdict::Again(9 * MS), at(2));
                assert_eq!(
                    queue.take(at(2)).is_some(),
                    !expected,
                    "{number} {is_first}"
                );
                if expected {
                    // The delay that the reconcile asked for is untouched.
                    assert_eq!(events(&take(&mut queue, 11)), [Event::Requeued]);
                }
            }
        }
        let mut queue = Queue::default();
        moot(&mut queue);
        let taken = take(&mut queue, 1);
        queue.add_caused(2, NORMAL, added(Event::Updated), at(1));
        assert!(
            !queue.retract(&taken.ticket, |_| true),
            "there is no add since"
        );
    }

    proptest! {
        #[test]
        fn every_hand_out_has_a_cause_and_no_cause_is_left(
            steps in proptest::collection::vec((0u8..9, 0u8..4, 0u8..12), 1..200),
        ) {
            let mut queue: Queue<u8> = Queue::default();
            let (mut held, mut now): (Vec<Taken<u8>>, _) = (Vec::new(), 0);
            for (step, key, number) in steps {
                let delay = u32::from(number) * MS;
                match step {
                    0 => _ = queue.add(key, NORMAL, at(now)),
                    1 => _ = queue.add_after(key, delay, at(now)),
                    2 => _ = queue.add_rate_limited(key, at(now)),
                    3 => _ = queue.wake_after(key, delay, at(now)),
                    4 | 5 => _ = queue.add_caused(key, NORMAL, added(Event::Updated), at(now)),
                    6 => now += u64::from(number),
                    7 => if let Some(taken) = queue.take(at(now)) {
                        prop_assert!(!events(&taken).is_empty(), "key {}", taken.key);
                        held.push(taken);
                    }
                    _ => if let Some(taken) = held.pop() {
                        queue.retract(&taken.ticket, |_| number == 11);
                        let verdict = match number {
                            0 => Verdict::Done,
                            1 => Verdict::Retry,
                            2 => Verdict::Again(3 * MS),
                            3 => Verdict::WakeAfter(3 * MS),
                            4 => Verdict::Later(3 * MS),
                            5 => Verdict::Gone,
                            _ => Verdict::Forget,
                        };
                        queue.settle(taken.ticket, verdict, at(now));
                    }
                }
            }
            // Frees each slot; one that kept a cause would fail an assertion.
            queue.clear(at(now));
            held.into_iter().for_each(|taken| {
                queue.settle(taken.ticket, Verdict::Gone, at(now));
            });
            (0..4).for_each(|key| queue.forget(&key));
            prop_assert_eq!(queue.stats(at(now)).known, 0);
        }
    }
}
