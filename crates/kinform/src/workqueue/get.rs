//! Waiting for a key.
//!
//! ```text
//! poll → look: settle, take ──a key──▶ Item
//!                 └── no key ──▶ a place among the waiters ──woken, or its time is up──▶ look
//! ```
//!
//! Upstream counterpart: `client-go:util/workqueue/queue.go` (`Get`), which holds a goroutine and
//! cannot be given up.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::future::BoxFuture;
use kinform_api::mutant;
use kinform_core::queue::{Taken, Ticket, Verdict};
use kinform_core::time::Instant;

use super::{Item, Waiter, WorkQueue};

/// Waits for a key: see [`WorkQueue::get`].
#[must_use = "nothing is handed out before it is awaited"]
pub struct Get<K: Eq + Hash + Clone> {
    // `None` once it was handed on to the item.
    queue: Option<WorkQueue<K>>,
    /// The verdict to settle first, also if the future is dropped.
    back: Option<(Ticket, Verdict)>,
    /// Its place among the waiters, while it has one.
    id: Option<NonZeroU64>,
    timer: Option<(Instant, BoxFuture<'static, ()>)>,
}

/// The result of a look at the queue.
enum Look<K: Eq + Hash + Clone> {
    /// A key, or `None` at the queue's end.
    End(Option<Item<K>>),
    /// No key yet; if an instant is given, this waiter keeps the time until then.
    Wait(Option<Instant>),
}

impl<K: Eq + Hash + Clone> Get<K> {
    /// A future that settles `back`, and waits for a key of `queue`; `queue` is `None` after its
    /// end.
    pub(super) fn new(queue: Option<WorkQueue<K>>, back: Option<(Ticket, Verdict)>) -> Self {
        Self {
            queue,
            back,
            id: None,
            timer: None,
        }
    }

    /// Settles `back`, and takes a key or a place to wait.
    fn look(&mut self, waker: &Waker) -> Look<K> {
        let Self {
            queue: handle,
            back,
            id,
            ..
        } = self;
        let queue = handle
            .as_ref()
            .expect("a future is not polled after its end");
        let now = queue.0.env.now();
        // The end of the turn wakes others: also the timekeeper, if a settled key is due earlier.
        let mut turn = queue.turn();
        let inner = turn.inner();
        // The future no longer has a place, also if a key panics while it is cloned.
        if let Some(id) = id.take() {
            inner.arrive(id);
        }
        if let Some((ticket, verdict)) = back.take() {
            inner.queue.settle(ticket, verdict, now);
        }
        if let Some(taken) = inner.queue.take(now) {
            // A waker called at the turn's end may panic: until then, this future settles the key.
            *back = Some((taken.ticket, Verdict::Retry));
            drop(turn);
            let held = handle.take().zip(back.take());
            let item = held.map(|(queue, (ticket, _))| {
                let taken = Taken { ticket, ..taken };
                Item::new(queue, taken)
            });
            return Look::End(item);
        }
        if inner.queue.is_finished() {
            drop(turn);
            *handle = None;
            return Look::End(None);
        }
        let waker = waker.clone();
        inner.last_id = inner.last_id.saturating_add(1);
        let place = inner.last_id;
        *id = Some(place);
        inner.waiters.push(Waiter { id: place, waker });
        let wake_at = inner.queue.next_wake();
        let wake_at = wake_at.filter(|_| inner.timekeeper.is_none());
        if let Some(wake_at) = wake_at {
            inner.timekeeper = Some((place, wake_at));
        }
        Look::Wait(wake_at)
    }
}

impl<K: Eq + Hash + Clone> Future for Get<K> {
    type Output = Option<Item<K>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Item<K>>> {
        let this = &mut *self;
        loop {
            let wake_at = match this.look(context.waker()) {
                Look::End(item) => {
                    this.timer = None;
                    return Poll::Ready(item);
                }
                Look::Wait(wake_at) => wake_at,
            };
            let (Some(wake_at), Some(queue)) = (wake_at, &this.queue) else {
                this.timer = None;
                return Poll::Pending;
            };
            let timer = match &mut this.timer {
                Some((until, timer)) if *until == wake_at => timer,
                timer => {
                    let env = queue.0.env.clone();
                    let sleep = Box::pin(async move { env.sleep_until(wake_at).await });
                    &mut timer.insert((wake_at, sleep)).1
                }
            };
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.timer = None;
        }
    }
}

impl<K: Eq + Hash + Clone> Drop for Get<K> {
    /// Settles its verdict, leaves the queue, and passes on its wake-up or its timekeeping.
    fn drop(&mut self) {
        let Some(queue) = &self.queue else { return };
        if let Some((ticket, verdict)) = self.back.take() {
            queue.settle(ticket, verdict);
        }
        if let Some(id) = self.id.filter(|_| !mutant!("C8")) {
            queue.turn().inner().arrive(id);
        }
    }
}

impl<K: Eq + Hash + Clone> fmt::Debug for Get<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Get")
            .field("waits", &self.id.is_some())
            .finish_non_exhaustive()
    }
}
