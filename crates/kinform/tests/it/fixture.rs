//! A factory whose only source is a script, and objects for it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kinform::env::Env;
use kinform::source::ResourceInfo;
use kinform::{GroupVersionResource, Handlers, Informer, InformerFactory, Obj, Scope};
use kinform_testkit::{Script, Sending, TestServer, scripted};
use serde_json::{Value, json};

pub(crate) fn pods() -> ResourceInfo {
    ResourceInfo::new(
        GroupVersionResource::new("", "v1", "pods"),
        "Pod",
        Scope::Namespaced,
    )
}

/// A factory and the script that answers its one source.
pub(crate) fn factory() -> (InformerFactory, Script) {
    let (source, script) = scripted(pods());
    let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _)
        .env(Env::seeded(7))
        .build();
    (factory, script)
}

pub(crate) fn pod(name: &str, version: u64, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(), "labels": { "app": name },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }] },
    })
}

/// Answers the streaming list that an informer begins with; the watch goes on in what is returned.
pub(crate) async fn first_list(script: &mut Script, pods: &[Value], version: u64) -> Sending {
    let (options, ask) = script.next_watch().await;
    assert_eq!(options.send_initial_events, Some(true));
    let watch = ask.stream();
    pods.iter().for_each(|pod| watch.event("ADDED", pod));
    let version = version.to_string();
    watch.initial_events_end("Pod", &version);
    if pods.is_empty() {
        script.confirm_empty(&version).await;
    }
    watch
}

/// The calls of handlers, as lines.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

fn name(pod: &Obj<Pod>) -> String {
    format!("{}@{}", pod.name(), pod.resource_version())
}

impl Heard {
    pub(crate) fn line(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub(crate) fn take(&self) -> Vec<String> {
        let mut lines = std::mem::take(&mut *self.0.lock().unwrap());
        // What was stored comes in no order that means anything.
        let initial = lines
            .iter()
            .take_while(|line| line.starts_with("initial"))
            .count();
        lines[..initial].sort_unstable();
        lines
    }

    pub(crate) fn handlers(&self) -> Handlers<Pod> {
        let (add, update, delete, sync) = (self.clone(), self.clone(), self.clone(), self.clone());
        Handlers::new()
            .on_add(move |pod| {
                let word = if pod.is_initial() { "initial" } else { "add" };
                add.line(format!("{word} {}", name(pod)));
            })
            .on_update(move |old, new| update.line(format!("update {} {}", name(old), name(new))))
            .on_delete(move |pod| {
                let word = if pod.is_final_state_unknown() {
                    "lost"
                } else {
                    "delete"
                };
                delete.line(format!("{word} {}", name(pod)));
            })
            .on_synced(move || sync.line("synced".to_owned()))
    }
}

/// Lets every task run until all wait.
pub(crate) async fn settle() {
    // With paused time, a sleep ends only when nothing else can run.
    tokio::time::sleep(Duration::from_millis(1)).await;
}

pub(crate) fn names(informer: &Informer<Pod>) -> Vec<String> {
    let keys = informer.list().keys();
    keys.iter().map(|key| key.name().to_owned()).collect()
}

/// A server in this process, for paused time, whose watches do not lag.
pub(crate) async fn server() -> TestServer {
    let starting = TestServer::start().in_process().without_lag();
    starting.await.unwrap()
}
