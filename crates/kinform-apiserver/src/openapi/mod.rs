//! Serves OpenAPI: a document for each version of a group, and one for all of them.
//!
//! ```text
//! GET /openapi/v3           ──▶ index: path and hash of every document
//! GET /openapi/v3/apis/g/v  ──▶ document, fixed by its hash    GET /openapi/v2 ──▶ all in one
//! ```
//!
//! * `types.rs`, `marks.rs`: built-in types as schemas; `custom.rs`: schemas of definitions;
//! * `operations.rs`: the operations of each path; `gnostic.rs`: the older document as protobuf.
//!
//! A document is made at its first request and kept until its resources change, so a new definition
//! only costs its own document. The newer documents are JSON only, which all their clients accept.
//!
//! Upstream: `kube-openapi:pkg/{handler,handler3}`. Complexity: making a document is linear in it.

mod custom;
mod gnostic;
mod marks;
mod operations;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, HeaderValue, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use serde_json::{Map, Value, json};

use self::types::{Audience, Dialect, Schemas};
use crate::http::body::Body;
use crate::http::query::Query;
use crate::http::{negotiate, reply};
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::state::documents::Document;
use crate::state::documents::Documents;
use jiff::Timestamp;

/// Prefixes of the media types of the older document as protobuf. Clients ask for the first one.
const BINARY: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Answers an OpenAPI path. Returns `None` for another path.
pub(crate) fn answer(
    state: &State,
    path: &str,
    head: &Parts,
    query: &Query,
) -> Option<Response<Body>> {
    let rest = path.strip_prefix("openapi/")?;
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Some(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let entries = state.registry.entries();
    Some(match rest {
        "v2" => older(&everything(&state.openapi, &entries), &head.headers),
        "v3" => index(&state.openapi, &entries),
        _ => {
            let name = rest.strip_prefix("v3/")?;
            let of = entries.iter().filter(|of| document_of(of) == name);
            let of: Vec<_> = of.cloned().collect();
            if of.is_empty() {
                return Some(empty(StatusCode::NOT_FOUND));
            }
            newer(
                name,
                &of_version(&state.openapi, name, of),
                (head, query),
                state.clock.now(),
            )
        }
    })
}

/// Returns the document of one version of a group.
fn of_version(documents: &Documents, name: &str, of: Vec<Arc<ResourceInfo>>) -> Arc<Document> {
    documents.document(name, of, |of| {
        let audience = Audience::Version {
            group: of[0].group.clone(),
            version: of[0].version.clone(),
        };
        let (paths, schemas) = described(of, Schemas::new(Dialect::V3, audience));
        json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": "1.37"},
            "paths": paths,
            "components": {"schemas": schemas},
        })
    })
}

/// Returns the document of all groups.
fn everything(documents: &Documents, entries: &[Arc<ResourceInfo>]) -> Arc<Document> {
    documents.document("", entries.to_vec(), |of| {
        let schemas = Schemas::new(Dialect::V2, Audience::Everybody);
        let (paths, schemas) = described(of, schemas);
        json!({
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": "v1.37.1"},
            "paths": paths,
            "definitions": schemas,
        })
    })
}

fn described(
    of: &[Arc<ResourceInfo>],
    mut schemas: Schemas,
) -> (Map<String, Value>, Map<String, Value>) {
    let mut paths = Map::new();
    for resource in of {
        operations::describe(resource, &mut schemas, &mut paths);
    }
    (paths, schemas.finish())
}

/// Returns the path of the document of a resource: `api/v1`, `apis/apps/v1`.
fn document_of(of: &ResourceInfo) -> String {
    match of.group.as_str() {
        "" => format!("api/{}", of.version),
        group => format!("apis/{group}/{}", of.version),
    }
}

fn index(documents: &Documents, entries: &[Arc<ResourceInfo>]) -> Response<Body> {
    let mut names: BTreeMap<String, Vec<Arc<ResourceInfo>>> = BTreeMap::new();
    for of in entries {
        names.entry(document_of(of)).or_default().push(of.clone());
    }
    documents.retain(&names);
    let mut paths = Map::new();
    for (name, of) in names {
        let hash = &of_version(documents, &name, of).hash;
        let address = format!("/openapi/v3/{name}?hash={hash}");
        paths.insert(name, json!({"serverRelativeURL": address}));
    }
    let mut reply = reply::json(StatusCode::OK, json!({"paths": paths}).to_string());
    // Upstream sets no content type here, so Go detects plain text.
    set(&mut reply, CONTENT_TYPE, "text/plain; charset=utf-8");
    reply
}

fn newer(
    name: &str,
    document: &Document,
    (head, query): (&Parts, &Query),
    now: Timestamp,
) -> Response<Body> {
    if !accepts(&head.headers, &["application/json", "application/*", "*/*"]) {
        return with_vary(empty(StatusCode::NOT_ACCEPTABLE));
    }
    let hash = &document.hash;
    match query.get("hash") {
        Some(asked) if asked != hash => {
            let mut reply = with_vary(empty(StatusCode::MOVED_PERMANENTLY));
            let now = format!("/openapi/v3/{name}?hash={hash}");
            set(&mut reply, LOCATION, &now);
            reply
        }
        asked => {
            let mut reply = tagged(document, &head.headers, || document.json.clone());
            if asked.is_some() {
                set(&mut reply, CACHE_CONTROL, "public, immutable");
                set(&mut reply, EXPIRES, &in_a_year(now));
            }
            reply
        }
    }
}

fn older(document: &Document, headers: &HeaderMap) -> Response<Body> {
    if accepts(headers, &["application/json", "application/*", "*/*"]) {
        return tagged(document, headers, || document.json.clone());
    }
    if !accepts(headers, &BINARY) {
        return with_vary(empty(StatusCode::NOT_ACCEPTABLE));
    }
    let binary = || {
        let encoded = document.binary.get_or_init(|| {
            let parsed = serde_json::from_slice(&document.json).unwrap_or_default();
            Bytes::from(gnostic::encode(&parsed))
        });
        encoded.clone()
    };
    let mut reply = tagged(document, headers, binary);
    set(&mut reply, CONTENT_TYPE, BINARY[1]);
    reply
}

/// Replies with the document, or with 304 if the client has it.
fn tagged(
    document: &Document,
    headers: &HeaderMap,
    body: impl FnOnce() -> Bytes,
) -> Response<Body> {
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let mut reply = match is_known {
        true => empty(StatusCode::NOT_MODIFIED),
        false => reply::json(StatusCode::OK, body()),
    };
    set(&mut reply, ETAG, &tag);
    with_vary(reply)
}

/// Returns whether the client accepts any of these media types, or sends no media type.
fn accepts(headers: &HeaderMap, known: &[&str]) -> bool {
    let clauses = headers.get_all(ACCEPT).iter();
    let mut clauses = clauses
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .filter(|clause| !clause.trim().is_empty())
        .peekable();
    clauses.peek().is_none()
        || clauses.any(|clause| {
            let media = clause.split(';').next().unwrap_or_default().trim();
            known.contains(&media) && negotiate::weight(clause) > 0
        })
}

fn in_a_year(now: Timestamp) -> String {
    let then = now + YEAR;
    then.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string()
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut reply = Response::new(Body::full(""));
    *reply.status_mut() = code;
    set(&mut reply, CACHE_CONTROL, "no-cache, private");
    reply
}

fn with_vary(mut reply: Response<Body>) -> Response<Body> {
    set(&mut reply, VARY, "Accept");
    reply
}

fn set(reply: &mut Response<Body>, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

/// Returns the value of `x-kubernetes-group-version-kind`.
pub(super) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
