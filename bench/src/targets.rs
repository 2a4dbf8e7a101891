//! The targets that kinform wants to reach, and their verdicts.
//!
//! ```text
//! Results × TARGETS ─▶ Verdict: reached | short, by how much | not measured
//! ```
//!
//! A target names a scenario and a size. A quick run measures smaller sizes: the target's limit is
//! then scaled down with them. A target without a scenario is reported as not measured, not left
//! out.

use crate::row::Results;
use crate::scenario::Work;

/// A figure that kinform wants to reach.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The description for people.
    pub what: &'static str,
    scenario: &'static str,
    size: usize,
    metric: &'static str,
    rule: Rule,
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    /// No more than this.
    AtMost(f64),
    /// No more than this for the target's size, proportionally less for less.
    AtMostOfSize(f64),
    /// No less than this.
    AtLeast(f64),
    /// No more than this share of a peer's figure.
    ShareOf(&'static str, f64),
    /// For each object no more than at this size, apart from this share. Less is no worse: the
    /// fixed cost of a program weighs most in small sizes.
    StraightFrom(usize, f64),
}

use Rule::{AtLeast, AtMost, AtMostOfSize, ShareOf, StraightFrom};

const fn target(
    what: &'static str,
    scenario: &'static str,
    size: usize,
    metric: &'static str,
    rule: Rule,
) -> Target {
    Target {
        what,
        scenario,
        size,
        metric,
        rule,
    }
}

const CPU: &str = "cpu_seconds";
const BYTES: &str = "bytes_per_object";
const PEAK: &str = "peak_over_steady";
const CYCLE: &str = "cpu_ns_per_cycle";
const PODS: usize = 100_000;
const MANY: usize = 300_000;
const MILLION: usize = 1_000_000;
/// The bytes that an informer's ring may keep alive by default.
const RING: f64 = (32 << 20) as f64;

/// All of them.
#[rustfmt::skip]
pub const TARGETS: &[Target] = &[
    target("CPU of a sync, JSON", "sync-json", PODS, CPU, AtMostOfSize(1.0)),
    target("CPU of a sync, protobuf", "sync-protobuf", PODS, CPU, AtMostOfSize(0.7)),
    target("CPU of a sync, all typed and kept, beside kube-rs", "sync-json-typed", PODS, CPU, ShareOf("kube-rs", 1.0 / 2.0)),
    target("CPU of a sync, all typed and kept, beside client-go", "sync-json-typed", PODS, CPU, ShareOf("client-go", 1.0 / 5.0)),
    target("bytes a pod, JSON", "sync-json", PODS, BYTES, AtMost(5_300.0)),
    target("bytes a pod, protobuf", "sync-protobuf", PODS, BYTES, AtMost(3_000.0)),
    target("bytes a pod, cold", "sync-cold", PODS, BYTES, AtMost(1_300.0)),
    target("peak of a sync over steady", "sync-json", PODS, PEAK, AtMost(1.25)),
    target("peak of a relist over steady", "relist-1pct", PODS, PEAK, AtMost(1.25)),
    target("peak of a relist of which 10% changed over steady", "relist-10pct", PODS, PEAK, AtMost(1.25)),
    target("CPU of a relist, 1% changed", "relist-1pct", PODS, CPU, AtMostOfSize(0.5)),
    target("CPU of a sync and a first typed read, beside kube-rs", "touch-everything", PODS, CPU, ShareOf("kube-rs", 1.0 / 2.0)),
    target("CPU of a sync and a first typed read, beside client-go", "touch-everything", PODS, CPU, ShareOf("client-go", 1.0 / 3.0)),
    target("a list of 25k of 1M by index, all handles touched in place", "index-list", MILLION, "all_touched_ms", AtMostOfSize(1.0)),
    target("a list of 25k of 1M by index, as a view", "index-list", MILLION, "view_ms", AtMost(0.05)),
    target("events to 10 handlers, the ring alone", "fanout-10", 200_000, "ring_events_per_second", AtLeast(8e6)),
    target("events to 100 handlers, the ring alone", "fanout-100", 200_000, "ring_events_per_second", AtLeast(3e6)),
    target("a small operator's whole process", "small-operator", 5_500, "resident_bytes", AtMost(15e6)),
    target("memory held for a stalled handler", "stalled-handler", 200_000, "held_bytes", AtMost(RING)),
    target("p99 of others beside a stalled handler", "stalled-handler", 200_000, "others_p99_ratio", AtMost(1.05)),
    target("queue cycle, 1 worker, beside client-go", "queue-cycle-1", MILLION, CYCLE, ShareOf("client-go", 1.0 / 4.0)),
    target("queue cycle, 4 workers, beside client-go", "queue-cycle-4", MILLION, CYCLE, ShareOf("client-go", 1.0 / 1.3)),
    target("growth of a sync's CPU from 10k to 300k pods, JSON", "sync-json", MANY, CPU, StraightFrom(10_000, 0.1)),
    target("growth of memory from 10k to 300k pods, JSON", "sync-json", MANY, BYTES, StraightFrom(10_000, 0.1)),
    target("growth of a sync's CPU from 10k to 300k pods, protobuf", "sync-protobuf", MANY, CPU, StraightFrom(10_000, 0.1)),
    target("growth of memory from 10k to 300k pods, protobuf", "sync-protobuf", MANY, BYTES, StraightFrom(10_000, 0.1)),
];

fn rules_of(work: Work) -> impl Iterator<Item = Rule> {
    let targets = TARGETS.iter();
    let of_it = targets.filter(move |target| target.scenario == work.name());
    of_it.map(|target| target.rule)
}

/// Returns whether a target names this scenario.
#[must_use]
pub fn are_of(work: Work) -> bool {
    rules_of(work).next().is_some()
}

/// Returns whether a target compares sizes of this scenario with each other.
#[must_use]
pub fn are_of_growth(work: Work) -> bool {
    rules_of(work).any(|rule| matches!(rule, StraightFrom(..)))
}

/// Returns whether a target compares this scenario with that peer.
#[must_use]
pub fn are_beside(work: Work, name: &str) -> bool {
    rules_of(work).any(|rule| matches!(rule, ShareOf(peer, _) if peer == name))
}

/// The result of judging a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The scenario with its size, or the target's description if it was not measured.
    pub scenario: String,
    /// The measured value and its unit.
    pub measured: Option<(f64, String)>,
    /// The value that would have reached the target.
    pub limit: f64,
    /// The factor by which it is better (above one) or short (below one).
    pub margin: f64,
}

impl Verdict {
    /// Returns whether the target is reached; `None` if it was not measured.
    #[must_use]
    pub fn is_reached(&self) -> Option<bool> {
        self.measured.as_ref().map(|_| self.margin >= 1.0)
    }
}

/// `100k` and `1M` are sizes, `typed-100k` is not.
fn size(text: &str) -> Option<usize> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    Some(digits.parse::<usize>().ok()? * unit)
}

impl Target {
    /// Judges the target by the results.
    #[must_use]
    pub fn judge(&self, results: &Results) -> Verdict {
        let figure = |subject: &str, wanted: usize| {
            let rows = results.rows.iter();
            let rows = rows.filter(|row| row.subject == subject && row.metric == self.metric);
            let sized = rows.filter_map(|row| {
                let rest = row
                    .scenario
                    .strip_prefix(self.scenario)?
                    .strip_prefix('-')?;
                Some((size(rest)?, row))
            });
            let mut sized: Vec<_> = sized.collect();
            // The size that the target names, else the largest.
            sized.sort_by_key(|(size, _)| (*size == wanted, *size));
            sized.pop()
        };
        let unmeasured = Verdict {
            scenario: self.scenario.to_owned(),
            measured: None,
            limit: f64::NAN,
            margin: f64::NAN,
        };
        let Some((size, row)) = figure("kinform", self.size) else {
            return unmeasured;
        };
        let value = row.value;
        let (measured, limit, margin) = match self.rule {
            AtMost(limit) => (value, limit, limit / value),
            AtMostOfSize(limit) => {
                let limit = limit * size as f64 / self.size as f64;
                (value, limit, limit / value)
            }
            AtLeast(limit) => (value, limit, value / limit),
            ShareOf(peer, share) => match figure(peer, size) {
                Some((same, peer)) if same == size => {
                    (value, peer.value * share, peer.value * share / value)
                }
                _ => return unmeasured,
            },
            StraightFrom(from, share) => match figure("kinform", from) {
                Some((small, first)) if small == from && size == self.size => {
                    let of_each = match self.metric.contains("_per_") {
                        true => 1.0,
                        false => small as f64 / size as f64,
                    };
                    let growth = row.over(first) * of_each;
                    (growth, 1.0 + share, (1.0 + share) / growth)
                }
                _ => return unmeasured,
            },
        };
        let unit = match self.rule {
            StraightFrom(..) => "x".to_owned(),
            _ => row.unit.clone(),
        };
        Verdict {
            scenario: row.scenario.clone(),
            measured: Some((measured, unit)),
            limit,
            margin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Row;

    fn results(rows: &[(&str, &str, &str, f64)]) -> Results {
        let row = |(scenario, subject, metric, value): &(&str, &str, &str, f64)| Row {
            scenario: (*scenario).to_owned(),
            subject: (*subject).to_owned(),
            metric: (*metric).to_owned(),
            unit: "s".to_owned(),
            value: *value,
            runs: vec![*value],
        };
        Results {
            commit: String::new(),
            machine: String::new(),
            rows: rows.iter().map(row).collect(),
        }
    }

    fn margin(target: Target, rows: &[(&str, &str, &str, f64)]) -> Option<String> {
        let verdict = target.judge(&results(rows));
        verdict.measured.map(|_| format!("{:.2}", verdict.margin))
    }

    #[test]
    fn a_target_speaks_of_its_size_and_proportionally_of_others() {
        let at = target("", "sync-json", PODS, CPU, AtMostOfSize(1.0));
        let small = ("sync-json-10k", "kinform", CPU, 0.05);
        let typed = ("sync-json-typed-300k", "kinform", CPU, 9.0);
        assert_eq!(margin(at, &[small, typed]).as_deref(), Some("2.00"));
        let large = ("sync-json-100k", "kinform", CPU, 2.0);
        let larger = ("sync-json-300k", "kinform", CPU, 3.0);
        assert_eq!(margin(at, &[small, large, larger]).as_deref(), Some("0.50"));
        assert_eq!(margin(at, &[typed]), None);
    }

    #[test]
    fn a_peer_counts_at_the_same_size_only() {
        let share = target("", "sync-json", PODS, CPU, ShareOf("kube-rs", 0.5));
        let ours = ("sync-json-100k", "kinform", CPU, 1.0);
        let peer = ("sync-json-100k", "kube-rs", CPU, 8.0);
        let other = ("sync-json-10k", "kube-rs", CPU, 8.0);
        assert_eq!(margin(share, &[ours, peer]).as_deref(), Some("4.00"));
        assert_eq!(margin(share, &[ours, other]), None);
    }

    #[test]
    fn a_target_speaks_of_a_peer_or_does_not() {
        for (work, peer, expected) in [
            (Work::SyncJsonTyped, "kube-rs", true),
            (Work::QueueShared(4), "client-go", true),
            (Work::QueueShared(4), "kube-rs", false),
            (Work::SyncJson, "client-go", false),
        ] {
            assert_eq!(are_beside(work, peer), expected, "{work:?} {peer}");
        }
    }

    #[test]
    fn growth_is_asked_of_few_scenarios() {
        assert!(are_of_growth(Work::SyncJson));
        assert!(!are_of_growth(Work::SyncStream));
    }

    #[test]
    fn growth_is_straight_if_an_object_costs_the_same() {
        let straight = target("", "sync-json", MANY, CPU, StraightFrom(10_000, 0.1));
        let small = ("sync-json-10k", "kinform", CPU, 0.1);
        let good = ("sync-json-300k", "kinform", CPU, 3.3);
        let bad = ("sync-json-300k", "kinform", CPU, 6.0);
        assert_eq!(margin(straight, &[small, good]).as_deref(), Some("1.00"));
        assert_eq!(margin(straight, &[small, bad]).as_deref(), Some("0.55"));
        let least = target("", "sync-json", MANY, CPU, AtLeast(6.6));
        assert_eq!(margin(least, &[good]).as_deref(), Some("0.50"));
    }
}
