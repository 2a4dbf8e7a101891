//! A client for tests, in process.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use kinform_apiserver::{Body, Expect, Server, Service};
use serde_json::{Value, json};

/// A request without a body.
pub(crate) async fn get(service: &Service, path: &str) -> (u16, Value) {
    send(service, Method::GET, path, Value::Null).await
}

pub(crate) async fn send(
    service: &Service,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        Bytes::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let reply = service.call(request).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Creates a namespace unless it exists.
pub(crate) async fn namespace(service: &Service, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    send(service, Method::POST, "/api/v1/namespaces", body).await;
}

/// Creates a config map and returns its version.
pub(crate) async fn create(service: &Service, namespace: &str, name: &str, labels: Value) -> u64 {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels}, "data": {"k": "v"}});
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let (code, object) = send(service, Method::POST, &path, body).await;
    assert_eq!(code, 201, "{object}");
    version(&object)
}

/// Replaces a config map and returns its version.
pub(crate) async fn update(service: &Service, namespace: &str, name: &str, labels: Value) -> u64 {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels}, "data": {"k": "w"}});
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let (code, object) = send(service, Method::PUT, &path, body).await;
    assert_eq!(code, 200, "{object}");
    version(&object)
}

pub(crate) async fn delete(service: &Service, namespace: &str, name: &str) {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let (code, reply) = send(service, Method::DELETE, &path, Value::Null).await;
    assert_eq!(code, 200, "{reply}");
}

pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// Removes the config maps that every server begins with, for tests that count their own.
pub(crate) fn without_maps(server: &Server) {
    let store = server.store();
    for map in server.objects("configmaps") {
        let removed = store.remove(store.shelf("configmaps"), map.key(), Expect::Present);
        removed.unwrap();
    }
}

/// A server in process with two namespaces, and without config maps.
pub(crate) async fn server() -> (Server, Service) {
    let server = Server::builder().in_process();
    without_maps(&server);
    let service = server.service();
    namespace(&service, "a").await;
    namespace(&service, "b").await;
    (server, service)
}

/// A watch, read frame by frame.
pub(crate) struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    pub(crate) async fn open(service: &Service, path: &str) -> Self {
        let request = Request::get(path).body(Bytes::new()).unwrap();
        let reply = service.call(request).await;
        assert_eq!(reply.status(), 200);
        Self {
            body: reply.into_body(),
            buffer: Vec::new(),
        }
    }

    /// The next event; `None` at the stream's end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            match self.body.next().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk.unwrap()),
                None => {
                    assert!(self.buffer.is_empty(), "a frame was cut");
                    return None;
                }
            }
        }
    }

    /// The next event in short: `ADDED a/x 1003`.
    pub(crate) async fn tell(&mut self) -> String {
        self.next()
            .await
            .map_or_else(|| "END".to_owned(), |event| short(&event))
    }

    /// The events that arrive within a time.
    pub(crate) async fn within(&mut self, time: Duration) -> Vec<String> {
        let mut told = Vec::new();
        let _ = tokio::time::timeout(time, async {
            loop {
                let next = self.tell().await;
                let end = next == "END";
                told.push(next);
                if end {
                    break;
                }
            }
        })
        .await;
        told
    }
}

pub(crate) fn short(event: &Value) -> String {
    let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
    let metadata = &object["metadata"];
    let version = metadata["resourceVersion"].as_str().unwrap_or_default();
    match kind {
        "BOOKMARK" if !metadata["annotations"].is_null() => format!("SYNCED {version}"),
        "BOOKMARK" => format!("BOOKMARK {version}"),
        "ERROR" => format!(
            "ERROR {} {}",
            object["code"],
            object["reason"].as_str().unwrap()
        ),
        _ => {
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            format!(
                "{kind} {namespace}/{} {version}",
                metadata["name"].as_str().unwrap()
            )
        }
    }
}
