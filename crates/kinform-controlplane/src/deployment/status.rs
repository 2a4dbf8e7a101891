//! The status of a Deployment: its numbers, and how its rollout goes.
//!
//! ```text
//! deployment + sets + new set + now → status; the time until its deadline
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/deployment/progress.go`, `sync.go`
//! (`calculateStatus`).

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::model::{
    condition, max_unavailable, progress_deadline, remove_condition, replicas, set_condition, sum,
};
use crate::clock::{left, stamp};
use crate::json::{add_count, int, maybe_int, name, set, text, time};

pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
const DONE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

/// A condition as of now.
pub(super) fn new_condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastUpdateTime": stamp(now), "lastTransitionTime": stamp(now),
    })
}

/// The numbers of a status, and whether enough pods are available.
pub(super) fn counted(
    deployment: &Value,
    sets: &[Value],
    new: Option<usize>,
    now: Timestamp,
) -> Value {
    let status_of = |field: &'static str| move |set: &Value| int(set, field);
    let available = sum(sets, status_of("/status/availableReplicas"));
    let wanted = sum(sets, replicas);
    let mut status = json!({
        "observedGeneration": int(deployment, "/metadata/generation"),
        "terminatingReplicas": sum(sets, status_of("/status/terminatingReplicas")),
    });
    let updated = new.map_or(0, |new| int(&sets[new], "/status/replicas"));
    for (field, count) in [
        ("replicas", sum(sets, status_of("/status/replicas"))),
        ("updatedReplicas", updated),
        (
            "readyReplicas",
            sum(sets, status_of("/status/readyReplicas")),
        ),
        ("availableReplicas", available),
        ("unavailableReplicas", (wanted - available).max(0)),
    ] {
        add_count(&mut status, field, count);
    }
    if let Some(collisions) = maybe_int(deployment, "/status/collisionCount") {
        set(&mut status, &["collisionCount"], collisions.into());
    }
    if let Some(conditions) = deployment.pointer("/status/conditions") {
        set(&mut status, &["conditions"], conditions.clone());
    }
    let condition = match available >= replicas(deployment) - max_unavailable(deployment) {
        true => ("True", "MinimumReplicasAvailable", "has"),
        false => ("False", "MinimumReplicasUnavailable", "does not have"),
    };
    let message = format!("Deployment {} minimum availability.", condition.2);
    let condition = new_condition(AVAILABLE, condition.0, condition.1, &message, now);
    set_condition(&mut status, condition);
    status
}

/// The status of a rollout: its numbers, and whether it progresses, is done or timed out.
pub(super) fn rollout(
    deployment: &Value,
    sets: &[Value],
    new: Option<usize>,
    now: Timestamp,
) -> Value {
    let mut status = counted(deployment, sets, new, now);
    let deadline = progress_deadline(deployment);
    if deadline.is_none() {
        remove_condition(&mut status, PROGRESSING);
    }
    let current = condition(&status, PROGRESSING).cloned();
    let is_reason = |reason: &str| {
        let current = current.as_ref();
        current.is_some_and(|current| text(current, "/reason") == reason)
    };
    let is_over = int(&status, "/replicas") == int(&status, "/updatedReplicas") && is_reason(DONE);
    let what = match new {
        Some(new) => format!("ReplicaSet \"{}\"", name(&sets[new])),
        None => format!("Deployment \"{}\"", name(deployment)),
    };
    let told = |status: &str, reason: &str, message: &str| {
        let message = format!("{what} {message}");
        new_condition(PROGRESSING, status, reason, &message, now)
    };
    if deadline.is_none() || is_over {
    } else if is_complete(deployment, &status) {
        set_condition(
            &mut status,
            told("True", DONE, "has successfully progressed."),
        );
    } else if has_progressed(deployment, &status) {
        let mut told = told("True", "ReplicaSetUpdated", "is progressing.");
        if let Some(current) = &current {
            if text(current, "/status") == "True" {
                let since = text(current, "/lastTransitionTime");
                set(&mut told, &["lastTransitionTime"], since.into());
            }
            // Each progress renews the condition: the deadline counts from the last one.
            remove_condition(&mut status, PROGRESSING);
        }
        set_condition(&mut status, told);
    } else if until_deadline(deployment, &status, now) == Some(None) {
        set_condition(
            &mut status,
            told("False", TIMED_OUT, "has timed out progressing."),
        );
    }
    copy_failure(&mut status, sets, new);
    status
}

/// Copies the failure of the new set, or of another one.
fn copy_failure(status: &mut Value, sets: &[Value], new: Option<usize>) {
    let new = new.map(|new| &sets[new]);
    let failures = new.into_iter().chain(sets).filter_map(|set| {
        let failed = condition(set.get("status")?, FAILURE)?;
        Some(failed.clone())
    });
    match failures.into_iter().next() {
        Some(mut failure) => {
            let since = text(&failure, "/lastTransitionTime").to_owned();
            set(&mut failure, &["lastUpdateTime"], since.into());
            set_condition(status, failure);
        }
        None => remove_condition(status, FAILURE),
    }
}

/// Returns whether all pods are of the current template and available.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = replicas(deployment);
    let counts = ["/updatedReplicas", "/replicas", "/availableReplicas"];
    counts.iter().all(|count| int(status, count) == wanted)
        && int(status, "/observedGeneration") >= int(deployment, "/metadata/generation")
}

fn has_progressed(deployment: &Value, status: &Value) -> bool {
    let old = deployment.get("status").unwrap_or(&Value::Null);
    let grew = |field: &str| int(status, field) > int(old, field);
    let left = |status: &Value| int(status, "/replicas") - int(status, "/updatedReplicas");
    grew("/updatedReplicas")
        || left(status) < left(old)
        || grew("/readyReplicas")
        || grew("/availableReplicas")
}

/// The time until a rollout that does not progress has failed: `Some(None)` if it has, `None` if it
/// cannot.
pub(super) fn until_deadline(
    deployment: &Value,
    status: &Value,
    now: Timestamp,
) -> Option<Option<Duration>> {
    let deadline = progress_deadline(deployment)?;
    let current = condition(status, PROGRESSING)?;
    match text(current, "/reason") {
        DONE | "DeploymentPaused" => None,
        TIMED_OUT => Some(None),
        _ => Some(left(time(current, "/lastUpdateTime")?, deadline, now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = "2026-01-01T00:00:00Z";

    fn deployment(status: Value) -> Value {
        json!({
            "metadata": {"name": "x", "generation": 1},
            "spec": {"replicas": 3, "progressDeadlineSeconds": 6},
            "status": status,
        })
    }

    fn set(replicas: i64, ready: i64) -> Value {
        json!({"metadata": {"name": "x-1"}, "spec": {"replicas": 3}, "status": {
            "replicas": replicas, "readyReplicas": ready, "availableReplicas": ready,
        }})
    }

    fn check(status: Value, set: Value, now: &str, expected: (&str, &str)) -> Value {
        let deployment = deployment(status);
        let status = rollout(&deployment, &[set], Some(0), now.parse().unwrap());
        let progressing = condition(&status, PROGRESSING).unwrap();
        let found = (text(progressing, "/status"), text(progressing, "/reason"));
        assert_eq!(found, expected, "{status}");
        status
    }

    #[test]
    fn a_rollout_progresses_completes_or_times_out() {
        let now = CREATED.parse().unwrap();
        let new = new_condition(PROGRESSING, "True", "NewReplicaSetCreated", "", now);
        let begun = json!({"conditions": [new], "replicas": 3, "updatedReplicas": 3});
        check(
            json!({"conditions": [new]}),
            set(3, 0),
            CREATED,
            ("True", "ReplicaSetUpdated"),
        );
        check(
            begun.clone(),
            set(3, 0),
            "2026-01-01T00:00:05Z",
            ("True", "NewReplicaSetCreated"),
        );
        let late = "2026-01-01T00:00:06Z";
        let failed = check(
            begun.clone(),
            set(3, 0),
            late,
            ("False", "ProgressDeadlineExceeded"),
        );
        check(failed, set(3, 1), late, ("True", "ReplicaSetUpdated"));
        let done = check(begun, set(3, 3), late, ("True", DONE));
        assert_eq!(
            text(condition(&done, AVAILABLE).unwrap(), "/status"),
            "True"
        );
        // A rollout that was done stays done when a pod is lost.
        check(done, set(3, 2), "2026-01-01T01:00:00Z", ("True", DONE));
    }

    #[test]
    fn counts_are_those_of_the_sets() {
        let status = counted(
            &deployment(json!({})),
            &[set(3, 1)],
            None,
            CREATED.parse().unwrap(),
        );
        assert_eq!(status["replicas"], 3);
        assert_eq!(status.get("updatedReplicas"), None);
        assert_eq!(status["unavailableReplicas"], 2);
        assert_eq!(status["terminatingReplicas"], 0);
        assert_eq!(
            status["conditions"][0]["reason"],
            "MinimumReplicasUnavailable"
        );
    }

    #[test]
    fn a_failure_of_a_set_is_the_deployments() {
        let mut failing = set(0, 0);
        failing["status"]["conditions"] = json!([{"type": FAILURE, "status": "True",
            "reason": "FailedCreate", "message": "no", "lastTransitionTime": CREATED}]);
        let now: Timestamp = CREATED.parse().unwrap();
        let status = rollout(&deployment(json!({})), &[failing], Some(0), now);
        assert_eq!(text(condition(&status, FAILURE).unwrap(), "/message"), "no");
    }
}
