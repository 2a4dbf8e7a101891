//! Pages about the server itself: versions, groups, resources, health.
//!
//! ```text
//! GET path + registry ──▶ page | aggregated.rs | health.rs | 404
//! ```
//!
//! * this file: the pages of one group or version each, the release, the list of paths;
//! * `aggregated.rs`: everything in two documents, for clients that ask for it;
//! * `health.rs`: checks, one by one or all; `metrics.rs`: counts for Prometheus.
//!
//! Upstream: `kubernetes/apiserver:pkg/endpoints/discovery`, `pkg/server/{healthz,routes}`.

use std::sync::Arc;

use http::header::HOST;
use http::request::Parts;
use http::uri::Authority;
use http::{Method, Response, StatusCode};
use kinform_api::Status;
use serde_json::{Map, Value, json};

use crate::http::body::Body;
use crate::http::negotiate::{self, Look};
use crate::http::query::Query;
use crate::http::reply;
use crate::openapi;
use crate::resource::{ResourceInfo, Subresource};
use crate::state::State;

mod aggregated;
mod health;
mod metrics;

type Entries = [Arc<ResourceInfo>];

/// Answers paths outside of the resources.
pub(crate) fn handle(state: &State, head: &Parts, query: &Query) -> Result<Response<Body>, Status> {
    let path = head.uri.path().trim_matches('/');
    if let Some(health) = health::answer(state, path, query) {
        return Ok(health);
    }
    if path == metrics::PATH && head.method == Method::GET {
        return Ok(metrics::page(state));
    }
    if let Some(document) = openapi::answer(state, path, head, query) {
        return Ok(document);
    }
    let entries = &*state.registry.entries();
    let Some(page) = page(path, entries, address(head)) else {
        return match is_of_known_group(path) {
            true => Err(Status::no_such_resource()),
            false => Ok(reply::no_such_path()),
        };
    };
    if !matches!(head.method, Method::GET | Method::HEAD) {
        return Err(Status::method_not_allowed());
    }
    if aggregated::is_asked(path, &head.headers) {
        return Ok(aggregated::reply(path, entries, &head.headers));
    }
    match negotiate::form(&head.headers, false) {
        Ok(form) if form.look == Look::Whole => {
            Ok(reply::value(StatusCode::OK, form.encoding, &page))
        }
        _ => Err(Status::failure(
            406,
            kinform_api::reason::NOT_ACCEPTABLE,
            "only the following media types are accepted: application/json, application/yaml",
        )),
    }
}

/// Returns whether a path names a built-in group, including versions that are not served.
fn is_of_known_group(path: &str) -> bool {
    let mut parts = path.split('/');
    let group = match (parts.next(), parts.next()) {
        (Some("api"), Some(_)) => return true,
        (Some("apis"), Some(group)) => group,
        _ => return false,
    };
    let known = kinform_schema::group_versions();
    parts.next().is_some() && known.iter().any(|of| of.group == group)
}

/// Address at which the client reaches the server, as `host:port`.
fn address(head: &Parts) -> &str {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = || head.uri.authority().map(Authority::as_str);
    host.or_else(authority).unwrap_or("localhost")
}

/// Page of a path, or `None`. `address` is the address at which the client reaches the server.
fn page(path: &str, entries: &Entries, address: &str) -> Option<Value> {
    let segments: Vec<&str> = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    Some(match segments[..] {
        [] => paths(entries),
        ["version"] => version(),
        ["api"] => api_versions(address),
        ["api", version] => resource_list(entries, "", version)?,
        ["apis"] => group_list(entries),
        ["apis", group] => group_page(entries, group)?,
        ["apis", group, version] => resource_list(entries, group, version)?,
        _ => return None,
    })
}

/// Every group and version, in order, each once.
fn group_versions(entries: &Entries) -> Vec<(&str, &str)> {
    let mut versions: Vec<(&str, &str)> = Vec::new();
    for entry in entries {
        let version = (entry.group.as_str(), entry.version.as_str());
        if versions.last() != Some(&version) && !versions.contains(&version) {
            versions.push(version);
        }
    }
    versions
}

fn paths(entries: &Entries) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, version) in group_versions(entries) {
        if !group.is_empty() {
            paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{version}")]);
        }
    }
    let others = [
        "/apis/",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/version",
    ];
    paths.extend(others.map(str::to_owned));
    paths.extend(health::paths());
    paths.sort();
    paths.dedup();
    json!({"paths": paths})
}

/// Release that the server behaves like, marked as not being a real one.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "emulationMajor": "1",
        "emulationMinor": "37",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "36",
        "gitVersion": concat!("v1.37.1+kinform.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, platform()),
    })
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn group_list(entries: &Entries) -> Value {
    let mut groups: Vec<&str> = Vec::new();
    for (group, _) in group_versions(entries) {
        if !group.is_empty() && !groups.contains(&group) {
            groups.push(group);
        }
    }
    let groups: Vec<Value> = groups
        .into_iter()
        .filter_map(|name| group(entries, name))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_page(entries: &Entries, name: &str) -> Option<Value> {
    let mut group = group(entries, name)?;
    group["kind"] = Value::from("APIGroup");
    group["apiVersion"] = Value::from("v1");
    Some(group)
}

fn group(entries: &Entries, name: &str) -> Option<Value> {
    let versions = group_versions(entries)
        .into_iter()
        .filter(|(group, _)| *group == name);
    let versions: Vec<Value> = versions
        .map(|(group, version)| {
            json!({"groupVersion": format!("{group}/{version}"), "version": version})
        })
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({"name": name, "versions": versions, "preferredVersion": preferred}))
}

fn resource_list(entries: &Entries, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let of_version = |of: &&Arc<ResourceInfo>| of.group == group && of.version == version;
    for of in entries.iter().filter(of_version) {
        resources.push(resource(of));
        resources.extend(of.subresources.iter().map(|sub| subresource(of, sub)));
    }
    if resources.is_empty() {
        return None;
    }
    let mut list = json!({"kind": "APIResourceList", "resources": resources});
    // Upstream's oldest reply lacks it.
    if group.is_empty() {
        list["groupVersion"] = Value::from(version);
    } else {
        list["apiVersion"] = Value::from("v1");
        list["groupVersion"] = Value::from(format!("{group}/{version}"));
    }
    Some(list)
}

fn resource(of: &ResourceInfo) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| _ = out.insert(name.to_owned(), value);
    put("name", Value::from(of.plural.as_str()));
    put("singularName", Value::from(of.singular.as_str()));
    put("namespaced", Value::from(of.is_namespaced()));
    put("kind", Value::from(of.kind.as_str()));
    put("verbs", Value::from(of.verbs.clone()));
    if !of.short_names.is_empty() {
        put("shortNames", Value::from(of.short_names.clone()));
    }
    if !of.categories.is_empty() {
        put("categories", Value::from(of.categories.clone()));
    }
    if !of.storage_version_hash.is_empty() {
        put(
            "storageVersionHash",
            Value::from(of.storage_version_hash.as_str()),
        );
    }
    Value::Object(out)
}

fn subresource(parent: &ResourceInfo, of: &Subresource) -> Value {
    let mut out = json!({
        "name": format!("{}/{}", parent.plural, of.name),
        "singularName": "",
        "namespaced": parent.is_namespaced(),
        "kind": of.kind,
        "verbs": of.verbs,
    });
    if let Some((group, version)) = of.group_version {
        out["group"] = Value::from(group);
        out["version"] = Value::from(version);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Registry;
    use crate::storage::{HistoryLimits, Store};

    #[test]
    fn pages_that_do_not_exist_are_not_made_up() {
        let registry = Registry::built_in(&Store::new(HistoryLimits::default()));
        let entries = &*registry.entries();
        for path in [
            "apis/nope",
            "apis/apps/v9",
            "api/v2",
            "nope",
            "apis/apps/v1/x/y/z",
        ] {
            assert_eq!(page(path, entries, "x"), None, "{path}");
        }
        assert_eq!(page("apis/apps", entries, "x").unwrap()["kind"], "APIGroup");
    }
}
