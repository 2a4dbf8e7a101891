//! The valid objects that are made invalid, and each server's own of them.
//!
//! ```text
//! testdata/golden/defaults.jsonl.gz ──▶ [Subject] ──created on a server──▶ [Value]: as it is stored there
//! ```
//!
//! `e2e/invalid/objects.py` explains each object; the recording holds them as they were sent.

use std::io::Read as _;

use http::Request;
use http_body_util::BodyExt as _;
use kinform_testkit::checks::stage::StageError;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::Value;

use crate::servers::Host;

/// The recording, as it is in the repository.
const RECORDED: &[u8] = include_bytes!("../../../testdata/golden/defaults.jsonl.gz");

/// A valid object of a built-in or custom kind.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// A short word for it.
    pub(super) name: String,
    /// The path of the collection that it is created in.
    pub(super) collection: String,
    /// The object as it is sent.
    pub(super) given: Value,
    /// Set if it may be stored; others are created only to see the result.
    pub(super) is_stored: bool,
}

impl Subject {
    /// All of them; first the namespace and the definition that others need.
    pub(super) fn all() -> Result<Vec<Self>, StageError> {
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(RECORDED).read_to_string(&mut text)?;
        text.lines().map(Self::read).collect()
    }

    fn read(line: &str) -> Result<Self, StageError> {
        let line: Value = serde_json::from_str(line)?;
        let text = |name: &str| line[name].as_str().unwrap_or_default();
        let name = text("file").trim_start_matches("defaults/");
        let (collection, query) = text("path").split_once('?').unwrap_or((text("path"), ""));
        Ok(Self {
            name: name.trim_end_matches(".json").to_owned(),
            collection: collection.to_owned(),
            given: serde_json::from_str(text("request"))?,
            is_stored: query.is_empty(),
        })
    }

    /// Returns whether other subjects need it; it is not changed itself.
    pub(super) fn is_ground(&self) -> bool {
        self.name.starts_with("0-")
    }

    /// The object's path once it is stored.
    pub(super) fn path(&self) -> String {
        let name = self.given["metadata"]["name"].as_str().unwrap_or_default();
        format!("{}/{name}", self.collection)
    }
}

/// Creates every subject; returns each as the server stored it.
pub(super) async fn create(host: &Host, subjects: &[Subject]) -> Result<Vec<Value>, StageError> {
    let (client, mut made) = (host.client()?, Vec::new());
    for subject in subjects {
        let path = match subject.is_stored {
            true => subject.collection.clone(),
            false => format!("{}?dryRun=All", subject.collection),
        };
        let sent = Sent {
            method: "POST",
            path,
            media: "application/json",
            body: subject.given.to_string(),
        };
        let mut said = ask(&client, &sent).await?;
        // A new type takes a moment to be served.
        for _ in 0..PATIENCE {
            if said.code != 404 && said.code != 429 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            said = ask(&client, &sent).await?;
        }
        if said.code != 201 {
            let (name, kind) = (&subject.name, host.kind());
            return Err(
                format!("{name} on the {kind} server: {}: {}", said.code, said.body).into(),
            );
        }
        let mut object = said.body;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        made.push(object);
    }
    Ok(made)
}

/// The number of times that a type being set up is asked for.
const PATIENCE: usize = 100;

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) media: &'static str,
    pub(super) body: String,
}

/// An answer.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) code: u16,
    /// Null if it is not JSON.
    pub(super) body: Value,
}

/// Asks one server.
pub(super) async fn ask(client: &Client, sent: &Sent) -> Result<Said, StageError> {
    let request = Request::builder()
        .method(sent.method)
        .uri(&sent.path)
        .header(http::header::ACCEPT, "application/json")
        .header(http::header::CONTENT_TYPE, sent.media)
        .body(Body::from(sent.body.clone().into_bytes()))?;
    let response = client.send(request).await?;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Said { code, body })
}
