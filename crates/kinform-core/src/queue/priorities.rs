//! Ports of controller-runtime's tests of its priority queue, as far as no test of client-go's says the same.
//!
//! ```text
//! controller-runtime:pkg/controller/priorityqueue/priorityqueue_test.go → tests here, named in a comment
//! ```

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn queue() -> Queue<&'static str> {
    Queue::new(Limiter::exponential(5 * MS, 1000 * MS))
}

fn take(queue: &mut Queue<&'static str>, millis: u64) -> Taken<&'static str> {
    queue.take(at(millis)).expect("a key is ready")
}

fn order(queue: &mut Queue<&'static str>, millis: u64) -> Vec<&'static str> {
    let mut order = Vec::new();
    while let Some(taken) = queue.take(at(millis)) {
        order.push(taken.key);
        queue.settle(taken.ticket, Verdict::Forget, at(millis));
    }
    order
}

#[test]
fn upstreams_integers_are_three_lanes() {
    for (integer, lane) in [
        (i32::MIN, Priority::Low),
        (-100, Priority::Low),
        (-1, Priority::Low),
        (0, Priority::Normal),
        (1, Priority::High),
        (i32::MAX, Priority::High),
    ] {
        assert_eq!(Priority::from(integer), lane, "{integer}");
    }
}

// returns an item, returns items in order, keeps FIFO order inside a class after a raise
#[test]
fn within_a_lane_keys_come_in_the_order_in_which_they_came_or_were_raised() {
    let mut queue = queue();
    for (key, priority) in [
        ("a", Priority::Normal),
        ("b", Priority::Low),
        ("c", Priority::High),
        ("d", Priority::Low),
        ("e", Priority::Normal),
        // Raised: behind those of the lane already.
        ("d", Priority::Normal),
        ("b", Priority::High),
    ] {
        queue.add(key, priority, at(0));
    }
    assert_eq!(order(&mut queue, 0), ["c", "b", "a", "e", "d"]);
}

// controller-runtime#3157: priority was lost on requeue
#[test]
fn q5_a_key_that_is_retried_keeps_its_priority() {
    for verdict in [
        Verdict::Retry,
        Verdict::Again(5 * MS),
        Verdict::Again(Duration::ZERO),
    ] {
        for priority in [Priority::Low, Priority::Normal, Priority::High] {
            let mut queue = queue();
            queue.add("a", priority, at(0));
            let taken = take(&mut queue, 0);
            assert_eq!(taken.priority, priority);
            queue.settle(taken.ticket, verdict, at(0));
            assert_eq!(take(&mut queue, 5).priority, priority, "{verdict:?}");
        }
    }
}

#[test]
fn what_was_asked_for_while_a_worker_had_the_key_counts_and_not_what_it_had() {
    let mut queue = queue();
    queue.add("a", Priority::High, at(0));
    let taken = take(&mut queue, 0);
    queue.add("a", Priority::Low, at(0));
    queue.settle(taken.ticket, Verdict::Forget, at(0));
    assert_eq!(take(&mut queue, 0).priority, Priority::Low);
}

// the highest priority of several adds is kept, also of a key that is delayed
#[test]
fn a_delayed_key_comes_with_the_highest_priority_that_it_was_added_with() {
    let mut queue = queue();
    queue.add("a", Priority::High, at(0));
    let taken = take(&mut queue, 0);
    queue.settle(taken.ticket, Verdict::Retry, at(0));
    queue.add_after("a", 2 * MS, at(0));
    queue.add("normal", Priority::Normal, at(0));
    assert_eq!(take(&mut queue, 2).key, "a");
    // Cancelled, it is as if it had never been.
    queue.add_after("b", 2 * MS, at(2));
    assert!(queue.cancel(&"b"));
    queue.add("b", Priority::Low, at(2));
    assert_eq!(order(&mut queue, 2), ["normal", "b"]);
}

// includes items in Len and metrics once they are ready; updates metrics with a raise
#[test]
fn the_depth_of_a_lane_counts_what_is_ready_in_it() {
    let mut queue = queue();
    let depths = |queue: &Queue<&'static str>| {
        let stats = queue.stats(at(0));
        (stats.depth_high, stats.depth, stats.depth_low, queue.len())
    };
    queue.add("a", Priority::Low, at(0));
    queue.add_after("b", 5 * MS, at(0));
    assert_eq!(depths(&queue), (0, 1, 1, 1));
    queue.add("a", Priority::High, at(0));
    assert_eq!(depths(&queue), (1, 1, 0, 1));
    queue.advance(at(5));
    assert_eq!(depths(&queue), (1, 2, 0, 2));
    assert_eq!(order(&mut queue, 5), ["a", "b"]);
    assert_eq!(depths(&queue), (0, 0, 0, 0));
}

// controller-runtime: several rate limited adds do not affect each other
#[test]
fn keys_added_with_a_rate_limit_do_not_delay_each_other() {
    let mut queue = queue();
    for key in ["a", "b", "c"] {
        queue.add_rate_limited(key, at(0));
    }
    assert_eq!(order(&mut queue, 5), ["a", "b", "c"]);
}

// controller-runtime: a second shutdown panicked
#[test]
fn a_second_shutdown_is_the_same_as_one() {
    let mut queue = queue();
    queue.add("a", Priority::Normal, at(0));
    queue.shut_down(at(0));
    queue.shut_down(at(0));
    assert_eq!(queue.close(at(0)), ["a"]);
    assert_eq!(queue.close(at(0)), [""; 0]);
    assert!(queue.take(at(0)).is_none());
}
