//! Preemption by the built-in scheduler: the end of the recorded story of a real one.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{ListParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

/// Adds a node of 4 CPUs. The kubelet has seen it then, and makes no other.
pub(crate) async fn add_node(api: &TestServer, name: &str) {
    let node = json!({
        "metadata": {"name": name}, "status": {"capacity": {"cpu": "4", "pods": "110"}},
    });
    let node: Node = serde_json::from_value(node).unwrap();
    api.create(&node).await.unwrap();
    let is_ready = |node: &Node| {
        let status = node.status.as_ref();
        status.is_some_and(|status| status.conditions.is_some())
    };
    api.until(name, is_ready).await.unwrap();
}

async fn add_pod(api: &TestServer, name: &str, cpu: &str, class: Option<&str>) -> Pod {
    let container = json!({
        "name": "c", "image": "img:1", "resources": {"requests": {"cpu": cpu}},
    });
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"containers": [container], "priorityClassName": class},
    });
    api.create(&serde_json::from_value(pod).unwrap())
        .await
        .unwrap()
}

/// Waits until a pod runs, and returns its node.
async fn node_of(api: &TestServer, name: &str) -> Option<String> {
    let runs = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.phase.as_deref()) == Some("Running")
    };
    let pod: Pod = api.until(&format!("default/{name}"), runs).await.unwrap();
    pod.spec.and_then(|spec| spec.node_name)
}

/// The messages of the events about a pod with a reason.
async fn told(api: &TestServer, about: &str, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(api.client());
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let is = |event: &Event| {
        event.involved_object.name.as_deref() == Some(about)
            && event.reason.as_deref() == Some(reason)
    };
    let events = events.into_iter().filter(is);
    events.filter_map(|event| event.message).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_lower_priority_goes_for_one_of_higher() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    let of_json = |value: Value| serde_json::from_value::<PriorityClass>(value).unwrap();
    let class = json!({"metadata": {"name": "cp-high"}, "value": 1000});
    api.create(&of_json(class)).await.unwrap();
    for name in ["node-a", "node-b"] {
        add_node(&api, name).await;
    }
    for (name, node) in [("fill-a", "node-a"), ("fill-b", "node-b")] {
        add_pod(&api, name, "3500m", None).await;
        assert_eq!(node_of(&api, name).await.as_deref(), Some(node));
    }
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let begin = pods.list(&ListParams::default()).await.unwrap();
    let begin = begin.metadata.resource_version.unwrap();
    let important = add_pod(&api, "important", "3", Some("cp-high")).await;
    assert_eq!(node_of(&api, "important").await.as_deref(), Some("node-a"));
    api.until_gone::<Pod>("default/fill-a").await.unwrap();
    assert_eq!(node_of(&api, "fill-b").await.as_deref(), Some("node-b"));

    // As recorded of a real scheduler.
    let why = "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement \
               for pod on node node-a, preempting 1 victims";
    let preempted = format!(
        "Preempted by pod {} on node node-a",
        important.metadata.uid.unwrap()
    );
    let all = tokio::time::timeout(Duration::from_secs(10), async {
        while told(&api, "fill-a", "Preempted").await != [preempted.as_str()] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(all.await.is_ok());
    assert_eq!(told(&api, "important", "FailedScheduling").await, [why]);
    let params = WatchParams::default().timeout(1);
    let mut stream = pods.watch(&params, &begin).await.unwrap().boxed();
    let mut steps = Vec::new();
    while let Some(event) = stream.next().await {
        let WatchEvent::Modified(pod) = event.unwrap() else {
            continue;
        };
        let status = pod.status.unwrap_or_default();
        for condition in status.conditions.unwrap_or_default() {
            let reason = condition.reason.unwrap_or_default();
            let step = (pod.metadata.name.clone().unwrap_or_default(), reason);
            let counts = ["Unschedulable", "PreemptionByScheduler"].contains(&&*step.1);
            if counts && !steps.contains(&step) {
                steps.push(step);
            }
        }
        if pod.metadata.name.as_deref() == Some("important") {
            assert_eq!(
                status.nominated_node_name.as_deref().unwrap_or("node-a"),
                "node-a"
            );
        }
    }
    let expected = [
        ("important", "Unschedulable"),
        ("fill-a", "PreemptionByScheduler"),
    ];
    let expected = expected.map(|(name, reason)| (name.to_owned(), reason.to_owned()));
    assert_eq!(steps, expected);
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_without_a_higher_priority_waits() {
    let api = TestServer::start().in_process().with_controllers();
    let api = api.await.unwrap();
    add_node(&api, "n").await;
    add_pod(&api, "first", "3", None).await;
    node_of(&api, "first").await;
    add_pod(&api, "second", "3", None).await;
    let refused = |pod: &Pod| {
        let conditions = pod.status.as_ref().and_then(|s| s.conditions.clone());
        let why = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: \
                   1 No preemption victims found for incoming pod.";
        let mut messages = conditions.into_iter().flatten().filter_map(|c| c.message);
        messages.any(|message| message == why)
    };
    api.until("default/second", refused).await.unwrap();
    api.delete::<Pod>("default/first").await.unwrap();
    assert_eq!(node_of(&api, "second").await.as_deref(), Some("n"));
    api.stop().await;
}
