//! The view *Object*: an object, its versions while it is watched, its owners, and its reconciles.
//!
//! ```text
//! cache, key ─▶ Versions, differences, owners, runs of controllers ─▶ ObjectView
//!           └─ managers: one read of the object's metadata from the server, when asked for
//! ```
//!
//! The look itself begins the watch: from then on versions are kept.
//! BOUND: an object of more than 512 KiB is not shown.
//!
//! Upstream counterpart: none.

use std::time::Duration;

use kinform::controller::RecentRun;
use kinform::{Object, ObjectKey, TypeMeta};
use kube_client::api::{Api, DynamicObject};
use kube_core::discovery::ApiResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::difference::{Change, Values, between};
use super::numbers::{Head, ROWS};
use super::program::{Cache, Program, type_name};
use super::queues::{KeyRow, RunRow, key_row, runs, sees_key};
use super::secret;
use super::sight::Sight;
use super::versions::{Version, Versions};

/// BOUND: bytes of an object that is shown.
const SHOWN: usize = 512 << 10;
/// BOUND: the read of an object's managers.
const READ: Duration = Duration::from_secs(5);

/// One object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ObjectView {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The cache.
    pub cache: String,
    /// The resource.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The cache has it now.
    pub is_stored: bool,
    /// The newest known state, as the cache keeps it; values of a Secret are hidden. `null` if it is
    /// larger than 512 KiB, or not known.
    pub object: Option<Value>,
    /// A projection or a transform removed parts of it.
    pub is_projected: bool,
    /// Bytes of the encoded object.
    pub bytes: u64,
    /// Its owners.
    pub owners: Vec<Owner>,
    /// Its versions since somebody looked at it first, the newest first.
    pub versions: Vec<VersionRow>,
    /// The managers of its fields; `null` if they were not asked for, or could not be read.
    pub managers: Option<Vec<Manager>>,
    /// The keys of controllers of this type that wait now.
    pub waiting: Vec<WaitingRow>,
    /// The last reconciles of this object, and those that it caused, the newest first.
    pub runs: Vec<RunRow>,
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// It manages the object.
    pub controller: bool,
}

/// A version of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct VersionRow {
    /// The time at which the inspector saw it.
    pub seen: String,
    /// The resource version; `null` where the object was deleted.
    pub resource_version: Option<String>,
    /// The difference from the version before, 100 fields at most.
    pub changes: Vec<Change>,
}

/// A manager of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Manager {
    /// Its name.
    pub manager: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// The subresource.
    pub subresource: Option<String>,
    /// The time of its last change.
    pub time: Option<String>,
    /// The fields that it owns at the first two levels, as `spec.replicas`.
    pub fields: Vec<String>,
}

/// The key of a controller that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct WaitingRow {
    /// The controller.
    pub controller: String,
    /// The key.
    #[serde(flatten)]
    pub key: KeyRow,
}

/// The view of an object, which is watched from now on. The caller may list it.
pub(super) fn object(
    program: &Program,
    sight: &Sight,
    versions: &Versions,
    (cache, key): (&Cache, &ObjectKey),
) -> ObjectView {
    let info = cache.informer.resource();
    let kept = versions.look(cache, key);
    let newest = kept.iter().rev().find_map(|version| version.object.clone());
    let is_stored = kept.last().is_some_and(|version| version.object.is_some());
    let meta = info.type_meta();
    let mut view = ObjectView {
        head: Head::of(&program.name),
        cache: cache.id.clone(),
        resource: type_name(info),
        namespace: key.namespace().map(str::to_owned),
        name: key.name().to_owned(),
        is_stored,
        versions: version_rows(&kept, &meta, cache),
        ..ObjectView::default()
    };
    if let Some(object) = newest {
        let object = object.thawed();
        view.bytes = object.byte_len() as u64;
        view.is_projected = object.is_projected();
        view.owners = owners(&object);
        view.object = shown(&object, &meta, cache);
    }
    reconciles(program, sight, (cache, key), &mut view);
    view
}

/// The controllers that reconcile the object, and the runs that it caused.
fn reconciles(
    program: &Program,
    sight: &Sight,
    (cache, key): (&Cache, &ObjectKey),
    view: &mut ObjectView,
) {
    let of = &cache.informer.resource().resource;
    for controller in (program.controllers)() {
        let sources = controller.metrics.resources();
        let is_its = sources.first().is_some_and(|info| info.resource == *of);
        if is_its && sees_key(sight, &controller, key) {
            let waiting = controller.metrics.waiting_for(key);
            view.waiting.extend(waiting.map(|waiting| WaitingRow {
                controller: controller.name.clone(),
                key: key_row(&waiting, sight),
            }));
        }
        let is_about = |run: &RecentRun| {
            let is_cause = |cause: kinform::controller::Cause<'_>| {
                cause.source().is_some_and(|info| info.resource == *of) && cause.key() == key
            };
            (is_its && run.key() == key) || run.causes.iter().any(is_cause)
        };
        view.runs.extend(runs(&controller, sight, is_about));
    }
    view.runs.sort_by(|a, b| b.started.cmp(&a.started));
    view.runs.truncate(ROWS);
}

fn owners(object: &Object) -> Vec<Owner> {
    let owner = |of: kinform::OwnerReference| Owner {
        api_version: of.api_version,
        kind: of.kind,
        name: of.name,
        uid: of.uid,
        controller: of.controller,
    };
    object.owner_references().into_iter().map(owner).collect()
}

/// The object as it may be shown.
fn shown(object: &Object, meta: &TypeMeta, cache: &Cache) -> Option<Value> {
    if object.byte_len() > SHOWN {
        return None;
    }
    let mut value: Value = serde_json::from_slice(&object.to_json(meta)).ok()?;
    if cache.holds_secrets() {
        secret::hide(&mut value);
    }
    Some(value)
}

fn version_rows(kept: &[Version], meta: &TypeMeta, cache: &Cache) -> Vec<VersionRow> {
    let values = match cache.holds_secrets() {
        true => Values::Hidden,
        false => Values::Shown,
    };
    let json = |object: &Object| -> Value {
        let is_shown = object.byte_len() <= SHOWN;
        let json = is_shown.then(|| object.thawed().to_json(meta));
        json.and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or_default()
    };
    let (mut before, mut rows) = (None, Vec::new());
    for version in kept {
        // With fields that were given up, nothing is compared.
        let whole = version
            .object
            .as_ref()
            .filter(|object| !object.is_reduced());
        let now = whole.map(json);
        let changes = match (&before, &now) {
            (Some(before), Some(now)) => between(before, now, values),
            _ => Vec::new(),
        };
        let of = |object: &Object| object.resource_version().to_owned();
        rows.push(VersionRow {
            seen: version.seen.to_string(),
            resource_version: version.object.as_ref().map(of),
            changes,
        });
        before = now;
    }
    rows.reverse();
    rows
}

/// Reads the managers of an object's fields from the server. Caches do not keep them.
pub(super) async fn managers(cache: &Cache, key: &ObjectKey) -> Option<Vec<Manager>> {
    let (client, info) = (cache.informer.client()?, cache.informer.resource());
    let resource = ApiResource {
        group: info.resource.group.clone(),
        version: info.resource.version.clone(),
        api_version: info.resource.api_version(),
        kind: info.kind.clone(),
        plural: info.resource.resource.clone(),
    };
    let api: Api<DynamicObject> = match key.namespace() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    };
    let read = tokio::time::timeout(READ, api.get_metadata(key.name())).await;
    let found = read.ok()?.ok()?.metadata.managed_fields;
    let manager = |entry: k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry| {
        let fields = entry.fields_v1.map(|fields| fields.0);
        Manager {
            manager: entry.manager.unwrap_or_default(),
            operation: entry.operation.unwrap_or_default(),
            subresource: entry.subresource,
            time: entry.time.map(|time| time.0.to_string()),
            fields: fields.map(|fields| names(&fields)).unwrap_or_default(),
        }
    };
    Some(found.unwrap_or_default().into_iter().map(manager).collect())
}

/// The names of fields at the first two levels of a set. BOUND: `ROWS`.
fn names(set: &Value) -> Vec<String> {
    let members = |of: &Value| -> Vec<(String, Value)> {
        let members = of.as_object().into_iter().flatten();
        let named = members
            .filter_map(|(name, under)| Some((name.strip_prefix("f:")?.to_owned(), under.clone())));
        named.collect()
    };
    let mut found = Vec::new();
    for (field, under) in members(set) {
        let inside = members(&under);
        if inside.is_empty() {
            found.push(field);
            continue;
        }
        found.extend(
            inside
                .into_iter()
                .map(|(name, _)| format!("{field}.{name}")),
        );
    }
    found.truncate(ROWS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn managed_fields_are_named_at_two_levels() {
        let set = serde_json::json!({"f:spec": {"f:replicas": {}, "f:template": {"f:x": {}}},
            "f:data": {}, ".": {}});
        assert_eq!(names(&set), ["data", "spec.replicas", "spec.template"]);
        assert!(names(&Value::Null).is_empty());
    }
}
