//! The lives of DaemonSets.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{all, image, patch, since, told, version};

/// The set of the recording.
fn daemon_set(strategy: Value) -> DaemonSet {
    let set = json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "updateStrategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]},
            },
        },
    });
    serde_json::from_value(set).unwrap()
}

async fn add_node(api: &TestServer, name: &str) {
    let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
    let node: Node = serde_json::from_value(node).unwrap();
    api.create(&node).await.unwrap();
}

/// A server with two nodes that are ready for pods.
async fn with_nodes(api: TestServer) -> TestServer {
    for name in ["node-a", "node-b"] {
        add_node(&api, name).await;
        let is_open = |node: &Node| {
            let spec = node.spec.clone().unwrap_or_default();
            node.status.clone().unwrap_or_default().conditions.is_some() && spec.taints.is_none()
        };
        api.until(name, is_open).await.unwrap();
    }
    api
}

/// Waits until this many nodes have an available pod of the newest revision, and no other pod is
/// left.
async fn rolled_out(api: &TestServer, nodes: i32) -> DaemonSet {
    let is = |set: &DaemonSet| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && [
                status.desired_number_scheduled,
                status.current_number_scheduled,
                status.number_ready,
                status.updated_number_scheduled.unwrap_or(0),
                status.number_available.unwrap_or(0),
            ] == [nodes; 5]
            && status.number_misscheduled == 0
    };
    api.until("default/x", is).await.unwrap()
}

fn node_of(pod: &Pod) -> String {
    let spec = pod.spec.as_ref().unwrap();
    spec.node_name.clone().unwrap_or_default()
}

async fn nodes(api: &TestServer) -> Vec<String> {
    let mut nodes: Vec<String> = all::<Pod>(api).await.iter().map(node_of).collect();
    nodes.sort();
    nodes
}

/// The additions and deletions of pods since a version: `+`, `~` and `-` without their names.
async fn signs(api: &TestServer, version: &str) -> String {
    let mut told = since::<Pod>(api, version).await;
    told.sort_unstable();
    told.iter()
        .filter_map(|(_, words)| words.chars().next())
        .collect()
}

/// Created on two nodes, updated, restricted to one node, deleted: the recorded story.
async fn live(api: TestServer) {
    let api = with_nodes(api).await;
    api.create(&daemon_set(json!({}))).await.unwrap();
    let status = rolled_out(&api, 2).await.status.unwrap();
    assert_eq!(
        (status.number_unavailable, status.collision_count),
        (None, None)
    );
    let [first, second] = &all::<Pod>(&api).await[..] else {
        panic!("not two pods");
    };
    let on: BTreeSet<_> = [node_of(first), node_of(second)].into();
    assert_eq!(on, ["node-a".to_owned(), "node-b".to_owned()].into());
    let owner = &first.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((&*owner.kind, owner.controller), ("DaemonSet", Some(true)));
    let [revision] = &all::<ControllerRevision>(&api).await[..] else {
        panic!("not one revision");
    };
    let labels = revision.metadata.labels.clone().unwrap();
    let hash = &labels["controller-revision-hash"];
    assert_eq!(revision.metadata.name, Some(format!("x-{hash}")));
    let annotations = revision.metadata.annotations.clone().unwrap();
    assert_eq!(annotations["deprecated.daemonset.template.generation"], "1");
    let labels = first.metadata.labels.clone().unwrap();
    assert_eq!(labels["pod-template-generation"], "1");
    assert_eq!(&labels["controller-revision-hash"], hash);
    let tolerations = first.spec.clone().unwrap().tolerations.unwrap();
    assert_eq!(tolerations.len(), 6);

    let begin = version(&api).await;
    patch::<DaemonSet>(&api, image("img:2")).await;
    rolled_out(&api, 2).await;
    // One after the other: ended, gone, replaced.
    assert_eq!(signs(&api, &begin).await, "~-+~-+");
    let begin = version(&api).await;
    let one = json!({"spec": {"template": {"spec": {
        "nodeSelector": {"kubernetes.io/hostname": "node-a"},
    }}}});
    patch::<DaemonSet>(&api, one).await;
    rolled_out(&api, 1).await;
    // The pod on the other node goes first, then the one that is outdated.
    assert_eq!(signs(&api, &begin).await, "~-~-+");
    assert_eq!(nodes(&api).await, ["node-a"]);
    let created = told(&api, "SuccessfulCreate").await;
    let deleted = told(&api, "SuccessfulDelete").await;
    assert_eq!((created.len(), deleted.len()), (5, 4));
    assert!(
        created
            .iter()
            .all(|(message, _)| message.starts_with("Created pod: x-"))
    );
    assert!(
        deleted
            .iter()
            .all(|(message, _)| message.starts_with("Deleted pod: x-"))
    );

    // Back to the second template: its revision is found again.
    let everywhere = json!({"spec": {"template": {"spec": {"nodeSelector": null}}}});
    patch::<DaemonSet>(&api, everywhere).await;
    rolled_out(&api, 2).await;
    let mut numbers: Vec<i64> = all::<ControllerRevision>(&api)
        .await
        .iter()
        .filter_map(|one| one.revision)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 3, 4]);
    api.delete::<DaemonSet>("default/x").await.unwrap();
    api.until_gone::<DaemonSet>("default/x").await.unwrap();
    while !all::<Pod>(&api).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_daemon_set_lives_under_paused_time() {
    let api = TestServer::start().in_process().with_controllers();
    live(api.await.unwrap()).await;
}

#[tokio::test]
async fn a_daemon_set_lives_over_sockets() {
    let api = TestServer::start().with_controllers();
    let limit = Duration::from_secs(60);
    let lived = tokio::time::timeout(limit, live(api.await.unwrap())).await;
    assert!(lived.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_new_node_gets_a_pod_and_a_pod_comes_again() {
    let api = TestServer::start().in_process().with_controllers();
    let api = with_nodes(api.await.unwrap()).await;
    api.create(&daemon_set(json!({}))).await.unwrap();
    rolled_out(&api, 2).await;
    add_node(&api, "node-c").await;
    rolled_out(&api, 3).await;
    assert_eq!(nodes(&api).await, ["node-a", "node-b", "node-c"]);
    let first = all::<Pod>(&api).await[0].metadata.name.clone().unwrap();
    let key = format!("default/{first}");
    api.delete::<Pod>(&key).await.unwrap();
    api.until_gone::<Pod>(&key).await.unwrap();
    rolled_out(&api, 3).await;
    // A failed pod is replaced, with an event.
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let second = all::<Pod>(&api).await[0].metadata.name.clone().unwrap();
    let failed = Patch::Strategic(json!({"status": {"phase": "Failed"}}));
    pods.patch_status(&second, &PatchParams::default(), &failed)
        .await
        .unwrap();
    api.until_gone::<Pod>(&format!("default/{second}"))
        .await
        .unwrap();
    rolled_out(&api, 3).await;
    assert_eq!(told(&api, "FailedDaemonPod").await.len(), 1);
    // A taint that it does not tolerate clears the node.
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let nodes_api: Api<Node> = Api::all(api.client());
    let taint = Patch::Strategic(taint);
    nodes_api
        .patch("node-b", &PatchParams::default(), &taint)
        .await
        .unwrap();
    rolled_out(&api, 2).await;
    while nodes(&api).await != ["node-a", "node-c"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_with_surge_creates_a_pod_before_one_goes() {
    let api = TestServer::start().in_process().with_controllers();
    let api = with_nodes(api.await.unwrap()).await;
    let surge =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    api.create(&daemon_set(surge)).await.unwrap();
    rolled_out(&api, 2).await;
    let begin = version(&api).await;
    patch::<DaemonSet>(&api, image("img:2")).await;
    rolled_out(&api, 2).await;
    let gone = tokio::time::timeout(Duration::from_secs(10), async {
        while all::<Pod>(&api).await.len() > 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(gone.await.is_ok());
    let signs = signs(&api, &begin).await;
    assert!(
        signs.starts_with("+~") && signs.matches('+').count() == 2,
        "{signs}"
    );
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_on_delete_pods_stay_until_they_are_deleted() {
    let api = TestServer::start().in_process().with_controllers();
    let api = with_nodes(api.await.unwrap()).await;
    api.create(&daemon_set(json!({"type": "OnDelete"})))
        .await
        .unwrap();
    rolled_out(&api, 2).await;
    patch::<DaemonSet>(&api, image("img:2")).await;
    let seen = |set: &DaemonSet| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == Some(2) && status.updated_number_scheduled.is_none()
    };
    api.until("default/x", seen).await.unwrap();
    for pod in all::<Pod>(&api).await {
        let key = format!("default/{}", pod.metadata.name.unwrap());
        api.delete::<Pod>(&key).await.unwrap();
    }
    rolled_out(&api, 2).await;
    api.stop().await;
}
