//! Nodes that are lost, tainted or deleted, and what becomes of their pods.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kinform_controlplane::{ControllerName, Selection};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

/// A server with nodes that are ready; the first one has a lease that nobody renews.
async fn start(nodes: &[&str]) -> TestServer {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    for name in nodes {
        let node = json!({"metadata": {"name": name}});
        let node: Node = serde_json::from_value(node).unwrap();
        api.create(&node).await.unwrap();
        let is_free = |node: &Node| ready(node) == "True" && taints(node).is_empty();
        api.until(name, is_free).await.unwrap();
    }
    let lease = json!({
        "metadata": {"name": nodes[0], "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": nodes[0], "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    let lease: Lease = serde_json::from_value(lease).unwrap();
    api.create(&lease).await.unwrap();
    api
}

fn ready(node: &Node) -> String {
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let ready = conditions.find(|one| one.type_ == "Ready");
    ready.map_or_else(String::new, |ready| ready.status.clone())
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
    let taints = taints.unwrap_or_default().iter();
    taints
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect()
}

async fn node(api: &TestServer, name: &str) -> (String, Vec<String>) {
    let node: Node = api.get(name).await.unwrap().unwrap();
    (ready(&node), taints(&node))
}

/// Adds a pod to a node, and waits until it is ready.
async fn add_pod(api: &TestServer, name: &str, node: &str, tolerations: Value) {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "containers": [{"name": "c", "image": "img:1"}],
            "tolerations": tolerations,
        },
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    api.create(&pod).await.unwrap();
    api.until(&format!("default/{name}"), |pod| {
        condition(pod, "Ready") == "True"
    })
    .await
    .unwrap();
}

/// The status of a pod's condition, with its reason if it has one.
fn condition(pod: &Pod, kind: &str) -> String {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let found = conditions.find(|one| one.type_ == kind);
    found.map_or_else(String::new, |one| match &one.reason {
        Some(reason) => format!("{}/{reason}", one.status),
        None => one.status.clone(),
    })
}

async fn pod(api: &TestServer, name: &str) -> Option<Pod> {
    api.get(&format!("default/{name}")).await.unwrap()
}

async fn is_deleted(api: &TestServer, name: &str) -> bool {
    let pod = pod(api, name).await;
    pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
}

async fn patch_node(api: &TestServer, name: &str, subresource: Option<&str>, patch: Value) {
    let nodes: Api<Node> = Api::all(api.client());
    let (patch, params) = (Patch::Strategic(patch), PatchParams::default());
    let patched = match subresource {
        Some(_) => nodes.patch_status(name, &params, &patch).await,
        None => nodes.patch(name, &params, &patch).await,
    };
    patched.unwrap();
}

/// The messages of the events with a reason, in the order of letters.
async fn told(api: &TestServer, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(api.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let events = events.into_iter();
    let events = events.filter(|event| event.reason.as_deref() == Some(reason));
    let mut told: Vec<String> = events.filter_map(|event| event.message).collect();
    told.sort();
    told
}

const UNREACHABLE: [&str; 2] = [
    "node.kubernetes.io/unreachable:NoSchedule",
    "node.kubernetes.io/unreachable:NoExecute",
];

#[tokio::test(start_paused = true)]
async fn pods_of_a_lost_node_are_evicted_and_go_with_it() {
    let api = start(&["lost", "other"]).await;
    add_pod(&api, "p", "lost", json!([])).await;
    pass(49).await;
    assert_eq!(node(&api, "lost").await, ("True".to_owned(), Vec::new()));
    pass(2).await;
    let tainted = UNREACHABLE.map(str::to_owned).to_vec();
    assert_eq!(node(&api, "lost").await, ("Unknown".to_owned(), tainted));
    let lost = pod(&api, "p").await.unwrap();
    assert_eq!(condition(&lost, "Ready"), "False");
    assert_eq!(told(&api, "NodeNotReady").await.len(), 2);
    // The API server lets a pod tolerate a lost node for five minutes.
    pass(295).await;
    assert!(!is_deleted(&api, "p").await);
    pass(10).await;
    assert!(is_deleted(&api, "p").await);
    let evicted = pod(&api, "p").await.unwrap();
    assert_eq!(
        condition(&evicted, "DisruptionTarget"),
        "True/DeletionByTaintManager"
    );
    let marked = ["Marking for deletion Pod default/p"];
    assert_eq!(told(&api, "TaintManagerEviction").await, marked);
    // Its kubelet is lost, so it does not end before its node is deleted.
    pass(3_600).await;
    assert!(pod(&api, "p").await.is_some());
    api.delete::<Node>("lost").await.unwrap();
    pass(39).await;
    assert!(pod(&api, "p").await.is_some());
    pass(2).await;
    assert!(pod(&api, "p").await.is_none());
    // A node without a lease needs none here.
    assert_eq!(node(&api, "other").await, ("True".to_owned(), Vec::new()));
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_keeps_its_pods() {
    let api = start(&["lost", "other"]).await;
    add_pod(&api, "p", "lost", json!([])).await;
    pass(100).await;
    assert_eq!(node(&api, "lost").await.0, "Unknown");
    let now = "2026-01-01T00:02:00Z";
    let ready = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "KubeletReady",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }]}});
    patch_node(&api, "lost", Some("status"), ready).await;
    pass(1).await;
    assert_eq!(node(&api, "lost").await, ("True".to_owned(), Vec::new()));
    let found = pod(&api, "p").await.unwrap();
    assert_eq!(condition(&found, "Ready"), "True");
    let spared = ["Cancelling deletion of Pod default/p"];
    assert_eq!(told(&api, "TaintManagerEviction").await, spared);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_node_of_a_cluster_is_not_evicted() {
    let api = start(&["lost"]).await;
    add_pod(&api, "p", "lost", json!([])).await;
    pass(3_600).await;
    let (ready, taints) = node(&api, "lost").await;
    assert_eq!(
        (&*ready, taints),
        ("Unknown", vec![UNREACHABLE[0].to_owned()])
    );
    assert!(!is_deleted(&api, "p").await);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_taint_evicts_pods_after_the_time_that_they_tolerate() {
    let api = start(&["tainted", "other"]).await;
    let tolerated = |seconds: Option<u32>| {
        json!([{"key": "k", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}])
    };
    add_pod(&api, "now", "tainted", json!([])).await;
    add_pod(&api, "soon", "tainted", tolerated(Some(5))).await;
    add_pod(&api, "later", "tainted", tolerated(Some(30))).await;
    add_pod(&api, "never", "tainted", tolerated(None)).await;
    let taints = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    patch_node(&api, "tainted", None, taints).await;
    pass(1).await;
    assert!(pod(&api, "now").await.is_none());
    assert!(!is_deleted(&api, "soon").await);
    pass(5).await;
    assert!(pod(&api, "soon").await.is_none());
    patch_node(&api, "tainted", None, json!({"spec": {"taints": null}})).await;
    pass(60).await;
    assert!(!is_deleted(&api, "later").await);
    assert!(!is_deleted(&api, "never").await);
    let expected = [
        "Cancelling deletion of Pod default/later",
        "Marking for deletion Pod default/now",
        "Marking for deletion Pod default/soon",
    ];
    assert_eq!(told(&api, "TaintManagerEviction").await, expected);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_node_out_of_service_go_at_once() {
    let api = start(&["lost", "other"]).await;
    add_pod(&api, "p", "lost", json!([])).await;
    pass(60).await;
    let taint = json!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
    let lost: Node = api.get("lost").await.unwrap().unwrap();
    let mut taints = json!(lost.spec.unwrap().taints);
    taints.as_array_mut().unwrap().push(taint);
    patch_node(&api, "lost", None, json!({"spec": {"taints": taints}})).await;
    pass(1).await;
    assert!(pod(&api, "p").await.is_none());
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_without_a_node_has_failed() {
    let api = start(&["node"]).await;
    let waiting = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"nodeSelector": {"k": "v"}, "containers": [{"name": "c", "image": "i"}]},
    });
    let waiting: Pod = serde_json::from_value(waiting).unwrap();
    api.create(&waiting).await.unwrap();
    api.delete::<Pod>("default/p").await.unwrap();
    let phase = |pod: Option<Pod>| pod?.status?.phase;
    pass(18).await;
    assert_eq!(phase(pod(&api, "p").await).as_deref(), Some("Pending"));
    pass(4).await;
    assert_eq!(phase(pod(&api, "p").await).as_deref(), Some("Failed"));
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_pods_also_without_its_controller() {
    let only = [ControllerName::Scheduler, ControllerName::Kubelet];
    let api = TestServer::start()
        .in_process()
        .with_selected_controllers(Selection::from_iter(only));
    let api = api.await.unwrap();
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    api.create(&pod).await.unwrap();
    let is_ready = |pod: &Pod| condition(pod, "Ready") == "True";
    api.until("default/p", is_ready).await.unwrap();
    api.stop().await;
}
