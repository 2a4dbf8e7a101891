//! The work queue under tasks: who is woken, who keeps the time, what cancelling loses (nothing).

use kinform::{AddOutcome, Limiter, Next, Priority, Verdict};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use kinform::workqueue::WorkQueue;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

const MS: Duration = Duration::from_millis(1);

fn limiter() -> Limiter {
    Limiter::exponential(5 * MS, 1000 * MS)
}

fn queue() -> WorkQueue<u32> {
    WorkQueue::new(limiter())
}

// client-go: TestBasic
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_producers_and_ten_workers_lose_and_double_nothing() {
    let queue = queue();
    let busy: Arc<Mutex<HashMap<u32, ()>>> = Arc::default();
    let handed_out = Arc::new(AtomicUsize::new(0));
    let worker = || {
        let (queue, busy, handed_out) = (queue.clone(), busy.clone(), handed_out.clone());
        tokio::spawn(async move {
            while let Some(item) = queue.get().await {
                let key = *item.key();
                assert_ne!(key, u32::MAX, "added after the shutdown");
                assert!(
                    busy.lock().unwrap().insert(key, ()).is_none(),
                    "with two workers at once"
                );
                tokio::task::yield_now().await;
                busy.lock().unwrap().remove(&key);
                handed_out.fetch_add(1, Ordering::Relaxed);
                item.settle(Verdict::Forget);
            }
        })
    };
    let workers: Vec<_> = (0..10).map(|_| worker()).collect();
    let producer = |from: u32| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for round in 0..50 {
                queue.add(from);
                if round % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    };
    for done in join_all((0..50).map(producer)).await {
        done.unwrap();
    }
    queue.shut_down();
    assert_eq!(queue.add(u32::MAX), AddOutcome::Refused);
    for done in join_all(workers).await {
        done.unwrap();
    }
    let stats = queue.stats();
    assert_eq!(stats.adds, handed_out.load(Ordering::Relaxed) as u64);
    assert_eq!(stats.adds + stats.merged, 50 * 50);
    assert!(handed_out.load(Ordering::Relaxed) >= 50);
    assert_eq!((stats.depth, stats.processing, stats.known), (0, 0, 0));
}

#[tokio::test]
async fn keys_added_together_come_in_their_order_and_each_once() {
    let queue = queue();
    // More than are added under one lock.
    let keys: Vec<u32> = (0..1000).chain(500..1500).collect();
    assert_eq!(queue.add_all(keys, Priority::Normal), 1500);
    assert_eq!(queue.add_all(vec![7, 2000], Priority::High), 1);
    assert_eq!(queue.add_all(Vec::new(), Priority::High), 0);
    let stats = queue.stats();
    assert_eq!((stats.depth, stats.merged), (1501, 501));
    queue.shut_down();
    assert_eq!(queue.add_all(vec![3000], Priority::Normal), 0);
    let mut order = Vec::new();
    while let Some(item) = queue.get().await {
        order.push(*item.key());
        item.settle(Verdict::Forget);
    }
    // Once in 16 turns a lower lane is served: two of the high one come first.
    assert_eq!(order[..2], [7, 2000]);
    let others = (0..1500).filter(|key| *key != 7);
    assert!(order[2..].iter().copied().eq(others));
}

#[tokio::test]
async fn keys_added_together_wake_whoever_waits() {
    let queue = queue();
    let workers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(take_one(queue.clone())))
        .collect();
    tokio::task::yield_now().await;
    queue.add_all(vec![1, 2, 3], Priority::Normal);
    let mut taken = Vec::new();
    for worker in workers {
        taken.push(worker.await.unwrap().0);
    }
    taken.sort_unstable();
    assert_eq!(taken, [1, 2, 3]);
}

#[tokio::test]
async fn a_key_that_panics_among_others_lets_those_before_it_be_worked_on() {
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Key(u32);
    impl Hash for Key {
        fn hash<H: Hasher>(&self, state: &mut H) {
            assert_ne!(self.0, 13, "no such key");
            self.0.hash(state);
        }
    }
    let queue: WorkQueue<Key> = WorkQueue::new(Limiter::exponential(5 * MS, 1000 * MS));
    let worker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.get().await.unwrap().key().clone() }
    });
    tokio::task::yield_now().await;
    let keys = vec![Key(1), Key(13), Key(2)];
    let added = catch_unwind(AssertUnwindSafe(|| queue.add_all(keys, Priority::Normal)));
    assert!(added.is_err());
    assert_eq!(worker.await.unwrap(), Key(1));
    assert_eq!(queue.add_all(vec![Key(2)], Priority::Normal), 1);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_key_comes_at_its_time_and_an_earlier_one_moves_the_timer() {
    let queue = queue();
    let start = Instant::now();
    queue.add_after(1, 10_000 * MS);
    let workers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(take_one(queue.clone())))
        .collect();
    tokio::task::yield_now().await;
    queue.add_after(2, 3_000 * MS);
    queue.add_after(3, 5_000 * MS);
    let mut came = Vec::new();
    for worker in workers {
        came.push(worker.await.unwrap());
    }
    came.sort_unstable();
    let at = |millis: u32| start + millis * MS;
    assert_eq!(came, [(1, at(10_000)), (2, at(3_000)), (3, at(5_000))]);
}

async fn take_one(queue: WorkQueue<u32>) -> (u32, Instant) {
    let item = queue.get().await.expect("the queue is open");
    let came = (*item.key(), Instant::now());
    item.settle(Verdict::Forget);
    came
}

// fault: F29
#[tokio::test(start_paused = true)]
async fn who_keeps_the_time_can_be_dropped() {
    let queue = queue();
    queue.add_after(1, 100 * MS);
    let mut keeper = Box::pin(queue.get());
    assert!(keeper.as_mut().now_or_never().is_none());
    let worker = tokio::spawn(take_one(queue.clone()));
    tokio::task::yield_now().await;
    drop(keeper);
    let start = Instant::now();
    assert_eq!(worker.await.unwrap(), (1, start + 100 * MS));
}

#[tokio::test(start_paused = true)]
async fn who_was_woken_can_be_dropped_before_it_looks() {
    let queue = queue();
    let worker = tokio::spawn(take_one(queue.clone()));
    tokio::task::yield_now().await;
    // The last to wait is the first to be woken.
    let mut woken = Box::pin(queue.get());
    assert!(woken.as_mut().now_or_never().is_none());
    queue.add(7);
    drop(woken);
    assert_eq!(worker.await.unwrap().0, 7);
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_dropped_counts_as_failed() {
    let queue = queue();
    queue.add(1);
    for failures in 0..3 {
        let item = queue.get().await.unwrap();
        assert_eq!(item.failures(), failures);
    }
    let item = queue.get().await.unwrap();
    assert_eq!((item.failures(), queue.num_requeues(&1)), (3, 3));
    assert_eq!(item.settle(Verdict::Forget), Next::Nothing);
    assert_eq!(queue.num_requeues(&1), 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_given_back_with_the_next_look_is_free_once_that_is_polled_or_dropped() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    let first = queue.get().await.unwrap();
    queue.add(1);
    let next = first.settle_and_get(Verdict::Forget);
    assert_eq!((queue.len(), queue.stats().processing), (1, 1));
    let second = next.await.unwrap();
    assert_eq!(
        (*second.key(), queue.len(), queue.stats().processing),
        (2, 1, 1)
    );
    drop(second.settle_and_get(Verdict::Retry));
    assert_eq!((queue.num_requeues(&2), queue.stats().processing), (1, 0));
    let mut waiting = Box::pin(queue.get().await.unwrap().settle_and_get(Verdict::Forget));
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(
        queue.stats().processing,
        0,
        "given back although nothing came"
    );
    let retried = waiting.await.unwrap();
    assert_eq!((*retried.key(), retried.failures()), (2, 1));
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain(60_000 * MS).await }
    });
    tokio::task::yield_now().await;
    assert!(retried.settle_and_get(Verdict::Forget).await.is_none());
    assert!(drain.await.unwrap().unwrap().is_empty());
}

// client-go: TestQueueDrainageUsingShutDownWithDrain; kubernetes#141079: queued keys count, too.
#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_what_is_queued_and_what_is_in_work() {
    let queue = queue();
    queue.add(1);
    queue.add(2);
    queue.add_after(3, 1000 * MS);
    let held = queue.get().await.unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain(60_000 * MS).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(queue.add(4), AddOutcome::Refused);
    held.settle(Verdict::Forget);
    tokio::task::yield_now().await;
    assert!(!drain.is_finished(), "key 2 is queued");
    queue.get().await.unwrap().settle(Verdict::Forget);
    assert_eq!(
        drain.await.unwrap().unwrap(),
        [3],
        "what was delayed is given up and named"
    );
    assert!(queue.get().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_meets_its_deadline_names_the_keys() {
    let queue = queue();
    queue.add(17);
    queue.add(18);
    let _held = queue.get().await.unwrap();
    let left = queue.drain(500 * MS).await.unwrap_err();
    assert_eq!(
        (left.running[0].key, left.running[0].since, left.waiting),
        (17, 500 * MS, 1)
    );
    let text = "the queue is not drained: 1 keys wait, in work are 17 (for 500ms)";
    assert_eq!(left.to_string(), text);
}

#[tokio::test(start_paused = true)]
async fn a_key_says_how_long_it_waited_for_a_worker() {
    let queue = queue();
    queue.add(17);
    queue.add_after(18, 40 * MS);
    tokio::time::advance(30 * MS).await;
    let first = queue.get().await.unwrap();
    assert_eq!((*first.key(), first.waited()), (17, 30 * MS));
    tokio::time::advance(15 * MS).await;
    let second = queue.get().await.unwrap();
    assert_eq!(*second.key(), 18);
    // From when it was due and noticed, not from when it was asked for.
    assert_eq!(second.waited(), Duration::ZERO);
}

// client-go: TestNoQueueDrainageUsingShutDown: a second shutdown ends the waiting of the first.
#[tokio::test(start_paused = true)]
async fn closing_ends_a_drain_that_waits_for_a_worker() {
    let queue = queue();
    queue.add(17);
    queue.add(18);
    let held = queue.get().await.unwrap();
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain(3_600_000 * MS).await }
    });
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    assert_eq!(queue.close(), [18]);
    let left = drain.await.unwrap().unwrap_err();
    assert_eq!((left.running[0].key, left.waiting), (17, 0));
    // One that begins afterwards waits for what is left.
    let drain = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain(3_600_000 * MS).await }
    });
    tokio::task::yield_now().await;
    assert!(!drain.is_finished());
    held.settle(Verdict::Forget);
    assert!(drain.await.unwrap().is_ok());
}

// controller-runtime#3332: a worker was stuck in get at shutdown.
#[tokio::test(start_paused = true)]
async fn a_shutdown_sends_every_waiting_worker_home() {
    let queue = queue();
    queue.add_after(1, 3_600_000 * MS);
    let workers: Vec<_> = (0..5)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await.is_none() })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(queue.shut_down(), [1]);
    for worker in workers {
        assert!(worker.await.unwrap());
    }
}

/// Random adds, delays, cancelled waits and failures under many workers: all keys come to rest.
// fault: F29
#[tokio::test(start_paused = true)]
async fn no_wake_up_is_lost_whatever_is_cancelled() {
    for seed in 0..100 {
        whatever_is_cancelled(seed, queue()).await;
    }
}

async fn whatever_is_cancelled(seed: u64, queue: WorkQueue<u32>) {
    let mut random = SmallRng::seed_from_u64(seed);
    let workers = random.random_range(1..4);
    let workers: Vec<_> = (0..workers)
        .map(|_| {
            let (queue, mut random) = (queue.clone(), SmallRng::seed_from_u64(random.random()));
            tokio::spawn(async move {
                let mut next = queue.get();
                loop {
                    let patience = random.random_range(0..30) * MS;
                    next = match tokio::time::timeout(patience, next).await {
                        Ok(None) => return,
                        Ok(Some(item)) if random.random_bool(0.1) => {
                            drop(item);
                            queue.get()
                        }
                        Ok(Some(item)) => {
                            tokio::time::sleep(random.random_range(0..5) * MS).await;
                            item.settle_and_get(Verdict::Forget)
                        }
                        Err(_) => queue.get(),
                    };
                }
            })
        })
        .collect();
    for _ in 0..60 {
        let key = random.random_range(0..12);
        match random.random_range(0..4) {
            0 => queue.add_after(key, random.random_range(0..80) * MS),
            1 => queue.replace_after(key, random.random_range(0..80) * MS),
            _ => queue.add(key),
        };
        if random.random_bool(0.5) {
            tokio::time::sleep(random.random_range(0..10) * MS).await;
        }
    }
    tokio::time::sleep(2_000 * MS).await;
    let stats = queue.stats();
    assert_eq!((stats.known, stats.depth), (0, 0), "seed {seed}: {stats:?}");
    queue
        .drain(MS)
        .await
        .unwrap_or_else(|left| panic!("seed {seed}: {left}"));
    for worker in workers {
        worker.await.unwrap();
    }
}
