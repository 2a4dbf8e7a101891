//! Documents become a server's objects.
//!
//! ```text
//! [Document] ──namespaces, definitions, the rest──▶ create │ restore │ remove ──▶ Server
//! ```
//!
//! Loading lays a state: configurations of admission come last, so that no webhook is asked. An
//! object that the server would store but never act on (an aggregated API) is skipped with a line, so
//! that an operator's bundle loads. A server that keeps such objects gets them whole.

use std::collections::HashSet;

use bytes::Bytes;
use kinform_api::{GroupVersionResource, Scope, Status};
use kinform_apiserver::{Expect, ResourceInfo, Server, creation_order, shelf_name};
use serde_json::{Value, json};

use super::{Act, Document};
use crate::exit::Failure;

/// The code of a server that would never act on an object.
const NOT_IMPLEMENTED: u16 = 501;

/// The fate of an object of the server that a document would create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The document is refused, or replaces it.
    Refused,
    /// It stays: the server continues with an earlier state.
    Kept,
}

/// Applies the objects to the server and returns their number.
///
/// # Errors
/// The server does not serve a kind, or refuses an object.
pub(crate) async fn load(
    server: &Server,
    documents: &[Document],
    existing: Existing,
) -> Result<usize, Failure> {
    let mut sorted: Vec<&Document> = documents.iter().collect();
    sorted.sort_by_key(|document| creation_order(&document.object));
    let (mut known, mut loaded) = (HashSet::new(), 0);
    for document in sorted {
        let failed = |what: String| Failure::new(document.says(&what));
        let (api_version, kind) = (document.text("/apiVersion"), document.text("/kind"));
        let served = server.registry().of_kind(api_version, kind);
        let unknown = || failed(format!("the server has no {kind} in {api_version}"));
        let served = served.ok_or_else(unknown)?;
        let served: &ResourceInfo = &served;
        let namespace = match (served.scope, document.text("/metadata/namespace")) {
            (Scope::Cluster, _) => None,
            (Scope::Namespaced, "") => Some("default"),
            (Scope::Namespaced, namespace) => Some(namespace),
        };
        if let Some(namespace) = namespace
            && known.insert(namespace.to_owned())
        {
            let created = create_namespace(server, namespace).await;
            created.map_err(|status| failed(refusal(&status)))?;
        }
        if existing == Existing::Kept && is_there(server, document, (served, namespace)) {
            continue;
        }
        match put(server, document, (served, namespace)).await {
            Ok(()) => loaded += 1,
            Err(status) if status.code == NOT_IMPLEMENTED => {
                let why = status.message;
                crate::progress!("{}", document.says(&format!("skipped: {why}")));
            }
            Err(status) => return Err(failed(refusal(&status))),
        }
    }
    Ok(loaded)
}

/// Returns whether the server has the object of a document that is not about its removal.
fn is_there(
    server: &Server,
    document: &Document,
    (served, namespace): (&ResourceInfo, Option<&str>),
) -> bool {
    let key = key(document, namespace);
    document.act != Act::Remove && server.store().get(served.shelf, &key).is_some()
}

/// The key of a document's object.
fn key(document: &Document, namespace: Option<&str>) -> String {
    let name = document.text("/metadata/name");
    namespace.map_or_else(|| name.to_owned(), |it| format!("{it}/{name}"))
}

fn refusal(status: &Status) -> String {
    format!("{}: {}", status.code, status.message)
}

async fn put(
    server: &Server,
    document: &Document,
    (served, namespace): (&ResourceInfo, Option<&str>),
) -> Result<(), Status> {
    if document.act == Act::Remove {
        let key = key(document, namespace);
        // An absent object is already removed.
        let _ = server.store().remove(served.shelf, &key, Expect::Any);
        return Ok(());
    }
    let of = (&*served.group, &*served.version, &*served.plural);
    let path = GroupVersionResource::new(of.0, of.1, of.2).path(namespace);
    if document.act == Act::Create {
        return create(server, &path, &document.object).await;
    }
    let mut object = document.object.clone();
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = Value::from(namespace);
    }
    server.restore(object).map_err(|status| *status)
}

/// Creates a namespace that does not exist.
pub(crate) async fn create_namespace(server: &Server, namespace: &str) -> Result<(), Status> {
    let shelf = server.store().shelf(&shelf_name("", "namespaces"));
    if server.store().get(shelf, namespace).is_some() {
        return Ok(());
    }
    let object = json!({"metadata": {"name": namespace}});
    create(server, "/api/v1/namespaces", &object).await
}

/// Creates an object by a request to the server.
///
/// # Errors
/// The server's refusal.
pub(crate) async fn create(server: &Server, path: &str, object: &Value) -> Result<(), Status> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(object.to_string()))
        .map_err(|error| Status::bad_request(error.to_string()))?;
    let reply = server.service().call(request).await;
    let code = reply.status();
    if code.is_success() {
        return Ok(());
    }
    let body = reply.into_body().collect().await.unwrap_or_default();
    Err(serde_json::from_slice(&body)
        .unwrap_or_else(|_| Status::failure(code.as_u16(), "", code.to_string())))
}
