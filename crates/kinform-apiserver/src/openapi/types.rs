//! Built-in types as schemas.
//!
//! ```text
//! Type ──refer──▶ name, and the schemas of all that it holds ──▶ definitions of a document
//! ```
//!
//! A document contains the schemas that it refers to, directly or indirectly. The two versions of
//! OpenAPI write references, defaults and int-or-string values differently; the [`Dialect`] selects
//! the form. Descriptions are left out, because they are upstream's prose.
//!
//! Upstream: `kube-openapi:pkg/{generators,builder,builder3}`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use kinform_schema::{Container, Field, FieldType, Topology, Type};
use serde_json::{Map, Value, json};

use super::marks;

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

/// The kinds that a document names: those of one group and version and the common ones, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audience {
    Version { group: String, version: String },
    Everybody,
}

/// The definitions of a document, collected while references to them are written.
#[derive(Debug)]
pub(super) struct Schemas {
    pub(super) dialect: Dialect,
    audience: Audience,
    found: BTreeMap<String, Value>,
    waiting: Vec<&'static Type>,
}

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";

/// `k8s.io/api/core/v1`, `Pod` is `io.k8s.api.core.v1.Pod`.
pub(super) fn name_of(package: &str, name: &str) -> String {
    let (host, rest) = package.split_once('/').unwrap_or((package, ""));
    let mut parts: Vec<&str> = host.rsplit('.').collect();
    parts.extend(rest.split('/').filter(|part| !part.is_empty()));
    parts.push(name);
    parts.join(".")
}

impl Schemas {
    pub(super) fn new(dialect: Dialect, audience: Audience) -> Self {
        Self {
            dialect,
            audience,
            found: BTreeMap::new(),
            waiting: Vec::new(),
        }
    }

    /// Returns a reference to a type of the API's common part, such as `Status`.
    pub(super) fn meta(&mut self, name: &str) -> Value {
        match kinform_schema::named_type(META, name) {
            Some(of) => self.built_in(of),
            None => self.special(META, name, json!({"type": "object"})),
        }
    }

    /// Returns a reference to a built-in type.
    pub(super) fn built_in(&mut self, of: &'static Type) -> Value {
        let name = name_of(of.package(), of.name());
        let reference = self.reference(&name);
        if let Entry::Vacant(place) = self.found.entry(name) {
            place.insert(Value::Null);
            self.waiting.push(of);
        }
        reference
    }

    /// Returns a reference to a given schema.
    pub(super) fn given(&mut self, name: &str, schema: Value) -> Value {
        self.found.entry(name.to_owned()).or_insert(schema);
        self.reference(name)
    }

    /// Returns all schemas that were referred to.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        while let Some(of) = self.waiting.pop() {
            let schema = self.schema(of);
            self.found.insert(name_of(of.package(), of.name()), schema);
        }
        self.found.into_iter().collect()
    }

    fn reference(&self, name: &str) -> Value {
        let place = match self.dialect {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{place}{name}")})
    }

    fn special(&mut self, package: &str, name: &str, schema: Value) -> Value {
        self.given(&name_of(package, name), schema)
    }

    fn schema(&mut self, of: &'static Type) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        if of.is_kind() {
            for name in ["apiVersion", "kind"] {
                properties.insert(name.to_owned(), json!({"type": "string"}));
            }
        }
        self.fields(of, of, &mut properties, &mut required);
        let mut schema = json!({"type": "object"});
        if !properties.is_empty() {
            schema["properties"] = Value::Object(properties);
        }
        if !required.is_empty() {
            schema["required"] = Value::from(required);
        }
        if of.is_atomic() {
            schema["x-kubernetes-map-type"] = Value::from("atomic");
        }
        let kinds = kinds_of(of).iter().filter(|kind| self.names(of, kind));
        let kinds: Vec<Value> = kinds
            .map(|(group, version, kind)| json!({"group": group, "version": version, "kind": kind}))
            .collect();
        if !kinds.is_empty() {
            schema["x-kubernetes-group-version-kind"] = Value::from(kinds);
        }
        schema
    }

    /// Returns whether the document names a kind. Common types are kinds of every group, and a
    /// document names only its own.
    fn names(&self, of: &Type, (group, version, _): &Kind) -> bool {
        match &self.audience {
            Audience::Version {
                group: own,
                version: in_version,
            } if of.package() == META => {
                group.is_empty() || (own == group && in_version == version)
            }
            _ => true,
        }
    }

    /// Writes the fields of a type, and those of `part`, which is inlined.
    fn fields(
        &mut self,
        of: &'static Type,
        part: &'static Type,
        properties: &mut Map<String, Value>,
        required: &mut Vec<&'static str>,
    ) {
        for field in part.fields() {
            if let (true, Some(inner)) = (field.is_inline(), field.message()) {
                self.fields(of, inner, properties, required);
                continue;
            }
            if marks::is_required(of, field) {
                required.push(field.name());
            }
            let schema = self.field(of, field);
            properties.insert(field.name().to_owned(), schema);
        }
    }

    fn field(&mut self, of: &Type, field: &Field) -> Value {
        let mut schema = match field.container() {
            Container::Single => self.single(field),
            Container::List => json!({"type": "array", "items": self.element(field)}),
            Container::Map => {
                json!({"type": "object", "additionalProperties": self.element(field)})
            }
        };
        if let Some(mark) = marks::mark(of, field)
            && !mark.values.is_empty()
        {
            let place = match field.container() {
                Container::Single => &mut schema,
                Container::List => &mut schema["items"],
                Container::Map => &mut schema["additionalProperties"],
            };
            place["enum"] = Value::from(mark.values.clone());
        }
        extend(field, &mut schema);
        schema
    }

    /// Writes a field with one value; the newer dialect adds its default.
    fn single(&mut self, field: &Field) -> Value {
        let schema = self.element(field);
        if self.dialect == Dialect::V2 {
            return schema;
        }
        let is_struct = field.message().is_some();
        let default = match &schema["type"] {
            // The field is a key of a list, so its default is known.
            _ if field.key_default().is_some() => json!(field.key_default()),
            _ if field.is_pointer() => Value::Null,
            _ if is_struct => json!({}),
            _ if field.omits_empty() => Value::Null,
            Value::String(name) => match name.as_str() {
                "string" if schema["format"].is_null() => json!(""),
                "boolean" => json!(false),
                "integer" | "number" => json!(0),
                _ => Value::Null,
            },
            _ => Value::Null,
        };
        let mut schema = match schema.get("$ref") {
            Some(_) => json!({"allOf": [schema]}),
            None => schema,
        };
        if !default.is_null() {
            schema["default"] = default;
        }
        schema
    }

    /// Writes one value, or an element of a list or a map.
    fn element(&mut self, field: &Field) -> Value {
        let runtime = "k8s.io/apimachinery/pkg/runtime";
        let extensions = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1";
        let is_older = self.dialect == Dialect::V2;
        match field.field_type() {
            FieldType::String | FieldType::Duration => json!({"type": "string"}),
            FieldType::Bool => json!({"type": "boolean"}),
            FieldType::Int32 => json!({"type": "integer", "format": "int32"}),
            FieldType::Int64 => json!({"type": "integer", "format": "int64"}),
            FieldType::Double => json!({"type": "number", "format": "double"}),
            FieldType::Bytes => json!({"type": "string", "format": "byte"}),
            FieldType::Strings => json!({"type": "array", "items": {"type": "string"}}),
            FieldType::Time => self.special(META, "Time", date_time()),
            FieldType::MicroTime => self.special(META, "MicroTime", date_time()),
            FieldType::FieldsV1 => self.special(META, "FieldsV1", json!({"type": "object"})),
            FieldType::RawExtension => {
                self.special(runtime, "RawExtension", json!({"type": "object"}))
            }
            FieldType::Quantity => {
                let schema = match is_older {
                    true => json!({"type": "string"}),
                    false => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
                };
                self.special("k8s.io/apimachinery/pkg/api/resource", "Quantity", schema)
            }
            FieldType::IntOrString => {
                let mut schema = json!({"format": "int-or-string"});
                if is_older {
                    schema["type"] = json!("string");
                } else {
                    schema["oneOf"] = json!([{"type": "integer"}, {"type": "string"}]);
                }
                self.special("k8s.io/apimachinery/pkg/util/intstr", "IntOrString", schema)
            }
            FieldType::Json => self.special(extensions, "JSON", json!({})),
            FieldType::JsonSchemaPropsOrBool => {
                self.special(extensions, "JSONSchemaPropsOrBool", json!({}))
            }
            FieldType::JsonSchemaPropsOrArray => {
                self.special(extensions, "JSONSchemaPropsOrArray", json!({}))
            }
            FieldType::JsonSchemaPropsOrStringArray => {
                self.special(extensions, "JSONSchemaPropsOrStringArray", json!({}))
            }
            FieldType::Message(of) => self.built_in(of),
            // A form that the table does not know yet may be any value.
            _ => json!({}),
        }
    }
}

/// Adds the merge strategies of lists and maps, for patches and for server-side apply.
fn extend(field: &Field, schema: &mut Value) {
    let patch = field.patch_strategy();
    let words = [
        (patch.merge, "merge"),
        (patch.replace, "replace"),
        (patch.retain_keys, "retainKeys"),
    ];
    let words: Vec<&str> = words
        .iter()
        .filter_map(|(is_so, word)| is_so.then_some(*word))
        .collect();
    if !words.is_empty() {
        schema["x-kubernetes-patch-strategy"] = Value::from(words.join(","));
    }
    if let Some(key) = field.merge_key() {
        schema["x-kubernetes-patch-merge-key"] = Value::from(key);
    }
    match (field.container(), field.topology()) {
        (Container::List, Topology::Keyed(keys)) => {
            schema["x-kubernetes-list-type"] = Value::from("map");
            schema["x-kubernetes-list-map-keys"] = Value::from(keys.to_vec());
        }
        (Container::List, Topology::Set) => schema["x-kubernetes-list-type"] = Value::from("set"),
        (Container::List, _) => schema["x-kubernetes-list-type"] = Value::from("atomic"),
        // The struct's own type declares it, unless the field overrides it.
        (of, topology) => {
            let is_atomic = of == Container::Single && field.message().is_some_and(Type::is_atomic);
            match topology {
                Topology::Atomic if !is_atomic => {
                    schema["x-kubernetes-map-type"] = Value::from("atomic");
                }
                Topology::Granular if is_atomic => {
                    schema["x-kubernetes-map-type"] = Value::from("granular");
                }
                _ => {}
            }
        }
    }
}

fn date_time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

/// Group, version and kind.
type Kind = (&'static str, &'static str, &'static str);

/// Returns the kinds of a type, in order.
fn kinds_of(of: &Type) -> &'static [Kind] {
    type Kinds = HashMap<(&'static str, &'static str), Vec<Kind>>;
    static KINDS: OnceLock<Kinds> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let mut kinds = Kinds::new();
        for (group, version, kind, of) in kinform_schema::kinds() {
            let known = kinds.entry((of.package(), of.name())).or_default();
            known.push((group, version, kind));
        }
        kinds.values_mut().for_each(|of| of.sort_unstable());
        kinds
    });
    kinds
        .get(&(of.package(), of.name()))
        .map_or(&[], Vec::as_slice)
}
