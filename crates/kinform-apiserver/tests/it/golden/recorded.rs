//! The recordings: read, loaded into a server, and sent to it.
//!
//! ```text
//! testdata/golden/FOLDER.jsonl.gz -> [Exchange] -> Reply
//! recorded lists -> the store, at the same versions plus OFFSET
//! ```

use std::collections::HashMap;
use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD as BASE64};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use kinform_apiserver::{Builder, Draft, Expect, Found, Server, Service, Shelf};
use serde_json::{Value, json};

use super::protobuf;
use crate::support::without_maps;

/// Offset of our versions from the recorded ones: a new server has versions of its own already.
pub(crate) const OFFSET: u64 = 100_000;

/// One recorded exchange.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) file: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) accept: String,
    pub(crate) content_type: Option<String>,
    /// Further headers of the request.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) status: u16,
    /// The media type of the answer.
    pub(crate) media: String,
    /// The reply's body, and its text if it is one.
    pub(crate) bytes: Vec<u8>,
    pub(crate) body: String,
}

impl Exchange {
    /// Replaces the recorded uids, versions and times in a JSON request by ours.
    pub(crate) fn in_ours(mut self, learned: &HashMap<String, String>) -> Self {
        let request = self.request.as_deref().unwrap_or_default();
        if let Ok(mut body) = serde_json::from_slice(request) {
            mapped_body(learned, &mut body);
            self.request = Some(body.to_string().into_bytes());
        } else if let Some(body) = protobuf::in_ours(request, learned) {
            self.request = Some(body);
        }
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Reply of our server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let values = self.headers.get_all(name).into_iter();
        values
            .map(|value| value.to_str().unwrap().to_owned())
            .collect()
    }
}

/// The warnings of all replies of a folder.
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

/// Like `exchanges`, as raw lines.
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
    let bytes = |name: &str| match line[format!("{name}Base64")].as_str() {
        Some(coded) => Some(STANDARD.decode(coded).unwrap()),
        None => text(name).map(String::into_bytes),
    };
    let answered = |name: &str| line["responseHeaders"][name].as_str();
    let mut headers = Vec::new();
    for (name, value) in line["requestHeaders"].as_object().into_iter().flatten() {
        headers.push((name.to_lowercase(), value.as_str().unwrap().to_owned()));
    }
    let mut body = bytes("body").unwrap_or_default();
    if answered("Content-Encoding") == Some("gzip") {
        headers.push(("accept-encoding".to_owned(), "gzip".to_owned()));
        body = unzipped(&body);
    }
    Exchange {
        file: text("file").unwrap(),
        method: text("method").unwrap(),
        path: text("path").unwrap(),
        accept: text("accept").unwrap_or_default(),
        content_type: text("contentType"),
        headers,
        request: bytes("request"),
        status: u16::try_from(line["status"].as_u64().unwrap()).unwrap(),
        media: answered("Content-Type").unwrap_or_default().to_owned(),
        body: String::from_utf8(body.clone()).unwrap_or_default(),
        bytes: body,
    }
}

fn unzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes)
        .read_to_end(&mut out)
        .unwrap();
    out
}

/// Builder with the settings of the recorded server, whose admission plugins were off but for one.
pub(crate) fn builder() -> Builder {
    Server::builder()
        .admission("-*,PodTopologyLabels".parse().unwrap())
        .rbac()
        .without_garbage_collection()
}

/// A server with all objects of the recorded lists, under the same versions.
pub(crate) async fn server() -> Server {
    load(builder().in_process(), |_, items| items).await
}

/// Loads the recorded lists' objects into a server, except for the adjusted ones.
pub(crate) async fn load(
    server: Server,
    adjust: impl Fn(&str, Vec<Value>) -> Vec<Value>,
) -> Server {
    // The recorded server trusted no clients' certificates, and had one map less.
    without_maps(&server);
    let mut objects = Vec::new();
    for exchange in exchanges("list") {
        let is_whole = exchange.accept == "application/json"
            && exchange.headers.is_empty()
            && !exchange.path.contains('?');
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
    // Definitions first: they determine where custom objects are stored.
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
        // The resources that it defines are served now; the definition is stored again at its own
        // version.
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

/// Raises the server's version to the recorded one.
pub(crate) fn reach(server: &Server, version: u64) {
    let now = server.store().revision();
    assert!(now <= OFFSET + version, "{now}");
    server.store().advance(OFFSET + version - now);
}

/// Stores an object; returns its place.
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

/// Writes a definition over itself, so that the server processes it.
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
        headers: Vec::new(),
        request: Some(body)
            .filter(|body| !body.is_null())
            .map(|body| body.to_string().into_bytes()),
        status: 0,
        media: String::new(),
        bytes: Vec::new(),
        body: String::new(),
    }
}

/// Sends a request and reads the whole reply, decompressed.
pub(crate) async fn reply(service: &Service, exchange: &Exchange) -> Reply {
    let mut request = Request::builder()
        .method(exchange.method.parse::<Method>().unwrap())
        .uri(mapped_path(&exchange.path))
        .header("accept", &exchange.accept);
    if let Some(content_type) = &exchange.content_type {
        request = request.header("content-type", content_type);
    }
    for (name, value) in &exchange.headers {
        request = request.header(name, value);
    }
    if !exchange
        .headers
        .iter()
        .any(|(name, _)| name == "user-agent")
    {
        request = request.header("user-agent", "golden/1");
    }
    let body = Bytes::from(exchange.request.clone().unwrap_or_default());
    let reply = service.call(request.body(body).unwrap()).await;
    let (parts, body) = reply.into_parts();
    let bytes = body.collect().await.unwrap();
    let is_packed = parts.headers.contains_key("content-encoding");
    Reply {
        code: parts.status.as_u16(),
        bytes: if is_packed { unzipped(&bytes) } else { bytes },
        headers: parts.headers,
    }
}

/// Like `reply`, with only the code and the text.
pub(crate) async fn send(service: &Service, exchange: &Exchange) -> (u16, String) {
    let reply = reply(service, exchange).await;
    (reply.code, reply.text().to_owned())
}

/// A recorded query, with our versions and tokens.
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

pub(crate) fn read_token(token: &str) -> Option<Value> {
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

/// Replaces the recorded ids and versions in a request by ours: those of earlier replies, and those
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

/// Our version for a recorded one. A version that is too old, unset or in the future is kept.
fn mapped_version(version: &str) -> String {
    match version.parse::<u64>() {
        Ok(number) if (10..10_000).contains(&number) => (number + OFFSET).to_string(),
        _ => version.to_owned(),
    }
}
