//! The taints and labels that a node should have.
//!
//! ```text
//! conditions, unschedulable ─▶ taints NoSchedule        Ready, disruption ─▶ a taint NoExecute
//! kubernetes.io/os, arch ─▶ beta.kubernetes.io/os, arch
//! ```
//!
//! Taints of others, and those with another effect, stay.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/nodelifecycle/node_lifecycle_controller.go`
//! (`doNoScheduleTaintingPass`, `doNoExecuteTaintingPass`, `reconcileNodeLabels`).

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::health::condition;
use crate::clock::stamp;
use crate::json::text;

pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The effect of the taints that evict.
pub(super) const NO_EXECUTE: &str = "NoExecute";

/// The conditions that ask for a taint: type, status, key of the taint.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The labels whose older form has the same value.
const OF_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

fn taints(node: &Value) -> &[Value] {
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    taints.map_or(&[], Vec::as_slice)
}

fn is(taint: &Value, key: &str, effect: &str) -> bool {
    text(taint, "/key") == key && text(taint, "/effect") == effect
}

/// Returns whether a node has a taint that evicts.
pub(super) fn evicts(node: &Value, key: &str) -> bool {
    taints(node).iter().any(|taint| is(taint, key, NO_EXECUTE))
}

/// The taints of a node with those against scheduling that its conditions ask for; `None` if it has
/// them.
pub(super) fn against_scheduling(node: &Value, now: Timestamp) -> Option<Value> {
    let status = |kind| condition(node, kind).map(|one| text(one, "/status"));
    let asked = OF_CONDITIONS
        .iter()
        .filter(|(kind, wanted, _)| status(kind) == Some(*wanted));
    let mut wanted: Vec<&str> = asked.map(|(_, _, key)| *key).collect();
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        wanted.push(UNSCHEDULABLE);
    }
    let managed = OF_CONDITIONS.map(|(_, _, key)| key);
    let managed = [&managed[..], &[UNSCHEDULABLE]].concat();
    changed(node, "NoSchedule", &managed, &wanted, now)
}

/// The taints of a node with this one that evicts, or without any; `None` if it has them.
pub(super) fn for_eviction(node: &Value, wanted: Option<&str>, now: Timestamp) -> Option<Value> {
    let managed = [NOT_READY, UNREACHABLE];
    changed(node, NO_EXECUTE, &managed, wanted.as_slice(), now)
}

/// The taints of a node, of the managed ones those that are wanted.
fn changed(
    node: &Value,
    effect: &str,
    managed: &[&str],
    wanted: &[&str],
    now: Timestamp,
) -> Option<Value> {
    let before = taints(node);
    let is_unwanted = |taint: &&Value| {
        let key = text(taint, "/key");
        text(taint, "/effect") == effect && managed.contains(&key) && !wanted.contains(&key)
    };
    let kept = before.iter().filter(|taint| !is_unwanted(taint));
    let mut after: Vec<Value> = kept.cloned().collect();
    for key in wanted {
        if !after.iter().any(|taint| is(taint, key, effect)) {
            after.push(json!({"key": key, "effect": effect, "timeAdded": stamp(now)}));
        }
    }
    (after != before).then(|| match after.is_empty() {
        true => Value::Null,
        false => after.into(),
    })
}

/// The labels that a node lacks.
pub(super) fn missing_labels(node: &Value) -> Option<Value> {
    let labels = node.pointer("/metadata/labels")?;
    let missing = OF_LABELS.iter().filter_map(|(label, older)| {
        let value = labels.get(label)?;
        (labels.get(older) != Some(value)).then(|| ((*older).to_owned(), value.clone()))
    });
    let missing: Map<String, Value> = missing.collect();
    (!missing.is_empty()).then(|| missing.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn node(taints: &[(&str, &str)], conditions: &[(&str, &str)]) -> Value {
        let taint = |(key, effect): &(&str, &str)| json!({"key": key, "effect": effect});
        let condition = |(kind, status): &(&str, &str)| json!({"type": kind, "status": status});
        json!({
            "spec": {"taints": taints.iter().map(taint).collect::<Vec<_>>()},
            "status": {"conditions": conditions.iter().map(condition).collect::<Vec<_>>()},
        })
    }

    fn keys(taints: Option<&Value>) -> Option<Vec<String>> {
        let taints = taints?.as_array().cloned().unwrap_or_default();
        let one = |taint: &Value| format!("{}:{}", text(taint, "/key"), text(taint, "/effect"));
        Some(taints.iter().map(one).collect())
    }

    // kubernetes: TestTaintsNodeByCondition
    #[test]
    fn conditions_keep_pods_off_a_node() {
        let check = |node: &Value, expected: Option<&[&str]>| {
            let found = keys(against_scheduling(node, now()).as_ref());
            let short = found.map(|all| {
                let all = all.iter();
                all.map(|key| key.trim_start_matches("node.kubernetes.io/").to_owned())
                    .collect::<Vec<_>>()
            });
            let expected = expected.map(|all| all.iter().map(|&one| one.to_owned()).collect());
            assert_eq!(short, expected, "{node}");
        };
        let new = [(NOT_READY, "NoSchedule")];
        let ready = [("Ready", "True")];
        check(&node(&new, &ready), Some(&[]));
        check(&node(&new, &[("Ready", "False")]), None);
        check(
            &node(&new, &[("Ready", "Unknown")]),
            Some(&["unreachable:NoSchedule"]),
        );
        check(&node(&[], &ready), None);
        // Taints of others, and of another effect.
        let others = [("k", "NoSchedule"), (NOT_READY, "NoExecute")];
        check(&node(&others, &ready), None);
        let all = [
            ("Ready", "True"),
            ("MemoryPressure", "True"),
            ("DiskPressure", "True"),
            ("PIDPressure", "True"),
            ("NetworkUnavailable", "True"),
        ];
        let expected = [
            "memory-pressure:NoSchedule",
            "disk-pressure:NoSchedule",
            "network-unavailable:NoSchedule",
            "pid-pressure:NoSchedule",
        ];
        check(&node(&[], &all), Some(&expected));
        let mut cordoned = node(&[], &ready);
        cordoned["spec"]["unschedulable"] = true.into();
        check(&cordoned, Some(&["unschedulable:NoSchedule"]));
        check(&node(&[(UNSCHEDULABLE, "NoSchedule")], &ready), Some(&[]));
    }

    #[test]
    fn a_node_has_one_taint_that_evicts() {
        let check = |taints: &[(&str, &str)], wanted, expected: Option<&[&str]>| {
            let found = keys(for_eviction(&node(taints, &[]), wanted, now()).as_ref());
            let expected = expected.map(|all| all.iter().map(|&one| one.to_owned()).collect());
            assert_eq!(found, expected, "{taints:?} {wanted:?}");
        };
        let (no_schedule, no_execute) = ((UNREACHABLE, "NoSchedule"), (UNREACHABLE, NO_EXECUTE));
        let [first, second] = [
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute",
        ];
        check(&[no_schedule], Some(UNREACHABLE), Some(&[first, second]));
        check(&[no_schedule, no_execute], Some(UNREACHABLE), None);
        check(&[no_schedule, no_execute], None, Some(&[first]));
        check(
            &[no_execute],
            Some(NOT_READY),
            Some(&["node.kubernetes.io/not-ready:NoExecute"]),
        );
        check(&[("k", NO_EXECUTE)], None, None);
    }

    #[test]
    fn older_labels_follow_the_newer_ones() {
        let node = |labels: Value| json!({"metadata": {"labels": labels}});
        let os = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"});
        assert_eq!(
            missing_labels(&node(os)),
            Some(json!({"beta.kubernetes.io/os": "linux"}))
        );
        let alike = json!({"kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "arm64"});
        assert_eq!(missing_labels(&node(alike)), None);
        assert_eq!(missing_labels(&json!({"metadata": {}})), None);
    }
}
