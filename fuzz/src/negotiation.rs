//! The head of a request: an answer of a known form, and the form that was asked for.
//!
//! ```text
//! bytes ─┬─ drawn ──▶ Accept ──▶ GET ──▶ 200 in the heaviest form that is served │ 406 if there is none
//!        ├─ as text ──▶ Accept ──▶ 200 │ 406
//!        └─ drawn ──▶ method, path, query, headers ──▶ a code of a fixed set; a failure is a Status
//! ```
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/negotiation`.

use bytes::Bytes;
use http::{HeaderValue, Request};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, Once, Reply, THINGS, anything, encoded, thing};
use crate::shape::Shape;

/// Pieces of heads.
pub const WORDS: &[&[u8]] = &[
    b"application/json",
    b"application/yaml",
    b"application/vnd.kubernetes.protobuf",
    b"*/*",
    b"application/*",
    b"text/html",
    b";q=0.5",
    b";q=0",
    b";q=",
    b";as=Table",
    b";as=PartialObjectMetadata",
    b";g=meta.k8s.io",
    b";v=v1",
    b";v=v1beta1",
    b";stream=watch",
    b",",
    b"; ",
    b"\"",
    b"APPLICATION/JSON",
    b"q=nan",
    b";q=1e9",
];

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const FORMS: [&str; 3] = ["application/json", "application/yaml", PROTOBUF];

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as the head of a request.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| {
            cluster.serve_things(&anything());
            cluster.create(THINGS, &thing("a", &json!({})));
        });
        let mut shape = Shape::default();
        as_text(cluster, bytes, &mut shape);
        let mut draw = Draw::new(bytes);
        drawn_accept(cluster, &mut draw, &mut shape);
        drawn_head(cluster, &mut draw, &mut shape);
        shape
    })
}

fn get(cluster: &Cluster, path: &str, accept: HeaderValue) -> Reply {
    let request = Request::get(path)
        .header("accept", accept)
        .body(Bytes::new());
    cluster.send(request.expect("a request"))
}

fn as_text(cluster: &Cluster, bytes: &[u8], shape: &mut Shape) {
    let Ok(accept) = HeaderValue::from_bytes(bytes) else {
        return;
    };
    let reply = get(cluster, "/api/v1/namespaces/default", accept);
    assert!(matches!(reply.code, 200 | 406), "{}", reply.code);
    let media = reply.content_type.as_str();
    assert!(FORMS.contains(&media), "{media}");
    shape.saw((reply.code, media));
    shape.form(&String::from_utf8_lossy(bytes));
    if media == FORMS[0] {
        shape.text(reply.json()["kind"].as_str().expect("a kind"));
    }
}

/// A clause of `Accept`, and the form that it asks for: its place in [`FORMS`] and its kind.
fn clause(draw: &mut Draw<'_>, is_custom: bool) -> (String, u16, Option<(usize, &'static str)>) {
    let media = draw.pick(&[
        FORMS[0],
        FORMS[1],
        FORMS[2],
        "*/*",
        "application/*",
        "text/plain",
        "Application/JSON",
        "",
    ]);
    let (mut text, mut weight, mut look) = (media.to_owned(), 1000, Some(""));
    if draw.one_in(2) {
        let (said, means) = draw.pick(&[
            ("0", 0),
            ("0.5", 500),
            ("1", 1000),
            ("0.25", 250),
            ("7", 1000),
        ]);
        text.push_str(&format!(";{}q={said}", draw.pick(&["", " "])));
        weight = means;
    }
    match draw.below(6) {
        1 => {
            text.push_str(";as=Table;v=v1;g=meta.k8s.io");
            look = Some("Table");
        }
        2 => {
            text.push_str("; as=PartialObjectMetadata; g=meta.k8s.io; v=v1");
            look = Some("PartialObjectMetadata");
        }
        3 => {
            text.push_str(";as=Table;v=v7;g=meta.k8s.io");
            look = None;
        }
        4 => {
            text.push_str(";as=Nonsense");
            look = None;
        }
        _ => {}
    }
    let form = match media {
        "application/yaml" => Some(1),
        PROTOBUF => Some(2),
        "text/plain" | "" => None,
        _ => Some(0),
    };
    // A table has no protobuf, and a custom resource only that of its metadata.
    let is_served = |(form, look): &(usize, &str)| {
        !(*form == 2 && (*look == "Table" || is_custom && look.is_empty())) && weight > 0
    };
    (text, weight, form.zip(look).filter(is_served))
}

fn drawn_accept(cluster: &Cluster, draw: &mut Draw<'_>, shape: &mut Shape) {
    let (path, is_custom) = match draw.below(3) {
        0 => ("/api/v1/namespaces/default", false),
        1 => ("/api/v1/namespaces/kube-system", false),
        _ => (
            "/apis/fuzz.example.com/v1/namespaces/default/things/a",
            true,
        ),
    };
    let length = draw.below(4);
    let clauses: Vec<_> = (0..length).map(|_| clause(draw, is_custom)).collect();
    let texts: Vec<&str> = clauses.iter().map(|(text, ..)| text.as_str()).collect();
    let accept = texts.join(draw.pick(&[",", ", "]));
    let mut best: Option<(u16, (usize, &str))> = None;
    for (_, weight, form) in &clauses {
        if let Some(form) = form.filter(|_| best.is_none_or(|(heaviest, _)| *weight > heaviest)) {
            best = Some((*weight, form));
        }
    }
    let is_blank = accept.split(',').all(|it| it.trim().is_empty());
    if is_blank {
        best = Some((1000, (0, "")));
    }
    let reply = get(cluster, path, accept.parse().expect("a header"));
    shape.saw((is_custom, best));
    match best {
        None => assert_eq!(reply.code, 406, "{accept}"),
        Some((_, (form, look))) => {
            assert_eq!(
                (reply.code, &*reply.content_type),
                (200, FORMS[form]),
                "{accept}"
            );
            let is_own = |kind: &Value| kind != "Table" && kind != "PartialObjectMetadata";
            let kind = &reply.json()["kind"];
            assert!(
                form != 0 || kind == look || look.is_empty() && is_own(kind),
                "{accept}: {kind}"
            );
        }
    }
}

/// Places and words of drawn requests.
const PREFIXES: [&str; 5] = [
    "",
    "/api/v1",
    "/apis/apps/v1",
    THINGS,
    "/api/v1/namespaces/default",
];
const SEGMENTS: [&str; 20] = [
    "api",
    "v1",
    "namespaces",
    "default",
    "pods",
    "apis",
    "apps",
    "deployments",
    "a",
    "status",
    "scale",
    "things",
    "fuzz.example.com",
    "watch",
    "",
    "..",
    "%2e%2e",
    "%00",
    "log",
    "openapi",
];
const NAMES: [&str; 14] = [
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "labelSelector",
    "fieldSelector",
    "watch",
    "pretty",
    "dryRun",
    "fieldManager",
    "fieldValidation",
    "sendInitialEvents",
    "allowWatchBookmarks",
    "force",
];
const VALUES: [&str; 13] = [
    "",
    "1",
    "0",
    "true",
    "All",
    "Exact",
    "NotOlderThan",
    "a=b",
    "-1",
    "é",
    "\0",
    "9999999999999999999",
    "Strict",
];
const METHODS: [&str; 9] = [
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "BREW",
];
const MEDIA: [&str; 7] = [
    "application/json",
    "application/yaml",
    PROTOBUF,
    "text/plain",
    "application/merge-patch+json",
    "application/json; charset=utf-8",
    "",
];
const BODIES: [&str; 8] = [
    "",
    "{}",
    "[",
    "null",
    "{\"metadata\":{\"name\":\"b\"}}",
    "a: [*b",
    "k8s\0",
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}",
];

/// Any path and query of a method.
fn drawn_url(draw: &mut Draw<'_>, method: &str) -> String {
    let mut url = draw.pick(&PREFIXES).to_owned();
    for _ in 0..draw.below(6) {
        url.push('/');
        url.push_str(draw.pick(&SEGMENTS));
    }
    if url.is_empty() {
        url.push('/');
    }
    // A watch ends, and nothing is stored that the next input would find. The first value counts.
    let is_write = !matches!(method, "GET" | "HEAD" | "OPTIONS");
    url.push_str("?timeoutSeconds=1");
    url.push_str(if is_write { "&dryRun=All" } else { "" });
    for _ in 0..draw.below(4) {
        let value = encoded(draw.pick(&VALUES));
        url.push_str(&format!("&{}={value}", draw.pick(&NAMES)));
    }
    url
}

/// Any request: a code that a real server may answer with, and a Status for each refusal.
fn drawn_head(cluster: &Cluster, draw: &mut Draw<'_>, shape: &mut Shape) {
    let method = draw.pick(&METHODS);
    let path = drawn_url(draw, method);
    let (media, body) = (draw.pick(&MEDIA), draw.pick(&BODIES));
    // The options of a body win over those of the query.
    let body = if method == "DELETE" { "" } else { body };
    let request = Request::builder().method(method).uri(&path);
    let request = request
        .header("content-type", media)
        .body(Bytes::from_static(body.as_bytes()));
    let Ok(request) = request else {
        return;
    };
    let reply = cluster.send(request);
    shape.saw((reply.code, method));
    let text = String::from_utf8_lossy(&reply.bytes);
    let is_known = matches!(reply.code, 200..=202 | 301 | 307 | 400 | 403..=406 | 409 | 410 | 413 | 415 | 422 | 429 | 500 | 501 | 503 | 504);
    assert!(is_known, "{method} {path}: {} {text}", reply.code);
    if reply.code >= 400 && reply.content_type == FORMS[0] {
        let status = reply.json();
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(reply.code)),
            "{method} {path}"
        );
        shape.text(status["message"].as_str().unwrap_or_default());
    }
}
