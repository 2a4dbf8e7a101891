//! A story told to a server with controllers, and what watches see.
//!
//! ```text
//! Story ──requests, at their times──▶ TestServer with controllers ──watches──▶ changes of each step
//!                                          └─ pods ──▶ Kubelet ──▶ statuses
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use kinform_controlplane::{ControllerName, Selection};
use kinform_testkit::TestServer;
use kube_client::Client;
use kube_core::WatchEvent;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::kubelet::Kubelet;
use super::nodes::{Keeper, LEASES, join};
use super::recording::{Change, Step, Story};

/// The group versions that serve the resources of the stories.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "/api/v1",
        &[
            "configmaps",
            "endpoints",
            "events",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "/apis/apps/v1",
        &[
            "controllerrevisions",
            "daemonsets",
            "deployments",
            "replicasets",
            "statefulsets",
        ],
    ),
    ("/apis/batch/v1", &["cronjobs", "jobs"]),
    ("/apis/coordination.k8s.io/v1", &["leases"]),
    ("/apis/discovery.k8s.io/v1", &["endpointslices"]),
    ("/apis/autoscaling/v2", &["horizontalpodautoscalers"]),
    ("/apis/policy/v1", &["poddisruptionbudgets"]),
    ("/apis/networking.k8s.io/v1", &["ipaddresses"]),
    ("/apis/storage.k8s.io/v1", &["storageclasses"]),
];

fn path_of(resource: &str) -> String {
    let group = GROUPS.iter().find(|(_, all)| all.contains(&resource));
    let (group, _) = group.unwrap_or_else(|| panic!("{resource} is not among the groups"));
    format!("{group}/{resource}")
}

/// Sends a request; returns status code and body.
pub(super) async fn request(
    client: &Client,
    method: &str,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .header("user-agent", "kubectl/v1.37.1")
        .body(kube_client::client::Body::from(body));
    let reply = client.send(request.unwrap()).await.unwrap();
    let code = reply.status().as_u16();
    let body = reply.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

/// A step that the recorder let rest; its end may come later here, as times of the API are whole seconds.
const LONG: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_millis(1_200);

/// The grace period of a silent node was 12 s there; here it is upstream's default, 50 s.
const LONGER_GRACE: Duration = Duration::from_secs(38);

type Seen = Arc<Mutex<Vec<Change>>>;

/// Follows a resource from now on.
async fn follow(client: Client, resource: String, seen: Seen, kubelet: Option<Kubelet>) {
    let path = format!("{}?watch=true&resourceVersion=0", path_of(&resource));
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let events = client.request_events::<Value>(request).await.unwrap();
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let (kind, object) = match event.unwrap() {
                WatchEvent::Added(object) => ("ADDED", object),
                WatchEvent::Modified(object) => ("MODIFIED", object),
                WatchEvent::Deleted(object) => ("DELETED", object),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => panic!("{resource}: {error:?}"),
            };
            if let Some(kubelet) = kubelet.as_ref().filter(|_| kind != "DELETED") {
                kubelet.see(&object);
            }
            seen.lock().unwrap().push(Change {
                resource: resource.clone(),
                kind: kind.to_owned(),
                object,
            });
        }
    });
}

/// Makes what the recorder made without recording it.
async fn prepare(client: &Client, story: &Story) {
    if story.namespace == "cp-scheduling" {
        let class = json!({"metadata": {"name": "cp-high"}, "value": 1000});
        let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
        request(client, "POST", path, "application/json", &class).await;
    }
}

/// Names and uids of the recording, and what they are here.
fn here(told: &[Change], seen: &[Change], text: &str) -> String {
    let mut text = text.to_owned();
    let key = |change: &Change| {
        let meta = &change.object["metadata"];
        let name = meta["generateName"].as_str().or(meta["name"].as_str());
        // Hashes of templates are of another kind here.
        let depth = name.unwrap().matches('-').count();
        (
            change.resource.clone(),
            depth,
            meta["generateName"].is_string(),
        )
    };
    let mut ours: BTreeMap<_, Vec<&Value>> = BTreeMap::new();
    let added = |change: &&Change| change.kind == "ADDED";
    for change in seen.iter().filter(added) {
        ours.entry(key(change))
            .or_default()
            .push(&change.object["metadata"]);
    }
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for change in told.iter().filter(added) {
        let (meta, key) = (&change.object["metadata"], key(change));
        let candidates = ours.get(&key).map(Vec::as_slice).unwrap_or_default();
        let is_named = |other: &&&Value| other["name"] == meta["name"];
        let other = if key.2 {
            let count = counts.entry(key).or_default();
            *count += 1;
            candidates.get(*count - 1)
        } else {
            candidates.iter().rev().find(is_named)
        };
        let Some(other) = other else { continue };
        for field in ["uid", "name"] {
            let (from, to) = (
                meta[field].as_str().unwrap(),
                other[field].as_str().unwrap(),
            );
            if from != to {
                text = text.replace(from, to);
            }
        }
    }
    text
}

/// The time at which a server starts: schedules of minutes begin at the same part of a story.
const START: &str = "2026-01-02T03:04:20Z";

/// The clock of a server, whose time is tokio's.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    start: Timestamp,
    since: Instant,
}

impl Clock {
    fn of(api: &TestServer) -> Self {
        Self {
            start: api.server().now(),
            since: Instant::now(),
        }
    }

    fn now(&self) -> Timestamp {
        self.start + self.since.elapsed()
    }

    /// The time as objects have it: whole seconds.
    pub(super) fn stamp(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// Tells a story. Returns its steps with what was seen here, and refusals that differ.
pub(super) async fn tell(story: &Story) -> (Vec<Vec<Change>>, Vec<String>) {
    let names = ControllerName::ALL.into_iter();
    let names: Selection = names
        .filter(|name| *name != ControllerName::Kubelet)
        .collect();
    let start: Timestamp = START.parse().unwrap();
    let api = TestServer::start()
        .in_process()
        .without_lag()
        .with(move |builder| builder.start_time(start))
        .with(kinform_apiserver::Builder::with_kubelets)
        // Controllers have the rights of upstream's roles alone.
        .with(kinform_apiserver::Builder::rbac)
        .with_selected_controllers(names);
    let api = api.await.unwrap();
    // Times of the API are whole seconds: each run begins at the same part of one.
    let clock = Clock::of(&api);
    let part = Duration::from_nanos(clock.now().subsec_nanosecond().unsigned_abs().into());
    tokio::time::sleep(Duration::from_millis(1_100) - part).await;
    let client = api.client();
    let keeper = Keeper::start(client.clone());
    if story.namespace != "default" {
        join(&client, &keeper, &clock.stamp()).await;
    }
    prepare(&client, story).await;
    let seen = Seen::default();
    let kubelet = Kubelet::new(client.clone(), clock);
    let mut resources = story.resources();
    resources.retain(|resource| !resource.ends_with("policies") && resource != "clusterroles");
    if !resources.iter().any(|resource| resource == "pods") {
        resources.push("pods".to_owned());
    }
    for resource in resources {
        let kubelet = (resource == "pods").then(|| kubelet.clone());
        follow(client.clone(), resource, seen.clone(), kubelet).await;
    }
    let began = Instant::now();
    let (mut steps, mut refusals) = (Vec::new(), Vec::new());
    let all = story.steps.iter().flat_map(|step| step.changes.clone());
    let told: Vec<Change> = all.collect();
    let mut taken = 0;
    // The nodes of a story about them are not there yet; others are ready by now.
    sleep_until(began + Duration::from_millis(100)).await;
    let mut began = Instant::now();
    let initial = seen.lock().unwrap().len();
    let mut before = Duration::ZERO;
    for (at, step) in story.steps.iter().enumerate() {
        if step.at - before > LONG {
            began += GRACE;
        }
        before = step.at;
        sleep_until(began + step.at).await;
        if at > 0 {
            taken = take(&seen, initial, taken, &mut steps);
        }
        let Step { act, .. } = step;
        if act.is_note() {
            keeper.remove("node-c");
            began += LONGER_GRACE;
            continue;
        }
        if act.path == LEASES {
            keeper.add(act.body["metadata"]["name"].as_str().unwrap());
        }
        let (path, body) = {
            let seen = seen.lock().unwrap();
            let body = here(&told, &seen, &act.body.to_string());
            (
                here(&told, &seen, &act.path),
                serde_json::from_str(&body).unwrap(),
            )
        };
        let (code, reply) = request(&client, &act.method, &path, &act.content_type, &body).await;
        if code != act.status {
            refusals.push(format!(
                "step {at}: {path}: {code} {reply}, there {}",
                act.status
            ));
        }
    }
    sleep_until(began + story.end + Duration::from_secs(1)).await;
    take(&seen, initial, taken, &mut steps);
    api.stop().await;
    (steps, refusals)
}

/// Takes what was seen since the step before.
fn take(seen: &Seen, initial: usize, taken: usize, steps: &mut Vec<Vec<Change>>) -> usize {
    let seen = seen.lock().unwrap();
    let from = initial + taken;
    steps.push(seen[from..].to_vec());
    seen.len() - initial
}
