//! Manifests and dumps: objects in files, written by people or dumped by servers.
//!
//! ```text
//! YAML or JSON, documents, lists, watch frames → [Document] → created as by a client | restored as they are
//! ```
//!
//! An object without a uid is a manifest's: it is created by a request to the server, and a refusal
//! is an error that names the file and the object. One with a uid comes from another server: it is
//! stored as it is, with its uid, times, owners and status. Frames of a watch are applied in order.
//! Namespaces and definitions go first, and a namespace that is only referred to is created.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kinform_api::{GroupVersionResource, Scope, Status};
use kinform_apiserver::{Expect, ResourceInfo, Server, shelf_name};
use serde_json::{Value, json};

use crate::exit::Failure;

/// BOUND: the size of a file, which is read at once.
const MAX_FILE: u64 = 2 << 30;
/// The extensions of the files that are read from a folder.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "json", "jsonl"];

/// One object, its action, and its place in the files.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    object: Value,
    act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Restore,
    Remove,
}

/// Reads the objects of a file, or of the files of a folder in the order of their names. Lists are
/// split into items, empty documents are left out.
///
/// # Errors
/// A file cannot be read, or is neither YAML nor JSON of objects.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, Failure> {
    let wrong = |what: String| Failure::new(format!("{}: {what}", path.display()));
    let about = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if about.is_dir() {
        let files = files(path).map_err(|error| wrong(error.to_string()))?;
        let read = files.iter().map(|file| read(file));
        return Ok(read
            .collect::<Result<Vec<_>, _>>()?
            .into_iter()
            .flatten()
            .collect());
    }
    if about.len() > MAX_FILE {
        let size = about.len();
        return Err(wrong(format!(
            "{size} bytes are too many for a manifest (limit {MAX_FILE})"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut documents = Vec::new();
    for value in parse(&text).map_err(wrong)? {
        for (act, object) in steps(value) {
            if object.get("kind").and_then(Value::as_str).is_none() {
                return Err(wrong("a document has no kind".to_owned()));
            }
            documents.push(Document {
                path: path.to_owned(),
                object,
                act,
            });
        }
    }
    Ok(documents)
}

fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path
            .extension()
            .and_then(|it| it.to_str())
            .unwrap_or_default();
        if EXTENSIONS.contains(&extension) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn parse(text: &str) -> Result<Vec<Value>, String> {
    if text.trim_start().starts_with('{') {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        return stream
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string());
    }
    // A file is its user's own: only its size bounds it.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: usize::MAX, max_nodes: usize::MAX, max_events: usize::MAX,
            max_total_scalar_bytes: usize::MAX
        }
    };
    serde_saphyr::from_multiple_with_options::<Value>(text, options).map_err(|error| {
        error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    })
}

/// The actions of a document: its object, a list's items, or the object of a watch's frame.
fn steps(value: Value) -> Vec<(Act, Value)> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let act = match text("type") {
        "DELETED" => Act::Remove,
        _ => Act::Restore,
    };
    if matches!(text("type"), "ADDED" | "MODIFIED" | "DELETED") && value.get("kind").is_none() {
        let object = value.get("object").cloned().unwrap_or_default();
        return vec![(act, object)];
    }
    if text("type") == "BOOKMARK" && value.get("kind").is_none() {
        return Vec::new();
    }
    let objects = flatten(value).into_iter();
    objects
        .map(|object| match object.pointer("/metadata/uid") {
            Some(Value::String(_)) => (Act::Restore, object),
            _ => (Act::Create, object),
        })
        .collect()
}

/// The objects of a document: itself, a list's items, or an empty list for `null`. Items of
/// `PodList` do not state their kind, so it is derived from the list's.
fn flatten(value: Value) -> Vec<Value> {
    let Value::Object(mut list) = value else {
        return if value.is_null() {
            Vec::new()
        } else {
            vec![value]
        };
    };
    let kind = list.get("kind").and_then(Value::as_str).unwrap_or_default();
    let of = kind.strip_suffix("List").map(str::to_owned);
    let (Some(of), Some(Value::Array(items))) = (of, list.remove("items")) else {
        return vec![Value::Object(list)];
    };
    let version = list.remove("apiVersion").unwrap_or_default();
    let mut items: Vec<Value> = items.into_iter().filter(|item| !item.is_null()).collect();
    for item in items.iter_mut().filter(|_| !of.is_empty()) {
        if item.is_object() && item.get("kind").is_none() {
            item["kind"] = Value::from(of.as_str());
            item["apiVersion"] = version.clone();
        }
    }
    items
}

impl Document {
    fn text(&self, pointer: &str) -> &str {
        let found = self.object.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or_default()
    }

    /// Namespaces, then definitions, then everything else.
    fn rank(&self) -> usize {
        let order = ["Namespace", "CustomResourceDefinition"];
        let kind = self.text("/kind");
        order
            .iter()
            .position(|it| *it == kind)
            .unwrap_or(order.len())
    }

    fn wrong(&self, what: &str) -> Failure {
        let (kind, name) = (self.text("/kind"), self.text("/metadata/name"));
        Failure::new(format!("{}: {kind} {name}: {what}", self.path.display()))
    }
}

/// Applies the objects to the server.
///
/// # Errors
/// The server does not serve a kind, or refuses an object.
pub(crate) async fn load(server: &Server, documents: &[Document]) -> Result<(), Failure> {
    let mut sorted: Vec<&Document> = documents.iter().collect();
    sorted.sort_by_key(|document| document.rank());
    let mut known = HashSet::new();
    for document in sorted {
        let (api_version, kind) = (document.text("/apiVersion"), document.text("/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let entries = server.registry().entries();
        let served = entries
            .iter()
            .find(|info| (&*info.group, &*info.version, &*info.kind) == (group, version, kind))
            .ok_or_else(|| document.wrong(&format!("the server has no {kind} in {api_version}")))?;
        let namespace = match (served.scope, document.text("/metadata/namespace")) {
            (Scope::Cluster, _) => None,
            (Scope::Namespaced, "") => Some("default"),
            (Scope::Namespaced, namespace) => Some(namespace),
        };
        if let Some(namespace) = namespace
            && known.insert(namespace.to_owned())
        {
            found(server, namespace)
                .await
                .map_err(|what| document.wrong(&what))?;
        }
        put(server, document, (served, namespace))
            .await
            .map_err(|what| document.wrong(&what))?;
    }
    Ok(())
}

async fn put(
    server: &Server,
    document: &Document,
    (served, namespace): (&ResourceInfo, Option<&str>),
) -> Result<(), String> {
    match document.act {
        Act::Create => {
            let of = (&*served.group, &*served.version, &*served.plural);
            let path = GroupVersionResource::new(of.0, of.1, of.2).path(namespace);
            create(server, &path, &document.object).await
        }
        Act::Restore => {
            let mut object = document.object.clone();
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = Value::from(namespace);
            }
            let restored = server.restore(object);
            restored.map_err(|status| format!("{}: {}", status.code, status.message))
        }
        Act::Remove => {
            let name = document.text("/metadata/name");
            let key = namespace.map_or_else(|| name.to_owned(), |it| format!("{it}/{name}"));
            // An absent object is already removed.
            let _ = server.store().remove(served.shelf, &key, Expect::Any);
            Ok(())
        }
    }
}

/// Creates a namespace that does not exist.
async fn found(server: &Server, namespace: &str) -> Result<(), String> {
    let shelf = server.store().shelf(&shelf_name("", "namespaces"));
    if server.store().get(shelf, namespace).is_some() {
        return Ok(());
    }
    let object = json!({"metadata": {"name": namespace}});
    create(server, "/api/v1/namespaces", &object).await
}

async fn create(server: &Server, path: &str, object: &Value) -> Result<(), String> {
    let request = http::Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(object.to_string()))
        .map_err(|error| error.to_string())?;
    let reply = server.service().call(request).await;
    let code = reply.status();
    if code.is_success() {
        return Ok(());
    }
    let body = reply.into_body().collect().await.unwrap_or_default();
    let message = serde_json::from_slice::<Status>(&body)
        .map(|status| status.message)
        .unwrap_or_default();
    Err(format!("{code}: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&[&str], ()>) {
        let kinds = parse(text).map(|values| {
            values
                .into_iter()
                .flat_map(steps)
                .map(
                    |(act, object)| match (act, object["kind"].as_str().unwrap_or("-")) {
                        (Act::Create, kind) => kind.to_owned(),
                        (Act::Restore, kind) => format!("={kind}"),
                        (Act::Remove, kind) => format!("-{kind}"),
                    },
                )
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
        check(
            "{\"kind\":\"AList\",\"items\":[{},{\"kind\":\"B\"}]}",
            Ok(&["A", "B"]),
        );
        check("kind: AList\nitems: []\n", Ok(&[]));
        check("kind: Playlist\nspec: {}\n", Ok(&["Playlist"]));
        check("kind: [", Err(()));
        check("{\"kind\":", Err(()));
    }

    #[test]
    fn what_another_server_told_is_kept_as_it_is() {
        check("kind: A\nmetadata: {uid: u}\n", Ok(&["=A"]));
        check(
            "{\"kind\":\"AList\",\"items\":[{\"metadata\":{\"uid\":\"u\"}},{}]}",
            Ok(&["=A", "A"]),
        );
        let frames = [
            "{\"type\":\"ADDED\",\"object\":{\"kind\":\"A\"}}",
            "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"A\"}}",
            "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"A\"}}",
            "{\"type\":\"DELETED\",\"object\":{\"kind\":\"A\"}}",
        ];
        check(&frames.join("\n"), Ok(&["=A", "=A", "-A"]));
        check("kind: Secret\ntype: Opaque\n", Ok(&["Secret"]));
        check("kind: Event\ntype: ADDED\n", Ok(&["Event"]));
    }
}
