//! The nodes that the kubelet plays: the one that it makes, and what it adds to others.
//!
//! ```text
//! no node at all → the body of one                node without Ready → conditions, room, addresses
//! ```

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::clock::stamp;

/// The name of the node that the kubelet makes in a cluster without nodes.
pub(crate) const NAME: &str = "kinform-node";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The address of nodes that state none.
pub(super) const HOST_IP: &str = "192.168.0.1";

/// The node of a cluster without nodes, with its status.
pub(super) fn node(now: Timestamp) -> Value {
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NAME, "labels": {
            "kubernetes.io/hostname": NAME,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
        }},
    });
    let bare = Node {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    if let Some(status) = missing_status(&bare, now) {
        node["status"] = status;
    }
    node
}

/// The status that a node lacks: all that it does not state, if it has no condition Ready.
pub(super) fn missing_status(node: &Node, now: Timestamp) -> Option<Value> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref());
    let is_ready = |one: &NodeCondition| one.type_ == "Ready";
    if conditions.unwrap_or_default().iter().any(is_ready) {
        return None;
    }
    let now = stamp(now);
    let mut missing = Map::new();
    missing.insert(
        "conditions".to_owned(),
        json!([{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }]),
    );
    let room = || json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
    let capacity = status.and_then(|s| s.capacity.as_ref());
    if capacity.is_none() {
        missing.insert("capacity".to_owned(), room());
    }
    if status.and_then(|s| s.allocatable.as_ref()).is_none() {
        let allocatable = capacity.map_or_else(room, |capacity| json!(capacity));
        missing.insert("allocatable".to_owned(), allocatable);
    }
    if internal_ip(node).is_none() {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let addresses = json!([
            {"type": "InternalIP", "address": HOST_IP},
            {"type": "Hostname", "address": name},
        ]);
        missing.insert("addresses".to_owned(), addresses);
    }
    Some(Value::Object(missing))
}

/// The taints of a node without the one that a new node has until it is ready; `None` if it has not
/// that one, or is not ready.
pub(super) fn taints_when_ready(node: &Node) -> Option<Value> {
    let is_ready = |one: &NodeCondition| one.type_ == "Ready" && one.status == "True";
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    let taints = node.spec.as_ref()?.taints.as_deref()?;
    let left: Vec<_> = taints
        .iter()
        .filter(|taint| taint.key != NOT_READY)
        .collect();
    let changes = left.len() < taints.len() && conditions.iter().any(is_ready);
    changes.then(|| match left.is_empty() {
        true => Value::Null,
        false => json!(left),
    })
}

/// Returns whether a node was lost: it gave no sign of life for too long.
pub(super) fn is_lost(node: &Node) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|one| one.type_ == "Ready" && one.status == "Unknown")
}

/// The address of a node within its cluster.
pub(super) fn internal_ip(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_deref()?;
    let internal = addresses.iter().find(|one| one.type_ == "InternalIP");
    internal.map(|one| one.address.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(status: Value) -> Option<Value> {
        let node = json!({"metadata": {"name": "n"}, "status": status});
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        missing_status(&serde_json::from_value(node).unwrap(), now)
    }

    #[test]
    fn a_bare_node_gets_room_and_a_ready_one_stays() {
        let status = missing(json!({})).unwrap();
        assert_eq!(status["allocatable"]["pods"], "1M");
        assert_eq!(status["conditions"][0]["status"], "True");
        let ready = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        assert_eq!(missing(ready), None);
    }

    #[test]
    fn a_ready_node_loses_the_taint_of_new_nodes() {
        let taints = |ready: &str, taints: Value| {
            let node = json!({
                "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            taints_when_ready(&serde_json::from_value(node).unwrap())
        };
        let new = || json!({"key": NOT_READY, "effect": "NoSchedule"});
        let other = || json!({"key": "k", "effect": "NoSchedule"});
        assert_eq!(taints("True", json!([new()])), Some(Value::Null));
        assert_eq!(
            taints("True", json!([new(), other()])),
            Some(json!([other()]))
        );
        assert_eq!(taints("True", json!([other()])), None);
        assert_eq!(taints("False", json!([new()])), None);
    }

    #[test]
    fn what_a_node_states_is_kept() {
        let status = json!({
            "capacity": {"cpu": "2"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
        });
        let status = missing(status).unwrap();
        assert_eq!(status["allocatable"], json!({"cpu": "2"}));
        assert_eq!(status.get("capacity"), None);
        assert_eq!(status.get("addresses"), None);
    }
}
