//! Dependents of an owner that is deleted.
//!
//! Upstream: `kubernetes/kubernetes:test/integration/garbagecollector`,
//! `test/e2e/apimachinery/garbage_collector.go`.

use http::Method;
use kinform_apiserver::{Seed, Server, Service};
use serde_json::{Value, json};

use crate::support::{Watch, get, namespace, send, server};

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

async fn post(service: &Service, path: &str, body: Value) -> Value {
    let (code, object) = send(service, Method::POST, path, body).await;
    assert_eq!(code, 201, "{object}");
    object
}

/// A reference to an owner.
fn owned_by(owner: &Value, blocks: bool) -> Value {
    json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks})
}

/// Creates a config map with owners.
async fn map(service: &Service, name: &str, owners: &[Value]) -> Value {
    let metadata = json!({"name": name, "ownerReferences": owners});
    post(service, MAPS, json!({"metadata": metadata})).await
}

async fn delete(service: &Service, path: &str, options: Value) -> Value {
    let (code, reply) = send(service, Method::DELETE, path, options).await;
    assert_eq!(code, 200, "{reply}");
    reply
}

async fn merge(service: &Service, path: &str, body: Value) {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(bytes::Bytes::from(body.to_string()))
        .unwrap();
    assert_eq!(service.call(request).await.status(), 200);
}

/// The names of the remaining maps.
async fn left(service: &Service) -> Vec<String> {
    let (_, list) = get(service, MAPS).await;
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

// kubernetes: TestCascadingDeletion
#[tokio::test(start_paused = true)]
async fn in_the_background_dependents_follow_their_owner_through_generations() {
    let (server, service) = server().await;
    let owner = map(&service, "owner", &[]).await;
    let child = map(&service, "child", &[owned_by(&owner, true)]).await;
    map(&service, "grandchild", &[owned_by(&child, false)]).await;
    map(&service, "stranger", &[]).await;
    let mut watch = Watch::open(
        &service,
        &format!(
            "{MAPS}?watch=1&resourceVersion={}",
            server.store().revision()
        ),
    )
    .await;
    delete(&service, &format!("{MAPS}/owner"), Value::Null).await;
    assert_eq!(left(&service).await, ["stranger"]);
    for name in ["owner", "child", "grandchild"] {
        let told = watch.tell().await;
        assert!(told.starts_with(&format!("DELETED a/{name} ")), "{told}");
    }
    let by_collector = |verb: &str| {
        let records = server.journal().records();
        let of = records.iter().filter(|record| record.controller.is_some());
        of.filter(|record| record.verb == verb).count()
    };
    assert_eq!(by_collector("delete"), 2);
    assert_eq!(server.journal().count("delete", "configmaps"), 1);
}

#[tokio::test(start_paused = true)]
async fn in_the_foreground_the_owner_goes_after_those_who_block_it() {
    let (_server, service) = server().await;
    let owner = map(&service, "owner", &[]).await;
    let held = map(&service, "held", &[owned_by(&owner, true)]).await;
    map(&service, "free", &[owned_by(&owner, false)]).await;
    assert_eq!(held["metadata"]["name"], "held");
    merge(
        &service,
        &format!("{MAPS}/held"),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    )
    .await;
    let options = json!({"propagationPolicy": "Foreground"});
    let reply = delete(&service, &format!("{MAPS}/owner"), options).await;
    assert_eq!(
        reply["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    // The dependent that does not block waits for the owner to be removed.
    assert_eq!(left(&service).await, ["free", "held", "owner"]);
    let (_, held) = get(&service, &format!("{MAPS}/held")).await;
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    merge(
        &service,
        &format!("{MAPS}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(left(&service).await, Vec::<String>::new());
}

// kubernetes: TestOrphaning
#[tokio::test(start_paused = true)]
async fn orphans_stay_and_forget_their_owner() {
    let (_server, service) = server().await;
    let owner = map(&service, "owner", &[]).await;
    let other = map(&service, "other", &[]).await;
    map(
        &service,
        "child",
        &[owned_by(&owner, true), owned_by(&other, true)],
    )
    .await;
    let options = json!({"propagationPolicy": "Orphan"});
    delete(&service, &format!("{MAPS}/owner"), options).await;
    assert_eq!(left(&service).await, ["child", "other"]);
    let (_, child) = get(&service, &format!("{MAPS}/child")).await;
    let owners = child["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.len(), 1);
    assert_eq!(owners[0]["name"], "other");
}

// kubernetes: TestOrphaning, with a pod that runs: it is marked first, and gone later
#[tokio::test(start_paused = true)]
async fn a_running_pod_goes_as_its_delete_said() {
    let (_server, service) = server().await;
    let pods = "/api/v1/namespaces/a/pods";
    let pod = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": [
            {"name": "c", "image": "i"}]}})
    };
    for (name, policy, want) in [
        ("orphaned", "Orphan", vec!["of-orphaned"]),
        ("waited", "Foreground", vec!["of-orphaned", "of-waited"]),
        ("plain", "Background", vec!["of-orphaned", "of-waited"]),
    ] {
        let owner = post(&service, pods, pod(name)).await;
        let metadata = json!({"name": format!("of-{name}"),
            "ownerReferences": [owned_by(&owner, true)],
            "finalizers": (name == "waited").then_some(["example.com/hold"])});
        post(&service, MAPS, json!({"metadata": metadata})).await;
        let path = format!("{pods}/{name}");
        delete(&service, &path, json!({"propagationPolicy": policy})).await;
        assert_eq!(left(&service).await, want);
        // A foreground deletion removes the owner after its blocking dependents.
        let there = get(&service, &path).await.0;
        assert_eq!(there, if name == "waited" { 200 } else { 404 }, "{name}");
    }
    let (_, orphan) = get(&service, &format!("{MAPS}/of-orphaned")).await;
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
}

// kubernetes: TestCreateWithNonExistentOwner
#[tokio::test(start_paused = true)]
async fn s9_owners_that_are_not_there_do_not_count() {
    let (_server, service) = server().await;
    namespace(&service, "b").await;
    let there = map(&service, "there", &[]).await;
    let mut other_uid = owned_by(&there, false);
    other_uid["uid"] = json!("0e9a1d6c-0000-4000-8000-000000000000");
    map(&service, "wrong-uid", std::slice::from_ref(&other_uid)).await;
    map(
        &service,
        "one-of-two",
        &[owned_by(&there, false), other_uid.clone()],
    )
    .await;
    let owners = [other_uid, owned_by(&there, false)];
    map(&service, "other-of-two", &owners).await;
    let elsewhere = json!({"metadata": {"name": "elsewhere",
        "ownerReferences": [owned_by(&there, false)]}});
    post(&service, "/api/v1/namespaces/b/configmaps", elsewhere).await;
    let mut unknown = owned_by(&there, false);
    unknown["kind"] = json!("Nope");
    map(&service, "unknown-kind", &[unknown]).await;
    // An owner of another namespace does not exist; an owner of a kind that is not served cannot be
    // judged.
    assert_eq!(
        left(&service).await,
        ["one-of-two", "other-of-two", "there", "unknown-kind"]
    );
    for name in ["one-of-two", "other-of-two"] {
        let (_, object) = get(&service, &format!("{MAPS}/{name}")).await;
        let owners = &object["metadata"]["ownerReferences"];
        assert_eq!(*owners, json!([owned_by(&there, false)]), "{name}");
    }
    let (code, _) = get(&service, "/api/v1/namespaces/b/configmaps/elsewhere").await;
    assert_eq!(code, 404);
}

// kubernetes: TestBlockingOwnerRefDoesBlock, TestDoubleDeletionWithFinalizer (circles of owners)
#[tokio::test(start_paused = true)]
async fn owners_in_a_circle_go_together() {
    let (_server, service) = server().await;
    let first = map(&service, "first", &[]).await;
    let second = map(&service, "second", &[owned_by(&first, true)]).await;
    let owners = json!({"metadata": {"ownerReferences": [owned_by(&second, true)]}});
    merge(&service, &format!("{MAPS}/first"), owners).await;
    let options = json!({"propagationPolicy": "Foreground"});
    delete(&service, &format!("{MAPS}/first"), options).await;
    assert_eq!(left(&service).await, Vec::<String>::new());
}

// kubernetes: TestClusterScopedOwners
#[tokio::test(start_paused = true)]
async fn objects_of_the_cluster_own_those_of_namespaces_and_jobs_let_theirs_go() {
    let (_server, service) = server().await;
    let node = json!({"metadata": {"name": "n"}});
    let node = post(&service, "/api/v1/nodes", node).await;
    map(&service, "of-node", &[owned_by(&node, false)]).await;
    delete(&service, "/api/v1/nodes/n", Value::Null).await;
    assert_eq!(left(&service).await, Vec::<String>::new());
    let jobs = "/apis/batch/v1/namespaces/a/jobs";
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let job = post(&service, jobs, job).await;
    map(&service, "of-job", &[owned_by(&job, true)]).await;
    delete(&service, &format!("{jobs}/j"), Value::Null).await;
    assert_eq!(left(&service).await, ["of-job"]);
    assert_eq!(get(&service, &format!("{jobs}/j")).await.0, 404);
}

// kubernetes: TestCustomResourceCascadingDeletion
#[tokio::test(start_paused = true)]
async fn a_custom_owner_in_the_foreground_goes_after_its_custom_dependents() {
    let (server, service) = server().await;
    let definition = json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(&service, definitions, definition).await;
    let foos = "/apis/example.com/v1/namespaces/a/foos";
    let foo = |name: &str, owners: Value| {
        json!({"apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {"name": name, "ownerReferences": owners}})
    };
    let owner = post(&service, foos, foo("owner", json!([]))).await;
    let owners = json!([owned_by(&owner, true)]);
    post(&service, foos, foo("dependent", owners)).await;
    let since = server.store().revision();
    let path = format!("{foos}?watch=1&resourceVersion={since}");
    let mut watch = Watch::open(&service, &path).await;
    let options = json!({"propagationPolicy": "Foreground"});
    delete(&service, &format!("{foos}/owner"), options).await;
    for told in ["MODIFIED owner", "DELETED dependent", "DELETED owner"] {
        let event = watch.next().await.unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap();
        assert_eq!(format!("{} {name}", event["type"].as_str().unwrap()), told);
    }
    for name in ["owner", "dependent"] {
        assert_eq!(get(&service, &format!("{foos}/{name}")).await.0, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_not_written_by_requests_is_not_judged() {
    let server = Server::builder().in_process();
    server.seed(Seed {
        seed: 1,
        nodes: 2,
        deployments: 3,
        pods: 50,
    });
    let service = server.service();
    namespace(&service, "a").await;
    let pods = |server: &Server| server.objects("pods").len();
    assert_eq!(pods(&server), 50);
    // Their owners never existed; a new label does not change that.
    let pod = server.objects("pods")[0].clone();
    let path = format!(
        "/api/v1/namespaces/{}/pods/{}",
        pod.namespace().unwrap(),
        pod.name()
    );
    merge(&service, &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(pods(&server), 50);
}

#[tokio::test(start_paused = true)]
async fn without_a_collector_everything_stays() {
    let server = Server::builder().without_garbage_collection().in_process();
    let service = server.service();
    namespace(&service, "a").await;
    let owner = map(&service, "owner", &[]).await;
    map(&service, "child", &[owned_by(&owner, true)]).await;
    let options = json!({"propagationPolicy": "Orphan"});
    delete(&service, &format!("{MAPS}/owner"), options).await;
    assert_eq!(left(&service).await, ["child", "owner"]);
}

// kubernetes: test/e2e/apimachinery/namespace.go, pkg/controller/namespace/deletion
#[tokio::test(start_paused = true)]
async fn a_namespace_says_what_it_waits_for() {
    let (_server, service) = server().await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    post(&service, MAPS, held).await;
    delete(&service, "/api/v1/namespaces/a", Value::Null).await;
    let (_, namespace) = get(&service, "/api/v1/namespaces/a").await;
    let condition = |name: &str| {
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|of| of["type"] == name).unwrap();
        (
            found["status"].clone(),
            found["message"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(
        condition("NamespaceContentRemaining"),
        (
            json!("True"),
            "Some resources are remaining: configmaps. has 1 resource instances".to_owned()
        )
    );
    assert_eq!(
        condition("NamespaceFinalizersRemaining"),
        (
            json!("True"),
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 \
             resource instances"
                .to_owned()
        )
    );
    assert_eq!(
        condition("NamespaceDeletionContentFailure").0,
        json!("False")
    );
    merge(
        &service,
        &format!("{MAPS}/held"),
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(get(&service, "/api/v1/namespaces/a").await.0, 404);
}
