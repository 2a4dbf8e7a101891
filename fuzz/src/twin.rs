//! A message and its JSON: both are the same object in every respect.
//!
//! ```text
//! message ──▶ its JSON ──▶ Object::from_json ──▶ key, labels, owners, paths, types: the same
//! ```

use std::collections::BTreeMap;

use kinform_api::FieldPath;
use kinform_core::{Object, Projection, TypedCache};
use serde::Deserialize;
use serde_json::Value;

use crate::head::meta;
use crate::json::is_deep;

/// A type as users have: options, lists, maps, numbers, absent members.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Slim {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Option<Spec>,
    data: Option<BTreeMap<String, String>>,
    binary_data: BTreeMap<String, String>,
    count: Option<i32>,
    immutable: Option<bool>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Vec<BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    replicas: Option<i64>,
    containers: Option<Vec<Container>>,
    template: Option<Box<Value>>,
    paused: bool,
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    args: Option<Vec<String>>,
    ports: Option<Vec<BTreeMap<String, Value>>>,
    resources: Option<BTreeMap<String, Option<BTreeMap<String, Value>>>>,
}

const PATHS: [&str; 8] = [
    "metadata.name",
    "metadata.labels.app",
    "metadata.deletionTimestamp",
    "spec.nodeName",
    "spec.containers[*].ports[0].containerPort",
    "spec.containers[*].resources.limits.cpu",
    "data.k",
    "status.startTime",
];

/// Asserts that the JSON of a message is the same object.
pub fn is_the_same(object: &Object) {
    let json = is_json(object);
    let twin = match Object::from_json(&json, &Projection::new()) {
        Ok(twin) => twin,
        // Lists and maps are levels in JSON, but not in messages.
        Err(_) if is_deep(&json) => return,
        Err(why) => panic!("the JSON is an object: {why}"),
    };
    assert_eq!(twin.key(), object.key());
    assert_eq!(
        (twin.uid(), twin.revision()),
        (object.uid(), object.revision())
    );
    assert_eq!(twin.resource_version(), object.resource_version());
    assert_eq!(twin.is_terminating(), object.is_terminating());
    let sorted = |object: &Object| -> BTreeMap<String, String> {
        let labels = object.labels().chain(object.annotations());
        labels
            .map(|(key, value)| (key.into_owned(), value.into_owned()))
            .collect()
    };
    assert_eq!(sorted(&twin), sorted(object));
    assert_eq!(twin.owner_references(), object.owner_references());
    for path in PATHS {
        let path: FieldPath = path.parse().expect("a path");
        assert_eq!(twin.at(&path), object.at(&path), "{path}");
    }
    let (theirs, ours) = (
        twin.typed::<Slim>(&meta(), TypedCache::Never),
        object.typed::<Slim>(&meta(), TypedCache::Never),
    );
    match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => assert_eq!(theirs, ours),
        (theirs, ours) => assert_eq!(
            theirs.err().map(|error| error.to_string()),
            ours.err().map(|error| error.to_string())
        ),
    }
    // serde_json cannot compare values nested too deeply; they count as different.
    assert!(object.same_content(&twin) || is_deep(&json));
    assert!(object.same_but_version(object));
}

/// Asserts that a message has a JSON, the one that its reader reports; returns it. It may be deeper
/// than most readers of JSON accept.
pub fn is_json(object: &Object) -> Vec<u8> {
    let json = object.to_json(&meta());
    let mut reader = serde_json::Deserializer::from_slice(&json);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader).expect("the JSON of a message is JSON");
    reader.end().expect("nothing stands behind it");
    let typed = object.typed::<Value>(&meta(), TypedCache::Never);
    assert_eq!(*typed.expect("a message is a value"), value);
    json
}
