//! The documents of a measurement: made, changed, deleted and judged by the harness.
//!
//! ```text
//! seed ─▶ N documents with finalizer and status, as a controller that has worked leaves them
//! Writes::next ─▶ hide, show │ create │ delete ─▶ the cluster
//! unsettled ─▶ documents that are not as they should be
//! ```
//!
//! Each document is what others' requests make of it, `managedFields` included: 0.6 kB of text, and
//! 1.6 kB as JSON.

use documents::document::{CONTROLLER, FINALIZER};
use http::Method;
use serde_json::{Value, json};

use crate::cluster::Body;
use crate::{Cluster, StageError};

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

/// Makes documents `d-0` to `d-(count - 1)` as a controller leaves them.
///
/// # Errors
/// The server refuses.
pub async fn seed(cluster: &Cluster, count: usize) -> Result<(), StageError> {
    for number in 0..count {
        let name = name(number);
        let made = document(&name, &text(number), false);
        create(cluster, &made).await?;
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

/// The name of a document.
#[must_use]
pub fn name(number: usize) -> String {
    format!("d-{number}")
}

/// A document with the controller's finalizer.
#[must_use]
pub fn document(name: &str, content: &str, hide: bool) -> Value {
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

/// Creates a document.
///
/// # Errors
/// The server refuses.
pub async fn create(cluster: &Cluster, document: &Value) -> Result<Value, StageError> {
    let path = format!("{PATH}?fieldManager=kubectl-create");
    cluster
        .call(Method::POST, &path, Body::Object(document))
        .await
}

/// A text that no other document has.
fn text(number: usize) -> String {
    let word = |at: usize| WORDS[(number.wrapping_mul(31) + at * (at + number % 7)) % WORDS.len()];
    let words: Vec<&str> = (0..LENGTH).map(word).collect();
    format!("{number}: {}", words.join(" "))
}

/// A stream of writes: the same for each column.
#[derive(Debug)]
pub struct Writes {
    hidden: Vec<bool>,
    made: usize,
    done: usize,
    dice: u64,
}

impl Writes {
    /// Writes to the documents that [`seed`] made.
    #[must_use]
    pub fn new(documents: usize) -> Self {
        let hidden = vec![false; documents];
        Self {
            hidden,
            made: 0,
            done: 0,
            dice: 1,
        }
    }

    /// The number of writes until now.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// Hides a document that is shown, or shows one that is hidden.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn toggle(&mut self, cluster: &Cluster) -> Result<(), StageError> {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let chosen = (self.dice >> 33) as usize % self.hidden.len();
        self.hidden[chosen] = !self.hidden[chosen];
        let patch = json!({"spec": {"hide": self.hidden[chosen]}});
        let path = format!("{PATH}/{}?fieldManager=kubectl-edit", name(chosen));
        cluster
            .call(Method::PATCH, &path, Body::Merge(&patch))
            .await?;
        self.done += 1;
        Ok(())
    }

    /// Creates a document, or deletes the one that was created last.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn come_or_go(&mut self, cluster: &Cluster) -> Result<(), StageError> {
        let name = format!("extra-{}", self.made / 2);
        if self.made.is_multiple_of(2) {
            create(cluster, &document(&name, "A short text.", true)).await?;
        } else {
            let path = format!("{PATH}/{name}");
            cluster.call(Method::DELETE, &path, Body::Empty).await?;
        }
        self.made += 1;
        self.done += 1;
        Ok(())
    }
}

/// The documents whose state is not what they ask for: their status differs, or they wait for the
/// end of a deletion.
///
/// # Errors
/// The server refuses.
pub async fn unsettled(cluster: &Cluster) -> Result<Vec<String>, StageError> {
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
