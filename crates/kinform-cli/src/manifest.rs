//! Manifests: objects in files, as people write them.
//!
//! ```text
//! YAML or JSON, several documents, Lists → [Value] → POST to the server, in process
//! ```
//!
//! Objects are created as a client would, through the server's own front: what it refuses is an
//! error that names the file and the object.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use kinform_api::{GroupVersionResource, Scope, Status};
use kinform_apiserver::Server;
use serde_json::Value;

use crate::exit::Failure;

/// BOUND: a manifest file is read whole; a larger one is no manifest.
const MAX_FILE: u64 = 256 << 20;

/// One object and where it stood.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    object: Value,
}

/// Reads a file's objects; Lists are taken apart, empty documents are left out.
///
/// # Errors
/// The file cannot be read, or is neither YAML nor JSON of objects.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, Failure> {
    let wrong = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let size = std::fs::metadata(path)
        .map_err(|error| wrong(error.to_string()))?
        .len();
    if size > MAX_FILE {
        return Err(wrong(format!(
            "{size} bytes are too many for a manifest (limit {MAX_FILE})"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let values = parse(&text).map_err(wrong)?;
    let mut documents = Vec::new();
    for value in values {
        for object in flatten(value) {
            if object.get("kind").and_then(Value::as_str).is_none() {
                return Err(wrong("a document has no kind".to_owned()));
            }
            documents.push(Document {
                path: path.to_owned(),
                object,
            });
        }
    }
    Ok(documents)
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return stream
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string());
    }
    serde_saphyr::from_multiple::<Value>(text).map_err(|error| {
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// The objects of a document: itself, a List's items, or none.
fn flatten(value: Value) -> Vec<Value> {
    match value {
        Value::Null => Vec::new(),
        Value::Object(mut list) if list.get("kind") == Some(&Value::from("List")) => {
            match list.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

/// Creates the object on the server.
///
/// # Errors
/// The server does not serve its kind, or refuses it.
pub(crate) async fn create(server: &Server, document: &Document) -> Result<(), Failure> {
    let text = |pointer: &str| {
        document
            .object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (api_version, kind) = (text("/apiVersion"), text("/kind"));
    let name = format!("{kind} {}", text("/metadata/name"));
    let wrong = |what: String| Failure::new(format!("{}: {name}: {what}", document.path.display()));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let entries = server.registry().entries();
    let served = entries
        .iter()
        .find(|info| (&*info.group, &*info.version, &*info.kind) == (group, version, kind))
        .ok_or_else(|| wrong(format!("the server has no {kind} in {api_version}")))?;
    let namespace = match (served.scope, text("/metadata/namespace")) {
        (Scope::Cluster, _) => None,
        (Scope::Namespaced, "") => Some("default"),
        (Scope::Namespaced, namespace) => Some(namespace),
    };
    let path = GroupVersionResource::new(group, version, &*served.plural).path(namespace);
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(document.object.to_string()))
        .map_err(|error| wrong(error.to_string()))?;
    let reply = server.service().call(request).await;
    if reply.status().is_success() {
        return Ok(());
    }
    let code = reply.status();
    let body = reply.into_body().collect().await.unwrap_or_default();
    let message = serde_json::from_slice::<Status>(&body)
        .map(|status| status.message)
        .unwrap_or_default();
    Err(wrong(format!("{code}: {message}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], ()>) {
        let kinds = parse(text).map(|values| {
            values
                .into_iter()
                .flat_map(flatten)
                .map(|object| object["kind"].as_str().unwrap_or("-").to_owned())
                .collect::<Vec<_>>()
        });
        match expected {
            Ok(expected) => assert_eq!(kinds.unwrap(), expected, "{text}"),
            Err(()) => assert!(kinds.is_err(), "{text}"),
        }
    }

    #[test]
    fn documents_lists_and_both_notations_are_read() {
        check("kind: A\n---\nkind: B\n", Ok(&["A", "B"]));
        check("{\"kind\":\"A\"}\n{\"kind\":\"B\"}", Ok(&["A", "B"]));
        check(
            "kind: List\nitems:\n- kind: A\n- kind: B\n",
            Ok(&["A", "B"]),
        );
        check("---\nkind: A\n---\n", Ok(&["A"]));
        check("", Ok(&[]));
        check("kind: [", Err(()));
        check("{\"kind\":", Err(()));
    }
}
