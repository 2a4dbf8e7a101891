//! A reflector over a store of the user's own: against a script, and against the embedded server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kinform::env::Env;
use kinform::source::HttpSource;
use kinform::{
    CancellationToken, GroupVersionResource, Obj, ObjectKey, Reflector, ReflectorStore,
    ReportEvent, ResourceInfo, Scope, StoreError,
};
use kinform_testkit::{Script, TestServer, scripted};
use kube_core::ObjectMeta;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::fixture::{first_list, pod, pods, settle};

const SECOND: Duration = Duration::from_secs(1);

/// Keeps versions by key and the calls as lines; fails where the test asks for it.
#[derive(Clone, Default)]
struct Versions(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    stored: BTreeMap<ObjectKey, String>,
    calls: Vec<String>,
    refuses: Option<String>,
}

impl Versions {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().calls)
    }

    fn put<K>(&self, call: &str, object: &Obj<K>) -> Result<(), StoreError> {
        let mut inner = self.0.lock().unwrap();
        let line = format!("{call} {}@{}", object.name(), object.resource_version());
        inner.calls.push(line);
        if inner.refuses.as_deref() == Some(object.name()) {
            return Err("the disk is full".into());
        }
        let version = object.resource_version().to_owned();
        inner.stored.insert(object.key(), version);
        Ok(())
    }
}

impl<K> ReflectorStore<K> for Versions {
    fn add(&mut self, object: Obj<K>) -> Result<(), StoreError> {
        self.put("add", &object)
    }

    fn update(&mut self, object: Obj<K>) -> Result<(), StoreError> {
        self.put("update", &object)
    }

    fn delete(&mut self, object: Obj<K>) -> Result<(), StoreError> {
        let mut inner = self.0.lock().unwrap();
        inner.calls.push(format!("delete {}", object.name()));
        inner.stored.remove(&object.key());
        Ok(())
    }

    fn replace(&mut self, objects: Vec<Obj<K>>, version: &str) -> Result<(), StoreError> {
        let mut inner = self.0.lock().unwrap();
        let count = objects.len();
        inner.calls.push(format!("replace {count} at {version}"));
        let versions = objects
            .iter()
            .map(|o| (o.key(), o.resource_version().to_owned()));
        inner.stored = versions.collect();
        Ok(())
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        self.0.lock().unwrap().calls.push("resync".to_owned());
        Ok(())
    }

    fn bookmark(&mut self, version: &str) -> Result<(), StoreError> {
        let line = format!("bookmark {version}");
        self.0.lock().unwrap().calls.push(line);
        Ok(())
    }
}

fn scripted_reflector() -> (
    Reflector<Pod, Versions>,
    Script,
    Versions,
    CancellationToken,
) {
    let (source, script) = scripted(pods());
    let (store, stop) = (Versions::default(), CancellationToken::new());
    let reflector = Reflector::new(source, store.clone())
        .env(Env::seeded(7))
        .shutdown_on(stop.clone());
    (reflector, script, store, stop)
}

async fn ended(
    stop: &CancellationToken,
    running: JoinHandle<Versions>,
) -> BTreeMap<ObjectKey, String> {
    stop.cancel();
    let store = running.await.unwrap();
    let inner = store.0.lock().unwrap();
    inner.stored.clone()
}

#[tokio::test(start_paused = true)]
async fn changes_within_a_streaming_list_are_in_the_list_that_a_store_gets() {
    let (reflector, mut script, store, stop) = scripted_reflector();
    let running = tokio::spawn(reflector.run());
    let (options, ask) = script.next_watch().await;
    assert!(options.send_initial_events.is_some());
    let stream = ask.stream();
    for (kind, name, version) in [
        ("ADDED", "a", 1),
        ("ADDED", "b", 2),
        ("ADDED", "c", 3),
        ("DELETED", "a", 4),
        ("MODIFIED", "b", 5),
        ("DELETED", "c", 6),
        ("ADDED", "c", 7),
        ("MODIFIED", "c", 8),
    ] {
        stream.event(kind, &pod(name, version, "n1"));
    }
    stream.initial_events_end("Pod", "8");
    settle().await;
    assert_eq!(store.take(), ["replace 2 at 8"]);
    let stored = ended(&stop, running).await;
    let versions: Vec<_> = stored.values().map(String::as_str).collect();
    assert_eq!(versions, ["5", "8"]);
}

// client-go: TestReflectorListAndWatch, TestReflectorWatchHandler
#[tokio::test(start_paused = true)]
async fn a_store_of_ones_own_is_told_in_the_servers_order() {
    let (reflector, mut script, store, stop) = scripted_reflector();
    let running = tokio::spawn(reflector.run());
    let watch = first_list(&mut script, &[pod("a", 1, "n1"), pod("b", 2, "n1")], 5).await;
    settle().await;
    assert_eq!(store.take(), ["replace 2 at 5"]);
    watch.event("ADDED", &pod("c", 6, "n1"));
    watch.event("MODIFIED", &pod("a", 7, "n2"));
    watch.event("DELETED", &pod("b", 8, "n1"));
    watch.bookmark("Pod", "9");
    settle().await;
    assert_eq!(
        store.take(),
        ["add c@6", "update a@7", "delete b", "bookmark 9"]
    );
    // The watch goes on where it stopped, without a list.
    tokio::time::sleep(5 * SECOND).await;
    watch.end();
    let (options, ask) = script.next_watch().await;
    assert_eq!(options.resource_version.unwrap().as_str(), "9");
    assert!(store.take().is_empty());
    let stored = ended(&stop, running).await;
    let versions: Vec<_> = stored.values().map(String::as_str).collect();
    assert_eq!(versions, ["7", "6"]);
    assert!(ask.is_given_up(), "the request is dropped with the future");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_broke_off_is_never_shown_and_the_next_replaces() {
    let (reflector, mut script, store, stop) = scripted_reflector();
    let running = tokio::spawn(reflector.run());
    let (_, ask) = script.next_watch().await;
    let broken = ask.stream();
    broken.event("ADDED", &pod("gone", 1, "n1"));
    settle().await;
    broken.cut();
    let _watch = first_list(&mut script, &[pod("a", 2, "n1")], 5).await;
    settle().await;
    assert_eq!(store.take(), ["replace 1 at 5"]);
    let stored = ended(&stop, running).await;
    assert_eq!(stored.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_given_everything_again() {
    let (reflector, mut script, store, stop) = scripted_reflector();
    let mut reports = reflector.reports();
    let running = tokio::spawn(reflector.run());
    let watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    store.take();
    store.0.lock().unwrap().refuses = Some("b".to_owned());
    watch.event("ADDED", &pod("b", 6, "n1"));
    settle().await;
    assert_eq!(store.take(), ["add b@6"]);
    let reason = loop {
        let event = reports.next().await.unwrap().event;
        if let ReportEvent::StoreFailed { reason, relist_in } = event {
            assert!(relist_in > Duration::ZERO);
            break reason;
        }
    };
    assert_eq!(reason, "the disk is full");
    store.0.lock().unwrap().refuses = None;
    // It asks again by itself: for a stream or for pages.
    let ask = script.next().await;
    assert!(watch.is_given_up());
    let again = [pod("a", 1, "n1"), pod("b", 6, "n1")];
    match ask.request() {
        kinform_testkit::Request::List(_) => ask.reply(
            json!({
                "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "7" },
                "items": again,
            })
            .to_string(),
        ),
        kinform_testkit::Request::Watch(_) => {
            let watch = ask.stream();
            again.iter().for_each(|pod| watch.event("ADDED", pod));
            watch.initial_events_end("Pod", "7");
        }
    }
    settle().await;
    assert_eq!(store.take(), ["replace 2 at 7"]);
    let stored = ended(&stop, running).await;
    assert_eq!(stored.len(), 2);
}

// client-go: TestReflectorResync
#[tokio::test(start_paused = true)]
async fn a_store_is_resynced_each_period_without_a_list() {
    let (reflector, mut script, store, stop) = scripted_reflector();
    let running = tokio::spawn(reflector.resync_period(10 * SECOND).run());
    let _watch = first_list(&mut script, &[pod("a", 1, "n1")], 5).await;
    settle().await;
    store.take();
    tokio::time::sleep(31 * SECOND).await;
    assert_eq!(store.take(), ["resync", "resync", "resync"]);
    assert!(script.is_quiet());
    ended(&stop, running).await;
}

#[tokio::test]
async fn a_store_of_ones_own_becomes_what_a_real_server_has() {
    let api = TestServer::start().await.unwrap();
    let map = |name: &str| ConfigMap {
        metadata: ObjectMeta {
            namespace: Some("default".to_owned()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    api.create(&map("a")).await.unwrap();
    let maps = GroupVersionResource::new("", "v1", "configmaps");
    let source = HttpSource::new(
        api.client(),
        ResourceInfo::new(maps, "ConfigMap", Scope::Namespaced),
    );
    let (store, stop) = (Versions::default(), CancellationToken::new());
    let reflector = Reflector::<ConfigMap, _>::new(source, store.clone()).shutdown_on(stop.clone());
    let mut reports = reflector.reports();
    let running = tokio::spawn(reflector.run());
    while !matches!(
        reports.next().await.unwrap().event,
        ReportEvent::Listed { .. }
    ) {}
    api.create(&map("b")).await.unwrap();
    api.delete::<ConfigMap>("default/a").await.unwrap();
    api.expire_history();
    api.cut_watches();
    api.create(&map("c")).await.unwrap();
    let names = || -> Vec<String> {
        let inner = store.0.lock().unwrap();
        inner
            .stored
            .keys()
            .map(|key| key.name().to_owned())
            .collect()
    };
    let limit = tokio::time::Instant::now() + 20 * SECOND;
    while names() != ["b", "c"] {
        assert!(tokio::time::Instant::now() < limit, "{:?}", names());
        tokio::task::yield_now().await;
    }
    ended(&stop, running).await;
    api.stop().await;
}
