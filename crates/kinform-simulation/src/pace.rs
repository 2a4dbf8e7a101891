//! The pace of a process's requests and reconciles: no loop without a wait.
//!
//! ```text
//! list, watch, reconcile ─▶ Pace { kind ─▶ times of the last minute } ─▶ more than a bound? a hot loop
//! ```
//!
//! Pages after the first, and leases, are not counted: their number follows other things.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// The time in which they are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// The times of what happened in the last minute, by kind.
#[derive(Debug, Default)]
pub(crate) struct Pace(BTreeMap<String, VecDeque<Instant>>);

impl Pace {
    /// Counts one of a kind; returns how many there were in a minute if they are more than `most`.
    pub(crate) fn count(&mut self, kind: &str, most: usize) -> Option<usize> {
        let now = Instant::now();
        if !self.0.contains_key(kind) {
            self.0.insert(kind.to_owned(), VecDeque::new());
        }
        let times = self.0.get_mut(kind)?;
        times.push_back(now);
        while times.front().is_some_and(|first| *first + WINDOW < now) {
            times.pop_front();
        }
        (times.len() > most).then_some(times.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_the_last_minute_of_a_kind_counts() {
        let mut pace = Pace::default();
        for _ in 0..3 {
            assert_eq!(pace.count("a", 3), None);
            assert_eq!(pace.count("b", 3), None);
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(pace.count("a", 3), Some(4));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(pace.count("a", 3), None);
    }
}
