//! The figures of a run.
//!
//! ```text
//! troubles, world, verdict ─▶ Told ─▶ a row of the table, or the reasons why it failed
//! ```

use std::fmt::Write as _;
use std::time::Duration;

/// The time for a change to be answered, and for a key to be worked on again.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// The time after SIGTERM until all shards are owned.
const OWNED: Duration = Duration::from_secs(2);
/// The time from a process's start until it has its part.
const BALANCED: Duration = Duration::from_secs(10);
/// Writes to leases a second while nothing happens.
const LEASE_WRITES: f64 = 3.0;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub struct Told {
    pub(crate) elapsed: Duration,
    pub(crate) kills: usize,
    pub(crate) pauses: usize,
    /// Pauses until others had taken the shards, so longer than the lease.
    pub(crate) long_pauses: usize,
    /// Pauses of about the lease, which end while others may be taking the shards.
    pub(crate) near_pauses: usize,
    pub(crate) adds: usize,
    pub(crate) removes: usize,
    /// Until each key of a killed replica was written by another one; a time each key.
    pub(crate) after_kill: Vec<Duration>,
    /// The same for a replica that was paused for longer than its lease.
    pub(crate) after_pause: Vec<Duration>,
    /// Until all shards were owned again by members that live, after a kill.
    pub(crate) owned_after_kill: Vec<Duration>,
    /// The same after SIGTERM.
    pub(crate) owned_after_term: Vec<Duration>,
    /// From the start of a process to its part of the shards.
    pub(crate) balanced_after_add: Vec<Duration>,
    pub(crate) lease_writes_a_second: f64,
    /// Bytes that a replica's informer of the objects reads.
    pub(crate) read_a_second: f64,
    pub(crate) writes: usize,
    pub(crate) terms: usize,
    pub(crate) answers: usize,
    pub(crate) slowest_answer: Duration,
    pub(crate) longest_gap: Duration,
    /// The key of the longest gap, and the entries around its end.
    pub(crate) around_gap: String,
    /// Writes that were not the owner's.
    pub(crate) violations: usize,
    /// Keys that were cleaned up, and cleanups of objects that existed.
    pub(crate) gone: usize,
    pub(crate) wrongly_gone: usize,
    pub(crate) turns: usize,
    /// Connections to each of two servers.
    pub(crate) served: [usize; 2],
    pub(crate) failures: Vec<String>,
}

impl Told {
    /// The reasons why the run failed.
    #[must_use]
    pub fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Bytes a second that an informer of one replica reads while nothing happens.
    #[must_use]
    pub fn read_a_second(&self) -> f64 {
        self.read_a_second
    }

    /// The figures that are over their limits. A machine that does other work besides has others.
    pub(crate) fn over(&self) -> Vec<String> {
        let most = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
        // Only replicas that tell their terms write all keys all the time.
        let gap = match self.terms {
            0 => Duration::ZERO,
            _ => self.longest_gap,
        };
        let mut over = Vec::new();
        for (what, took, limit) in [
            (
                "shards without owner after SIGTERM",
                most(&self.owned_after_term),
                OWNED,
            ),
            (
                "not balanced after a start",
                most(&self.balanced_after_add),
                BALANCED,
            ),
            ("a key that nobody wrote to", gap, LIMIT),
        ] {
            if took > limit {
                over.push(format!("{what} for {took:?}; the limit is {limit:?}"));
            }
        }
        if gap > LIMIT {
            over.push(self.around_gap.clone());
        }
        if self.lease_writes_a_second > LEASE_WRITES {
            let writes = self.lease_writes_a_second;
            over.push(format!(
                "{writes:.1} writes to leases a second; the limit is {LEASE_WRITES}"
            ));
        }
        over
    }

    /// The figures in a line.
    #[must_use]
    pub fn row(&self) -> String {
        let mut row = match self.failures.len() {
            0 => "ok".to_owned(),
            failures => format!("FAILED ({failures})"),
        };
        let Self {
            kills,
            pauses,
            long_pauses,
            near_pauses,
            adds,
            removes,
            writes,
            terms,
            answers,
            gone,
            wrongly_gone: wrong,
            turns,
            ..
        } = self;
        let seconds = self.elapsed.as_secs();
        let _ = write!(
            row,
            ", {seconds} s: {kills} kills, {pauses} pauses ({long_pauses} longer than the \
             lease, {near_pauses} about as long), \
             {adds} adds, {removes} removes; {writes} writes"
        );
        if *terms > 0 {
            let violations = self.violations;
            let _ = write!(
                row,
                " of {terms} terms, {violations} not by the owner of the shard"
            );
        }
        if *turns > 0 {
            let [first, second] = self.served;
            let _ = write!(
                row,
                "; {turns} changes of server, {first} and {second} connections"
            );
        }
        let _ = write!(
            row,
            "; {answers} changes, slowest answer {:.1} s; {gone} keys cleaned up, {wrong} cleanups of objects that existed; {:.1} lease writes/s idle",
            self.slowest_answer.as_secs_f64(),
            self.lease_writes_a_second,
        );
        for (what, times) in [
            ("key written again after kill", &self.after_kill),
            ("after long pause", &self.after_pause),
            ("all owned after kill", &self.owned_after_kill),
            ("after SIGTERM", &self.owned_after_term),
            ("balanced after add", &self.balanced_after_add),
        ] {
            let _ = write!(row, "; {what} {}", spread(times));
        }
        if *terms > 0 {
            let gap = self.longest_gap.as_secs_f64();
            let _ = write!(row, "; longest time without a write to a key {gap:.1} s");
        }
        row
    }
}

/// Median and maximum.
fn spread(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    match times.last() {
        None => "-".to_owned(),
        Some(most) => {
            let median = times[times.len() / 2].as_secs_f64();
            let most = most.as_secs_f64();
            format!("{median:.2} s, at most {most:.2} s ({})", times.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_figures_over_their_limits_are_reasons_to_fail() {
        let right = Told {
            owned_after_term: vec![OWNED, Duration::ZERO],
            balanced_after_add: vec![BALANCED],
            lease_writes_a_second: LEASE_WRITES,
            terms: 1,
            longest_gap: LIMIT,
            ..Told::default()
        };
        assert!(right.over().is_empty(), "{:?}", right.over());
        let more = Duration::from_millis(1);
        let wrong = Told {
            owned_after_term: vec![OWNED + more, Duration::ZERO],
            balanced_after_add: vec![BALANCED + more],
            lease_writes_a_second: LEASE_WRITES + 0.1,
            longest_gap: LIMIT + more,
            ..right
        };
        assert_eq!(wrong.over().len(), 5, "{:?}", wrong.over());
        let silent = Told { terms: 0, ..wrong };
        assert_eq!(silent.over().len(), 3, "{:?}", silent.over());
    }

    #[test]
    fn times_are_told_as_median_and_maximum() {
        let times = [3, 1, 2].map(Duration::from_secs);
        assert_eq!(spread(&times), "2.00 s, at most 3.00 s (3)");
        assert_eq!(spread(&[]), "-");
    }
}
