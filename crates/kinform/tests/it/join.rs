//! Joins of two caches.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kinform::{Index, InformerFactory, ObjectKey, Row, RowChange, RowChanges};
use serde_json::json;

use crate::fixture::{server, settle};

const SOON: Duration = Duration::from_secs(60);

fn pod(name: &str, node: &str, volumes: &[&str]) -> Pod {
    let volumes: Vec<_> = volumes
        .iter()
        .map(|name| json!({ "name": name, "configMap": { "name": name } }))
        .collect();
    let object = json!({ "metadata": { "name": name, "namespace": "default" },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "i" }],
            "volumes": volumes } });
    serde_json::from_value(object).unwrap()
}

fn node(name: &str) -> Node {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn config(name: &str) -> ConfigMap {
    let object = json!({ "metadata": { "name": name, "namespace": "default" } });
    serde_json::from_value(object).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("default"), name)
}

/// `pod: right ones, -missing ones`.
fn told<K, T>(row: &Row<K, T>) -> String {
    let there = row.all_right().iter().map(|one| one.name().to_owned());
    let missing = row.missing().iter().map(|key| format!("-{}", key.name()));
    let names: Vec<String> = there.chain(missing).collect();
    format!("{}: {}", row.left().name(), names.join(" "))
}

/// The changes that are ready, sorted.
fn ready<K, T>(changes: &mut RowChanges<K, T>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(Some(RowChange { old, new, .. })) = changes.next().now_or_never() {
        let side = |row: Option<Row<K, T>>| row.map_or("nothing".to_owned(), |row| told(&row));
        all.push(format!("{} > {}", side(old), side(new)));
    }
    all.sort_unstable();
    all
}

#[tokio::test(start_paused = true)]
async fn rows_follow_both_sides() {
    let server = server().await;
    for name in ["n1", "n2"] {
        server.create(&node(name)).await.unwrap();
    }
    server.create(&pod("a", "n1", &[])).await.unwrap();
    server.create(&pod("b", "n1", &[])).await.unwrap();
    server.create(&pod("c", "n3", &[])).await.unwrap();
    let factory = InformerFactory::new(server.client());
    let (pods, nodes) = (factory.informer::<Pod>(), factory.informer::<Node>());
    let placed = pods.join(&nodes, Index::path("spec.nodeName")).unwrap();
    let mut changes = placed.changes();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    settle().await;
    let first = ["nothing > a: n1", "nothing > b: n1", "nothing > c: -n3"];
    assert_eq!(ready(&mut changes), first);
    assert!(placed.has_synced() && placed.get(&key("x")).is_none());
    assert_eq!(placed.get(&key("a")).unwrap().right().unwrap().name(), "n1");
    let on_n1 = placed.naming(&ObjectKey::new(None, "n1"));
    assert_eq!(on_n1.len(), 2);

    // A node that comes concerns the pods that name it, also before it exists.
    server.create(&node("n3")).await.unwrap();
    settle().await;
    assert_eq!(ready(&mut changes), ["c: -n3 > c: n3"]);
    server.delete::<Node>("n1").await.unwrap();
    server.delete::<Pod>("default/b").await.unwrap();
    settle().await;
    let gone = ["a: n1 > a: -n1", "b: n1 > nothing"];
    assert_eq!(ready(&mut changes), gone);
    // One that no pod names concerns no row.
    server.delete::<Node>("n2").await.unwrap();
    settle().await;
    assert_eq!(ready(&mut changes), Vec::<String>::new());

    // A stream that did not look hears the difference.
    server.create(&node("n1")).await.unwrap();
    server.delete::<Node>("n1").await.unwrap();
    server.create(&pod("d", "n3", &[])).await.unwrap();
    settle().await;
    assert_eq!(ready(&mut changes), ["nothing > d: n3"]);
    factory.shutdown().await;
    assert!(changes.next().await.is_none(), "it ends with the informers");
}

#[tokio::test(start_paused = true)]
async fn an_object_may_name_several_of_its_namespace() {
    let server = server().await;
    server.create(&config("one")).await.unwrap();
    server
        .create(&pod("a", "n", &["one", "two"]))
        .await
        .unwrap();
    server.create(&pod("b", "n", &[])).await.unwrap();
    let factory = InformerFactory::new(server.client());
    let (pods, configs) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());
    let index = Index::path("spec.volumes[*].configMap.name");
    let mounted = pods.join(&configs, index).unwrap();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    let mut changes = mounted.changes();
    settle().await;
    assert_eq!(
        ready(&mut changes),
        ["nothing > a: one -two", "nothing > b: "]
    );
    server.create(&config("two")).await.unwrap();
    settle().await;
    assert_eq!(ready(&mut changes), ["a: one -two > a: one two"]);
    assert_eq!(mounted.naming(&key("two"))[0].name(), "a");
    let elsewhere = ObjectKey::new(Some("kube-system"), "two");
    assert!(
        mounted.naming(&elsewhere).is_empty(),
        "a name alone is of its namespace"
    );
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn told_changes_lead_from_nothing_to_the_rows_that_are_there() {
    let server = server().await;
    let factory = InformerFactory::new(server.client());
    let (pods, nodes) = (factory.informer::<Pod>(), factory.informer::<Node>());
    let placed = pods.join(&nodes, Index::path("spec.nodeName")).unwrap();
    let mut changes = placed.changes();
    factory.start().unwrap();
    factory.synced_within(SOON).await.unwrap();
    let mut rows: BTreeMap<ObjectKey, String> = BTreeMap::new();
    let mut heard = 0;
    // A fixed walk through creations and deletions of both sides; the stream looks now and then.
    let mut dice = 7_u64;
    for turn in 0..200 {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (which, number) = (dice >> 61, (dice >> 40) % 5);
        let (pod_name, node_name) = (format!("p{number}"), format!("n{}", number % 3));
        // Half of these are refused: it exists, or does not.
        match which {
            0..=2 => drop(server.create(&pod(&pod_name, &node_name, &[])).await),
            3 | 4 => drop(server.delete::<Pod>(&format!("default/{pod_name}")).await),
            5 | 6 => drop(server.create(&node(&node_name)).await),
            _ => drop(server.delete::<Node>(&node_name).await),
        }
        if turn % 7 == 0 {
            server.cut_watches();
        }
        if turn % 3 != 0 {
            continue;
        }
        // Long enough for a watch that was cut.
        tokio::time::sleep(Duration::from_secs(5)).await;
        while let Some(Some(RowChange { key, old, new })) = changes.next().now_or_never() {
            let before = rows.get(&key).cloned();
            assert_eq!(old.map(|row| told(&row)), before, "{key}");
            heard += 1;
            match new {
                Some(row) => rows.insert(key, told(&row)),
                None => rows.remove(&key),
            };
        }
        let now = placed.snapshot();
        let now: BTreeMap<_, _> = now
            .rows()
            .map(|row| (row.left().key(), told(&row)))
            .collect();
        assert_eq!(rows, now);
    }
    assert!(heard > 30, "{heard} changes, {rows:?}");
    factory.shutdown().await;
}
