//! Preemption: pods of lower priority that go, so that a pod finds a node.
//!
//! ```text
//! pod that fits nowhere + nodes + ledger ─▶ victims of each node ─▶ the node that loses least | why not
//! ```
//!
//! Of a node's pods with lower priority all would go; as many as possible are kept, the more important
//! ones first, and before them those whose going would violate a disruption budget. Budgets do not forbid
//! preemption: the node that violates them least is chosen.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/preemption`,
//! `framework/plugins/defaultpreemption`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kinform::ObjectKey;
use serde_json::Value;

use super::fit::{name, none_fits};
use super::incoming::{Around, Incoming};
use super::ledger::{Held, Ledger, Taken, priority};
use super::neighbours::Caches;
use crate::json::{int, text};
use crate::selector::selects;

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
pub(super) fn preempt(incoming: &Incoming<'_>, around: &Around, ledger: &Ledger) -> Outcome {
    let (key, pod, nodes) = (incoming.key, incoming.pod, incoming.nodes);
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
    let budgets = match lower.is_empty() {
        true => Vec::new(),
        false => (incoming.caches.budgets)(),
    };
    // BOUND: candidates that are compared, as upstream: a tenth of the nodes, a hundred at least.
    let enough = (nodes.len() / 10).max(100);
    let (mut candidates, mut is_harmless) = (0, false);
    for node in nodes {
        if candidates >= enough && is_harmless {
            break;
        }
        let held = lower.get(name(node)).map_or(&[][..], Vec::as_slice);
        let taken = ledger
            .taken_for(name(node), key, priority)
            .unwrap_or_default();
        match victims((incoming, around), node, held, &taken, &budgets) {
            Ok((victims, violations)) => {
                candidates += 1;
                is_harmless |= violations == 0;
                let cost = (violations, cost(&victims), name(node));
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
        Some(((.., node), victims)) => Outcome::Preempt(Preemption {
            node: node.to_owned(),
            victims: victims.into_iter().map(|held| held.key.clone()).collect(),
        }),
        None => Outcome::Refuse(none_fits(nodes.len(), &reasons)),
    }
}

/// The pods that would go from a node, and the number of those that violate a budget; the error is why
/// that does not help.
// Complexity: O(held), times O(neighbours) for a pod with constraints about pods.
fn victims<'h>(
    (incoming, around): (&Incoming<'_>, &Around),
    node: &Node,
    held: &'h [Held<'h>],
    taken: &Taken,
    budgets: &[Arc<Value>],
) -> Result<(Vec<&'h Held<'h>>, usize), Vec<String>> {
    if incoming.is_hopeless(node, around) {
        return Err(vec!["Preemption is not helpful for scheduling".to_owned()]);
    }
    if held.is_empty() {
        let why = "No preemption victims found for incoming pod";
        return Err(vec![why.to_owned()]);
    }
    let mut left = taken.clone();
    let mut gone = BTreeSet::new();
    for one in held {
        left.remove(one.requests);
        gone.insert(one.key);
    }
    let refused = incoming.refusals(node, Some(&left), &incoming.around(&gone));
    if !refused.is_empty() {
        return Err(refused);
    }
    let mut order: Vec<&Held<'_>> = held.iter().collect();
    order.sort_by_key(|one| (Reverse(one.priority), one.since, one.key));
    let violating = violating(&order, budgets, incoming.caches);
    order.sort_by_key(|one| !violating.contains(one.key));
    let mut victims = Vec::new();
    for one in order {
        left.add(one.requests);
        gone.remove(one.key);
        let around = incoming.around(&gone);
        if !incoming.refusals(node, Some(&left), &around).is_empty() {
            left.remove(one.requests);
            gone.insert(one.key);
            victims.push(one);
        }
    }
    let violations = victims.iter().filter(|one| violating.contains(one.key));
    let violations = violations.count();
    Ok((victims, violations))
}

/// The pods whose going would violate a budget, if the others went before in this order.
fn violating<'h>(
    order: &[&'h Held<'h>],
    budgets: &[Arc<Value>],
    caches: Caches<'_>,
) -> BTreeSet<&'h ObjectKey> {
    let mut violating = BTreeSet::new();
    let allowed = |budget: &Arc<Value>| int(budget, "/status/disruptionsAllowed");
    let mut allowed: Vec<i64> = budgets.iter().map(allowed).collect();
    for one in order {
        let labels = (caches.pods)(one.key).unwrap_or_default();
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let disrupted = budget.pointer("/status/disruptedPods");
            let is_counted = disrupted.and_then(|all| all.get(one.key.name())).is_some();
            let is_its = text(budget, "/metadata/namespace") == namespace(one.key)
                && selects(budget.pointer("/spec/selector"), &labels);
            if is_its && !is_counted {
                *allowed -= 1;
                if *allowed < 0 {
                    violating.insert(one.key);
                }
            }
        }
    }
    violating
}

fn namespace(key: &ObjectKey) -> &str {
    key.namespace().unwrap_or_default()
}

/// The loss of victims: the highest priority, the sum of priorities, the number of pods, and how long
/// the most important one has run.
fn cost(victims: &[&Held<'_>]) -> (i64, i64, usize, Reverse<Timestamp>) {
    let highest = victims.iter().map(|one| one.priority).max();
    let highest = highest.unwrap_or(i64::MIN);
    // Priorities may be negative: more pods must not cost less.
    let sum = victims
        .iter()
        .map(|one| one.priority + i64::from(i32::MAX) + 1)
        .sum();
    let important = victims.iter().filter(|one| one.priority == highest);
    let earliest = important
        .map(|one| one.since)
        .min()
        .unwrap_or(Timestamp::MAX);
    (highest, sum, victims.len(), Reverse(earliest))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::super::claims::Needs;
    use super::super::ledger::News;
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

    fn node(name: &str) -> Arc<Node> {
        let node = json!({
            "metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "9"}},
        });
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn decide(pod: &Pod, ledger: &Ledger) -> Outcome {
        decide_with(pod, ledger, &[])
    }

    /// Decides with budgets; the labels of a pod are its name.
    fn decide_with(pod: &Pod, ledger: &Ledger, budgets: &[Arc<Value>]) -> Outcome {
        decide_on(&["a", "b"].map(node), pod, ledger, budgets)
    }

    fn decide_on(
        nodes: &[Arc<Node>],
        pod: &Pod,
        ledger: &Ledger,
        budgets: &[Arc<Value>],
    ) -> Outcome {
        let named = |key: &ObjectKey| BTreeMap::from([("name".to_owned(), key.name().to_owned())]);
        let caches = Caches {
            pods: &|key| Some(named(key)),
            namespaces: &|_| BTreeMap::new(),
            budgets: &|| budgets.to_vec(),
        };
        let (key, needs) = (key("new"), Needs::default());
        let incoming = Incoming::new(&key, pod, (nodes, &needs), ledger, caches);
        preempt(&incoming, &incoming.around(&BTreeSet::new()), ledger)
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

    // kubernetes: TestGetPodStartTime, TestMoreImportantPod
    #[test]
    fn a_pod_that_has_not_started_is_the_least_important_of_its_priority() {
        let check = |held: &[(&str, &str, &str, Option<&str>)], expected: &str| {
            let mut ledger = Ledger::default();
            for (name, node, cpu, time) in held {
                let mut pod = pod(0, cpu, "");
                let time = time.map(|time| json!({"startTime": time}));
                pod.status = time.map(|status| serde_json::from_value(status).unwrap());
                ledger.assume(&key(name), &pod, node);
            }
            let outcome = decide(&pod(10, "2", ""), &ledger);
            let Outcome::Preempt(preemption) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(preemption.victims, [key(expected)], "{held:?}");
        };
        let (early, late) = (Some("2026-01-01T00:00:00Z"), Some("2026-01-02T00:00:00Z"));
        let one_node = |v, w| {
            [
                ("v", "a", "2", v),
                ("w", "a", "2", w),
                ("y", "b", "4", early),
            ]
        };
        check(&one_node(early, late), "w");
        check(&one_node(late, early), "v");
        check(&one_node(None, late), "v");
        check(&one_node(late, None), "w");
        let two_nodes = |x, y| [("x", "a", "4", x), ("y", "b", "4", y)];
        check(&two_nodes(early, late), "y");
        check(&two_nodes(late, early), "x");
        check(&two_nodes(None, late), "x");
        check(&two_nodes(early, None), "y");
    }

    fn budget(name: &str, allowed: i64) -> Arc<Value> {
        Arc::new(json!({
            "metadata": {"namespace": "ns"},
            "spec": {"selector": {"matchLabels": {"name": name}}},
            "status": {"disruptionsAllowed": allowed},
        }))
    }

    // kubernetes: TestGetOffsetAndNumCandidates
    #[test]
    fn a_hundred_candidates_are_enough_unless_all_violate_a_budget() {
        let names: Vec<String> = (0..120).map(|at| format!("n{at:03}")).collect();
        let mut ledger = Ledger::default();
        for (at, name) in names.iter().enumerate() {
            // The first hundred lose more.
            let lost = pod(if at < 100 { 5 } else { 0 }, "4", "");
            ledger.assume(&key(name), &lost, name);
        }
        let nodes: Vec<Arc<Node>> = names.iter().map(|name| node(name)).collect();
        let chosen = |budgets: &[Arc<Value>]| {
            let outcome = decide_on(&nodes, &pod(10, "4", ""), &ledger, budgets);
            let Outcome::Preempt(preemption) = outcome else {
                panic!("{outcome:?}");
            };
            preemption.node
        };
        assert_eq!(chosen(&[]), "n000");
        let all: Vec<_> = names[..100].iter().map(|name| budget(name, 0)).collect();
        assert_eq!(chosen(&all), "n100");
    }

    // kubernetes: TestSelectBestCandidate, TestSelectNodesForPreemption (budgets)
    #[test]
    fn pods_that_a_budget_keeps_go_last() {
        let check = |held: &[(&str, &str, i32, &str)], budgets: &[Arc<Value>], expected: &str| {
            let outcome = decide_with(&pod(10, "3", ""), &ledger(held), budgets);
            let Outcome::Preempt(preemption) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!(preemption.victims, [key(expected)], "{held:?}");
        };
        // The node that violates no budget, although its pod has the higher priority.
        let nodes = [("x", "a", 0, "4"), ("y", "b", 5, "4")];
        check(&nodes, &[], "x");
        check(&nodes, &[budget("x", 0)], "y");
        check(&nodes, &[budget("x", 1)], "x");
        check(&nodes, &[budget("x", 0), budget("y", 0)], "x");
        // Of one node, the pod of the budget stays, although it is less important.
        let pods = [("v", "a", 0, "2"), ("w", "a", 5, "2"), ("y", "b", 20, "4")];
        let small =
            |budgets: &[Arc<Value>]| decide_with(&pod(10, "1", ""), &ledger(&pods), budgets);
        let goes = |name: &str| {
            Outcome::Preempt(Preemption {
                node: "a".to_owned(),
                victims: vec![key(name)],
            })
        };
        assert_eq!(small(&[]), goes("v"));
        assert_eq!(small(&[budget("v", 0)]), goes("w"));
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
        assert_eq!(ledger.see(&key("new"), &new), News::Same);
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
