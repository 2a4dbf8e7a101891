//! Refusals in the words of a real API server 1.37 that got the same requests.

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::{namespace, send, server};

const MAPS: &str = "/api/v1/namespaces/a/configmaps";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const JSON: &str = "application/json";
const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}"#;

/// method, path, media type, body; code, reason, message.
type Row<'a> = (&'a str, &'a str, &'a str, &'a str, u16, &'a str, &'a str);

const ROWS: [Row<'static>; 19] = [
    (
        "GET",
        "~?limit=1&continue=nonsense",
        "",
        "",
        400,
        "BadRequest",
        "invalid continue token: continue key is not valid: invalid character '\\u009e' looking for beginning of value",
    ),
    (
        "GET",
        "~?limit=1&continue=eyJ2IjoidjAiLCJydiI6NSwic3RhcnQiOiJhIn0",
        "",
        "",
        400,
        "BadRequest",
        "invalid continue token: continue key is not valid: server does not recognize this encoded version v0",
    ),
    (
        "GET",
        "~?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIifQ",
        "",
        "",
        400,
        "BadRequest",
        "invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
    ),
    (
        "GET",
        "~?limit=",
        "",
        "",
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"\": invalid syntax",
    ),
    (
        "GET",
        "~?limit=many",
        "",
        "",
        400,
        "BadRequest",
        "strconv.ParseInt: parsing \"many\": invalid syntax",
    ),
    (
        "GET",
        "~?fieldSelector=data.k%3Dv",
        "",
        "",
        400,
        "BadRequest",
        "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
    ),
    (
        "GET",
        "~?watch=1&resourceVersion=1&resourceVersionMatch=Exact&sendInitialEvents=true",
        "",
        "",
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: [resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: \"Exact\": supported values: \"NotOlderThan\"]",
    ),
    (
        "GET",
        "/api/v9/pods",
        "",
        "",
        404,
        "NotFound",
        "the server could not find the requested resource",
    ),
    (
        "GET",
        "/api/v9",
        "",
        "",
        404,
        "NotFound",
        "the server could not find the requested resource",
    ),
    (
        "POST",
        "~",
        JSON,
        "{",
        400,
        "BadRequest",
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input",
    ),
    (
        "POST",
        "~?dryRun=Some",
        JSON,
        MAP,
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
    ),
    (
        "POST",
        "~?fieldValidation=Hard",
        JSON,
        MAP,
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Hard\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default",
        MERGE,
        "{",
        400,
        "BadRequest",
        "invalid JSON patch",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default",
        OPERATIONS,
        "{}",
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default?force=true",
        MERGE,
        "{}",
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default?fieldManager=a%0Ab",
        MERGE,
        "{}",
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
    ),
    (
        "PATCH",
        "/api/v1/namespaces/default",
        MERGE,
        r#"{"metadata":{"uid":"x"}}"#,
        422,
        "Invalid",
        "Namespace \"default\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable",
    ),
    (
        "DELETE",
        "~/held",
        JSON,
        MAP,
        400,
        "BadRequest",
        "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"",
    ),
    (
        "POST",
        "~",
        JSON,
        r#"{"metadata":{"name":"leaving"}}"#,
        409,
        "AlreadyExists",
        "object is being deleted: configmaps \"leaving\" already exists",
    ),
];

#[tokio::test(start_paused = true)]
async fn refusals_are_worded_as_a_real_server_words_them() {
    let (_server, service) = server().await;
    namespace(&service, "a").await;
    for name in ["held", "leaving"] {
        let body = json!({"metadata": {"name": name, "finalizers": ["x.io/y"]}});
        send(&service, http::Method::POST, MAPS, body).await;
    }
    let leaving = format!("{MAPS}/leaving");
    send(&service, http::Method::DELETE, &leaving, Value::Null).await;
    let mut wrong = Vec::new();
    for (method, path, media, body, code, reason, message) in ROWS {
        let mut request = Request::builder()
            .method(method)
            .uri(path.replace('~', MAPS));
        if !media.is_empty() {
            request = request.header("content-type", media);
        }
        let request = request.body(Bytes::from_static(body.as_bytes())).unwrap();
        let reply = service.call(request).await;
        let got = reply.status().as_u16();
        let body = reply.into_body().collect().await.unwrap();
        let status: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |name: &str| status[name].as_str().unwrap_or_default().to_owned();
        if (got, text("reason"), text("message")) != (code, reason.to_owned(), message.to_owned()) {
            let body = String::from_utf8_lossy(&body);
            wrong.push(format!(
                "{method} {path}\n  wanted {code} {reason} {message}\n  got {got} {body}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// The messages, and that the object stays, are a real server's.
#[tokio::test(start_paused = true)]
async fn a_collection_whose_objects_may_not_be_deleted_stays() {
    let (_server, service) = server().await;
    let body: Value = serde_json::from_str(MAP).unwrap();
    let (_, map) = send(&service, Method::POST, MAPS, body).await;
    let uid = map["metadata"]["uid"].as_str().unwrap();
    let words = format!(
        "Operation cannot be fulfilled on ConfigMap \"x\": the UID in the precondition (y) does not \
         match the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    let options = json!({"preconditions": {"uid": "y"}});
    for (path, body) in [
        (MAPS.to_owned(), options),
        (format!("{MAPS}?uid=y"), Value::Null),
    ] {
        let (code, reply) = send(&service, Method::DELETE, &path, body).await;
        assert_eq!((code, &reply["message"]), (409, &json!(words)));
    }
    let (code, _) = send(&service, Method::GET, &format!("{MAPS}/x"), Value::Null).await;
    assert_eq!(code, 200);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_many_unknown_fields_is_answered_in_a_head_of_few_lines() {
    let (_server, service) = server().await;
    let mut map: Value = serde_json::from_str(MAP).unwrap();
    for at in 0..300 {
        map[format!("f{at:03}")] = json!(1);
    }
    let request = Request::post(MAPS)
        .header("content-type", JSON)
        .body(Bytes::from(map.to_string()))
        .unwrap();
    let reply = service.call(request).await;
    assert_eq!(reply.status(), 201);
    let warnings = reply.headers().get_all("warning").iter().count();
    assert!((1..100 - 10).contains(&warnings), "{warnings}");
}

// kubernetes: pkg/registry/core/service/storage/alloc.go; the messages are those of a real server
#[tokio::test(start_paused = true)]
async fn a_node_port_is_one_services_alone() {
    let (_server, service) = server().await;
    let services = "/api/v1/namespaces/a/services";
    let make = async |name: &str, ports: Value| {
        let object =
            json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}});
        send(&service, Method::POST, services, object).await
    };
    let port =
        |name: &str, port: u16, node: u16| json!({"name": name, "port": port, "nodePort": node});
    let (code, reply) = make("one", json!([port("a", 80, 30777)])).await;
    assert_eq!(code, 201, "{reply}");
    let taken = "Service \"two\" is invalid: spec.ports[1].nodePort: Invalid value: 30777: provided \
                 port is already allocated";
    let outside = "Service \"two\" is invalid: spec.ports[0].nodePort: Invalid value: 3077: provided \
                   port is not in the valid range. The range of valid ports is 30000-32767";
    for (first, words) in [(30778, taken), (3077, outside)] {
        let ports = json!([port("a", 80, first), port("b", 81, 30777)]);
        let (code, reply) = make("two", ports).await;
        assert_eq!((code, &reply["message"]), (422, &json!(words)));
    }
    let unstored = format!("{services}?dryRun=All");
    for (number, wanted) in [(30777, 422), (3077, 201)] {
        let object = json!({"metadata": {"name": "two"},
            "spec": {"type": "NodePort", "ports": [port("a", 80, number)]}});
        let (code, _) = send(&service, Method::POST, &unstored, object).await;
        assert_eq!(code, wanted, "{number}");
    }
    // One port of two protocols is one node port, allocated or requested.
    let dns = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol});
    let (_, given) = make(
        "two",
        json!([dns("t", "TCP"), dns("u", "UDP"), {"name": "x", "port": 54}]),
    )
    .await;
    let of = |at: usize| given["spec"]["ports"][at]["nodePort"].as_u64().unwrap();
    assert_eq!(of(0), of(1));
    assert_ne!(of(1), of(2));
    let asked = |name: &str, protocol: &str| json!({"name": name, "port": 53, "protocol": protocol, "nodePort": 30779});
    let (code, reply) = make("three", json!([asked("t", "TCP"), asked("u", "UDP")])).await;
    assert_eq!(code, 201, "{reply}");
    // A service keeps its ports, under another port name, too; it cannot have ports of other
    // services.
    for (number, wanted) in [(30779, 200), (30777, 422), (30780, 200)] {
        let ports = json!({"spec": {"ports": [port("other", 99, number)]}});
        let request = Request::patch(format!("{services}/three"))
            .header("content-type", MERGE)
            .body(Bytes::from(ports.to_string()))
            .unwrap();
        assert_eq!(service.call(request).await.status(), wanted, "{number}");
    }
}
