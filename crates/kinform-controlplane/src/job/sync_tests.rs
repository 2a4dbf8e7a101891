//! Tables of syncs.
//!
//! ```text
//! Job + pods ─▶ a sync whose writes all succeed ─▶ work on pods, status of each write, events
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::member::{FAILURES, INDEX, TRACKING};
use super::sync::{Done, Note, Sync, Work};

const NOW: &str = "2026-01-01T00:01:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn job(spec: Value, status: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "j", "namespace": "ns", "uid": "job"},
        "spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}}},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job
}

fn pod(name: &str, phase: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "finalizers": [TRACKING],
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": phase},
    })
}

fn with(mut pod: Value, path: &[&str], value: Value) -> Value {
    crate::json::set(&mut pod, path, value);
    pod
}

fn of_index(index: i32, phase: &str) -> Value {
    let name = format!("p{index}");
    with(
        pod(&name, phase),
        &["metadata", "annotations", INDEX],
        index.to_string().into(),
    )
}

fn deleted(pod: Value) -> Value {
    with(
        pod,
        &["metadata", "deletionTimestamp"],
        "2026-01-01T00:00:30Z".into(),
    )
}

fn failed_with(name: &str, code: i32) -> Value {
    let state = json!([{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": code}}}]);
    with(pod(name, "Failed"), &["status", "containerStatuses"], state)
}

/// The outcome of a sync whose writes all succeed.
struct Synced {
    /// `create N`, `end a,b`, `remove a`, or empty.
    work: String,
    /// The statuses that are written.
    statuses: Vec<Value>,
    released: Vec<String>,
    notes: Vec<Note>,
    later: Option<u64>,
}

fn sync(job: &Value, pods: &[Value]) -> Synced {
    sync_after(job, pods, Backoff::default())
}

fn sync_after(job: &Value, pods: &[Value], backoff: Backoff) -> Synced {
    let parse = |pod: &Value| Arc::new(serde_json::from_value::<Pod>(pod.clone()).unwrap());
    let pods = pods.iter().map(parse).collect();
    let mut sync = Sync::new(job, pods, backoff, now()).unwrap();
    let work = sync.work(job);
    let names = |pods: &[Arc<Pod>]| {
        let names = pods.iter().map(|pod| pod.metadata.name.clone().unwrap());
        names.collect::<Vec<_>>()
    };
    let deleted = |pods: &[Arc<Pod>]| Done {
        deleted: i32::try_from(pods.len()).unwrap(),
        ..Done::default()
    };
    let (work, done) = match &work {
        Work::Nothing => (String::new(), Done::default()),
        Work::Create(bodies) => {
            let created = i32::try_from(bodies.len()).unwrap();
            (
                format!("create {created}"),
                Done {
                    created,
                    ..Done::default()
                },
            )
        }
        Work::End(pods) => (format!("end {}", names(pods).join(",")), deleted(pods)),
        Work::Remove(pods) => (format!("remove {}", names(pods).join(",")), deleted(pods)),
    };
    sync.worked(done);
    let mut tracked = sync.track();
    let mut statuses = Vec::new();
    if sync.flush {
        statuses.push(json!(sync.status));
    }
    let pods = tracked.pods.clone();
    let is_counted = sync.released(&mut tracked, &pods);
    if sync.end(&tracked) || is_counted {
        statuses.push(json!(sync.status));
    }
    Synced {
        work,
        statuses,
        released: names(&pods),
        notes: sync.notes,
        later: sync.later.map(|later| later.as_secs()),
    }
}

/// The types and reasons of conditions that are true.
fn reasons(status: &Value) -> Vec<String> {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let is_true = conditions.iter().filter(|one| one["status"] == "True");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    is_true
        .map(|one| format!("{}/{}", text(&one["type"]), text(&one["reason"])))
        .collect()
}

fn started() -> Value {
    json!({"startTime": "2026-01-01T00:00:58Z", "active": 1, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}})
}

// As recorded of a real job controller.
#[test]
fn a_new_job_gets_its_pods_and_a_start_time() {
    let new = sync(
        &job(json!({"parallelism": 2, "completions": 5}), json!({})),
        &[],
    );
    assert_eq!(new.work, "create 2");
    let expected = json!({"startTime": NOW, "active": 2, "terminating": 0, "ready": 0,
        "uncountedTerminatedPods": {}});
    assert_eq!(new.statuses, [expected]);
}

#[test]
fn a_success_is_counted_after_its_finalizer() {
    let job = job(json!({"completions": 2}), started());
    let first = sync(&job, &[pod("a", "Succeeded")]);
    assert_eq!(
        (first.work.as_str(), &first.released[..]),
        ("create 1", &["a".to_owned()][..])
    );
    let mut expected = started();
    expected["uncountedTerminatedPods"] = json!({"succeeded": ["a"]});
    let uncounted = expected.clone();
    expected["uncountedTerminatedPods"] = json!({});
    expected["succeeded"] = 1.into();
    assert_eq!(first.statuses, [uncounted, expected]);
}

#[test]
fn a_process_that_died_between_writes_counts_once() {
    let mut status = started();
    status["uncountedTerminatedPods"] = json!({"succeeded": ["a", "b"]});
    let job = job(json!({"completions": 9, "parallelism": 1}), status);
    // The finalizer of `a` was removed, that of `b` was not.
    let gone = with(
        pod("a", "Succeeded"),
        &["metadata", "finalizers"],
        json!([]),
    );
    let after = sync(&job, &[gone, pod("b", "Succeeded"), pod("c", "Running")]);
    assert_eq!(after.statuses[0]["succeeded"], 1);
    assert_eq!(
        after.statuses[0]["uncountedTerminatedPods"],
        json!({"succeeded": ["b"]})
    );
    assert_eq!(after.statuses[1]["succeeded"], 2);
    assert_eq!(after.released, ["b"]);
}

#[test]
fn the_last_success_completes_the_job() {
    let done = sync(&job(json!({}), started()), &[pod("a", "Succeeded")]);
    assert_eq!(done.work, "");
    let [interim, last] = &done.statuses[..] else {
        panic!("{:?}", done.statuses)
    };
    assert_eq!(reasons(interim), ["SuccessCriteriaMet/CompletionsReached"]);
    let both = [
        "SuccessCriteriaMet/CompletionsReached",
        "Complete/CompletionsReached",
    ];
    assert_eq!(reasons(last), both);
    assert_eq!(
        (&last["completionTime"], &last["succeeded"]),
        (&json!(NOW), &json!(1))
    );
    assert_eq!(last.get("active"), None);
    assert_eq!(
        done.notes,
        [Note::Normal("Completed", "Job completed".to_owned())]
    );
    // Without a number of completions the first success waits for the others.
    let any = json!({"completions": null, "parallelism": 2});
    let some = sync(
        &job(any.clone(), started()),
        &[pod("a", "Succeeded"), pod("b", "Running")],
    );
    assert_eq!(
        (some.work.as_str(), reasons(&some.statuses[1]).len()),
        ("", 0)
    );
    let all = sync(
        &job(any, started()),
        &[pod("a", "Succeeded"), pod("b", "Failed")],
    );
    assert_eq!(reasons(&all.statuses[1])[1], "Complete/CompletionsReached");
}

#[test]
fn failures_are_backed_off_from_until_the_limit() {
    let limited = json!({"backoffLimit": 1});
    let failed = with(
        pod("a", "Failed"),
        &["metadata", "creationTimestamp"],
        NOW.into(),
    );
    let first = sync(
        &job(limited.clone(), started()),
        std::slice::from_ref(&failed),
    );
    assert_eq!((first.work.as_str(), first.later), ("", Some(10)));
    assert_eq!(first.statuses[1]["failed"], 1);
    assert_eq!(first.statuses[1].get("active"), None);
    let mut status = started();
    status["failed"] = 1.into();
    let second = sync(&job(limited, status), &[failed]);
    let [interim, last] = &second.statuses[..] else {
        panic!("{:?}", second.statuses)
    };
    assert_eq!(reasons(interim), ["FailureTarget/BackoffLimitExceeded"]);
    assert_eq!(reasons(last)[1], "Failed/BackoffLimitExceeded");
    assert_eq!(
        (&last["failed"], last.get("completionTime")),
        (&json!(2), None)
    );
    let message = "Job has reached the specified backoff limit".to_owned();
    assert_eq!(
        second.notes,
        [Note::Warning("BackoffLimitExceeded".to_owned(), message)]
    );
}

#[test]
fn restarts_in_place_count_as_failures() {
    let restarted = |count: i32| {
        let state = json!([{"name": "c", "image": "i", "imageID": "", "ready": false,
            "restartCount": count}]);
        with(pod("a", "Running"), &["status", "containerStatuses"], state)
    };
    let spec = |limit: i32| json!({"backoffLimit": limit, "template": {"spec": {"restartPolicy": "OnFailure", "containers": []}}});
    let check = |limit: i32, count: i32, expected: &str| {
        let synced = sync(&job(spec(limit), started()), &[restarted(count)]);
        assert_eq!(synced.work, expected, "{limit} {count}");
    };
    check(2, 1, "");
    check(2, 2, "end a");
    check(0, 0, "");
    check(0, 1, "end a");
}

#[test]
fn a_job_fails_at_its_deadline_when_its_pods_are_gone() {
    let spec = json!({"activeDeadlineSeconds": 2});
    let early = sync(
        &job(json!({"activeDeadlineSeconds": 9}), started()),
        &[pod("a", "Running")],
    );
    assert_eq!((early.work.as_str(), early.later), ("", Some(7)));
    let late = sync(&job(spec.clone(), started()), &[pod("a", "Running")]);
    assert_eq!(late.work, "end a");
    assert_eq!(
        late.statuses[0]["uncountedTerminatedPods"],
        json!({"failed": ["a"]})
    );
    assert_eq!(late.statuses[0]["terminating"], 1);
    assert_eq!(late.statuses[1]["failed"], 1);
    assert_eq!(
        reasons(&late.statuses[1]),
        ["FailureTarget/DeadlineExceeded"]
    );
    let gone = sync(&job(spec, late.statuses[1].clone()), &[]);
    assert_eq!(
        reasons(&gone.statuses[0]),
        ["FailureTarget/DeadlineExceeded"]
    );
    assert_eq!(gone.statuses[0]["terminating"], 0);
    assert_eq!(reasons(&gone.statuses[1])[1], "Failed/DeadlineExceeded");
}

#[test]
fn suspension_removes_pods_and_the_start_time() {
    let suspended = json!({"suspend": true});
    let paused = sync(&job(suspended.clone(), started()), &[pod("a", "Running")]);
    assert_eq!(paused.work, "remove a");
    assert_eq!(reasons(&paused.statuses[0]), ["Suspended/JobSuspended"]);
    assert_eq!(paused.statuses[0].get("startTime"), None);
    assert_eq!(paused.statuses[0]["terminating"], 1);
    assert_eq!(
        paused.notes,
        [Note::Normal("Suspended", "Job suspended".to_owned())]
    );
    let still = sync(
        &job(suspended, paused.statuses[0].clone()),
        &[deleted(pod("a", "Running"))],
    );
    assert!(still.notes.is_empty());
    let resumed = sync(&job(json!({}), paused.statuses[0].clone()), &[]);
    assert_eq!(
        (resumed.work.as_str(), &resumed.statuses[0]["startTime"]),
        ("create 1", &json!(NOW))
    );
    let condition = &resumed.statuses[0]["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&json!("False"), &json!("JobResumed"))
    );
    assert_eq!(
        resumed.notes,
        [Note::Normal("Resumed", "Job resumed".to_owned())]
    );
}

#[test]
fn pods_that_end_are_replaced_as_the_policy_says() {
    let check = |policy: &str, phase: &str, expected: &str| {
        let job = job(
            json!({"podReplacementPolicy": policy, "parallelism": 2, "completions": 2}),
            started(),
        );
        let ending = deleted(pod("a", phase));
        // It was created a minute ago, and its failure is over.
        let synced = sync(&job, &[ending, pod("b", "Running")]);
        assert_eq!(synced.work, expected, "{policy} {phase}");
    };
    check("Failed", "Running", "");
    check("Failed", "Failed", "create 1");
    check("TerminatingOrFailed", "Running", "create 1");
}

#[test]
fn a_failure_policy_fails_the_job_or_looks_away() {
    let policy = |action: &str| {
        json!({"podReplacementPolicy": "Failed", "backoffLimit": 0, "podFailurePolicy": {"rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [3]}},
        ]}})
    };
    let fails = sync(&job(policy("FailJob"), started()), &[failed_with("a", 3)]);
    let message =
        "Container c for pod ns/a failed with exit code 3 matching FailJob rule at index 0";
    assert_eq!(
        reasons(&fails.statuses[0]),
        ["FailureTarget/PodFailurePolicy"]
    );
    assert_eq!(fails.statuses[0]["conditions"][0]["message"], message);
    assert_eq!(fails.statuses[1]["failed"], 1);
    let ignored = sync(&job(policy("Ignore"), started()), &[failed_with("a", 3)]);
    assert_eq!(
        (&ignored.released[..], ignored.work.as_str()),
        (&["a".to_owned()][..], "create 1")
    );
    assert!(
        ignored
            .statuses
            .iter()
            .all(|status| status.get("failed").is_none())
    );
    let counted = sync(&job(policy("Count"), started()), &[failed_with("a", 3)]);
    assert_eq!(
        reasons(&counted.statuses[0]),
        ["FailureTarget/BackoffLimitExceeded"]
    );
}

#[test]
fn indexes_are_completed_one_by_one() {
    let spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2});
    let mut status = started();
    status["completedIndexes"] = "0".into();
    status["succeeded"] = 1.into();
    let pods = [of_index(1, "Succeeded"), of_index(2, "Running")];
    let some = sync(&job(spec.clone(), status.clone()), &pods);
    assert_eq!(some.work, "create 1");
    assert_eq!(some.statuses.len(), 1, "{:?}", some.statuses);
    assert_eq!(some.statuses[0]["completedIndexes"], "0,1");
    assert_eq!(some.statuses[0]["succeeded"], 2);
    status["completedIndexes"] = "0-2".into();
    let all = sync(&job(spec, status), &[of_index(3, "Succeeded")]);
    assert_eq!(all.statuses[0]["completedIndexes"], "0-3");
    assert_eq!(reasons(&all.statuses[1])[1], "Complete/CompletionsReached");
}

#[test]
fn a_success_policy_ends_the_job_early() {
    let spec = json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let pods = [
        of_index(0, "Succeeded"),
        of_index(1, "Running"),
        of_index(2, "Failed"),
    ];
    let early = sync(&job(spec.clone(), started()), &pods);
    assert_eq!(early.work, "end p1");
    assert_eq!(
        reasons(&early.statuses[0]),
        ["SuccessCriteriaMet/SuccessPolicy"]
    );
    // A pod that runs when the Job succeeds has not failed.
    assert_eq!(
        early.statuses[0]["uncountedTerminatedPods"],
        json!({"failed": ["p2"]})
    );
    let last = early.statuses.last().unwrap();
    let gone = sync(&job(spec, last.clone()), &[]);
    assert_eq!(
        reasons(gone.statuses.last().unwrap())[1],
        "Complete/SuccessPolicy"
    );
}

#[test]
fn indexes_fail_by_themselves() {
    let spec = |most: Option<i32>| {
        json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
            "backoffLimitPerIndex": 1, "maxFailedIndexes": most, "backoffLimit": i32::MAX})
    };
    let first = [of_index(0, "Failed"), of_index(1, "Running")];
    let awaited = sync(&job(spec(None), started()), &first);
    // The failed pod stays until its index has another one. It was created a minute ago.
    assert_eq!(
        (awaited.work.as_str(), awaited.released.len()),
        ("create 1", 0)
    );
    let again = with(
        of_index(0, "Failed"),
        &["metadata", "annotations", FAILURES],
        "1".into(),
    );
    let failed = sync(
        &job(spec(None), started()),
        &[again.clone(), of_index(1, "Running")],
    );
    assert_eq!(
        (failed.work.as_str(), &failed.released[..]),
        ("", &["p0".to_owned()][..])
    );
    assert_eq!(failed.statuses[0]["failedIndexes"], "0");
    let over = sync(
        &job(spec(Some(0)), started()),
        &[again.clone(), of_index(1, "Running")],
    );
    assert_eq!(over.work, "end p1");
    assert_eq!(
        reasons(&over.statuses[0]),
        ["FailureTarget/MaxFailedIndexesExceeded"]
    );
    let ended = sync(
        &job(spec(None), started()),
        &[again, of_index(1, "Succeeded")],
    );
    assert_eq!(reasons(&ended.statuses[1])[1], "Failed/FailedIndexes");
    assert_eq!(ended.statuses[1]["completedIndexes"], "1");
}

#[test]
fn an_index_waits_after_its_failure() {
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2,
        "backoffLimitPerIndex": 5, "backoffLimit": i32::MAX});
    let now = |pod| with(pod, &["metadata", "creationTimestamp"], NOW.into());
    let job = job(spec, started());
    let waits = sync(&job, &[now(of_index(0, "Failed")), of_index(1, "Running")]);
    assert_eq!((waits.work.as_str(), waits.later), ("", Some(10)));
    // The other index need not wait.
    let other = sync(&job, &[now(of_index(0, "Failed"))]);
    assert_eq!((other.work.as_str(), other.later), ("create 1", None));
}

#[test]
fn a_deleted_job_creates_no_pod_and_frees_those_that_it_has() {
    let deleted = with(
        job(json!({"parallelism": 2, "completions": 2}), started()),
        &["metadata", "deletionTimestamp"],
        NOW.into(),
    );
    let freed = sync(&deleted, &[pod("a", "Running")]);
    assert_eq!(
        (freed.work.as_str(), &freed.released[..]),
        ("", &["a".to_owned()][..])
    );
}

#[test]
fn too_many_pods_are_removed() {
    let fewer = sync(
        &job(json!({"parallelism": 1, "completions": 5}), started()),
        &[pod("a", "Running"), pod("b", "Pending")],
    );
    assert_eq!(fewer.work, "remove b");
    assert_eq!(fewer.statuses[0]["active"], 1);
}

#[test]
fn pods_that_are_left_put_the_end_off() {
    let job = job(json!({"activeDeadlineSeconds": 1}), started());
    let parse = |pod: Value| Arc::new(serde_json::from_value::<Pod>(pod).unwrap());
    let pods = vec![parse(pod("a", "Running"))];
    let mut sync = Sync::new(&job, pods, Backoff::default(), now()).unwrap();
    assert!(matches!(sync.work(&job), Work::End(_)));
    sync.worked(Done::default());
    assert!(sync.track().pods.is_empty());
    assert_eq!(sync.finish, None);
    assert_eq!(sync.status.conditions, None);
}

#[test]
fn a_status_that_is_full_puts_the_end_off() {
    let pods: Vec<Value> = (0..501)
        .map(|n| pod(&format!("p{n:03}"), "Succeeded"))
        .collect();
    let full = sync(
        &job(json!({"completions": 501, "parallelism": 501}), started()),
        &pods,
    );
    assert_eq!(full.released.len(), 500);
    assert_eq!(full.statuses[1]["succeeded"], 500);
    assert_eq!(
        reasons(&full.statuses[1]),
        ["SuccessCriteriaMet/CompletionsReached"]
    );
    let rest = sync(
        &job(
            json!({"completions": 501, "parallelism": 501}),
            full.statuses[1].clone(),
        ),
        &pods[500..],
    );
    assert_eq!(rest.statuses.last().unwrap()["succeeded"], 501);
    assert_eq!(reasons(rest.statuses.last().unwrap()).len(), 2);
}

#[test]
fn a_backoff_that_is_known_delays_pods() {
    let parse = |pod: Value| Arc::new(serde_json::from_value::<Pod>(pod).unwrap());
    let failed = with(
        pod("a", "Failed"),
        &["metadata", "creationTimestamp"],
        NOW.into(),
    );
    let known = Backoff::default().after(&[], &[parse(failed)]);
    let waits = sync_after(&job(json!({}), started()), &[], known);
    assert_eq!((waits.work.as_str(), waits.later), ("", Some(10)));
    assert_eq!(known.left(now()), Some(Duration::from_secs(10)));
}
