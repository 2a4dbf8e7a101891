//! Tables of `replicas.rs`.
//!
//! ```text
//! pods + usage of each + goal ─▶ number of pods │ why there is none
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::replicas::{Goal, Question, Sample, Tolerances, Usage, answer, is_starting, request};

const NOW: &str = "2026-01-01T01:00:00Z";

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

/// A pod of one container, ready for an hour.
fn pod(name: &str, changes: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]},
    });
    for (member, value) in changes.as_object().unwrap() {
        let parts = pod[member].as_object_mut().unwrap();
        parts.extend(value.as_object().unwrap().clone());
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn unready(started: &str, changed: &str) -> Value {
    json!({"status": {"startTime": format!("2026-01-01T{started}Z"), "conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": format!("2026-01-01T{changed}Z")},
    ]}})
}

fn usage(values: &[Option<i64>]) -> Usage {
    let sample = |value: i64| Sample {
        value,
        at: NOW.parse().unwrap(),
        window: Duration::from_secs(60),
    };
    let named = values.iter().enumerate();
    named
        .filter_map(|(at, value)| Some((format!("p{at}"), sample((*value)?))))
        .collect()
}

fn question(current: i64, goal: Goal, pods: &[Arc<Pod>]) -> Question<'_> {
    Question {
        current,
        goal,
        tolerances: Tolerances { down: 0.1, up: 0.1 },
        resource: "cpu",
        container: None,
        pods,
        now: NOW.parse().unwrap(),
    }
}

/// The answer for as many pods as there are changes, with their usages.
fn check(goal: Goal, changes: &[Value], values: &[Option<i64>], expected: Result<i64, &str>) {
    let pods: Vec<Arc<Pod>> = changes
        .iter()
        .enumerate()
        .map(|(at, changes)| pod(&format!("p{at}"), changes.clone()))
        .collect();
    let current = i64::try_from(pods.len()).unwrap();
    let found = answer(&question(current, goal, &pods), &usage(values));
    let found = found.map(|answer| answer.replicas);
    assert_eq!(
        found,
        expected.map_err(str::to_owned),
        "{changes:?} {values:?}"
    );
}

// kubernetes: TestReplicaCalcScaleUp, TestReplicaCalcScaleDown, TestReplicaCalcTolerance ..
#[test]
fn usage_of_ready_pods_decides_by_its_ratio() {
    let ready = || vec![json!({}); 3];
    let percent = |values: [i64; 3], expected| {
        let values = values.map(Some);
        check(Goal::Utilization(30), &ready(), &values, Ok(expected));
    };
    percent([300, 500, 700], 5);
    percent([100, 100, 100], 1);
    percent([300, 300, 327], 3);
    percent([280, 280, 280], 3);
    let average = |values: [i64; 3], expected| {
        check(
            Goal::Average(100),
            &ready(),
            &values.map(Some),
            Ok(expected),
        );
    };
    average([150, 150, 150], 5);
    average([100, 105, 104], 3);
    average([10, 10, 10], 1);
    average([0, 0, 0], 0);
}

// kubernetes: TestReplicaCalcMissingMetrics, TestReplicaCalcMissingMetricsUnreadyScaleUp ..
#[test]
fn missing_and_unready_pods_change_less() {
    let (ready, late) = (json!({}), unready("00:59:00", "00:59:00"));
    let goal = Goal::Utilization(50);
    let two = [ready.clone(), ready.clone()];
    // Up: the missing pod counts as unused; down: as used to its request.
    check(goal, &two, &[Some(1000), None], Ok(2));
    check(goal, &two, &[Some(2000), None], Ok(4));
    check(goal, &two, &[Some(100), None], Ok(2));
    check(Goal::Average(500), &two, &[Some(100), None], Ok(2));
    check(Goal::Average(500), &two, &[Some(1400), None], Ok(3));
    // An unready pod counts as unused on the way up, and not at all on the way down.
    let mixed = [ready.clone(), late.clone()];
    check(goal, &mixed, &[Some(1000), Some(900)], Ok(2));
    check(goal, &mixed, &[Some(2000), Some(900)], Ok(4));
    check(goal, &mixed, &[Some(100), Some(900)], Ok(1));
    let why = "did not receive metrics for targeted pods (pods might be unready)";
    check(goal, &[late], &[Some(900)], Err(why));
    let pending = json!({"status": {"phase": "Pending"}});
    check(goal, &[ready.clone(), pending], &[Some(1500)], Ok(3));
    let failed = json!({"status": {"phase": "Failed"}});
    check(goal, &[ready, failed], &[Some(1500), Some(1)], Ok(3));
}

#[test]
fn cpu_of_a_starting_pod_does_not_count() {
    let sample = usage(&[Some(1)])["p0"];
    let starting = |changes: Value, now: &str| is_starting(&pod("p", changes), &sample, at(now));
    let ready = |started: &str| {
        let time = format!("2026-01-01T{started}Z");
        json!({"status": {"startTime": time, "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": time},
        ]}})
    };
    assert!(!starting(ready("00:59:00"), "01:00:00"));
    assert!(starting(ready("00:59:01"), "01:00:00"), "within its window");
    assert!(starting(unready("00:58:00", "00:58:00"), "01:00:00"));
    assert!(
        starting(unready("00:00:00", "00:00:10"), "01:00:00"),
        "never ready"
    );
    assert!(
        !starting(unready("00:00:00", "00:50:00"), "01:00:00"),
        "ready before"
    );
    assert!(starting(json!({"status": {"conditions": []}}), "01:00:00"));
}

#[test]
fn requests_are_needed_for_utilization_alone() {
    let bare = json!({"spec": {"containers": [{"name": "c"}]}});
    let why = "missing request for cpu in container c of Pod p0";
    check(
        Goal::Utilization(50),
        std::slice::from_ref(&bare),
        &[Some(1)],
        Err(why),
    );
    check(Goal::Average(100), &[bare], &[Some(300)], Ok(3));
    check(
        Goal::Average(100),
        &[],
        &[],
        Err("no pods returned by selector while calculating replica count"),
    );
    let whole = json!({"spec": {"resources": {"requests": {"cpu": "2"}}}});
    let of = |changes: Value, container| request(&pod("p", changes), "cpu", container);
    assert_eq!(of(whole.clone(), None), Ok(2000));
    assert_eq!(of(whole, Some("c")), Ok(1000));
    let why = "container d not found in Pod p";
    assert_eq!(of(json!({}), Some("d")), Err(why.to_owned()));
    let sidecar = json!({"spec": {"initContainers": [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
        {"name": "i"},
    ]}});
    assert_eq!(of(sidecar, None), Ok(1500));
}
