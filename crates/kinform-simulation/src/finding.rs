//! A promise that a run broke.
//!
//! ```text
//! listener, cache, work, settle ─▶ Finding { invariant, time, what } ─▶ report, shrink
//! ```

use std::fmt;
use std::time::Duration;

/// The promises of kinform, by the numbers of docs/reliability.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Caches converge, by bytes.
    I1,
    /// No object that was never committed.
    I2,
    /// No version goes back.
    I3,
    /// Notifications of a key are in order.
    I4,
    /// No delete is lost.
    I5,
    /// The last notification is the last state.
    I6,
    /// A snapshot is the state at its version.
    I7,
    /// The version of the wire decides what is an update.
    I8,
    /// A resync changes nothing.
    I9,
    /// A late handler hears everything once.
    I10,
    /// Synced means complete.
    I11,
    /// No event of a watch is skipped or repeated.
    I12,
    /// No version is passed before its object is stored.
    I13,
    /// A bookmark passes no event.
    I14,
    /// A list is whole.
    I15,
    /// An index is a function of the cache.
    I16,
    /// A key is in one reconcile.
    I17,
    /// No wake-up is lost.
    I18,
    /// Delayed keys come in time, not early.
    I19,
    /// A drain leaves nothing running.
    I20,
    /// A panic touches its own item.
    I21,
    /// A slow handler delays no other.
    I22,
    /// Tasks end with their owners.
    I23,
    /// Dropped futures leave nothing behind.
    I24,
    /// One leader.
    I25,
    /// Requests go on at a bounded rate, and the state is honest.
    I26,
    /// A reconcile sees its own writes.
    I27,
    /// One script is one run.
    I28,
    /// The harness itself failed.
    Harness,
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The promise.
    pub invariant: Invariant,
    /// The time in the run.
    pub at: Duration,
    /// The observation, in one paragraph.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "{:?} at {at:.3} s: {}", self.invariant, self.what)
    }
}
