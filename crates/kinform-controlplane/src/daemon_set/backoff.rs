//! The time between two deletes of failed pods on one node.
//!
//! ```text
//! (set's uid, generation, node), now → 1 s, 2 s, 4 s .. 15 min after the one before
//! ```
//!
//! A kubelet that refuses a pod lets it fail at once; without delays, set and kubelet would run in
//! circles.
//!
//! Upstream counterpart: `client-go:util/flowcontrol` (`Backoff`).

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// A node of a set at a generation.
pub(super) type Place = (String, i64, String);

/// The last deletes.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    // BOUND: nodes with a failure within the last 30 minutes, and as many that are not swept yet.
    entries: HashMap<Place, (Timestamp, Duration)>,
    /// The number of entries at which old ones are swept out: a sweep costs a look at each.
    sweep_at: usize,
}

impl Backoff {
    /// Admits a delete, or returns the time to wait.
    pub(super) fn admit(&mut self, place: Place, now: Timestamp) -> Result<(), Duration> {
        let is_old = |last: Timestamp| passed(last, now) > LONGEST * 2;
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, (last, _)| !is_old(*last));
            self.sweep_at = self.entries.len() * 2 + 1;
        }
        let delay = match self.entries.get(&place) {
            None => FIRST,
            Some((last, _)) if is_old(*last) => FIRST,
            Some((last, delay)) if passed(*last, now) < *delay => {
                return Err(*delay - passed(*last, now));
            }
            Some((_, delay)) => (*delay * 2).min(LONGEST),
        };
        self.entries.insert(place, (now, delay));
        Ok(())
    }
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    let passed: SignedDuration = since.duration_until(now);
    Duration::try_from(passed).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_on_a_node_are_cleared_more_and_more_rarely() {
        let mut backoff = Backoff::default();
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let place = |node: &str| ("u".to_owned(), 1, node.to_owned());
        let seconds = Duration::from_secs;
        assert_eq!(backoff.admit(place("a"), at(0)), Ok(()));
        assert_eq!(backoff.admit(place("a"), at(0)), Err(seconds(1)));
        assert_eq!(backoff.admit(place("b"), at(0)), Ok(()));
        assert_eq!(backoff.admit(place("a"), at(1)), Ok(()));
        assert_eq!(backoff.admit(place("a"), at(2)), Err(seconds(1)));
        assert_eq!(backoff.admit(place("a"), at(3)), Ok(()));
        assert_eq!(backoff.admit(place("a"), at(4)), Err(seconds(3)));
        // After a long time without a failure it begins anew.
        assert_eq!(backoff.admit(place("a"), at(3 + 1801)), Ok(()));
        assert_eq!(backoff.admit(place("a"), at(3 + 1802)), Ok(()));
        // What is old is swept out before there is as much again.
        assert_eq!(backoff.admit(place("c"), at(3 + 1802)), Ok(()));
        assert_eq!(backoff.admit(place("d"), at(3 + 1802)), Ok(()));
        assert!(!backoff.entries.contains_key(&place("b")));
    }
}
