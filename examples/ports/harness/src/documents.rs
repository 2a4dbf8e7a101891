//! The documents of a measurement: made, changed, deleted and judged by the harness.
//!
//! ```text
//! Documents: Port ─▶ documents with finalizer and status; hide, show; hidden as asked for?
//! ```
//!
//! Each document is what others' requests make of it, `managedFields` included: 0.6 kB of text, and
//! 1.6 kB as JSON.

use documents::Document;
use documents::document::{CONTROLLER, FINALIZER};
use http::Method;
use serde_json::{Value, json};

use crate::cluster::Body;
use crate::measure::Plan;
use crate::{Cluster, Column, Port, StageError};

/// The path of documents.
const PATH: &str = "/apis/ports.kinform.dev/v1/namespaces/default/documents";
/// The version of documents.
const VERSION: &str = "ports.kinform.dev/v1";
/// Words of a text.
const WORDS: [&str; 12] = [
    "river", "letter", "seldom", "garden", "orange", "window", "paper", "silent", "morning",
    "copper", "harbour", "winter",
];
/// The words in each text.
const LENGTH: usize = 85;

/// The port of the controller of documents.
#[derive(Clone, Copy, Debug)]
pub struct Documents;

impl Port for Documents {
    const NAME: &'static str = "documents";
    type Object = Document;

    fn plan() -> Plan {
        Plan::full(&[5_000, 50_000], 2_000)
    }

    async fn seed(cluster: &Cluster, _: Column, count: usize) -> Result<(), StageError> {
        for number in 0..count {
            let name = name(number);
            make(cluster, &document(&name, &text(number), false)).await?;
            let status = json!({
                "apiVersion": VERSION, "kind": "Document", "status": {"hidden": false},
            });
            let path = format!("{PATH}/{name}/status?fieldManager={CONTROLLER}&force=true");
            cluster
                .call(Method::PATCH, &path, Body::Apply(&status))
                .await?;
        }
        Ok(())
    }

    async fn toggle(cluster: &Cluster, number: usize, on: bool) -> Result<(), StageError> {
        let patch = json!({"spec": {"hide": on}});
        let path = format!("{PATH}/{}?fieldManager=kubectl-edit", name(number));
        cluster
            .call(Method::PATCH, &path, Body::Merge(&patch))
            .await?;
        Ok(())
    }

    async fn create(cluster: &Cluster, name: &str) -> Result<(), StageError> {
        make(cluster, &document(name, "A short text.", true)).await
    }

    async fn delete(cluster: &Cluster, name: &str) -> Result<(), StageError> {
        cluster
            .call(Method::DELETE, &format!("{PATH}/{name}"), Body::Empty)
            .await?;
        Ok(())
    }

    async fn unsettled(cluster: &Cluster) -> Result<Vec<String>, StageError> {
        let list = cluster.call(Method::GET, PATH, Body::Empty).await?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let is_unsettled = |item: &Value| {
            item["spec"]["hide"] != item["status"]["hidden"]
                || !item["metadata"]["deletionTimestamp"].is_null()
        };
        let items = items.iter().filter(|item| is_unsettled(item));
        let name = |item: &Value| {
            item["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        Ok(items.map(name).collect())
    }
}

fn name(number: usize) -> String {
    format!("d-{number}")
}

/// A document with the controller's finalizer.
fn document(name: &str, content: &str, hide: bool) -> Value {
    json!({
        "apiVersion": VERSION,
        "kind": "Document",
        "metadata": {
            "name": name, "namespace": "default", "finalizers": [FINALIZER],
            "labels": {"app.kubernetes.io/name": "document"},
        },
        "spec": {"title": format!("About {name}"), "hide": hide, "content": content},
    })
}

async fn make(cluster: &Cluster, document: &Value) -> Result<(), StageError> {
    let path = format!("{PATH}?fieldManager=kubectl-create");
    let body = Body::Object(document);
    cluster.call(Method::POST, &path, body).await.map(drop)
}

/// A text that no other document has.
fn text(number: usize) -> String {
    let word = |at: usize| WORDS[(number.wrapping_mul(31) + at * (at + number % 7)) % WORDS.len()];
    let words: Vec<&str> = (0..LENGTH).map(word).collect();
    format!("{number}: {}", words.join(" "))
}
