//! Every group, version and resource in two documents: one for the core, one for all else.
//!
//! ```text
//! GET /api, /apis + Accept ──▶ is_asked? ──▶ APIGroupDiscoveryList, ETag | 304
//! ```
//!
//! The reply's media type names the form, because clients learn from it whether the server supports
//! the form. The `v2beta1` form is not served, as upstream no longer serves it: its clients ask for
//! the plain pages, too.
//!
//! Upstream: `apiserver:pkg/endpoints/discovery/aggregated`, KEP-3352.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Response, StatusCode};
use kinform_api::Scope;
use serde_json::{Value, json};

use super::{Entries, group_versions};
use crate::digest;
use crate::http::body::Body;
use crate::http::negotiate;
use crate::http::reply;
use crate::resource::{ResourceInfo, Subresource};

const MEDIA_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns whether a client prefers this form of a page to the plain one, or accepts both equally.
pub(super) fn is_asked(path: &str, headers: &HeaderMap) -> bool {
    let clauses = headers.get_all(ACCEPT).iter();
    let clauses = clauses.flat_map(|value| value.to_str().unwrap_or_default().split(','));
    let (mut aggregated, mut plain) = (0, 0);
    for clause in clauses {
        let mut parts = clause.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let asks = |want: &str| clause.split(';').any(|part| part.trim() == want);
        let weight = negotiate::weight(clause);
        if !media.eq_ignore_ascii_case("application/json") {
            continue;
        }
        if asks("g=apidiscovery.k8s.io") && asks("v=v2") && asks("as=APIGroupDiscoveryList") {
            aggregated = weight.max(aggregated);
        } else if !clause.contains("as=") {
            plain = weight.max(plain);
        }
    }
    matches!(path, "api" | "apis") && aggregated > 0 && aggregated >= plain
}

/// The document for `/api` or `/apis`, or 304 if the client has it already.
pub(super) fn reply(path: &str, entries: &Entries, headers: &HeaderMap) -> Response<Body> {
    let body = format!("{}\n", document(entries, path == "api"));
    let tag = format!(
        "\"{}\"",
        digest::upper_hex(&digest::sha256(body.as_bytes()))
    );
    let known = headers.get(IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let mut reply = if is_known {
        let mut reply = Response::new(Body::full(""));
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        reply
    } else {
        let mut reply = reply::json(StatusCode::OK, body);
        let media = HeaderValue::from_static(MEDIA_TYPE);
        reply.headers_mut().insert(CONTENT_TYPE, media);
        reply
    };
    let headers = reply.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    reply
}

fn document(entries: &Entries, is_core: bool) -> Value {
    let mut groups: Vec<&str> = Vec::new();
    for (group, _) in group_versions(entries) {
        if group.is_empty() == is_core && !groups.contains(&group) {
            groups.push(group);
        }
    }
    // Custom groups share one priority and are ordered by name.
    let is_custom = |group: &str| {
        let mut of = entries.iter().filter(|entry| entry.group == group);
        of.all(|entry| entry.is_custom())
    };
    groups.sort_by_key(|group| is_custom(group).then_some(*group));
    let items = groups.into_iter().map(|name| {
        let versions = group_versions(entries).into_iter();
        let versions = versions.filter(|(group, _)| *group == name);
        let versions: Vec<Value> = versions
            .map(|(_, version)| {
                let resources = entries.iter().filter(|entry| is_of(entry, name, version));
                let resources = resources.map(|entry| resource(entry));
                json!({
                    "version": version,
                    "resources": resources.collect::<Vec<Value>>(),
                    "freshness": "Current",
                })
            })
            .collect();
        let metadata = match name {
            "" => json!({}),
            name => json!({"name": name}),
        };
        json!({"metadata": metadata, "versions": versions})
    });
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items.collect::<Vec<Value>>(),
    })
}

fn is_of(entry: &ResourceInfo, group: &str, version: &str) -> bool {
    entry.group == group && entry.version == version
}

/// Built-in kinds leave their group and version out, as upstream does.
fn response_kind(of: &ResourceInfo, part: Option<&Subresource>) -> Value {
    let kind = part.map_or(&of.kind, |part| &part.kind);
    let (group, version) = match part.and_then(|part| part.group_version) {
        Some((group, version)) => (group, version),
        None if of.is_custom() => (&*of.group, &*of.version),
        None => ("", ""),
    };
    json!({"group": group, "version": version, "kind": kind})
}

fn resource(of: &ResourceInfo) -> Value {
    let mut out = json!({
        "resource": of.plural,
        "responseKind": response_kind(of, None),
        "scope": match of.scope {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        },
        "singularResource": of.singular,
        "verbs": of.verbs,
    });
    if !of.short_names.is_empty() {
        out["shortNames"] = Value::from(of.short_names.clone());
    }
    if !of.categories.is_empty() {
        out["categories"] = Value::from(of.categories.clone());
    }
    let parts = of.subresources.iter().map(|part| {
        json!({
            "subresource": part.name,
            "responseKind": response_kind(of, Some(part)),
            "verbs": part.verbs,
        })
    });
    let parts: Vec<Value> = parts.collect();
    if !parts.is_empty() {
        out["subresources"] = Value::from(parts);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_given_to_those_who_ask_for_it() {
        let plain = "application/json";
        let older = MEDIA_TYPE.replace("v2", "v2beta1");
        for (path, accept, want) in [
            ("api", MEDIA_TYPE.to_owned(), true),
            ("apis", format!("{MEDIA_TYPE},{older},{plain}"), true),
            ("apis", format!("{MEDIA_TYPE};profile=nopeer"), true),
            // Upstream: the clause that says more goes first.
            ("apis", format!("{plain}, {MEDIA_TYPE}"), true),
            ("apis", format!("{plain},{MEDIA_TYPE};q=0.5"), false),
            ("apis", format!("{MEDIA_TYPE};q=0"), false),
            ("apis", format!("{older},{plain}"), false),
            ("apis", "*/*".to_owned(), false),
            ("apis/apps", MEDIA_TYPE.to_owned(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(is_asked(path, &headers), want, "{path} {accept}");
        }
    }
}
