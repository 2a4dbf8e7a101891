//! Health of the server: all checks in one report, or a single check.
//!
//! ```text
//! /healthz /livez /readyz [/check] [?verbose, exclude=check] ──▶ ok | 500
//! ```
//!
//! The checks are those of upstream's that apply to this server, under upstream's names. A server
//! that lives in memory has few ways to fail: the only failing check is readiness, while it stops.
//!
//! Upstream: `apiserver:pkg/server/healthz`.

use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use http::{Response, StatusCode};

use crate::http::body::Body;
use crate::http::query::Query;
use crate::http::reply;
use crate::state::State;

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

struct Check {
    name: &'static str,
    /// Only `readyz` includes the check.
    is_of_readiness: bool,
    passes: fn(&State) -> bool,
}

const CHECKS: [Check; 5] = [
    Check {
        name: "ping",
        is_of_readiness: false,
        passes: |_| true,
    },
    Check {
        name: "log",
        is_of_readiness: false,
        passes: |_| true,
    },
    Check {
        name: "etcd",
        is_of_readiness: false,
        passes: stores,
    },
    Check {
        name: "etcd-readiness",
        is_of_readiness: true,
        passes: stores,
    },
    Check {
        name: "shutdown",
        is_of_readiness: true,
        passes: |state| !state.stopping.is_cancelled(),
    },
];

/// Checks that the storage has the initial objects of every server.
fn stores(state: &State) -> bool {
    state.store.revision() > 0
}

fn checks(endpoint: &str) -> impl Iterator<Item = &'static Check> {
    let is_asked = move |check: &&Check| endpoint == "readyz" || !check.is_of_readiness;
    CHECKS.iter().filter(is_asked)
}

/// Every path of health, for the list of paths.
pub(super) fn paths() -> impl Iterator<Item = String> {
    ENDPOINTS.iter().flat_map(|endpoint| {
        let single = checks(endpoint).map(move |check| format!("/{endpoint}/{}", check.name));
        single.chain([format!("/{endpoint}")])
    })
}

/// Answers a health path; returns `None` for other paths.
pub(super) fn answer(state: &State, path: &str, query: &Query) -> Option<Response<Body>> {
    let (endpoint, check) = match path.split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (path, None),
    };
    let endpoint = *ENDPOINTS.iter().find(|known| **known == endpoint)?;
    let Some(name) = check else {
        return Some(all(state, endpoint, query));
    };
    let Some(check) = checks(endpoint).find(|check| check.name == name) else {
        return Some(reply::no_such_path());
    };
    Some(if (check.passes)(state) {
        text(StatusCode::OK, "ok".to_owned())
    } else {
        let words = "internal server error: reason withheld\n";
        text(StatusCode::INTERNAL_SERVER_ERROR, words.to_owned())
    })
}

fn all(state: &State, endpoint: &str, query: &Query) -> Response<Body> {
    let excluded: Vec<&str> = query
        .all("exclude")
        .flat_map(|names| names.split(','))
        .collect();
    let (mut words, mut failed) = (String::new(), false);
    for check in checks(endpoint) {
        let name = check.name;
        words += &if excluded.contains(&name) {
            format!("[+]{name} excluded: ok\n")
        } else if (check.passes)(state) {
            format!("[+]{name} ok\n")
        } else {
            failed = true;
            format!("[-]{name} failed: reason withheld\n")
        };
    }
    let unknown = |name: &&&str| !checks(endpoint).any(|check| check.name == **name);
    let unknown: Vec<String> = excluded
        .iter()
        .filter(unknown)
        .map(|name| format!("{name:?}"))
        .collect();
    if !unknown.is_empty() {
        let names = unknown.join(",");
        words += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    if failed {
        words += &format!("{endpoint} check failed\n");
        return text(StatusCode::INTERNAL_SERVER_ERROR, words);
    }
    if query.get("verbose").is_none() {
        return text(StatusCode::OK, "ok".to_owned());
    }
    words += &format!("{endpoint} check passed\n");
    text(StatusCode::OK, words)
}

fn text(code: StatusCode, words: String) -> Response<Body> {
    let mut reply = reply::json(code, words);
    let headers = reply.headers_mut();
    let media = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, media);
    let guess = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, guess);
    reply
}
