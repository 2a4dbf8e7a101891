//! Scenes: the changes that others make while an example runs, each a function of its name.
//!
//! ```text
//! create what is there before ─▶ begin ─▶ lines of the example ⇄ changes by others ─▶ the end
//! ```
//!
//! When a scene is over, its example is asked to end. On a cluster people do this, with kubectl.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_testkit::TestServer;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::finalizer::{Bucket, BucketSpec};
use crate::many_clusters;
use crate::own_crd::{Website, WebsiteSpec};
use crate::start::{Failure, Stage};
use crate::webhook;

type Played = Result<(), Failure>;

pub(crate) async fn watch_pods(stage: &Stage) -> Played {
    stage.api.create(&pod("web-0", "node-1")?).await?;
    stage.begin();
    stage.heard("synced").await?;
    stage.tell("create web-1, start it, delete it");
    stage.api.create(&pod("web-1", "node-1")?).await?;
    stage.heard("added default/web-1").await?;
    let pods: Api<Pod> = Api::default_namespaced(stage.api.client());
    let running = json!({"status": {"phase": "Running"}});
    let patch = Patch::Merge(running);
    pods.patch_status("web-1", &PatchParams::default(), &patch)
        .await?;
    stage.heard("updated default/web-1").await?;
    stage.api.delete::<Pod>("default/web-1").await?;
    stage.heard("deleted default/web-1").await.map(drop)
}

pub(crate) async fn index_and_lister(stage: &Stage) -> Played {
    for (name, node) in [("web-0", "node-1"), ("web-1", "node-2"), ("db-0", "node-1")] {
        stage.api.create(&pod(name, node)?).await?;
    }
    stage.begin();
    stage.heard("web-0 has uid").await.map(drop)
}

pub(crate) async fn dynamic_types(stage: &Stage) -> Played {
    define(stage, "Widget").await?;
    custom(stage, "Widget", "small", json!({"size": 3})).await?;
    stage.begin();
    stage.heard("Gadgets wait").await?;
    stage.tell("install Gadgets, create one");
    define(stage, "Gadget").await?;
    custom(stage, "Gadget", "late", json!({})).await?;
    stage.heard("Gadget default/late").await?;
    stage.heard("Gadgets are synced").await.map(drop)
}

pub(crate) async fn metadata_only(stage: &Stage) -> Played {
    for (name, rotate) in [("token", "true"), ("other", "false")] {
        let secret: Secret = of(json!({
            "metadata": {
                "name": name,
                "labels": {"rotate": rotate},
                "annotations": {"example.com/rotated": "2026-01-31"},
            },
            "stringData": {"password": "correct horse"},
        }))?;
        stage.api.create(&secret).await?;
    }
    stage.begin();
    stage.heard("in this process").await.map(drop)
}

pub(crate) async fn shared_informer(stage: &Stage) -> Played {
    stage.api.create(&config_map("one")?).await?;
    stage.begin();
    stage.tell("create two");
    stage.api.create(&config_map("two")?).await?;
    stage.heard("sizes: default/two").await?;
    stage.heard("labels: default/two").await.map(drop)
}

pub(crate) async fn own_crd(stage: &Stage) -> Played {
    stage.begin();
    stage.heard("installed websites.example.com").await?;
    let title = "Docs".to_owned();
    let docs = Website::new("docs", WebsiteSpec { title });
    stage.api.create(&docs).await?;
    let page: ConfigMap = stage.api.until("default/docs-page", |_| true).await?;
    stage.heard("default/docs serves").await?;
    stage.tell("delete the page");
    stage.api.delete::<ConfigMap>("default/docs-page").await?;
    let is_another = |again: &ConfigMap| again.metadata.uid != page.metadata.uid;
    stage.api.until("default/docs-page", is_another).await?;
    let is_served = |docs: &Website| {
        let status = docs.status.clone().unwrap_or_default();
        status.served.as_deref() == Some("Docs")
    };
    stage.api.until("default/docs", is_served).await?;
    stage.heard_times(2, "default/docs serves").await.map(drop)
}

pub(crate) async fn finalizer(stage: &Stage) -> Played {
    stage.begin();
    stage.heard("installed buckets.example.com").await?;
    let region = "eu-1".to_owned();
    let photos = Bucket::new("photos", BucketSpec { region });
    stage.api.create(&photos).await?;
    stage.heard("default/photos created").await?;
    stage.tell("delete the bucket");
    stage.api.delete::<Bucket>("default/photos").await?;
    stage.heard("default/photos deleted").await?;
    Ok(stage.api.until_gone::<Bucket>("default/photos").await?)
}

pub(crate) async fn leader_election(stage: &Stage) -> Played {
    stage.api.create(&config_map("one")?).await?;
    stage.begin();
    stage.heard("second: default/one").await?;
    for path in ["/readyz", "/metrics"] {
        let line = stage.heard(path).await?;
        let url = line.trim_start_matches("second: ");
        let (code, body) = get(url).await?;
        stage.tell(&format!("GET {path}: {code}"));
        for line in body
            .lines()
            .filter(|line| line.starts_with("leader_election"))
        {
            stage.tell(line);
        }
    }
    Ok(())
}

pub(crate) async fn webhook(stage: &Stage) -> Played {
    // What `kubectl apply` does on a cluster; here the port is the one that was free.
    let (api, name) = (&stage.api, webhook::NAME);
    let service: Service = of(json!({
        "metadata": {"name": name},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }))?;
    api.create(&service).await?;
    let path = "/validate--v1-configmap";
    let configuration: ValidatingWebhookConfiguration = of(json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": "configmaps.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": name, "path": path}},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE"],
            }],
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
        }],
    }))?;
    api.create(&configuration).await?;
    stage.begin();
    let line = stage.heard(" at port ").await?;
    let port: u16 = line.rsplit(' ').next().unwrap_or_default().parse()?;
    let config = json!({"service": {"port": port}});
    let hook = json!({"name": "configmaps.example.com", "clientConfig": config});
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(api.client());
    let patch = Patch::Strategic(json!({"webhooks": [hook]}));
    let parameters = PatchParams::default();
    configurations.patch(name, &parameters, &patch).await?;
    ready(&stage.heard("/readyz").await?).await?;

    let mut map = config_map("settings")?;
    let refused = api.create(&map).await.err().ok_or("it was not denied")?;
    stage.tell(&refused.to_string());
    let labels = map.metadata.labels.get_or_insert_default();
    labels.insert("team".to_owned(), "a".to_owned());
    api.create(&map).await?;
    stage.tell("created settings");
    Ok(())
}

pub(crate) async fn events_exporter(stage: &Stage) -> Played {
    stage.api.create(&event("old", "Scheduled")?).await?;
    stage.begin();
    // The exporter skips what it finds when it starts: events come until the first is exported.
    let mut number = 0;
    while !stage
        .out
        .lines()
        .iter()
        .any(|line| line.contains("BackOff"))
    {
        number += 1;
        stage
            .api
            .create(&event(&format!("new-{number}"), "BackOff")?)
            .await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

pub(crate) async fn web_cache(stage: &Stage) -> Played {
    stage.api.create(&pod("web-0", "node-1")?).await?;
    stage.begin();
    let line = stage.heard("/nodes/NODE/pods").await?;
    ready(&line.replace("/nodes/NODE/pods", "/ready")).await?;
    for node in ["node-1", "node-2"] {
        let (code, body) = get(&line.replace("NODE", node)).await?;
        stage.tell(&format!("GET /nodes/{node}/pods: {code} {body}"));
    }
    Ok(())
}

pub(crate) async fn many_namespaces(stage: &Stage) -> Played {
    for (name, watched) in [("team-a", "true"), ("team-b", "false")] {
        let namespace: Namespace = of(json!({
            "metadata": {"name": name, "labels": {"watched": watched}},
        }))?;
        stage.api.create(&namespace).await?;
        let mut map = config_map("settings")?;
        map.metadata.namespace = Some(name.to_owned());
        stage.api.create(&map).await?;
    }
    stage.begin();
    stage.heard("+ team-a/settings").await?;
    for (name, watched) in [("team-b", "true"), ("team-a", "false")] {
        stage.tell(&format!("label {name} watched={watched}"));
        let namespaces: Api<Namespace> = Api::all(stage.api.client());
        let patch = Patch::Merge(json!({"metadata": {"labels": {"watched": watched}}}));
        namespaces
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        stage.heard(&format!("{name}/settings")).await?;
    }
    stage.heard("- team-a/settings").await.map(drop)
}

pub(crate) async fn joined(stage: &Stage) -> Played {
    stage.api.create(&pod("web-0", "node-1")?).await?;
    stage.begin();
    stage.heard("default/web-0: no such node").await?;
    stage.tell("create node-1, in zone a");
    let node: Node = of(json!({
        "metadata": {"name": "node-1", "labels": {"topology.kubernetes.io/zone": "a"}},
    }))?;
    stage.api.create(&node).await?;
    stage.heard("default/web-0: no such node -> a").await?;
    stage.api.delete::<Pod>("default/web-0").await?;
    stage.heard("default/web-0: gone").await.map(drop)
}

pub(crate) async fn the_past(stage: &Stage) -> Played {
    for name in ["kept", "lost"] {
        stage.api.create(&config_map(name)?).await?;
    }
    stage.begin();
    stage.heard("remembered").await?;
    stage.tell("create new, delete lost");
    stage.api.create(&config_map("new")?).await?;
    stage
        .api
        .delete::<ConfigMap>("default/lost")
        .await
        .map_err(Into::into)
}

pub(crate) async fn many_clusters(stage: &Stage) -> Played {
    stage.begin();
    let spoke = TestServer::start().await?;
    spoke.create(&config_map("there")?).await?;
    stage.tell("a Secret with the kubeconfig of a second server");
    let secret: Secret = of(json!({
        "metadata": {"name": "spoke", "labels": {many_clusters::LABEL: "true"}},
        "stringData": {"kubeconfig": spoke.server().kubeconfig()},
    }))?;
    stage.api.create(&secret).await?;
    stage.heard("spoke: there").await?;
    stage.heard("spoke joined: Ok(())").await?;
    stage.tell("delete the Secret");
    stage.api.delete::<Secret>("default/spoke").await?;
    stage.heard("spoke left").await.map(drop)
}

pub(crate) async fn memory_budget(stage: &Stage) -> Played {
    let text = "a value that is as long as others of its kind, and much like them; ".repeat(40);
    for number in 0..600 {
        let mut map = config_map(&format!("map-{number}"))?;
        map.data = Some([("text".to_owned(), format!("{text}{number}"))].into());
        stage.api.create(&map).await?;
    }
    stage.begin();
    stage.heard("the same").await.map(drop)
}

pub(crate) async fn sharded_operator(stage: &Stage) -> Played {
    let names: Vec<String> = (0..32).map(|number| format!("map-{number}")).collect();
    for name in &names {
        stage.api.create(&config_map(name)?).await?;
    }
    stage.begin();
    stage.heard("left stops").await?;
    for name in &names {
        stage.heard(&format!("right: default/{name}")).await?;
    }
    Ok(())
}

pub(crate) async fn warm_restart(stage: &Stage) -> Played {
    for name in ["kept", "doomed"] {
        stage.api.create(&config_map(name)?).await?;
    }
    stage.begin();
    stage.heard("stopped").await?;
    stage.tell("delete doomed, create late");
    stage.api.delete::<ConfigMap>("default/doomed").await?;
    stage.api.create(&config_map("late")?).await?;
    stage.go_on();
    stage.heard("start 2: default/doomed is gone").await?;
    stage.heard("start 2: default/late is new").await?;
    stage.heard("start 2: lists: 0").await.map(drop)
}

/// An object out of JSON.
fn of<K: DeserializeOwned>(object: Value) -> Result<K, Failure> {
    Ok(serde_json::from_value(object)?)
}

fn pod(name: &str, node: &str) -> Result<Pod, Failure> {
    let (app, _) = name.split_once('-').unwrap_or((name, ""));
    of(json!({
        "metadata": {"name": name, "labels": {"app": app}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": format!("{app}:1")}]},
    }))
}

fn config_map(name: &str) -> Result<ConfigMap, Failure> {
    of(json!({"metadata": {"name": name}, "data": {"text": "a"}}))
}

fn event(name: &str, reason: &str) -> Result<Event, Failure> {
    of(json!({
        "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-01-31T12:00:00.000000Z",
        "type": "Warning", "reason": reason, "action": "Running", "note": "it failed again",
        "reportingController": "example.com/scene", "reportingInstance": "scene-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web-0"},
    }))
}

/// Installs the definition of a kind of `example.com` without a schema of its fields.
async fn define(stage: &Stage, kind: &str) -> Played {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": kind, "singular": singular, "plural": plural},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let definition: CustomResourceDefinition = of(definition)?;
    stage.api.create(&definition).await?;
    Ok(())
}

/// Creates an object of a kind of `example.com`.
async fn custom(stage: &Stage, kind: &str, name: &str, spec: Value) -> Played {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", kind));
    let api: Api<DynamicObject> = Api::default_namespaced_with(stage.api.client(), &resource);
    let object = json!({
        "apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec,
    });
    api.create(&PostParams::default(), &of(object)?).await?;
    Ok(())
}

/// Asks this URL until the answer is 200.
async fn ready(url: &str) -> Played {
    while get(url).await?.0 != 200 {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The status and the body of a GET of an `http` URL.
async fn get(url: &str) -> Result<(u16, String), Failure> {
    let rest = url.strip_prefix("http://").ok_or("it is not a URL")?;
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or("it is not HTTP")?;
    let code = head.split(' ').nth(1).ok_or("it has no status")?;
    Ok((code.parse()?, body.to_owned()))
}
