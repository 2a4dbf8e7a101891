//! The status of a StatefulSet.
//!
//! ```text
//! set + its pods + names of the current and the next revision → counts → status
//! ```
//!
//! The current revision becomes the next one when all pods are of it and ready.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset/stateful_set_control.go`
//! (`computeReplicaStatus`, `completeRollingUpdate`).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::identity::revision_of;
use crate::json::{add_count, int, maybe_int, set as put, text};
use crate::pods::{is_available, is_ready, is_terminating, min_ready, phase};

/// The counts and revisions of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) replicas: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) current: i64,
    pub(super) updated: i64,
    pub(super) current_revision: String,
    pub(super) update_revision: String,
    pub(super) collisions: i64,
}

/// Returns whether a pod runs and is ready.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    phase(pod) == "Running" && is_ready(pod)
}

impl Status {
    /// Counts pods. `revisions` are the names of the current and the next one.
    pub(super) fn of(
        set: &Value,
        pods: &[Arc<Pod>],
        revisions: (&str, &str),
        now: Timestamp,
    ) -> Self {
        let (current, update) = revisions;
        let min_ready = min_ready(set);
        let count = |counts: &dyn Fn(&Pod) -> bool| {
            let counted = pods.iter().filter(|pod| counts(pod)).count();
            i64::try_from(counted).unwrap_or(i64::MAX)
        };
        let is_of =
            |pod: &Pod, revision: &str| !is_terminating(pod) && revision_of(pod) == revision;
        Self {
            replicas: count(&|_| true),
            ready: count(&is_running_and_ready),
            available: count(&|pod| is_running_and_ready(pod) && is_available(pod, min_ready, now)),
            current: count(&|pod| is_of(pod, current)),
            updated: count(&|pod| is_of(pod, update)),
            current_revision: current.to_owned(),
            update_revision: update.to_owned(),
            collisions: int(set, "/status/collisionCount"),
        }
    }

    /// Ends a rolling update if all pods that the set asks for are of the next revision and ready.
    pub(super) fn complete(&mut self, set: &Value) {
        let wanted = maybe_int(set, "/spec/replicas").unwrap_or(1);
        let is_rolling = text(set, "/spec/updateStrategy/type") == "RollingUpdate";
        if is_rolling && [self.updated, self.ready, self.replicas] == [wanted; 3] {
            self.current = self.updated;
            self.current_revision.clone_from(&self.update_revision);
        }
    }

    /// The status as the object has it.
    pub(super) fn to_json(&self, set: &Value) -> Value {
        let mut status = json!({
            "observedGeneration": int(set, "/metadata/generation"),
            "replicas": self.replicas,
            "availableReplicas": self.available,
            "collisionCount": self.collisions,
        });
        add_count(&mut status, "readyReplicas", self.ready);
        add_count(&mut status, "currentReplicas", self.current.max(0));
        add_count(&mut status, "updatedReplicas", self.updated);
        for (field, revision) in [
            ("currentRevision", &self.current_revision),
            ("updateRevision", &self.update_revision),
        ] {
            if !revision.is_empty() {
                put(&mut status, &[field], revision.as_str().into());
            }
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::pods::next_available;

    fn pod(revision: &str, phase: &str, ready_since: &str) -> Arc<Pod> {
        let conditions = json!([
            {"type": "Ready", "status": "True", "lastTransitionTime": ready_since},
        ]);
        let pod = json!({
            "metadata": {"name": "x-0", "labels": {"controller-revision-hash": revision}},
            "status": {
                "phase": phase,
                "conditions": if ready_since.is_empty() { json!([]) } else { conditions },
            },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    const EARLY: &str = "2026-01-01T00:00:00Z";

    fn now() -> Timestamp {
        "2026-01-01T00:00:05Z".parse().unwrap()
    }

    fn set(replicas: i64) -> Value {
        json!({
            "metadata": {"generation": 4},
            "spec": {
                "replicas": replicas, "minReadySeconds": 5,
                "updateStrategy": {"type": "RollingUpdate"},
            },
            "status": {"collisionCount": 1},
        })
    }

    #[test]
    fn pods_are_counted_by_revision_readiness_and_age() {
        let mut ending = Pod::clone(&pod("a", "Running", EARLY));
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        let pods = [
            pod("a", "Running", EARLY),
            pod("b", "Running", "2026-01-01T00:00:03Z"),
            pod("b", "Pending", ""),
            Arc::new(ending),
        ];
        let status = Status::of(&set(4), &pods, ("a", "b"), now());
        let expected = json!({
            "observedGeneration": 4, "replicas": 4, "readyReplicas": 3, "availableReplicas": 2,
            "currentReplicas": 1, "updatedReplicas": 2, "currentRevision": "a",
            "updateRevision": "b", "collisionCount": 1,
        });
        assert_eq!(status.to_json(&set(4)), expected);
        let look = next_available(&set(4), &pods, now());
        assert_eq!(look, Some(Duration::from_secs(3)));
    }

    #[test]
    fn an_update_is_complete_when_all_pods_are_new_and_ready() {
        let check = |replicas: i64, pods: &[Arc<Pod>], expected: (&str, i64)| {
            let mut status = Status::of(&set(replicas), pods, ("a", "b"), now());
            status.complete(&set(replicas));
            assert_eq!((&*status.current_revision, status.current), expected);
        };
        let new = || pod("b", "Running", EARLY);
        check(1, &[new()], ("b", 1));
        check(2, &[new()], ("a", 0));
        check(2, &[new(), pod("a", "Running", EARLY)], ("a", 1));
        check(2, &[new(), pod("b", "Pending", "")], ("a", 0));
        check(0, &[], ("b", 0));
    }

    #[test]
    fn a_set_without_pods_has_the_counts_that_are_always_written() {
        let status = Status::of(&json!({}), &[], ("", ""), now()).to_json(&json!({}));
        let expected = json!({
            "observedGeneration": 0, "replicas": 0, "availableReplicas": 0, "collisionCount": 0,
        });
        assert_eq!(status, expected);
    }
}
