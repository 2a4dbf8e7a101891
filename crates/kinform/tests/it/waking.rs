//! The workers that a work queue wakes: as many as there are keys for, and never too few.
//!
//! ```text
//! adds, looks, verdicts, drops, time → which wakers were called, and who has a key
//! ```
//!
//! Workers are polled by hand, so that a test decides who looks when.

use kinform::{Limiter, Priority, Verdict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use kinform::workqueue::{Get, Item, WorkQueue};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::time::advance;

const MS: Duration = Duration::from_millis(1);
const MICROS: Duration = Duration::from_micros(1);

fn queue() -> WorkQueue<u32> {
    WorkQueue::new(Limiter::exponential(5 * MS, 1000 * MS))
}

/// The number of times a waker was called.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A worker, and what it is doing.
struct Worker {
    queue: WorkQueue<u32>,
    woken: Arc<Woken>,
    doing: Doing,
}

enum Doing {
    Nothing,
    Waiting(Pin<Box<Get<u32>>>),
    Working(Item<u32>),
}

impl Worker {
    fn of(queue: &WorkQueue<u32>) -> Self {
        Self {
            queue: queue.clone(),
            woken: Arc::default(),
            doing: Doing::Nothing,
        }
    }

    /// Asks for a key. Whether it has one.
    fn get(&mut self) -> bool {
        self.doing = Doing::Waiting(Box::pin(self.queue.get()));
        self.look()
    }

    fn look(&mut self) -> bool {
        self.woken.0.store(0, Ordering::Relaxed);
        let Doing::Waiting(get) = &mut self.doing else {
            return false;
        };
        let waker = Waker::from(Arc::clone(&self.woken));
        match get.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(item) => {
                self.doing = Doing::Working(item.expect("the queue is open"));
                true
            }
            Poll::Pending => false,
        }
    }

    /// Gives its key back and asks for the next one. Whether it has one.
    fn next(&mut self, verdict: Verdict) -> bool {
        let Doing::Working(item) = std::mem::replace(&mut self.doing, Doing::Nothing) else {
            panic!("it has no key");
        };
        self.doing = Doing::Waiting(Box::pin(item.settle_and_get(verdict)));
        self.look()
    }

    fn settle(&mut self) {
        if let Doing::Working(item) = std::mem::replace(&mut self.doing, Doing::Nothing) {
            item.settle(Verdict::Forget);
        }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.doing, Doing::Waiting(_))
    }

    /// The number of times the worker was woken since it last looked.
    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::Relaxed)
    }
}

fn workers<const N: usize>(queue: &WorkQueue<u32>) -> [Worker; N] {
    std::array::from_fn(|_| Worker::of(queue))
}

#[tokio::test(start_paused = true)]
async fn a_key_wakes_a_worker_of_its_own_as_long_as_one_sleeps() {
    for keys in [1, 3, 4, 9] {
        let queue = queue();
        let mut workers = workers::<4>(&queue);
        assert!(!workers.iter_mut().any(Worker::get));
        for key in 0..keys {
            queue.add(key);
        }
        let woken = workers.iter().map(Worker::woken).sum::<usize>();
        assert_eq!(woken, keys.min(4) as usize);
        let busy = workers.iter_mut().map(Worker::look);
        assert_eq!(busy.filter(|busy| *busy).count(), keys.min(4) as usize);
    }
}

/// A key that panics when it is cloned, if it is the thirteenth.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(u32);

impl Clone for Key {
    fn clone(&self) -> Self {
        assert_ne!(self.0, 13, "there is one of it");
        Self(self.0)
    }
}

fn look(get: &mut Pin<Box<Get<Key>>>, woken: &Arc<Woken>) -> Poll<Option<Item<Key>>> {
    let waker = Waker::from(Arc::clone(woken));
    get.as_mut().poll(&mut Context::from_waker(&waker))
}

#[tokio::test(start_paused = true)]
async fn who_panics_when_it_looks_is_on_its_way_no_longer() {
    let queue = WorkQueue::new(Limiter::default());
    let woken: [Arc<Woken>; 2] = Default::default();
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.get()));
    assert!(look(&mut first, &woken[0]).is_pending() && look(&mut second, &woken[1]).is_pending());
    queue.add(Key(13));
    assert_eq!(woken[1].0.load(Ordering::Relaxed), 1);
    let looked = catch_unwind(AssertUnwindSafe(|| look(&mut second, &woken[1])));
    assert!(looked.is_err());
    drop(second);
    queue.add(Key(1));
    assert_eq!(woken[0].0.load(Ordering::Relaxed), 1);
    assert!(look(&mut first, &woken[0]).is_ready());
}

#[tokio::test(start_paused = true)]
async fn who_panics_when_it_looks_leaves_the_other_keys_and_their_times_to_others() {
    let queue = WorkQueue::new(Limiter::default());
    let woken: [Arc<Woken>; 2] = Default::default();
    let [mut first, mut second] = [(); 2].map(|()| Box::pin(queue.get()));
    queue.add_after(Key(13), 10 * MS);
    queue.add_after(Key(14), 20 * MS);
    assert!(look(&mut first, &woken[0]).is_pending() && look(&mut second, &woken[1]).is_pending());
    advance(11 * MS).await;
    let looked = catch_unwind(AssertUnwindSafe(|| look(&mut first, &woken[0])));
    assert!(looked.is_err());
    assert_eq!(
        woken[1].0.load(Ordering::Relaxed),
        1,
        "somebody keeps the time"
    );
    assert!(look(&mut second, &woken[1]).is_pending());
    advance(10 * MS).await;
    assert!(look(&mut second, &woken[1]).is_ready());
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_sent_home_also_if_a_key_panics_in_the_shutdown() {
    type End = fn(&WorkQueue<Key>) -> Vec<Key>;
    for end in [WorkQueue::shut_down as End, WorkQueue::close] {
        let queue = WorkQueue::new(Limiter::default());
        // Its failures are remembered: it is cloned to be returned.
        queue.add_rate_limited(Key(13));
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut gets = [(); 3].map(|()| Box::pin(queue.get()));
        for (get, woken) in gets.iter_mut().zip(&woken) {
            assert!(look(get, woken).is_pending());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| end(&queue))).is_err());
        for (get, woken) in gets.iter_mut().zip(&woken) {
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            assert!(matches!(look(get, woken), Poll::Ready(None)));
        }
        assert!(queue.drain(MS).await.is_ok());
    }
}

/// A waker that panics.
struct Broken;

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        panic!("it cannot be woken");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_given_back_if_whom_its_taker_wakes_panics() {
    let queue = queue();
    let mut broken = Box::pin(queue.get());
    let waker = Waker::from(Arc::new(Broken));
    assert!(
        broken
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let mut worker = Worker::of(&queue);
    assert!(!worker.get());
    // The last to wait is woken, and wakes the other one when it looks.
    queue.add_all(vec![1, 2], Priority::Normal);
    assert_eq!(worker.woken(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| worker.look())).is_err());
    worker.doing = Doing::Nothing;
    assert_eq!((queue.stats().processing, queue.num_requeues(&1)), (0, 1));
    drop(broken);
    assert!(worker.get() && !worker.next(Verdict::Forget));
    advance(6 * MS).await;
    assert!(worker.look(), "the first key is tried again");
    worker.settle();
    let stats = queue.stats();
    assert_eq!((stats.known, stats.adds), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_wanted_again_soon_wakes_who_keeps_the_time_for_a_later_one() {
    let queue = WorkQueue::new(Limiter::default());
    let [mut keeper, mut other] = workers(&queue);
    queue.add(1);
    assert!(other.get());
    queue.add_after(2, 3_600_000 * MS);
    assert!(!keeper.get());
    assert!(!other.next(Verdict::Again(10 * MS)));
    assert_eq!((keeper.woken(), other.woken()), (1, 0));
    assert!(!keeper.look());
    advance(11 * MS).await;
    assert_eq!(keeper.woken(), 1);
    assert!(keeper.look(), "10 ms went by, not an hour");
}

/// Looks of all who were woken, until nobody is.
fn all_look(workers: &mut [Worker]) {
    while let Some(worker) = workers.iter_mut().find(|worker| worker.woken() > 0) {
        worker.look();
    }
}

/// Short works and stuck ones, waits that are dropped, looks that are late: when all who were woken have
/// looked, no key is ready while somebody sleeps.
#[tokio::test(start_paused = true)]
async fn no_key_is_ready_while_somebody_sleeps() {
    let mut slept = 0;
    for seed in 0..1000 {
        let mut random = SmallRng::seed_from_u64(seed);
        let queue = queue();
        let mut workers: Vec<_> = (0..random.random_range(1..6))
            .map(|_| Worker::of(&queue))
            .collect();
        for _ in 0..10 {
            for _ in 0..random.random_range(0..40) {
                let at = random.random_range(0..workers.len());
                let worker = &mut workers[at];
                match (random.random_range(0..12), &worker.doing) {
                    (0..4, _) => {
                        queue.add(random.random_range(0..12));
                    }
                    (4, _) => {
                        queue.add_after(random.random_range(0..12), random.random_range(0..4) * MS);
                    }
                    (5, _) => advance(random.random_range(0..8) * MICROS).await,
                    (6, Doing::Waiting(_)) => worker.doing = Doing::Nothing,
                    (_, Doing::Nothing) => {
                        worker.get();
                    }
                    (_, Doing::Waiting(_)) if worker.woken() > 0 => {
                        worker.look();
                    }
                    (_, Doing::Waiting(_)) => {}
                    (7, Doing::Working(_)) => worker.settle(),
                    (8, Doing::Working(_)) => {
                        worker.next(Verdict::Again(random.random_range(0..4) * MS));
                    }
                    (_, Doing::Working(_)) => {
                        worker.next(Verdict::Forget);
                    }
                }
            }
            // Until what is delayed is due.
            for _ in 0..6 {
                all_look(&mut workers);
                let sleeps = workers.iter().any(Worker::is_waiting);
                assert!(!sleeps || queue.is_empty(), "seed {seed}: {queue:?}");
                slept += usize::from(sleeps);
                advance(MS).await;
            }
            let delayed = queue.stats().delayed > 0;
            assert!(
                !delayed || !workers.iter().any(Worker::is_waiting),
                "seed {seed}"
            );
        }
    }
    assert!(slept > 1_000, "what is tested happens");
}
