//! YAML bodies and replies, for clients that write YAML by hand.

use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::Service;
use serde_json::{Value, json};

use crate::support;

const MAPS: &str = "/api/v1/namespaces/a/configmaps";

/// The status, the reply's type, its warnings and its text.
async fn ask(
    service: &Service,
    (method, path, body): (Method, &str, &str),
    accept: &str,
) -> (u16, String, Vec<String>, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/yaml")
        .header("accept", accept)
        .body(Bytes::from(body.to_owned()))
        .unwrap();
    let reply = service.call(request).await;
    let header = |name: &str| {
        let values = reply.headers().get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (code, kind, warnings) = (
        reply.status().as_u16(),
        header("content-type").remove(0),
        header("warning"),
    );
    let body = reply.into_body().collect().await.unwrap();
    (
        code,
        kind,
        warnings,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

fn read(yaml: &str) -> Value {
    serde_saphyr::from_str(yaml).unwrap()
}

#[tokio::test(start_paused = true)]
async fn objects_are_written_and_shown_in_yaml() {
    let (_server, service) = support::server().await;
    let body = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\ndata:\n  text: |\n    one\n    two\n  flag: \"yes\"\n";
    let (code, kind, warnings, text) =
        ask(&service, (Method::POST, MAPS, body), "application/yaml").await;
    assert_eq!((code, &*kind), (201, "application/yaml"), "{text}");
    assert_eq!(warnings, Vec::<String>::new());
    assert!(
        text.starts_with("apiVersion: v1\ndata:\n  flag: \"yes\"\n"),
        "{text}"
    );
    let path = format!("{MAPS}/x");
    let (_, stored) = support::get(&service, &path).await;
    assert_eq!(stored["data"], json!({"text": "one\ntwo\n", "flag": "yes"}));
    assert_eq!(read(&text), stored);
    let (_, _, _, shown) = ask(&service, (Method::GET, &path, ""), "application/yaml").await;
    assert_eq!(read(&shown), stored);
    let gone = "kind: DeleteOptions\napiVersion: v1\npreconditions: {uid: other}\n";
    let (code, kind, _, text) =
        ask(&service, (Method::DELETE, &path, gone), "application/yaml").await;
    assert_eq!((code, &*kind), (409, "application/yaml"), "{text}");
    assert_eq!(read(&text)["reason"], "Conflict");
}

#[tokio::test(start_paused = true)]
async fn lists_in_yaml_say_what_they_say_in_json() {
    let (_server, service) = support::server().await;
    let empty = ask(&service, (Method::GET, MAPS, ""), "application/yaml")
        .await
        .3;
    assert!(
        empty.contains("\nitems: []\nkind: ConfigMapList\n"),
        "{empty}"
    );
    for name in ["x", "y", "z"] {
        support::create(&service, "a", name, json!({"app": name})).await;
    }
    for path in [
        MAPS.to_owned(),
        format!("{MAPS}?limit=2"),
        "/api/v1/namespaces".to_owned(),
    ] {
        let (code, kind, _, text) =
            ask(&service, (Method::GET, &path, ""), "application/yaml").await;
        assert_eq!((code, &*kind), (200, "application/yaml"));
        let (_, list) = support::get(&service, &path).await;
        assert_eq!(read(&text), list, "{text}");
    }
    let accept = "application/yaml;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let (_, _, _, text) = ask(&service, (Method::GET, MAPS, ""), accept).await;
    assert_eq!(read(&text)["kind"], "PartialObjectMetadataList");
    let deleted = ask(&service, (Method::DELETE, MAPS, ""), "application/yaml")
        .await
        .3;
    assert_eq!(read(&deleted)["items"].as_array().map(Vec::len), Some(3));
}

#[tokio::test(start_paused = true)]
async fn keys_given_twice_are_warned_of_or_refused() {
    let (_server, service) = support::server().await;
    let body = "kind: ConfigMap\nmetadata: {name: x}\ndata: {a: b, a: c}\n";
    let path = format!("{MAPS}?dryRun=All");
    let (code, _, warnings, text) =
        ask(&service, (Method::POST, &path, body), "application/json").await;
    assert_eq!(code, 201, "{text}");
    assert_eq!(
        warnings,
        ["299 - \"line 3: key \\\"a\\\" already set in map\""]
    );
    let strict = format!("{path}&fieldValidation=Strict");
    let (code, _, _, text) = ask(&service, (Method::POST, &strict, body), "application/json").await;
    assert_eq!(code, 400);
    assert!(
        text.contains("strict decoding error: yaml: unmarshal errors"),
        "{text}"
    );
    let quiet = format!("{path}&fieldValidation=Ignore");
    let (code, _, warnings, _) =
        ask(&service, (Method::POST, &quiet, body), "application/json").await;
    assert_eq!((code, warnings.len()), (201, 0));
}

#[tokio::test(start_paused = true)]
async fn broken_documents_and_yaml_patches_are_refused() {
    let (_server, service) = support::server().await;
    let secret = "kind: ConfigMap\nmetadata: {name: x}\ndata: {password: [}\n";
    let (code, kind, _, text) =
        ask(&service, (Method::POST, MAPS, secret), "application/yaml").await;
    assert_eq!((code, &*kind), (400, "application/yaml"));
    assert!(text.contains("yaml: line"), "{text}");
    assert!(!text.contains("password"), "{text}");
    support::create(&service, "a", "x", json!({})).await;
    let path = format!("{MAPS}/x");
    let patch = (Method::PATCH, &*path, "data: {a: b}");
    let (code, ..) = ask(&service, patch, "application/json").await;
    assert_eq!(code, 415);
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let (code, _, _, text) = ask(&service, (Method::GET, &watch, ""), "application/yaml").await;
    assert_eq!(code, 406);
    assert!(text.contains("application/json;stream=watch"), "{text}");
}
