//! A model of `tokio::sync::Notify`, without permits.
//!
//! ```text
//! notified() ──remembers the round──▶ Notified ──poll──▶ ready once notify_waiters began another
//! ```
//!
//! As tokio promises, a `Notified` hears every `notify_waiters` after it was made, polled or not.
//! Not modelled: `notify_one`, which no included module calls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Mutex, lock};

/// Wakes all that wait.
#[derive(Debug, Default)]
pub struct Notify {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    round: u64,
    last_id: u64,
    wakers: Vec<(u64, Waker)>,
}

/// Waits for the next round.
#[derive(Debug)]
pub struct Notified<'a> {
    notify: &'a Notify,
    round: u64,
    id: u64,
}

impl Notify {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A future that ends with the first [`notify_waiters`](Self::notify_waiters) from now on.
    pub fn notified(&self) -> Notified<'_> {
        let mut state = lock(&self.state);
        state.last_id += 1;
        Notified {
            notify: self,
            round: state.round,
            id: state.last_id,
        }
    }

    /// Ends all futures that were made until now.
    pub fn notify_waiters(&self) {
        let wakers = {
            let mut state = lock(&self.state);
            state.round += 1;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Notified<'_> {
    /// Returns whether it has been notified. It hears all calls without this, too.
    pub fn enable(self: Pin<&mut Self>) -> bool {
        lock(&self.notify.state).round != self.round
    }
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.notify.state);
        if state.round != self.round {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        match state.wakers.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, known)) => *known = waker,
            None => state.wakers.push((self.id, waker)),
        }
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.notify.state);
        state.wakers.retain(|(id, _)| *id != self.id);
    }
}
