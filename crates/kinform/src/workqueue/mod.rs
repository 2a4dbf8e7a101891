//! The work queue for async workers: keys in from handlers, keys out to waiting workers.
//!
//! ```text
//! add (from any thread) → Mutex<Queue> → get().await → Item → settle, or dropped = failed
//! ```
//!
//! A clone is a handle. The lock is a std one, held for the machine's work and never across an
//! await. There is no background task: a delayed key needs a timer only if a worker waits for it,
//! so one of the waiting workers keeps the time, and hands that duty on when it leaves. An add
//! wakes at most one worker, and none if all are busy, or if as many were woken as keys are ready.
//!
//! INVARIANT: while workers wait and keys are ready, a woken worker has not looked at the queue
//! yet. If fewer were woken than keys are ready, its look wakes one more. While workers wait and a
//! key is delayed, a worker was woken or keeps the time.
//!
//! `item.rs` is a worker's key, `get.rs` the wait for one.
//!
//! Upstream counterpart: `client-go:util/workqueue` (`TypedRateLimitingInterface`), where each
//! queue has a goroutine for delays and one for metrics.

mod get;
mod item;

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU64;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use kinform_api::mutant;
use kinform_core::causes::{Cause, Causes};
use kinform_core::queue::{
    AddOutcome, Fairness, Limiter, Next, Priority, Queue, QueueStats, Running, Ticket, Verdict,
    Waiting,
};
use kinform_core::time::Instant;

pub use self::get::Get;
pub use self::item::Item;
use crate::env::Env;
use crate::sync::{Mutex, MutexGuard, Notify};

/// A handle of a work queue.
#[doc(alias = "TypedRateLimitingInterface")]
pub struct WorkQueue<K: Eq + Hash + Clone>(Arc<Shared<K>>);

/// The keys that were left when a drain stopped waiting.
#[derive(Debug)]
pub struct Undrained<K> {
    /// The keys that workers still have, the longest held first.
    pub running: Vec<Running<K>>,
    /// The number of keys that wait for a worker.
    pub waiting: usize,
}

struct Shared<K> {
    inner: Mutex<Inner<K>>,
    drained: Notify,
    env: Env,
}

struct Inner<K> {
    queue: Queue<K>,
    // BOUND: the number of pending `get`s. INVARIANT: empty at the end of a turn, once the queue is
    // shut down.
    waiters: Vec<Waiter>,
    /// The waiter that keeps the time, and its deadline.
    timekeeper: Option<(NonZeroU64, Instant)>,
    // INVARIANT: the number of `Get`s that were woken, and neither polled nor dropped since.
    on_their_way: usize,
    last_id: NonZeroU64,
    /// The number of times the queue was closed: a drain that began before ends.
    closed: u64,
}

struct Waiter {
    id: NonZeroU64,
    waker: Waker,
}

/// BOUND: keys added under one lock.
const AT_ONCE: usize = 256;

impl<K: Eq + Hash + Clone> WorkQueue<K> {
    /// An empty queue whose failed keys wait according to `limiter`.
    #[must_use]
    pub fn new(limiter: Limiter) -> Self {
        Self::with_env(limiter, Env::system())
    }

    /// The same, with the clock of `env`.
    #[must_use]
    pub fn with_env(limiter: Limiter, env: Env) -> Self {
        let inner = Inner {
            queue: Queue::new(limiter),
            waiters: Vec::new(),
            timekeeper: None,
            on_their_way: 0,
            last_id: NonZeroU64::MIN,
            closed: 0,
        };
        Self(Arc::new(Shared {
            inner: Mutex::new(inner),
            drained: Notify::new(),
            env,
        }))
    }

    /// Lets groups of keys take turns from now on, for all handles of the queue. Default: no groups.
    #[must_use]
    pub fn fair_by(self, fairness: Fairness<K>) -> Self {
        self.lock().queue.be_fair(fairness);
        self
    }

    /// Adds a key, to be handed out as soon as a worker is free.
    pub fn add(&self, key: K) -> AddOutcome {
        self.add_with(key, Priority::Normal)
    }

    /// Adds a key with a priority.
    pub fn add_with(&self, key: K, priority: Priority) -> AddOutcome {
        let now = self.0.env.now();
        self.change(|queue| queue.add(key, priority, now))
    }

    /// Adds keys, in order, as [`add_with`](Self::add_with) does one after the other, but takes the
    /// lock once for each 256 keys. Returns the number of keys that began to wait; the others
    /// waited already, or are refused.
    ///
    /// # Panics
    /// If `Hash` or `Eq` of a key panics: the keys before it are added then, but not it and those
    /// after it.
    pub fn add_all(&self, keys: Vec<K>, priority: Priority) -> usize {
        let mut keys = keys.into_iter();
        let mut queued = 0;
        while keys.len() > 0 {
            let now = self.0.env.now();
            queued += self.change(|queue| {
                let added = keys.by_ref().take(AT_ONCE);
                let added = added.map(|key| queue.add(key, priority, now));
                added.filter(|added| *added == AddOutcome::Queued).count()
            });
        }
        queued
    }

    /// As [`add_all`](Self::add_all), and states why each key is added.
    pub(crate) fn add_caused(&self, keys: Vec<(K, Cause)>, priority: Priority) {
        let mut keys = keys.into_iter();
        while keys.len() > 0 {
            let now = self.0.env.now();
            self.change(|queue| {
                for (key, cause) in keys.by_ref().take(AT_ONCE) {
                    queue.add_caused(key, priority, cause, now);
                }
            });
        }
    }

    /// Adds a key that was handed out and not worked on, with the causes that it had, and one more.
    pub(crate) fn add_back(&self, key: K, priority: Priority, had: Option<Causes>, back: Cause) {
        let now = self.0.env.now();
        self.change(|queue| {
            if let Some(causes) = had {
                queue.add_back(key.clone(), priority, Box::new(causes), now);
            }
            queue.add_caused(key, priority, back, now);
        });
    }

    /// Adds a key, to be handed out after `delay`, or earlier after another add.
    pub fn add_after(&self, key: K, delay: Duration) -> AddOutcome {
        let now = self.0.env.now();
        self.change(|queue| queue.add_after(key, delay, now))
    }

    /// Adds a key, to be handed out after `delay`, in place of an earlier delay.
    pub fn replace_after(&self, key: K, delay: Duration) -> AddOutcome {
        let now = self.0.env.now();
        self.change(|queue| queue.replace_after(key, delay, now))
    }

    /// Adds a key that failed, to be handed out when the limiter allows.
    pub fn add_rate_limited(&self, key: K) -> AddOutcome {
        let now = self.0.env.now();
        self.change(|queue| queue.add_rate_limited(key, now))
    }

    /// Sets the key's wake-up time: it is handed out after `delay`, also if it is handed out before.
    /// A key has one wake-up time at most, until it passes, is replaced, or is cancelled.
    pub fn wake_after(&self, key: K, delay: Duration) -> AddOutcome {
        let now = self.0.env.now();
        self.change(|queue| queue.wake_after(key, delay, now))
    }

    /// Cancels a wake-up time. Returns whether there was one.
    pub fn cancel_wake(&self, key: &K) -> bool {
        self.lock().queue.cancel_wake(key)
    }

    /// Cancels a delayed add. Returns whether there was one.
    pub fn cancel(&self, key: &K) -> bool {
        self.lock().queue.cancel(key)
    }

    /// Forgets a key's failures.
    pub fn forget(&self, key: &K) {
        self.lock().queue.forget(key);
    }

    /// The number of failures of a key since it was last forgotten.
    #[must_use]
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.lock().queue.num_requeues(key)
    }

    /// The number of keys that wait for a worker.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().queue.len()
    }

    /// Returns whether no key waits for a worker.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the queue refuses new keys.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.lock().queue.is_shut_down()
    }

    /// The counters of the queue.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        self.lock().queue.stats(self.0.env.now())
    }

    /// The clock of the queue.
    pub(crate) fn env(&self) -> Env {
        self.0.env.clone()
    }

    /// The keys that wait for a worker, the oldest first, then those that wait for their time. At most
    /// `limit`.
    ///
    /// # Complexity
    /// A pass over the keys in flight, under the lock: for people who look, not for each add.
    #[must_use]
    pub fn waiting(&self, limit: usize) -> Vec<Waiting<K>> {
        self.lock().queue.waiting(limit, self.0.env.now())
    }

    /// The same, of one key; `None` if it does not wait.
    #[must_use]
    pub fn waiting_for(&self, key: &K) -> Option<Waiting<K>> {
        self.lock().queue.waiting_for(key, self.0.env.now())
    }

    /// The keys that workers have, the longest held first.
    #[must_use]
    pub fn running(&self) -> Vec<Running<K>> {
        self.lock().queue.running(self.0.env.now())
    }

    /// Waits for a key. Resolves to `None` once the queue is shut down and every key was handed
    /// out.
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: a key that it was woken for goes to another worker. A future that
    /// was woken but is neither polled nor dropped, since its task is busy, delays that key.
    ///
    /// # Order guarantees
    /// By priority, but see [`Priority`]; then groups take turns ([`Fairness`]); within a group
    /// first in, first out. Two workers never hold the same key.
    pub fn get(&self) -> Get<K> {
        Get::new(Some(self.clone()), None)
    }

    /// Refuses further adds; waiting keys are handed out, delayed keys are removed and returned.
    ///
    /// # Panics
    /// If `Clone` of a key panics, which is called only if the queue has further state of the key.
    /// The queue is shut down then; this key and those removed before it are not returned, and
    /// another call removes the others.
    pub fn shut_down(&self) -> Vec<K> {
        self.end(|queue, now| queue.shut_down(now))
    }

    /// The same, but waiting keys are removed and returned, too. A [`drain`](Self::drain) that
    /// waits ends, also while workers have keys.
    pub fn close(&self) -> Vec<K> {
        self.lock().closed += 1;
        let given_up = self.end(|queue, now| queue.close(now));
        self.0.drained.notify_waiters();
        given_up
    }

    /// Removes the waiting and delayed keys, their failures too, and takes further adds. Keys that
    /// workers have are not handed out again for adds before. Returns the number of keys removed.
    ///
    /// Upstream: no counterpart; a queue there serves one run.
    pub fn clear(&self) -> usize {
        let now = self.0.env.now();
        self.change(|queue| queue.clear(now))
    }

    /// Shuts down and waits until no key waits and no worker has a key. Returns the delayed keys,
    /// which are removed.
    ///
    /// # Errors
    /// `within` went by, or the queue was closed meanwhile, while keys still wait or workers still
    /// have keys. The error counts the former and names the latter.
    ///
    /// # Cancel safety
    /// Dropping it stops the waiting; the queue stays shut down.
    ///
    /// Upstream: `ShutDownWithDrain`, which does not wait for queued keys and knows no deadline; a
    /// `ShutDown` after it ends the waiting there.
    pub async fn drain(&self, within: Duration) -> Result<Vec<K>, Undrained<K>> {
        let deadline = self.0.env.now() + within;
        let closed = self.lock().closed;
        let given_up = self.shut_down();
        loop {
            let mut drained = std::pin::pin!(self.0.drained.notified());
            drained.as_mut().enable();
            let (is_drained, is_closed) = {
                let inner = self.lock();
                (inner.queue.is_drained(), inner.closed != closed)
            };
            if is_drained {
                return Ok(given_up);
            }
            if mutant!("C3") {
                drained.set(self.0.drained.notified());
            }
            if is_closed {
                return Err(self.undrained());
            }
            tokio::select! {
                biased;
                () = drained => {}
                () = self.0.env.sleep_until(deadline) => return Err(self.undrained()),
            }
        }
    }

    fn undrained(&self) -> Undrained<K> {
        let now = self.0.env.now();
        let inner = self.lock();
        Undrained {
            running: inner.queue.running(now),
            waiting: inner.queue.len(),
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Queue<K>) -> T) -> T {
        change(&mut self.turn().inner().queue)
    }

    fn turn(&self) -> Turn<'_, K> {
        Turn(self, Some(self.lock()))
    }

    /// The end of the turn wakes all waiters, also if a key panics while it is cloned.
    fn end(&self, end: impl FnOnce(&mut Queue<K>, Instant) -> Vec<K>) -> Vec<K> {
        let now = self.0.env.now();
        self.change(|queue| end(queue, now))
    }

    fn settle(&self, ticket: Ticket, verdict: Verdict) -> Next {
        let now = self.0.env.now();
        let mut inner = self.lock();
        let next = inner.queue.settle(ticket, verdict, now);
        let woken = if mutant!("B26") {
            None
        } else {
            inner.next_waker()
        };
        let drained = inner.queue.is_drained();
        drop(inner);
        self.tell(woken, drained);
        next
    }

    /// Called outside of the lock: a waker is foreign code.
    fn tell(&self, woken: Option<Waker>, drained: bool) {
        if let Some(woken) = woken {
            woken.wake();
        }
        if drained {
            self.0.drained.notify_waiters();
        }
    }

    /// The lock. A poisoned one stays usable: it can be poisoned by a panic in a key's `Hash` or
    /// `Eq`, which are called before anything is changed for that key, or in its `Clone`, which
    /// costs only that key: it is dropped instead of handed out. In a shutdown it costs the keys to
    /// be returned.
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn with the lock; its end, also by a panic in a key's `Hash`, `Eq` or `Clone`, wakes the
/// workers concerned.
struct Turn<'q, K: Eq + Hash + Clone>(&'q WorkQueue<K>, Option<MutexGuard<'q, Inner<K>>>);

impl<K: Eq + Hash + Clone> Turn<'_, K> {
    fn inner(&mut self) -> &mut Inner<K> {
        self.1.as_mut().expect("the turn has not ended")
    }
}

impl<K: Eq + Hash + Clone> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        let Self(queue, inner) = self;
        if let Some(mut inner) = inner.take() {
            let waiters = inner.take_waiters();
            let woken = inner.next_waker();
            let drained = inner.queue.is_drained();
            drop(inner);
            waiters.into_iter().for_each(|waiter| waiter.waker.wake());
            queue.tell(woken, drained);
        }
    }
}

impl<K> Inner<K> {
    /// The worker to wake: one for a key that no other was woken for, or one to keep the time.
    fn next_waker(&mut self) -> Option<Waker>
    where
        K: Eq + Hash + Clone,
    {
        let last = self.waiters.last()?.id;
        let ready = self.queue.len();
        let id = if ready > 0 {
            Some(last).filter(|_| ready > self.on_their_way)
        } else {
            let wake_at = self.queue.next_wake()?;
            match self.timekeeper {
                None => Some(last),
                Some((keeper, until)) => Some(keeper).filter(|_| wake_at < until),
            }
        };
        let woken = self.remove_waiter(id?);
        self.on_their_way += usize::from(woken.is_some());
        woken
    }

    /// Takes all waiters once the queue is shut down: no further wait begins then.
    #[inline]
    fn take_waiters(&mut self) -> Vec<Waiter>
    where
        K: Eq + Hash + Clone,
    {
        if !self.queue.is_shut_down() {
            return Vec::new();
        }
        let woken = std::mem::take(&mut self.waiters);
        self.on_their_way += woken.len();
        self.timekeeper = None;
        woken
    }

    fn remove_waiter(&mut self, id: NonZeroU64) -> Option<Waker> {
        if self.timekeeper.is_some_and(|(keeper, _)| keeper == id) {
            self.timekeeper = None;
        }
        let at = self.waiters.iter().rposition(|waiter| waiter.id == id)?;
        Some(self.waiters.remove(at).waker)
    }

    /// A worker looks, or leaves: it is no longer among the woken or waiting.
    fn arrive(&mut self, id: NonZeroU64) {
        if self.remove_waiter(id).is_none() {
            debug_assert!(self.on_their_way > 0, "who was woken is counted");
            self.on_their_way -= 1;
        }
    }
}

impl<K: Eq + Hash + Clone> Default for WorkQueue<K> {
    fn default() -> Self {
        Self::new(Limiter::default())
    }
}

impl<K: Eq + Hash + Clone> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Eq + Hash + Clone> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("waiting", &self.len())
            .finish_non_exhaustive()
    }
}

impl<K: fmt::Debug> fmt::Display for Undrained<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { running, waiting } = self;
        write!(
            f,
            "the queue is not drained: {waiting} keys wait, in work are"
        )?;
        // BOUND: a message names as many as one can read.
        for Running { key, since } in running.iter().take(8) {
            write!(f, " {key:?} (for {since:?})")?;
        }
        match running.len() {
            0 => f.write_str(" none"),
            1..=8 => Ok(()),
            more => write!(f, " and {} more", more - 8),
        }
    }
}

impl<K: fmt::Debug> std::error::Error for Undrained<K> {}
