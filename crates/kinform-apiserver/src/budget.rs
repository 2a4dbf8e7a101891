//! The bounds of one request: its time, the bytes that it makes, and its steps.
//!
//! ```text
//! read | write + `timeout` of the query ──▶ Budget { time } ──▶ Meter ◀── insertions, steps
//! ```
//!
//! A body has a bound, but an object can grow while it is made: by defaults, copies of a patch, and
//! conversions. A [`Meter`] goes with the request. Each insertion takes its encoded size, and long
//! loops count their steps; every 1,024 steps the meter looks at the deadline. A spent meter stays
//! spent: inner functions stop early, and the outer ones ask for the reason before they use the
//! result.
//!
//! A watch has a timeout of its own (`state/`). CEL rules count their own cost (`schema/cel/`).
//!
//! INVARIANT: a result that was made under a spent meter is incomplete, and is never stored.
//!
//! Upstream: `kubernetes/apiserver:pkg/server/config.go` (`RequestTimeout`, `MaxRequestBodyBytes`),
//! `pkg/endpoints/handlers/rest.go`. Objects are bounded there by etcd, at 1.5 MiB.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use kinform_api::Status;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock;

/// BOUND: the size of a body in bytes, as on a real server.
pub(crate) const BODY: usize = 3 << 20;
/// BOUND: the encoded size of an object, and of everything that one request adds to it.
pub(crate) const OBJECT: usize = 3 << 20;
/// BOUND: steps between two looks at the deadline.
const LOOK: usize = 1024;
/// BOUND: the time for an ordinary request.
const READ_TIME: Duration = Duration::from_secs(60);
/// BOUND: the time for a write.
const WRITE_TIME: Duration = Duration::from_secs(34);

/// The bounds of a request under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The time from its head to its reply.
    pub(crate) time: Duration,
}

impl Budget {
    /// Returns the bounds of a read. A client may request less time; 0 counts as no request.
    pub(crate) fn read(asked: Option<Duration>) -> Self {
        Self::at_most(READ_TIME, asked)
    }

    /// Returns the bounds of a write, with the same rule for the requested time.
    pub(crate) fn write(asked: Option<Duration>) -> Self {
        Self::at_most(WRITE_TIME, asked)
    }

    fn at_most(most: Duration, asked: Option<Duration>) -> Self {
        let asked = asked.filter(|asked| !asked.is_zero());
        Self {
            time: asked.map_or(most, |asked| asked.min(most)),
        }
    }
}

/// The refusal of a request whose time is over.
pub(crate) fn late() -> Status {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

/// The time after which a request stops by itself.
#[derive(Clone, Debug)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// Cancelled when the server stops.
    pub(crate) stopping: CancellationToken,
}

impl Deadline {
    fn is_over(&self) -> bool {
        clock::instant() >= self.at || self.stopping.is_cancelled()
    }
}

/// The reason why a request must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spent {
    /// The object is too large.
    Size = 1,
    /// The time is over.
    Time = 2,
}

/// The bytes and steps that a request has left.
///
/// One request uses it, on one thread at a time: its members are atomic only so that the request may
/// move between threads while it waits. Loads and stores are relaxed, and never read-modify-write.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Bytes that may still be inserted.
    room: AtomicUsize,
    /// Steps until the next look at the deadline.
    steps: AtomicUsize,
    deadline: Option<Deadline>,
    /// A [`Spent`] as a number; 0 while the meter is not spent.
    spent: AtomicU8,
}

impl Meter {
    /// Returns the meter of a request.
    pub(crate) fn until(deadline: Deadline) -> Self {
        Self::new(OBJECT, Some(deadline))
    }

    /// Returns a meter of one object that no request made: a stored one that is shown.
    pub(crate) fn of_object() -> Self {
        Self::new(OBJECT, None)
    }

    /// Returns a meter for values of the server itself.
    pub(crate) fn endless() -> Self {
        Self::new(usize::MAX, None)
    }

    fn new(room: usize, deadline: Option<Deadline>) -> Self {
        Self {
            room: AtomicUsize::new(room),
            steps: AtomicUsize::new(LOOK),
            deadline,
            spent: AtomicU8::new(0),
        }
    }

    /// Starts the size over for another try. A request's time is never given back.
    pub(crate) fn start_over(&self) {
        self.room.store(OBJECT, Ordering::Relaxed);
        if self.spent() == Some(Spent::Size) {
            self.spent.store(0, Ordering::Relaxed);
        }
    }

    /// Takes the size of an insertion. Returns `false` if it must not be made.
    #[must_use]
    pub(crate) fn take(&self, bytes: usize) -> bool {
        match self.room.load(Ordering::Relaxed).checked_sub(bytes) {
            Some(left) => self.room.store(left, Ordering::Relaxed),
            None => self.spend(Spent::Size),
        }
        !self.is_spent()
    }

    /// Takes the size of a member that is inserted. Returns `false` if it must not be.
    #[must_use]
    pub(crate) fn take_member(&self, name: &str, value: &Value) -> bool {
        // Two quotes, a colon and a comma.
        self.take(name.len() + 4 + encoded_size(value))
    }

    /// Counts steps. Returns `false` if the work must stop.
    #[must_use]
    pub(crate) fn step(&self, steps: usize) -> bool {
        match self.steps.load(Ordering::Relaxed).checked_sub(steps) {
            Some(left) => self.steps.store(left, Ordering::Relaxed),
            None => {
                self.steps.store(LOOK, Ordering::Relaxed);
                if self.deadline.as_ref().is_some_and(Deadline::is_over) {
                    self.spend(Spent::Time);
                }
            }
        }
        !self.is_spent()
    }

    /// Looks at the deadline, between steps that are long.
    pub(crate) fn look(&self) {
        self.steps.store(0, Ordering::Relaxed);
        let _ = self.step(1);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.spent().is_some()
    }

    fn spent(&self) -> Option<Spent> {
        match self.spent.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Spent::Size),
            _ => Some(Spent::Time),
        }
    }

    fn spend(&self, what: Spent) {
        if !self.is_spent() {
            self.spent.store(what as u8, Ordering::Relaxed);
        }
    }

    /// Refuses a request whose meter is spent.
    ///
    /// # Errors
    /// 413 for an object that is too large, 504 for a request that is late.
    pub(crate) fn check(&self) -> Result<(), Box<Status>> {
        match self.spent() {
            None => Ok(()),
            Some(Spent::Size) => Err(too_large()),
            Some(Spent::Time) => Err(Box::new(late())),
        }
    }
}

/// The refusal of an object that is too large.
pub(crate) fn too_large() -> Box<Status> {
    Box::new(Status::request_entity_too_large(OBJECT))
}

/// Returns the size of a value in JSON, without encoding it anywhere.
pub(crate) fn encoded_size(value: &impl Serialize) -> usize {
    let mut size = Size(0);
    // Neither the writer nor JSON's values fail.
    let _ = serde_json::to_writer(&mut size, value);
    size.0
}

struct Size(usize);

impl io::Write for Size {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_may_ask_for_less_time_but_not_for_more() {
        let seconds = Duration::from_secs;
        for (asked, read, write) in [
            (None, 60, 34),
            (Some(0), 60, 34),
            (Some(5), 5, 5),
            (Some(40), 40, 34),
            (Some(3600), 60, 34),
        ] {
            let asked = asked.map(seconds);
            assert_eq!(Budget::read(asked).time, seconds(read), "{asked:?}");
            assert_eq!(Budget::write(asked).time, seconds(write), "{asked:?}");
        }
    }

    #[test]
    fn what_is_made_is_bounded_and_a_spent_meter_stays_spent() {
        let meter = Meter::of_object();
        assert!(meter.take(OBJECT - 10));
        assert!(meter.take_member("a", &json!([1])), "8 bytes");
        assert!(!meter.take_member("a", &json!([1])));
        assert!(!meter.take(0), "it stays spent");
        assert_eq!(meter.check().unwrap_err().code, 413);
        meter.start_over();
        assert!(meter.take(OBJECT) && meter.check().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_request_stops_by_itself() {
        let deadline = || Deadline {
            at: clock::instant() + Duration::from_secs(1),
            stopping: CancellationToken::new(),
        };
        let meter = Meter::until(deadline());
        assert!((0..10 * LOOK).all(|_| meter.step(1)));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!((0..=LOOK).any(|_| !meter.step(1)));
        assert!(!meter.step(usize::MAX) && !meter.take(1));
        meter.start_over();
        assert_eq!(meter.check().unwrap_err().code, 504);
        let stopped = Meter::until(deadline());
        stopped.deadline.as_ref().unwrap().stopping.cancel();
        assert!(!stopped.step(LOOK + 1));
    }

    #[test]
    fn sizes_are_those_of_the_encoded_values() {
        for value in [json!({"a": ["b\n", 1.5, null]}), json!("ü"), json!({})] {
            assert_eq!(encoded_size(&value), value.to_string().len());
        }
    }
}
