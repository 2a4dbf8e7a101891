//! The connections of one server, and the one that makes room for a new one.
//!
//! ```text
//! accept ──enter──▶ Seat ──dropped──▶ room
//!             └──full──▶ the oldest idle one is displaced; without one, the new one waits
//! ```
//!
//! A connection is idle while no request of it is under way. So a client that sends its bytes
//! slowly, or reads slowly, makes room for others, and a request that is answered never does.
//!
//! Complexity: entering a full server walks over the connections that are busy.
//!
//! Upstream: none; a Go server has as many connections as there are descriptors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The open connections.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// By the order of their arrival.
    seats: BTreeMap<u64, Arc<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Requests under way.
    requests: AtomicUsize,
    has_begun: AtomicBool,
    displaced: CancellationToken,
}

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            // BOUND: without a seat, no connection would ever be served.
            most: most.max(1),
            open: Mutex::default(),
            freed: Notify::new(),
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a seat, waiting while all seats are busy.
    ///
    /// # Cancel safety
    /// No seat is taken when dropped.
    pub(super) async fn enter(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.try_enter() {
                return seat;
            }
            freed.await;
        }
    }

    /// Ends the oldest idle connection. Does nothing while all are busy.
    pub(super) fn displace(&self) {
        self.open().displace();
    }

    fn try_enter(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut open = self.open();
        if open.seats.len() >= self.most {
            open.displace()?;
        }
        let (number, state) = (open.next, Arc::<State>::default());
        open.next += 1;
        open.seats.insert(number, state.clone());
        let seats = self.clone();
        Some(Arc::new(Seat {
            seats,
            number,
            state,
        }))
    }
}

impl Open {
    fn displace(&mut self) -> Option<()> {
        let is_idle = |state: &State| state.requests.load(Ordering::Relaxed) == 0;
        let mut idle = self.seats.iter().filter(|(_, state)| is_idle(state));
        let oldest = idle.next().map(|(number, _)| *number)?;
        self.seats.remove(&oldest)?.displaced.cancel();
        Some(())
    }
}

/// The seat of one connection. Dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    state: Arc<State>,
}

impl Seat {
    /// Ends when the connection has to make room for another.
    pub(super) async fn displaced(&self) {
        self.state.displaced.cancelled().await;
    }

    /// Counts a request as under way until the returned guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> UnderWay {
        self.state.has_begun.store(true, Ordering::Relaxed);
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Returns whether a request has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.state.has_begun.load(Ordering::Relaxed)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.open().seats.remove(&self.number);
        self.seats.freed.notify_one();
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Seat>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state.requests.fetch_sub(1, Ordering::Relaxed);
        // It may be idle now, and make room for one that waits.
        self.0.seats.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_oldest_idle_connection_makes_room_and_a_busy_one_never() {
        let seats = Seats::new(2);
        let enter = || seats.enter().now_or_never();
        let (first, second) = (enter().unwrap(), enter().unwrap());
        let request = first.begin_request();
        let third = enter().unwrap();
        assert!(second.displaced().now_or_never().is_some());
        assert!(first.displaced().now_or_never().is_none());
        let _busy = third.begin_request();
        assert!(enter().is_none(), "both are busy");
        drop(request);
        let fourth = enter().unwrap();
        assert!(first.displaced().now_or_never().is_some());
        drop((first, second));
        assert_eq!(seats.open().seats.len(), 2);
        drop((third, fourth));
        // The request under way holds the third.
        assert_eq!(seats.open().seats.len(), 1);
    }

    #[tokio::test]
    async fn a_connection_that_waits_enters_when_a_request_ends() {
        let seats = Seats::new(1);
        let first = seats.enter().await;
        let request = first.begin_request();
        let mut waiting = Box::pin(seats.enter());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(request);
        let _second = waiting.await;
        assert!(first.displaced().now_or_never().is_some());
    }
}
