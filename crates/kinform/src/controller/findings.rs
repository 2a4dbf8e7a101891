//! The report of a loop or a fight, and of runs that show signs of trouble.
//!
//! ```text
//! Finding → one GET: managers of the field → event, metric, log
//! Sign that is due → event, log
//! ```
//!
//! Caches lack `managedFields`, so the object of a finding is read once.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kinform_api::ObjectKey;
use kinform_core::loops::{Finding, Kind};
use kinform_core::time::Instant;
use serde_json::Value;

use super::signs::Sign;
use super::site::Site;
use super::stats::Counters;
use super::warnings::Warning;
use super::writes::Writes;
use crate::env::wall_clock;
use crate::events::EventType;
use crate::hands::Place;
use crate::source::ResourceInfo;

/// The time that the read of an object may take.
const READ: Duration = Duration::from_secs(5);

/// Reports a finding about `key`: counter, log, and an event on the object.
pub(super) async fn report(
    finding: Finding,
    key: &ObjectKey,
    sources: &[ResourceInfo],
    site: &Site,
    counters: &Counters,
) {
    let Some(resource) = sources.get(usize::from(finding.source)) else {
        return;
    };
    let object = match &site.client {
        Some(client) => {
            let (namespace, name) = (finding.object.namespace(), finding.object.name());
            let place = Place::new(&resource.resource, namespace, name);
            let read = tokio::time::timeout(READ, place.get::<Value>(client)).await;
            read.ok().and_then(Result::ok).flatten().unwrap_or_default()
        }
        None => Value::Null,
    };
    let mut managers = managers_of(&object, &finding.path);
    if finding.kind == Kind::Fight && !managers.contains(&site.manager) {
        managers.insert(0, site.manager.clone());
    }
    let (managers, manager_list) = (managers.join(", "), managers);
    let (Finding { path, times, .. }, kind) = (&finding, &resource.kind);
    let object_key = &finding.object;
    let (counter, reason, note) = match finding.kind {
        Kind::Loop => (
            &counters.loops,
            "ReconcileLoop",
            format!(
                "{times} reconciles within a minute were caused by this controller's own writes \
                 of {path} (managers: {managers}); the values repeat"
            ),
        ),
        Kind::Fight => (
            &counters.fights,
            "FieldFight",
            format!("two managers set {path} in turns, {times} times: {managers}"),
        ),
    };
    counter.add(1);
    counters.warnings.add(Warning {
        time: wall_clock(),
        reason,
        key: key.clone(),
        object: Some((resource.clone(), object_key.clone())),
        path: Some(path.clone()),
        managers: manager_list,
        times: *times as u64,
    });
    tracing::warn!(%key, kind, object = %object_key, path, managers, "{reason}: {note}");
    if let Some(events) = &site.events {
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let about = about(resource, object_key, uid);
        events.event(about, EventType::Warning, reason, &note);
    }
}

/// The object that an event is about.
fn about(resource: &ResourceInfo, key: &ObjectKey, uid: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some(resource.type_meta().api_version),
        kind: Some(resource.kind.clone()),
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(str::to_owned),
        uid,
        ..ObjectReference::default()
    }
}

/// A run of `key` showed a sign: reports it if it is due. `said` is the error, if there is one.
pub(super) fn show(
    sign: Sign,
    said: &str,
    (key, now): (&ObjectKey, Instant),
    (site, writes): (&Site, &Writes),
    counters: &Counters,
) {
    if sign == Sign::Hot {
        counters.hot.add(1);
    }
    if !writes.streaks.shown(key, sign, now) {
        return;
    }
    let (reason, note) = (sign.reason(), sign.note(said));
    counters.warnings.add(Warning {
        time: wall_clock(),
        reason,
        key: key.clone(),
        object: None,
        path: None,
        managers: Vec::new(),
        times: u64::from(sign.runs()),
    });
    if sign.runs() > 1 {
        // The others have a line of each run.
        tracing::warn!(%key, "{reason}: {note}");
    }
    if let Some(events) = &site.events {
        let uid = writes.uid(&site.resource.resource, key.key_ref());
        let about = about(&site.resource, key, uid);
        events.event(about, EventType::Warning, reason, &note);
    }
}

/// The managers that own the field at a path, or else the nearest one above it.
fn managers_of(object: &Value, path: &str) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array();
    let mut deepest = 0;
    let mut found: Vec<String> = Vec::new();
    for entry in entries.into_iter().flatten() {
        let (Some(manager), depth) = (entry["manager"].as_str(), depth(&entry["fieldsV1"], path))
        else {
            continue;
        };
        if depth > deepest {
            (deepest, found) = (depth, Vec::new());
        }
        if depth == deepest && depth > 0 && !found.iter().any(|known| known == manager) {
            found.push(manager.to_owned());
        }
    }
    found
}

/// The number of steps of a path that a set of fields has. An element of a list can be any of its
/// keys.
///
/// INVARIANT: recursion is as deep as the set, which was decoded.
fn depth(fields: &Value, path: &str) -> usize {
    let members = fields.as_object().into_iter().flatten();
    let depths = members.map(|(name, under)| {
        let behind = match name.strip_prefix("f:") {
            Some(field) => path
                .strip_prefix(field)
                .filter(|behind| behind.is_empty() || behind.starts_with(['.', '['])),
            None if name == "." => None,
            None => path
                .strip_prefix('[')
                .and_then(|path| path.split_once(']'))
                .map(|(_, behind)| behind),
        };
        behind.map_or(0, |behind| {
            1 + depth(under, behind.strip_prefix('.').unwrap_or(behind))
        })
    });
    depths.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_managers_of_a_field_are_those_that_own_it_or_what_is_nearest_above() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let ready = r#"k:{"type":"Ready"}"#;
        let object = json!({"metadata": {"managedFields": [
            entry("one", json!({"f:spec": {"f:replicas": {}, "f:other": {}}})),
            entry("two", json!({"f:spec": {"f:replicas": {}}})),
            entry("two", json!({"f:spec": {"f:replicas": {}}})),
            entry("four", json!({"f:metadata": {"f:annotations": {"f:a.b/c": {}}}})),
            entry("three", json!({"f:status": {"f:conditions": {ready: {".": {}, "f:message": {}}}}})),
        ]}});
        for (path, expected) in [
            ("spec.replicas", vec!["one", "two"]),
            ("spec.other", vec!["one"]),
            ("spec.unknown", vec!["one", "two"]),
            ("status.conditions[0].message", vec!["three"]),
            ("status.conditions[0].reason", vec!["three"]),
            ("metadata.annotations.a.b/c", vec!["four"]),
            ("data", vec![]),
        ] {
            assert_eq!(managers_of(&object, path), expected, "{path}");
        }
        assert!(managers_of(&json!({"metadata": {"managedFields": 7}}), "spec").is_empty());
    }
}
