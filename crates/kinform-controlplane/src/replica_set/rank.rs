//! The order in which a set's pods are deleted.
//!
//! ```text
//! unbound, Pending, not ready, lower deletion cost, on fuller nodes, ready more recently, more restarts, newer
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_utils.go` (`ActivePodsWithRanks`).
//! Difference: times are compared exactly, not by the logarithm of their age.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use crate::pods::{is_ready, node, phase, ready_since, restarts};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The `surplus` pods that are deleted first.
pub(super) fn first_to_go(pods: &[Arc<Pod>], surplus: usize) -> Vec<Arc<Pod>> {
    if surplus == 0 {
        return Vec::new();
    }
    let mut on_node: HashMap<&str, usize> = HashMap::new();
    for pod in pods {
        *on_node.entry(node(pod)).or_default() += 1;
    }
    let mut ranked: Vec<&Arc<Pod>> = pods.iter().collect();
    ranked.sort_by_cached_key(|pod| {
        (
            !node(pod).is_empty(),
            match phase(pod) {
                "Pending" => 0,
                "Running" => 2,
                _ => 1,
            },
            is_ready(pod),
            cost(pod),
            Reverse(on_node.get(node(pod)).copied()),
            Reverse(ready_since(pod)),
            Reverse(restarts(pod)),
            Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
            pod.metadata.name.clone(),
        )
    });
    ranked.into_iter().take(surplus).map(Arc::clone).collect()
}

/// The cost of a deletion, as the pod's annotation says; 0 if it says nothing valid.
fn cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    let cost = annotations.and_then(|all| all.get(COST));
    cost.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, changes: &Value) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        });
        for (pointer, value) in changes.as_object().unwrap() {
            let path: Vec<&str> = pointer.split('/').collect();
            crate::json::set(&mut pod, &path, value.clone());
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_less_useful_of_two_pods_goes_first() {
        let check = |worse: Value, better: Value| {
            // Names are the last criterion, so the worse one has the later name.
            let pods = [pod("a", &better), pod("b", &worse)];
            let first = first_to_go(&pods, 1);
            assert_eq!(
                first[0].metadata.name.as_deref(),
                Some("b"),
                "{worse} {better}"
            );
        };
        let plain = || json!({});
        check(
            json!({"spec/nodeName": ""}),
            json!({"status/phase": "Pending"}),
        );
        check(json!({"status/phase": "Pending"}), plain());
        check(json!({"status/conditions": []}), plain());
        let cost = |cost: &str| json!({"metadata/annotations": {COST: cost}});
        check(cost("-5"), plain());
        check(plain(), cost("5"));
        let ready = |at: &str| {
            json!({"status/conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": at},
            ]})
        };
        check(ready("2026-01-01T00:00:05Z"), plain());
        let restarts = json!({"status/containerStatuses": [
            {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 1},
        ]});
        check(restarts, plain());
        check(
            json!({"metadata/creationTimestamp": "2026-01-01T00:00:05Z"}),
            plain(),
        );
    }

    #[test]
    fn pods_on_the_fuller_node_go_first() {
        let on = |name: &str, node: &str| pod(name, &json!({"spec/nodeName": node}));
        let pods = [on("a", "empty"), on("b", "full"), on("c", "full")];
        assert_eq!(first_to_go(&pods, 1)[0].metadata.name.as_deref(), Some("b"));
    }
}
