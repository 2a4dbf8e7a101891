//! Tests of protobuf through the server: the same objects as in JSON, and refusals.
//!
//! ```text
//! request in protobuf ──▶ server ──▶ reply in protobuf = reply in JSON
//! ```

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use serde_json::{Value, json};

use super::*;
use crate::{Seed, Server, Service};

const JSON: &str = "application/json";
const MAPS: &str = "/api/v1/namespaces/kinds/configmaps";

struct Reply {
    code: u16,
    media_type: String,
    bytes: Bytes,
}

impl Reply {
    /// Returns the object in the reply, in either encoding.
    fn value(&self) -> Value {
        match self.media_type.as_str() {
            MEDIA_TYPE => read_body(&self.bytes).unwrap(),
            _ => serde_json::from_slice(&self.bytes).unwrap(),
        }
    }
}

async fn ask(service: &Service, method: Method, path: &str, accept: &str, body: Bytes) -> Reply {
    let content_type = if body.starts_with(MAGIC) || body.starts_with(b"!") {
        MEDIA_TYPE
    } else {
        JSON
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("content-type", content_type)
        .body(body)
        .unwrap();
    let reply = service.call(request).await;
    Reply {
        code: reply.status().as_u16(),
        media_type: reply.headers()["content-type"].to_str().unwrap().to_owned(),
        bytes: reply.into_body().collect().await.unwrap().into(),
    }
}

async fn get(service: &Service, path: &str, accept: &str) -> Reply {
    ask(service, Method::GET, path, accept, Bytes::new()).await
}

/// Encodes a JSON object as a protobuf body.
fn in_protobuf(object: &Value) -> Bytes {
    body(object.as_object().unwrap()).unwrap().freeze()
}

async fn server() -> (Server, Service) {
    let server = Server::builder().keep_inert_objects().in_process();
    let service = server.service();
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kinds"}});
    let made = ask(
        &service,
        Method::POST,
        "/api/v1/namespaces",
        JSON,
        in_protobuf(&namespace),
    )
    .await;
    assert_eq!(made.code, 201);
    (server, service)
}

/// Returns the value without zero values and nulls, which JSON may leave out.
fn plain(value: &Value) -> Value {
    let is_zero = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    };
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(members) => {
            // Protobuf has no field for the version and the kind of an embedded claim.
            let is_claim = members.get("kind") == Some(&Value::from("PersistentVolumeClaim"));
            let is_inner = |name: &str| is_claim && matches!(name, "apiVersion" | "kind");
            let kept = members
                .iter()
                .filter(|(name, _)| !is_inner(name))
                .map(|(name, value)| (name.clone(), plain(value)));
            Value::Object(kept.filter(|(_, value)| !is_zero(value)).collect())
        }
        value => value.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn every_recorded_kind_is_created_read_and_listed_in_protobuf_as_in_json() {
    let (_server, service) = server().await;
    let mut compared = 0;
    for (file, request) in tests::recorded_requests("kinds") {
        if !file.ends_with(".create.json") || file.contains("invalid") {
            continue;
        }
        let (path, object): (String, Value) = request;
        // The test's custom resources have no protobuf, and reviews are not stored.
        let Some(sent) = body(object.as_object().unwrap()) else {
            continue;
        };
        let made = ask(&service, Method::POST, &path, MEDIA_TYPE, sent.freeze()).await;
        if made.code == 404 || made.code == 405 {
            continue;
        }
        assert_eq!((made.code, &*made.media_type), (201, MEDIA_TYPE), "{file}");
        let name = made.value()["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned();
        let one = format!("{path}/{name}");
        for path in [&one, &path] {
            let both = format!("{MEDIA_TYPE},{JSON}");
            let (binary, json) = (
                get(&service, path, &both).await,
                get(&service, path, JSON).await,
            );
            assert_eq!(
                (binary.code, &*binary.media_type),
                (200, MEDIA_TYPE),
                "{path}"
            );
            assert_eq!(plain(&binary.value()), plain(&json.value()), "{path}");
        }
        assert_eq!(
            plain(&made.value()),
            plain(&get(&service, &one, JSON).await.value()),
            "{file}"
        );
        compared += 1;
    }
    assert!(compared >= 44, "{compared}");
}

/// Returns the frames of a protobuf stream: kind of event and object.
fn frames(mut bytes: &[u8]) -> Vec<(String, Value)> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        bytes = rest;
        let (mut kind, mut object) = (String::new(), Value::Null);
        let mut reader = Reader::new(frame, "WatchEvent");
        while let Some((number, raw)) = reader.next().unwrap() {
            let raw = raw.bytes("WatchEvent").unwrap();
            match number {
                1 => kind = String::from_utf8(raw.to_vec()).unwrap(),
                _ => {
                    let mut inner = Reader::new(raw, "RawExtension");
                    let (_, raw) = inner.next().unwrap().unwrap();
                    object = read_body(raw.bytes("Raw").unwrap()).unwrap();
                }
            }
        }
        frames.push((kind, object));
    }
    assert!(bytes.is_empty());
    frames
}

#[tokio::test(start_paused = true)]
async fn a_watch_in_protobuf_tells_what_one_in_json_tells() {
    let (server, service) = server().await;
    let map = |name: &str| {
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name},
            "data": {"k": name}, "binaryData": {"b": "AAEC/w=="}})
    };
    ask(&service, Method::POST, MAPS, JSON, in_protobuf(&map("a"))).await;
    let query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&timeoutSeconds=70\
                 &resourceVersionMatch=NotOlderThan";
    let path = format!("{MAPS}?{query}");
    let story = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        ask(&service, Method::POST, MAPS, JSON, in_protobuf(&map("b"))).await;
        ask(
            &service,
            Method::DELETE,
            &format!("{MAPS}/a"),
            JSON,
            Bytes::new(),
        )
        .await;
    };
    let partial = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (binary_partial, json_partial) = (
        format!("{MEDIA_TYPE};{partial}"),
        format!("{JSON};{partial}"),
    );
    let (binary, text, metadata, metadata_text, ()) = futures::join!(
        get(&service, &path, MEDIA_TYPE),
        get(&service, &path, JSON),
        get(&service, &path, &binary_partial),
        get(&service, &path, &json_partial),
        story
    );
    for (binary, text) in [(binary, text), (metadata, metadata_text)] {
        assert_eq!(binary.media_type, format!("{MEDIA_TYPE};stream=watch"));
        let told = frames(&binary.bytes);
        let kinds: Vec<&str> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds[..4], ["ADDED", "BOOKMARK", "ADDED", "DELETED"]);
        let lines = std::str::from_utf8(&text.bytes).unwrap().lines();
        let lines: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(told.len(), lines.len());
        for ((kind, object), line) in told.iter().zip(&lines) {
            assert_eq!(line["type"], kind.as_str());
            assert_eq!(plain(object), plain(&line["object"]));
        }
    }
    // A failure is an event, too.
    server.store().compact(server.store().revision());
    let old = get(
        &service,
        &format!("{MAPS}?watch=1&resourceVersion=2"),
        MEDIA_TYPE,
    )
    .await;
    let told = frames(&old.bytes);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&*told[0].0, told[0].1["code"].as_u64()),
        ("ERROR", Some(410))
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_list_in_protobuf_comes_in_pages_and_in_gzip() {
    let (_server, service) = server().await;
    for at in 0..30 {
        let map = json!({"kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": format!("m{at:02}")}, "data": {"k": "v".repeat(9000)}});
        ask(&service, Method::POST, MAPS, JSON, in_protobuf(&map)).await;
    }
    let page = get(&service, &format!("{MAPS}?limit=20"), MEDIA_TYPE)
        .await
        .value();
    let metadata = &page["metadata"];
    assert_eq!(metadata["remainingItemCount"], 10);
    let token = metadata["continue"].as_str().unwrap();
    let rest = get(
        &service,
        &format!("{MAPS}?limit=20&continue={token}"),
        MEDIA_TYPE,
    )
    .await;
    assert_eq!(rest.value()["items"].as_array().unwrap().len(), 10);
    let all = get(&service, MAPS, MEDIA_TYPE).await;
    assert!(all.bytes.len() > 128 << 10);
    let request = Request::get(MAPS)
        .header("accept", MEDIA_TYPE)
        .header("accept-encoding", "gzip")
        .body(Bytes::new())
        .unwrap();
    let reply = service.call(request).await;
    assert_eq!(reply.headers()["content-encoding"], "gzip");
    let mut packed = Vec::new();
    let mut chunks = reply.into_body();
    while let Some(chunk) = chunks.next().await {
        packed.extend_from_slice(&chunk.unwrap());
    }
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*packed), &mut plain).unwrap();
    assert_eq!(plain, all.bytes);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_or_shown_is_refused_in_the_encoding_that_was_asked_for() {
    let (_server, service) = server().await;
    let missing = get(
        &service,
        &format!("{MAPS}/nope"),
        &format!("{MEDIA_TYPE},{JSON}"),
    )
    .await;
    assert_eq!((missing.code, &*missing.media_type), (404, MEDIA_TYPE));
    assert_eq!(missing.value()["details"]["name"], "nope");
    let post = |body: Bytes| ask(&service, Method::POST, MAPS, JSON, body);
    for broken in [
        &b"!no protobuf"[..],
        b"k8s\0\xff",
        b"k8s\0\x0a\x00\x12\x02\x0a\x09",
    ] {
        let refused = post(Bytes::from_static(broken)).await;
        assert_eq!(refused.code, 400, "{broken:?}: {}", refused.value());
    }
    let other =
        in_protobuf(&json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}));
    let refused = post(other).await;
    assert_eq!(refused.code, 400);
    assert!(
        refused.value()["message"]
            .as_str()
            .unwrap()
            .contains("cannot be handled as a ConfigMap")
    );
    // A patch is never protobuf.
    let map =
        in_protobuf(&json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}));
    assert_eq!(post(map.clone()).await.code, 201);
    let patched = ask(&service, Method::PATCH, &format!("{MAPS}/x"), JSON, map).await;
    assert_eq!(patched.code, 415);
}

#[tokio::test(start_paused = true)]
async fn options_of_a_delete_and_scales_are_read_from_protobuf() {
    let (_server, service) = server().await;
    let map =
        in_protobuf(&json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}}));
    ask(&service, Method::POST, MAPS, JSON, map).await;
    let options = |uid: &str| {
        in_protobuf(&json!({"kind": "DeleteOptions", "apiVersion": "v1",
            "propagationPolicy": "Background", "preconditions": {"uid": uid}}))
    };
    let path = format!("{MAPS}/x");
    let delete = |uid: &str| ask(&service, Method::DELETE, &path, MEDIA_TYPE, options(uid));
    let refused = delete("another").await;
    assert_eq!(
        (refused.code, refused.value()["reason"].as_str()),
        (409, Some("Conflict"))
    );
    let uid = get(&service, &path, JSON).await.value()["metadata"]["uid"].clone();
    let done = delete(uid.as_str().unwrap()).await;
    assert_eq!(
        (done.code, done.value()["status"].as_str()),
        (200, Some("Success"))
    );

    let sets = "/apis/apps/v1/namespaces/kinds/replicasets";
    let set = json!({"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "r"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(
        ask(&service, Method::POST, sets, JSON, in_protobuf(&set))
            .await
            .code,
        201
    );
    let path = format!("{sets}/r/scale");
    let mut scale = get(&service, &path, MEDIA_TYPE).await.value();
    scale["spec"]["replicas"] = json!(3);
    let written = ask(
        &service,
        Method::PUT,
        &path,
        MEDIA_TYPE,
        in_protobuf(&scale),
    )
    .await;
    assert_eq!(
        (written.code, &written.value()["spec"]["replicas"]),
        (200, &json!(3))
    );
    assert_eq!(
        get(&service, &format!("{sets}/r"), JSON).await.value()["spec"]["replicas"],
        3
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_encoded_by_many_is_the_list_in_order() {
    let (server, service) = server().await;
    server.seed(Seed {
        seed: 1,
        nodes: 5,
        deployments: 10,
        pods: 1200,
    });
    // A page is too small to be encoded in parallel.
    let page = get(&service, "/api/v1/pods?limit=100", MEDIA_TYPE).await;
    let binary = get(&service, "/api/v1/pods", MEDIA_TYPE).await;
    let json = get(&service, "/api/v1/pods", JSON).await;
    let (page, binary, json) = (page.value(), binary.value(), json.value());
    let items = |list: &Value| list["items"].as_array().cloned().unwrap_or_default();
    assert_eq!((items(&binary).len(), items(&page).len()), (1200, 100));
    assert_eq!(items(&binary)[..100], items(&page));
    assert_eq!(plain(&binary), plain(&json));
}
