//! A server's state on a medium that crashes, fails and is full.
//!
//! ```text
//! writes ──▶ store ──▶ Losing ──crash──▶ opened again ──▶ what the model says
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http::Method;
use http_body_util::BodyDataStream;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::losing::{Ending, Losing};
use super::*;
use crate::server::data_dir::DataDir;
use crate::server::{Server, Service};
use crate::storage::history::{History, heard};
use crate::storage::{Draft, Expect, HistoryLimits};

const EVENTS: usize = 12;

fn open(medium: &Losing) -> DataDir {
    let folder = DataDir::on(medium.clone()).unwrap();
    let bytes = 100_000;
    folder.store.set_limits(HistoryLimits {
        events: EVENTS,
        bytes,
    });
    folder
}

/// Writes at random until the medium dies or the time is over. Returns the revisions that a crash
/// may leave: the acknowledged one, and the one that the last commit was about to reach.
fn live(folder: &DataDir, model: &mut History, dice: &mut StdRng) -> [u64; 2] {
    let store = &folder.store;
    let shelf = store.shelf("configmaps");
    for _ in 0..dice.random_range(1..60) {
        let key = format!("n/o-{}", dice.random_range(0..8));
        let content = dice.random_bool(0.7).then(|| dice.random());
        model.write(store, shelf, &key, content);
        if dice.random_bool(0.4) {
            let about = model.head();
            if store.commit_staged().is_err() {
                return [model.durable, about];
            }
            model.reached(about);
        }
        model.check(store, shelf);
    }
    [model.durable, model.durable]
}

// fault: F30
#[test]
fn s12_a_crash_leaves_every_acknowledged_write_and_no_half_of_another() {
    for seed in 0..60 {
        let context = std::panic::AssertUnwindSafe(|| crash_often(seed));
        if let Err(panic) = std::panic::catch_unwind(context) {
            let name = std::thread::current();
            panic!("seed {seed} of {:?}: {panic:?}", name.name());
        }
    }
}

fn crash_often(seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed);
    let medium = Losing::new(seed);
    let mut model = History::new();
    for _ in 0..6 {
        let folder = open(&medium);
        let shelf = folder.store.shelf("configmaps");
        let floor = folder.store.floor();
        model.check(&folder.store, shelf);
        if dice.random_bool(0.8) {
            medium.fail_in(dice.random_range(0..120), Ending::Dies);
        }
        let may_be = live(&folder, &mut model, &mut dice);
        let was_durable = folder.store.revision();
        assert_eq!(was_durable, may_be[0]);
        medium.crash();
        drop(folder);
        let again = open(&medium);
        let reached = again.store.revision();
        assert!(may_be.contains(&reached), "{reached} of {may_be:?}");
        assert!(again.store.floor() >= floor, "the floor sank");
        model.restart(reached);
        model.check(&again.store, shelf);
        drop(again);
        compare(&medium, &mut model);
    }
}

/// Opens the file once more: it has exactly the versions that are needed.
fn compare(medium: &Losing, model: &mut History) {
    let folder = open(medium);
    let shelf = folder.store.shelf("configmaps");
    // What the smaller history evicts leaves the file, too.
    folder.store.compact(0);
    folder.store.commit_staged().unwrap();
    model.check(&folder.store, shelf);
    let view = folder.store.shown(shelf);
    let mut needed: BTreeSet<u64> = view.snapshot.iter().map(|it| it.revision()).collect();
    for (revision, before, _) in heard(&folder.store, shelf, folder.store.floor()) {
        needed.insert(revision);
        needed.extend(before);
    }
    let marks = (folder.store.revision(), folder.store.floor());
    drop(folder);
    let loaded = Disk::open(medium.clone()).unwrap().load().unwrap();
    let on_disk: BTreeSet<u64> = loaded.versions.iter().map(|it| it.revision).collect();
    assert_eq!(on_disk, needed);
    assert_eq!((loaded.revision, loaded.floor), marks);
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(service: &Service, method: Method, path: &str, body: Value) -> (u16, Value) {
    service.ask(method, path, body).await
}

async fn get(service: &Service, name: &str) -> u16 {
    send(service, Method::GET, &format!("{MAPS}/{name}"), Value::Null)
        .await
        .0
}

async fn post(service: &Service, name: &str) -> (u16, Value) {
    send(service, Method::POST, MAPS, map(name)).await
}

async fn version(service: &Service) -> u64 {
    let (_, list) = send(service, Method::GET, MAPS, Value::Null).await;
    list["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn server(medium: &Losing) -> (Server, Service) {
    let folder = DataDir::on(medium.clone()).unwrap();
    let server = Server::builder().data_dir(folder).in_process();
    let service = server.service();
    (server, service)
}

/// Lets syncs go on when a test ends, however it ends: its runtime waits for the one that is held.
struct Release(Losing);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.hold(false);
    }
}

#[tokio::test(start_paused = true)]
async fn s11_a_write_is_acknowledged_when_it_is_on_disk() {
    let medium = Losing::new(1);
    let (server, service) = server(&medium);
    server.settled().await.unwrap();
    medium.hold(true);
    let _release = Release(medium.clone());
    let mut write = Box::pin(post(&service, "m"));
    assert!(write.as_mut().now_or_never().is_none());
    let held = medium.clone();
    tokio::task::spawn_blocking(move || held.until_held())
        .await
        .unwrap();
    assert!(write.as_mut().now_or_never().is_none(), "it is not on disk");
    // A refusal that depends on it waits, too.
    let mut again = Box::pin(post(&service, "m"));
    assert!(again.as_mut().now_or_never().is_none());
    medium.hold(false);
    assert_eq!(write.await.0, 201);
    assert_eq!(again.await.0, 409);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s13_readers_and_watches_see_a_write_when_it_is_on_disk() {
    let medium = Losing::new(1);
    let (server, service) = server(&medium);
    server.settled().await.unwrap();
    let before = version(&service).await;
    let request = http::Request::get(format!("{MAPS}?watch=true&resourceVersion={before}"));
    let reply = service.call(request.body(Bytes::new()).unwrap()).await;
    let mut watch = Box::pin(BodyDataStream::new(reply.into_body()));
    medium.hold(true);
    let _release = Release(medium.clone());
    let mut write = Box::pin(post(&service, "m"));
    assert!(write.as_mut().now_or_never().is_none());
    let held = medium.clone();
    tokio::task::spawn_blocking(move || held.until_held())
        .await
        .unwrap();
    assert_eq!(get(&service, "m").await, 404);
    assert_eq!(version(&service).await, before);
    assert!(watch.next().now_or_never().is_none(), "the watch heard it");
    medium.hold(false);
    let (code, made) = write.await;
    assert_eq!(code, 201);
    assert_eq!(get(&service, "m").await, 200);
    let text = watch.next().await.unwrap().unwrap();
    let event: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(event["object"]["metadata"], made["metadata"]);
    server.stop().await;
}

// fault: F30
#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_writes_and_goes_on_with_reads() {
    let medium = Losing::new(2);
    let (server, service) = server(&medium);
    assert_eq!(post(&service, "before").await.0, 201);
    let before = version(&service).await;
    medium.set_room(Some(0));
    let mut refused = 0;
    for at in 0..200 {
        let (code, status) = post(&service, &format!("m-{at}")).await;
        if code == 201 {
            // Pages that the file has already are still free.
            continue;
        }
        refused += 1;
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("no storage space"), "{message}");
        assert_eq!(get(&service, "before").await, 200);
        assert_eq!(get(&service, &format!("m-{at}")).await, 404);
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert!(refused > 0);
    let full = version(&service).await;
    medium.set_room(None);
    tokio::time::advance(Duration::from_secs(1)).await;
    let (code, made) = post(&service, "after").await;
    assert_eq!(code, 201, "{made}");
    let made: u64 = made["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(made > full && full >= before);
    let objects = server.objects("configmaps").len();
    server.stop().await;
    medium.crash();
    let (server, service) = self::server(&medium);
    assert_eq!(server.objects("configmaps").len(), objects);
    assert_eq!(get(&service, "after").await, 200);
    assert!(version(&service).await >= made);
}

// fault: F30
#[tokio::test(start_paused = true)]
async fn a_disk_that_fails_at_any_operation_loses_no_acknowledged_write() {
    for seed in 0..40 {
        let medium = Losing::new(seed);
        let (server, service) = server(&medium);
        server.settled().await.unwrap();
        let mut dice = StdRng::seed_from_u64(seed);
        let (mut acknowledged, mut last) = (BTreeSet::new(), version(&service).await);
        for at in 0..30 {
            if dice.random_bool(0.3) {
                medium.fail_in(dice.random_range(0..8), Ending::Fails);
            }
            let name = format!("m-{at}");
            let (code, object) = post(&service, &name).await;
            if code == 201 {
                acknowledged.insert(name);
                let version = object["metadata"]["resourceVersion"].as_str().unwrap();
                let version = version.parse().unwrap();
                assert!(version > last, "seed {seed}: {version} after {last}");
                last = version;
            } else {
                assert_eq!(code, 500, "seed {seed}: {object}");
            }
            tokio::time::advance(Duration::from_millis(300)).await;
        }
        drop(service);
        server.stop().await;
        medium.crash();
        let (server, service) = self::server(&medium);
        for name in acknowledged {
            assert_eq!(get(&service, &name).await, 200, "seed {seed}: {name}");
        }
        assert!(version(&service).await >= last);
        server.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_was_lost_is_not_served() {
    let medium = Losing::new(3);
    let (server, service) = server(&medium);
    server.settled().await.unwrap();
    let definition = json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let foos = "/apis/example.com/v1/namespaces/default/foos";
    medium.fail_in(0, Ending::Fails);
    let (code, _) = send(&service, Method::POST, path, definition.clone()).await;
    assert_eq!(code, 500);
    assert_eq!(send(&service, Method::GET, foos, Value::Null).await.0, 404);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(send(&service, Method::POST, path, definition).await.0, 201);
    let foo = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}});
    assert_eq!(send(&service, Method::POST, foos, foo).await.0, 201);
    server.stop().await;
    medium.crash();
    let (server, service) = self::server(&medium);
    let (code, list) = send(&service, Method::GET, foos, Value::Null).await;
    assert_eq!(
        (code, &list["items"][0]["metadata"]["name"]),
        (200, &json!("f"))
    );
    server.stop().await;
}

// fault: F30
#[tokio::test(start_paused = true)]
async fn effects_that_a_crash_interrupted_are_applied_at_the_start() {
    let medium = Losing::new(4);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"});
    {
        let folder = DataDir::on(medium.clone()).unwrap();
        let store = &folder.store;
        let put = |shelf: &str, object: Value| {
            let draft = Draft::new(&[], object).unwrap();
            store
                .put(store.shelf(shelf), draft, Expect::Absent)
                .unwrap();
        };
        put(
            "namespaces",
            json!({"metadata": {"name": "gone", "uid": "n", "deletionTimestamp":
            "2026-01-01T00:00:00Z"}, "spec": {"finalizers": ["kubernetes"]}}),
        );
        put(
            "configmaps",
            json!({"metadata": {"name": "m", "namespace": "gone", "uid": "m"}}),
        );
        let in_default = |name: &str, owners: Value| {
            put(
                "configmaps",
                json!({"metadata": {"name": name, "namespace": "default",
                "uid": name, "ownerReferences": owners}}),
            );
        };
        put(
            "configmaps",
            json!({"metadata": {"name": "owner", "namespace": "default", "uid": "u"}}),
        );
        in_default("dependent", json!([owner]));
        // Its owner was never stored.
        in_default(
            "orphan",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x"}]),
        );
        store
            .remove(store.shelf("configmaps"), "default/owner", Expect::Present)
            .unwrap();
        store.commit_staged().unwrap();
    }
    medium.crash();
    let (server, _service) = server(&medium);
    let keys = |shelf| -> Vec<String> {
        let objects = server.objects(shelf);
        objects
            .iter()
            .map(|object| object.key().to_owned())
            .filter(|key| !key.starts_with("kube-system/"))
            .collect()
    };
    assert_eq!(keys("configmaps"), ["default/orphan"]);
    assert!(!keys("namespaces").contains(&"gone".to_owned()));
    server.stop().await;
}
