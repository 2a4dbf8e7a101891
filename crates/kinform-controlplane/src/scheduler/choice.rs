//! The choice of a node.
//!
//! ```text
//! pod + nodes + ledger ─▶ those that fit ─▶ preferred, without soft taints, fewest pods alike,
//!                                           fewest pods, name
//!                              └─ none ─▶ the message that counts the reasons
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/schedule_one.go`, `framework/types.go`
//! (`FitError`). Differences: the score counts pods, not shares of resources; equal nodes are taken in
//! the order of their names, not at random.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Pod};

use super::fit::{matches_term, name, none_fits, taints, tolerates};
use super::incoming::Incoming;
use super::ledger::{Ledger, priority};
use super::preempt::{Outcome, Preemption, preempt};

/// The result of a decision.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Node(String),
    /// No node fits, and these pods go; this is the message.
    Preempt(Preemption, String),
    /// Pods that it preempted are still on their way out.
    Wait,
    /// No node fits; this is why.
    Unschedulable(String),
}

/// Chooses a node for a pod.
pub(super) fn choose(incoming: &Incoming<'_>, ledger: &Ledger) -> Choice {
    let (key, pod, nodes) = (incoming.key, incoming.pod, incoming.nodes);
    let around = incoming.around(&BTreeSet::new());
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best = None;
    for node in nodes {
        let taken = ledger.taken_for(name(node), key, priority(pod));
        let refused = incoming.refusals(node, taken.as_deref(), &around);
        if !refused.is_empty() {
            for reason in refused {
                *reasons.entry(reason).or_default() += 1;
            }
            continue;
        }
        let pods = taken.map_or(0, |taken| taken.pods);
        let rank = (
            Reverse(preference(pod, node) + around.preference(node)),
            soft_taints(pod, node),
            around.crowd(node),
            pods,
            name(node),
        );
        if best.as_ref().is_none_or(|best| rank < *best) {
            best = Some(rank);
        }
    }
    if let Some((.., node)) = best {
        return Choice::Node(node.to_owned());
    }
    if nodes.is_empty() {
        return Choice::Unschedulable("no nodes available to schedule pods".to_owned());
    }
    let why = none_fits(nodes.len(), &reasons);
    let message = |preemption: &str| format!("{why} preemption: {preemption}");
    match preempt(incoming, &around, ledger) {
        Outcome::Preempt(preemption) => {
            let (node, count) = (&preemption.node, preemption.victims.len());
            let found = format!(
                "found a potential placement for pod on node {node}, preempting {count} victims"
            );
            let message = message(&found);
            Choice::Preempt(preemption, message)
        }
        Outcome::Wait => Choice::Wait,
        Outcome::Refuse(why) => Choice::Unschedulable(message(&why)),
    }
}

/// The weight of the pod's preferences that a node meets.
fn preference(pod: &Pod, node: &Node) -> i64 {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let affinity = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let preferred = affinity.and_then(|a| {
        a.preferred_during_scheduling_ignored_during_execution
            .as_deref()
    });
    let met = preferred.unwrap_or_default().iter();
    met.filter(|one| matches_term(&one.preference, node))
        .map(|one| i64::from(one.weight))
        .sum()
}

/// The number of taints that a node would rather not have tolerated in silence.
fn soft_taints(pod: &Pod, node: &Node) -> usize {
    let spec = pod.spec.as_ref();
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref());
    let soft = taints(node).iter().filter(|taint| {
        taint.effect == "PreferNoSchedule" && !tolerates(tolerations.unwrap_or_default(), taint)
    });
    soft.count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kinform::ObjectKey;
    use serde_json::{Value, json};

    use super::super::claims::Needs;
    use super::super::neighbours::Caches;
    use super::*;

    /// The choice for a pod whose neighbours have no labels.
    fn choose(key: &ObjectKey, pod: &Pod, nodes: &[Arc<Node>], ledger: &Ledger) -> Choice {
        let caches = Caches {
            pods: &|_| Some(BTreeMap::new()),
            namespaces: &|_| BTreeMap::new(),
            budgets: &Vec::new,
        };
        let needs = Needs::default();
        let incoming = Incoming::new(key, pod, (nodes, &needs), ledger, caches);
        super::choose(&incoming, ledger)
    }

    fn nodes(names: &[&str]) -> Vec<Arc<Node>> {
        let node = |name: &&str| {
            let node = json!({
                "metadata": {"name": name, "labels": {"zone": name}},
                "status": {"allocatable": {"cpu": "1", "pods": "10"}},
            });
            Arc::new(serde_json::from_value(node).unwrap())
        };
        names.iter().map(node).collect()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("x"), name)
    }

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    #[test]
    fn pods_spread_over_nodes() {
        let (nodes, mut ledger) = (nodes(&["b", "a"]), Ledger::default());
        let pod = pod(json!({"containers": []}));
        let mut chosen = Vec::new();
        for index in 0..4 {
            let Choice::Node(node) = choose(&key("p"), &pod, &nodes, &ledger) else {
                panic!("no node");
            };
            ledger.assume(&key(&index.to_string()), &pod, &node);
            chosen.push(node);
        }
        assert_eq!(chosen, ["a", "b", "a", "b"]);
    }

    #[test]
    fn preferences_come_before_spreading() {
        let prefers = json!({"containers": [], "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {
                "matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}],
            }}],
        }}});
        let chosen = choose(
            &key("p"),
            &pod(prefers),
            &nodes(&["a", "b"]),
            &Ledger::default(),
        );
        assert_eq!(chosen, Choice::Node("b".to_owned()));
    }

    #[test]
    fn the_message_counts_the_reasons() {
        let big = pod(json!({"containers": [
            {"name": "c", "resources": {"requests": {"cpu": "2"}}},
        ]}));
        let expected = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are \
                        available: 2 Preemption is not helpful for scheduling.";
        let chosen = choose(&key("p"), &big, &nodes(&["a", "b"]), &Ledger::default());
        assert_eq!(chosen, Choice::Unschedulable(expected.to_owned()));
    }
}
