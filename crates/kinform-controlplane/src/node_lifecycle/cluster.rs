//! All nodes at a glance: which are ready, by zone, and how fast pods of lost ones may be evicted.
//!
//! ```text
//! node + lease + now ─▶ see ─▶ Sight (new? alive until when?)
//!                       └─▶ zones: normal | partly | wholly disrupted ─▶ taint now | later | not
//! ```
//!
//! One node in ten seconds and zone gets the taint that evicts. In a zone of which more than half is
//! lost it is one in a hundred seconds, and a small zone waits until it is better. If no node of the
//! cluster is ready, the fault is likely here: no node gets that taint.
//!
//! Complexity: each question about zones looks at all nodes, and each lost node asks every 5 s.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/nodelifecycle` (`handleDisruption`,
//! `RateLimitedTimedQueue`). Difference: nodes keep their last sign of life when the first of a
//! cluster is ready again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Watched;
use super::health::{Health, ready};
use crate::clock::left;
use crate::json::{name, texts, uid};

const EVICTION_PERIOD: SignedDuration = SignedDuration::from_secs(10);
const SLOW_EVICTION_PERIOD: SignedDuration = SignedDuration::from_secs(100);
/// The share of lost nodes, in percent, from which on a zone is partly disrupted.
const UNHEALTHY_PERCENT: usize = 55;
/// The number of nodes up to which a partly disrupted zone evicts nothing.
const SMALL_ZONE: usize = 50;

/// The knowledge about all nodes.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// BOUND: one entry a node; removed with it.
    nodes: BTreeMap<String, Seen>,
    /// The time from which on another node of a zone may be tainted.
    /// BOUND: one entry a zone with nodes, trimmed when a node goes.
    next: BTreeMap<String, Timestamp>,
}

#[derive(Debug)]
struct Seen {
    uid: String,
    zone: String,
    /// Counts in its zone; a label of the node turns that off.
    counts: bool,
    is_ready: bool,
    /// `None` if nobody expects signs of life.
    health: Option<Health>,
    /// Its pods are to be marked.
    is_freshly_lost: bool,
}

impl Seen {
    fn is_ready(&self, now: Timestamp) -> bool {
        let is_lost = |health: &Health| health.left(now).is_none();
        self.is_ready && !self.health.as_ref().is_some_and(is_lost)
    }
}

/// A look at a node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) is_new: bool,
    pub(super) life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Nobody expects signs of life.
    Unwatched,
    /// The node lives for this time, also without another sign.
    Left(Duration),
    Lost,
}

/// The disruption of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disruption {
    None,
    Part { nodes: usize },
    Whole,
}

impl Disruption {
    fn of(ready: usize, lost: usize) -> Self {
        let nodes = ready + lost;
        if ready == 0 && lost > 0 {
            return Self::Whole;
        }
        match lost > 2 && lost * 100 >= nodes * UNHEALTHY_PERCENT {
            true => Self::Part { nodes },
            false => Self::None,
        }
    }

    /// The time between two evictions.
    fn period(self) -> Option<SignedDuration> {
        match self {
            Self::None | Self::Whole => Some(EVICTION_PERIOD),
            Self::Part { nodes } if nodes > SMALL_ZONE => Some(SLOW_EVICTION_PERIOD),
            Self::Part { .. } => None,
        }
    }
}

/// The decision about the taint that evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    After(Duration),
    /// Not as long as the zone is what it is.
    Wait,
    /// The whole cluster is lost: no node has that taint.
    Never,
}

impl Cluster {
    /// Takes notice of a node and its lease.
    pub(super) fn see(
        &mut self,
        node: &Value,
        renewed: Option<Timestamp>,
        watched: Watched,
        now: Timestamp,
    ) -> Sight {
        let before = self.nodes.remove(name(node));
        // Another node of the same name begins anew.
        let before = before.filter(|before| before.uid == uid(node));
        let is_new = before.is_none();
        let is_watched = watched == Watched::All || renewed.is_some();
        let freshly = before.as_ref().is_some_and(|one| one.is_freshly_lost);
        let before = before.and_then(|before| before.health);
        let health = is_watched.then(|| Health::of(before, node, renewed, now));
        let life = match &health {
            None => Life::Unwatched,
            Some(health) => health.left(now).map_or(Life::Lost, Life::Left),
        };
        let labels = texts(node, "/metadata/labels");
        let label = |key: &str| labels.get(key).map_or("", String::as_str);
        let either = |older: &str, key: &str| match label(older) {
            "" => label(key).to_owned(),
            older => older.to_owned(),
        };
        let (region, zone) = (either(OLD_REGION, REGION), either(OLD_ZONE, ZONE));
        let is_ready = ready(node) == Some("True");
        let seen = Seen {
            uid: uid(node).to_owned(),
            zone: format!("{region}/{zone}"),
            counts: !labels.contains_key(EXCLUDED),
            is_ready,
            health,
            is_freshly_lost: freshly && !is_ready,
        };
        self.nodes.insert(name(node).to_owned(), seen);
        Sight { is_new, life }
    }

    /// Forgets a node. Returns its UID.
    pub(super) fn forget(&mut self, name: &str) -> Option<String> {
        let gone = self.nodes.remove(name)?;
        if !self.nodes.values().any(|seen| seen.zone == gone.zone) {
            self.next.remove(&gone.zone);
        }
        Some(gone.uid)
    }

    /// Notes whether the pods of a node are to be marked.
    pub(super) fn mark(&mut self, name: &str, is_freshly_lost: bool) {
        if let Some(seen) = self.nodes.get_mut(name) {
            seen.is_freshly_lost = is_freshly_lost;
        }
    }

    /// Returns whether the pods of a node are to be marked.
    pub(super) fn is_freshly_lost(&self, name: &str) -> bool {
        let seen = self.nodes.get(name);
        seen.is_some_and(|seen| seen.is_freshly_lost)
    }

    /// Decides when a lost node gets the taint that evicts. `count` is the number of nodes that
    /// there are.
    pub(super) fn turn(&self, name: &str, count: usize, now: Timestamp) -> Turn {
        let Some(seen) = self.nodes.get(name) else {
            return Turn::Wait;
        };
        // Some nodes were not looked at yet, just after the start.
        if self.nodes.len() < count {
            return Turn::Wait;
        }
        let zones = self.zones(now);
        // Without a node that counts, no fault of the cluster can be seen.
        let is_whole = |zone: &Disruption| *zone == Disruption::Whole;
        if !zones.is_empty() && zones.values().all(is_whole) {
            return Turn::Never;
        }
        let zone = zones.get(&*seen.zone).copied();
        if zone.unwrap_or(Disruption::None).period().is_none() {
            return Turn::Wait;
        }
        let next = self.next.get(&seen.zone);
        let wait = next.and_then(|next| left(*next, Duration::ZERO, now));
        wait.map_or(Turn::Now, Turn::After)
    }

    /// Notes that a node got that taint.
    pub(super) fn taken(&mut self, name: &str, now: Timestamp) {
        let Some(zone) = self.nodes.get(name).map(|seen| seen.zone.clone()) else {
            return;
        };
        let disruption = self.zones(now).get(&*zone).copied();
        let period = disruption.unwrap_or(Disruption::None).period();
        let next = now.checked_add(period.unwrap_or(EVICTION_PERIOD));
        self.next.insert(zone, next.unwrap_or(Timestamp::MAX));
    }

    fn zones(&self, now: Timestamp) -> BTreeMap<&str, Disruption> {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for seen in self.nodes.values().filter(|seen| seen.counts) {
            let (ready, lost) = counts.entry(&seen.zone).or_default();
            match seen.is_ready(now) {
                true => *ready += 1,
                false => *lost += 1,
            }
        }
        let of = |(zone, (ready, lost))| (zone, Disruption::of(ready, lost));
        counts.into_iter().map(of).collect()
    }
}

/// Labels of nodes; the old ones win, as upstream's.
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
/// The label of nodes that do not count in their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn node(name: &str, zone: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": name, "uid": name,
                "labels": {"topology.kubernetes.io/zone": zone}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    /// A cluster of zones with this many ready and lost nodes, at second 0.
    fn cluster(zones: &[(&str, usize, usize)]) -> Cluster {
        let mut cluster = Cluster::default();
        for (zone, ready, lost) in zones {
            for at_in in 0..ready + lost {
                let is_ready = if at_in < *ready { "True" } else { "Unknown" };
                let node = node(&format!("{zone}{at_in}"), zone, is_ready);
                cluster.see(&node, None, Watched::Leased, at(0));
            }
        }
        cluster
    }

    // kubernetes: TestMonitorNodeHealthEvictPodsWithDisruption
    #[test]
    fn a_lost_node_is_evicted_unless_its_zone_or_the_cluster_is_disrupted() {
        let check = |zones: &[(&str, usize, usize)], name: &str, expected: Turn| {
            let cluster = cluster(zones);
            let turn = cluster.turn(name, cluster.nodes.len(), at(0));
            assert_eq!(turn, expected, "{zones:?}");
        };
        check(&[("a", 1, 1)], "a1", Turn::Now);
        check(&[("a", 0, 1)], "a0", Turn::Never);
        check(&[("a", 0, 2), ("b", 0, 1)], "a0", Turn::Never);
        check(&[("a", 0, 2), ("b", 1, 0)], "a0", Turn::Now);
        check(&[("a", 1, 2)], "a2", Turn::Now);
        check(&[("a", 2, 3)], "a4", Turn::Wait);
        check(&[("a", 3, 3)], "a4", Turn::Now);
        check(&[("a", 20, 31)], "a30", Turn::Now);
    }

    #[test]
    fn nodes_that_do_not_count_hold_up_nobody() {
        let mut cluster = Cluster::default();
        for (name, ready) in [("lost", "Unknown"), ("fine", "True")] {
            let mut node = node(name, "z", ready);
            node["metadata"]["labels"][EXCLUDED] = "".into();
            cluster.see(&node, None, Watched::Leased, at(0));
        }
        assert_eq!(cluster.turn("lost", 2, at(0)), Turn::Now);
    }

    #[test]
    fn nodes_of_a_zone_are_evicted_one_after_the_other() {
        let check = |zones: &[(&str, usize, usize)], wait: u64| {
            let mut cluster = cluster(zones);
            let count = cluster.nodes.len();
            cluster.taken("a50", at(0));
            let after = Turn::After(Duration::from_secs(wait));
            assert_eq!(cluster.turn("a49", count, at(0)), after, "{zones:?}");
            assert_eq!(cluster.turn("b1", count, at(0)), Turn::Now);
            let wait = i64::try_from(wait).unwrap();
            assert_eq!(cluster.turn("a49", count, at(wait)), Turn::Now);
        };
        check(&[("a", 49, 2), ("b", 1, 1)], 10);
        check(&[("a", 20, 31), ("b", 1, 1)], 100);
    }

    #[test]
    fn nodes_that_were_not_seen_yet_are_waited_for() {
        let cluster = cluster(&[("a", 1, 1)]);
        assert_eq!(cluster.turn("a1", 3, at(0)), Turn::Wait);
    }

    #[test]
    fn a_node_that_is_about_to_be_lost_counts_as_lost() {
        let mut cluster = cluster(&[("a", 0, 1)]);
        let ready = node("b0", "b", "True");
        cluster.see(&ready, Some(at(1)), Watched::Leased, at(0));
        assert_eq!(cluster.turn("a0", 2, at(49)), Turn::Now);
        assert_eq!(cluster.turn("a0", 2, at(50)), Turn::Never);
    }

    #[test]
    fn a_node_without_a_lease_is_watched_only_where_kubelets_post_statuses() {
        let check = |renewed: Option<Timestamp>, watched: Watched, expected: Life| {
            let mut cluster = Cluster::default();
            let node = node("n", "z", "True");
            let first = cluster.see(&node, renewed, watched, at(0));
            assert!(first.is_new);
            let second = cluster.see(&node, renewed, watched, at(60));
            assert_eq!((second.is_new, second.life), (false, expected));
        };
        check(None, Watched::Leased, Life::Unwatched);
        check(None, Watched::All, Life::Lost);
        check(Some(at(0)), Watched::Leased, Life::Lost);
    }

    #[test]
    fn pods_are_to_be_marked_until_they_are_or_the_node_is_ready() {
        let mut cluster = cluster(&[("a", 0, 1)]);
        cluster.mark("a0", true);
        cluster.see(&node("a0", "a", "Unknown"), None, Watched::Leased, at(1));
        assert!(cluster.is_freshly_lost("a0"));
        cluster.see(&node("a0", "a", "True"), None, Watched::Leased, at(2));
        assert!(!cluster.is_freshly_lost("a0"));
        assert_eq!(cluster.forget("a0").as_deref(), Some("a0"));
        assert_eq!(cluster.forget("a0"), None);
    }
}
