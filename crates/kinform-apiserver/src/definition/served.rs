//! A custom resource definition as an object: its defaults, and the resources that it serves.
//!
//! ```text
//! definition -> defaults, errors          established definition -> [ResourceInfo]
//! ```
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/registry/customresourcedefinition/strategy.go`,
//! `pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`.

use std::sync::Arc;

use jiff::Timestamp;
use kinform_api::Scope;
use serde_json::{Map, Value, json};

use super::conditions;
use crate::columns;
use crate::definition::CLEANUP;
use crate::digest;
use crate::object::{at, metadata, text};
use crate::resource::{
    Conversion, CustomShape, Origin, ResourceInfo, Rules, ScalePaths, Shape, StoredVersions,
    Subresource, version_order,
};
use crate::schema::patterns;
use crate::storage::{SelectableField, Shelf};

/// The verbs of a custom resource, in the order of its discovery.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// The schema of a version.
const SCHEMA: &[&str] = &["schema", "openAPIV3Schema"];

/// Sets the defaults of a new definition.
pub(crate) fn prepare_create(resource: &ResourceInfo, object: &mut Value) {
    if !resource.is_definition() {
        return;
    }
    put_defaults(object);
    store_versions(object);
}

/// Sets the defaults of a changed definition.
pub(crate) fn prepare_update(resource: &ResourceInfo, object: &mut Value) {
    prepare_create(resource, object);
}

/// Sets the defaults of fields that a definition does not specify.
pub(crate) fn defaults(resource: &ResourceInfo, object: &mut Value) {
    if resource.is_definition() {
        put_defaults(object);
    }
}

fn put_defaults(object: &mut Value) {
    let kind = text(object, &["spec", "names", "kind"]).to_owned();
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let mut put = |name: &str, value: String| {
            if names
                .get(name)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
            {
                names.insert(name.to_owned(), Value::from(value));
            }
        };
        put("singular", kind.to_lowercase());
        if !kind.is_empty() {
            put("listKind", format!("{kind}List"));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    let service = spec
        .get_mut("conversion")
        .and_then(|of| of.pointer_mut("/webhook/clientConfig/service"))
        .and_then(Value::as_object_mut);
    if let Some(service) = service
        && service.get("port").is_none_or(Value::is_null)
    {
        service.insert("port".to_owned(), Value::from(443));
    }
}

/// Adds the current storage version to the stored versions in the status.
fn store_versions(object: &mut Value) {
    let stored =
        versions(object).find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let Some(name) = stored.map(|version| Value::from(text(version, &["name"]))) else {
        return;
    };
    if !object["status"].is_object() {
        object["status"] = Value::Object(Map::new());
    }
    let list = &mut object["status"]["storedVersions"];
    match list.as_array_mut() {
        Some(list) if list.contains(&name) => {}
        Some(list) => list.push(name),
        None => *list = Value::from(vec![name]),
    }
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    at(definition, &["spec", "versions"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

/// Marks a definition whose deletion has begun: without a grace period or a new generation.
pub(crate) fn mark_terminating(definition: &mut Value, now: Timestamp) {
    if metadata::is_terminating(definition) {
        let metadata = metadata::of(definition);
        metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
        return;
    }
    let metadata = metadata::of(definition);
    metadata.insert("deletionTimestamp".to_owned(), metadata::time(now));
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == CLEANUP)
    {
        list.push(Value::from(CLEANUP));
    }
    conditions::begin_termination(definition, now);
}

/// Returns the resources of an established definition: one for each served version, all on one
/// shelf.
pub(crate) fn resources_of(definition: &Value, shelf: Shelf) -> Vec<ResourceInfo> {
    if !conditions::is_established(definition) {
        return Vec::new();
    }
    versions(definition)
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .map(|version| resource(definition, version, shelf))
        .collect()
}

/// The resource by which all objects of a definition can be deleted, whether it is served or not.
pub(crate) fn resource_of_all(definition: &Value, shelf: Shelf) -> Option<ResourceInfo> {
    let version = versions(definition).next()?;
    Some(resource(definition, version, shelf))
}

fn resource(definition: &Value, version: &Value, shelf: Shelf) -> ResourceInfo {
    let name = |name: &str| text(definition, &["status", "acceptedNames", name]).to_owned();
    let list = |name: &str| {
        let list = at(definition, &["status", "acceptedNames", name]).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    let kind = name("kind");
    let is_namespaced = text(definition, &["spec", "scope"]) == "Namespaced";
    ResourceInfo {
        group: text(definition, &["spec", "group"]).to_owned(),
        version: text(version, &["name"]).to_owned(),
        plural: name("plural"),
        singular: name("singular"),
        list_kind: name("listKind"),
        scope: if is_namespaced {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        verbs: VERBS.to_vec(),
        short_names: list("shortNames"),
        categories: list("categories"),
        storage_version_hash: storage_version_hash(definition),
        subresources: subresources(&kind, version),
        kind,
        rules: Rules::CUSTOM,
        shape: Shape::Custom(Arc::new(CustomShape {
            is_costly: at(version, SCHEMA).is_some_and(patterns::is_costly),
            schema: at(version, SCHEMA).cloned().unwrap_or_default(),
            scale: scale(version),
            terminating: metadata::is_terminating(definition),
            columns: columns::custom::columns(version),
            deprecation: deprecation(definition, version),
            storage: storage(definition),
            stored: stored_versions(definition),
            conversion: conversion(definition).map(Arc::new),
            compiled: Arc::default(),
        })),
        origin: Origin::Custom,
        fields: selector_fields(version),
        shelf,
    }
}

fn storage_version_hash(definition: &Value) -> String {
    let stored =
        versions(definition).find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let version = stored.map_or("", |version| text(version, &["name"]));
    let kind = text(definition, &["spec", "names", "kind"]);
    digest::storage_version_hash(text(definition, &["spec", "group"]), version, kind)
}

/// Returns the schema that objects are stored by if they may not have the shape of a version: the
/// versions differ, or the definition was changed.
fn storage(definition: &Value) -> Option<Arc<Value>> {
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let stored = at(versions(definition).find(is_stored)?, SCHEMA)?;
    let generation = at(definition, &["metadata", "generation"]).and_then(Value::as_i64);
    let may_differ = versions(definition).any(|of| at(of, SCHEMA) != Some(stored))
        || generation.is_some_and(|of| of > 1);
    may_differ.then(|| Arc::new(stored.clone()))
}

/// Returns the versions in which objects are stored.
fn stored_versions(definition: &Value) -> StoredVersions {
    let is_stored = |version: &&Value| version.get("storage") == Some(&Value::Bool(true));
    let now = versions(definition).find(is_stored);
    let now = now.map_or("", |version| text(version, &["name"]));
    let all = at(definition, &["status", "storedVersions"]).and_then(Value::as_array);
    let mut all = all.into_iter().flatten().filter_map(Value::as_str);
    StoredVersions {
        now: now.to_owned(),
        first: all.clone().next().unwrap_or(now).to_owned(),
        is_only: all.all(|version| version == now),
    }
}

/// Returns the webhook that converts objects between versions.
fn conversion(definition: &Value) -> Option<Conversion> {
    let conversion = at(definition, &["spec", "conversion"])?;
    if text(conversion, &["strategy"]) != "Webhook" {
        return None;
    }
    let reviews = at(conversion, &["webhook", "conversionReviewVersions"])?.as_array()?;
    let known = |review: &&str| matches!(*review, "v1" | "v1beta1");
    let review = reviews.iter().filter_map(Value::as_str).find(known)?;
    let schema = |version: &Value| at(version, SCHEMA).cloned().unwrap_or_default();
    let schemas = versions(definition).map(|of| (text(of, &["name"]).to_owned(), schema(of)));
    Some(Conversion {
        client: at(conversion, &["webhook", "clientConfig"])?.clone(),
        review: review.to_owned(),
        schemas: schemas.collect(),
    })
}

/// Returns the warning for clients of a deprecated version.
fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return None;
    }
    if let Some(said) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(said.to_owned());
    }
    let group = text(definition, &["spec", "group"]);
    let kind = text(definition, &["spec", "names", "kind"]);
    let name = text(version, &["name"]);
    let is_better = |other: &&Value| {
        other.get("served") == Some(&Value::Bool(true))
            && other.get("deprecated") != Some(&Value::Bool(true))
            && version_order(text(other, &["name"]), name).is_lt()
    };
    let mut better: Vec<&str> = versions(definition)
        .filter(is_better)
        .map(|other| text(other, &["name"]))
        .collect();
    better.sort_by(|a, b| version_order(a, b));
    let instead = better.first().map_or_else(String::new, |better| {
        format!("; use {group}/{better} {kind}")
    });
    Some(format!("{group}/{name} {kind} is deprecated{instead}"))
}

fn subresources(kind: &str, version: &Value) -> Vec<Subresource> {
    let verbs = || vec!["get", "patch", "update"];
    let mut found = Vec::new();
    if at(version, &["subresources", "status"]).is_some_and(|status| !status.is_null()) {
        let kind = kind.to_owned();
        found.push(Subresource {
            name: "status",
            group_version: None,
            kind,
            verbs: verbs(),
        });
    }
    if scale(version).is_some() {
        let (group_version, kind) = (Some(("autoscaling", "v1")), "Scale".to_owned());
        found.push(Subresource {
            name: "scale",
            group_version,
            kind,
            verbs: verbs(),
        });
    }
    found
}

fn scale(version: &Value) -> Option<ScalePaths> {
    let scale = at(version, &["subresources", "scale"]).filter(|scale| scale.is_object())?;
    let path = |name: &str| text(scale, &[name]).trim_start_matches('.').to_owned();
    let selector = path("labelSelectorPath");
    Some(ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        label_selector: (!selector.is_empty()).then_some(selector),
    })
}

fn selector_fields(version: &Value) -> Vec<SelectableField> {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let path = |field| text(field, &["jsonPath"]).trim_start_matches('.');
    fields
        .into_iter()
        .flatten()
        .map(|field| SelectableField::new(path(field)))
        .collect()
}
