//! The decision about a ReplicaSet's pods: whose they are, and how many are missing or too many.
//!
//! ```text
//! set + (its pods, pods without a controller) → adopt, release, create n | delete these; who counts
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_ref_manager.go` (`ClaimPods`),
//! `pkg/controller/replicaset/replica_set.go` (`manageReplicas`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::rank::first_to_go;
use crate::json::{int, is_terminating, uid};
use crate::pods::{controller_uid, is_active, is_finished, is_terminating as is_ending};
use crate::selector::selects;

/// The writes to pods, and the pods that count.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) adopt: Vec<Arc<Pod>>,
    pub(super) release: Vec<Arc<Pod>>,
    pub(super) create: usize,
    pub(super) delete: Vec<Arc<Pod>>,
    /// The set's pods that are alive, adopted ones among them.
    pub(super) active: Vec<Arc<Pod>>,
    /// The set's pods that are being deleted.
    pub(super) ending: usize,
}

/// Decides about the pods that a set owns and those that nobody owns.
pub(super) fn plan(set: &Value, pods: &[Arc<Pod>]) -> Plan {
    let mut plan = Plan::default();
    let selector = set.pointer("/spec/selector");
    let no_labels = BTreeMap::new();
    for pod in pods {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
        let is_selected = selects(selector, labels);
        let is_owned = controller_uid(pod) == Some(uid(set));
        if is_owned && is_ending(pod) && is_selected && !is_finished(pod) {
            plan.ending += 1;
        }
        if !is_active(pod) {
            continue;
        }
        match (is_owned, is_selected) {
            (true, true) => plan.active.push(Arc::clone(pod)),
            (true, false) => plan.release.push(Arc::clone(pod)),
            (false, true) if controller_uid(pod).is_none() && !is_terminating(set) => {
                plan.adopt.push(Arc::clone(pod));
                plan.active.push(Arc::clone(pod));
            }
            _ => {}
        }
    }
    let wanted = usize::try_from(int(set, "/spec/replicas")).unwrap_or(0);
    plan.create = wanted.saturating_sub(plan.active.len());
    let surplus = plan.active.len().saturating_sub(wanted);
    plan.delete = first_to_go(&plan.active, surplus);
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"name": "x", "uid": "set"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}},
        })
    }

    fn pod(name: &str, app: &str, owner: Option<&str>, phase: &str) -> Arc<Pod> {
        let owners = owner.map(|uid| {
            json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": true}])
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": app}, "ownerReferences": owners},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter()
            .filter_map(|pod| pod.metadata.name.as_deref())
            .collect()
    }

    #[test]
    fn orphans_are_adopted_and_strangers_left() {
        let pods = [
            pod("own", "x", Some("set"), "Running"),
            pod("orphan", "x", None, "Running"),
            pod("ended", "x", None, "Succeeded"),
            pod("other", "y", None, "Running"),
            pod("foreign", "x", Some("another"), "Running"),
            pod("relabelled", "z", Some("set"), "Running"),
        ];
        let plan = plan(&set(3), &pods);
        assert_eq!(names(&plan.adopt), ["orphan"]);
        assert_eq!(names(&plan.release), ["relabelled"]);
        assert_eq!(names(&plan.active), ["own", "orphan"]);
        assert_eq!((plan.create, plan.delete.len()), (1, 0));
    }

    #[test]
    fn pods_that_end_are_replaced_at_once() {
        let mut ending = Pod::clone(&pod("ending", "x", Some("set"), "Running"));
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
        let pods = [
            Arc::new(ending),
            pod("failed", "x", Some("set"), "Failed"),
            pod("a", "x", Some("set"), "Pending"),
        ];
        let plan = plan(&set(2), &pods);
        assert_eq!((plan.create, plan.ending, plan.active.len()), (1, 1, 1));
    }

    #[test]
    fn a_set_that_is_deleted_adopts_no_pod() {
        let mut set = set(1);
        set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert!(
            plan(&set, &[pod("orphan", "x", None, "Running")])
                .adopt
                .is_empty()
        );
    }

    #[test]
    fn what_is_too_many_is_deleted() {
        let pods = [
            pod("a", "x", Some("set"), "Running"),
            pod("b", "x", Some("set"), "Pending"),
        ];
        assert_eq!(names(&plan(&set(1), &pods).delete), ["b"]);
        assert_eq!(plan(&set(0), &pods).delete.len(), 2);
    }
}
