//! Ports of client-go's own tests of its queues.
//!
//! ```text
//! client-go:util/workqueue/*_test.go → one test here for each, named in a comment
//! ```

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn queue() -> Queue<&'static str> {
    Queue::default()
}

fn add(queue: &mut Queue<&'static str>, key: &'static str) -> AddOutcome {
    queue.add(key, Priority::Normal, at(0))
}

fn take(queue: &mut Queue<&'static str>, millis: u64) -> Taken<&'static str> {
    queue.take(at(millis)).expect("a key is ready")
}

// client-go: TestAddWhileProcessing, TestCollapseWhileProcessing
#[test]
fn a_key_added_while_a_worker_has_it_is_handed_out_once_more_afterwards() {
    let mut queue = queue();
    assert_eq!(add(&mut queue, "a"), AddOutcome::Queued);
    let first = take(&mut queue, 0);
    assert_eq!(add(&mut queue, "a"), AddOutcome::Queued);
    assert_eq!(add(&mut queue, "a"), AddOutcome::Merged);
    assert_eq!(queue.stats(at(0)).merged, 1);
    assert!(
        queue.take(at(1)).is_none(),
        "never with two workers at once"
    );
    assert_eq!(
        queue.settle(first.ticket, Verdict::Forget, at(1)),
        Next::Ready
    );
    let second = take(&mut queue, 2);
    assert_eq!(second.key, "a");
    assert_eq!(
        queue.settle(second.ticket, Verdict::Forget, at(2)),
        Next::Nothing
    );
    assert!(queue.take(at(3)).is_none());
}

// client-go has no test of it: its keys are given back by name.
#[test]
fn a_key_is_given_back_once() {
    let mut queue = queue();
    add(&mut queue, "a");
    add(&mut queue, "b");
    let first = take(&mut queue, 0);
    add(&mut queue, "a");
    let Ticket { slot, generation } = first.ticket;
    let same = || Ticket { slot, generation };
    assert_eq!(queue.settle(same(), Verdict::Done, at(1)), Next::Ready);
    // It is ready, and another key is in its place.
    let other = take(&mut queue, 1);
    assert_eq!(other.key, "b");
    assert_eq!(queue.settle(same(), Verdict::Forget, at(1)), Next::Nothing);
    let second = take(&mut queue, 2);
    let refused = queue.settle(same(), Verdict::Again(MS), at(2));
    assert_eq!(refused, Next::Nothing, "another worker has it");
    assert_eq!(queue.running(at(2)).len(), 2);
    for ticket in [second.ticket, other.ticket] {
        queue.settle(ticket, Verdict::Forget, at(3));
    }
    assert!(queue.is_empty());
}

// client-go: TestLen, TestCollapse
#[test]
fn a_key_waits_once_however_often_it_is_added() {
    let mut queue = queue();
    for (key, len) in [("a", 1), ("b", 2), ("a", 2)] {
        add(&mut queue, key);
        assert_eq!(queue.len(), len);
    }
    assert_eq!(queue.stats(at(0)).merged, 1);
}

// client-go: TestReinsert
#[test]
fn a_key_can_be_added_again_after_it_was_given_back() {
    let mut queue = queue();
    for _ in 0..3 {
        assert_eq!(add(&mut queue, "a"), AddOutcome::Queued);
        let taken = take(&mut queue, 0);
        assert_eq!(
            queue.settle(taken.ticket, Verdict::Done, at(0)),
            Next::Nothing
        );
    }
    assert_eq!(
        queue.stats(at(0)).known,
        0,
        "nothing is remembered of an idle key"
    );
}

// client-go: TestQueueDrainageUsingShutDownWithDrain, TestNoQueueDrainageUsingShutDown
#[test]
fn after_the_shutdown_what_waits_is_handed_out_and_what_comes_is_refused() {
    let mut queue = queue();
    add(&mut queue, "a");
    add(&mut queue, "b");
    assert!(queue.shut_down(at(0)).is_empty());
    assert_eq!(add(&mut queue, "c"), AddOutcome::Refused);
    let (a, b) = (take(&mut queue, 0), take(&mut queue, 0));
    assert!(queue.is_finished() && !queue.is_drained());
    queue.settle(a.ticket, Verdict::Forget, at(1));
    assert_eq!(
        queue.running(at(5)),
        [Running {
            key: "b",
            since: 5 * MS
        }]
    );
    assert_eq!(queue.settle(b.ticket, Verdict::Retry, at(5)), Next::Refused);
    assert!(queue.is_drained());
    assert_eq!(queue.stats(at(5)).refused, 2);
}

// client-go: TestQueueDrainageUsingShutDownWithDrainWithDirtyItem
#[test]
fn a_drain_includes_what_changed_while_a_worker_had_it() {
    let mut queue = queue();
    add(&mut queue, "a");
    let taken = take(&mut queue, 0);
    add(&mut queue, "a");
    queue.shut_down(at(0));
    assert_eq!(
        queue.settle(taken.ticket, Verdict::Retry, at(0)),
        Next::Ready
    );
    assert!(!queue.is_drained());
    let taken = take(&mut queue, 1);
    assert_eq!(
        queue.settle(taken.ticket, Verdict::Forget, at(1)),
        Next::Nothing
    );
    assert!(queue.is_drained());
}

// client-go: TestForceQueueShutdownUsingShutDown
#[test]
fn closing_breaks_a_drain() {
    let mut queue = queue();
    add(&mut queue, "a");
    add(&mut queue, "b");
    let taken = take(&mut queue, 0);
    add(&mut queue, "a");
    queue.shut_down(at(0));
    let mut given_up = queue.close(at(0));
    given_up.sort_unstable();
    assert_eq!(given_up, ["a", "b"]);
    assert_eq!(
        queue.settle(taken.ticket, Verdict::Done, at(0)),
        Next::Nothing
    );
    assert!(queue.is_drained());
}

// client-go: TestSimpleQueue
#[test]
fn a_delayed_key_is_handed_out_once_and_not_early() {
    let mut queue = queue();
    assert_eq!(queue.add_after("a", 50 * MS, at(0)), AddOutcome::Delayed);
    assert!(queue.take(at(49)).is_none());
    let taken = take(&mut queue, 60);
    queue.settle(taken.ticket, Verdict::Forget, at(60));
    assert!(queue.take(at(10_000)).is_none());
    assert_eq!(queue.next_wake(), None);
}

// client-go: TestDeduping
#[test]
fn of_two_delays_the_earlier_wins_in_either_order() {
    for delays in [[50, 30], [30, 50]] {
        let mut queue = queue();
        for delay in delays {
            queue.add_after("a", delay * MS, at(0));
        }
        let taken = take(&mut queue, 30);
        queue.settle(taken.ticket, Verdict::Forget, at(30));
        assert!(queue.take(at(100)).is_none());
    }
}

// client-go: TestAddTwoFireEarly, TestCopyShifting
#[test]
fn delayed_keys_come_in_the_order_of_their_times() {
    let mut queue = queue();
    for (key, delay) in [("third", 1000), ("second", 500), ("first", 300)] {
        queue.add_after(key, delay * MS, at(0));
    }
    assert_eq!(take(&mut queue, 2000).key, "first");
    assert_eq!(take(&mut queue, 2000).key, "second");
    assert_eq!(take(&mut queue, 2000).key, "third");
}

// kubernetes#110642, kubernetes#126027: a far future entry stayed although the key was added.
#[test]
fn an_add_takes_the_place_of_a_delayed_one() {
    let mut queue = queue();
    queue.add_after("a", 3_600_000 * MS, at(0));
    assert_eq!(add(&mut queue, "a"), AddOutcome::Queued);
    assert_eq!(queue.stats(at(0)).delayed, 0);
    let taken = take(&mut queue, 0);
    assert_eq!(
        queue.add_after("a", 3_600_000 * MS, at(0)),
        AddOutcome::Delayed
    );
    assert_eq!(
        add(&mut queue, "a"),
        AddOutcome::Queued,
        "also while a worker has it"
    );
    assert_eq!(
        queue.settle(taken.ticket, Verdict::Forget, at(0)),
        Next::Ready
    );
}

// kubernetes#113607
#[test]
fn a_delayed_add_can_be_cancelled_and_replaced_by_a_later_one() {
    let mut queue = queue();
    queue.add_after("a", 10 * MS, at(0));
    assert_eq!(
        queue.replace_after("a", 500 * MS, at(0)),
        AddOutcome::Delayed
    );
    assert!(queue.take(at(499)).is_none());
    assert!(queue.cancel(&"a"));
    assert!(!queue.cancel(&"a"));
    assert!(queue.take(at(501)).is_none());
    assert_eq!(queue.stats(at(501)).known, 0);
}

// client-go: TestRateLimitingQueue
#[test]
fn failures_are_counted_until_they_are_forgotten() {
    let limiter = Limiter::exponential(MS, 1000 * MS);
    let mut queue = Queue::new(limiter);
    add(&mut queue, "a");
    let mut now = 0;
    for delay in [1, 2, 4, 8] {
        let taken = take(&mut queue, now);
        let next = queue.settle(taken.ticket, Verdict::Retry, at(now));
        assert_eq!(next, Next::After(Duration::from_millis(delay)));
        now += delay;
    }
    assert_eq!(queue.num_requeues(&"a"), 4);
    queue.forget(&"a");
    assert_eq!(queue.num_requeues(&"a"), 0);
    queue.add_rate_limited("b", at(now));
    assert_eq!(queue.num_requeues(&"b"), 1);
}

// client-go: TestMetrics
#[test]
fn the_numbers_are_exact() {
    let mut queue = queue();
    add(&mut queue, "a");
    let stats = queue.stats(at(0));
    assert_eq!((stats.adds, stats.depth), (1, 1));
    let taken = queue.take(at(50)).expect("a key is ready");
    let stats = queue.stats(at(80));
    assert_eq!((stats.depth, stats.processing), (0, 1));
    assert_eq!(stats.queue_latency.total(), 50 * MS);
    assert_eq!(
        (stats.unfinished, stats.longest_running),
        (30 * MS, 30 * MS)
    );
    queue.add("a", Priority::Normal, at(80));
    queue.add("a", Priority::Normal, at(81));
    assert_eq!(queue.stats(at(90)).adds, 2, "a repeat does not count");
    queue.settle(taken.ticket, Verdict::Forget, at(100));
    let stats = queue.stats(at(100));
    assert_eq!(
        (stats.work_duration.total(), stats.work_duration.count()),
        (50 * MS, 1)
    );
    let again = queue.take(at(110)).expect("it was added in between");
    assert_eq!(
        again.waited,
        30 * MS,
        "it waits since it was added, not since it was given back"
    );
}

#[test]
fn the_longest_running_key_is_named_first() {
    let mut queue = queue();
    for (key, millis) in [("a", 10), ("b", 20), ("c", 30)] {
        queue.add(key, Priority::Normal, at(millis));
        let taken = take(&mut queue, millis);
        if key == "b" {
            queue.settle(taken.ticket, Verdict::Done, at(30));
        }
    }
    let stats = queue.stats(at(40));
    assert_eq!(
        (stats.unfinished, stats.longest_running),
        (40 * MS, 30 * MS)
    );
    assert_eq!(
        queue
            .running(at(40))
            .iter()
            .map(|r| r.key)
            .collect::<Vec<_>>(),
        ["a", "c"]
    );
}

// controller-runtime#3496: a hot high priority starved the others.
#[test]
fn q2_a_hot_lane_slows_the_others_down_and_never_stops_them() {
    let mut queue = queue();
    queue.add("low", Priority::Low, at(0));
    queue.add("normal", Priority::Normal, at(0));
    let mut served = Vec::new();
    for turn in 0..40 {
        queue.add("hot", Priority::High, at(turn));
        let taken = take(&mut queue, turn);
        served.push(taken.key);
        queue.settle(taken.ticket, Verdict::Forget, at(turn));
    }
    assert!(
        served[..18].contains(&"low") && served[..18].contains(&"normal"),
        "{served:?}"
    );
    assert_eq!(served.iter().filter(|&&key| key == "hot").count(), 38);
}

// kubernetes#68179: what happens comes before what is repeated.
#[test]
fn a_waiting_key_moves_up_and_never_down() {
    let mut queue = queue();
    for (key, priority) in [
        ("resync-1", Priority::Low),
        ("resync-2", Priority::Low),
        ("hot", Priority::Low),
        ("hot", Priority::Normal),
        ("hot", Priority::Low),
    ] {
        queue.add(key, priority, at(0));
    }
    let order = [(); 3].map(|()| take(&mut queue, 0).key);
    assert_eq!(order, ["hot", "resync-1", "resync-2"]);
}

// kube#1489, kube#1772: a delay of centuries panicked.
#[test]
fn an_absurd_delay_is_only_a_long_one() {
    let mut queue = queue();
    for now in [at(0), Instant::FAR_FUTURE] {
        assert_ne!(
            queue.add_after("a", Duration::MAX, now),
            AddOutcome::Refused
        );
    }
    assert!(queue.take(at(86_400_000)).is_none());
    assert!(queue.next_wake().is_some());
    assert_eq!(queue.shut_down(at(0)), ["a"]);
}

#[test]
fn a_burst_gives_its_memory_back() {
    let mut queue = Queue::<u32>::default();
    // Not at once: it may come again.
    for keys in [5000, 1] {
        (0..keys).for_each(|key| {
            queue.add(key, Priority::Normal, at(0));
        });
        while let Some(taken) = queue.take(at(0)) {
            queue.settle(taken.ticket, Verdict::Forget, at(0));
        }
        assert_eq!(queue.slots.get(0).map(|slot| slot.state), None);
        assert_eq!(queue.slots.capacity() < 5000, keys == 1);
    }
}

// client-go: TestGarbageCollection
#[test]
fn nothing_is_kept_of_a_key_that_was_worked_off() {
    let mut queue = Queue::<std::sync::Arc<str>>::default();
    let key: std::sync::Arc<str> = "a".into();
    queue.add(key.clone(), Priority::Normal, at(0));
    queue.add_after(key.clone(), 9 * MS, at(0));
    let taken = queue.take(at(0)).expect("a key is ready");
    queue.settle(taken.ticket, Verdict::Forget, at(0));
    drop(taken.key);
    assert_eq!(std::sync::Arc::strong_count(&key), 1);
}

// client-go: TestMetrics (workqueue_retries_total)
#[test]
fn each_add_for_later_counts_as_a_retry_and_each_refused_one_as_refused() {
    let mut queue = queue();
    queue.add_after("a", 5 * MS, at(0));
    queue.add_after("a", 9 * MS, at(0));
    queue.add_rate_limited("b", at(0));
    queue.replace_after("b", 7 * MS, at(0));
    let stats = queue.stats(at(0));
    assert_eq!((stats.retries, stats.adds, stats.delayed), (4, 0, 2));
    queue.shut_down(at(1));
    queue.add_after("c", MS, at(1));
    let stats = queue.stats(at(1));
    assert_eq!((stats.retries, stats.refused, stats.delayed), (4, 3, 0));
}
