//! Jobs beside a test's server, under paused time: the writes and their order, as real controllers of
//! Kubernetes 1.37 were seen to make them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kinform_apiserver::{Fault, FaultRule};
use kinform_testkit::{Loss, TestServer};
use kube_client::Api;
use kube_client::api::{ApiResource, DeleteParams};
use serde_json::{Value, json};

use crate::story::{
    change, events_of, history, job, pods_of, runs, start, told, until, until_no_pods, until_runs,
    version,
};

// As recorded: one completion after the other.
#[tokio::test(start_paused = true)]
async fn a_job_counts_its_pods_one_after_the_other() {
    let api = start().await;
    let since = version(&api).await;
    api.create(&job(
        "ok",
        json!({}),
        json!({"completions": 2, "parallelism": 1}),
    ))
    .await
    .unwrap();
    let done = until(&api, "ok", "Complete").await;
    let met = "SuccessCriteriaMet=True/CompletionsReached";
    let expected = [
        "pod created".to_owned(),
        "active 1, ready 0, terminating 0".to_owned(),
        "pod created".to_owned(),
        "active 1, ready 0, terminating 0, 1 uncounted succeeded".to_owned(),
        "pod released, Succeeded".to_owned(),
        "active 1, ready 0, terminating 0, succeeded 1".to_owned(),
        format!("ready 0, terminating 0, succeeded 1, 1 uncounted succeeded, {met}"),
        "pod released, Succeeded".to_owned(),
        format!(
            "ready 0, terminating 0, succeeded 2, {met}, Complete=True/CompletionsReached, completed"
        ),
    ];
    assert_eq!(told(&api, "ok", &since).await, expected);
    let uid = done.metadata.uid.unwrap();
    for pod in pods_of(&api, "ok").await {
        let labels = pod.metadata.labels.unwrap();
        for (key, value) in [
            ("batch.kubernetes.io/controller-uid", &uid),
            ("batch.kubernetes.io/job-name", &"ok".to_owned()),
            ("controller-uid", &uid),
            ("job-name", &"ok".to_owned()),
        ] {
            assert_eq!(labels.get(key), Some(value), "{key}");
        }
        let owner = &pod.metadata.owner_references.unwrap()[0];
        assert_eq!(
            (&*owner.kind, owner.controller, owner.block_owner_deletion),
            ("Job", Some(true), Some(true))
        );
        assert!(pod.metadata.name.unwrap().starts_with("ok-"));
    }
    let created = "Normal SuccessfulCreate: Created pod: ok";
    assert_eq!(
        events_of(&api, "Job", "ok").await,
        [created, created, "Normal Completed: Job completed"]
    );
    let jobs: Api<Job> = Api::default_namespaced(api.client());
    jobs.delete("ok", &DeleteParams::background())
        .await
        .unwrap();
    until_no_pods(&api, "ok").await;
    api.stop().await;
}

// As recorded: backoffLimit 1, ten seconds between the pods.
#[tokio::test(start_paused = true)]
async fn a_job_that_fails_waits_before_it_tries_again() {
    let api = start().await;
    let since = version(&api).await;
    let fails = json!({"kinform.dev/exit-code": "1"});
    api.create(&job("bad", fails, json!({"backoffLimit": 1})))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(9)).await;
    until(&api, "bad", "Failed").await;
    let target = "FailureTarget=True/BackoffLimitExceeded";
    let expected = [
        "pod created".to_owned(),
        "active 1, ready 0, terminating 0".to_owned(),
        "ready 0, terminating 0, 1 uncounted failed".to_owned(),
        "pod released, Failed".to_owned(),
        "ready 0, terminating 0, failed 1".to_owned(),
        "pod created".to_owned(),
        "active 1, ready 0, terminating 0, failed 1".to_owned(),
        format!("ready 0, terminating 0, failed 1, 1 uncounted failed, {target}"),
        "pod released, Failed".to_owned(),
        format!("ready 0, terminating 0, failed 2, {target}, Failed=True/BackoffLimitExceeded"),
    ];
    assert_eq!(told(&api, "bad", &since).await, expected);
    let created = pods_of(&api, "bad").await;
    let mut created: Vec<_> = created
        .iter()
        .map(|pod| pod.metadata.creation_timestamp.clone().unwrap().0)
        .collect();
    created.sort();
    let between = created[0].duration_until(created[1]).as_secs();
    // Times of objects are whole seconds.
    assert!((9..=11).contains(&between), "{between}");
    let pod = "Normal SuccessfulCreate: Created pod: bad";
    let failed = "Warning BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(events_of(&api, "Job", "bad").await, [pod, pod, failed]);
    api.stop().await;
}

// As recorded: two indexes at once.
#[tokio::test(start_paused = true)]
async fn each_pod_of_an_indexed_job_knows_its_index() {
    // Without lag, both pods end within the time in which changes are gathered.
    let api = TestServer::start().in_process().without_lag();
    let api = api.with_controllers().await.unwrap();
    let since = version(&api).await;
    let changes = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    api.create(&job("indexed", json!({}), changes))
        .await
        .unwrap();
    until(&api, "indexed", "Complete").await;
    let counts = "ready 0, terminating 0, succeeded 2, completedIndexes \"0,1\", SuccessCriteriaMet=True/CompletionsReached";
    let expected = [
        "pod created".to_owned(),
        "active 2, ready 0, terminating 0".to_owned(),
        counts.to_owned(),
        "pod released, Succeeded".to_owned(),
        format!("{counts}, Complete=True/CompletionsReached, completed"),
    ];
    assert_eq!(told(&api, "indexed", &since).await, expected);
    let index = "batch.kubernetes.io/job-completion-index";
    let mut found = BTreeSet::new();
    for pod in pods_of(&api, "indexed").await {
        let number = pod.metadata.labels.as_ref().unwrap()[index].clone();
        assert_eq!(pod.metadata.annotations.as_ref().unwrap()[index], number);
        let name = pod.metadata.name.as_deref().unwrap();
        assert!(name.starts_with(&format!("indexed-{number}-")), "{name}");
        let spec = pod.spec.unwrap();
        assert_eq!(spec.hostname, Some(format!("indexed-{number}")));
        let variable = &spec.containers[0].env.as_ref().unwrap()[0];
        assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
        let from = variable
            .value_from
            .as_ref()
            .unwrap()
            .field_ref
            .as_ref()
            .unwrap();
        assert_eq!(from.field_path, format!("metadata.labels['{index}']"));
        found.insert(number);
    }
    assert_eq!(found, BTreeSet::from(["0".to_owned(), "1".to_owned()]));
    api.stop().await;
}

// As recorded: suspended at first and resumed, and suspended while it runs.
#[tokio::test(start_paused = true)]
async fn a_job_is_suspended_and_resumed() {
    let api = start().await;
    let since = version(&api).await;
    api.create(&job("paused", json!({}), json!({"suspend": true})))
        .await
        .unwrap();
    until(&api, "paused", "Suspended").await;
    change(&api, "paused", json!({"spec": {"suspend": false}})).await;
    until(&api, "paused", "Complete").await;
    let (resumed, met) = (
        "Suspended=False/JobResumed",
        "SuccessCriteriaMet=True/CompletionsReached",
    );
    let suspended = "ready 0, terminating 0, Suspended=True/JobSuspended, not started";
    let expected = [
        suspended.to_owned(),
        "pod created".to_owned(),
        format!("active 1, ready 0, terminating 0, {resumed}"),
        format!("ready 0, terminating 0, 1 uncounted succeeded, {resumed}, {met}"),
        "pod released, Succeeded".to_owned(),
        format!(
            "ready 0, terminating 0, succeeded 1, {resumed}, {met}, Complete=True/CompletionsReached, completed"
        ),
    ];
    assert_eq!(told(&api, "paused", &since).await, expected);
    let expected = [
        "Normal Suspended: Job suspended",
        "Normal SuccessfulCreate: Created pod: paused",
        "Normal Resumed: Job resumed",
        "Normal Completed: Job completed",
    ];
    assert_eq!(events_of(&api, "Job", "paused").await, expected);

    let since = version(&api).await;
    api.create(&job("stopped", runs(), json!({})))
        .await
        .unwrap();
    until_runs(&api, "stopped").await;
    change(&api, "stopped", json!({"spec": {"suspend": true}})).await;
    until_no_pods(&api, "stopped").await;
    let gone = |job: &Job| job.status.as_ref().and_then(|status| status.terminating) == Some(0);
    api.until("default/stopped", gone).await.unwrap();
    let expected = [
        "pod created",
        "active 1, ready 0, terminating 0",
        "active 1, ready 1, terminating 0",
        "pod released, Running",
        "pod deleted, Running",
        "ready 0, terminating 1, Suspended=True/JobSuspended, not started",
        "pod gone",
        suspended,
    ];
    let mut told = told(&api, "stopped", &since).await;
    // The pod's end and the status of its removal are written by two.
    let end = told.iter().position(|line| line == "pod gone").unwrap();
    let status = told
        .iter()
        .position(|line| line.contains("terminating 1"))
        .unwrap();
    if end < status {
        told.swap(end, status);
    }
    assert_eq!(told, expected);
    api.stop().await;
}

// As recorded: a deadline of two seconds.
#[tokio::test(start_paused = true)]
async fn a_job_fails_at_its_deadline() {
    let api = start().await;
    let since = version(&api).await;
    api.create(&job("late", runs(), json!({"activeDeadlineSeconds": 2})))
        .await
        .unwrap();
    until(&api, "late", "Failed").await;
    let told = told(&api, "late", &since).await;
    let target = "FailureTarget=True/DeadlineExceeded";
    let statuses: Vec<&str> = told
        .iter()
        .filter(|line| !line.starts_with("pod"))
        .map(String::as_str)
        .collect();
    let expected = [
        "active 1, ready 0, terminating 0".to_owned(),
        "active 1, ready 1, terminating 0".to_owned(),
        format!("ready 0, terminating 1, 1 uncounted failed, {target}"),
        format!("ready 0, terminating 1, failed 1, {target}"),
        format!("ready 0, terminating 0, failed 1, {target}"),
        format!("ready 0, terminating 0, failed 1, {target}, Failed=True/DeadlineExceeded"),
    ];
    assert_eq!(statuses, expected);
    let expected = [
        "Normal SuccessfulCreate: Created pod: late",
        "Normal SuccessfulDelete: Deleted pod: late",
        "Warning DeadlineExceeded: Job was active longer than specified deadline",
    ];
    assert_eq!(events_of(&api, "Job", "late").await, expected);
    api.stop().await;
}

// As recorded: a policy fails the Job by an exit code.
#[tokio::test(start_paused = true)]
async fn a_failure_policy_fails_the_job_at_once() {
    let api = start().await;
    let since = version(&api).await;
    let changes = json!({"backoffLimit": 5, "podFailurePolicy": {"rules": [{
        "action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [3]},
    }]}});
    api.create(&job(
        "policy",
        json!({"kinform.dev/exit-code": "3"}),
        changes,
    ))
    .await
    .unwrap();
    let failed = until(&api, "policy", "Failed").await;
    let target = "FailureTarget=True/PodFailurePolicy";
    let expected = [
        "pod created".to_owned(),
        "active 1, ready 0, terminating 0".to_owned(),
        format!("ready 0, terminating 0, 1 uncounted failed, {target}"),
        "pod released, Failed".to_owned(),
        format!("ready 0, terminating 0, failed 1, {target}, Failed=True/PodFailurePolicy"),
    ];
    assert_eq!(told(&api, "policy", &since).await, expected);
    let pod = pods_of(&api, "policy")
        .await
        .remove(0)
        .metadata
        .name
        .unwrap();
    let message = format!(
        "Container c for pod default/{pod} failed with exit code 3 matching FailJob rule at index 0"
    );
    let conditions = failed.status.unwrap().conditions.unwrap();
    assert!(
        conditions
            .iter()
            .all(|one| one.message.as_ref() == Some(&message))
    );
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_has_failed_and_is_replaced() {
    let api = start().await;
    for policy in ["TerminatingOrFailed", "Failed"] {
        let name = policy.to_lowercase();
        let changes = json!({"podReplacementPolicy": policy});
        api.create(&job(&name, runs(), changes)).await.unwrap();
        until_runs(&api, &name).await;
        let since = version(&api).await;
        let pod = pods_of(&api, &name).await.remove(0).metadata.name.unwrap();
        api.delete::<Pod>(&format!("default/{pod}")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(9)).await;
        let replaced = |job: &Job| {
            let status = job.status.clone().unwrap_or_default();
            (status.failed, status.ready) == (Some(1), Some(1))
        };
        let key = format!("default/{name}");
        api.until(&key, replaced).await.unwrap();
        let pods = history(&api, &ApiResource::erase::<Pod>(&()), &since).await;
        let first = |is: &dyn Fn(&str, &Value) -> bool| {
            let found = pods.iter().find(|(_, kind, pod)| is(kind, pod));
            found.map(|(version, ..)| *version).unwrap()
        };
        let failed = first(&|_, state| {
            state["metadata"]["name"] == *pod && state["status"]["phase"] == "Failed"
        });
        let next = first(&|kind, _| kind == "ADDED");
        assert!(failed < next, "{policy}: {failed} {next}");
        if policy == "Failed" {
            // The end of the pod is awaited before it counts.
            let jobs = history(&api, &ApiResource::erase::<Job>(&()), &since).await;
            let counted = jobs.iter().find(|(_, _, job)| {
                let uids = &job["status"]["uncountedTerminatedPods"]["failed"];
                job["metadata"]["name"] == *name && uids.is_array()
            });
            assert!(failed < counted.unwrap().0);
        }
    }
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_deleted_jobs_go_with_them() {
    let api = start().await;
    let jobs: Api<Job> = Api::default_namespaced(api.client());
    for (name, how) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
    ] {
        api.create(&job(name, runs(), json!({}))).await.unwrap();
        until_runs(&api, name).await;
        jobs.delete(name, &how).await.unwrap();
        until_no_pods(&api, name).await;
        api.until_gone::<Job>(&format!("default/{name}"))
            .await
            .unwrap();
    }
    // Pods that are left to themselves lose the finalizer, too.
    api.create(&job("orphan", runs(), json!({}))).await.unwrap();
    until_runs(&api, "orphan").await;
    jobs.delete("orphan", &DeleteParams::orphan())
        .await
        .unwrap();
    let pod = pods_of(&api, "orphan")
        .await
        .remove(0)
        .metadata
        .name
        .unwrap();
    let free =
        |pod: &Pod| pod.metadata.finalizers.is_none() && pod.metadata.owner_references.is_none();
    api.until(&format!("default/{pod}"), free).await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wide_job_completes_whatever_order_its_pods_end_in() {
    let api = start().await;
    let since = version(&api).await;
    let changes = json!({"completions": 40, "parallelism": 7, "completionMode": "Indexed",
        "backoffLimitPerIndex": 1});
    api.create(&job("wide", json!({}), changes)).await.unwrap();
    let done = until(&api, "wide", "Complete").await.status.unwrap();
    assert_eq!(
        (done.succeeded, done.completed_indexes.as_deref()),
        (Some(40), Some("0-39"))
    );
    assert_eq!(done.failed_indexes.as_deref(), Some(""));
    let pods = history(&api, &ApiResource::erase::<Pod>(&()), &since).await;
    let created = pods.iter().filter(|(_, kind, _)| kind == "ADDED").count();
    assert_eq!(created, 40, "each index had one pod");
    api.stop().await;
}

/// The pods that were created since a version.
async fn created(api: &TestServer, since: &str) -> usize {
    let pods = history(api, &ApiResource::erase::<Pod>(&()), since).await;
    pods.iter().filter(|(_, kind, _)| kind == "ADDED").count()
}

fn counts(job: &Job) -> (Option<i32>, Option<i32>) {
    let status = job.status.clone().unwrap_or_default();
    (status.succeeded, status.failed)
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_counts_no_pod_twice() {
    for verb in ["create", "update", "patch"] {
        for nth in 1..=5 {
            let api = start().await;
            let since = version(&api).await;
            let lost = FaultRule::new(Fault::LoseReply).on_verb(verb);
            api.server().faults().inject(lost.from_nth(nth));
            let changes = json!({"completions": 4, "parallelism": 2});
            let script = json!({"kinform.dev/exit-after": "1s"});
            // The first reply that is lost may be the test's own.
            drop(api.create(&job("lossy", script, changes)).await);
            // A Job with a write of unknown outcome is held back for up to 30 s.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let done = until(&api, "lossy", "Complete").await;
            assert_eq!(counts(&done), (Some(4), None), "{verb} {nth}");
            assert_eq!(created(&api, &since).await, 4, "{verb} {nth}");
            api.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_after_a_restart() {
    let api = start().await;
    let changes = json!({"completions": 4, "parallelism": 2});
    let script = json!({"kinform.dev/exit-after": "5s"});
    api.create(&job("long", script, changes)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(pods_of(&api, "long").await.len(), 2);
    let api = api.restart(Loss::History).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let done = until(&api, "long", "Complete").await;
    assert_eq!(counts(&done), (Some(4), None));
    assert_eq!(pods_of(&api, "long").await.len(), 4);
    api.stop().await;
}

#[tokio::test]
async fn a_job_completes_over_sockets() {
    let lived = async {
        let api = TestServer::start().with_controllers().await.unwrap();
        let changes = json!({"completions": 20, "parallelism": 5});
        api.create(&job("quick", json!({}), changes)).await.unwrap();
        let done = until(&api, "quick", "Complete").await;
        assert_eq!(counts(&done), (Some(20), None));
        api.stop().await;
    };
    let limit = Duration::from_secs(30);
    assert!(tokio::time::timeout(limit, lived).await.is_ok());
}
