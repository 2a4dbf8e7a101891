//! Promises of writes beyond what was recorded: no write is lost and no state is left behind.

use http::Method;
use kinform_apiserver::Service;
use serde_json::{Value, json};

use crate::support::{Watch, get, namespace, send, server, version};

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

async fn post(service: &Service, path: &str, body: Value) -> (u16, Value) {
    send(service, Method::POST, path, body).await
}

async fn merge(service: &Service, path: &str, body: Value) -> (u16, Value) {
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(bytes::Bytes::from(body.to_string()))
        .unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

fn foos(scope: &str, subresources: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": scope,
            "names": {"plural": "foos", "kind": "Foo", "shortNames": ["fo"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": subresources,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"n": {"type": "integer"}}},
                        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}}}},
                {"name": "v1beta1", "served": true, "storage": false,
                    "schema": {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/a/foos";

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec,
        "status": {"seen": 1}})
}

#[tokio::test(start_paused = true)]
async fn concurrent_patches_are_all_applied() {
    let (server, service) = server().await;
    post(&service, MAPS, json!({"metadata": {"name": "x"}})).await;
    let patches = (0..50).map(|at| {
        let service = service.clone();
        tokio::spawn(async move {
            let path = format!("{MAPS}/x");
            merge(&service, &path, json!({"data": {format!("k{at}"): "v"}}))
                .await
                .0
        })
    });
    for patch in patches.collect::<Vec<_>>() {
        assert_eq!(patch.await.unwrap(), 200);
    }
    let (_, object) = get(&service, &format!("{MAPS}/x")).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 50);
    assert_eq!(version(&object), server.store().revision());
}

// apiserver: pkg/registry/generic/registry (TestStoreUpdate: an update that is out of date)
#[tokio::test(start_paused = true)]
async fn s1_a_write_of_an_older_version_is_a_conflict_and_changes_nothing() {
    let (_server, service) = server().await;
    let map = json!({"metadata": {"name": "x"}, "data": {"k": "1"}});
    let (_, mut late) = post(&service, MAPS, map).await;
    let path = format!("{MAPS}/x");
    let mut first = late.clone();
    first["data"]["k"] = json!("2");
    let (code, stored) = send(&service, Method::PUT, &path, first).await;
    assert_eq!(code, 200);
    late["data"]["k"] = json!("3");
    let patch = json!({"data": {"k": "3"},
        "metadata": {"resourceVersion": late["metadata"]["resourceVersion"]}});
    for (code, refused) in [
        send(&service, Method::PUT, &path, late).await,
        merge(&service, &path, patch).await,
    ] {
        assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    }
    assert_eq!(get(&service, &path).await.1, stored);
}

// apiserver: Store.Update (pkg/registry/generic/registry) compares the uid with that of no object
#[tokio::test(start_paused = true)]
async fn an_update_of_an_object_that_is_gone_is_a_conflict_if_it_states_a_uid() {
    let (_server, service) = server().await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/x";
    for (path, absent) in [(format!("{MAPS}/x"), 404), (lease.to_owned(), 201)] {
        let body = |uid: &str| json!({"metadata": {"name": "x", "uid": uid}});
        let (code, reply) = send(&service, Method::PUT, &path, body("of-one-that-is-gone")).await;
        assert_eq!(
            (code, &reply["reason"]),
            (409, &json!("Conflict")),
            "{path}"
        );
        let words = "UID in precondition: of-one-that-is-gone, UID in object meta: ";
        let message = reply["message"].as_str().unwrap();
        assert!(message.ends_with(words), "{message}");
        assert_eq!(get(&service, &path).await.0, 404);
        assert_eq!(send(&service, Method::PUT, &path, body("")).await.0, absent);
    }
}

// apiserver: pkg/registry/generic/registry (TestNonGracefulStoreHandleFinalizers)
#[tokio::test(start_paused = true)]
async fn s5_an_object_with_finalizers_goes_with_the_last_of_them() {
    let (_server, service) = server().await;
    let finalizers = json!(["example.com/a", "example.com/b"]);
    let map = json!({"metadata": {"name": "x", "finalizers": finalizers}});
    let created = version(&post(&service, MAPS, map).await.1);
    let path = format!("{MAPS}/x");
    let all = format!("{MAPS}?watch=1&resourceVersion={created}");
    let mut watch = Watch::open(&service, &all).await;
    let (code, marked) = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!(code, 200);
    assert!(
        marked["metadata"]["deletionTimestamp"].is_string(),
        "{marked}"
    );
    for (left, code) in [(json!(["example.com/b"]), 200), (json!([]), 404)] {
        let patch = json!({"metadata": {"finalizers": left}});
        assert_eq!(merge(&service, &path, patch).await.0, 200);
        assert_eq!(get(&service, &path).await.0, code);
    }
    for kind in ["MODIFIED", "MODIFIED", "DELETED"] {
        let event = watch.tell().await;
        assert!(event.starts_with(&format!("{kind} a/x")), "{event}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it_and_waits_for_what_is_held() {
    let (_server, service) = server().await;
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    post(&service, MAPS, held).await;
    for at in 0..300 {
        post(
            &service,
            MAPS,
            json!({"metadata": {"name": format!("m{at}")}}),
        )
        .await;
    }
    let (code, object) = send(
        &service,
        Method::DELETE,
        "/api/v1/namespaces/a",
        Value::Null,
    )
    .await;
    assert_eq!(
        (code, &object["status"]["phase"]),
        (200, &json!("Terminating"))
    );
    let (_, list) = get(&service, MAPS).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    assert_eq!(get(&service, "/api/v1/namespaces/a").await.0, 200);
    assert_eq!(
        post(&service, MAPS, json!({"metadata": {"name": "late"}}))
            .await
            .0,
        403
    );
    let release = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        merge(&service, &format!("{MAPS}/held"), release).await.0,
        200
    );
    assert_eq!(get(&service, "/api/v1/namespaces/a").await.0, 404);
    assert_eq!(
        post(&service, MAPS, json!({"metadata": {"name": "late"}}))
            .await
            .0,
        404
    );
    namespace(&service, "a").await;
    assert_eq!(
        post(&service, MAPS, json!({"metadata": {"name": "new"}}))
            .await
            .0,
        201
    );
    let (code, _) = send(
        &service,
        Method::DELETE,
        "/api/v1/namespaces/default",
        Value::Null,
    )
    .await;
    assert_eq!(code, 403);
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_at_once_and_takes_its_objects_with_it() {
    let (_server, service) = server().await;
    assert_eq!(get(&service, FOOS).await, (404, Value::Null));
    let (code, _) = post(
        &service,
        DEFINITIONS,
        foos("Namespaced", json!({"status": {}})),
    )
    .await;
    assert_eq!(code, 201);
    let (_, definition) = get(&service, &format!("{DEFINITIONS}/foos.example.com")).await;
    assert_eq!(definition["status"]["conditions"][1]["type"], "Established");
    assert_eq!(definition["status"]["conditions"][1]["status"], "True");
    assert_eq!(definition["spec"]["names"]["listKind"], "FooList");
    let (code, created) = post(&service, FOOS, foo("x", json!({"n": 1, "pruned": 2}))).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"], json!({"n": 1}));
    assert_eq!(created.get("status"), None);
    // Another version shows the same object.
    let (_, other) = get(&service, "/apis/example.com/v1beta1/namespaces/a/foos/x").await;
    assert_eq!(other["apiVersion"], "example.com/v1beta1");
    assert_eq!(other["metadata"]["uid"], created["metadata"]["uid"]);
    let (code, status) = merge(
        &service,
        &format!("{FOOS}/x/status"),
        json!({"status": {"seen": 3}, "spec": {"n": 9}}),
    )
    .await;
    assert_eq!(
        (code, &status["status"], &status["spec"]),
        (200, &json!({"seen": 3}), &json!({"n": 1}))
    );
    assert_eq!(status["metadata"]["generation"], 1);
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    merge(&service, &format!("{FOOS}/x"), held).await;
    let path = format!("{DEFINITIONS}/foos.example.com");
    let (code, going) = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!(
        (code, &going["status"]["conditions"][2]["type"]),
        (200, &json!("Terminating"))
    );
    // The object holds the definition, which accepts no new objects.
    assert_eq!(get(&service, &format!("{FOOS}/x")).await.0, 200);
    assert_eq!(post(&service, FOOS, foo("y", json!({}))).await.0, 403);
    merge(
        &service,
        &format!("{FOOS}/x"),
        json!({"metadata": {"finalizers": []}}),
    )
    .await;
    assert_eq!(get(&service, &path).await.0, 404);
    assert_eq!(get(&service, FOOS).await, (404, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_without_a_status_part_keeps_its_status_and_needs_versions() {
    let (_server, service) = server().await;
    post(&service, DEFINITIONS, foos("Namespaced", Value::Null)).await;
    let (_, created) = post(&service, FOOS, foo("x", json!({"n": 1}))).await;
    assert_eq!(created["status"], json!({"seen": 1}));
    assert_eq!(get(&service, &format!("{FOOS}/x/status")).await.0, 404);
    let path = format!("{FOOS}/x");
    let (code, refused) = send(&service, Method::PUT, &path, foo("x", json!({"n": 2}))).await;
    assert_eq!(code, 422);
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("must be specified for an update")
    );
    let mut update = foo("x", json!({"n": 2}));
    update["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    let (code, updated) = send(&service, Method::PUT, &path, update).await;
    assert_eq!((code, &updated["metadata"]["generation"]), (200, &json!(2)));
    let (code, wrong) = post(&service, FOOS, foo("y", json!({"n": "x"}))).await;
    assert_eq!(
        (code, &wrong["details"]["causes"][0]["field"]),
        (422, &json!("spec.n"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_definition_ends_watches_without_a_word() {
    let (_server, service) = server().await;
    post(&service, DEFINITIONS, foos("Namespaced", Value::Null)).await;
    let mut watch = Watch::open(&service, &format!("{FOOS}?watch=1&resourceVersion=0")).await;
    let path = format!("{DEFINITIONS}/foos.example.com");
    merge(&service, &path, json!({"metadata": {"labels": {"a": "b"}}})).await;
    post(&service, FOOS, foo("x", json!({"n": 1}))).await;
    assert!(watch.tell().await.starts_with("ADDED a/x"));
    let mut versions = foos("Namespaced", Value::Null)["spec"]["versions"].clone();
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["more"] = json!({"type": "string"});
    let (code, _) = merge(&service, &path, json!({"spec": {"versions": versions}})).await;
    assert_eq!(code, 200);
    assert_eq!(watch.tell().await, "END");
    let (_, object) = merge(&service, &format!("{FOOS}/x"), json!({"more": "m"})).await;
    assert_eq!(object["more"], "m");
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector_and_pods_are_gone_at_once() {
    let (server, service) = server().await;
    for (name, within) in [("x", "yes"), ("y", "no"), ("z", "yes")] {
        let map = json!({"metadata": {"name": name, "labels": {"in": within}}});
        post(&service, MAPS, map).await;
    }
    let path = format!("{MAPS}?labelSelector=in%3Dyes");
    let (code, list) = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert_eq!(server.objects("configmaps").len(), 1);
    let pods = "/api/v1/namespaces/a/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "containers": [{"name": "c", "image": "i"}]}});
    post(&service, pods, pod).await;
    let (code, gone) = send(&service, Method::DELETE, &format!("{pods}/p"), Value::Null).await;
    assert_eq!(
        (code, &gone["metadata"]["deletionGracePeriodSeconds"]),
        (200, &json!(30))
    );
    assert_eq!(get(&service, &format!("{pods}/p")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn hostile_bodies_are_answered() {
    let (_server, service) = server().await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        "",
        "null",
        "1",
        "[]",
        "\"x\"",
        "{\"metadata\":1}",
        "{\"metadata\":{\"name\":{}}}",
        "{\"metadata\":{\"name\":\"../x\"}}",
        "{\"metadata\":{\"name\":\"x\",\"labels\":[]}}",
        &deep,
    ] {
        for (method, path, content_type) in [
            (Method::POST, MAPS.to_owned(), "application/json"),
            (Method::PUT, format!("{MAPS}/x"), "application/json"),
            (
                Method::PATCH,
                format!("{MAPS}/x"),
                "application/json-patch+json",
            ),
            (Method::POST, DEFINITIONS.to_owned(), "application/json"),
        ] {
            let request = http::Request::builder()
                .method(method.clone())
                .uri(path)
                .header("content-type", content_type)
                .body(bytes::Bytes::from(body.to_owned()))
                .unwrap();
            let code = service.call(request).await.status().as_u16();
            assert!(
                (400..500).contains(&code),
                "{method} {code} {}",
                &body[..body.len().min(40)]
            );
        }
    }
}
