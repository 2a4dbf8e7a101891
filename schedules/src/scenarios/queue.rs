//! Workers, adders and the end of a work queue.
//!
//! ```text
//! adders: now, later, with a priority ──▶ WorkQueue ──▶ workers: settle, fail, panic, give up waiting
//!                                 drain, shutdown or close, at any step
//! ```
//!
//! An add counts as done when a worker was handed its key and looked at the key's number of adds
//! afterwards, or when the end of the queue returned the key.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use kinform_core::queue::{AddOutcome, Limiter, Priority, Verdict};
use shuttle::future;

use super::draw;
use crate::env::Env;
use crate::sync::CancellationToken;
use crate::time;
use crate::workqueue::{Item, WorkQueue};

type Key = &'static str;

const KEYS: [Key; 2] = ["a", "b"];
/// Adds of each adder.
const ADDS: usize = 3;
/// Failures after which a worker lets a key succeed.
const FAILURES: u32 = 2;
/// A deadline that no scenario reaches.
const FAR: Duration = Duration::from_secs(1 << 20);

/// The keys that workers have, and what became of the adds.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    /// Adds of each key that began.
    begun: BTreeMap<Key, u64>,
    /// The newest add of each key that was accepted.
    accepted: BTreeMap<Key, u64>,
    /// The newest add of each key that a worker has seen.
    seen: BTreeMap<Key, u64>,
    in_work: BTreeSet<Key>,
    is_drained: bool,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, key: Key) -> u64 {
        let mut entries = self.lock();
        let begun = entries.begun.entry(key).or_default();
        *begun += 1;
        *begun
    }

    fn end(&self, key: Key, number: u64, outcome: AddOutcome) {
        if outcome != AddOutcome::Refused {
            let mut entries = self.lock();
            let accepted = entries.accepted.entry(key).or_default();
            *accepted = number.max(*accepted);
        }
    }

    fn take(&self, key: Key) {
        let mut entries = self.lock();
        assert!(!entries.is_drained, "{key} was handed out after the drain");
        assert!(entries.in_work.insert(key), "{key} is in two hands");
        let begun = entries.begun.get(key).copied().unwrap_or(0);
        entries.seen.insert(key, begun);
    }

    fn give_back(&self, key: Key) {
        assert!(self.lock().in_work.remove(key), "{key} was in no hand");
    }

    /// Each accepted add was seen, or its key was returned.
    fn check(&self, returned: &[Key]) {
        let entries = self.lock();
        for (key, accepted) in &entries.accepted {
            let seen = entries.seen.get(key).copied().unwrap_or(0);
            assert!(
                seen >= *accepted || returned.contains(key),
                "{key}: add {accepted} is lost, {seen} was seen last"
            );
        }
    }
}

fn new_queue() -> WorkQueue<Key> {
    let base = Duration::from_millis(10);
    let limiter = Limiter::exponential(base, Duration::from_secs(1));
    WorkQueue::with_env(limiter, Env::system())
}

/// Three adders, three workers, and an end of any kind at any moment.
///
/// # Panics
/// A key was in two hands, an add was lost, or a drain ended too early.
pub fn queue_of_workers() {
    run(Ends::Any);
}

/// The same, with a drain, and a time that stands still: nothing but wake-ups wakes.
///
/// # Panics
/// As [`queue_of_workers`].
pub fn drained() {
    run(Ends::Drain);
}

/// Workers that give up waiting, also when they were woken already, and one that does not.
///
/// # Panics
/// An add was lost.
pub fn cancelled_waits() {
    time::reset();
    future::block_on(async {
        let (queue, ledger) = (new_queue(), Ledger::default());
        let fickle = (0..2).map(|_| {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            future::spawn(async move {
                for _ in 0..2 {
                    let mut get = queue.get();
                    let mut polls = 1 + draw(2);
                    let got = std::future::poll_fn(|context| match get.poll_unpin(context) {
                        std::task::Poll::Ready(item) => std::task::Poll::Ready(item),
                        // Woken once, and then no longer interested: or at once.
                        std::task::Poll::Pending if polls == 1 => std::task::Poll::Ready(None),
                        std::task::Poll::Pending => {
                            polls -= 1;
                            context.waker().wake_by_ref();
                            std::task::Poll::Pending
                        }
                    });
                    if let Some(item) = got.await {
                        work(&ledger, &item).await;
                        item.settle(Verdict::Forget);
                    }
                    future::yield_now().await;
                    drop(get);
                }
            })
        });
        let fickle: Vec<_> = fickle.collect();
        let steady = {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            future::spawn(async move {
                while let Some(item) = queue.get().await {
                    work(&ledger, &item).await;
                    item.settle(Verdict::Forget);
                }
            })
        };
        for key in [KEYS[0], KEYS[1], KEYS[0]] {
            let number = ledger.begin(key);
            let outcome = queue.add(key);
            ledger.end(key, number, outcome);
            future::yield_now().await;
        }
        // No shutdown yet, which would wake everybody: the keys have to be worked on first.
        while !queue.is_empty() || !ledger.lock().in_work.is_empty() {
            future::yield_now().await;
        }
        for task in fickle {
            task.await.expect("the task ended well");
        }
        queue.shut_down();
        steady.await.expect("the task ended well");
        ledger.check(&[]);
    });
}

/// The ends that a queue may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Any,
    Drain,
}

fn run(ends: Ends) {
    time::reset();
    future::block_on(async move {
        let (queue, ledger) = (new_queue(), Ledger::default());
        let with_time = ends == Ends::Any;
        let mut tasks = Vec::new();
        for _ in 0..3 {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            tasks.push(future::spawn(add(queue, ledger, with_time)));
        }
        for _ in 0..3 {
            let (queue, ledger) = (queue.clone(), ledger.clone());
            tasks.push(future::spawn(serve(queue, ledger, with_time)));
        }
        let stop = CancellationToken::new();
        let clock = with_time.then(|| future::spawn(time::keep(stop.clone())));
        for _ in 0..draw(8) {
            future::yield_now().await;
        }
        let returned = end(&queue, &ledger, ends).await;
        for task in tasks {
            task.await.expect("the task ended well");
        }
        stop.cancel();
        if let Some(clock) = clock {
            clock.await.expect("the task ended well");
        }
        assert!(ledger.lock().in_work.is_empty(), "a key is still in a hand");
        assert!(queue.is_empty(), "a key still waits");
        ledger.check(&returned);
    });
}

async fn end(queue: &WorkQueue<Key>, ledger: &Ledger, ends: Ends) -> Vec<Key> {
    let kind = if ends == Ends::Drain { 0 } else { draw(3) };
    match kind {
        0 => {
            let returned = queue.drain(FAR).await.expect("the deadline is far");
            let mut entries = ledger.lock();
            assert!(
                entries.in_work.is_empty(),
                "drained while a worker has a key"
            );
            entries.is_drained = true;
            returned
        }
        1 => queue.shut_down(),
        _ => queue.close(),
    }
}

async fn add(queue: WorkQueue<Key>, ledger: Ledger, with_time: bool) {
    for _ in 0..ADDS {
        let key = KEYS[draw(KEYS.len())];
        let number = ledger.begin(key);
        let outcome = match draw(4) {
            0 if with_time => queue.add_after(key, Duration::from_millis(50)),
            1 => queue.add_with(key, Priority::High),
            _ => queue.add(key),
        };
        ledger.end(key, number, outcome);
        future::yield_now().await;
    }
}

async fn serve(queue: WorkQueue<Key>, ledger: Ledger, with_time: bool) {
    let mut next = queue.get();
    while let Some(item) = next.await {
        work(&ledger, &item).await;
        let may_fail = with_time && item.failures() < FAILURES;
        next = match draw(if may_fail { 6 } else { 2 }) {
            0 => item.settle_and_get(Verdict::Forget),
            1 => {
                item.settle(Verdict::Done);
                queue.get()
            }
            2 => item.settle_and_get(Verdict::Retry),
            3 => {
                item.settle(Verdict::Later(Duration::from_millis(20)));
                queue.forget(&KEYS[0]);
                queue.get()
            }
            4 => {
                drop(item);
                queue.get()
            }
            _ => {
                // Without the hook that prints: the scheduler's would end the run.
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    let _held = item;
                    resume_unwind(Box::new("a worker panicked"))
                }));
                assert!(panicked.is_err());
                queue.get()
            }
        };
    }
}

async fn work(ledger: &Ledger, item: &Item<Key>) {
    ledger.take(item.key());
    for _ in 0..draw(3) {
        future::yield_now().await;
    }
    ledger.give_back(item.key());
}
