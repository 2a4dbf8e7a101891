//! The OpenAPI documents compared with those of a real server: the content that clients look for.
//!
//! Prose is not compared. Nor are defaults that upstream's comments set, groups of fields of which
//! one is set, and the paths of connections and of deprecated watches, which this server lacks. The
//! merge strategy of a list is explicit for every list here, with the same meaning.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Request, Response};
use kinform_apiserver::{Body, Service};
use serde_json::{Map, Value, json};

use super::comparison::{Comparison, Objects};
use super::discovery::server;
use super::recorded::{exchanges, reply};
use super::rows::Rows;

/// Words of a schema that are not compared.
const NOT_COMPARED: [&str; 4] = [
    "description",
    "default",
    "x-kubernetes-unions",
    "x-kubernetes-group-version-kind",
];

/// The table has the fields of a type that this one shares with containers, and bytes are one value
/// here.
const KNOWN: [&str; 2] = [
    "io.k8s.api.core.v1.EphemeralContainer.properties.ports.x-kubernetes-list-map-keys",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIServiceSpec.properties.caBundle.x-kubernetes-list-type",
];

/// Definitions that only the paths of discovery and of deprecated watches refer to.
const OF_OTHER_PATHS: [&str; 12] = [
    "APIGroup",
    "APIGroupList",
    "APIResource",
    "APIResourceList",
    "APIVersions",
    "GroupVersionForDiscovery",
    "Info",
    "ServerAddressByClientCIDR",
    "WatchEvent",
    "RawExtension",
    "Patch",
    "Workload",
];

async fn get(service: &Service, path: &str, accept: &str, tag: &str) -> Response<Body> {
    let request = Request::get(path)
        .header("accept", accept)
        .header("if-none-match", tag);
    service.call(request.body(Bytes::new()).unwrap()).await
}

async fn document(service: &Service, path: &str) -> Value {
    let reply = get(service, path, "application/json", "").await;
    assert_eq!(reply.status(), 200, "{path}");
    serde_json::from_slice(&reply.into_body().collect().await.unwrap()).unwrap()
}

/// Meaning of a list without extensions: it is merged by the patch strategy's key, or is atomic.
fn meant(name: &str, schema: &Map<String, Value>) -> Option<Value> {
    let key = &schema.get("x-kubernetes-patch-merge-key");
    let is_silent = schema.get("x-kubernetes-list-type").is_none();
    let merges = schema.get("x-kubernetes-patch-strategy").is_some();
    match name {
        _ if !is_silent => None,
        "x-kubernetes-list-type" => Some(Value::from(match key {
            Some(_) => "map",
            None if merges => "set",
            None => "atomic",
        })),
        "x-kubernetes-list-map-keys" => key.map(|key| Value::from(vec![key.clone()])),
        _ => None,
    }
}

/// Collects values of `recorded` that differ in `ours`.
fn differences(recorded: &Value, ours: &Value, path: &str, found: &mut Vec<String>) {
    match (recorded, ours) {
        // The meaning of a map without extensions.
        (Value::String(recorded), Value::Null) if recorded == "granular" => {}
        _ if KNOWN.contains(&path) => assert_ne!(recorded, ours, "{path} is listed, but matches"),
        (Value::Object(recorded), Value::Object(ours)) => {
            let names: BTreeSet<&String> = recorded.keys().chain(ours.keys()).collect();
            for name in names {
                // A field may have the name of a schema keyword.
                let is_word = !path.ends_with(".properties");
                if is_word && NOT_COMPARED.contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}.{name}");
                let value = |of: &Map<String, Value>| of.get(name).cloned().unwrap_or_default();
                if let Some(meant) = meant(name, recorded)
                    && meant == value(ours)
                {
                    continue;
                }
                differences(&value(recorded), &value(ours), &path, found);
            }
        }
        (Value::Array(recorded), Value::Array(ours)) if path.ends_with(".required") => {
            let set = |list: &[Value]| list.iter().map(Value::to_string).collect::<BTreeSet<_>>();
            if set(recorded) != set(ours) {
                found.push(format!("{path}: {recorded:?} / {ours:?}"));
            }
        }
        _ if recorded == ours => {}
        _ => found.push(format!("{path}: {recorded} / {ours}")),
    }
}

/// Compares the definitions of two documents; returns their number.
fn definitions(recorded: &Value, ours: &Value, found: &mut Vec<String>) -> usize {
    let mut compared = 0;
    for (name, schema) in recorded.as_object().unwrap() {
        let short = name.rsplit('.').next().unwrap();
        if OF_OTHER_PATHS.contains(&short) && ours.get(name).is_none() {
            continue;
        }
        compared += 1;
        let Some(our) = ours.get(name) else {
            found.push(format!("{name} is missing"));
            continue;
        };
        differences(schema, our, name, found);
        let kinds = |of: &Value| of["x-kubernetes-group-version-kind"].clone();
        let own = kinds(schema);
        if !name.contains("apis.meta.v1") && own != kinds(our) {
            found.push(format!("{name}: {own} / {}", kinds(our)));
        }
    }
    compared
}

/// Facts of an operation that clients look for.
fn facts(item: &Value, method: &str) -> Value {
    let call = &item[method];
    let names = |of: &Value| {
        let list = of["parameters"].as_array().into_iter().flatten();
        list.map(|parameter| parameter["name"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<String>>()
    };
    let mut parameters = names(call);
    parameters.extend(names(item));
    let media = |of: &Value| {
        let media = of["content"].as_object().into_iter().flatten();
        media
            .map(|(name, _)| name.clone())
            .collect::<BTreeSet<String>>()
    };
    let reply = &call["responses"]["200"]["content"]["application/json"]["schema"];
    serde_json::json!({
        "action": call["x-kubernetes-action"],
        "kind": call["x-kubernetes-group-version-kind"],
        "id": call["operationId"],
        "tags": call["tags"],
        "parameters": parameters,
        "body": media(&call["requestBody"]),
        "reply": reply,
    })
}

fn operations(recorded: &Value, ours: &Value, found: &mut Vec<String>) -> usize {
    let mut compared = 0;
    for (path, item) in recorded.as_object().unwrap() {
        for method in ["get", "put", "post", "delete", "patch"] {
            let call = &item[method];
            let action = call["x-kubernetes-action"].as_str().unwrap_or("connect");
            let is_log = path.ends_with("/log");
            if is_log || matches!(action, "connect" | "watch" | "watchlist") {
                continue;
            }
            compared += 1;
            let (recorded, ours) = (facts(item, method), facts(&ours[path], method));
            if recorded != ours {
                found.push(format!("{method} {path}:\n  {recorded}\n  {ours}"));
            }
        }
    }
    compared
}

/// Compares a document; returns the differences.
fn document_differences(
    recorded: &Value,
    ours: &Value,
    compared: &mut (usize, usize),
) -> Vec<String> {
    let mut found = Vec::new();
    if recorded["swagger"].is_null() && recorded["openapi"].is_null() {
        // Only the definitions of the older document were recorded.
        compared.0 += definitions(&recorded["definitions"], &ours["definitions"], &mut found);
        return found;
    }
    assert_eq!(ours["openapi"], recorded["openapi"]);
    let schemas = |of: &Value| of["components"]["schemas"].clone();
    compared.0 += definitions(&schemas(recorded), &schemas(ours), &mut found);
    compared.1 += operations(&recorded["paths"], &ours["paths"], &mut found);
    found
}

#[tokio::test]
async fn documents_say_what_a_real_servers_do() {
    let server = server().await;
    let (service, mut rows) = (server.service(), Rows::of("openapi"));
    let mut compared = (0, 0);
    for exchange in exchanges("openapi") {
        let reply = reply(&service, &exchange).await;
        let mut comparison = Comparison::new(Objects::Written);
        let mut found = match exchange.file.as_str() {
            "openapi/v3-index.json" => comparison.bodies(&exchange.bytes, &reply.bytes),
            _ => {
                let recorded = serde_json::from_slice(&exchange.bytes).unwrap();
                let ours = serde_json::from_slice(&reply.bytes).unwrap();
                document_differences(&recorded, &ours, &mut compared)
            }
        };
        found.extend(comparison.head(&exchange, &reply));
        rows.row(&exchange, &found);
    }
    assert!(compared > (880, 200), "{compared:?}");
    rows.finish();
}

#[tokio::test]
async fn the_document_of_everything_names_kinds_of_parts_and_options_of_patches() {
    let server = server().await;
    let document = document(&server.service(), "/openapi/v2").await;
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let definitions = document["definitions"].as_object().unwrap();
    // The kind of a subresource that is never stored.
    let binding = &definitions["io.k8s.api.core.v1.Binding"];
    assert_eq!(binding["required"], json!(["target"]));
    let nameless: Vec<&String> = definitions
        .keys()
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(nameless.is_empty(), "{nameless:?}");
    let patch = &document["paths"][path]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"]["kind"],
        "Deployment"
    );
    let mut parameters = patch["parameters"].as_array().unwrap().iter();
    assert!(parameters.any(|parameter| parameter["name"] == "dryRun"));
}

#[tokio::test]
async fn documents_are_found_by_the_index_and_kept_under_their_hash() {
    let server = server().await;
    let service = server.service();
    let index = document(&service, "/openapi/v3").await;
    let address = |index: &Value, of: &str| {
        let address = &index["paths"][of]["serverRelativeURL"];
        address.as_str().unwrap().to_owned()
    };
    let widgets = address(&index, "apis/stable.example.com/v1");
    let reply = get(&service, &widgets, "application/json", "").await;
    assert_eq!(reply.headers()["cache-control"], "public, immutable");
    let tag = reply.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(get(&service, &widgets, "*/*", &tag).await.status(), 304);
    assert_eq!(get(&service, &widgets, "text/html", "").await.status(), 406);
    let older = widgets.replace("hash=", "hash=0");
    let moved = get(&service, &older, "application/json", "").await;
    assert_eq!(moved.status(), 301);
    assert_eq!(moved.headers()["location"], widgets);
    let nowhere = get(&service, "/openapi/v3/apis/nope/v1", "*/*", "").await;
    assert_eq!(nowhere.status(), 404);

    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.stable.example.com";
    let patch = r#"{"spec":{"names":{"shortNames":["wdg"]}}}"#;
    let request = Request::patch(definition)
        .header("content-type", "application/merge-patch+json")
        .body(Bytes::from(patch));
    assert_eq!(service.call(request.unwrap()).await.status(), 200);
    let after = document(&service, "/openapi/v3").await;
    assert_eq!(
        after["paths"], index["paths"],
        "short names are not in documents"
    );
}

#[tokio::test]
async fn the_older_document_is_protobuf_for_those_who_read_nothing_else() {
    let server = server().await;
    let service = server.service();
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let reply = get(&service, "/openapi/v2", accept, "").await;
    let media = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(reply.headers()["content-type"], media);
    let body = reply.into_body().collect().await.unwrap();
    // swagger = 1: "2.0", then info = 2.
    assert_eq!(&body[..6], b"\x0a\x032.0\x12");
    let has = |text: &str| body.windows(text.len()).any(|part| part == text.as_bytes());
    for text in [
        "io.k8s.api.core.v1.PodSpec",
        "com.example.stable.v1.Widget",
        "x-kubernetes-group-version-kind",
        "strategic-merge-patch+json",
    ] {
        assert!(has(text), "{text}");
    }
}
