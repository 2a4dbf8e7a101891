//! Pods without a node: the scheduler tries them again when a change may help them.

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::preemption::add_node;
use crate::story::{object, start};

/// Adds a class whose claims wait for the scheduler, and are provisioned by a program that is absent.
async fn add_class(api: &TestServer) {
    let class: StorageClass = object(json!({
        "metadata": {"name": "late"}, "provisioner": "example.com/x",
        "volumeBindingMode": "WaitForFirstConsumer",
    }));
    api.create(&class).await.unwrap();
}

async fn add_claim(api: &TestServer) {
    let claim: PersistentVolumeClaim = object(json!({
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}},
    }));
    api.create(&claim).await.unwrap();
}

/// Adds a pod of 3 CPUs; a node has 4.
async fn add_pod(api: &TestServer, name: &str, spec: Value) {
    let container = json!({
        "name": "c", "image": "img:1", "resources": {"requests": {"cpu": "3"}},
    });
    let mut pod = json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec});
    pod["spec"]["containers"] = json!([container]);
    api.create(&object::<Pod>(pod)).await.unwrap();
}

fn mounting() -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
}

/// Waits until the condition of a pod says that it finds no node, with these words.
async fn until_refused(api: &TestServer, name: &str, words: &str) {
    let is_refused = |pod: &Pod| {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let mut conditions = conditions.unwrap_or_default().iter();
        conditions.any(|one| {
            let message = one.message.as_deref().unwrap_or_default();
            one.type_ == "PodScheduled" && message.contains(words)
        })
    };
    let key = format!("default/{name}");
    api.until(&key, is_refused).await.unwrap();
}

/// Waits until the scheduler has chosen a node for the claim.
async fn until_selected(api: &TestServer) {
    let is_selected = |claim: &PersistentVolumeClaim| {
        let annotations = claim.metadata.annotations.as_ref();
        let node = annotations.and_then(|all| all.get("volume.kubernetes.io/selected-node"));
        node.is_some_and(|node| node == "n")
    };
    api.until("default/data", is_selected).await.unwrap();
}

async fn until_bound(api: &TestServer, name: &str) {
    let is_bound = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        spec.is_some_and(|spec| spec.node_name.as_deref() == Some("n"))
    };
    let key = format!("default/{name}");
    api.until(&key, is_bound).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_class_that_comes_late_helps_the_pods_that_wait_for_it() {
    let api = start().await;
    add_node(&api, "n").await;
    add_claim(&api).await;
    add_pod(&api, "p", mounting()).await;
    until_refused(&api, "p", "unbound immediate").await;
    add_class(&api).await;
    until_selected(&api).await;
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_kept_for_a_pod_without_its_claim_is_given_to_others() {
    let api = start().await;
    add_node(&api, "n").await;
    add_class(&api).await;
    add_claim(&api).await;
    add_pod(&api, "p", mounting()).await;
    until_selected(&api).await;
    add_pod(&api, "other", json!({})).await;
    until_refused(&api, "other", "Insufficient cpu").await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(api.client());
    claims
        .delete("data", &DeleteParams::default())
        .await
        .unwrap();
    until_bound(&api, "other").await;
    until_refused(&api, "p", "persistentvolumeclaim").await;
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_gets_labels_helps_the_pods_that_select_it() {
    let api = start().await;
    add_node(&api, "n").await;
    let near = json!({"affinity": {"podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/os", "labelSelector": {"matchLabels": {"app": "near"}},
            "namespaceSelector": {"matchLabels": {"team": "x"}},
        }],
    }}});
    let namespace: Namespace = object(json!({"metadata": {"name": "other"}}));
    api.create(&namespace).await.unwrap();
    let nodes: Api<Node> = Api::all(api.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"kubernetes.io/os": "linux"}}}));
    nodes
        .patch("n", &PatchParams::default(), &label)
        .await
        .unwrap();
    let pod: Pod = object(json!({
        "metadata": {"name": "near", "namespace": "other", "labels": {"app": "near"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]},
    }));
    api.create(&pod).await.unwrap();
    let runs = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    api.until("other/near", runs).await.unwrap();
    add_pod(&api, "p", near).await;
    until_refused(&api, "p", "didn't match pod affinity rules").await;
    let namespaces: Api<Namespace> = Api::all(api.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"team": "x"}}}));
    namespaces
        .patch("other", &PatchParams::default(), &label)
        .await
        .unwrap();
    until_bound(&api, "p").await;
    api.stop().await;
}
