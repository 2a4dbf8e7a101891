//! Checks that a schema has only members that a schema may have.
//!
//! ```text
//! schema -> [FieldError]: types, lists and their keys, positions of defaults, rules
//! ```
//!
//! Upstream: `ValidateCustomResourceDefinitionOpenAPISchema` in
//! `apiextensions-apiserver:pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue};
use serde_json::Value;

use crate::budget::Meter;
use crate::object::metadata::MOST_ERRORS;
use crate::object::text;
use crate::schema::flag;
use crate::schema::rules::define::{self, Around};
use crate::schema::rules::estimate;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
/// The members that are allowed at the root of a schema with a status subresource.
const AT_ROOT: [&str; 24] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "nullable",
    "default",
];
const AT_ROOT_WORDS: &str = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum \
    ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required \
    Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at \
    the root of the schema if the status subresource is enabled";

/// States whether rules are compiled: only in schemas that are structural.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Checked,
    Left,
}

/// Checks the root of a schema with a status subresource.
pub(super) fn root_with_status(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let of = text(schema, &["type"]);
    if of != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                      subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), of, detail));
        return;
    }
    let members = schema.as_object().into_iter().flatten();
    let is_said = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let other = members
        .filter(|(_, value)| is_said(value))
        .find(|(name, _)| !AT_ROOT.contains(&name.as_str()));
    if other.is_some() {
        let shown = ShownValue::raw(schema.to_string());
        errors.push(FieldError::invalid(path, shown, AT_ROOT_WORDS));
    }
}

/// Returns the errors of a schema, as far as the meter allows.
pub(super) fn errors(
    schema: &Value,
    (path, rules): (&str, Rules),
    meter: &Meter,
) -> Vec<FieldError> {
    let around = Place {
        path: path.to_owned(),
        is_root: true,
        in_metadata: false,
        no_default: None,
        without_old: None,
        times: 1.0,
        rules,
    };
    let mut found = Found {
        schema: Vec::new(),
        rules: Vec::new(),
        costs: Vec::new(),
        meter,
    };
    node(schema, &around, &mut found);
    found.schema.extend(found.rules);
    found.schema.extend(define::total_errors(path, found.costs));
    found.schema
}

struct Found<'m> {
    schema: Vec<FieldError>,
    rules: Vec<FieldError>,
    /// The path and the estimated cost of each rule.
    costs: Vec<(String, f64)>,
    meter: &'m Meter,
}

#[derive(Clone)]
struct Place {
    path: String,
    is_root: bool,
    in_metadata: bool,
    /// The reason why a default is not allowed here.
    no_default: Option<String>,
    /// The closest enclosing path within which old values cannot be determined.
    without_old: Option<String>,
    times: f64,
    rules: Rules,
}

impl Place {
    fn below(&self, name: &str) -> Self {
        Self {
            path: format!("{}.{name}", self.path),
            is_root: false,
            ..self.clone()
        }
    }

    fn combined(&self, name: &str) -> Self {
        Self {
            rules: Rules::Left,
            ..self.below(name)
        }
    }
}

fn node(schema: &Value, place: &Place, found: &mut Found<'_>) {
    let before = found.schema.len();
    standard(schema, place, &mut found.schema);
    let field = |name: &str| format!("{}.{name}", place.path);
    if flag(schema, "uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        found
            .schema
            .push(FieldError::forbidden(field("uniqueItems"), detail));
    }
    children(schema, place, found);
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = field("x-kubernetes-preserve-unknown-fields");
        let detail = "must be true or undefined";
        found.schema.push(FieldError::invalid(field, false, detail));
    }
    lists(schema, place, &mut found.schema);
    found
        .schema
        .extend(define::form_errors(schema, &place.path));
    if found.schema.len() == before && place.rules == Rules::Checked {
        let around = Around {
            path: &place.path,
            is_root: place.is_root,
            without_old: place.without_old.as_deref(),
            times: place.times,
        };
        let errors = define::errors(schema, around, (&mut found.costs, found.meter));
        found.rules.extend(errors);
    }
}

/// Adds the errors that no schema may have.
fn standard(schema: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{}.{name}", place.path);
    let of = text(schema, &["type"]);
    if !of.is_empty() && !TYPES.contains(&of) {
        errors.push(FieldError::not_supported(field("type"), of, &TYPES));
    }
    let has_default = schema.get("default").is_some_and(|value| !value.is_null());
    if let Some(why) = place.no_default.as_deref().filter(|_| has_default) {
        let detail = format!("must not be set {why}");
        errors.push(FieldError::forbidden(field("default"), detail));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        let is_said = match schema.get(name) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
            Some(_) => true,
        };
        if is_said {
            let detail = format!("{name} is not supported");
            errors.push(FieldError::forbidden(field(name), detail));
        }
    }
    if of == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(field("type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(field("items"), detail));
    }
    if place.in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(
            field("x-kubernetes-embedded-resource"),
            detail,
        ));
    }
}

fn children(schema: &Value, place: &Place, found: &mut Found<'_>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(others) = schema
        .get("additionalProperties")
        .filter(|of| !of.is_null())
    {
        let mut below = place.below("additionalProperties");
        let has_properties = properties.is_some_and(|of| !of.is_empty());
        if has_properties && *others != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            found
                .schema
                .push(FieldError::forbidden(below.path.as_str(), detail));
        }
        if place.in_metadata {
            let why = "inside additionalProperties applying to object metadata";
            below.no_default = Some(why.to_owned());
        }
        below.times *= estimate::times(schema, "maxProperties");
        if others.is_object() {
            node(others, &below, found);
        }
    }
    let is_whole = place.is_root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in properties.into_iter().flatten() {
        let mut below = place.below(&format!("properties[{name}]"));
        if is_whole && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_metadata = true;
            if place.is_root {
                below.no_default = Some(format!("in top-level {name}"));
            }
        }
        node(property, &below, found);
    }
    if let Some(not) = schema.get("not").filter(|not| not.is_object()) {
        node(not, &place.combined("not"), found);
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let list = schema.get(name).and_then(Value::as_array);
        for (at, part) in list.into_iter().flatten().enumerate() {
            node(part, &place.combined(&format!("{name}[{at}]")), found);
        }
    }
    if let Some(items) = schema.get("items").filter(|of| of.is_object()) {
        let mut below = place.below("items");
        if text(schema, &["x-kubernetes-list-type"]) != "map" && below.without_old.is_none() {
            below.without_old = Some(place.path.clone());
        }
        below.times *= estimate::times(schema, "maxItems");
        node(items, &below, found);
    }
}

/// Checks the merge strategies of lists and maps.
fn lists(schema: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("{}.{name}", place.path);
    let said = |name: &str| schema.get(name).and_then(Value::as_str);
    let of = text(schema, &["type"]);
    let mut wants_type = |wanted: &str, name: &str| {
        let detail = format!("must be {wanted} if {name} is specified");
        errors.push(match of {
            "" => FieldError::required(field("type"), detail),
            of => FieldError::invalid(field("type"), of, detail),
        });
    };
    let (map_type, list_type) = (
        said("x-kubernetes-map-type"),
        said("x-kubernetes-list-type"),
    );
    if map_type.is_some() && of != "object" {
        wants_type("object", "x-kubernetes-map-type");
    }
    if list_type.is_some() && of != "array" {
        wants_type("array", "x-kubernetes-list-type");
    } else if list_type == Some("set") {
        set_items(schema, place, errors);
    }
    if let Some(map_type) = map_type.filter(|of| !matches!(*of, "atomic" | "granular")) {
        let known = ["atomic", "granular"];
        let field = field("x-kubernetes-map-type");
        errors.push(FieldError::not_supported(field, map_type, &known));
    }
    if let Some(list_type) = list_type.filter(|of| !matches!(*of, "atomic" | "set" | "map")) {
        let known = ["atomic", "set", "map"];
        let field = field("x-kubernetes-list-type");
        errors.push(FieldError::not_supported(field, list_type, &known));
    }
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .filter(|keys| !keys.is_empty());
    if keys.is_some() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        let field = field("x-kubernetes-list-type");
        errors.push(match list_type {
            None => FieldError::required(field, detail),
            Some(of) => FieldError::invalid(field, of, detail),
        });
    }
    if list_type == Some("map") {
        map_keys(schema, keys, place, errors);
    }
    let items = schema.get("items").unwrap_or(&Value::Null);
    if let Some(of @ ("set" | "map")) = list_type
        && flag(items, "nullable")
    {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {of}");
        errors.push(FieldError::forbidden(field("items.nullable"), detail));
    }
    if list_type == Some("map") {
        key_defaults(items, keys, place, errors);
    }
}

/// Checks the items of a set, which are compared as a whole.
fn set_items(schema: &Value, place: &Place, errors: &mut Vec<FieldError>) {
    let Some(items) = schema.get("items").filter(|of| of.is_object()) else {
        return;
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").and_then(Value::as_str);
    let shown = || match list_type {
        Some(of) => ShownValue::from(of),
        None => ShownValue::raw("null"),
    };
    match text(items, &["type"]) {
        "array" if list_type.is_some_and(|of| of != "atomic") => {
            let field = format!("{}.items.x-kubernetes-list-type", place.path);
            errors.push(FieldError::invalid(field, shown(), detail));
        }
        "object" if text(items, &["x-kubernetes-map-type"]) != "atomic" => {
            let field = format!("{}.items.x-kubernetes-map-type", place.path);
            errors.push(FieldError::invalid(field, shown(), detail));
        }
        _ => {}
    }
}

fn map_keys(
    schema: &Value,
    keys: Option<&Vec<Value>>,
    place: &Place,
    errors: &mut Vec<FieldError>,
) {
    let field = |name: &str| format!("{}.{name}", place.path);
    let Some(keys) = keys else {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(
            field("x-kubernetes-list-map-keys"),
            detail,
        ));
        return;
    };
    let Some(items) = schema.get("items").filter(|of| of.is_object()) else {
        if schema.get("items").is_none_or(Value::is_null) {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(field("items"), detail));
        }
        return;
    };
    let of = text(items, &["type"]);
    if of != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(field("items.type"), of, detail));
        return;
    }
    let shown = ShownValue::raw(Value::from(keys.clone()).to_string());
    let mut seen = HashSet::new();
    // Each error shows all keys.
    for key in keys.iter().filter_map(Value::as_str).take(MOST_ERRORS) {
        let detail = match items.get("properties").and_then(|of| of.get(key)) {
            Some(property) if matches!(text(property, &["type"]), "array" | "object") => {
                let field = field(&format!("items.properties[{key}].type"));
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(field, of, detail));
                None
            }
            Some(_) => None,
            None => Some("entries must all be names of item properties"),
        };
        let is_new = seen.insert(key);
        let again = (!is_new).then_some("must not contain duplicate entries");
        for detail in [detail, again].into_iter().flatten() {
            let field = field("x-kubernetes-list-map-keys");
            errors.push(FieldError::invalid(field, shown.clone(), detail));
        }
    }
}

/// Checks that the keys of a list are always present: required or with a default.
fn key_defaults(
    items: &Value,
    keys: Option<&Vec<Value>>,
    place: &Place,
    errors: &mut Vec<FieldError>,
) {
    let required = items.get("required").and_then(Value::as_array);
    let required: HashSet<&Value> = required.into_iter().flatten().collect();
    for key in keys.into_iter().flatten() {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|of| of.get(name)) else {
            continue;
        };
        let field = |member: &str| format!("{}.items.properties[{name}].{member}", place.path);
        let is_required = required.contains(key);
        if !is_required && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                          or be a required property";
            errors.push(FieldError::required(field("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(field("nullable"), detail));
        }
    }
}
