//! Autoscalers beside a test's server: usage that pods state, and usage that objects measure.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::story::{object, start};

/// A Deployment of one pod that states its usage, and its autoscaler: 45 percent, one to six pods.
async fn begin(api: &TestServer, annotations: Value) {
    let deployment: Deployment = object(json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "img:1",
                    "resources": {"requests": {"cpu": "100m"}}}]},
            },
        },
    }));
    api.create(&deployment).await.unwrap();
    let is_ready = |deployment: &Deployment| {
        let status = deployment.status.as_ref();
        status.and_then(|status| status.ready_replicas) == Some(1)
    };
    api.until("default/x", is_ready).await.unwrap();
    let autoscaler: HorizontalPodAutoscaler = object(json!({
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {
            "maxReplicas": 6,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 45}}}],
        },
    }));
    api.create(&autoscaler).await.unwrap();
}

/// Waits for this number of wanted pods and this reason of a condition, a look at a time. Returns the
/// status.
async fn until(api: &TestServer, wanted: i32, (condition, reason): (&str, &str)) -> Value {
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(api.client());
    for _ in 0..40 {
        let status = autoscalers.get("x").await.unwrap().status.unwrap();
        let mut conditions = status.conditions.iter().flatten();
        let is_told =
            conditions.any(|one| one.type_ == condition && one.reason.as_deref() == Some(reason));
        if status.desired_replicas == wanted && is_told {
            return serde_json::to_value(status).unwrap();
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
    }
    panic!("never {wanted} and {reason}");
}

async fn told(api: &TestServer, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(api.client());
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events.sort_by_key(|event| event.first_timestamp.clone());
    events
        .into_iter()
        .filter_map(|event| event.message)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_workload_is_sized_by_the_usage_that_its_pods_state() {
    let api = start().await;
    begin(&api, json!({"kinform.dev/cpu-usage": "90m"})).await;
    let limited = until(&api, 6, ("ScalingLimited", "TooManyReplicas")).await;
    let usage = &limited["currentMetrics"][0]["resource"]["current"];
    assert_eq!(
        *usage,
        json!({"averageUtilization": 90, "averageValue": "90m"})
    );
    let why = "reason: cpu resource utilization (percentage of request) above target";
    let expected = [2, 4, 6].map(|size| format!("New size: {size}; {why}"));
    assert_eq!(told(&api, "SuccessfulRescale").await, expected);
    // The usage falls: the size follows when no greater one was recommended for five minutes.
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let calm = Patch::Merge(json!({"metadata": {"annotations": {"kinform.dev/cpu-usage": "10m"}}}));
    for pod in pods.list(&ListParams::default()).await.unwrap().items {
        let name = pod.metadata.name.unwrap();
        pods.patch(&name, &PatchParams::default(), &calm)
            .await
            .unwrap();
    }
    let began = Instant::now();
    until(&api, 6, ("AbleToScale", "ScaleDownStabilized")).await;
    until(&api, 2, ("ScalingLimited", "DesiredWithinRange")).await;
    let waited = began.elapsed();
    // Five minutes, a look of the controller, and one of the test.
    let window = Duration::from_secs(285)..=Duration::from_secs(330);
    assert!(window.contains(&waited), "{waited:?}");
    assert_eq!(
        told(&api, "SuccessfulRescale").await.last().unwrap(),
        "New size: 2; reason: All metrics below target"
    );
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pod_metrics_of_a_definition_come_before_annotations() {
    let api = start().await;
    let definition: CustomResourceDefinition = object(json!({
        "metadata": {"name": "pods.metrics.k8s.io", "annotations": {
            "api-approved.kubernetes.io": "https://github.com/kubernetes/metrics",
        }},
        "spec": {
            "group": "metrics.k8s.io", "scope": "Namespaced",
            "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics"},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    }));
    api.create(&definition).await.unwrap();
    let resource = ApiResource {
        group: "metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "metrics.k8s.io/v1beta1".to_owned(),
        kind: "PodMetrics".to_owned(),
        plural: "pods".to_owned(),
    };
    begin(&api, json!({})).await;
    let reason = ("ScalingActive", "FailedGetResourceMetric");
    // As upstream: no size is wanted until one was computed.
    until(&api, 0, reason).await;
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let pod = &pods.list(&ListParams::default()).await.unwrap().items[0];
    // By its annotation the pod is idle.
    let idle = Patch::Merge(json!({"metadata": {"annotations": {"kinform.dev/cpu-usage": "1m"}}}));
    let name = pod.metadata.name.as_deref().unwrap();
    pods.patch(name, &PatchParams::default(), &idle)
        .await
        .unwrap();
    let status = until(&api, 1, ("ScalingActive", "ValidMetricFound")).await;
    let usage = &status["currentMetrics"][0]["resource"]["current"];
    assert_eq!(usage["averageUtilization"], 1);
    let metrics: DynamicObject = object(json!({
        "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
        "metadata": {"name": pod.metadata.name, "namespace": "default", "labels": {"app": "x"}},
        "timestamp": "2030-01-01T00:00:00Z", "window": "15s",
        "containers": [{"name": "c", "usage": {"cpu": "130m"}}],
    }));
    let all: Api<DynamicObject> = Api::namespaced_with(api.client(), "default", &resource);
    all.create(&PostParams::default(), &metrics).await.unwrap();
    let status = until(&api, 3, ("ScalingActive", "ValidMetricFound")).await;
    let usage = &status["currentMetrics"][0]["resource"]["current"];
    assert_eq!(usage["averageUtilization"], 130);
    api.stop().await;
}
