//! Tables of `proposals.rs`.
//!
//! ```text
//! metrics of an autoscaler + pods ─▶ size, statuses, events, reason of ScalingActive
//! ```

use std::sync::Arc;

use serde_json::{Value, json};

use super::metrics::Metrics;
use super::proposals::{Failure, Proposed, propose};
use super::review::{Note, Review};
use crate::json::text;

const NOW: &str = "2026-01-01T01:00:00Z";

/// Two pods of one container that use these amounts.
fn metrics(cpu: &str, memory: &str) -> Metrics {
    let pod = |name: &str| {
        let pod = json!({
            "metadata": {"name": name, "annotations": {
                "kinform.dev/cpu-usage": cpu, "kinform.dev/memory-usage": memory,
            }},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    Metrics::of_annotations(vec![pod("a"), pod("b")], NOW.parse().unwrap())
}

fn cpu(percent: i64) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}})
}

fn memory(average: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": "memory",
        "target": {"type": "AverageValue", "averageValue": average}}})
}

fn pods_metric() -> Value {
    json!({"type": "Pods", "pods": {"metric": {"name": "hits"},
        "target": {"type": "AverageValue", "averageValue": "1"}}})
}

fn run(specs: Value, behavior: Value) -> (Result<Proposed, Failure>, Vec<Note>, Value) {
    let autoscaler = json!({"metadata": {"name": "x", "namespace": "ns"},
        "spec": {"metrics": specs, "behavior": behavior}});
    let mut review = Review::of(&autoscaler, NOW.parse().unwrap());
    let proposed = propose(&autoscaler, 2, &metrics("90m", "100Mi"), &mut review);
    let notes = std::mem::take(&mut review.notes);
    let condition = review.changed().unwrap()["conditions"][0].clone();
    (proposed, notes, condition)
}

#[test]
fn the_greatest_proposal_counts_and_each_metric_has_its_status() {
    let (proposed, notes, condition) = run(json!([cpu(60), memory("50Mi")]), Value::Null);
    let proposed = proposed.unwrap();
    assert_eq!((proposed.size, &*proposed.metric), (4, "memory resource"));
    let expected = json!([
        {"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": 90, "averageValue": "90m"}}},
        {"type": "Resource", "resource": {"name": "memory", "current": {"averageValue": "100Mi"}}},
    ]);
    assert_eq!(Value::from(proposed.statuses), expected);
    assert!(notes.is_empty());
    assert_eq!(text(&condition, "/reason"), "ValidMetricFound");
    assert_eq!(
        text(&condition, "/message"),
        "the HPA was able to successfully calculate a replica count from memory resource"
    );
}

#[test]
fn tolerances_can_be_stated() {
    let size = |percent, behavior| {
        let (proposed, ..) = run(json!([cpu(percent)]), behavior);
        proposed.unwrap().size
    };
    // The usage is 90 percent: a little above the target.
    assert_eq!(size(85, Value::Null), 2);
    assert_eq!(size(85, json!({"scaleUp": {"tolerance": "50m"}})), 3);
    assert_eq!(size(85, json!({"scaleDown": {"tolerance": "0"}})), 2);
    // Far above it.
    assert_eq!(size(60, Value::Null), 3);
    assert_eq!(size(60, json!({"scaleUp": {"tolerance": "500m"}})), 2);
    assert_eq!(size(60, json!({"scaleDown": {"tolerance": "500m"}})), 3);
    // Far below it.
    assert_eq!(size(180, Value::Null), 1);
    assert_eq!(size(180, json!({"scaleDown": {"tolerance": "500m"}})), 2);
    assert_eq!(size(180, json!({"scaleUp": {"tolerance": "500m"}})), 1);
}

// kubernetes: TestMissingMetrics, TestScaleUpOneMetricInvalid, TestScaleDownOneMetricInvalid
#[test]
fn a_failed_metric_lets_others_grow_but_not_shrink() {
    let (proposed, notes, _) = run(json!([pods_metric(), cpu(45)]), Value::Null);
    let proposed = proposed.unwrap();
    assert_eq!(proposed.size, 4);
    assert_eq!(proposed.statuses[0], json!({"type": ""}));
    let why = "unable to get metric hits: unable to fetch metrics from custom metrics API: no \
               custom metrics API (custom.metrics.k8s.io) registered";
    assert_eq!(
        notes,
        [Note::Warning("FailedGetPodsMetric", why.to_owned())]
    );
    let (proposed, _, condition) = run(json!([cpu(1000), pods_metric()]), Value::Null);
    let failure = proposed.unwrap_err();
    assert_eq!(
        failure.why,
        format!(
            "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric \
             value: {why}"
        )
    );
    assert_eq!(text(&condition, "/reason"), "FailedGetPodsMetric");
    assert_eq!(text(&condition, "/status"), "False");
}

#[test]
fn metrics_without_a_source_fail_as_without_their_apis() {
    let check = |spec: Value, reason: &'static str, starts: &str| {
        let (proposed, notes, _) = run(json!([spec]), Value::Null);
        let why = proposed.unwrap_err().why;
        assert!(why.contains(starts), "{why}");
        assert!(matches!(&notes[..], [Note::Warning(found, _)] if *found == reason));
    };
    let object = json!({"type": "Object", "object": {"metric": {"name": "hits"},
        "describedObject": {"kind": "Service", "name": "s"},
        "target": {"type": "Value", "value": "1"}}});
    check(
        object,
        "FailedGetObjectMetric",
        "failed to get object metric value: unable to get metric hits on Service ns/s: ",
    );
    let external = json!({"type": "External", "external": {
        "metric": {"name": "lag", "selector": {"matchLabels": {"q": "a"}}},
        "target": {"type": "AverageValue", "averageValue": "1"}}});
    check(
        external,
        "FailedGetExternalMetric",
        "failed to get lag external metric value: failed to get lag external metric: unable to get \
         external metric ns/lag/&LabelSelector{MatchLabels:map[string]string{q: a,},",
    );
    let container = json!({"type": "ContainerResource", "containerResource": {
        "name": "cpu", "container": "c",
        "target": {"type": "Utilization", "averageUtilization": 50}}});
    check(
        container,
        "FailedGetContainerResourceMetric",
        "failed to get c container metric value: failed to get cpu utilization: unable to get \
         metrics for resource cpu: unable to fetch metrics from resource metrics API: ",
    );
}
