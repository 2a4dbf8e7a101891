//! A real API server calls our webhooks: verdicts, failures, conversion from a cold start, rotation of
//! the certificate, and roll-outs under load; at a URL with files: `webhook_files.rs`.
//!
//! ```text
//! writer ─▶ kube-apiserver ─Service of an external name─▶ balancer ─▶ ready replicas of `hooks`
//! ```
//!
//! The embedded server has a part in `bundle.rs`.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kinform_e2e::balancer::{Balancer, Replica};
use kinform_e2e::process::{PATIENCE, Process};
use kinform_e2e::servers::Host;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::webhook_files::rotates_files;

/// Knots that exist before the program runs.
const KNOTS: usize = 5;
const ROLL_OUTS: usize = 20;
/// Calls between one roll-out and the next.
const EACH: u64 = 100;

/// A replica with its ports.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) ports: Replica,
}

async fn start(host: &Host) -> Running {
    let binary = env!("CARGO_BIN_EXE_hooks");
    let flags = ["--webhook-bind-address=127.0.0.1:0"];
    let mut process = Process::operator(binary, host.kubeconfig(), &flags, &[]).unwrap();
    let ports = Replica {
        probes: process.address("probes").await.unwrap(),
        webhooks: process.address("webhooks").await.unwrap(),
    };
    Running { process, ports }
}

pub(crate) async fn create(client: &Client, group: &str, kind: &str, object: Value) {
    let kind = GroupVersionKind::gvk(group, "v1", kind);
    let resource = ApiResource::from_gvk(&kind);
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::<DynamicObject>::all_with(client.clone(), &resource),
    };
    // The definition may not be served yet.
    let began = Instant::now();
    loop {
        match api.create(&PostParams::default(), &object).await {
            Err(error) if began.elapsed() > PATIENCE => panic!("{error}"),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            made => return drop(made.unwrap()),
        }
    }
}

/// Webhooks that fail and that are passed over, for ConfigMaps with a label of that name.
async fn set_up(client: &Client, port: u16) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "hooks"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    let services: Api<Service> = Api::namespaced(client.clone(), "default");
    let service = serde_json::from_value(service).unwrap();
    services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    let config = |path: &str| json!({"service": {"namespace": "default", "name": "hooks", "port": port, "path": path}});
    let webhook = |name: &str, policy: &str, path: &str| {
        json!({
            "name": format!("{name}.example.com"), "clientConfig": config(path),
            "objectSelector": {"matchLabels": {"hooks": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE"]}],
            "failurePolicy": policy, "sideEffects": "None", "timeoutSeconds": 5,
            "admissionReviewVersions": ["v1"],
        })
    };
    let group = "admissionregistration.k8s.io";
    for (kind, path) in [
        ("MutatingWebhookConfiguration", "/mutate--v1-configmap"),
        ("ValidatingWebhookConfiguration", "/validate--v1-configmap"),
    ] {
        let webhooks = [
            webhook("strict", "Fail", path),
            webhook("lenient", "Ignore", path),
        ];
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "hooks"},
            "webhooks": webhooks,
        });
        create(client, group, kind, object).await;
    }
    let version = |name: &str, is_stored: bool, field: &str, of: &str| {
        let spec = json!({"type": "object", "properties": {field: {"type": of}}});
        json!({"name": name, "served": true, "storage": is_stored, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": spec}}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "knots.conv.example.com"},
        "spec": {
            "group": "conv.example.com", "scope": "Namespaced",
            "names": {"plural": "knots", "singular": "knot", "kind": "Knot", "listKind": "KnotList"},
            "versions": [version("v1", true, "size", "integer"), version("v2", false, "length", "string")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": config("/convert"), "conversionReviewVersions": ["v1"]}},
        },
    });
    let group = "apiextensions.k8s.io";
    create(client, group, "CustomResourceDefinition", definition).await;
    for n in 0..KNOTS {
        let knot = json!({
            "apiVersion": "conv.example.com/v1", "kind": "Knot",
            "metadata": {"namespace": "default", "name": format!("knot-{n}")}, "spec": {"size": n},
        });
        create(client, "conv.example.com", "Knot", knot).await;
    }
}

/// The stored Knots are in a version that the program does not watch: its first list needs its own
/// webhook.
async fn converts_from_a_cold_start(host: &Host, balancer: &Balancer) -> (Running, Duration) {
    let maps: Api<ConfigMap> = Api::namespaced(host.client().unwrap(), "default");
    let began = Instant::now();
    let mut first = start(host).await;
    balancer.add(first.ports);
    first.process.ready().await.unwrap();
    let is_made = async || {
        for n in 0..KNOTS {
            let map = maps.get_opt(&format!("knot-{n}")).await.unwrap();
            let length = map.and_then(|map| map.data?.remove("length"));
            if length != Some(format!("{n} m")) {
                return false;
            }
        }
        true
    };
    first
        .process
        .until("each Knot has its map", is_made)
        .await
        .unwrap();
    (first, began.elapsed())
}

/// A ConfigMap with a wish, under a policy.
pub(crate) fn wishing(policy: &str, wish: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"generateName": "wish-", "labels": {"hooks": policy}},
        "data": {"do": wish},
    })
}

/// The code, the warnings and the object, or the status, of a creation.
pub(crate) async fn asked(client: &Client, object: &Value) -> (u16, String, Value) {
    use http_body_util::BodyExt;
    let request = http::Request::post("/api/v1/namespaces/default/configmaps?dryRun=All")
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes().into())
        .unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    let warnings = head.headers.get_all("warning").iter();
    let warnings = warnings.filter_map(|warning| warning.to_str().ok());
    let body = body.collect().await.unwrap().to_bytes();
    let warnings = warnings.collect::<Vec<_>>().join(", ");
    (
        head.status.as_u16(),
        warnings,
        serde_json::from_slice(&body).unwrap(),
    )
}

async fn verdicts(client: &Client) -> usize {
    let failed = "failed calling webhook \"strict.example.com\"";
    let denied =
        |by: &str| format!("admission webhook \"{by}.example.com\" denied the request: not today");
    let cases = [
        ("strict", "", 201, String::new()),
        ("strict", "change", 201, String::new()),
        ("strict", "warn", 201, String::new()),
        ("strict", "deny", 403, denied("strict")),
        ("lenient", "deny", 403, denied("lenient")),
        ("strict", "slow", 500, failed.to_owned()),
        ("lenient", "slow", 201, String::new()),
        ("strict", "fail", 500, "out of order".to_owned()),
        ("lenient", "fail", 201, String::new()),
        ("strict", "panic", 500, "the webhook panicked".to_owned()),
        ("lenient", "panic", 201, String::new()),
    ];
    for (policy, wish, code, message) in &cases {
        let (got, warnings, object) = asked(client, &wishing(policy, wish)).await;
        let case = format!("{policy} {wish}: {object}");
        assert_eq!(got, *code, "{case}");
        let told = object["message"].as_str().unwrap_or_default();
        assert!(told.contains(message.as_str()), "{case}");
        if *code == 500 {
            assert!(told.contains(failed), "{case}");
        }
        assert_eq!(
            warnings.contains("mind the gap"),
            *wish == "warn",
            "{case}: {warnings}"
        );
        assert_eq!(
            object["data"]["changed"] == "yes",
            *wish == "change",
            "{case}"
        );
    }
    cases.len()
}

/// A body that is no review is one line, and no verdict.
fn refuses_nonsense(replica: Replica) {
    let asked = Command::new("curl")
        .args([
            "-sk",
            "-w",
            "\n%{http_code}",
            "-H",
            "content-type: application/json",
            "-d",
            "{}",
        ])
        .arg(format!(
            "https://{}/validate--v1-configmap?timeout=5s",
            replica.webhooks
        ))
        .output()
        .unwrap();
    let told = String::from_utf8(asked.stdout).unwrap();
    let (body, code) = told.rsplit_once('\n').unwrap();
    assert_eq!(code, "400", "{told}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        body["message"],
        "not an AdmissionReview: the body is of another kind"
    );
}

/// Writers that go on until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    writers: JoinSet<Vec<String>>,
}

impl Load {
    /// Each write calls both webhooks.
    pub(crate) fn start(client: &Client, policy: &'static str) -> Self {
        let (stop, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut writers = JoinSet::new();
        for _ in 0..4 {
            let (client, stop, calls) = (client.clone(), stop.clone(), calls.clone());
            writers.spawn(async move {
                let (object, mut failed) = (wishing(policy, "change"), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let (code, _, object) = asked(&client, &object).await;
                    calls.fetch_add(2, Ordering::Relaxed);
                    if code != 201 || object["data"]["changed"] != "yes" {
                        failed.push(object.to_string());
                    }
                }
                failed
            });
        }
        Self {
            stop,
            calls,
            writers,
        }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Stops them; returns the number of calls, of which none failed.
    pub(crate) async fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let calls = Arc::clone(&self.calls);
        let failed = self.writers.join_all().await.concat();
        let calls = calls.load(Ordering::Relaxed);
        assert_eq!(failed, Vec::<String>::new(), "of {calls} calls");
        calls
    }
}

/// The fingerprint of the certificate that a replica serves.
pub(crate) fn fingerprint(replica: Replica) -> String {
    let served = format!(
        "openssl s_client -connect {} </dev/null 2>/dev/null",
        replica.webhooks
    );
    let asked = Command::new("bash")
        .args([
            "-c",
            &format!("{served} | openssl x509 -noout -fingerprint"),
        ])
        .output()
        .unwrap();
    String::from_utf8(asked.stdout).unwrap()
}

/// The Secret is lost: the replicas make another authority and change over.
async fn rotates(client: &Client, replicas: &mut [Running]) -> u64 {
    let load = Load::start(client, "strict");
    let before: Vec<_> = replicas.iter().map(|of| fingerprint(of.ports)).collect();
    assert!(
        before
            .iter()
            .all(|print| *print == before[0] && !print.is_empty()),
        "{before:?}"
    );
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets
        .delete("hooks", &DeleteParams::default())
        .await
        .unwrap();
    for Running { process, ports } in replicas.iter_mut() {
        let (ports, old) = (*ports, before[0].clone());
        let is_new = || std::future::ready(![&old, ""].contains(&fingerprint(ports).as_str()));
        process.until("another certificate", is_new).await.unwrap();
    }
    let after: Vec<_> = replicas.iter().map(|of| fingerprint(of.ports)).collect();
    assert!(after.iter().all(|print| *print == after[0]), "{after:?}");
    // Connections with the old one have ended, or go on.
    tokio::time::sleep(Duration::from_secs(2)).await;
    load.end().await
}

/// Two new replicas, then the old ones get a signal; they drain while the next roll-out begins.
async fn rolls_out(host: &Host, balancer: &Balancer, mut replicas: Vec<Running>) -> u64 {
    let load = Load::start(&host.client().unwrap(), "strict");
    let mut ending = VecDeque::new();
    for _ in 0..ROLL_OUTS {
        let mut next = vec![start(host).await, start(host).await];
        for new in &mut next {
            balancer.add(new.ports);
            new.process.ready().await.unwrap();
        }
        let began = Instant::now();
        while balancer.ready() < replicas.len() + next.len() {
            assert!(began.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for old in std::mem::replace(&mut replicas, next) {
            old.process.signal("TERM").unwrap();
            ending.push_back(old);
        }
        let (began, enough) = (Instant::now(), load.calls() + EACH);
        while load.calls() < enough {
            assert!(began.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let calls = load.end().await;
    for last in &replicas {
        last.process.signal("TERM").unwrap();
    }
    for mut old in ending.into_iter().chain(replicas) {
        let ended = old.process.ended().await.unwrap();
        assert_eq!(ended.code(), Some(0), "{}", old.process.log());
        balancer.remove(old.ports);
    }
    calls
}

#[test]
fn a_real_api_server_calls_webhooks_through_rotations_and_roll_outs() {
    let missing = kinform_e2e::missing();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        eprintln!("SKIPPED: webhooks: to build and start a real API server, {missing} is needed");
        println!("RESULT | webhooks | real | skipped: no {missing} |");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let host = Host::real().await.unwrap();
        let (client, balancer) = (host.client().unwrap(), Balancer::start().await.unwrap());
        set_up(&client, balancer.port()).await;
        let (first, cold) = converts_from_a_cold_start(&host, &balancer).await;
        let cold = cold.as_secs_f64();
        println!("RESULT | webhooks: conversion from a cold start | real | ok, {KNOTS} objects after {cold:.1} s |");
        let cases = verdicts(&client).await;
        println!("RESULT | webhooks: verdicts and failures | real | {cases} of {cases} |");
        refuses_nonsense(first.ports);
        let second = start(&host).await;
        balancer.add(second.ports);
        let mut replicas = vec![first, second];
        replicas[1].process.ready().await.unwrap();
        let calls = rotates(&client, &mut replicas).await;
        println!("RESULT | webhooks: a lost Secret under load | real | ok, {calls} calls, 0 failed |");
        let rolling = rolls_out(&host, &balancer, replicas);
        let (calls, of_files) = futures::future::join(rolling, rotates_files(&host)).await;
        println!("RESULT | webhooks: at a URL, two rotations of certificate files under load | real | ok, {of_files} calls, 0 failed |");
        println!("RESULT | webhooks: {ROLL_OUTS} roll-outs of two replicas under load | real | ok, {calls} calls, 0 failed |");
    });
}
