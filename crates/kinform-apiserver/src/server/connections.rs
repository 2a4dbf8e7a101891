//! The connections that are open, and the one that makes room for a new one.
//!
//! ```text
//! accept ──enter──▶ Seat ──valid credential──▶ known seat ──end──▶ room for the next
//!             └──too many strangers──▶ the oldest idle one is displaced
//! ```
//!
//! A connection is a stranger until one of its requests shows a valid credential. Strangers have a
//! share of the seats; they never take the seats of the others. A known connection is never
//! displaced, so when all seats are known a new connection waits.
//!
//! BOUND: 4,096 connections, 2,048 of them strangers.
//!
//! Complexity: entering walks over the strangers that are busy.
//!
//! Upstream: none; a Go server has as many connections as there are descriptors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// BOUND: the number of strangers that are displaced when there are no descriptors: as many as arrive
/// until the next look.
const AT_ONCE: usize = 64;

/// The most connections at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) connections: usize,
    pub(super) strangers: usize,
}

impl Default for Most {
    fn default() -> Self {
        // BOUND: connections at a time; more wait in the kernel's queue.
        Self {
            connections: 4096,
            strangers: 2048,
        }
    }
}

/// The open connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    most: Most,
    seats: Mutex<Seats>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Seats {
    next: u64,
    /// Strangers by the order of their arrival.
    strangers: BTreeMap<u64, Arc<Stranger>>,
    known: usize,
}

#[derive(Debug, Default)]
struct Stranger {
    /// The requests under way.
    requests: AtomicUsize,
    displaced: CancellationToken,
}

impl Connections {
    #[cfg(test)]
    fn new(most: Most) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a seat for a new connection, waiting while all seats belong to known connections.
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

    /// Displaces some strangers: the process has no descriptors left for new connections.
    pub(super) fn make_room(&self) {
        let mut seats = self.seats();
        for _ in 0..AT_ONCE {
            if seats.displace().is_none() {
                return;
            }
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut seats = self.seats();
        let strangers = seats.strangers.len();
        if strangers >= self.most.strangers || strangers + seats.known >= self.most.connections {
            seats.displace()?;
        }
        let (number, stranger) = (seats.next, Arc::<Stranger>::default());
        seats.next += 1;
        seats.strangers.insert(number, stranger.clone());
        Some(Arc::new(Seat {
            connections: self.clone(),
            number,
            stranger,
        }))
    }
}

impl Seats {
    /// Displaces the oldest idle stranger, or the oldest one if no stranger is idle.
    fn displace(&mut self) -> Option<()> {
        let is_idle = |of: &Stranger| of.requests.load(Ordering::Relaxed) == 0;
        let mut idle = self.strangers.iter().filter(|(_, of)| is_idle(of));
        let idle = idle.next().map(|(number, _)| *number);
        let oldest = idle.or_else(|| self.strangers.keys().next().copied())?;
        let stranger = self.strangers.remove(&oldest)?;
        stranger.displaced.cancel();
        Some(())
    }
}

/// The seat of one connection. Dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    connections: Arc<Connections>,
    number: u64,
    stranger: Arc<Stranger>,
}

impl Seat {
    /// Notes that the connection has shown a valid credential.
    pub(super) fn become_known(&self) {
        let mut seats = self.connections.seats();
        // A stranger that was displaced a moment ago stays so.
        if seats.strangers.remove(&self.number).is_some() {
            seats.known += 1;
        }
    }

    /// Ends when the connection has to make room for another.
    pub(super) async fn displaced(&self) {
        self.stranger.displaced.cancelled().await;
    }

    /// Counts a request as under way until the returned guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> UnderWay {
        self.stranger.requests.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }

    /// Returns whether no request is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.stranger.requests.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.connections.seats();
        if seats.strangers.remove(&self.number).is_none() && !self.stranger.displaced.is_cancelled()
        {
            seats.known -= 1;
        }
        drop(seats);
        self.connections.freed.notify_one();
    }
}

/// A request under way.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Seat>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.stranger.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn connections() -> Arc<Connections> {
        Arc::new(Connections::new(Most {
            connections: 4,
            strangers: 2,
        }))
    }

    fn entered(connections: &Arc<Connections>) -> Arc<Seat> {
        connections.enter().now_or_never().expect("there is room")
    }

    fn is_displaced(seat: &Seat) -> bool {
        seat.displaced().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_idle_stranger_makes_room() {
        let connections = connections();
        let (first, second) = (entered(&connections), entered(&connections));
        let request = first.begin_request();
        let third = entered(&connections);
        assert!(!is_displaced(&first) && is_displaced(&second));
        drop(request);
        let fourth = entered(&connections);
        assert!(is_displaced(&first) && !is_displaced(&third) && !is_displaced(&fourth));
        let _busy = (third.begin_request(), fourth.begin_request());
        let _fifth = entered(&connections);
        assert!(is_displaced(&third), "the oldest if no stranger is idle");
        connections.make_room();
        assert!(is_displaced(&fourth));
    }

    #[test]
    fn a_known_connection_is_never_displaced() {
        let connections = connections();
        let known = entered(&connections);
        known.become_known();
        let seats: Vec<_> = (0..10).map(|_| entered(&connections)).collect();
        assert!(!is_displaced(&known));
        assert_eq!(seats.iter().filter(|seat| !is_displaced(seat)).count(), 2);
    }

    #[test]
    fn a_connection_waits_only_while_all_seats_are_known() {
        let connections = connections();
        let known: Vec<_> = (0..4)
            .map(|_| {
                let seat = entered(&connections);
                seat.become_known();
                seat
            })
            .collect();
        assert!(connections.enter().now_or_never().is_none());
        drop(known);
        let displaced = entered(&connections);
        let _more = (entered(&connections), entered(&connections));
        displaced.become_known();
        drop(displaced);
        assert_eq!(connections.seats().known, 0);
        assert_eq!(connections.seats().strangers.len(), 2);
    }
}
