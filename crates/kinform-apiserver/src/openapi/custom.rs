//! Custom resources as schemas: those of their definitions, and the metadata that every object has.
//!
//! ```text
//! definition's schema ──▶ + apiVersion, kind, metadata, the kind's name ──▶ definition of a document
//! ```
//!
//! The older dialect supports fewer keywords. The unsupported ones are left out, together with
//! others that would be too strict without them.
//!
//! Upstream: `apiextensions-apiserver:pkg/controller/openapi/{builder,v2}`.

use serde_json::{Map, Value, json};

use super::gvk;
use super::types::{Dialect, Schemas};
use crate::resource::{ResourceInfo, Shape};

/// The keyword of a schema whose objects have members that it does not name.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";
/// The page that the descriptions refer to.
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an \
    object. Servers should convert recognized schemas to the latest internal value, and may reject \
    unrecognized values.";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. \
    Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In \
    CamelCase.";

/// The schema of `apiVersion` or `kind`, as every type describes them.
fn type_member(name: &str) -> Value {
    let (words, place) = match name {
        "kind" => (KIND, "types-kinds"),
        _ => (API_VERSION, "resources"),
    };
    let description = format!("{words} More info: {CONVENTIONS}#{place}");
    json!({"type": "string", "description": description})
}

/// A reference to the schema of a resource's objects.
pub(super) fn refer(of: &ResourceInfo, schemas: &mut Schemas) -> Value {
    let schema = schema(of, schemas);
    schemas.given(&name(of, &of.kind), schema)
}

/// A reference to the schema of a resource's lists.
pub(super) fn refer_list(of: &ResourceInfo, schemas: &mut Schemas) -> Value {
    let item = refer(of, schemas);
    let metadata = one_of_meta(
        schemas,
        "ListMeta",
        ("Standard list metadata.", "types-kinds"),
    );
    let items = format!("List of {}. More info: {CONVENTIONS}", of.plural);
    let list = json!({
        "type": "object",
        "description": format!("{} is a list of {}", of.list_kind, of.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": type_member("apiVersion"),
            "items": {"type": "array", "description": items, "items": item},
            "kind": type_member("kind"),
            "metadata": metadata,
        },
    });
    let list = named(of, &of.list_kind, list);
    schemas.given(&name(of, &of.list_kind), list)
}

/// `com.example.stable.v1.Widget`.
fn name(of: &ResourceInfo, kind: &str) -> String {
    let mut parts: Vec<&str> = of.group.rsplit('.').collect();
    parts.extend([&*of.version, kind]);
    parts.join(".")
}

fn schema(of: &ResourceInfo, schemas: &mut Schemas) -> Value {
    let mut schema = match &of.shape {
        Shape::Custom(shape) => shape.schema.as_object().cloned().unwrap_or_default(),
        Shape::Builtin(_) => Map::new(),
    };
    if schemas.dialect == Dialect::V2 {
        if schema.get(OPEN) == Some(&Value::Bool(true)) {
            // The older dialect cannot say that there are more members than these.
            return named(of, &of.kind, json!({"type": "object"}));
        }
        plainer(&mut schema);
    }
    schema
        .entry("type")
        .or_insert_with(|| Value::from("object"));
    let words = ("Standard object's metadata.", "metadata");
    let metadata = one_of_meta(schemas, "ObjectMeta", words);
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for name in ["apiVersion", "kind"] {
            properties.insert(name.to_owned(), type_member(name));
        }
        properties.insert("metadata".to_owned(), metadata);
    }
    named(of, &of.kind, Value::Object(schema))
}

fn one_of_meta(schemas: &mut Schemas, name: &str, (words, place): (&str, &str)) -> Value {
    let reference = schemas.meta(name);
    let mut described = match schemas.dialect {
        Dialect::V2 => reference,
        Dialect::V3 => json!({"allOf": [reference]}),
    };
    let description = format!("{words} More info: {CONVENTIONS}#{place}");
    described["description"] = Value::from(description);
    described
}

/// Adds the kind of a schema, and the fields by which its objects can be selected.
fn named(of: &ResourceInfo, kind: &str, mut schema: Value) -> Value {
    let kind = gvk(&of.group, &of.version, kind);
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    if !of.fields.is_empty() {
        let paths = of
            .fields
            .iter()
            .map(|field| json!({"fieldPath": field.name()}));
        schema["x-kubernetes-selectable-fields"] = Value::from(paths.collect::<Vec<Value>>());
    }
    schema
}

/// Removes the keywords that the older dialect lacks. Schemas are as deep as bodies may be.
fn plainer(schema: &mut Map<String, Value>) {
    for word in ["default", "nullable", "oneOf", "anyOf", "allOf", "not"] {
        schema.remove(word);
    }
    let is_set = |word: &str| schema.get(word) == Some(&Value::Bool(true));
    let is_open = is_set(OPEN);
    if is_open || is_set("x-kubernetes-int-or-string") {
        for word in ["type", "properties", "additionalProperties", "items"] {
            schema.remove(word);
        }
    }
    for word in ["items", "additionalProperties"] {
        if let Some(Value::Object(inner)) = schema.get_mut(word) {
            plainer(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for inner in properties.values_mut().filter_map(Value::as_object_mut) {
            plainer(inner);
        }
    }
}
