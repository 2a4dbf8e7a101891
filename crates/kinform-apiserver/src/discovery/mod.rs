//! What the server tells about itself.
//!
//! ```text
//! /version, /healthz, /livez, /readyz ──▶ reply; any other path ──▶ 404
//! ```
//!
//! Upstream: `apiserver:pkg/server/{healthz,routes}`.

use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::json;

use crate::api::Api;
use crate::http::body::Body;
use crate::http::reply;

/// Answers paths that are no resources.
pub(crate) fn handle(_api: &Api, head: &Parts) -> Response<Body> {
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return reply::no_such_path();
    }
    match head.uri.path().trim_end_matches('/') {
        "/version" => reply::json(StatusCode::OK, version().to_string()),
        "/healthz" | "/livez" | "/readyz" => reply::text(StatusCode::OK, "ok"),
        _ => reply::no_such_path(),
    }
}

fn version() -> serde_json::Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": concat!("v1.37.0+kinform-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "",
        "goVersion": "",
        "compiler": "",
        "platform": concat!("rust/", env!("CARGO_PKG_VERSION")),
    })
}
