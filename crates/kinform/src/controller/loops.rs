//! Loops and fights of a controller: what its runs and the events tell the machine, and the report.
//!
//! ```text
//! noted writes, events, runs → Loops (machine) → Finding → one GET: managers → event, metric, log
//! ```
//!
//! Two states are compared only while a key is followed: this controller wrote for it twice within a
//! minute. Caches lack `managedFields`, so the object of a finding is read once.
//!
//! Upstream counterpart: none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kinform_api::ObjectKey;
use kinform_core::causes::Origin;
use kinform_core::loops::difference::Difference;
use kinform_core::loops::{Change, Finding, Kind, Loops};
use kinform_core::object::Object;
use serde_json::Value;

use super::site::Site;
use super::stats::Counters;
use crate::env::Env;
use crate::events::EventType;
use crate::hands::Place;
use crate::source::ResourceInfo;
use crate::sync::lock;

/// The time that the read of an object may take.
const READ: Duration = Duration::from_secs(5);

/// The machine, shared by writes, events and workers.
#[derive(Debug, Default)]
pub(super) struct Watch {
    machine: Mutex<Loops>,
    // Most controllers follow no key, and take no lock for an event then.
    follows_some: AtomicBool,
    // Most controllers have written for no key, and take no lock for a run then.
    knows_some: AtomicBool,
    env: Env,
}

impl Watch {
    /// A run of `key` stored something.
    pub(super) fn wrote(&self, key: &ObjectKey) {
        let mut machine = lock(&self.machine);
        machine.wrote(key, self.env.now());
        self.publish(&machine);
    }

    /// An event concerns `key`: compares the states if the key is followed.
    pub(super) fn updated(&self, key: &ObjectKey, source: u16, old: &Object, new: &Object) {
        if !self.follows_some() || !lock(&self.machine).follows(key) {
            return;
        }
        let Some(difference) = Difference::between(old, new) else {
            return;
        };
        let change = Change {
            source,
            object: new.key(),
            version: new.revision().unwrap_or_default(),
            origin: Origin::Unknown,
            difference,
        };
        lock(&self.machine).changed(key, change);
    }

    /// Returns whether some key is followed.
    pub(super) fn follows_some(&self) -> bool {
        self.follows_some.load(Ordering::Acquire)
    }

    /// A run of `key` begins. `writer` names the writers of changes.
    pub(super) fn began(
        &self,
        key: &ObjectKey,
        writer: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        if !self.knows_some.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.machine).began(key, writer)
    }

    /// A run of `key` ended, which own writes alone have caused, if `is_own`.
    pub(super) fn ended(
        &self,
        key: &ObjectKey,
        is_own: bool,
        writer: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        if !self.knows_some.load(Ordering::Acquire) {
            return None;
        }
        let mut machine = lock(&self.machine);
        let now = self.env.now();
        let found = machine.ended(key, is_own, now, writer);
        self.publish(&machine);
        found
    }

    fn publish(&self, machine: &Loops) {
        self.knows_some
            .store(!machine.is_empty(), Ordering::Release);
        self.follows_some
            .store(machine.follow_some(), Ordering::Release);
    }
}

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
    let managers = managers.join(", ");
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
            format!("{path} was set {times} times by turns by two managers: {managers}"),
        ),
    };
    counter.add(1);
    tracing::warn!(%key, kind, object = %object_key, path, managers, "{reason}: {note}");
    if let Some(events) = &site.events {
        let uid = object["metadata"]["uid"].as_str().map(str::to_owned);
        let about = ObjectReference {
            api_version: Some(resource.type_meta().api_version),
            kind: Some(kind.clone()),
            name: Some(object_key.name().to_owned()),
            namespace: object_key.namespace().map(str::to_owned),
            uid,
            ..ObjectReference::default()
        };
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
