//! The built-in controllers beside a test's server: a Deployment's life, under paused time and real.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Endpoints, Event, Node, Pod, ReplicationController, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kinform_controlplane::{ControllerName, Selection};
use kinform_testkit::{Loss, TestServer};
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

fn deployment(replicas: i32, annotations: Value) -> Deployment {
    let deployment = json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "replicas": replicas, "progressDeadlineSeconds": 6, "revisionHistoryLimit": 2,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]},
            },
        },
    });
    serde_json::from_value(deployment).unwrap()
}

/// Waits until this many pods are of the current template and available, and no other is left.
async fn rolled_out(api: &TestServer, replicas: i32) -> Deployment {
    let is = |d: &Deployment| {
        let status = d.status.clone().unwrap_or_default();
        status.observed_generation == d.metadata.generation
            && [
                status.replicas,
                status.updated_replicas,
                status.available_replicas,
            ]
            .iter()
            .all(|count| count.unwrap_or(0) == replicas)
            && status.terminating_replicas == Some(0)
    };
    api.until("default/x", is).await.unwrap()
}

async fn patch(api: &TestServer, patch: Value) {
    let deployments: Api<Deployment> = Api::default_namespaced(api.client());
    let patch = Patch::Strategic(patch);
    let params = PatchParams::default();
    deployments.patch("x", &params, &patch).await.unwrap();
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

async fn pods(api: &TestServer) -> Vec<Pod> {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    pods.list(&ListParams::default()).await.unwrap().items
}

/// The messages of a component's events, oldest first, without the names of sets.
async fn told(api: &TestServer, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(api.client());
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events.sort_by_key(|event| {
        let version = event.metadata.resource_version.as_deref();
        version.and_then(|version| version.parse::<u64>().ok())
    });
    let words = |event: &Event| {
        let message = event.message.clone().unwrap_or_default();
        let words = message.split(' ').filter(|word| !word.starts_with("x-"));
        words.collect::<Vec<_>>().join(" ")
    };
    events.iter().map(words).collect()
}

/// Created, scaled up and down, rolled, rolled back, deleted.
async fn live(api: TestServer) {
    api.create(&deployment(3, json!({}))).await.unwrap();
    let available = rolled_out(&api, 3).await;
    let conditions = available.status.unwrap().conditions.unwrap();
    let reasons: Vec<_> = conditions
        .iter()
        .map(|c| c.reason.clone().unwrap())
        .collect();
    assert_eq!(
        reasons,
        ["MinimumReplicasAvailable", "NewReplicaSetAvailable"]
    );
    for pod in pods(&api).await {
        assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("kinform-node"));
        let owner = &pod.metadata.owner_references.unwrap()[0];
        assert_eq!((&*owner.kind, owner.controller), ("ReplicaSet", Some(true)));
        assert!(
            pod.metadata
                .name
                .unwrap()
                .starts_with(&format!("{}-", owner.name))
        );
        assert!(pod.status.unwrap().pod_ip.is_some());
    }
    patch(&api, json!({"spec": {"replicas": 5}})).await;
    rolled_out(&api, 5).await;
    patch(&api, json!({"spec": {"replicas": 3}})).await;
    rolled_out(&api, 3).await;
    patch(&api, image("img:2")).await;
    rolled_out(&api, 3).await;
    patch(&api, image("img:1")).await;
    let back = rolled_out(&api, 3).await;
    let annotations = back.metadata.annotations.unwrap();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    let sets: Api<ReplicaSet> = Api::default_namespaced(api.client());
    let sets = sets.list(&ListParams::default()).await.unwrap().items;
    let mut of_sets: Vec<_> = sets
        .iter()
        .map(|set| {
            let annotations = set.metadata.annotations.as_ref().unwrap();
            let of = |key: &str| annotations.get(&format!("deployment.kubernetes.io/{key}"));
            (of("revision").cloned(), of("revision-history").cloned())
        })
        .collect();
    of_sets.sort();
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(of_sets, [(text("2"), None), (text("3"), text("1"))]);
    // As recorded of a real controller manager, up to the tenth: from there on they are combined.
    let expected = [
        "Scaled up replica set from 0 to 3",
        "Scaled up replica set from 3 to 5",
        "Scaled down replica set from 5 to 3",
        "Scaled up replica set from 0 to 1",
        "Scaled down replica set from 3 to 2",
        "Scaled up replica set from 1 to 2",
        "Scaled down replica set from 2 to 1",
        "Scaled up replica set from 2 to 3",
        "Scaled down replica set from 1 to 0",
    ];
    let told = told(&api, "ScalingReplicaSet").await;
    assert_eq!(told[..expected.len()], expected);
    api.delete::<Deployment>("default/x").await.unwrap();
    api.until_gone::<Deployment>("default/x").await.unwrap();
    while !pods(&api).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deployment_lives_under_paused_time() {
    let api = TestServer::start().in_process().with_controllers();
    live(api.await.unwrap()).await;
}

#[tokio::test]
async fn a_deployment_lives_over_sockets() {
    let api = TestServer::start().with_controllers();
    let limit = Duration::from_secs(30);
    let lived = tokio::time::timeout(limit, live(api.await.unwrap())).await;
    assert!(lived.is_ok());
}

#[tokio::test(start_paused = true)]
async fn pods_are_ready_when_their_script_says() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let begin = Instant::now();
    let script = json!({"kinform.dev/ready-after": "5s"});
    api.create(&deployment(2, script)).await.unwrap();
    rolled_out(&api, 2).await;
    // Times of objects are whole seconds, so the wait is up to one shorter.
    let waited = begin.elapsed();
    assert!(
        waited > Duration::from_secs(3) && waited < Duration::from_secs(6),
        "{waited:?}"
    );
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_that_fails_is_told_at_its_deadline() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let script = json!({"kinform.dev/fail": "ImagePullBackOff"});
    api.create(&deployment(1, script)).await.unwrap();
    let failed = |d: &Deployment| {
        let conditions = d.status.as_ref().and_then(|s| s.conditions.clone());
        conditions.unwrap_or_default().iter().any(|c| {
            c.reason.as_deref() == Some("ProgressDeadlineExceeded")
                && c.status.as_deref() == Some("False")
        })
    };
    api.until("default/x", failed).await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_waits_for_a_node() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i"}]},
    }))
    .unwrap();
    api.create(&pod).await.unwrap();
    let refused = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.clone());
        conditions.unwrap_or_default().iter().any(|c| {
            let message = c.message.as_deref().unwrap_or_default();
            c.reason.as_deref() == Some("Unschedulable")
                && message.starts_with("0/1 nodes are available: 1 node(s) didn't match Pod's")
        })
    };
    api.until("default/p", refused).await.unwrap();
    let node = json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}});
    let node: Node = serde_json::from_value(node).unwrap();
    api.create(&node).await.unwrap();
    let runs = |pod: &Pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
        (node, phase) == (Some("n"), Some("Running"))
    };
    api.until("default/p", runs).await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn controllers_go_on_after_a_restart() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    api.create(&deployment(2, json!({}))).await.unwrap();
    rolled_out(&api, 2).await;
    let api = api.restart(Loss::History).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let of_set = ListParams::default().labels("app=x");
    pods.delete_collection(&DeleteParams::default(), &of_set)
        .await
        .unwrap();
    rolled_out(&api, 2).await;
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_test_plays_the_controllers_that_it_leaves_out() {
    let only: Selection = [ControllerName::Deployment].into_iter().collect();
    let api = TestServer::start()
        .in_process()
        .with_selected_controllers(only);
    let api = api.await.unwrap();
    api.create(&deployment(2, json!({}))).await.unwrap();
    let asked = |d: &Deployment| {
        let status = d.status.as_ref();
        status.and_then(|s| s.unavailable_replicas) == Some(2)
    };
    api.until("default/x", asked).await.unwrap();
    assert!(pods(&api).await.is_empty());
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_has_the_endpoints_of_its_ready_pods() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let service = json!({
        "metadata": {"name": "x"},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]},
    });
    let service: Service = serde_json::from_value(service).unwrap();
    api.create(&service).await.unwrap();
    api.create(&deployment(3, json!({}))).await.unwrap();
    rolled_out(&api, 3).await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(api.client());
    let of_service = ListParams::default().labels("kubernetes.io/service-name=x");
    let ready = async |count: usize| {
        let all = slices.list(&of_service).await.unwrap().items;
        let [slice] = &all[..] else { return false };
        // An empty slice lists null, which the type reads as an empty list.
        let endpoints = serde_json::to_value(slice).unwrap()["endpoints"].clone();
        let endpoints = endpoints.as_array().cloned().unwrap_or_default();
        endpoints
            .iter()
            .filter(|one| one["conditions"]["ready"] == true)
            .count()
            == count
    };
    for replicas in [3, 0] {
        patch(&api, json!({"spec": {"replicas": replicas}})).await;
        let waited = tokio::time::timeout(Duration::from_secs(10), async {
            while !ready(usize::try_from(replicas).unwrap()).await {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        assert!(waited.await.is_ok(), "{replicas}");
    }
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_somebody_wrote_before_their_service_stay() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let endpoints = json!({"metadata": {"name": "e", "namespace": "default"}, "subsets": [
        {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 1}]}]});
    let endpoints: Endpoints = serde_json::from_value(endpoints).unwrap();
    api.create(&endpoints).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let service = json!({"metadata": {"name": "e", "namespace": "default"},
        "spec": {"ports": [{"port": 1}]}});
    let service: Service = serde_json::from_value(service).unwrap();
    api.create(&service).await.unwrap();
    let slices: Api<EndpointSlice> = Api::namespaced(api.client(), "default");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let of_service = ListParams::default().labels("kubernetes.io/service-name=e");
    let found = slices.list(&of_service).await.unwrap();
    assert_eq!(found.items.len(), 1);
    api.delete::<Service>("default/e").await.unwrap();
    api.until_gone::<Endpoints>("default/e").await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replication_controller_keeps_and_adopts_its_pods() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let labels = json!({"app": "old"});
    let orphan = json!({"metadata": {"name": "orphan", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}});
    let of_pods: Api<Pod> = Api::default_namespaced(api.client());
    let orphan = serde_json::from_value(orphan).unwrap();
    of_pods
        .create(&PostParams::default(), &orphan)
        .await
        .unwrap();
    // Until every cache has it: a controller that has not heard of it creates a third pod.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let set = json!({"metadata": {"name": "old", "namespace": "default"}, "spec": {
        "replicas": 3, "selector": labels,
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
    let set: ReplicationController = serde_json::from_value(set).unwrap();
    let sets: Api<ReplicationController> = Api::default_namespaced(api.client());
    sets.create(&PostParams::default(), &set).await.unwrap();
    let of = |count: i32| {
        move |set: &ReplicationController| {
            let status = set.status.clone().unwrap_or_default();
            status.replicas == count && status.available_replicas == Some(count)
        }
    };
    api.until("default/old", of(3)).await.unwrap();
    let all = pods(&api).await;
    let owned = |pod: &Pod| {
        let owners = pod.metadata.owner_references.iter().flatten();
        let mut owners = owners.map(|owner| owner.kind.as_str());
        owners.next() == Some("ReplicationController")
    };
    assert!(all.len() == 3 && all.iter().all(owned), "{all:?}");
    let patch = Patch::Strategic(json!({"spec": {"replicas": 1}}));
    sets.patch("old", &PatchParams::default(), &patch)
        .await
        .unwrap();
    api.until("default/old", of(1)).await.unwrap();
    assert_eq!(told(&api, "SuccessfulCreate").await.len(), 2);
    sets.delete("old", &DeleteParams::background())
        .await
        .unwrap();
    while !pods(&api).await.is_empty() {
        // Paused time: the grace period passes at once.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
