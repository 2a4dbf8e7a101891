//! Time, as a scenario lets it pass.
//!
//! ```text
//! pass(to) ──▶ now() ─ fire() ──▶ sleep_until: those whose time has come
//! ```
//!
//! Timers may be late: between [`pass`] and [`fire`] the clock has moved, and no sleeper knows. Each
//! execution of a scenario begins at zero by [`reset`]. One execution runs on one thread of the
//! system, so that time is a local of that thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kinform_core::time::Instant;

use crate::sync::CancellationToken;

thread_local! {
    static TIME: RefCell<Time> = RefCell::new(Time::default());
}

#[derive(Debug)]
struct Time {
    now: Instant,
    fired: Instant,
    last_id: u64,
    sleepers: Vec<(Instant, u64, Waker)>,
    // The task of `keep`, while no one sleeps.
    keeper: Option<Waker>,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            now: Instant::ZERO,
            fired: Instant::ZERO,
            last_id: 0,
            sleepers: Vec::new(),
            keeper: None,
        }
    }
}

/// From here on, the time is never reached: no sleeper waits for it.
const FAR: Duration = Duration::from_secs(3600);

/// Time begins at zero; nobody sleeps.
pub fn reset() {
    let old = TIME.with_borrow_mut(std::mem::take);
    drop(old);
}

/// Now.
#[must_use]
pub fn now() -> Instant {
    TIME.with_borrow(|time| time.now)
}

/// Lets time pass up to an instant, without waking those who sleep.
pub fn pass(to: Instant) {
    TIME.with_borrow_mut(|time| time.now = time.now.max(to));
}

/// Wakes the sleepers whose time has come.
pub fn fire() {
    let woken = TIME.with_borrow_mut(|time| {
        time.fired = time.now;
        let now = time.now;
        let due = time.sleepers.extract_if(.., |(at, ..)| *at <= now);
        due.collect::<Vec<_>>()
    });
    woken.into_iter().for_each(|(.., waker)| waker.wake());
}

/// Waits for a timer.
pub async fn sleep_until(at: Instant) {
    if at.since_start() >= FAR {
        return std::future::pending().await;
    }
    let id = TIME.with_borrow_mut(|time| {
        time.last_id += 1;
        time.last_id
    });
    Sleep { at, id }.await;
}

#[derive(Debug)]
struct Sleep {
    at: Instant,
    id: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let keeper = TIME.with_borrow_mut(|time| {
            time.sleepers.retain(|(_, id, _)| *id != self.id);
            if time.fired >= self.at {
                return Err(());
            }
            let waker = context.waker().clone();
            time.sleepers.push((self.at, self.id, waker));
            Ok(time.keeper.take())
        });
        match keeper {
            Err(()) => Poll::Ready(()),
            Ok(keeper) => {
                keeper.into_iter().for_each(Waker::wake);
                Poll::Pending
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let gone = TIME.with_borrow_mut(|time| {
            let gone = time.sleepers.extract_if(.., |(_, id, _)| *id == self.id);
            gone.collect::<Vec<_>>()
        });
        drop(gone);
    }
}

/// Keeps time passing: to the next sleeper's instant, whenever this task is chosen to run.
pub async fn keep(until: CancellationToken) {
    let next = || TIME.with_borrow(|time| time.sleepers.iter().map(|(at, ..)| *at).min());
    let mut sleeper = std::future::poll_fn(|context| match next() {
        Some(at) => Poll::Ready(at),
        None => {
            let waker = context.waker().clone();
            TIME.with_borrow_mut(|time| time.keeper = Some(waker));
            Poll::Pending
        }
    });
    loop {
        tokio::select! {
            biased;
            () = until.cancelled() => return,
            at = &mut sleeper => {
                pass(at);
                shuttle::future::yield_now().await;
                fire();
            }
        }
    }
}
