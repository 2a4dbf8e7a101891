//! Every recorded JSON object of a built-in kind has only fields that the table knows.

use std::io::Read as _;

use kinform_schema::{Container, Field, FieldType, Type, builtin};
use serde_json::Value;

/// The JSON bodies of one recorded folder, with their file names.
fn bodies(folder: &str) -> Vec<(String, Value)> {
    let path = format!(
        "{}/../../testdata/golden/{folder}.jsonl.gz",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let exchange = |line| serde_json::from_str::<Value>(line).unwrap();
    let body = |exchange: Value| {
        let body = serde_json::from_str(exchange["body"].as_str()?).ok()?;
        Some((exchange["file"].as_str()?.to_owned(), body))
    };
    text.lines().map(exchange).filter_map(body).collect()
}

/// Collects the paths of `value` that `of` does not have.
fn unknown(of: &'static Type, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        if !value.is_null() {
            found.push(format!("{path}: no object"));
        }
        return;
    };
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match of.field(name) {
            Some(field) => field_values(field, value, &path, found),
            None if of.is_kind() && matches!(name.as_str(), "apiVersion" | "kind") => {}
            None => found.push(path),
        }
    }
}

fn field_values(field: &Field, value: &Value, path: &str, found: &mut Vec<String>) {
    match (field.container(), value) {
        (_, Value::Null) => {}
        (Container::Single, value) => one(field, value, path, found),
        (Container::List, Value::Array(items)) => {
            items.iter().for_each(|item| one(field, item, path, found));
        }
        (Container::Map, Value::Object(entries)) => {
            entries
                .values()
                .for_each(|entry| one(field, entry, path, found));
        }
        _ => found.push(format!("{path}: not the container of the table")),
    }
}

fn one(field: &Field, value: &Value, path: &str, found: &mut Vec<String>) {
    let fits = match field.field_type() {
        FieldType::Message(message) => return unknown(message, value, path, found),
        FieldType::String
        | FieldType::Bytes
        | FieldType::Time
        | FieldType::MicroTime
        | FieldType::Duration
        | FieldType::Quantity => value.is_string(),
        FieldType::Bool => value.is_boolean(),
        FieldType::Int32 | FieldType::Int64 => value.is_i64(),
        FieldType::Double => value.is_number(),
        FieldType::Strings => value.is_array(),
        FieldType::IntOrString => value.is_string() || value.is_i64(),
        _ => true,
    };
    if !fits {
        found.push(format!("{path}: {value} is not {:?}", field.field_type()));
    }
}

#[test]
fn every_recorded_built_in_object_has_only_known_fields_of_known_types() {
    let (mut objects, mut found) = (0, Vec::new());
    for folder in ["list", "get", "kinds", "write", "error"] {
        for (file, body) in bodies(folder) {
            let api_version = body["apiVersion"].as_str().unwrap_or_default();
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let Some(of) = builtin(group, version, body["kind"].as_str().unwrap_or_default())
            else {
                continue;
            };
            objects += body["items"].as_array().map_or(1, Vec::len);
            unknown(of, &body, &file, &mut found);
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(objects > 1000, "only {objects} objects were checked");
}
