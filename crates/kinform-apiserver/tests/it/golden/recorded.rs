//! The recordings: read, loaded into a server, and compared with what it says.
//!
//! ```text
//! testdata/golden/FOLDER.jsonl.gz -> [Exchange]; recorded lists -> the store, at the same versions plus OFFSET
//! recorded body + our body -> [what differs]
//! ```

use std::collections::HashMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use bytes::Bytes;
use http::{Method, Request};
use kinform_apiserver::{Draft, Expect, Found, Server, Service, Shelf};
use serde_json::{Map, Value, json};

/// Our versions are the recorded ones plus this: a new server has versions of its own already.
pub(crate) const OFFSET: u64 = 100_000;

/// One recorded exchange.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) file: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) accept: String,
    pub(crate) content_type: Option<String>,
    pub(crate) request: Option<String>,
    pub(crate) status: u16,
    /// The media type of the answer.
    pub(crate) media: String,
    pub(crate) body: String,
}

/// The warnings of all answers of a folder.
pub(crate) fn recorded_warnings(folder: &str) -> Vec<Vec<String>> {
    let warnings = |line: &Value| {
        let list = line["responseHeaders"]["Warning"].as_array().cloned();
        let texts = list.unwrap_or_default().into_iter();
        texts
            .map(|text| text.as_str().unwrap().to_owned())
            .collect()
    };
    lines(folder).iter().map(warnings).collect()
}

/// All exchanges of a folder, in the order in which they were recorded.
pub(crate) fn exchanges(folder: &str) -> Vec<Exchange> {
    lines(folder).iter().map(exchange).collect()
}

/// The same, as they are written.
pub(crate) fn lines(folder: &str) -> Vec<Value> {
    let path = format!(
        "{}/../../testdata/golden/{folder}.jsonl.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut lines = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut lines)
        .unwrap();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn exchange(line: &Value) -> Exchange {
    let text = |name: &str| line[name].as_str().map(str::to_owned);
    Exchange {
        file: text("file").unwrap(),
        method: text("method").unwrap(),
        path: text("path").unwrap(),
        accept: text("accept").unwrap_or_default(),
        content_type: text("contentType"),
        request: text("request"),
        status: u16::try_from(line["status"].as_u64().unwrap()).unwrap(),
        media: line["responseHeaders"]["Content-Type"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        body: text("body").unwrap_or_default(),
    }
}

/// A server that holds everything that the recorded lists show, under the same versions.
pub(crate) async fn server(adjust: impl Fn(&str, Vec<Value>) -> Vec<Value>) -> Server {
    let server = Server::builder()
        .rbac()
        .without_garbage_collection()
        .in_process();
    let mut objects = Vec::new();
    for exchange in exchanges("list") {
        let is_whole = exchange.accept == "application/json" && !exchange.path.contains('?');
        let Some(resource) = exchange.path.strip_prefix('/').filter(|_| is_whole) else {
            continue;
        };
        let Ok(mut list) = serde_json::from_str::<Value>(&exchange.body) else {
            continue;
        };
        let Some(Value::Array(items)) = list.get_mut("items").map(Value::take) else {
            continue;
        };
        if !resource.contains("namespaces/") {
            let path: Vec<String> = resource.split('/').map(str::to_owned).collect();
            let items = adjust(path.last().unwrap(), items);
            objects.extend(
                items
                    .into_iter()
                    .map(|item| (version(&item), path.clone(), item)),
            );
        }
    }
    // Definitions first: they say where custom objects are kept.
    objects.sort_by_key(|(version, path, _)| {
        (
            !path.contains(&"customresourcedefinitions".to_owned()),
            *version,
        )
    });
    let mut definitions = Vec::new();
    objects.retain(|(_, path, item)| {
        let is_definition = path.contains(&"customresourcedefinitions".to_owned());
        if is_definition {
            definitions.push((path.clone(), item.clone()));
        }
        !is_definition
    });
    for (path, definition) in definitions {
        let stored = put(&server, &path, definition.clone());
        settle(&server.service(), &definition).await;
        // What it defines is served now; it comes back when its version is due.
        server
            .store()
            .remove(stored.0, &stored.1, Expect::Present)
            .unwrap();
        objects.push((version(&definition), path, definition));
    }
    objects.sort_by_key(|(version, ..)| *version);
    for (version, path, item) in objects {
        let now = server.store().revision();
        if now >= OFFSET + version {
            // The other view of an event.
            assert!(path.contains(&"events.k8s.io".to_owned()), "{now}: {item}");
            continue;
        }
        server.store().advance(OFFSET + version - 1 - now);
        put(&server, &path, item);
    }
    server
}

/// Lets the server's version grow until it is the recorded one.
pub(crate) fn reach(server: &Server, version: u64) {
    let now = server.store().revision();
    assert!(now <= OFFSET + version, "{now}");
    server.store().advance(OFFSET + version - now);
}

/// Stores an object; says where.
pub(crate) fn put(server: &Server, path: &[String], object: Value) -> (Shelf, String) {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let (group, version, plural) = match path[..] {
        ["api", version, plural] => ("", version, plural),
        ["apis", group, version, plural] => (group, version, plural),
        _ => panic!("{path:?}"),
    };
    let Found::Resource(resource) = server.registry().find(group, version, plural) else {
        panic!("{path:?} is not served");
    };
    let draft = Draft::new(&resource.fields, object).unwrap();
    let key = draft.key().to_owned();
    server
        .store()
        .put(resource.shelf, draft, Expect::Any)
        .unwrap();
    (resource.shelf, key)
}

/// Writes a definition over itself, so that the server looks at it.
async fn settle(service: &Service, definition: &Value) {
    let name = definition["metadata"]["name"].as_str().unwrap();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let mut exchange = request("PATCH", &path, json!({}));
    exchange.content_type = Some("application/merge-patch+json".to_owned());
    let (code, reply) = send(service, &exchange).await;
    assert_eq!(code, 200, "{reply}");
}

/// A request that was not recorded.
pub(crate) fn request(method: &str, path: &str, body: Value) -> Exchange {
    Exchange {
        file: String::new(),
        method: method.to_owned(),
        path: path.to_owned(),
        accept: "application/json".to_owned(),
        content_type: Some("application/json".to_owned()),
        request: Some(body)
            .filter(|body| !body.is_null())
            .map(|body| body.to_string()),
        status: 0,
        media: String::new(),
        body: String::new(),
    }
}

/// Sends a request and reads the whole reply.
pub(crate) async fn send(service: &Service, exchange: &Exchange) -> (u16, String) {
    let mut request = Request::builder()
        .method(exchange.method.parse::<Method>().unwrap())
        .uri(mapped_path(&exchange.path))
        .header("accept", &exchange.accept)
        .header("user-agent", "golden/1");
    if let Some(content_type) = &exchange.content_type {
        request = request.header("content-type", content_type);
    }
    let body = exchange.request.clone().unwrap_or_default();
    let reply = service.call(request.body(Bytes::from(body)).unwrap()).await;
    let code = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Versions and tokens of a recorded query, as ours.
fn mapped_path(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else {
        return path.to_owned();
    };
    let pair = |pair: &str| match pair.split_once('=') {
        Some(("resourceVersion", version)) => {
            format!("resourceVersion={}", mapped_version(version))
        }
        Some(("continue", token)) => match read_token(token) {
            Some(mut token) => {
                token["rv"] = Value::from(token["rv"].as_u64().unwrap_or_default() + OFFSET);
                format!(
                    "continue={}",
                    BASE64.encode(token.to_string()).replace('+', "%2B")
                )
            }
            None => pair.to_owned(),
        },
        _ => pair.to_owned(),
    };
    let pairs: Vec<String> = query.split('&').map(pair).collect();
    format!("{path}?{}", pairs.join("&"))
}

fn read_token(token: &str) -> Option<Value> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD
        .decode(token)
        .ok()?;
    serde_json::from_slice::<Value>(&bytes)
        .ok()
        .filter(Value::is_object)
}

/// The version of an object.
pub(crate) fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Objects {
    /// Objects that were loaded: nothing may differ, and versions are the recorded ones plus the offset.
    Loaded,
    /// Objects that were written here, each after the same other writes: versions as above, but what
    /// each server chooses, uids and times, may differ.
    WrittenInOrder,
    /// Objects that were written here: versions may differ, too.
    Written,
}

/// Compares recorded bodies with ours.
pub(crate) struct Comparison {
    objects: Objects,
    /// Recorded uids and versions, and ours in their places.
    pub(crate) learned: HashMap<String, String>,
    found: Vec<String>,
}

impl Comparison {
    pub(crate) fn new(objects: Objects) -> Self {
        Self {
            objects,
            learned: HashMap::new(),
            found: Vec::new(),
        }
    }

    /// Compares bodies; JSON by its values, anything else as text.
    pub(crate) fn bodies(&mut self, recorded: &str, ours: &str) -> Vec<String> {
        match (serde_json::from_str(recorded), serde_json::from_str(ours)) {
            (Ok(recorded), Ok(ours)) => self.values(&recorded, &ours, ""),
            _ if recorded == ours => {}
            _ => self.found.push(format!("text: {recorded:?} / {ours:?}")),
        }
        std::mem::take(&mut self.found)
    }

    fn values(&mut self, recorded: &Value, ours: &Value, path: &str) {
        match (recorded, ours) {
            (Value::Object(recorded), Value::Object(ours)) => self.objects(recorded, ours, path),
            (Value::Array(recorded), Value::Array(ours)) => {
                // Their order tells which second a write fell into.
                let (recorded, ours) = match path.ends_with(".managedFields") {
                    true => (by_manager(recorded), by_manager(ours)),
                    false => (recorded.clone(), ours.clone()),
                };
                if recorded.len() != ours.len() {
                    let (a, b) = (recorded.len(), ours.len());
                    self.found.push(format!("{path}: {a} items / {b}"));
                }
                for (at, (recorded, ours)) in recorded.iter().zip(&ours).enumerate() {
                    self.values(recorded, ours, &format!("{path}[{at}]"));
                }
            }
            (Value::String(recorded), Value::String(ours)) => self.texts(recorded, ours, path),
            _ if recorded == ours => {}
            _ => self.found.push(format!("{path}: {recorded} / {ours}")),
        }
    }

    fn objects(&mut self, recorded: &Map<String, Value>, ours: &Map<String, Value>, path: &str) {
        for (name, value) in recorded {
            match ours.get(name) {
                Some(ours) => self.values(value, ours, &format!("{path}.{name}")),
                None => self
                    .found
                    .push(format!("{path}.{name}: only recorded: {value}")),
            }
        }
        for (name, value) in ours {
            if !recorded.contains_key(name) {
                self.found
                    .push(format!("{path}.{name}: only ours: {value}"));
            }
        }
    }

    fn texts(&mut self, recorded: &str, ours: &str, path: &str) {
        let name = path.rsplit('.').next().unwrap_or_default();
        let is_chosen = (name == "time" && path.contains(".managedFields["))
            || path.contains(".disruptedPods.")
            || matches!(
                name,
                "uid"
                    | "creationTimestamp"
                    | "deletionTimestamp"
                    | "lastTransitionTime"
                    | "expirationTimestamp"
            );
        let same = match name {
            _ if is_chosen && self.objects != Objects::Loaded => {
                // Many objects have one time: requests that repeat it are about the first.
                self.learned
                    .entry(recorded.to_owned())
                    .or_insert_with(|| ours.to_owned());
                true
            }
            "resourceVersion" if path.ends_with("metadata.resourceVersion") => {
                self.learned.insert(recorded.to_owned(), ours.to_owned());
                let mapped = recorded
                    .parse::<u64>()
                    .map(|version| (version + OFFSET).to_string());
                self.objects == Objects::Written || mapped.as_deref() == Ok(ours)
            }
            "token" if recorded == "REDACTED" => !ours.is_empty(),
            "continue" => same_token(recorded, ours),
            "message" => same_words(recorded, ours),
            // Ages are told in cells: how old an object is, when a table is made of it.
            _ if path.contains(".cells[") && is_age(recorded) => is_age(ours),
            _ if path.contains(".cells[") && self.objects != Objects::Loaded => {
                recorded == ours || is_time(recorded) && is_time(ours)
            }
            "name" if recorded.starts_with("w-") => ours.starts_with("w-"),
            _ => recorded == ours,
        };
        if !same {
            self.found.push(format!("{path}: {recorded:?} / {ours:?}"));
        }
    }
}

/// `5s`, `2d3h`, and so on.
fn is_age(text: &str) -> bool {
    let parts: Vec<&str> = text
        .split_inclusive(|letter: char| !letter.is_ascii_digit())
        .collect();
    let is_part = |part: &&str| {
        part.len() > 1
            && part.ends_with(['s', 'm', 'h', 'd', 'y'])
            && part.starts_with(|c: char| c.is_ascii_digit())
    };
    !parts.is_empty() && parts.len() < 3 && parts.iter().all(is_part)
}

fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

/// The ids and versions of a recorded request, as ours: those that earlier replies taught, and those
/// of loaded objects.
pub(crate) fn mapped_body(learned: &HashMap<String, String>, body: &mut Value) {
    match body {
        Value::Array(items) => items.iter_mut().for_each(|item| mapped_body(learned, item)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if name == "resourceVersion" => {
                        *text = learned
                            .get(text)
                            .cloned()
                            .unwrap_or_else(|| mapped_version(text));
                    }
                    Value::String(text) if matches!(&**name, "uid" | "creationTimestamp") => {
                        *text = learned.get(text).unwrap_or(text).clone();
                    }
                    value => mapped_body(learned, value),
                }
            }
        }
        _ => {}
    }
}

/// Our version for a recorded one. What is too old, any, or from the future stays so.
fn mapped_version(version: &str) -> String {
    match version.parse::<u64>() {
        Ok(number) if (10..10_000).contains(&number) => (number + OFFSET).to_string(),
        _ => version.to_owned(),
    }
}

fn by_manager(entries: &[Value]) -> Vec<Value> {
    let mut entries = entries.to_vec();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    entries.sort_by_key(|entry| {
        ["operation", "manager", "apiVersion", "subresource"].map(|name| text(entry, name))
    });
    entries
}

fn same_token(recorded: &str, ours: &str) -> bool {
    let (Some(mut recorded), Some(ours)) = (read_token(recorded), read_token(ours)) else {
        return recorded == ours;
    };
    recorded["rv"] = Value::from(recorded["rv"].as_u64().unwrap_or_default() + OFFSET);
    recorded == ours
}

/// Messages say versions and uids of their server: letters between quotes and digits may differ.
fn same_words(recorded: &str, ours: &str) -> bool {
    let words = |text: &str| {
        text.split(|c: char| c.is_ascii_digit())
            .filter(|part| part.len() > 2)
            .collect::<String>()
    };
    let without_ids = |text: &str| {
        let is_id = |word: &&str| word.len() == 36 && word.matches('-').count() == 4;
        let trim = |c: char| !c.is_ascii_alphanumeric();
        let kept: Vec<&str> = text
            .split(' ')
            .filter(|word| !is_id(&word.trim_matches(trim)))
            .collect();
        kept.join(" ")
    };
    words(&without_ids(recorded)) == words(&without_ids(ours))
}
