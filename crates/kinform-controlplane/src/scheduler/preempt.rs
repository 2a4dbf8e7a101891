//! Preemption: pods of lower priority that go, so that a pod finds a node.
//!
//! ```text
//! pod that fits nowhere + nodes + ledger ─▶ victims of each node ─▶ the node that loses least | why not
//! ```
//!
//! Of a node's pods with lower priority all would go; as many as possible are kept, the more important
//! ones first. Not considered: disruption budgets.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/preemption`,
//! `framework/plugins/defaultpreemption`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::ObjectKey;

use super::fit::{name, refusals};
use super::ledger::{Held, Ledger, Requests, Taken, priority};

/// A node, and the pods that go from it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<ObjectKey>,
}

/// The result of a look for victims.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Preempt(Preemption),
    /// Pods that it preempted are still on their way out.
    Wait,
    /// No pod goes; this is why.
    Refuse(String),
}

/// Finds the pods that go for a pod that fits nowhere.
pub(super) fn preempt(
    key: &ObjectKey,
    pod: &Pod,
    requests: &Requests,
    nodes: &[Arc<Node>],
    ledger: &Ledger,
) -> Outcome {
    let spec = pod.spec.as_ref();
    if spec.and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Outcome::Refuse("not eligible due to preemptionPolicy=Never.".to_owned());
    }
    let priority = priority(pod);
    let lower = ledger.below(priority);
    let status = pod.status.as_ref();
    let nominated = status.and_then(|status| status.nominated_node_name.as_deref());
    let nominated = ledger.nominated(key).or(nominated);
    let waited_for = nominated.and_then(|node| lower.get(node));
    if waited_for.into_iter().flatten().any(|held| held.is_ending) {
        return Outcome::Wait;
    }
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut best = None;
    for node in nodes {
        let held = lower.get(name(node)).map_or(&[][..], Vec::as_slice);
        let taken = ledger
            .taken_for(name(node), key, priority)
            .unwrap_or_default();
        match victims(pod, requests, node, held, &taken) {
            Ok(victims) => {
                let cost = (cost(&victims), name(node));
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, victims));
                }
            }
            Err(refused) => {
                for reason in refused {
                    *reasons.entry(reason).or_default() += 1;
                }
            }
        }
    }
    match best {
        Some(((_, node), victims)) => Outcome::Preempt(Preemption {
            node: node.to_owned(),
            victims: victims.into_iter().map(|held| held.key.clone()).collect(),
        }),
        None => {
            let counted = reasons
                .iter()
                .map(|(reason, count)| format!("{count} {reason}"));
            let mut counted: Vec<String> = counted.collect();
            counted.sort();
            let (all, counted) = (nodes.len(), counted.join(", "));
            Outcome::Refuse(format!("0/{all} nodes are available: {counted}."))
        }
    }
}

/// The pods that would go from a node; the error is why that does not help.
fn victims<'h>(
    pod: &Pod,
    requests: &Requests,
    node: &Node,
    held: &'h [Held<'h>],
    taken: &Taken,
) -> Result<Vec<&'h Held<'h>>, Vec<String>> {
    if !refusals(pod, requests, node, None).is_empty() {
        return Err(vec!["Preemption is not helpful for scheduling".to_owned()]);
    }
    if held.is_empty() {
        let why = "No preemption victims found for incoming pod";
        return Err(vec![why.to_owned()]);
    }
    let mut left = taken.clone();
    for one in held {
        left.remove(one.requests);
    }
    let refused = refusals(pod, requests, node, Some(&left));
    if !refused.is_empty() {
        return Err(refused);
    }
    let mut order: Vec<&Held<'_>> = held.iter().collect();
    order.sort_by_key(|one| (Reverse(one.priority), one.since, one.key));
    let mut victims = Vec::new();
    for one in order {
        left.add(one.requests);
        if !refusals(pod, requests, node, Some(&left)).is_empty() {
            left.remove(one.requests);
            victims.push(one);
        }
    }
    Ok(victims)
}

/// The loss of victims: the highest priority, the sum of priorities, the number of pods, and how long
/// the most important one has run.
fn cost(victims: &[&Held<'_>]) -> (i64, i64, usize, Reverse<Option<Timestamp>>) {
    let highest = victims.iter().map(|one| one.priority).max();
    let highest = highest.unwrap_or(i64::MIN);
    // Priorities may be negative: more pods must not cost less.
    let sum = victims
        .iter()
        .map(|one| one.priority + i64::from(i32::MAX) + 1)
        .sum();
    let important = victims.iter().filter(|one| one.priority == highest);
    let earliest = important.map(|one| one.since).min().flatten();
    (highest, sum, victims.len(), Reverse(earliest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ledger::requests;
    use super::*;

    fn pod(priority: i32, cpu: &str, policy: &str) -> Pod {
        let resources = json!({"requests": {"cpu": cpu}});
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "priority": priority, "preemptionPolicy": policy,
            "containers": [{"name": "c", "resources": resources}],
        }});
        serde_json::from_value(pod).unwrap()
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(Some("ns"), name)
    }

    /// Pods on nodes of 4 CPUs: name, node, priority, CPUs.
    fn ledger(held: &[(&str, &str, i32, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (name, node, priority, cpu) in held {
            ledger.assume(&key(name), &pod(*priority, cpu, ""), node);
        }
        ledger
    }

    fn nodes() -> Vec<Arc<Node>> {
        let node = |name| {
            let node = json!({
                "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}},
            });
            Arc::new(serde_json::from_value(node).unwrap())
        };
        ["a", "b"].map(node).into()
    }

    fn decide(pod: &Pod, ledger: &Ledger) -> Outcome {
        preempt(&key("new"), pod, &requests(pod), &nodes(), ledger)
    }

    fn check(held: &[(&str, &str, i32, &str)], cpu: &str, node: &str, victims: &[&str]) {
        let expected = Outcome::Preempt(Preemption {
            node: node.to_owned(),
            victims: victims.iter().map(|name| key(name)).collect(),
        });
        let decided = decide(&pod(10, cpu, ""), &ledger(held));
        assert_eq!(decided, expected, "{held:?}");
    }

    #[test]
    fn the_node_that_loses_least_is_chosen() {
        check(
            &[("x", "a", 0, "3500m"), ("y", "b", 0, "3500m")],
            "3",
            "a",
            &["x"],
        );
        check(
            &[("x", "a", 5, "3500m"), ("y", "b", 0, "3500m")],
            "3",
            "b",
            &["y"],
        );
        let two = [("w", "a", 0, "2"), ("x", "a", 0, "2"), ("y", "b", 0, "4")];
        check(&two, "4", "b", &["y"]);
        // As many as possible stay, the more important ones first.
        let three = [("v", "a", 1, "1"), ("w", "a", 2, "3"), ("y", "b", 20, "4")];
        check(&three, "1", "a", &["v"]);
        let small = [("v", "a", 0, "1"), ("w", "a", 0, "3"), ("y", "b", 20, "4")];
        check(&small, "1", "a", &["w"]);
    }

    #[test]
    fn the_reason_why_no_pod_goes_is_reported() {
        let refused = |pod: &Pod, held: &[(&str, &str, i32, &str)]| match decide(pod, &ledger(held))
        {
            Outcome::Refuse(why) => why,
            other => panic!("{other:?}"),
        };
        let full = [("x", "a", 0, "4"), ("y", "b", 20, "4")];
        let never = refused(&pod(10, "1", "Never"), &full);
        assert_eq!(never, "not eligible due to preemptionPolicy=Never.");
        let equal = refused(&pod(0, "1", ""), &full);
        let expected = "0/2 nodes are available: 2 No preemption victims found for incoming pod.";
        assert_eq!(equal, expected);
        let big = refused(&pod(10, "64", ""), &full);
        let expected = "0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        assert_eq!(big, expected);
    }

    #[test]
    fn room_is_kept_until_the_victims_are_gone() {
        let mut ledger = ledger(&[("x", "a", 0, "4"), ("y", "b", 20, "4")]);
        let new = pod(10, "4", "");
        ledger.nominate(&key("new"), &new, "a");
        // The watch shows the status that tells of the nomination.
        assert!(!ledger.see(&key("new"), &new));
        assert_eq!(ledger.nominated(&key("new")), Some("a"));
        ledger.end(&key("x"));
        assert_eq!(decide(&new, &ledger), Outcome::Wait);
        ledger.remove(&key("x"));
        let cpu = |name: &str, priority| {
            let taken = ledger.taken_for("a", &key(name), priority);
            taken.map_or(0, |taken| taken.requests["cpu"])
        };
        // For the pod itself the node is free, also for a more important one.
        assert_eq!(
            [cpu("new", 10), cpu("other", 0), cpu("other", 11)],
            [0, 4000, 0]
        );
        ledger.assume(&key("new"), &new, "a");
        assert_eq!(ledger.nominated(&key("new")), None);
    }
}
