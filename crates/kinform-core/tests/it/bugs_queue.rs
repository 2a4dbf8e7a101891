//! Bugs that work queues shipped with: one test a bug, named after it, that fails if it is back.
//!
//! ```text
//! adds, hand-outs, shutdowns ──▶ Queue (no task, no clock) ──▶ in what order, and when it is drained
//! ```

use std::time::Duration;

use kinform_core::queue::{AddOutcome, Limiter, Next, Priority, Queue, Verdict};
use kinform_core::time::Instant;

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn queue() -> Queue<u32> {
    Queue::new(Limiter::default())
}

// kube#375, kube#1322, kube#1324: a key that changed while it was worked on was never run again.
#[test]
fn b26_a_key_added_while_it_is_worked_on_is_ready_when_it_is_given_back() {
    for workers in 1..4 {
        let mut queue = queue();
        for key in 0..workers {
            queue.add(key, Priority::Normal, at(0));
        }
        let held: Vec<_> = (0..workers).map(|_| queue.take(at(0)).unwrap()).collect();
        for key in 0..workers {
            assert_eq!(queue.add(key, Priority::Normal, at(1)), AddOutcome::Queued);
        }
        assert!(queue.take(at(1)).is_none(), "never with two workers");
        for taken in held {
            let next = queue.settle(taken.ticket, Verdict::Forget, at(2));
            assert_eq!(next, Next::Ready);
            assert_eq!(queue.take(at(2)).map(|again| again.key), Some(taken.key));
        }
    }
}

// kubernetes#141079, kubernetes#119554: a drain returned while keys were queued and none was in work.
#[test]
fn b28_a_queue_is_drained_only_when_nothing_waits_and_nothing_is_in_work() {
    for (queued, held) in [(1, 0), (3, 0), (3, 1), (3, 3)] {
        let mut queue = queue();
        for key in 0..queued {
            queue.add(key, Priority::Normal, at(0));
        }
        let mut in_work: Vec<_> = (0..held).map(|_| queue.take(at(0)).unwrap()).collect();
        // One of those in work is wanted again: that is queued, too.
        if held > 0 {
            queue.add(0, Priority::Normal, at(0));
        }
        queue.shut_down(at(1));
        let mut left = queued + u32::from(held > 0);
        while left > 0 {
            assert!(!queue.is_drained(), "{left} of {queued} keys are left");
            let taken = in_work.pop().or_else(|| queue.take(at(2)));
            queue.settle(taken.unwrap().ticket, Verdict::Forget, at(2));
            left -= 1;
        }
        assert!(queue.is_drained());
    }
}

// controller-runtime#3363: a priority queue handed out the wrong key; #3330: what was ready waited
// for what was not due.
#[test]
fn b29_the_highest_priority_that_is_ready_comes_first() {
    let mut queue = queue();
    queue.add_after(9, Duration::from_secs(60), at(0));
    for (key, priority) in [
        (1, Priority::Low),
        (2, Priority::Normal),
        (3, Priority::High),
        (4, Priority::High),
        (5, Priority::Normal),
    ] {
        queue.add(key, priority, at(0));
    }
    let order: Vec<u32> = std::iter::from_fn(|| Some(queue.take(at(1))?.key)).collect();
    assert_eq!(order, [3, 4, 2, 5, 1], "and what is not due not at all");
    assert_eq!(queue.take(at(60_000)).map(|taken| taken.key), Some(9));
}

// kube's scheduler: of the keys that waited, whichever a hash set named first was run.
#[test]
fn d14_keys_that_wait_are_handed_out_in_the_order_of_their_adds() {
    let mut queue = queue();
    let keys = || (0..20_000).map(|key: u32| key.wrapping_mul(2_654_435_761));
    for key in keys() {
        queue.add(key, Priority::Normal, at(0));
    }
    for key in keys() {
        let taken = queue.take(at(1)).unwrap();
        assert_eq!(taken.key, key);
        queue.settle(taken.ticket, Verdict::Forget, at(1));
    }
    assert_eq!(queue.stats(at(1)).known, 0);
}
