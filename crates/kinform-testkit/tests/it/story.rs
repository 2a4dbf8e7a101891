//! The stories that tests of controllers tell: objects, waits, and the writes that were made about an
//! object, in their order, as lines without times and UIDs.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{
    ApiResource, DynamicObject, ListParams, Patch, PatchParams, WatchEvent, WatchParams,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) async fn start() -> TestServer {
    let api = TestServer::start().in_process().with_controllers();
    api.await.unwrap()
}

pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A Job whose pods follow a script.
pub(crate) fn job(name: &str, script: Value, changes: Value) -> Job {
    let mut job = json!({
        "metadata": {"name": name},
        "spec": {"template": {
            "metadata": {"annotations": script},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "img:1"}]},
        }},
    });
    for (field, value) in changes.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    object(job)
}

pub(crate) fn runs() -> Value {
    json!({"kinform.dev/exit-after": "1h"})
}

fn has(job: &Job, condition: &str) -> bool {
    let status = job.status.as_ref();
    let mut conditions = status
        .into_iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|one| one.type_ == condition && one.status == "True")
}

pub(crate) async fn until(api: &TestServer, name: &str, condition: &str) -> Job {
    let key = format!("default/{name}");
    api.until(&key, |job: &Job| has(job, condition))
        .await
        .unwrap()
}

pub(crate) async fn until_runs(api: &TestServer, name: &str) {
    let ready = |job: &Job| job.status.as_ref().and_then(|status| status.ready) == Some(1);
    api.until(&format!("default/{name}"), ready).await.unwrap();
}

pub(crate) async fn change(api: &TestServer, name: &str, patch: Value) {
    let jobs: Api<Job> = Api::default_namespaced(api.client());
    jobs.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub(crate) async fn pods_of(api: &TestServer, job: &str) -> Vec<Pod> {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let of_job = ListParams::default().labels(&format!("job-name={job}"));
    pods.list(&of_job).await.unwrap().items
}

pub(crate) async fn until_no_pods(api: &TestServer, job: &str) {
    let gone = async {
        while !pods_of(api, job).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone)
        .await
        .unwrap();
}

/// The version of the server's state.
pub(crate) async fn version(api: &TestServer) -> String {
    let pods: Api<Pod> = Api::all(api.client());
    pods.list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap()
}

/// The changes of a resource since a version.
pub(crate) async fn history(
    api: &TestServer,
    resource: &ApiResource,
    since: &str,
) -> Vec<(u64, String, Value)> {
    let objects: Api<DynamicObject> = Api::all_with(api.client(), resource);
    let params = WatchParams::default().timeout(1);
    let events = objects.watch(&params, since).await.unwrap().boxed();
    let changes = events.try_filter_map(async |event| {
        let (kind, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) | WatchEvent::Error(_) => return Ok(None),
        };
        let object = serde_json::to_value(object).unwrap();
        let version = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        Ok(Some((version, kind.to_owned(), object)))
    });
    changes.try_collect().await.unwrap()
}

/// The writes about a Job: its statuses, its pods when they are created, released and deleted.
pub(crate) async fn told(api: &TestServer, job: &str, since: &str) -> Vec<String> {
    let jobs = history(api, &ApiResource::erase::<Job>(&()), since).await;
    let pods = history(api, &ApiResource::erase::<Pod>(&()), since).await;
    let mut lines = Vec::new();
    for (version, kind, object) in jobs {
        let is_status = kind == "MODIFIED" && object["metadata"]["name"] == job;
        if is_status {
            lines.push((version, status_line(&object["status"])));
        }
    }
    let mut seen = BTreeSet::new();
    for (version, kind, pod) in pods {
        if pod["metadata"]["labels"]["job-name"] != job {
            continue;
        }
        let uid = pod["metadata"]["uid"].as_str().unwrap().to_owned();
        let phase = pod["status"]["phase"].as_str().unwrap();
        let is_released = pod["metadata"].get("finalizers").is_none();
        let is_deleted = pod["metadata"].get("deletionTimestamp").is_some();
        let events = [
            (kind == "ADDED", "created".to_owned()),
            (is_deleted && kind != "DELETED", format!("deleted, {phase}")),
            (is_released, format!("released, {phase}")),
            (kind == "DELETED", "gone".to_owned()),
        ];
        for (is, event) in events {
            let what = event.split(',').next().unwrap().to_owned();
            if is && seen.insert((uid.clone(), what)) {
                lines.push((version, format!("pod {event}")));
            }
        }
    }
    lines.sort_by_key(|(version, _)| *version);
    let mut lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    lines.dedup();
    lines
}

/// A status in words: without times and UIDs.
fn status_line(status: &Value) -> String {
    let mut words = Vec::new();
    for field in [
        "active",
        "ready",
        "terminating",
        "succeeded",
        "failed",
        "completedIndexes",
        "failedIndexes",
    ] {
        if let Some(value) = status.get(field) {
            words.push(format!("{field} {value}"));
        }
    }
    for kind in ["succeeded", "failed"] {
        let uids = status["uncountedTerminatedPods"][kind].as_array();
        if let Some(uids) = uids {
            words.push(format!("{} uncounted {kind}", uids.len()));
        }
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap();
        words.push(format!(
            "{}={}/{}",
            text("type"),
            text("status"),
            text("reason")
        ));
    }
    for (field, without) in [
        ("startTime", "not started"),
        ("uncountedTerminatedPods", "untracked"),
    ] {
        if status.get(field).is_none() {
            words.push(without.to_owned());
        }
    }
    if status.get("completionTime").is_some() {
        words.push("completed".to_owned());
    }
    words.join(", ")
}

/// The reasons and messages of a Job's events, oldest first, without the ends of pods' names.
pub(crate) async fn events_of(api: &TestServer, kind: &str, name: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(api.client());
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| {
        let about = &event.involved_object;
        about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name)
    });
    events.sort_by_key(|event| {
        let version = event.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse::<u64>().ok())
    });
    let line = |event: &Event| {
        let note = event.message.clone().unwrap_or_default();
        let is_of_pod = note.contains("pod: ");
        let note = match note.rsplit_once('-').filter(|_| is_of_pod) {
            Some((note, _)) => note.to_owned(),
            None => note,
        };
        let kind = event.type_.as_deref().unwrap_or_default();
        format!(
            "{kind} {}: {note}",
            event.reason.as_deref().unwrap_or_default()
        )
    };
    events.iter().map(line).collect()
}
