//! The seats of viewers: open streams of events.
//!
//! ```text
//! enter ─▶ Viewer (in the stream) ─dropped─▶ room        full ─▶ one that reads no more gives way, or none
//! ```
//!
//! BOUND: eight viewers.
//! Upstream counterpart: none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// BOUND: viewers at a time.
pub(super) const VIEWERS: usize = 8;
/// A viewer that has not read for so long gives way to a new one.
const STALLED: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Viewers(Mutex<Vec<Weak<Seat>>>);

#[derive(Debug)]
struct Seat {
    last_read: Mutex<Instant>,
}

/// A viewer's seat. Dropping it makes room.
#[derive(Debug)]
pub(super) struct Viewer {
    seat: Arc<Seat>,
    viewers: Arc<Viewers>,
}

impl Viewers {
    fn seats(&self) -> MutexGuard<'_, Vec<Weak<Seat>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat, if there is one.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Viewer> {
        let now = Instant::now();
        let mut seats = self.seats();
        seats.retain(|seat| seat.strong_count() > 0);
        if seats.len() >= VIEWERS {
            let is_stalled = |seat: &Weak<Seat>| {
                let seat = seat.upgrade();
                seat.is_none_or(|seat| now.duration_since(seat.last_read()) >= STALLED)
            };
            let stalled = seats.iter().position(is_stalled)?;
            seats.remove(stalled);
        }
        let seat = Arc::new(Seat {
            last_read: Mutex::new(now),
        });
        seats.push(Arc::downgrade(&seat));
        drop(seats);
        let viewers = Arc::clone(self);
        Some(Viewer { seat, viewers })
    }
}

impl Seat {
    fn last_read(&self) -> Instant {
        *self
            .last_read
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewer {
    /// The viewer reads on. Returns whether it still has its seat.
    pub(super) fn read(&self) -> bool {
        let mut last = self
            .seat
            .last_read
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Instant::now();
        drop(last);
        let seats = self.viewers.seats();
        seats
            .iter()
            .any(|seat| std::ptr::eq(seat.as_ptr(), Arc::as_ptr(&self.seat)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_ninth_viewer_has_no_seat_unless_one_left_or_reads_no_more() {
        let viewers = Arc::<Viewers>::default();
        let mut seated: Vec<_> = (0..VIEWERS).map(|_| viewers.enter().unwrap()).collect();
        assert!(viewers.enter().is_none());
        drop(seated.pop());
        seated.push(viewers.enter().unwrap());
        tokio::time::advance(STALLED).await;
        assert!(seated[1..].iter().all(Viewer::read));
        let ninth = viewers.enter().unwrap();
        assert!(!seated[0].read(), "it had not read for long");
        assert!(ninth.read() && viewers.enter().is_none());
    }
}
