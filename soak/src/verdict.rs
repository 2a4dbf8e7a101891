//! The judgement of a run by its figures.
//!
//! ```text
//! Evidence { points, counts before and after, contradictions, differences } ──▶ a line for each objection
//! ```
//!
//! Pure: no clock, no process. The slope counts only if the run was long enough to show one.

use crate::sample::Sample;
use crate::slope::{Point, percent_an_hour};

/// The first seconds of a long run, in which caches, buffers and the allocator find their size.
const WARM_UP: f64 = 600.0;
/// The shortest run whose slope is evidence: as long after the warm-up as before.
const EVIDENCE: f64 = 2.0 * WARM_UP;
/// BOUND: growth of memory, percent an hour.
const GROWTH: f64 = 1.0;
/// BOUND: connections more than before that a load may leave: two for each of the operator's clients.
const RACE: u64 = 6;
/// The part of the wanted writes that must have been made, for the run to be one under load.
const RATE: f64 = 0.5;

/// The figures of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// The time under load, in seconds.
    pub(crate) seconds: f64,
    /// Resident memory over time.
    pub(crate) resident: Vec<Point>,
    /// Live memory over time.
    pub(crate) live: Vec<Point>,
    /// The figures before the load, after the first sync.
    pub(crate) before: Sample,
    /// The figures after it, at rest, with the connections that the load left.
    pub(crate) rest: Sample,
    /// The figures after these connections were made anew.
    pub(crate) after: Sample,
    /// Differences between the caches and the server.
    pub(crate) differences: Vec<String>,
    /// Objections to the run itself: what did not happen, and had to.
    pub(crate) failures: Vec<String>,
    /// Writes made, and wanted.
    pub(crate) writes: (u64, u64),
}

/// The growth of memory in percent an hour, from the second on at which it is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Growth {
    /// The second from which on samples count.
    pub(crate) from: f64,
    /// Of resident memory.
    pub(crate) resident: Option<f64>,
    /// Of live memory.
    pub(crate) live: Option<f64>,
    /// The run is long enough for these to mean something.
    pub(crate) is_evidence: bool,
}

impl Evidence {
    /// The growth of memory: from the tenth minute on, or after a quarter of a short run.
    pub(crate) fn growth(&self) -> Growth {
        let is_evidence = self.seconds >= EVIDENCE;
        let from = if is_evidence {
            WARM_UP
        } else {
            self.seconds / 4.0
        };
        let slope = |points: &[Point]| {
            let points: Vec<Point> = points.iter().copied().filter(|at| at.0 >= from).collect();
            percent_an_hour(&points)
        };
        Growth {
            from,
            resident: slope(&self.resident),
            live: slope(&self.live),
            is_evidence,
        }
    }

    /// The objections, a line each.
    pub(crate) fn objections(&self) -> Vec<String> {
        let mut lines = self.failures.clone();
        lines.extend(self.growth().objection());
        let (before, rest) = (&self.before.usage, &self.rest.usage);
        if rest.descriptors > before.descriptors + RACE {
            lines.push(format!(
                "the load left {} descriptors, {} were there before",
                rest.descriptors, before.descriptors
            ));
        }
        for (what, before, after) in [
            ("tasks", self.before.tasks, self.after.tasks),
            (
                "descriptors",
                self.before.usage.descriptors,
                self.after.usage.descriptors,
            ),
        ] {
            if after > before {
                let more = after - before;
                lines.push(format!(
                    "{more} {what} leaked: {before} before, {after} after"
                ));
            }
        }
        if self.after.contradictions > 0 {
            let first = self.after.contradiction.as_deref().unwrap_or_default();
            let count = self.after.contradictions;
            lines.push(format!(
                "{count} handlers heard a contradiction; the first: {first}"
            ));
        }
        lines.extend(self.differences.iter().cloned());
        let (made, wanted) = self.writes;
        if (made as f64) < wanted as f64 * RATE {
            lines.push(format!("only {made} of {wanted} writes were made"));
        }
        lines
    }
}

impl Growth {
    fn objection(&self) -> Option<String> {
        // Memory that the program freed and the allocator keeps is no leak of the program's.
        let is_flat = |slope: Option<f64>| slope.is_some_and(|slope| slope < GROWTH);
        if !self.is_evidence || is_flat(self.resident) || is_flat(self.live) {
            return None;
        }
        let shown =
            |slope: Option<f64>| slope.map_or("?".to_owned(), |slope| format!("{slope:.2}"));
        Some(format!(
            "memory grows: resident {} % an hour, live {} %, from second {} on",
            shown(self.resident),
            shown(self.live),
            self.from
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of this length whose memory grows as given, in percent an hour.
    fn run(minutes: f64, resident: f64, live: f64) -> Evidence {
        let points = |percent: f64| {
            let samples = (0..(minutes * 12.0) as u32).map(|at| f64::from(at) * 5.0);
            samples
                .map(|at| (at, 1e8 * (1.0 + percent / 100.0 * at / 3600.0)))
                .collect()
        };
        Evidence {
            seconds: minutes * 60.0,
            resident: points(resident),
            live: points(live),
            writes: (9, 10),
            ..Evidence::default()
        }
    }

    fn check(evidence: &Evidence, expected: &[&str]) {
        let lines = evidence.objections();
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        for (line, part) in lines.iter().zip(expected) {
            assert!(line.contains(part), "{line}: not {part}");
        }
    }

    #[test]
    fn memory_may_grow_by_less_than_one_percent_an_hour() {
        check(&run(45.0, 0.9, 0.9), &[]);
        check(&run(45.0, -5.0, 0.0), &[]);
        check(&run(45.0, 3.0, 2.0), &["memory grows: resident 2.9"]);
        // The allocator alone explains it.
        check(&run(45.0, 3.0, 0.5), &[]);
        // A short run shows no slope.
        check(&run(10.0, 30.0, 20.0), &[]);
        assert_eq!(run(10.0, 0.0, 0.0).growth().from, 150.0);
        // Without a sample there is no slope to be content with.
        let nothing = Evidence {
            resident: Vec::new(),
            live: Vec::new(),
            ..run(45.0, 0.0, 0.0)
        };
        check(&nothing, &["resident ? % an hour, live ? %"]);
    }

    #[test]
    fn the_warm_up_of_a_long_run_does_not_count() {
        let mut evidence = run(45.0, 0.0, 0.0);
        for point in evidence.resident.iter_mut().chain(&mut evidence.live) {
            if point.0 < WARM_UP {
                point.1 /= 2.0;
            }
        }
        check(&evidence, &[]);
    }

    #[test]
    fn a_leak_a_contradiction_and_a_difference_are_a_line_each() {
        let counts = |tasks, descriptors| {
            let mut sample = Sample {
                tasks,
                ..Sample::default()
            };
            sample.usage.descriptors = descriptors;
            sample
        };
        let mut evidence = Evidence {
            before: counts(40, 20),
            after: counts(40, 18),
            ..run(2.0, 0.0, 0.0)
        };
        check(&evidence, &[]);
        evidence.after = counts(42, 21);
        let leaks = [
            "2 tasks leaked: 40 before, 42 after",
            "1 descriptors leaked",
        ];
        check(&evidence, &leaks);
        evidence.after = counts(1, 1);
        evidence.rest = counts(60, 26);
        evidence.after.contradictions = 2;
        evidence.after.contradiction = Some("it was there".to_owned());
        evidence.differences = vec!["pods: a is missing".to_owned()];
        evidence.failures = vec!["the metrics did not answer".to_owned()];
        evidence.writes = (4, 10);
        let all = [
            "the metrics did not answer",
            "2 handlers heard a contradiction; the first: it was there",
            "a is missing",
            "only 4 of 10 writes",
        ];
        check(&evidence, &all);
        evidence.rest = counts(60, 27);
        let left = ["the load left 27 descriptors, 20 were"];
        check(&evidence, &[&all[..1], &left, &all[1..]].concat());
    }
}
