//! The filters: whether a pod may run on a node.
//!
//! ```text
//! pod + node + what is taken of it → fits | the reasons why not
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/plugins` (`nodename`,
//! `nodeunschedulable`, `tainttoleration`, `nodeaffinity`, `noderesources`), with their messages.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration,
};

use super::ledger::{Requests, Taken};
use crate::quantity::milli;
use crate::selector::meets;

/// The reasons why a pod cannot run on a node; empty if it can. The first filter that refuses ends
/// the check, as upstream's.
pub(super) fn refusals(
    pod: &Pod,
    requests: &Requests,
    node: &Node,
    taken: Option<&Taken>,
) -> Vec<String> {
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let is_cordoned = node.spec.as_ref().and_then(|s| s.unschedulable) == Some(true);
    if is_cordoned && !tolerates(tolerations, &unschedulable()) {
        return vec!["node(s) were unschedulable".to_owned()];
    }
    let untolerated = taints(node)
        .iter()
        .filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"))
        .find(|taint| !tolerates(tolerations, taint));
    if let Some(taint) = untolerated {
        let value = taint.value.as_deref().unwrap_or_default();
        let taint = format!("{{{}: {value}}}", taint.key);
        return vec![format!("node(s) had untolerated taint {taint}")];
    }
    if !matches_node(spec, node) {
        return vec!["node(s) didn't match Pod's node affinity/selector".to_owned()];
    }
    lacks(requests, node, taken)
}

/// The resources that a node lacks for these requests.
fn lacks(requests: &Requests, node: &Node, taken: Option<&Taken>) -> Vec<String> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
    let room = |resource: &str| {
        let amount = allocatable.and_then(|all| all.get(resource));
        amount.map_or(0, |amount| milli(&amount.0))
    };
    let mut lacks = Vec::new();
    let pods = taken.map_or(0, |taken| taken.pods);
    if i128::try_from(pods + 1).unwrap_or(i128::MAX) * 1000 > room("pods") {
        lacks.push("Too many pods".to_owned());
    }
    for (resource, wanted) in requests.iter().filter(|(_, wanted)| **wanted > 0) {
        let taken = taken.and_then(|taken| taken.requests.get(resource));
        if taken.copied().unwrap_or(0) + wanted > room(resource) {
            lacks.push(format!("Insufficient {resource}"));
        }
    }
    lacks
}

/// The message for a pod that no node fits: it counts the reasons.
pub(super) fn none_fits(nodes: usize, reasons: &BTreeMap<String, usize>) -> String {
    let counted = reasons.iter();
    let counted = counted.map(|(reason, count)| format!("{count} {reason}"));
    let mut counted: Vec<String> = counted.collect();
    counted.sort();
    format!("0/{nodes} nodes are available: {}.", counted.join(", "))
}

/// The taints of a node.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    let spec = node.spec.as_ref();
    spec.and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

/// The taint that a cordoned node counts as having.
fn unschedulable() -> Taint {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

/// Returns whether one of the tolerations covers a taint.
pub(crate) fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|one| {
        let effect = one.effect.as_deref().unwrap_or_default();
        let key = one.key.as_deref().unwrap_or_default();
        let is_value =
            one.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
        (effect.is_empty() || effect == taint.effect)
            && (key.is_empty() || key == taint.key)
            && match one.operator.as_deref().unwrap_or_default() {
                "" | "Equal" => is_value,
                "Exists" => true,
                _ => false,
            }
    })
}

/// Returns whether the pod's node selector and required node affinity select a node.
pub(crate) fn matches_node(spec: &PodSpec, node: &Node) -> bool {
    let selector = spec.node_selector.iter().flatten();
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref());
    let required = affinity.and_then(|a| {
        a.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    selector
        .into_iter()
        .all(|(key, value)| label(node, key) == Some(value))
        && required.is_none_or(|required| {
            let terms = required.node_selector_terms.iter();
            terms.into_iter().any(|term| matches_term(term, node))
        })
}

/// Returns whether a term selects a node. A term without requirements selects none.
pub(super) fn matches_term(term: &NodeSelectorTerm, node: &Node) -> bool {
    let of_labels = term.match_expressions.as_deref().unwrap_or_default();
    let of_fields = term.match_fields.as_deref().unwrap_or_default();
    let field = |key: &str| (key == "metadata.name").then(|| name(node));
    !(of_labels.is_empty() && of_fields.is_empty())
        && all_meet(of_labels, |key| label(node, key).map(String::as_str))
        && all_meet(of_fields, field)
}

/// Returns whether the values that are found meet all requirements.
fn all_meet<'n>(
    requirements: &[NodeSelectorRequirement],
    found: impl Fn(&str) -> Option<&'n str>,
) -> bool {
    requirements.iter().all(|one| {
        let values = one.values.as_deref().unwrap_or_default();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        meets(&one.operator, found(&one.key), &values)
    })
}

/// The name of a node.
pub(crate) fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

/// The value of a label of a node.
pub(super) fn label<'n>(node: &'n Node, key: &str) -> Option<&'n String> {
    node.metadata.labels.as_ref()?.get(key)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ledger::requests;
    use super::*;

    fn check(pod: Value, node: Value, expected: &[&str]) {
        let mut spec = json!({"containers": []});
        spec.as_object_mut()
            .unwrap()
            .extend(pod.as_object().unwrap().clone());
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let node = json!({
            "metadata": {"name": "n", "labels": {"disk": "ssd", "cores": "8"}},
            "spec": node,
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}},
        });
        let node: Node = serde_json::from_value(node).unwrap();
        let taken = Taken {
            pods: 1,
            requests: [("cpu".to_owned(), 1000)].into(),
        };
        let refused = refusals(&pod, &requests(&pod), &node, Some(&taken));
        assert_eq!(refused, expected, "{pod:?}");
    }

    #[test]
    fn nodes_are_filtered_by_labels_and_fields() {
        let mismatch = ["node(s) didn't match Pod's node affinity/selector"];
        check(json!({}), json!({}), &[]);
        check(json!({"nodeSelector": {"disk": "ssd"}}), json!({}), &[]);
        check(
            json!({"nodeSelector": {"disk": "hdd"}}),
            json!({}),
            &mismatch,
        );
        let affinity = |term: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}})
        };
        let gt = json!({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]});
        check(affinity(gt), json!({}), &[]);
        let other = json!({"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["m"]},
        ]});
        check(affinity(other), json!({}), &mismatch);
        check(affinity(json!({})), json!({}), &mismatch);
    }

    #[test]
    fn taints_need_tolerations() {
        let taint =
            |effect: &str| json!({"taints": [{"key": "k", "value": "v", "effect": effect}]});
        let refused = ["node(s) had untolerated taint {k: v}"];
        check(json!({}), taint("NoSchedule"), &refused);
        check(json!({}), taint("NoExecute"), &refused);
        check(json!({}), taint("PreferNoSchedule"), &[]);
        let tolerating = |toleration: Value| json!({"tolerations": [toleration]});
        check(
            tolerating(json!({"operator": "Exists"})),
            taint("NoSchedule"),
            &[],
        );
        let equal = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
        check(tolerating(equal), taint("NoSchedule"), &[]);
        let other = json!({"key": "k", "value": "w"});
        check(tolerating(other), taint("NoSchedule"), &refused);
        let cordoned = json!({"unschedulable": true});
        check(json!({}), cordoned.clone(), &["node(s) were unschedulable"]);
        check(tolerating(json!({"operator": "Exists"})), cordoned, &[]);
    }

    #[test]
    fn resources_must_be_free() {
        let asking = |resource: &str, amount: &str| json!({"containers": [{"name": "c", "resources": {"requests": {resource: amount}}}]});
        check(asking("cpu", "1"), json!({}), &[]);
        check(asking("cpu", "1001m"), json!({}), &["Insufficient cpu"]);
        check(
            asking("memory", "1025Mi"),
            json!({}),
            &["Insufficient memory"],
        );
        check(
            asking("example.com/gpu", "1"),
            json!({}),
            &["Insufficient example.com/gpu"],
        );
    }
}
