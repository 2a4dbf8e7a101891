//! The bounds of writes that a client inflates, in small.
//!
//! A test of linear work has no clock: quadratic work on its input would take minutes.

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::Service;
use serde_json::{Value, json};

use crate::support::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FOOS: &str = "/apis/example.com/v1/namespaces/a/foos";
const PODS: &str = "/api/v1/namespaces/a/pods";
const MAPS: &str = "/api/v1/namespaces/a/configmaps";
/// Bytes of an object at most.
const OBJECT: usize = 3 << 20;

fn definition(spec: &Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]}})
}

async fn define(service: &Service, spec: Value) {
    let (code, said) = send(service, Method::POST, DEFINITIONS, definition(&spec)).await;
    assert_eq!(code, 201, "{said}");
}

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

fn pod(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

async fn post(service: &Service, path: &str, body: Value) -> (u16, Value) {
    send(service, Method::POST, path, body).await
}

async fn patch(service: &Service, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let request = Request::patch(path)
        .header("content-type", format!("application/{kind}"))
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap())
}

fn check_too_large((code, said): (u16, Value)) {
    let message = "Request entity too large: limit is 3145728";
    let expected = (413, &json!("RequestEntityTooLarge"), &json!(message));
    assert_eq!((code, &said["reason"], &said["message"]), expected);
}

/// A list of objects whose items have a text with this default.
fn texts(default: Value) -> Value {
    let item = json!({"type": "object",
        "properties": {"e": {"type": "string", "default": default}}});
    json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}})
}

async fn redefine(service: &Service, spec: &Value) {
    let path = format!("{DEFINITIONS}/foos.example.com");
    let versions = definition(spec)["spec"]["versions"].clone();
    let change = json!({"spec": {"versions": versions}});
    let (code, said) = patch(service, &path, "merge-patch+json", &change).await;
    assert_eq!(code, 200, "{said}");
}

/// A list of objects whose items have a default of this length.
fn items_with_default(length: usize) -> Value {
    let item = json!({"type": "object",
        "properties": {"d": {"type": "string", "default": "x".repeat(length)}}});
    json!({"type": "object", "properties": {"l": {"type": "array", "items": item}}})
}

#[tokio::test(start_paused = true)]
async fn defaults_cannot_make_an_object_too_large() {
    let (_server, service) = server().await;
    define(&service, items_with_default(100_000)).await;
    let spec = |items: usize| json!({"l": vec![json!({}); items]});
    let (code, made) = post(&service, FOOS, foo("x", spec(20))).await;
    assert_eq!((code, made.to_string().len() > 2_000_000), (201, true));
    check_too_large(post(&service, FOOS, foo("y", spec(40))).await);
    let spec = json!({"spec": spec(20_000)});
    let path = format!("{FOOS}/x");
    let applied = format!("{path}?fieldManager=m&force=true");
    for (path, kind, body) in [
        (&path, "merge-patch+json", spec.clone()),
        (&applied, "apply-patch+yaml", foo("x", spec["spec"].clone())),
    ] {
        check_too_large(patch(&service, path, kind, &body).await);
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_are_always_written_cannot_make_an_object_too_large() {
    let (_server, service) = server().await;
    let empty = json!({"containers": vec![json!({}); 100_000]});
    check_too_large(post(&service, PODS, pod(empty)).await);
    let owners = vec![json!({}); 100_000];
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "ownerReferences": owners}});
    check_too_large(post(&service, MAPS, map).await);
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&service, spec).await;
    let mut custom = foo("x", json!({}));
    custom["metadata"]["ownerReferences"] = json!(vec![json!({}); 100_000]);
    check_too_large(post(&service, FOOS, custom).await);
}

#[tokio::test(start_paused = true)]
async fn defaults_of_a_later_definition_are_bounded_where_objects_are_shown() {
    let (_server, service) = server().await;
    define(&service, items_with_default(0)).await;
    for name in ["x", "y"] {
        let spec = json!({"l": vec![json!({}); 1000]});
        let mut foo = foo(name, spec);
        foo["metadata"]["finalizers"] = json!(["example.com/f"]);
        assert_eq!(post(&service, FOOS, foo).await.0, 201);
    }
    // The stored items have an empty text, which the new definition does not know.
    redefine(&service, &texts(json!("x".repeat(100_000)))).await;
    let (code, one) = get(&service, &format!("{FOOS}/x")).await;
    assert_eq!(code, 200);
    assert!(one["spec"]["l"][0]["e"].is_string());
    assert!(one.to_string().len() < OBJECT + 100_000);
    let (code, list) = get(&service, FOOS).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert!(list.to_string().len() < 2 * (OBJECT + 100_000));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let path = format!("{FOOS}/x");
    check_too_large(patch(&service, &path, "merge-patch+json", &labels).await);
    // A delete keeps the stored form: the defaults are gone once the definition loses them.
    let (code, marked) = send(&service, Method::DELETE, &path, Value::Null).await;
    assert_eq!((code, marked["spec"]["l"][0]["e"].is_string()), (200, true));
    redefine(&service, &texts(Value::Null)).await;
    let (code, one) = get(&service, &path).await;
    assert!(one["metadata"]["deletionTimestamp"].is_string());
    assert_eq!((code, &one["spec"]["l"][0]), (200, &json!({})));
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_objects_that_grow_when_shown_takes_one_after_the_other() {
    let (server, service) = server().await;
    define(&service, texts(Value::Null)).await;
    let before = server.store().revision();
    let names = ["a", "b", "c", "d"];
    for name in names {
        let foo = foo(name, json!({"l": [{}]}));
        assert_eq!(post(&service, FOOS, foo).await.0, 201);
    }
    redefine(&service, &texts(json!("x".repeat(100_000)))).await;
    let path = format!("{FOOS}?watch=1&resourceVersion={before}&timeoutSeconds=5");
    let name = |event: &Value| event["object"]["metadata"]["name"].clone();
    let mut watch = Watch::open(&service, &path).await;
    for expected in names {
        assert_eq!(name(&watch.next().await.unwrap()), expected);
    }
    assert_eq!(watch.tell().await, "END");
    // Only the first object was encoded: a watch that is cut sends what it has encoded.
    let mut watch = Watch::open(&service, &path).await;
    assert_eq!(name(&watch.next().await.unwrap()), "a");
    server.cut_watches();
    assert_eq!(watch.tell().await, "END");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_left_out_of_an_object_that_is_too_large_with_them() {
    let (_server, service) = server().await;
    let keys = json!({"type": "object", "properties": {"l": {"type": "array",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
        "items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}}}}});
    define(&service, keys).await;
    let spec = |count: usize| {
        let items: Vec<Value> = (0..count).map(|at| json!({"n": format!("{at}")})).collect();
        json!({"l": items})
    };
    let (code, owned) = post(&service, FOOS, foo("x", spec(100))).await;
    assert_eq!(
        (code, owned["metadata"]["managedFields"].is_array()),
        (201, true)
    );
    let (code, bare) = post(&service, FOOS, foo("y", spec(60_000))).await;
    assert_eq!((code, bare["metadata"].get("managedFields")), (201, None));
    // An apply exists for its owners.
    let path = format!("{FOOS}/z?fieldManager=m");
    let applied = patch(&service, &path, "apply-patch+yaml", &foo("z", spec(60_000))).await;
    check_too_large(applied);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_conflicts_that_is_cut_does_not_force_an_apply() {
    let (_server, service) = server().await;
    let map = |value: &str| {
        let data = (0..10_000).map(|at| (format!("k{at}"), json!(value)));
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
            "data": data.collect::<serde_json::Map<_, _>>()})
    };
    let mut first = map("");
    let last = first.to_string();
    let name = "kubectl.kubernetes.io/last-applied-configuration";
    first["metadata"]["annotations"] = json!({name: last});
    let path = format!("{MAPS}?fieldManager=kubectl-client-side-apply");
    assert_eq!(post(&service, &path, first).await.0, 201);
    let other = json!({"data": {"z": "other"}});
    let path = format!("{MAPS}/m?fieldManager=z");
    assert_eq!(
        patch(&service, &path, "merge-patch+json", &other).await.0,
        200
    );
    // All of kubectl's own conflicts come before the one of the other manager.
    let mut second = map("1");
    second["data"]["z"] = json!("1");
    let path = format!("{MAPS}/m?fieldManager=kubectl");
    let applied = patch(&service, &path, "apply-patch+yaml", &second).await;
    assert_eq!((applied.0, &applied.1["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        get(&service, &format!("{MAPS}/m")).await.1["data"]["z"],
        "other"
    );
}

#[tokio::test(start_paused = true)]
async fn entries_that_an_apply_replaces_do_not_count() {
    let (_server, service) = server().await;
    let data = (0..22_000).map(|at| (format!("{}{at:05}", "n".repeat(40)), json!("")));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
        "data": data.collect::<serde_json::Map<_, _>>()});
    let path = format!("{MAPS}/m?fieldManager=m");
    // The data and the entries take 1.1 MB each: the entries counted twice would be too large.
    for code in [201, 200, 200] {
        let (said, _) = patch(&service, &path, "apply-patch+yaml", &map).await;
        assert_eq!(said, code);
    }
}

#[tokio::test(start_paused = true)]
async fn errors_are_bounded_and_found_in_linear_time() {
    let (_server, service) = server().await;
    let wrong = vec![json!({"name": "a", "image": "x", "ports": [{"containerPort": 0}]}); 5000];
    let (code, said) = post(&service, PODS, pod(json!({"containers": wrong}))).await;
    assert_eq!(code, 422, "{said}");
    let causes = said["details"]["causes"].as_array().unwrap().len();
    assert!((1000..1100).contains(&causes), "{causes}");
    let many = |count: usize, of: fn(usize) -> Value| (0..count).map(of).collect::<Vec<Value>>();
    let volumes = many(
        30_000,
        |at| json!({"name": format!("v{at}"), "emptyDir": {}}),
    );
    let mounts = many(
        30_000,
        |at| json!({"name": format!("v{}", 29_999 - at), "mountPath": format!("/{at}")}),
    );
    let container = json!({"name": "a", "image": "x", "volumeMounts": mounts});
    let spec = json!({"containers": [container], "volumes": volumes});
    assert_eq!(post(&service, PODS, pod(spec)).await.0, 201);
    let taints = many(
        30_000,
        |at| json!({"key": format!("k{at}"), "effect": "NoSchedule"}),
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
        "spec": {"taints": taints}});
    assert_eq!(post(&service, "/api/v1/nodes", node).await.0, 201);
    let ports = many(
        30_000,
        |at| json!({"name": format!("p{at}"), "port": at + 1}),
    );
    let service_of = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": ports}});
    let path = "/api/v1/namespaces/a/services";
    assert_eq!(post(&service, path, service_of).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_large_write_does_not_hold_up_other_requests() {
    let (_server, service) = server().await;
    let containers: Vec<Value> = (0..5000)
        .map(|at| json!({"name": format!("c{at}"), "image": "x"}))
        .collect();
    let body = pod(json!({"containers": containers}));
    let order = std::sync::Mutex::new(Vec::new());
    let (written, ()) = tokio::join!(
        async {
            let written = post(&service, PODS, body).await.0;
            order.lock().unwrap().push("write");
            written
        },
        async {
            get(&service, "/readyz").await;
            order.lock().unwrap().push("readyz");
        }
    );
    assert_eq!(
        (written, order.into_inner().unwrap()),
        (201, vec!["readyz", "write"])
    );
}

/// Sends a request together with one for `/readyz`. Returns the code, and whether it was first.
async fn beside_readyz(
    service: &Service,
    (method, path, body): (Method, &str, Value),
) -> (u16, bool) {
    let order = std::sync::Mutex::new(Vec::new());
    let (code, ()) = tokio::join!(
        async {
            let code = send(service, method, path, body).await.0;
            order.lock().unwrap().push("request");
            code
        },
        async {
            get(service, "/readyz").await;
            order.lock().unwrap().push("readyz");
        }
    );
    (code, order.into_inner().unwrap()[0] == "request")
}

/// Creates an object as a dry run, until one is not first: one that is handled on the spot always is,
/// another one only if a thread is very quick.
async fn is_checked_aside(service: &Service, path: &str, object: &Value) -> bool {
    let path = format!("{path}?dryRun=All");
    for _ in 0..200 {
        let asked = (Method::POST, &*path, object.clone());
        let (code, is_first) = beside_readyz(service, asked).await;
        assert_eq!(code, 201);
        if !is_first {
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn definitions_and_objects_with_patterns_are_checked_aside_and_reads_are_not() {
    let (_server, service) = server().await;
    let text = json!({"type": "string", "pattern": "^a*$"});
    let count = json!({"type": "integer"});
    let spec = json!({"type": "object", "properties": {"t": text, "n": count}});
    let mut definition = definition(&spec);
    let version = &mut definition["spec"]["versions"][0];
    let status = json!({"type": "object", "properties": {"n": count}});
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
    version["subresources"] = json!({"status": {}, "scale":
        {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}});
    assert!(is_checked_aside(&service, DEFINITIONS, &definition).await);
    let (code, _) = post(&service, DEFINITIONS, definition).await;
    assert_eq!(code, 201);
    let object = foo("x", json!({"t": "aa", "n": 1}));
    assert!(is_checked_aside(&service, FOOS, &object).await);
    assert_eq!(post(&service, FOOS, object).await.0, 201);
    let path = format!("{FOOS}/x");
    for part in ["status", "scale"] {
        let asked = (Method::GET, &*format!("{path}/{part}"), Value::Null);
        assert_eq!(beside_readyz(&service, asked).await, (200, true), "{part}");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_of_long_lists_end_or_are_refused() {
    let (_server, service) = server().await;
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&service, spec).await;
    let spec = json!({"l": vec![0; 50_000], "s": "x".repeat(1000)});
    assert_eq!(post(&service, FOOS, foo("x", spec)).await.0, 201);
    let path = format!("{FOOS}/x");
    let insert = json!(vec![
        json!({"op": "add", "path": "/spec/l/0", "value": 0});
        1000
    ]);
    let (code, _) = patch(&service, &path, "json-patch+json", &insert).await;
    assert_eq!(code, 200);
    let copy = json!({"op": "copy", "from": "/spec/s", "path": "/spec/l/0"});
    let copies = json!(vec![copy; 5000]);
    let (code, _) = patch(&service, &path, "json-patch+json", &copies).await;
    assert_eq!(code, 413);
    let twice: Vec<Value> = (0..20_000)
        .map(|at| json!({"name": format!("c{}", at / 2), "image": "x"}))
        .collect();
    let applied = format!("{PODS}/p?fieldManager=m");
    let body = pod(json!({"containers": twice}));
    let (code, said) = patch(&service, &applied, "apply-patch+yaml", &body).await;
    assert_eq!(code, 500);
    assert!(said["message"].as_str().unwrap().len() < 200_000);
}
