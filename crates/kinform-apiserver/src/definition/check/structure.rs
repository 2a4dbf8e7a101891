//! Checks that a schema is structural: it declares the shape of every value once, outside of
//! combinations.
//!
//! ```text
//! schema -> [FieldError], sorted by their texts
//! ```
//!
//! Upstream: `apiextensions-apiserver:pkg/apiserver/schema/{validation,complete}.go`.

use kinform_api::FieldError;
use serde_json::{Map, Value};

use crate::budget::Meter;
use crate::object::text;
use crate::schema::flag;
use crate::schema::go_regex;
use crate::schema::patterns::Patterns;

/// The position of a schema node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// The errors of a schema, and its patterns.
struct Found<'m> {
    errors: Vec<FieldError>,
    patterns: Patterns,
    meter: &'m Meter,
}

/// Returns the errors that keep a schema from being structural, as far as the meter allows.
pub(super) fn errors(schema: &Value, path: &str, meter: &Meter) -> Vec<FieldError> {
    let mut found = Found {
        errors: Vec::new(),
        patterns: Patterns::default(),
        meter,
    };
    node(schema, Level::Root, path, &mut found);
    let mut errors = found.errors;
    complete(schema, schema, (path, path), &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Returns whether a schema uses only members that a structural schema may have. Other checks
/// report its other errors.
pub(super) fn is_readable(schema: &Value) -> bool {
    let names = [
        "$ref",
        "id",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
    ];
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let Some(members) = schema.as_object() else {
        return true;
    };
    if names
        .iter()
        .any(|name| members.get(*name).is_some_and(|value| !is_empty(value)))
        || schema.get("items").is_some_and(Value::is_array)
    {
        return false;
    }
    let nested = combined(schema).map(|(_, _, part)| part);
    let below = properties(schema)
        .map(|(_, property)| property)
        .chain(items(schema));
    let others = schema
        .get("additionalProperties")
        .filter(|of| of.is_object());
    nested.chain(below).chain(others).all(is_readable)
}

/// Iterates over the properties of a node.
fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten()
}

fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.is_object())
}

fn node(schema: &Value, level: Level, path: &str, found: &mut Found<'_>) {
    let of = text(schema, &["type"]);
    if of == "array" && schema.get("items").is_none_or(Value::is_null) {
        found.errors.push(FieldError::required(
            format!("{path}.items"),
            "must be specified",
        ));
    }
    if let Some(items) = items(schema) {
        node(items, Level::Item, &format!("{path}.items"), found);
    }
    for (name, property) in properties(schema) {
        let path = format!("{path}.properties[{name}]");
        node(property, Level::Field, &path, found);
    }
    if let Some(others) = schema
        .get("additionalProperties")
        .filter(|of| !of.is_null())
    {
        let path = format!("{path}.additionalProperties");
        if level == Level::Root {
            found.errors.push(FieldError::forbidden(
                path.as_str(),
                "must not be used at the root",
            ));
        }
        if others.is_object() {
            node(others, Level::Field, &path, found);
        }
    }
    extensions(schema, path, &mut found.errors);
    combinations(schema, path, skipped(schema), found);
    types(schema, level, path, &mut found.errors);
    let is_whole = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    whole(schema, is_whole, level, path, &mut found.errors);
}

fn extensions(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{name}"), true, detail));
        }
    }
}

fn types(schema: &Value, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let of = text(schema, &["type"]);
    let field = format!("{path}.type");
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    if is_embedded && of != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match of {
            "" => FieldError::required(field.as_str(), detail),
            of => FieldError::invalid(field.as_str(), of, detail),
        });
    } else if of.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(field.as_str(), detail));
    }
    if is_embedded && schema.get("additionalProperties").is_some() {
        let field = format!("{path}.additionalProperties");
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(field, detail));
    }
    if level == Level::Root && !of.is_empty() && of != "object" {
        errors.push(FieldError::invalid(field, of, "must be object at the root"));
    }
}

/// Checks kind, version and metadata of embedded objects.
fn whole(schema: &Value, is_whole: bool, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let of = |name: &str| schema.get("properties").and_then(|of| of.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(property) = of(name).filter(|_| is_whole)
            && text(property, &["type"]) != "string"
        {
            let field = format!("{path}.properties[{name}].type");
            let said = text(property, &["type"]);
            errors.push(FieldError::invalid(field, said, "must be string"));
        }
    }
    if let Some(metadata) = of("metadata") {
        let field = format!("{path}.properties[metadata]");
        let said = text(metadata, &["type"]);
        if is_whole && said != "object" {
            let field = format!("{field}.type");
            errors.push(FieldError::invalid(field, said, "must be object"));
        }
        if level == Level::Root && !restricts_names_only(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata \
                          is implicitly specified";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if flag(schema, "x-kubernetes-embedded-resource")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
        && properties(schema).next().is_none()
    {
        let field = format!("{path}.properties");
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(field, detail));
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    let empty = Map::new();
    let members = metadata.as_object().unwrap_or(&empty);
    let is_name = |name: &String| matches!(name.as_str(), "name" | "generateName");
    members.keys().all(|member| match member.as_str() {
        "type" | "default" => true,
        "properties" => properties(metadata).all(|(name, _)| is_name(name)),
        _ => false,
    })
}

/// Returns the combinations that declare an int-or-string, in which types are allowed.
fn skipped(schema: &Value) -> Skipped {
    let is_pattern = |of: Option<&Value>| {
        let types = of.and_then(Value::as_array).map(|list| {
            let one = |of: &Value| {
                let members = of.as_object().map_or(0, Map::len);
                (members, text(of, &["type"]).to_owned())
            };
            list.iter().map(one).collect::<Vec<_>>()
        });
        types.is_some_and(|types| types == [(1, "integer".to_owned()), (1, "string".to_owned())])
    };
    let first = schema.get("allOf").and_then(|all| all.get(0));
    Skipped {
        any_of: is_pattern(schema.get("anyOf")),
        first_all_of: is_pattern(first.and_then(|first| first.get("anyOf"))),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    any_of: bool,
    first_all_of: bool,
}

/// Iterates over the combinations of a node as `(member, index, schema)`.
fn combined(schema: &Value) -> impl Iterator<Item = (&'static str, Option<usize>, &Value)> {
    let lists = ["anyOf", "allOf", "oneOf"].into_iter().flat_map(|name| {
        let list = schema.get(name).and_then(Value::as_array);
        let parts = list.into_iter().flatten().enumerate();
        parts.map(move |(at, part)| (name, Some(at), part))
    });
    let not = schema.get("not").filter(|not| not.is_object());
    lists.chain(not.map(|not| ("not", None, not)))
}

fn place(path: &str, name: &str, at: Option<usize>) -> String {
    match at {
        Some(at) => format!("{path}.{name}[{at}]"),
        None => format!("{path}.{name}"),
    }
}

fn combinations(schema: &Value, path: &str, skipped: Skipped, found: &mut Found<'_>) {
    for (name, at, part) in combined(schema) {
        if name == "anyOf" && skipped.any_of {
            continue;
        }
        let inner = Skipped {
            any_of: name == "allOf" && at == Some(0) && skipped.first_all_of,
            first_all_of: false,
        };
        nested(part, &place(path, name, at), inner, found);
    }
    let pattern = text(schema, &["pattern"]);
    let too_large = |error: &FieldError| error.to_string().contains(go_regex::TOO_LARGE);
    // BOUND: compiling such a pattern is slow, so only a few are tried.
    let errors = &found.errors;
    let is_enough = errors.len() >= 4 && errors.iter().rev().take(4).all(too_large);
    if pattern.is_empty() || is_enough {
        return;
    }
    found.meter.look();
    if !found.meter.is_spent()
        && let Err(error) = found.patterns.add(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        found.errors.push(FieldError::invalid(
            format!("{path}.pattern"),
            pattern,
            detail,
        ));
    }
}

/// Checks a schema within a combination, which may restrict values but not declare their shape.
fn nested(schema: &Value, path: &str, skipped: Skipped, found: &mut Found<'_>) {
    combinations(schema, path, skipped, found);
    if let Some(items) = items(schema) {
        nested(items, &format!("{path}.items"), Skipped::default(), found);
    }
    for (name, property) in properties(schema) {
        let path = format!("{path}.properties[{name}]");
        nested(property, &path, Skipped::default(), found);
        if name == "metadata" {
            let detail = "must not be specified in a nested context";
            found.errors.push(FieldError::forbidden(path, detail));
        }
    }
    let shaping = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    for (name, detail) in shaping {
        let is_said = match schema.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if is_said {
            found
                .errors
                .push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
}

/// Checks that the fields named by a combination at the root are also declared outside of it. Like
/// upstream, it does not check the combinations of other nodes.
fn complete(
    restriction: &Value,
    shape: &Value,
    (shape_path, path): (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    for (name, at, part) in combined(restriction) {
        complete_nested(part, shape, (shape_path, &place(path, name, at)), errors);
    }
}

fn complete_nested(
    restriction: &Value,
    shape: &Value,
    (shape_path, path): (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    complete(restriction, shape, (shape_path, path), errors);
    let missing = |shape_path: &str, path: &str| {
        FieldError::required(shape_path, format!("because it is defined in {path}"))
    };
    if let Some(restricted) = items(restriction) {
        let (a, b) = (format!("{shape_path}.items"), format!("{path}.items"));
        match items(shape) {
            Some(shape) => complete_nested(restricted, shape, (&a, &b), errors),
            None => errors.push(missing(&a, &b)),
        }
    }
    for (name, restricted) in properties(restriction) {
        let a = format!("{shape_path}.properties[{name}]");
        let b = format!("{path}.properties[{name}]");
        match shape.get("properties").and_then(|of| of.get(name)) {
            Some(shape) => complete_nested(restricted, shape, (&a, &b), errors),
            None => errors.push(missing(&a, &b)),
        }
    }
}
