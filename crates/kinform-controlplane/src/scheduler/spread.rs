//! Topology spread: pods of a kind in about equal numbers in each part of the cluster.
//!
//! ```text
//! topologySpreadConstraints + neighbours + nodes ─▶ Counts ─▶ of a node: refusal (DoNotSchedule),
//!                                                                        score (ScheduleAnyway)
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/plugins/podtopologyspread`. Differences:
//! the score is the number of pods alike, and a cluster has no default constraints.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, TopologySpreadConstraint};

use super::fit::{label, matches_node, name, taints, tolerates};
use super::neighbours::{Neighbour, Seen};
use crate::selector;

const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const UNLABELED: &str =
    "node(s) didn't match pod topology spread constraints (missing required label)";

/// The constraints of a pod.
pub(super) fn constraints(pod: &Pod) -> &[TopologySpreadConstraint] {
    let spec = pod.spec.as_ref();
    let constraints = spec.and_then(|spec| spec.topology_spread_constraints.as_deref());
    constraints.unwrap_or_default()
}

/// The pods alike in each part of the cluster, by constraint.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<Counted>);

/// One constraint and the pods that it is about.
#[derive(Debug)]
struct Counted {
    topology_key: String,
    is_hard: bool,
    max_skew: i64,
    min_domains: usize,
    /// Says that the pod itself counts.
    counts_itself: bool,
    domains: BTreeMap<String, i64>,
}

impl Counts {
    // Complexity: O(constraints times (nodes + neighbours)).
    pub(super) fn of<'n>(
        pod: &Pod,
        seen: Seen<'_>,
        neighbours: impl Iterator<Item = &'n Neighbour<'n>>,
        nodes: &[Arc<Node>],
    ) -> Self {
        let constraints = constraints(pod);
        if constraints.is_empty() {
            return Self::default();
        }
        let is_alike = |neighbour: &&Neighbour<'_>| {
            !neighbour.is_ending && neighbour.seen().namespace == seen.namespace
        };
        let alike: Vec<&Neighbour<'_>> = neighbours.filter(is_alike).collect();
        let count = |constraint: &TopologySpreadConstraint| {
            let nodes = nodes.iter().filter(|node| {
                counts_node(constraint, pod, node)
                    && of_kind(constraints, is_hard(constraint))
                        .all(|other| label(node, &other.topology_key).is_some())
            });
            counted(constraint, seen, &alike, nodes)
        };
        Self(constraints.iter().map(count).collect())
    }

    /// The reason why no deleted pod would make the node fit.
    pub(super) fn hopeless(&self, node: &Node) -> Option<&'static str> {
        let mut hard = self.0.iter().filter(|one| one.is_hard);
        hard.any(|one| label(node, &one.topology_key).is_none())
            .then_some(UNLABELED)
    }

    /// The reason why the node does not fit.
    pub(super) fn refusal(&self, node: &Node) -> Option<&'static str> {
        for one in self.0.iter().filter(|one| one.is_hard) {
            let Some(value) = label(node, &one.topology_key) else {
                return Some(UNLABELED);
            };
            let least = one.domains.values().min().copied().unwrap_or(0);
            let least = match one.domains.len() < one.min_domains {
                true => 0,
                false => least,
            };
            let here = one.domains.get(value).copied().unwrap_or(0);
            if here + i64::from(one.counts_itself) - least > one.max_skew {
                return Some(SKEWED);
            }
        }
        None
    }

    /// The number of pods alike in the parts that the node is in; the fewer, the better.
    pub(super) fn score(&self, node: &Node) -> i64 {
        let soft = self.0.iter().filter(|one| !one.is_hard);
        let scores = soft.map(|one| match label(node, &one.topology_key) {
            Some(value) => one.domains.get(value).copied().unwrap_or(0),
            None => i64::MAX,
        });
        scores.fold(0, i64::saturating_add)
    }
}

fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable != "ScheduleAnyway"
}

fn of_kind(
    all: &[TopologySpreadConstraint],
    hard: bool,
) -> impl Iterator<Item = &TopologySpreadConstraint> {
    all.iter().filter(move |one| is_hard(one) == hard)
}

/// Returns whether a node's part counts as one.
fn counts_node(constraint: &TopologySpreadConstraint, pod: &Pod, node: &Node) -> bool {
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let is_tainted = || {
        let mut taints = taints(node).iter();
        taints.any(|taint| taint.effect != "PreferNoSchedule" && !tolerates(tolerations, taint))
    };
    (constraint.node_affinity_policy.as_deref() == Some("Ignore") || matches_node(spec, node))
        && (constraint.node_taints_policy.as_deref() != Some("Honor") || !is_tainted())
}

fn counted<'n>(
    constraint: &TopologySpreadConstraint,
    pod: Seen<'_>,
    alike: &[&Neighbour<'_>],
    nodes: impl Iterator<Item = &'n Arc<Node>>,
) -> Counted {
    let keys = constraint.match_label_keys.as_deref().unwrap_or_default();
    let matches = |labels| {
        let mut keys = keys.iter().filter(|key| pod.labels.contains_key(*key));
        selector::matches(constraint.label_selector.as_ref(), labels)
            && keys.all(|key| pod.labels.get(key) == labels.get(key))
    };
    let mut by_node: HashMap<&str, i64> = HashMap::new();
    for neighbour in alike.iter().filter(|one| matches(&one.labels)) {
        *by_node.entry(neighbour.node).or_default() += 1;
    }
    let mut domains: BTreeMap<String, i64> = BTreeMap::new();
    for node in nodes {
        if let Some(value) = label(node, &constraint.topology_key) {
            let pods = by_node.get(name(node)).copied().unwrap_or(0);
            *domains.entry(value.clone()).or_default() += pods;
        }
    }
    let min_domains = constraint.min_domains.unwrap_or(1);
    Counted {
        topology_key: constraint.topology_key.clone(),
        is_hard: is_hard(constraint),
        max_skew: i64::from(constraint.max_skew),
        min_domains: usize::try_from(min_domains).unwrap_or(1),
        counts_itself: matches(pod.labels),
        domains,
    }
}
