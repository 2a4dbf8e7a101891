//! Wake-up times: a key is handed out at its time, whatever happens to it before.
//!
//! ```text
//! WakeAfter, wake_after → slot.wake ──(ready, handed out: it waits in the slot)──▶ wheel → lane
//! ```
//!
//! A delay is replaced by an earlier add; a wake-up time is not. A key has at most one: a later one takes its
//! place, [`Verdict::Gone`](super::Verdict::Gone) and [`Queue::cancel_wake`] forget it, and a hand-out at or
//! after it is the one that was asked for. So a reconcile that wants to run at midnight says so once, and
//! events before midnight do not undo it.
//!
//! INVARIANT: a slot is in the wheel once, at the earlier of delay and wake-up time; a key that is ready or
//! handed out and not delayed is not in the wheel, and looks at its wake-up time when it is given back.
//!
//! Upstream counterpart: none; there, one entry a key has one time, and `RequeueAfter` is lost when an event
//! comes in between.

use std::hash::Hash;
use std::time::Duration;

use super::slots::{NO_TICK, State};
use super::{AddOutcome, Priority, Queue, wheel};
use crate::causes::Reasons;
use crate::time::Instant;

impl<K: Eq + Hash + Clone> Queue<K> {
    /// Sets a key's wake-up time: it is handed out after `delay`, and also earlier if it is added. It
    /// takes the place of the one that the key had.
    pub fn wake_after(&mut self, key: K, delay: Duration, now: Instant) -> AddOutcome {
        if self.is_shut_down() {
            return self.refuse();
        }
        let at = self.slots.intern(key);
        self.set_wake(at, wheel::tick_not_before(now + delay));
        AddOutcome::Delayed
    }

    /// Forgets a key's wake-up time. True if it had one.
    pub fn cancel_wake(&mut self, key: &K) -> bool {
        let Some(at) = self.slots.find(key) else {
            return false;
        };
        let had_one = self.slots[at].wake != NO_TICK;
        self.set_wake(at, NO_TICK);
        self.slots.release_if_unused(at);
        had_one
    }

    /// Sets or, with [`NO_TICK`], forgets the wake-up time, wherever the key is.
    #[cold]
    pub(super) fn set_wake(&mut self, at: u32, tick: u64) {
        let slot = &mut self.slots[at];
        if !matches!(slot.state, State::Delayed | State::RunningDelayed) {
            slot.wake = tick;
            return self.wait_for_wake(at);
        }
        let due = tick.min(slot.delay_tick());
        if due == slot.due_tick() {
            // It keeps its place among those of its tick.
            slot.wake = tick;
            return;
        }
        self.wheel.remove(&mut self.slots, at);
        let slot = &mut self.slots[at];
        slot.wake = tick;
        if due != NO_TICK {
            self.wheel.insert(&mut self.slots, at);
        } else {
            debug_assert_eq!(slot.state, State::Delayed, "a worker's key is delayed, too");
            slot.state = State::Idle;
        }
    }

    /// Lets an idle key wait for its wake-up time, if it has one.
    #[cold]
    pub(super) fn wait_for_wake(&mut self, at: u32) {
        let slot = &mut self.slots[at];
        if slot.state == State::Idle && slot.wake != NO_TICK {
            slot.state = State::Delayed;
            slot.set_delay_tick(NO_TICK);
            self.wheel.insert(&mut self.slots, at);
        }
    }

    /// Makes a key ready whose wake-up time passed while a worker had it.
    #[cold]
    pub(super) fn wake_running(&mut self, at: u32, now: Instant) {
        if self.slots[at].wake <= wheel::tick_reached(now) {
            self.make_ready(at, Priority::Normal, Reasons::WOKEN, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Next, Taken, Verdict};
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const HOUR: u64 = 3_600_000;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn take(queue: &mut Queue<&'static str>, millis: u64) -> Taken<&'static str> {
        queue.take(at(millis)).expect("a key is ready")
    }

    fn run(queue: &mut Queue<&'static str>, millis: u64, verdict: Verdict) -> Next {
        let taken = take(queue, millis);
        queue.settle(taken.ticket, verdict, at(millis))
    }

    #[test]
    fn a_queue_that_was_cleared_delays_keys_no_longer_than_asked() {
        let mut queue = Queue::default();
        queue.add_after("midnight", 3_600_000 * MS, at(0));
        assert_eq!(queue.clear(at(1)), 1);
        queue.add_after("a", 5 * MS, at(1));
        assert!(queue.take(at(5)).is_none());
        assert_eq!(take(&mut queue, 6).key, "a");
    }

    /// A queue with one key, which wants to wake up in an hour.
    fn waiting() -> Queue<&'static str> {
        let mut queue = Queue::default();
        queue.add("a", Priority::Normal, at(0));
        let hour = Duration::from_millis(HOUR);
        let next = run(&mut queue, 0, Verdict::WakeAfter(hour));
        assert_eq!(next, Next::After(hour));
        queue
    }

    fn sizes(queue: &Queue<&'static str>) -> (usize, usize, usize) {
        let stats = queue.stats(at(0));
        (stats.depth, stats.delayed, stats.known)
    }

    // controller-runtime#1720, rancher/fleet#3239: an event took the place of the time that a reconcile had asked for.
    #[test]
    fn q1_a_wake_up_time_survives_the_events_before_it() {
        let verdicts = [
            Verdict::Done,
            Verdict::Forget,
            Verdict::Again(9 * MS),
            Verdict::Retry,
        ];
        for verdict in verdicts {
            let mut queue = waiting();
            queue.add("a", Priority::Normal, at(60_000));
            run(&mut queue, 60_000, verdict);
            if matches!(verdict, Verdict::Again(_) | Verdict::Retry) {
                run(&mut queue, 70_000, Verdict::Forget);
            }
            assert!(queue.take(at(HOUR - 1)).is_none(), "{verdict:?}");
            assert_eq!(run(&mut queue, HOUR, Verdict::Forget), Next::Nothing);
            assert!(queue.take(at(9 * HOUR)).is_none(), "once");
            assert_eq!(sizes(&queue), (0, 0, 0));
        }
    }

    #[test]
    fn q1_a_time_that_passes_while_a_worker_has_the_key_leads_to_another_hand_out() {
        for (verdict, again) in [(Verdict::Forget, false), (Verdict::Retry, true)] {
            let mut queue = waiting();
            queue.add("a", Priority::Normal, at(HOUR - 5));
            let taken = take(&mut queue, HOUR - 5);
            if again {
                queue.add_after("a", 90 * MS, at(HOUR - 5));
            }
            assert_eq!(queue.settle(taken.ticket, verdict, at(HOUR)), Next::Ready);
            assert_eq!(run(&mut queue, HOUR, Verdict::Forget), Next::Nothing);
            assert_eq!(sizes(&queue), (0, 0, 0));
        }
    }

    #[test]
    fn a_hand_out_after_the_time_is_the_one_that_was_asked_for() {
        let mut queue = waiting();
        queue.add("a", Priority::Normal, at(HOUR - 1));
        assert_eq!(run(&mut queue, HOUR, Verdict::Forget), Next::Nothing);
        assert_eq!(sizes(&queue), (0, 0, 0));
    }

    #[test]
    fn of_delay_and_wake_up_time_neither_loses_the_other() {
        // The wake-up time moves from before the delay to after it.
        let mut queue = waiting();
        queue.add_after("a", 2 * HOUR as u32 * MS, at(0));
        queue.wake_after("a", 3 * HOUR as u32 * MS, at(0));
        assert_eq!(
            run(&mut queue, 2 * HOUR, Verdict::Done),
            Next::After(HOUR as u32 * MS)
        );
        assert_eq!(run(&mut queue, 3 * HOUR, Verdict::Done), Next::Nothing);
        // A delay is cancelled, the wake-up time stays, and the other way round.
        let mut queue = waiting();
        assert!(!queue.cancel(&"a"), "it is not delayed");
        queue.add_after("a", 9 * MS, at(0));
        assert!(queue.cancel(&"a"));
        assert!(queue.take(at(10)).is_none());
        queue.add_after("a", 9 * MS, at(10));
        assert!(queue.cancel_wake(&"a"));
        assert!(!queue.cancel_wake(&"a"));
        assert_eq!(run(&mut queue, 20, Verdict::Done), Next::Nothing);
        assert_eq!(sizes(&queue), (0, 0, 0));
    }

    #[test]
    fn a_key_that_is_gone_has_no_wake_up_time() {
        let mut queue = waiting();
        queue.add("a", Priority::Normal, at(1));
        assert_eq!(run(&mut queue, 1, Verdict::Gone), Next::Nothing);
        assert_eq!(sizes(&queue), (0, 0, 0));
    }

    #[test]
    fn a_shutdown_gives_wake_up_times_up() {
        let mut queue = waiting();
        assert_eq!(queue.shut_down(at(1)), ["a"]);
        assert_eq!((sizes(&queue), queue.is_drained()), ((0, 0, 0), true));
        let mut queue = waiting();
        queue.add("a", Priority::Normal, at(1));
        assert_eq!(queue.shut_down(at(1)), [""; 0]);
        assert_eq!(run(&mut queue, 1, Verdict::Forget), Next::Refused);
        assert_eq!(sizes(&queue), (0, 0, 0));
        assert_eq!(queue.wake_after("a", MS, at(1)), AddOutcome::Refused);
    }
}
