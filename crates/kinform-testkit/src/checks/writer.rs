//! Random writes of a cluster's users: creates, patches and deletes of small objects, and the
//! truth.
//!
//! ```text
//! seed → Writer ──POST, PATCH, DELETE──▶ server ──GET──▶ Truth
//! ```
//!
//! Requests are ordinary ones, through the client that the caller passes; it should lead straight
//! to the server, around the faults that its informers suffer from. The few names make objects come
//! back under the same name often. The effect of another writer or of a fault in between is no
//! error: a conflict, an object that is gone or exists already.
//! Never: reads through kinform.

use std::fmt;

use http::{Method, Request};
use kube_client::Client;
use kube_client::client::Body;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::checks::event_model::Truth;

/// The namespaces of the config maps that are written.
const NAMESPACES: [&str; 3] = ["apple", "birch", "cedar"];
/// BOUND: names in a namespace.
const NAMES: usize = 12;

/// Writes at random. The same seed and the same server give the same writes.
pub struct Writer {
    client: Client,
    random: SmallRng,
    writes: u64,
}

/// A write that the server should not have refused, or a read that failed.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct WriteError {
    what: String,
    why: String,
}

impl Writer {
    /// Makes a writer through `client`.
    pub fn new(client: Client, seed: u64) -> Self {
        Self {
            client,
            random: SmallRng::seed_from_u64(seed),
            writes: 0,
        }
    }

    /// Continues through another client.
    pub fn through(&mut self, client: Client) {
        self.client = client;
    }

    /// The number of writes done.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Creates the namespaces that do not exist.
    ///
    /// # Errors
    /// The server does not create them.
    ///
    /// Cancel safety: some may exist.
    pub async fn namespaces(&mut self) -> Result<(), WriteError> {
        for name in NAMESPACES {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            self.send(Method::POST, "/api/v1/namespaces", JSON, &body)
                .await?;
        }
        Ok(())
    }

    /// Writes `times` times.
    ///
    /// # Errors
    /// The server refuses a write that it should accept, or cannot be reached.
    ///
    /// Cancel safety: the write under way may have been done.
    pub async fn write(&mut self, times: usize) -> Result<(), WriteError> {
        for _ in 0..times {
            self.write_one().await?;
        }
        Ok(())
    }

    /// Deletes an object and creates it again under its name.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    ///
    /// Cancel safety: the object may be gone.
    pub async fn recreate(&mut self) -> Result<(), WriteError> {
        let (namespace, name) = self.draw();
        self.delete(namespace, &name).await?;
        self.create(namespace, &name).await
    }

    /// The objects that the server has now, by a consistent list.
    ///
    /// # Errors
    /// The list cannot be read.
    ///
    /// Cancel safety: nothing is changed.
    pub async fn truth(&mut self) -> Result<Truth, WriteError> {
        let path = "/api/v1/configmaps";
        let (code, list) = self.call(Method::GET, path, JSON, &Value::Null).await?;
        let truth = Truth::of_list(&list).filter(|_| code == 200);
        truth.ok_or_else(|| WriteError {
            what: format!("GET {path}"),
            why: format!("{code} {list}"),
        })
    }

    async fn write_one(&mut self) -> Result<(), WriteError> {
        let (namespace, name) = self.draw();
        match self.random.random_range(0..100) {
            0..35 => self.create(namespace, &name).await,
            35..55 => self.merge(namespace, &name).await,
            55..75 => self.patch(namespace, &name).await,
            75..92 => self.delete(namespace, &name).await,
            _ => {
                self.delete(namespace, &name).await?;
                self.create(namespace, &name).await
            }
        }
    }

    fn draw(&mut self) -> (&'static str, String) {
        let namespace = NAMESPACES
            .choose(&mut self.random)
            .copied()
            .unwrap_or(NAMESPACES[0]);
        (
            namespace,
            format!("object-{}", self.random.random_range(0..NAMES)),
        )
    }

    async fn create(&mut self, namespace: &str, name: &str) -> Result<(), WriteError> {
        let filling = "é\"\\\n".repeat(self.random.random_range(0..40));
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"writer": "chaos"}},
            "data": {"text": filling, "number": self.random.random_range(0..1000).to_string()}});
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.send(Method::POST, &path, JSON, &body).await
    }

    async fn merge(&mut self, namespace: &str, name: &str) -> Result<(), WriteError> {
        let number: u32 = self.random.random();
        let body = json!({"data": {"number": number.to_string()}});
        self.send(Method::PATCH, &object(namespace, name), MERGE_PATCH, &body)
            .await
    }

    async fn patch(&mut self, namespace: &str, name: &str) -> Result<(), WriteError> {
        let number: u32 = self.random.random();
        let body = json!([{"op": "add", "path": "/data/patched", "value": number.to_string()}]);
        self.send(Method::PATCH, &object(namespace, name), JSON_PATCH, &body)
            .await
    }

    async fn delete(&mut self, namespace: &str, name: &str) -> Result<(), WriteError> {
        self.send(Method::DELETE, &object(namespace, name), JSON, &Value::Null)
            .await
    }

    /// One write; the effects that others may have had in between are no error.
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<(), WriteError> {
        let what = format!("{method} {path}");
        let (code, reply) = self.call(method, path, media, body).await?;
        match code {
            200..300 => self.writes += 1,
            404 | 409 => {}
            _ => {
                let why = format!("{code} {reply}");
                return Err(WriteError { what, why });
            }
        }
        Ok(())
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: &Value,
    ) -> Result<(u16, Value), WriteError> {
        let what = format!("{method} {path}");
        let failed = |why: String| WriteError {
            what: what.clone(),
            why,
        };
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .header("accept", JSON)
            .body(Body::from(bytes))
            .map_err(|error| failed(error.to_string()))?;
        let reply = self.client.send(request).await;
        let reply = reply.map_err(|error| failed(format!("{error:?}")))?;
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect_bytes().await;
        let bytes = bytes.map_err(|error| failed(error.to_string()))?;
        let value = serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
        Ok((code, value))
    }
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

fn object(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}
