//! Tables of decisions.
//!
//! ```text
//! CronJob + its jobs + time ─▶ the job that starts, status, events, jobs beyond the limits
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Note, Plan, beyond_limits};

/// A cron job of every hour, made at 10:00.
fn cron(spec: Value, status: Value) -> Value {
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "ns", "uid": "cron",
            "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"schedule": "0 * * * *", "concurrencyPolicy": "Allow", "jobTemplate": {
            "metadata": {"labels": {"from": "cron"}, "annotations": {"a": "1"}},
            "spec": {"parallelism": 3},
        }},
        "status": status,
    });
    for (field, value) in spec.as_object().unwrap() {
        cron["spec"][field] = value.clone();
    }
    cron
}

fn at(time: &str) -> Timestamp {
    format!("2026-01-01T{time}Z").parse().unwrap()
}

fn job(name: &str, condition: &str) -> Arc<Value> {
    let conditions = match condition {
        "" => json!([]),
        condition => json!([{"type": condition, "status": "True"}]),
    };
    Arc::new(json!({"metadata": {"name": name, "uid": name}, "status": {
        "conditions": conditions, "startTime": format!("2026-01-01T1{}:00:00Z", &name[1..]),
        "completionTime": (condition == "Complete").then_some("2026-01-01T11:00:05Z"),
    }}))
}

fn active(names: &[&str]) -> Value {
    let active: Vec<Value> = names
        .iter()
        .map(|name| json!({"kind": "Job", "name": name, "uid": name}))
        .collect();
    json!({"active": active})
}

fn decide(cron: &Value, jobs: &[Arc<Value>], now: &str) -> Plan {
    let mut plan = Plan::seen(cron, jobs, &[]).unwrap();
    plan.decide(cron, at(now));
    plan
}

fn started(plan: &Plan) -> Option<&str> {
    let start = plan.start.as_ref()?;
    start.body["metadata"]["name"].as_str()
}

fn reasons(plan: &Plan) -> Vec<&str> {
    let reason = |note: &Note| match *note {
        Note::Normal(reason, _) | Note::Warning(reason, _) => reason,
    };
    plan.notes.iter().map(reason).collect()
}

// As recorded of a real controller.
#[test]
fn a_job_of_a_time_has_its_minute_in_its_name() {
    let plan = decide(&cron(json!({}), json!({})), &[], "11:00:00.1");
    let start = plan.start.unwrap();
    let expected = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": "tick-29454420",
            "labels": {"from": "cron"},
            "annotations": {"a": "1",
                "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T11:00:00Z"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick",
                "uid": "cron", "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"parallelism": 3},
    });
    assert_eq!((start.body, start.time), (expected, at("11:00:00")));
    assert_eq!(plan.later.unwrap().as_millis(), 3_600_000);
    assert!(!plan.changed, "the job is not there yet");
}

#[test]
fn the_time_stands_in_the_zone_of_the_schedule() {
    let spec = json!({"schedule": "30 16 * * *", "timeZone": "Asia/Kolkata"});
    let plan = decide(&cron(spec, json!({})), &[], "11:30:00");
    let annotations = &plan.start.unwrap().body["metadata"]["annotations"];
    let stamp = &annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert_eq!(stamp, "2026-01-01T16:30:00+05:30");
}

// kubernetes: TestControllerV2SyncCronJob
#[test]
fn a_job_starts_once_and_only_when_it_may() {
    let check = |spec: Value, status: Value, now: &str, starts: bool, told: &[&str]| {
        let running = status.get("active").map(|_| job("j1", ""));
        let jobs: Vec<Arc<Value>> = running.into_iter().collect();
        let plan = decide(&cron(spec.clone(), status.clone()), &jobs, now);
        let found = (started(&plan).is_some(), reasons(&plan));
        assert_eq!(found, (starts, told.to_vec()), "{spec} {status} {now}");
    };
    let plain = || json!({});
    check(plain(), plain(), "10:59:59", false, &[]);
    check(plain(), plain(), "11:00:00", true, &[]);
    let last = json!({"lastScheduleTime": "2026-01-01T11:00:00Z"});
    check(plain(), last.clone(), "11:00:30", false, &[]);
    check(plain(), last, "12:00:00", true, &[]);
    check(json!({"suspend": true}), plain(), "11:00:00", false, &[]);
    check(plain(), active(&["j1"]), "11:00:00", true, &[]);
    let forbid = || json!({"concurrencyPolicy": "Forbid"});
    check(
        forbid(),
        active(&["j1"]),
        "11:00:00",
        false,
        &["JobAlreadyActive"],
    );
    check(forbid(), plain(), "11:00:00", true, &[]);
    let deadline = |seconds: i64| json!({"startingDeadlineSeconds": seconds});
    check(deadline(60), plain(), "11:00:59", true, &[]);
    check(deadline(60), plain(), "11:02:00", false, &[]);
    check(
        json!({"schedule": "* * * * *"}),
        plain(),
        "12:30:00",
        true,
        &["TooManyMissedTimes"],
    );
    let minutes = json!({"schedule": "* * * * *", "startingDeadlineSeconds": 600});
    check(minutes, plain(), "12:30:00", true, &[]);
    check(
        json!({"schedule": "never"}),
        plain(),
        "11:00:00",
        false,
        &["UnparseableSchedule"],
    );
    check(
        json!({"schedule": "0 0 31 2 *"}),
        plain(),
        "11:00:00",
        false,
        &["InvalidSchedule"],
    );
    check(
        json!({"timeZone": "No/Where"}),
        plain(),
        "11:00:00",
        false,
        &["UnknownTimeZone"],
    );
}

#[test]
fn a_job_that_runs_is_replaced() {
    let replace = cron(json!({"concurrencyPolicy": "Replace"}), active(&["j1"]));
    let plan = decide(&replace, &[job("j1", "")], "11:00:00");
    let replaces = plan.start.unwrap().replaces;
    assert_eq!(replaces.len(), 1);
    assert_eq!(replaces[0].uid.as_deref(), Some("j1"));
}

#[test]
fn jobs_that_ended_leave_the_list_of_active_ones() {
    let jobs = [job("j1", "Complete"), job("j2", "Failed"), job("j3", "")];
    let cron = cron(json!({}), active(&["j1", "j2", "j3", "j4"]));
    let plan = decide(&cron, &jobs, "10:30:00");
    assert_eq!(
        reasons(&plan),
        ["SawCompletedJob", "SawCompletedJob", "MissingJob"]
    );
    let message = "Saw completed job: j1, condition: Complete".to_owned();
    assert_eq!(plan.notes[0], Note::Normal("SawCompletedJob", message));
    let expected = json!({
        "active": [{"kind": "Job", "name": "j3", "uid": "j3"}],
        "lastSuccessfulTime": "2026-01-01T11:00:05Z",
    });
    assert_eq!((plan.changed, json!(plan.status)), (true, expected));
}

#[test]
fn a_job_that_nobody_started_is_told() {
    let plan = decide(&cron(json!({}), json!({})), &[job("j1", "")], "10:30:00");
    assert_eq!(
        (reasons(&plan), plan.changed),
        (vec!["UnexpectedJob"], false)
    );
    assert_eq!(plan.later.unwrap().as_millis(), 1_800_100);
}

#[test]
fn a_deleted_cron_job_starts_nothing() {
    let mut deleted = cron(json!({}), active(&["j1"]));
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T11:00:00Z".into();
    let plan = decide(&deleted, &[job("j1", "Complete")], "11:00:00");
    assert_eq!(
        (started(&plan), plan.later, plan.changed),
        (None, None, true)
    );
}

#[test]
fn the_oldest_ended_jobs_go_beyond_the_limits() {
    let jobs = [
        job("j3", "Complete"),
        job("j1", "Complete"),
        job("j2", "Complete"),
        job("j4", "Failed"),
        job("j5", "Failed"),
        job("j6", ""),
    ];
    let check = |limits: Value, expected: &[&str]| {
        let beyond = beyond_limits(&cron(limits.clone(), json!({})), &jobs);
        let names: Vec<&str> = beyond
            .iter()
            .map(|job| job["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{limits}");
    };
    check(json!({}), &[]);
    check(json!({"successfulJobsHistoryLimit": 1}), &["j1", "j2"]);
    check(
        json!({"successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1}),
        &["j4"],
    );
    check(json!({"failedJobsHistoryLimit": 0}), &["j4", "j5"]);
}

#[test]
fn a_started_job_is_active() {
    let mut plan = decide(&cron(json!({}), json!({})), &[], "11:00:00");
    let job = json!({"metadata": {"name": "tick-1", "namespace": "ns", "uid": "u", "resourceVersion": "7"}});
    plan.activate(&job, at("11:00:00"));
    let expected = json!({
        "active": [{"kind": "Job", "namespace": "ns", "name": "tick-1", "uid": "u",
            "apiVersion": "batch/v1", "resourceVersion": "7"}],
        "lastScheduleTime": "2026-01-01T11:00:00Z",
    });
    assert_eq!((plan.changed, json!(plan.status)), (true, expected));
    plan.deactivate("u");
    assert_eq!(plan.status.active, None);
}

#[test]
fn a_changed_schedule_waits_for_its_first_time_and_sees_its_jobs_end() {
    let active = json!({"active": [{"name": "tick-1", "uid": "tick-1"}],
        "lastScheduleTime": "2026-01-01T10:00:00Z"});
    let cron = cron(json!({"schedule": "30 * * * *"}), active);
    let mut plan = Plan::seen(&cron, &[job("tick-1", "Complete")], &[]).unwrap();
    assert!(plan.await_new_schedule(&cron, at("12:10:00")));
    assert_eq!((&plan.start, plan.status.active), (&None, None));
    assert_eq!(plan.later.map(|later| later.as_secs() / 60), Some(20));
    assert!(plan.changed);
}
