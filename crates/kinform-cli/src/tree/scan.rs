//! The owners of all objects: metadata of every type, in one namespace or all.
//!
//! ```text
//! types ──lists of metadata, by pages──▶ [Node]   + types that could not be listed
//! ```
//!
//! A type that this user may not list, or whose server is down, hides only its own objects.
//!
//! BOUND: 500,000 objects; 16 lists at a time.

use futures::stream::{self, StreamExt as _};
use http_body_util::{BodyExt as _, Limited};
use kinform_api::Scope;
use kube_client::Client;
use kube_client::client::Body;
use serde::Deserialize;

use super::owners::{Node, Owner};
use crate::catalogue::ResourceEntry;

const MAX_NODES: usize = 500_000;
const AT_ONCE: usize = 16;
/// BOUND: objects of a page, and its bytes.
const PAGE: usize = 1_000;
const MAX_PAGE: usize = 64 << 20;
/// BOUND: the time that a page has.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);
const ACCEPT: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/// All objects, and the titles of types that could not be listed.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) nodes: Vec<Node>,
    pub(crate) unlisted: Vec<String>,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Default, Deserialize)]
struct ListMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    creation_timestamp: Option<String>,
    #[serde(default)]
    owner_references: Vec<Reference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    name: String,
}

/// Returns whether objects of a type can own or be owned in a way that a person looks for.
pub(crate) fn is_of_interest(entry: &ResourceEntry) -> bool {
    entry.gvr.resource != "events" && entry.gvr.group != "metrics.k8s.io"
}

/// Lists the metadata of all types. A namespace leaves out types of the cluster.
pub(crate) async fn scan(
    client: &Client,
    types: &[ResourceEntry],
    namespace: Option<&str>,
) -> Scan {
    let lists = types
        .iter()
        .enumerate()
        .filter(|(_, entry)| namespace.is_none() || entry.scope == Scope::Namespaced);
    let lists = stream::iter(lists)
        .map(|(kind, entry)| async move { (entry, list(client, kind, entry, namespace).await) });
    let mut lists = lists.buffer_unordered(AT_ONCE);
    let (mut scan, mut seen) = (Scan::default(), std::collections::HashSet::new());
    while let Some((entry, nodes)) = lists.next().await {
        match nodes {
            None => scan.unlisted.push(entry.title()),
            // Some objects are served in two groups.
            Some(nodes) => scan.nodes.extend(
                nodes
                    .into_iter()
                    .filter(|node| seen.insert(node.uid.clone())),
            ),
        }
        scan.nodes.truncate(MAX_NODES);
    }
    scan.unlisted.sort();
    scan
}

/// `None` if the type cannot be listed.
async fn list(
    client: &Client,
    kind: usize,
    entry: &ResourceEntry,
    namespace: Option<&str>,
) -> Option<Vec<Node>> {
    let (mut nodes, mut next) = (Vec::new(), String::new());
    loop {
        let more = percent_encoding::utf8_percent_encode(&next, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("{}?limit={PAGE}&continue={more}", entry.gvr.path(namespace));
        let page = tokio::time::timeout(PATIENCE, page(client, &path))
            .await
            .ok()??;
        nodes.extend(page.items.into_iter().map(|item| node(kind, item.metadata)));
        next = page.metadata.next;
        if next.is_empty() || nodes.len() >= MAX_NODES {
            return Some(nodes);
        }
    }
}

async fn page(client: &Client, path: &str) -> Option<Page> {
    let request = http::Request::get(path).header(http::header::ACCEPT, ACCEPT);
    let request = request.body(Body::empty()).ok()?;
    let response = client.send(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body = Limited::new(response.into_body(), MAX_PAGE)
        .collect()
        .await
        .ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}

fn node(kind: usize, metadata: Metadata) -> Node {
    let owners = metadata.owner_references.into_iter().map(|owner| Owner {
        uid: owner.uid,
        api_version: owner.api_version,
        kind: owner.kind,
        name: owner.name,
    });
    Node {
        uid: metadata.uid,
        kind,
        namespace: metadata.namespace,
        name: metadata.name,
        created: metadata.creation_timestamp.unwrap_or_default(),
        owners: owners.collect(),
    }
}
