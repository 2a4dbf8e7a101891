//! A definition as an object: what it gets, what is wrong with it, and what it makes served.
//!
//! ```text
//! definition -> defaults, errors          established definition -> [ResourceInfo]
//! ```
//!
//! Upstream: `kubernetes/apiextensions-apiserver:pkg/registry/customresourcedefinition/strategy.go`,
//! `pkg/apis/apiextensions/{v1/defaults.go,validation/validation.go}`.

use std::sync::Arc;

use jiff::Timestamp;
use kinform_api::{FieldError, Scope, names};
use serde_json::{Map, Value, json};

use super::life;
use crate::digest;
use crate::read::table;
use crate::resource::{CustomShape, Origin, ResourceInfo, Rules, ScalePaths, Shape, Subresource};
use crate::storage::{SelectableField, Shelf};
use crate::write::{at, metadata, text};

/// What holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

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

/// Defaults of a new definition.
pub(crate) fn prepare_create(resource: &ResourceInfo, object: &mut Value) {
    if !resource.is_definition() {
        return;
    }
    put_defaults(object);
    store_versions(object);
}

/// Defaults of a changed definition.
pub(crate) fn prepare_update(resource: &ResourceInfo, object: &mut Value) {
    prepare_create(resource, object);
}

/// What a definition has where nothing is said.
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
        put("listKind", format!("{kind}List"));
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

/// Notes that objects may be stored in the version that is stored now.
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

/// What is wrong with a definition.
pub(crate) fn errors(definition: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (group, plural) = (
        text(definition, &["spec", "group"]),
        text(definition, &["spec", "names", "plural"]),
    );
    let name = text(definition, &["metadata", "name"]);
    if name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, detail));
    }
    let scope = text(definition, &["spec", "scope"]);
    if !matches!(scope, "Namespaced" | "Cluster") {
        errors.push(match scope {
            "" => FieldError::required("spec.scope", ""),
            _ => FieldError::not_supported("spec.scope", scope, &["Cluster", "Namespaced"]),
        });
    }
    for (path, label) in [
        ("plural", plural),
        ("kind", text(definition, &["spec", "names", "kind"])),
    ] {
        let field = format!("spec.names.{path}");
        if label.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let wrong = names::dns_label_errors(&label.to_lowercase()).into_iter();
        errors.extend(wrong.map(|detail| FieldError::invalid(field.as_str(), label, detail)));
    }
    version_errors(definition, &mut errors);
    errors
}

fn version_errors(definition: &Value, errors: &mut Vec<FieldError>) {
    let mut stored = 0;
    for (place, version) in versions(definition).enumerate() {
        let field = |name: &str| format!("spec.versions[{place}].{name}");
        let name = text(version, &["name"]);
        let wrong = names::dns_label_errors(name).into_iter();
        errors.extend(wrong.map(|detail| FieldError::invalid(field("name"), name, detail)));
        stored += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        let schema = at(version, &["schema", "openAPIV3Schema"]);
        let Some(schema) = schema.filter(|schema| schema.is_object()) else {
            let detail = "schemas are required";
            errors.push(FieldError::required(
                field("schema.openAPIV3Schema"),
                detail,
            ));
            continue;
        };
        let of = text(schema, &["type"]);
        if of != "object" {
            let detail = "must be object at the root";
            errors.push(FieldError::invalid(
                field("schema.openAPIV3Schema.type"),
                of,
                detail,
            ));
        }
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", "", detail));
    }
}

/// Marks a definition whose deletion has begun: without a grace period or a new generation.
pub(crate) fn mark_terminating(definition: &mut Value, now: Timestamp) {
    if metadata::is_terminating(definition) {
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
    life::begin_termination(definition, now);
}

/// What an established definition makes served: one resource a served version, with one shelf.
pub(crate) fn resources_of(definition: &Value, shelf: Shelf) -> Vec<ResourceInfo> {
    if !life::is_established(definition) {
        return Vec::new();
    }
    versions(definition)
        .filter(|version| version.get("served") == Some(&Value::Bool(true)))
        .map(|version| resource(definition, version, shelf))
        .collect()
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
            schema: at(version, &["schema", "openAPIV3Schema"])
                .cloned()
                .unwrap_or_default(),
            scale: scale(version),
            terminating: metadata::is_terminating(definition),
            columns: table::custom_columns(version),
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
