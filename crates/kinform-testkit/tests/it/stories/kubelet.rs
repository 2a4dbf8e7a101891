//! The kubelet of the recording: what it wrote for a pod, at the same times.
//!
//! ```text
//! annotation story/kubelet: run | succeed | fail | unready | none ─▶ patches of status after 150 and 550 ms
//! pod that ends ─▶ its deletion after 200 ms
//! ```
//!
//! The kubelet of the product is another one; pods that all servers end alike make stories comparable.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_client::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::play::{Clock, request};

const MERGE: &str = "application/strategic-merge-patch+json";

/// A kubelet that knows which pods it dealt with, and the addresses that it gave.
#[derive(Clone)]
pub(super) struct Kubelet {
    client: Client,
    clock: Clock,
    done: Arc<Mutex<(BTreeSet<String>, u32)>>,
}

fn conditions(pod: &Value, ready: &str, reason: Option<&str>, now: &str) -> Value {
    let generation = &pod["metadata"]["generation"];
    let one = |name: &str| {
        let of_ready = matches!(name, "Ready" | "ContainersReady");
        let status = if of_ready { ready } else { "True" };
        let mut condition = json!({"type": name, "status": status, "observedGeneration": generation,
            "lastProbeTime": null, "lastTransitionTime": now});
        if let Some(reason) = reason.filter(|_| of_ready) {
            condition["reason"] = reason.into();
        }
        condition
    };
    let names = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
    ];
    names.map(one).to_vec().into()
}

fn containers(pod: &Value, state: &Value, is_ready: bool) -> Value {
    let all = pod["spec"]["containers"].as_array().unwrap();
    let one = |container: &Value| {
        json!({"name": container["name"], "image": container["image"], "imageID": "sha256:0",
            "containerID": "containerd://0", "ready": is_ready, "started": is_ready,
            "restartCount": 0, "state": state})
    };
    all.iter().map(one).collect()
}

impl Kubelet {
    pub(super) fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            done: Arc::new(Mutex::new((BTreeSet::new(), 10))),
        }
    }

    /// Takes notice of a pod's state.
    pub(super) fn see(&self, pod: &Value) {
        let meta = &pod["metadata"];
        let how = meta["annotations"]["story/kubelet"]
            .as_str()
            .unwrap_or("run");
        if !pod["spec"]["nodeName"].is_string() || how == "none" {
            return;
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            text(&meta["namespace"]),
            text(&meta["name"])
        );
        let (client, uid) = (self.client.clone(), text(&meta["uid"]));
        let mut done = self.done.lock().unwrap();
        if meta["deletionTimestamp"].is_string() {
            if done.0.insert(format!("{uid} gone")) {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(200)).await;
                    let body = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                    request(&client, "DELETE", &path, "application/json", &body).await;
                });
            }
            return;
        }
        if done.0.insert(uid) {
            done.1 += 1;
            let ip = format!("10.244.0.{}", done.1);
            let (pod, how) = (pod.clone(), how.to_owned());
            tokio::spawn(run((client, self.clock), path, pod, how, ip));
        }
    }
}

async fn run((client, clock): (Client, Clock), path: String, pod: Value, how: String, ip: String) {
    let path = format!("{path}/status");
    let began = clock.stamp();
    sleep(Duration::from_millis(150)).await;
    let is_ready = how != "unready";
    let (ready, reason) = match is_ready {
        true => ("True", None),
        false => ("False", Some("ContainersNotReady")),
    };
    let running = json!({"running": {"startedAt": began}});
    let patch = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "hostIP": "192.168.0.7", "hostIPs": [{"ip": "192.168.0.7"}], "startTime": began,
        "conditions": conditions(&pod, ready, reason, &clock.stamp()),
        "containerStatuses": containers(&pod, &running, is_ready)}});
    request(&client, "PATCH", &path, MERGE, &patch).await;
    let (phase, reason, code, end) = match &*how {
        "succeed" => ("Succeeded", "PodCompleted", 0, "Completed"),
        "fail" => ("Failed", "PodFailed", 3, "Error"),
        _ => return,
    };
    sleep(Duration::from_millis(400)).await;
    let terminated = json!({"terminated": {"exitCode": code, "reason": end, "startedAt": began,
        "finishedAt": clock.stamp()}});
    let patch = json!({"status": {"phase": phase,
        "conditions": conditions(&pod, "False", Some(reason), &clock.stamp()),
        "containerStatuses": containers(&pod, &terminated, false)}});
    request(&client, "PATCH", &path, MERGE, &patch).await;
}
