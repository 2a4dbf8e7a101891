//! The pods of a Job: their indexes, their finalizer, their failures, and which of them go first.
//!
//! ```text
//! Pod ─▶ completion index, failures of its index, counted?, failed?
//! active pods + surplus ─▶ the pods to delete
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/indexed_job_utils.go`, `tracking_utils.go`,
//! `pkg/controller/controller_utils.go` (`ActivePods`).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::Pod;

use crate::pods::{is_ready, is_terminating, node, phase, ready_since, restarts};

/// The finalizer of a pod that its Job has not counted yet.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The label and the annotation with the completion index.
pub(super) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The annotation with the failures of an index that count.
pub(super) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The annotation with the failures of an index that a policy ignores.
pub(super) const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// Returns whether each completion of a Job has an index.
pub(super) fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Returns whether a pod is replaced only when it has failed, not while it is being deleted.
pub(super) fn replaces_failed(spec: &JobSpec) -> bool {
    spec.pod_replacement_policy.as_deref() == Some("Failed")
}

/// Returns whether the pod has the finalizer, and so is not counted yet.
pub(super) fn is_tracked(pod: &Pod) -> bool {
    let finalizers = pod.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|one| one == TRACKING)
}

/// The UID of a pod.
pub(super) fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// The number in an annotation; `None` if there is none, or if it is negative.
fn number(pod: &Pod, annotation: &str) -> Option<i32> {
    let annotations = pod.metadata.annotations.as_ref()?;
    let number = annotations.get(annotation)?.parse().ok();
    number.filter(|number| *number >= 0)
}

/// The completion index of a pod.
pub(super) fn index(pod: &Pod) -> Option<i32> {
    number(pod, INDEX)
}

/// The completion index of a pod, if the Job has such an index.
pub(super) fn valid_index(pod: &Pod, spec: &JobSpec) -> Option<i32> {
    index(pod).filter(|index| *index < spec.completions.unwrap_or(0))
}

/// The failures of the pod's index before this pod: those that count, and those that are ignored.
pub(super) fn failures_before(pod: &Pod) -> (i32, i32) {
    let count = |annotation| number(pod, annotation).unwrap_or(0);
    (count(FAILURES), count(IGNORED))
}

/// Returns whether the pod counts as failed. One that is being deleted does, unless the Job waits for
/// the end of its pods.
pub(super) fn is_failed(pod: &Pod, spec: &JobSpec) -> bool {
    match phase(pod) {
        "Failed" => true,
        "Succeeded" => false,
        _ => is_terminating(pod) && !replaces_failed(spec),
    }
}

/// Returns whether the pod is being deleted and did not end.
pub(super) fn is_ending(pod: &Pod) -> bool {
    is_terminating(pod) && !crate::pods::is_finished(pod)
}

/// The active pods to delete: those without a place among the indexes, then at least `surplus`.
pub(super) fn to_remove(spec: &JobSpec, active: &[Arc<Pod>], surplus: usize) -> Vec<Arc<Pod>> {
    let (mut remove, mut left) = (Vec::new(), active.to_vec());
    if is_indexed(spec) {
        left.clear();
        let mut by_index: BTreeMap<Option<i32>, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in active {
            let pods = by_index.entry(valid_index(pod, spec)).or_default();
            pods.push(Arc::clone(pod));
        }
        for (index, mut pods) in by_index {
            pods.sort_by_cached_key(rank);
            // One pod of a valid index stays.
            left.extend(index.and_then(|_| pods.pop()));
            remove.append(&mut pods);
        }
    }
    left.sort_by_cached_key(rank);
    let more = surplus.saturating_sub(remove.len());
    remove.extend(left.into_iter().take(more));
    remove
}

/// The rank of a pod: the lowest goes first.
fn rank(pod: &Arc<Pod>) -> impl Ord + use<> {
    let phase = match phase(pod) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    (
        !node(pod).is_empty(),
        phase,
        is_ready(pod),
        Reverse(ready_since(pod)),
        Reverse(restarts(pod)),
        Reverse(pod.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        pod.metadata.name.clone(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(changes: Value) -> JobSpec {
        let mut spec = json!({"template": {}});
        for (field, value) in changes.as_object().unwrap() {
            spec[field] = value.clone();
        }
        serde_json::from_value(spec).unwrap()
    }

    fn pod(name: &str, index: Option<&str>, phase: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": name, "annotations": index.map(|index| json!({INDEX: index}))},
            "status": {"phase": phase},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn removed(spec: &JobSpec, pods: &[Arc<Pod>], surplus: usize) -> Vec<String> {
        let removed = to_remove(spec, pods, surplus);
        removed
            .iter()
            .map(|pod| pod.metadata.name.clone().unwrap())
            .collect()
    }

    #[test]
    fn a_pod_that_is_deleted_has_failed_unless_its_end_is_awaited() {
        let mut ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let check = |pod: &Value, policy: &str, expected: bool| {
            let spec = spec(json!({"podReplacementPolicy": policy}));
            let parsed: Pod = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(is_failed(&parsed, &spec), expected, "{pod} {policy}");
        };
        check(&ending, "TerminatingOrFailed", true);
        check(&ending, "Failed", false);
        ending["status"] = json!({"phase": "Succeeded"});
        check(&ending, "TerminatingOrFailed", false);
        ending["status"] = json!({"phase": "Failed"});
        check(&ending, "Failed", true);
    }

    #[test]
    fn pods_that_do_less_go_first() {
        let pods = [
            pod("a", None, "Running"),
            pod("b", None, "Pending"),
            pod("c", None, "Running"),
        ];
        let plain = spec(json!({}));
        assert_eq!(removed(&plain, &pods, 0), [""; 0]);
        assert_eq!(removed(&plain, &pods, 2), ["b", "a"]);
        assert_eq!(removed(&plain, &pods, 9).len(), 3);
    }

    // kubernetes: TestAppendDuplicatedIndexPodsForRemoval
    #[test]
    fn pods_without_a_place_of_their_own_go() {
        let pods = [
            pod("a", Some("0"), "Running"),
            pod("b", Some("0"), "Pending"),
            pod("c", Some("1"), "Pending"),
            pod("d", Some("2"), "Running"),
            pod("e", Some("x"), "Running"),
            pod("f", None, "Running"),
        ];
        let indexed = spec(json!({"completionMode": "Indexed", "completions": 2}));
        let mut gone = removed(&indexed, &pods, 0);
        gone.sort();
        assert_eq!(gone, ["b", "d", "e", "f"]);
        // A surplus goes on among those that have a place.
        assert_eq!(removed(&indexed, &pods, 5).last().unwrap(), "c");
    }
}
