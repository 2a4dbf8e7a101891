//! The bodies of a Job's pods.
//!
//! ```text
//! Job (+ index, pod that is replaced) ─▶ body of a pod: finalizer; label, annotation, hostname, variable of its index
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go` (`manageJob`).

use k8s_openapi::api::batch::v1::JobSpec;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::member::{FAILURES, IGNORED, INDEX, TRACKING, failures_before};
use super::policy::{Failure, failure};
use crate::json::{name, set};
use crate::pods::from_template;

const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// BOUND: the length of a name to which the server adds five letters.
const PREFIX: usize = 58;

/// The body of a pod of a Job without indexes.
pub(super) fn plain(job: &Value) -> Value {
    let mut pod = from_template(job);
    let finalizers = pod
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    let mut finalizers = finalizers.cloned().unwrap_or_default();
    if !finalizers.iter().any(|one| one == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    set(&mut pod, &["metadata", "finalizers"], finalizers.into());
    pod
}

/// The body of the pod of an index, which replaces another one if that failed.
pub(super) fn indexed(job: &Value, spec: &JobSpec, index: i32, replaced: Option<&Pod>) -> Value {
    let mut pod = plain(job);
    let number = Value::from(index.to_string());
    set(
        &mut pod,
        &["metadata", "annotations", INDEX],
        number.clone(),
    );
    set(&mut pod, &["metadata", "labels", INDEX], number);
    let host = format!("{}-{index}", name(job));
    set(&mut pod, &["spec", "hostname"], host.into());
    set(
        &mut pod,
        &["metadata", "generateName"],
        prefix(name(job), index).into(),
    );
    for containers in ["initContainers", "containers"] {
        let containers = pod["spec"]
            .get_mut(containers)
            .and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(add_variable);
    }
    if spec.backoff_limit_per_index.is_some() {
        let (counted, ignored) = failures_after(spec, replaced);
        let path = |annotation| ["metadata", "annotations", annotation];
        set(&mut pod, &path(FAILURES), counted.to_string().into());
        if ignored > 0 {
            set(&mut pod, &path(IGNORED), ignored.to_string().into());
        }
    }
    pod
}

/// The start of the names of an index's pods: the name of a Job is cut, its index is not.
fn prefix(job: &str, index: i32) -> String {
    let index = format!("-{index}-");
    let room = PREFIX.saturating_sub(index.len());
    format!("{}{index}", job.get(..room).unwrap_or(job))
}

/// Adds the variable with the index, unless the container has one of that name.
fn add_variable(container: &mut Value) {
    let variables = container.get("env").and_then(Value::as_array);
    let mut variables = variables.cloned().unwrap_or_default();
    if variables.iter().any(|one| name_of(one) == VARIABLE) {
        return;
    }
    let path = format!("metadata.labels['{INDEX}']");
    variables.push(json!({"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    set(container, &["env"], variables.into());
}

fn name_of(variable: &Value) -> &str {
    variable
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The failures of an index, with that of the pod that is replaced.
fn failures_after(spec: &JobSpec, replaced: Option<&Pod>) -> (i32, i32) {
    let Some(replaced) = replaced else {
        return (0, 0);
    };
    let (counted, ignored) = failures_before(replaced);
    match failure(spec.pod_failure_policy.as_ref(), replaced) {
        Failure::Ignored => (counted, ignored.saturating_add(1)),
        _ => (counted.saturating_add(1), ignored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, limit: Option<i32>) -> (Value, JobSpec) {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "uid": "u"},
            "spec": {"backoffLimitPerIndex": limit, "template": {
                "metadata": {"labels": {"a": "1"}},
                "spec": {"containers": [
                    {"name": "c", "env": [{"name": "X"}]}, {"name": "d", "env": [{"name": VARIABLE}]},
                ]},
            }},
        });
        let spec = serde_json::from_value(job["spec"].clone()).unwrap();
        (job, spec)
    }

    #[test]
    fn pods_have_the_finalizer_once() {
        let (mut job, _) = job("j", None);
        assert_eq!(plain(&job)["metadata"]["finalizers"], json!([TRACKING]));
        job["spec"]["template"]["metadata"]["finalizers"] = json!(["x", TRACKING]);
        assert_eq!(
            plain(&job)["metadata"]["finalizers"],
            json!(["x", TRACKING])
        );
        assert_eq!(plain(&job)["metadata"]["generateName"], "j-");
    }

    #[test]
    fn a_pod_of_an_index_knows_it() {
        let (job, spec) = job("j", None);
        let pod = indexed(&job, &spec, 3, None);
        assert_eq!(pod["metadata"]["generateName"], "j-3-");
        assert_eq!(pod["metadata"]["labels"], json!({"a": "1", INDEX: "3"}));
        assert_eq!(pod["metadata"]["annotations"], json!({INDEX: "3"}));
        assert_eq!(pod["spec"]["hostname"], "j-3");
        let containers = &pod["spec"]["containers"];
        assert_eq!(containers[0]["env"][1]["name"], VARIABLE);
        assert_eq!(containers[1]["env"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn a_replacement_counts_the_failures_of_its_index() {
        let (job, mut spec) = job("j", Some(2));
        let failed = json!({"metadata": {"annotations": {FAILURES: "1"}},
            "status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}});
        let failed: Pod = serde_json::from_value(failed).unwrap();
        let counts = |spec: &JobSpec, replaced: Option<&Pod>| {
            let pod = indexed(&job, spec, 0, replaced);
            let count = |annotation: &str| pod["metadata"]["annotations"].get(annotation).cloned();
            (count(FAILURES), count(IGNORED))
        };
        assert_eq!(counts(&spec, None), (Some("0".into()), None));
        assert_eq!(counts(&spec, Some(&failed)), (Some("2".into()), None));
        let policy = json!({"rules": [{"action": "Ignore",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]});
        spec.pod_failure_policy = serde_json::from_value(policy).unwrap();
        assert_eq!(
            counts(&spec, Some(&failed)),
            (Some("1".into()), Some("1".into()))
        );
    }

    #[test]
    fn a_long_name_is_cut_before_its_index() {
        let start = prefix(&"x".repeat(63), 123);
        assert_eq!(start.len(), PREFIX);
        assert!(start.ends_with("x-123-"));
    }
}
