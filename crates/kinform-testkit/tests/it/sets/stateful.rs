//! The lives of StatefulSets.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{LimitRange, PersistentVolume, PersistentVolumeClaim, Pod};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{all, image, patch, since, told, version};

/// The set of the recording: pods of it have the recorded names, and its revisions, too.
fn stateful_set(spec: Value) -> StatefulSet {
    let mut set = json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "replicas": 3, "serviceName": "x", "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}, "annotations": {"story/kubelet": "run"}},
                "spec": {
                    "containers": [{"name": "c", "image": "img:1"}],
                    "terminationGracePeriodSeconds": 5,
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
                "resources": {"requests": {"storage": "1Gi"}},
            }}],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        set["spec"][field] = value.clone();
    }
    serde_json::from_value(set).unwrap()
}

/// The set with a script for its pods.
fn scripted(spec: Value, script: Value) -> StatefulSet {
    let mut set = serde_json::to_value(stateful_set(spec)).unwrap();
    set["spec"]["template"]["metadata"]["annotations"] = script;
    serde_json::from_value(set).unwrap()
}

/// Makes the volumes that the claims of the set are bound to.
async fn add_volumes(api: &TestServer) {
    for index in 0..4 {
        let volume = json!({
            "metadata": {"name": format!("v-{index}")},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"}, "storageClassName": "manual"},
        });
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        api.create(&volume).await.unwrap();
    }
}

/// Waits until all pods that the set asks for are ready, as many of the newest revision as these.
async fn rolled_out(api: &TestServer, replicas: i32, updated: i32) -> StatefulSet {
    let is = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.observed_generation == set.metadata.generation
            && [status.replicas, status.ready_replicas.unwrap_or(0)] == [replicas; 2]
            && status.updated_replicas.unwrap_or(0) == updated
    };
    api.until("default/x", is).await.unwrap()
}

/// The life of a set, as watches tell it.
async fn film(api: &TestServer, version: &str) -> Vec<String> {
    let mut told = since::<ControllerRevision>(api, version).await;
    told.extend(since::<PersistentVolumeClaim>(api, version).await);
    told.extend(since::<Pod>(api, version).await);
    told.sort_unstable();
    told.into_iter().map(|(_, words)| words).collect()
}

/// Created, a pod deleted, updated, updated in part, scaled down: the recorded story, and its order.
async fn live(api: TestServer) {
    add_volumes(&api).await;
    let begin = version(&api).await;
    api.create(&stateful_set(json!({}))).await.unwrap();
    let set = rolled_out(&api, 3, 3).await;
    let status = set.status.unwrap();
    assert_eq!(status.current_revision.as_deref(), Some("x-f9f8f9d8c"));
    assert_eq!(status.update_revision, status.current_revision);
    assert_eq!(
        (status.available_replicas, status.collision_count),
        (Some(3), Some(0))
    );
    let pod: Pod = api.get("default/x-1").await.unwrap().unwrap();
    let labels = [
        ("app", "x"),
        ("apps.kubernetes.io/pod-index", "1"),
        ("controller-revision-hash", "x-f9f8f9d8c"),
        ("statefulset.kubernetes.io/pod-name", "x-1"),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(pod.metadata.labels.unwrap(), labels.into());
    let spec = pod.spec.unwrap();
    assert_eq!(
        (spec.hostname.as_deref(), spec.subdomain.as_deref()),
        (Some("x-1"), Some("x"))
    );
    let first = pod.metadata.uid;

    api.delete::<Pod>("default/x-1").await.unwrap();
    let again = |pod: &Pod| pod.metadata.uid != first;
    api.until("default/x-1", again).await.unwrap();
    rolled_out(&api, 3, 3).await;
    patch::<StatefulSet>(&api, image("img:2")).await;
    let done = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.current_revision.as_deref() == Some("x-d95c855f6")
    };
    api.until("default/x", done).await.unwrap();
    rolled_out(&api, 3, 3).await;
    let mut third = image("img:3");
    third["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 2}});
    patch::<StatefulSet>(&api, third).await;
    let set = rolled_out(&api, 3, 1).await;
    let status = set.status.unwrap();
    assert_eq!(status.current_revision.as_deref(), Some("x-d95c855f6"));
    assert_eq!(status.update_revision.as_deref(), Some("x-79cdc8dbbf"));
    assert_eq!(status.current_replicas, Some(2));
    patch::<StatefulSet>(&api, json!({"spec": {"replicas": 1}})).await;
    rolled_out(&api, 1, 0).await;
    api.until_gone::<Pod>("default/x-1").await.unwrap();
    // As recorded of a real controller manager.
    let recorded = [
        "+x-f9f8f9d8c",
        "+data-x-0",
        "+x-0",
        "+data-x-1",
        "+x-1",
        "+data-x-2",
        "+x-2",
        "~x-1",
        "-x-1",
        "+x-1",
        "+x-d95c855f6",
        "~x-2",
        "-x-2",
        "+x-2",
        "~x-1",
        "-x-1",
        "+x-1",
        "~x-0",
        "-x-0",
        "+x-0",
        "+x-79cdc8dbbf",
        "~x-2",
        "-x-2",
        "+x-2",
        "~x-2",
        "-x-2",
        "~x-1",
        "-x-1",
    ];
    assert_eq!(film(&api, &begin).await, recorded);
    let created = told(&api, "SuccessfulCreate").await;
    let claim =
        |ordinal| format!("Create Claim data-x-{ordinal} Pod x-{ordinal} in StatefulSet x success");
    let pod = |ordinal| format!("Create Pod x-{ordinal} in StatefulSet x successful");
    let mut expected: Vec<(String, i32)> = (0..3).map(|ordinal| (claim(ordinal), 1)).collect();
    expected.extend([(pod(0), 2), (pod(1), 3), (pod(2), 3)]);
    let mut sorted = created.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
    let mut deleted = told(&api, "SuccessfulDelete").await;
    deleted.sort();
    let pod = |ordinal, times| {
        (
            format!("Delete Pod x-{ordinal} in StatefulSet x successful"),
            times,
        )
    };
    assert_eq!(deleted, [pod(0, 1), pod(1, 2), pod(2, 3)]);
    back_and_gone(api).await;
}

/// Rolled back to its first template, and deleted: the claims stay.
async fn back_and_gone(api: TestServer) {
    let mut first = image("img:1");
    first["spec"]["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
    patch::<StatefulSet>(&api, first).await;
    let back = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        status.current_revision.as_deref() == Some("x-f9f8f9d8c")
    };
    api.until("default/x", back).await.unwrap();
    let mut revisions: Vec<(i64, String)> = all::<ControllerRevision>(&api)
        .await
        .into_iter()
        .map(|one| (one.revision.unwrap(), one.metadata.name.unwrap()))
        .collect();
    revisions.sort();
    let numbered = [(2, "x-d95c855f6"), (3, "x-79cdc8dbbf"), (4, "x-f9f8f9d8c")];
    assert_eq!(
        revisions,
        numbered.map(|(number, name)| (number, name.to_owned()))
    );
    api.delete::<StatefulSet>("default/x").await.unwrap();
    api.until_gone::<Pod>("default/x-0").await.unwrap();
    api.until_gone::<ControllerRevision>("default/x-f9f8f9d8c")
        .await
        .unwrap();
    assert_eq!(all::<PersistentVolumeClaim>(&api).await.len(), 3);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_lives_under_paused_time() {
    let api = TestServer::start().in_process().with_controllers();
    live(api.await.unwrap()).await;
}

#[tokio::test]
async fn a_stateful_set_lives_over_sockets() {
    let api = TestServer::start().with_controllers();
    let limit = Duration::from_secs(60);
    let lived = tokio::time::timeout(limit, live(api.await.unwrap())).await;
    assert!(lived.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_waits_for_each_pod() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    add_volumes(&api).await;
    let script = json!({"kinform.dev/ready-after": "5s"});
    let set = scripted(
        json!({"minReadySeconds": 5, "ordinals": {"start": 7}}),
        script,
    );
    api.create(&set).await.unwrap();
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Running");
    api.until("default/x-7", runs).await.unwrap();
    let begin = tokio::time::Instant::now();
    api.until("default/x-8", runs).await.unwrap();
    let waited = begin.elapsed();
    // Five seconds until it is ready, five until it is available; times of objects are whole seconds.
    let [least, most] = [8, 12].map(Duration::from_secs);
    assert!(waited > least && waited < most, "{waited:?}");
    assert_eq!(all::<Pod>(&api).await.len(), 2);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn parallel_pods_come_and_go_with_their_claims() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let spec = json!({
        "podManagementPolicy": "Parallel",
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
    });
    let set = scripted(spec, json!({"kinform.dev/fail": "ImagePullBackOff"}));
    api.create(&set).await.unwrap();
    let made = |set: &StatefulSet| {
        let status = set.status.clone().unwrap_or_default();
        (status.replicas, status.ready_replicas.unwrap_or(0)) == (3, 0)
    };
    api.until("default/x", made).await.unwrap();
    let owner = |claim: &PersistentVolumeClaim| {
        let owners = claim.metadata.owner_references.clone().unwrap_or_default();
        let owners = owners
            .iter()
            .map(|one| format!("{} {}", one.kind, one.name));
        owners.collect::<Vec<_>>().join(", ")
    };
    for claim in all::<PersistentVolumeClaim>(&api).await {
        assert_eq!(owner(&claim), "StatefulSet x");
    }
    patch::<StatefulSet>(&api, json!({"spec": {"replicas": 1}})).await;
    for ordinal in [2, 1] {
        api.until_gone::<Pod>(&format!("default/x-{ordinal}"))
            .await
            .unwrap();
    }
    // The claims go with their pods: as garbage, and when they are no longer protected.
    for ordinal in [2, 1] {
        let claim = format!("default/data-x-{ordinal}");
        api.until_gone::<PersistentVolumeClaim>(&claim)
            .await
            .unwrap();
    }
    let kept: PersistentVolumeClaim = api.get("default/data-x-0").await.unwrap().unwrap();
    assert_eq!(
        (owner(&kept).as_str(), kept.metadata.deletion_timestamp),
        ("StatefulSet x", None)
    );
    let shrunk = |set: &StatefulSet| set.status.as_ref().is_some_and(|s| s.replicas == 1);
    api.until("default/x", shrunk).await.unwrap();
    // New pods have new claims.
    patch::<StatefulSet>(&api, json!({"spec": {"replicas": 3}})).await;
    api.until("default/x", made).await.unwrap();
    let again: PersistentVolumeClaim = api.get("default/data-x-2").await.unwrap().unwrap();
    assert_eq!(owner(&again), "StatefulSet x");
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_pod_is_told_and_comes_when_it_may() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    add_volumes(&api).await;
    let limits: LimitRange = serde_json::from_value(json!({
        "metadata": {"name": "l"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
    }))
    .unwrap();
    api.create(&limits).await.unwrap();
    let container = json!({"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}});
    let template = json!({
        "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]},
    });
    let set = stateful_set(json!({"replicas": 1, "template": template}));
    api.create(&set).await.unwrap();
    let refused = tokio::time::timeout(Duration::from_secs(10), async {
        while told(&api, "FailedCreate").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(refused.await.is_ok());
    let message = &told(&api, "FailedCreate").await[0].0;
    let beginning = "Create Pod x-0 in StatefulSet x failed error: pods \"x-0\" is forbidden: ";
    assert!(message.starts_with(beginning), "{message}");
    api.delete::<LimitRange>("default/l").await.unwrap();
    rolled_out(&api, 1, 1).await;
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_fail_or_lose_their_labels_are_replaced() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    add_volumes(&api).await;
    api.create(&stateful_set(
        json!({"replicas": 2, "revisionHistoryLimit": 0}),
    ))
    .await
    .unwrap();
    rolled_out(&api, 2, 2).await;
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let first = pods.get("x-0").await.unwrap().metadata.uid;
    let failed = json!({"status": {"phase": "Failed"}});
    let failed = Patch::Strategic(failed);
    pods.patch_status("x-0", &PatchParams::default(), &failed)
        .await
        .unwrap();
    let again = |pod: &Pod| pod.metadata.uid != first;
    api.until("default/x-0", again).await.unwrap();
    rolled_out(&api, 2, 2).await;
    // Its name is taken until the released pod is gone.
    let released = Patch::Strategic(json!({"metadata": {"labels": {"app": "y"}}}));
    pods.patch("x-1", &PatchParams::default(), &released)
        .await
        .unwrap();
    let is_free = |pod: &Pod| pod.metadata.owner_references.is_none();
    api.until("default/x-1", is_free).await.unwrap();
    let back = Patch::Strategic(json!({"metadata": {"labels": {"app": "x"}}}));
    pods.patch("x-1", &PatchParams::default(), &back)
        .await
        .unwrap();
    let is_owned = |pod: &Pod| pod.metadata.owner_references.is_some();
    api.until("default/x-1", is_owned).await.unwrap();
    // The history keeps no revision that no pod is of.
    patch::<StatefulSet>(&api, image("img:2")).await;
    api.until_gone::<ControllerRevision>("default/x-f9f8f9d8c")
        .await
        .unwrap();
    rolled_out(&api, 2, 2).await;
    let here = DeleteParams::default();
    pods.delete("x-1", &here).await.unwrap();
    rolled_out(&api, 2, 2).await;
    api.stop().await;
}
