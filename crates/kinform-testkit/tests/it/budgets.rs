//! Disruption budgets beside a test's server, under paused time: statuses and evictions as a real
//! controller of Kubernetes 1.37 was seen to make them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use kinform_controlplane::{ControllerName, Selection};
use kinform_testkit::TestServer;
use kube_client::Api;
use kube_client::api::{EvictParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::story::{events_of, job, object, start};

fn deployment(replicas: i32) -> Deployment {
    object(json!({
        "metadata": {"name": "x"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]}},
        },
    }))
}

fn budget(spec: Value) -> PodDisruptionBudget {
    let mut budget = json!({
        "metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "x"}}},
    });
    for (field, value) in spec.as_object().unwrap() {
        budget["spec"][field] = value.clone();
    }
    object(budget)
}

/// The numbers of a status: expected, desired, healthy, allowed.
fn numbers(status: &PodDisruptionBudgetStatus) -> [i32; 4] {
    [
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
    ]
    .map(|count| count.unwrap_or(0))
}

async fn until(api: &TestServer, expected: [i32; 4]) -> PodDisruptionBudgetStatus {
    let is = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().is_some_and(|status| {
            numbers(status) == expected && status.observed_generation == budget.metadata.generation
        })
    };
    api.until("default/b", is).await.unwrap().status.unwrap()
}

fn reason(status: &PodDisruptionBudgetStatus) -> (String, String) {
    let condition = &status.conditions.as_ref().unwrap()[0];
    assert_eq!(condition.type_, "DisruptionAllowed");
    (condition.status.clone(), condition.reason.clone())
}

async fn evict(api: &TestServer, pod: &str) -> Result<(), (u16, String)> {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    match pods.evict(pod, &EvictParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube_client::Error::Api(status)) => {
            let details = status.details.iter();
            let mut causes = details.flat_map(|details| &details.causes);
            let cause = causes.next().map(|cause| cause.message.clone());
            Err((status.code, cause.unwrap_or_default()))
        }
        Err(error) => panic!("{error}"),
    }
}

// As recorded: two pods, one of which must be there.
#[tokio::test(start_paused = true)]
async fn one_pod_may_be_evicted_at_a_time() {
    let api = start().await;
    api.create(&budget(json!({"minAvailable": 1})))
        .await
        .unwrap();
    let none = until(&api, [0, 1, 0, 0]).await;
    assert_eq!(
        reason(&none),
        ("False".to_owned(), "InsufficientPods".to_owned())
    );
    assert_eq!(
        events_of(&api, "PodDisruptionBudget", "b").await,
        ["Normal NoPods: No matching pods found"]
    );
    api.create(&deployment(2)).await.unwrap();
    let ready = until(&api, [2, 1, 2, 1]).await;
    assert_eq!(
        reason(&ready),
        ("True".to_owned(), "SufficientPods".to_owned())
    );
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let names: Vec<String> = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .items
        .into_iter()
        .map(|pod| pod.metadata.name.unwrap())
        .collect();
    assert_eq!(evict(&api, &names[0]).await, Ok(()));
    let (code, cause) = evict(&api, &names[1]).await.unwrap_err();
    assert_eq!(code, 429);
    let expected = "The disruption budget b needs 1 healthy pods and has ";
    assert!(cause.starts_with(expected), "{cause}");
    // The pod is replaced, and another one may go.
    let again = until(&api, [2, 1, 2, 1]).await;
    assert_eq!(again.disrupted_pods, None);
    assert_eq!(evict(&api, &names[1]).await, Ok(()));
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn parts_are_of_what_the_owners_ask_for() {
    let api = start().await;
    api.create(&deployment(5)).await.unwrap();
    api.create(&budget(json!({"maxUnavailable": "30%"})))
        .await
        .unwrap();
    until(&api, [5, 3, 5, 2]).await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(api.client());
    let patch = Patch::Merge(json!({"spec": {"maxUnavailable": null, "minAvailable": "50%"}}));
    budgets
        .patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until(&api, [5, 3, 5, 2]).await;
    let patch = Patch::Merge(json!({"spec": {"minAvailable": null, "maxUnavailable": 1}}));
    budgets
        .patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
    until(&api, [5, 4, 5, 1]).await;
    api.stop().await;
}

/// A pod of an owner, ready; the test plays everything but the budgets.
async fn owned_pod(api: &TestServer, name: &str, owner: Value) {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]},
    });
    if !owner.is_null() {
        pod["metadata"]["ownerReferences"] = json!([owner]);
    }
    api.create(&object::<Pod>(pod)).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready))
        .await
        .unwrap();
}

async fn start_with_budgets_alone() -> TestServer {
    let only: Selection = [ControllerName::Disruption].into_iter().collect();
    let api = TestServer::start()
        .in_process()
        .with_selected_controllers(only);
    api.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn owners_of_any_kind_are_asked_for_their_scale() {
    let api = start_with_budgets_alone().await;
    let set: StatefulSet = object(json!({
        "metadata": {"name": "s"},
        "spec": {"replicas": 3, "serviceName": "s", "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}},
                "spec": {"containers": [{"name": "c", "image": "img:1"}]}}},
    }));
    let uid = api.create(&set).await.unwrap().metadata.uid;
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid, "controller": true});
    owned_pod(&api, "s-0", owner).await;
    api.create(&budget(json!({"maxUnavailable": 1})))
        .await
        .unwrap();
    until(&api, [3, 2, 1, 0]).await;
    // A pod without an owner does not count, and an event says so.
    owned_pod(&api, "alone", Value::Null).await;
    until(&api, [3, 2, 2, 0]).await;
    let events = events_of(&api, "PodDisruptionBudget", "b").await;
    let told = "Warning UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{app: x,},MatchExpressions:[]LabelSelectorRequirement{},})";
    assert!(
        events.iter().any(|event| event.starts_with(told)),
        "{events:?}"
    );
    // A Job has no scale.
    let made = api.create(&job("j", json!({}), json!({}))).await.unwrap();
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j",
        "uid": made.metadata.uid, "controller": true});
    owned_pod(&api, "j", owner).await;
    let failed = |budget: &PodDisruptionBudget| {
        let conditions = budget
            .status
            .as_ref()
            .and_then(|status| status.conditions.clone());
        conditions.unwrap_or_default().iter().any(|one| {
            one.reason == "SyncFailed"
                && one.message == "jobs.batch does not implement the scale subresource"
        })
    };
    api.until("default/b", failed).await.unwrap();
    api.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_eviction_without_an_end_is_forgotten_after_two_minutes() {
    let api = start_with_budgets_alone().await;
    owned_pod(&api, "p", Value::Null).await;
    api.create(&budget(json!({"minAvailable": 0})))
        .await
        .unwrap();
    let status = until(&api, [1, 0, 1, 1]).await;
    let now = status.conditions.unwrap()[0].last_transition_time.clone();
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(api.client());
    let evicted = Patch::Merge(json!({"status": {"disruptedPods": {"p": now}}}));
    let begin = Instant::now();
    budgets
        .patch_status("b", &PatchParams::default(), &evicted)
        .await
        .unwrap();
    let counted = until(&api, [1, 0, 0, 0]).await;
    assert_eq!(counted.disrupted_pods.unwrap().len(), 1);
    tokio::time::sleep(Duration::from_secs(115)).await;
    let forgotten = until(&api, [1, 0, 1, 1]).await;
    assert_eq!(forgotten.disrupted_pods, None);
    assert!(begin.elapsed() > Duration::from_secs(118));
    let events = events_of(&api, "Pod", "p").await;
    assert_eq!(
        events,
        ["Warning NotDeleted: Pod was expected by PDB default/default to be deleted but it wasn't"]
    );
    api.stop().await;
}
