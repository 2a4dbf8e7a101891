//! The status of a ReplicaSet.
//!
//! ```text
//! set + pods that count + failure → status: counts, condition ReplicaFailure; when to look again
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/replicaset/replica_set_utils.go`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::Plan;
use crate::clock::stamp;
use crate::json::{add_count, int, set as put, text, texts};
use crate::pods::{is_available, is_ready, min_ready};

const FAILURE: &str = "ReplicaFailure";

/// The status after a reconcile; `failure` is the reason why pods could not be created or deleted.
pub(super) fn next(set: &Value, plan: &Plan, failure: Option<&str>, now: Timestamp) -> Value {
    let labels = texts(set, "/spec/template/metadata/labels");
    let min_ready = min_ready(set);
    let count = |is: &dyn Fn(&k8s_openapi::api::core::v1::Pod) -> bool| {
        let counted = plan.active.iter().filter(|pod| is(pod)).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    };
    let none = BTreeMap::new();
    let mut status = json!({
        "replicas": plan.active.len(),
        "terminatingReplicas": plan.ending,
        "observedGeneration": int(set, "/metadata/generation"),
    });
    let labelled = count(&|pod| {
        let of_pod = pod.metadata.labels.as_ref().unwrap_or(&none);
        labels
            .iter()
            .all(|(key, value)| of_pod.get(key) == Some(value))
    });
    add_count(&mut status, "fullyLabeledReplicas", labelled);
    add_count(&mut status, "readyReplicas", count(&is_ready));
    let available = count(&|pod| is_available(pod, min_ready, now));
    add_count(&mut status, "availableReplicas", available);
    let conditions = conditions(set, plan, failure, now);
    if !conditions.is_empty() {
        put(&mut status, &["conditions"], conditions.into());
    }
    status
}

/// The conditions: a failure keeps the time at which it began.
fn conditions(set: &Value, plan: &Plan, failure: Option<&str>, now: Timestamp) -> Vec<Value> {
    let old = set.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions: Vec<Value> = old.cloned().unwrap_or_default();
    let failed = conditions.iter().any(|one| text(one, "/type") == FAILURE);
    match failure {
        Some(message) if !failed => {
            let reason = match plan.create {
                0 => "FailedDelete",
                _ => "FailedCreate",
            };
            conditions.push(json!({
                "type": FAILURE, "status": "True", "lastTransitionTime": stamp(now),
                "reason": reason, "message": message,
            }));
        }
        None => conditions.retain(|one| text(one, "/type") != FAILURE),
        Some(_) => {}
    }
    conditions
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::pods::next_available;

    fn ready(labels: &Value, since: &str) -> Arc<k8s_openapi::api::core::v1::Pod> {
        let pod = json!({"metadata": {"labels": labels}, "status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:10Z".parse().unwrap()
    }

    #[test]
    fn counts_that_are_zero_are_absent_but_two() {
        let set = json!({"metadata": {"generation": 1}, "spec": {}});
        let status = next(&set, &Plan::default(), None, now());
        let expected = json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 1});
        assert_eq!(status, expected);
    }

    #[test]
    fn pods_are_counted_by_labels_readiness_and_age() {
        let set = json!({"metadata": {"generation": 2}, "spec": {"minReadySeconds": 5,
            "template": {"metadata": {"labels": {"app": "x", "v": "2"}}}}});
        let plan = Plan {
            active: vec![
                ready(&json!({"app": "x"}), "2026-01-01T00:00:00Z"),
                ready(&json!({"app": "x", "v": "2"}), "2026-01-01T00:00:07Z"),
            ],
            ending: 1,
            ..Plan::default()
        };
        let expected = json!({
            "replicas": 2, "terminatingReplicas": 1, "observedGeneration": 2,
            "fullyLabeledReplicas": 1, "readyReplicas": 2, "availableReplicas": 1,
        });
        assert_eq!(next(&set, &plan, None, now()), expected);
        assert_eq!(
            next_available(&set, &plan.active, now()),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn a_failure_is_a_condition_until_it_is_over() {
        let mut set = json!({"metadata": {"generation": 1}, "spec": {}});
        let plan = Plan {
            create: 1,
            ..Plan::default()
        };
        let status = next(&set, &plan, Some("no quota"), now());
        assert_eq!(status["conditions"][0]["reason"], "FailedCreate");
        assert_eq!(status["conditions"][0]["message"], "no quota");
        set["status"] = status.clone();
        let later = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(next(&set, &plan, Some("no quota"), later), status);
        assert_eq!(next(&set, &plan, None, later).get("conditions"), None);
    }
}
