//! Quotas of a namespace under many writers.

use futures::future::join_all;
use http::Method;
use kinform_apiserver::{Server, Service};
use serde_json::{Value, json};

use crate::support::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s15_a_quota_that_64_writers_race_for_is_never_exceeded() {
    let (server, service) = server().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "10"}}});
    assert_eq!(send(&service, Method::POST, QUOTAS, quota).await.0, 201);
    let (_, mut quota) = get(&service, &format!("{QUOTAS}/q")).await;
    quota["status"] = json!({"hard": {"configmaps": "10"}, "used": {"configmaps": "0"}});
    let path = format!("{QUOTAS}/q/status");
    assert_eq!(send(&service, Method::PUT, &path, quota).await.0, 200);
    let writers = (0..64).map(|at| {
        let service = server.service();
        tokio::spawn(async move {
            let map = json!({"metadata": {"name": format!("m{at}")}});
            send(&service, Method::POST, MAPS, map).await.0
        })
    });
    let codes: Vec<u16> = join_all(writers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let count = |wanted| codes.iter().filter(|code| **code == wanted).count();
    // A writer that loses every race gets a conflict.
    assert_eq!((count(201), count(403) + count(409)), (10, 54), "{codes:?}");
    let (_, maps) = get(&service, MAPS).await;
    assert_eq!(maps["items"].as_array().unwrap().len(), 10);
    let (_, quota) = get(&service, &format!("{QUOTAS}/q")).await;
    assert_eq!(quota["status"]["used"]["configmaps"], "10");
}

/// A server that counts quotas.
fn counting() -> Server {
    Server::builder()
        .plain()
        .with_namespace_content()
        .in_process()
}

/// Waits until a quota says that so much of `what` is used.
async fn used(service: &Service, what: &str, amount: &str) {
    let mut seen = Value::Null;
    // Each look lets the count run; a count is a handful of polls.
    for _ in 0..10_000 {
        seen = get(service, &format!("{QUOTAS}/q")).await.1;
        if seen["status"]["used"][what] == amount {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("{what} is not {amount}: {}", seen["status"]);
}

#[tokio::test]
async fn s16_what_is_deleted_or_has_ended_may_be_used_again() {
    let server = counting();
    let service = server.service();
    let hard = json!({"configmaps": "2", "pods": "1", "count/deployments.apps": "3"});
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(send(&service, Method::POST, QUOTAS, quota).await.0, 201);
    // The namespace's own map counts.
    used(&service, "configmaps", "1").await;
    let (_, quota) = get(&service, &format!("{QUOTAS}/q")).await;
    assert_eq!(quota["status"]["hard"], hard);
    let map = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(send(&service, Method::POST, MAPS, map("a")).await.0, 201);
    assert_eq!(send(&service, Method::POST, MAPS, map("b")).await.0, 403);
    let path = format!("{MAPS}/a");
    let gone = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!(gone.0, 200);
    used(&service, "configmaps", "1").await;
    assert_eq!(send(&service, Method::POST, MAPS, map("b")).await.0, 201);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(send(&service, Method::POST, pods, pod("a")).await.0, 201);
    assert_eq!(send(&service, Method::POST, pods, pod("b")).await.0, 403);
    let (_, mut ended) = get(&service, &format!("{pods}/a")).await;
    ended["status"]["phase"] = "Succeeded".into();
    let path = format!("{pods}/a/status");
    assert_eq!(send(&service, Method::PUT, &path, ended).await.0, 200);
    used(&service, "pods", "0").await;
    assert_eq!(send(&service, Method::POST, pods, pod("b")).await.0, 201);
    // A quota that is changed is counted again.
    let (_, mut quota) = get(&service, &format!("{QUOTAS}/q")).await;
    quota["spec"]["hard"] = json!({"configmaps": "5", "count/pods": "9"});
    let path = format!("{QUOTAS}/q");
    assert_eq!(send(&service, Method::PUT, &path, quota).await.0, 200);
    used(&service, "count/pods", "2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_count_among_writers_never_lets_a_quota_be_exceeded() {
    let server = counting();
    let service = server.service();
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "10"}}});
    assert_eq!(send(&service, Method::POST, QUOTAS, quota).await.0, 201);
    used(&service, "configmaps", "1").await;
    let writers = (0..16).map(|writer| {
        let service = server.service();
        tokio::spawn(async move {
            for round in 0..30 {
                let name = format!("m{writer}-{round}");
                let map = json!({"metadata": {"name": name}});
                let made = send(&service, Method::POST, MAPS, map).await.0;
                let (_, maps) = get(&service, MAPS).await;
                let count = maps["items"].as_array().unwrap().len();
                assert!(count <= 10, "{count} maps");
                if made == 201 {
                    let path = format!("{MAPS}/{name}");
                    let gone = send(&service, Method::DELETE, &path, Value::Null).await;
                    assert_eq!(gone.0, 200);
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    used(&service, "configmaps", "1").await;
}

// kubernetes: ResourceQuota "volume attributes class scope" of its e2e specs
#[tokio::test]
async fn a_claim_counts_for_the_quotas_of_the_classes_that_it_names() {
    let server = counting();
    let service = server.service();
    let scope = json!({"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]});
    let quota = json!({"metadata": {"name": "q"}, "spec": {
        "hard": {"persistentvolumeclaims": "1"}, "scopeSelector": {"matchExpressions": [scope]}}});
    assert_eq!(send(&service, Method::POST, QUOTAS, quota).await.0, 201);
    used(&service, "persistentvolumeclaims", "0").await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = |name: &str, class: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "volumeAttributesClassName": class, "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let make = async |name: &str, class: &str| {
        let (code, _) = send(&service, Method::POST, claims, claim(name, class)).await;
        code
    };
    assert_eq!(make("a", "silver").await, 201);
    used(&service, "persistentvolumeclaims", "0").await;
    assert_eq!(make("b", "gold").await, 201);
    used(&service, "persistentvolumeclaims", "1").await;
    assert_eq!(make("c", "gold").await, 403);
    // It is still on its way from the other class.
    let path = format!("{claims}/b/status");
    let (_, mut moved) = get(&service, &format!("{claims}/b")).await;
    moved["status"] = json!({"phase": "Bound", "currentVolumeAttributesClassName": "gold"});
    assert_eq!(send(&service, Method::PUT, &path, moved).await.0, 200);
    let (_, mut moved) = get(&service, &format!("{claims}/b")).await;
    moved["spec"]["volumeAttributesClassName"] = "silver".into();
    let path = format!("{claims}/b");
    assert_eq!(send(&service, Method::PUT, &path, moved).await.0, 200);
    used(&service, "persistentvolumeclaims", "1").await;
    let (_, mut moved) = get(&service, &path).await;
    moved["status"]["currentVolumeAttributesClassName"] = "silver".into();
    let path = format!("{path}/status");
    assert_eq!(send(&service, Method::PUT, &path, moved).await.0, 200);
    used(&service, "persistentvolumeclaims", "0").await;
}

// kubernetes: TestPodsResize of the quota's and the limit ranger's integration tests
#[tokio::test]
async fn a_pod_is_resized_within_quotas_and_limits() {
    const NAMESPACE: &str = "/api/v1/namespaces/default";
    let (_server, service) = server().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "300m"}}});
    assert_eq!(send(&service, Method::POST, QUOTAS, quota).await.0, 201);
    let (_, mut quota) = get(&service, &format!("{QUOTAS}/q")).await;
    quota["status"] = json!({"hard": {"requests.cpu": "300m"}, "used": {"requests.cpu": "0"}});
    let path = format!("{QUOTAS}/q/status");
    assert_eq!(send(&service, Method::PUT, &path, quota).await.0, 200);
    let pod = |cpu: &str| {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i",
            "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "1"}}}]}})
    };
    let pods = format!("{NAMESPACE}/pods");
    assert_eq!(
        send(&service, Method::POST, &pods, pod("100m")).await.0,
        201
    );
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [
        {"type": "Container", "min": {"cpu": "50m"}}]}});
    let path = format!("{NAMESPACE}/limitranges");
    assert_eq!(send(&service, Method::POST, &path, range).await.0, 201);
    let resize = async |cpu: &str| {
        let path = format!("{pods}/p/resize");
        let (_, mut pod) = get(&service, &format!("{pods}/p")).await;
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(cpu);
        let (code, reply) = send(&service, Method::PUT, &path, pod).await;
        (
            code,
            reply["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let refused = |why: &str| (403, format!("pods \"p\" is forbidden: {why}"));
    let minimum = "minimum cpu usage per Container is 50m, but request is 10m";
    assert_eq!(resize("10m").await, refused(minimum));
    let quota = "exceeded quota: q, requested: requests.cpu=300m, used: requests.cpu=100m, \
                 limited: requests.cpu=300m";
    assert_eq!(resize("400m").await, refused(quota));
    assert_eq!(resize("200m").await.0, 200);
    let (_, quota) = get(&service, &format!("{QUOTAS}/q")).await;
    assert_eq!(quota["status"]["used"]["requests.cpu"], "200m");
}
