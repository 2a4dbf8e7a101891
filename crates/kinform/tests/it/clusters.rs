//! Many clusters in one program.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kinform::{
    Action, ClusterKey, Clusters, Controller, Ctx, Discovered, Error, Handlers, Index,
    InformerFactory, InformerState, ObjectKey,
};
use kinform_testkit::TestServer;
use serde_json::json;

use crate::fixture::{server, settle};

const SOON: Duration = Duration::from_secs(120);

fn config(name: &str) -> ConfigMap {
    let object = json!({ "metadata": { "name": name, "namespace": "default",
        "labels": { "app": name } } });
    serde_json::from_value(object).unwrap()
}

fn key(cluster: &str, name: &str) -> ClusterKey {
    ClusterKey::new(cluster, ObjectKey::new(Some("default"), name))
}

type Lines = Arc<Mutex<Vec<String>>>;

/// Adds and deletes with their cluster, of the names that the tests use.
fn handlers(lines: &Lines, cluster: &str) -> Handlers<ConfigMap> {
    let line = |sign: &'static str| {
        let (lines, cluster) = (Arc::clone(lines), cluster.to_owned());
        move |name: &str| {
            lines
                .lock()
                .unwrap()
                .push(format!("{sign}{cluster}/{name}"))
        }
    };
    let (added, deleted) = (line("+"), line("-"));
    Handlers::new()
        .on_add(move |one| added(one.name()))
        .on_delete(move |one| deleted(one.name()))
}

fn take(lines: &Lines) -> Vec<String> {
    let mut taken = std::mem::take(&mut *lines.lock().unwrap());
    taken.retain(|line| !line.contains("kube-root-ca"));
    taken.sort_unstable();
    taken
}

#[tokio::test(start_paused = true)]
async fn one_handle_reads_and_hears_clusters_that_come_and_go() {
    let (a, b) = (server().await, server().await);
    a.create(&config("one")).await.unwrap();
    b.create(&config("one")).await.unwrap();
    b.create(&config("two")).await.unwrap();
    let clusters = Clusters::new();
    clusters.add("a", a.client()).unwrap();
    let configs = clusters.informer::<ConfigMap>().unwrap();
    let lines = Lines::default();
    let heard = Arc::clone(&lines);
    let registration = configs
        .add_handler(move |cluster| handlers(&heard, cluster.name()))
        .unwrap();
    configs.add_index(|| Index::label("app")).unwrap();
    clusters.start().unwrap();
    clusters.synced_within(SOON).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), ["+a/one"]);
    assert!(clusters.add("a", b.client()).unwrap_err().is_name_taken());
    assert!(clusters.add("", b.client()).unwrap_err().is_invalid());

    // One that joins while the others run.
    clusters.add("b", b.client()).unwrap();
    clusters.synced_within(SOON).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), ["+b/one", "+b/two"]);
    assert!(configs.has_synced() && configs.get(&key("b", "two")).is_some());
    assert!(configs.get(&key("a", "two")).is_none() && configs.get(&key("c", "two")).is_none());
    let found = configs.by_index("label:app", "one").unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(name, list)| (&**name, list.len()))
        .collect();
    assert_eq!(found, [("a", 1), ("b", 1)]);
    assert!(
        configs
            .by_index("nothing", "one")
            .unwrap_err()
            .is_not_found()
    );

    // A delete there is a delete; the end of a cluster is none.
    b.delete::<ConfigMap>("default/two").await.unwrap();
    settle().await;
    assert_eq!(take(&lines), ["-b/two"]);
    assert!(clusters.remove("b").await && !clusters.remove("b").await);
    settle().await;
    assert_eq!(take(&lines), Vec::<String>::new());
    assert!(configs.get(&key("b", "one")).is_none() && configs.in_cluster("b").is_none());

    clusters.add("b", b.client()).unwrap();
    clusters.synced_within(SOON).await.unwrap();
    settle().await;
    assert_eq!(
        take(&lines),
        ["+b/one"],
        "its objects again, as initial adds"
    );
    registration.remove();
    a.create(&config("late")).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), Vec::<String>::new());
    assert!(configs.get(&key("a", "late")).is_some());
    clusters.shutdown().await;
    assert!(clusters.add("c", a.client()).unwrap_err().is_stopped());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_away_is_a_state_and_no_delete() {
    let (a, b) = (server().await, server().await);
    for server in [&a, &b] {
        server.create(&config("one")).await.unwrap();
    }
    let clusters = Clusters::new();
    let configs = clusters.informer::<ConfigMap>().unwrap();
    let lines = Lines::default();
    let heard = Arc::clone(&lines);
    let _registration = configs
        .add_handler(move |cluster| handlers(&heard, cluster.name()))
        .unwrap();
    clusters.start().unwrap();
    for (name, server) in [("a", &a), ("b", &b)] {
        clusters.add(name, server.client()).unwrap();
    }
    clusters.synced_within(SOON).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), ["+a/one", "+b/one"]);

    b.stop().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let states: BTreeMap<_, _> = configs.states().into_iter().collect();
    assert!(states["a"].is_synced(), "{states:?}");
    assert!(
        matches!(states["b"], InformerState::Stale { .. }),
        "{states:?}"
    );
    assert!(
        configs.get(&key("b", "one")).is_some(),
        "stale, and readable"
    );
    a.create(&config("two")).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), ["+a/two"]);
    clusters.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn each_cluster_has_its_controllers_until_it_leaves() {
    let (a, b) = (server().await, server().await);
    for server in [&a, &b] {
        server.create(&config("one")).await.unwrap();
    }
    let clusters = Clusters::new();
    clusters.add("a", a.client()).unwrap();
    clusters.start().unwrap();
    let lines = Lines::default();
    let engaging = clusters.clone();
    let told = Arc::clone(&lines);
    let run = move |cluster: kinform::Cluster| {
        let told = Arc::clone(&told);
        async move {
            let configs = cluster.factory().informer::<ConfigMap>();
            let controller = Controller::of(&configs)
                .shutdown_on(cluster.left().clone())
                .context(cluster.clone());
            cluster.factory().start()?;
            let reconcile = move |config: Arc<ConfigMap>, cx: Ctx<kinform::Cluster>| {
                let name = config.metadata.name.clone().unwrap_or_default();
                let line = format!("{}/{name}", cx.context().name());
                told.lock().unwrap().push(line);
                async { Ok::<_, Error>(Action::await_change()) }
            };
            controller.run(reconcile).await
        }
    };
    let engaged = tokio::spawn(async move { engaging.engage(run).await });
    settle().await;
    assert_eq!(take(&lines), ["a/one"]);
    clusters.add("b", b.client()).unwrap();
    settle().await;
    assert_eq!(take(&lines), ["b/one"]);
    clusters.remove("b").await;
    b.create(&config("two")).await.unwrap();
    settle().await;
    assert_eq!(take(&lines), Vec::<String>::new());
    clusters.add("b", b.client()).unwrap();
    settle().await;
    assert_eq!(take(&lines), ["b/one", "b/two"], "its name again");
    clusters.shutdown().await;
    engaged.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_names_its_cluster() {
    let a = server().await;
    let clusters = Clusters::new();
    clusters.add("east", a.client()).unwrap();
    let failed = clusters.engage(|_| async { Err("no such flag") }).await;
    assert_eq!(
        failed.unwrap_err().to_string(),
        "cluster east: no such flag"
    );
    clusters.shutdown().await;
}

#[tokio::test]
async fn clusters_come_and_go_with_their_secrets() {
    let hub = TestServer::start().await.unwrap();
    let spoke = TestServer::start().await.unwrap();
    spoke.create(&config("there")).await.unwrap();
    let secret = |text: &str| -> Secret {
        let object = json!({ "metadata": { "name": "spoke", "namespace": "default" },
            "stringData": { "kubeconfig": text } });
        serde_json::from_value(object).unwrap()
    };
    let factory = InformerFactory::new(hub.client());
    let secrets = factory.informer::<Secret>();
    let clusters = Clusters::new();
    let configs = clusters.informer::<ConfigMap>().unwrap();
    clusters.start().unwrap();
    let mut discovery = clusters.follow_secrets(&secrets, "kubeconfig").unwrap();
    factory.start().unwrap();

    hub.create(&secret("a: kubeconfig: of sorts"))
        .await
        .unwrap();
    let refused = discovery.next().await.unwrap();
    assert!(matches!(refused, Discovered::Refused { .. }), "{refused:?}");
    hub.delete::<Secret>("default/spoke").await.unwrap();
    let cluster = "spoke".to_owned();
    let removed = Discovered::Removed {
        cluster: cluster.clone(),
    };

    // A cluster that was added otherwise is not the Secret's to take.
    clusters.add("spoke", hub.client()).unwrap();
    hub.create(&secret(&spoke.server().kubeconfig()))
        .await
        .unwrap();
    let refused = discovery.next().await.unwrap();
    assert!(matches!(refused, Discovered::Refused { .. }), "{refused:?}");
    hub.delete::<Secret>("default/spoke").await.unwrap();
    let gone = secrets.until(&ObjectKey::new(Some("default"), "spoke"), |found| {
        found.is_none()
    });
    gone.within(SOON).await.unwrap();
    assert!(clusters.get("spoke").is_some() && clusters.remove("spoke").await);

    hub.create(&secret(&spoke.server().kubeconfig()))
        .await
        .unwrap();
    let added = Discovered::Added { cluster };
    assert_eq!(discovery.next().await.unwrap(), added);
    clusters.synced_within(SOON).await.unwrap();
    assert!(configs.get(&key("spoke", "there")).is_some());
    hub.delete::<Secret>("default/spoke").await.unwrap();
    assert_eq!(discovery.next().await.unwrap(), removed);
    assert!(clusters.all().is_empty() && configs.is_empty());
    clusters.shutdown().await;
    factory.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn the_drop_of_all_clusters_ends_them_while_handles_are_kept() {
    let a = server().await;
    let clusters = Clusters::new();
    let cluster = clusters.add("a", a.client()).unwrap();
    let configs = clusters.informer::<ConfigMap>().unwrap();
    clusters.start().unwrap();
    clusters.synced_within(SOON).await.unwrap();
    assert!(cluster.factory().task_count() > 0);
    drop(clusters);
    settle().await;
    assert_eq!(cluster.factory().task_count(), 0);
    assert!(configs.states()[0].1.is_stopped() && cluster.left().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_begun_again_for_a_cluster_that_leaves() {
    let a = server().await;
    let clusters = Clusters::new();
    clusters.add("a", a.client()).unwrap();
    let runs = Arc::new(Mutex::new(0));
    let (engaging, counted) = (clusters.clone(), Arc::clone(&runs));
    let engaged = tokio::spawn(async move {
        let run = |cluster: kinform::Cluster| {
            let counted = Arc::clone(&counted);
            async move {
                *counted.lock().unwrap() += 1;
                cluster.left().cancelled().await;
                Ok::<_, Error>(())
            }
        };
        engaging.engage(run).await
    });
    settle().await;
    clusters.shutdown().await;
    engaged.await.unwrap().unwrap();
    assert_eq!(*runs.lock().unwrap(), 1);
}
