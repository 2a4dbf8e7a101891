//! Server-side apply: a model of owned leaves, and the record of owners.
//!
//! ```text
//! bytes ──▶ steps of three managers ──▶ PATCH apply, force │ not ──▶ object, managedFields, 409
//!                              └──▶ model: leaf → value, owners ──▶ the same leaves, the same conflicts
//! ```
//!
//! Of each step: the object has the leaves of the model, each manager owns the leaves of its last
//! configuration and no other, every owned path leads to something, and the same step again changes
//! not even the version. Leaves are scalars, entries of a map, items of a list with keys and their
//! members, items of a set, and a list that is one value.
//! Upstream: `sigs.k8s.io/structured-merge-diff`.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, JSON, Once, THINGS};
use crate::shape::Shape;

/// Pieces of inputs: the bytes are choices.
pub const WORDS: &[&[u8]] = &[
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x03",
    b"\x01\x01\x01",
    b"\x02\x03",
    b"\xff",
];

const MEDIA: &str = "application/apply-patch+yaml";
const MANAGERS: [&str; 3] = ["one", "two", "three"];

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Leaves by their paths, such as `items[a].value`.
type Leaves = BTreeMap<String, Value>;

/// The value and the owners of each leaf.
#[derive(Debug, Default)]
struct Model(BTreeMap<String, (Value, BTreeSet<&'static str>)>);

/// Reads the bytes as steps.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| played(server.get(|cluster| cluster.serve_things(&schema())), bytes))
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let items = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"],
            "properties": {"name": text, "value": text, "more": text}}});
    json!({"type": "object", "properties": {
        "text": text, "number": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": text},
        "items": items,
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "whole": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text}}})
}

fn played(cluster: &Cluster, bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let (mut draw, mut model) = (Draw::new(bytes), Model::default());
    let steps = 1 + draw.below(6);
    for _ in 0..steps {
        let (manager, is_forced) = (draw.pick(&MANAGERS), draw.one_in(2));
        let spec = drawn(&mut draw);
        let leaves = leaves(&spec);
        let object = json!({"apiVersion": "fuzz.example.com/v1", "kind": "Thing",
            "metadata": {"name": "a"}, "spec": spec});
        let path = format!("{THINGS}/a?fieldManager={manager}&force={is_forced}");
        let (code, reply) = cluster.ask(Method::PATCH, &path, (MEDIA, &object));
        let conflicts = model.conflicts(manager, &leaves);
        shape.saw((code, manager, is_forced));
        shape.count(leaves.len());
        if !is_forced && !conflicts.is_empty() {
            assert_eq!(code, 409, "{object} against {model:?}: {reply}");
            let causes = reply["details"]["causes"].as_array().map_or(0, Vec::len);
            assert_eq!(causes, conflicts.len(), "{reply} but {conflicts:?}");
            continue;
        }
        assert!(matches!(code, 200 | 201), "{object} on {model:?}: {reply}");
        model.apply(manager, leaves);
        agrees(&model, &reply);
        let (code, again) = cluster.ask(Method::PATCH, &path, (MEDIA, &object));
        assert_eq!((code, &again), (200, &reply), "the same step again");
    }
    cluster.ask(Method::DELETE, &format!("{THINGS}/a"), (JSON, &Value::Null));
    shape
}

impl Model {
    /// Leaves with another value, and their owners.
    fn conflicts(&self, manager: &str, leaves: &Leaves) -> Vec<(String, &'static str)> {
        let mut found = Vec::new();
        for (path, value) in leaves {
            let stored = self.0.get(path).filter(|(before, _)| before != value);
            let owners = stored.into_iter().flat_map(|(_, owners)| owners);
            let others = owners.filter(|owner| **owner != manager);
            found.extend(others.map(|owner| (path.clone(), *owner)));
        }
        found
    }

    fn apply(&mut self, manager: &'static str, leaves: Leaves) {
        for (path, (_, owners)) in &mut self.0 {
            if !leaves.contains_key(path) {
                owners.remove(manager);
            }
        }
        for (path, value) in leaves {
            let (before, owners) = self.0.entry(path).or_default();
            if *before != value {
                *before = value;
                owners.clear();
            }
            owners.insert(manager);
        }
        self.0.retain(|_, (_, owners)| !owners.is_empty());
    }
}

/// A configuration: every map and list in it has something.
fn drawn(draw: &mut Draw<'_>) -> Value {
    let mut spec = Map::new();
    let value = |draw: &mut Draw<'_>| draw.pick(&["x", "y", ""]);
    if draw.one_in(2) {
        spec.insert("text".to_owned(), value(draw).into());
    }
    if draw.one_in(3) {
        spec.insert("number".to_owned(), draw.below(2).into());
    }
    if draw.one_in(2) {
        let length = 1 + draw.below(3);
        let map: Map<String, Value> = (0..length)
            .map(|_| {
                (
                    draw.pick(&["k", "a.b/c", "f:x", ".", "é"]).to_owned(),
                    value(draw).into(),
                )
            })
            .collect();
        spec.insert("map".to_owned(), map.into());
    }
    if draw.one_in(2) {
        let names = some(draw, &["a", "b", "\"q\\", ""]);
        let items = names.into_iter().map(|name| {
            let mut item = json!({"name": name});
            for member in ["value", "more"] {
                if draw.one_in(2) {
                    item[member] = value(draw).into();
                }
            }
            item
        });
        spec.insert("items".to_owned(), items.collect());
    }
    if draw.one_in(3) {
        spec.insert("set".to_owned(), some(draw, &["a", "b", "c"]).into());
    }
    if draw.one_in(3) {
        let length = 1 + draw.below(3);
        spec.insert(
            "whole".to_owned(),
            (0..length).map(|_| value(draw)).collect::<Vec<_>>().into(),
        );
    }
    // Upstream turns a map that loses its last member into null, which a schema then refuses.
    if spec.is_empty() {
        spec.insert("text".to_owned(), "x".into());
    }
    spec.into()
}

/// One or more of these, each once.
fn some<'n>(draw: &mut Draw<'_>, of: &[&'n str]) -> Vec<&'n str> {
    let mut left = of.to_vec();
    let length = 1 + draw.below(of.len());
    (0..length)
        .map(|_| left.remove(draw.below(left.len())))
        .collect()
}

fn leaves(spec: &Value) -> Leaves {
    let mut leaves = Leaves::new();
    for (name, value) in spec.as_object().into_iter().flatten() {
        match (name.as_str(), value) {
            ("map", Value::Object(members)) => {
                leaves.extend(
                    members
                        .iter()
                        .map(|(key, value)| (format!("map.{key}"), value.clone())),
                );
            }
            ("items", Value::Array(items)) => {
                for item in items {
                    let key = item["name"].as_str().unwrap_or_default();
                    for (member, value) in item.as_object().into_iter().flatten() {
                        leaves.insert(format!("items[{key}].{member}"), value.clone());
                    }
                }
            }
            ("set", Value::Array(items)) => {
                leaves.extend(
                    items
                        .iter()
                        .map(|item| (format!("set[{item}]"), item.clone())),
                );
            }
            _ => _ = leaves.insert(name.clone(), value.clone()),
        }
    }
    leaves
}

/// Asserts that an object and its record of owners are those of the model.
fn agrees(model: &Model, object: &Value) {
    let expected: Leaves = model
        .0
        .iter()
        .map(|(path, (value, _))| (path.clone(), value.clone()))
        .collect();
    assert_eq!(leaves(&object["spec"]), expected, "{object}");
    let mut owned: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for entry in object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
    {
        assert_eq!(
            (&entry["operation"], &entry["fieldsType"]),
            (&json!("Apply"), &json!("FieldsV1"))
        );
        let manager = entry["manager"].as_str().expect("a manager");
        let paths = owned.entry(manager).or_default();
        let fields = &entry["fieldsV1"];
        if let Some(spec) = fields.get("f:spec") {
            owned_leaves(spec, &object["spec"], paths);
        }
    }
    for manager in MANAGERS {
        let of_model: BTreeSet<String> = model
            .0
            .iter()
            .filter(|(_, (_, owners))| owners.contains(manager))
            .map(|(path, _)| path.clone())
            .collect();
        assert_eq!(
            owned.remove(manager).unwrap_or_default(),
            of_model,
            "{manager} of {object}"
        );
    }
    assert!(owned.is_empty(), "{owned:?}");
}

/// Leaves that a record names; each must lead to something.
fn owned_leaves(fields: &Value, spec: &Value, paths: &mut BTreeSet<String>) {
    for (name, inner) in fields.as_object().into_iter().flatten() {
        let Some(name) = name.strip_prefix("f:") else {
            continue;
        };
        let value = spec
            .get(name)
            .unwrap_or_else(|| panic!("{name} is owned, and not there"));
        for (key, members) in inner.as_object().into_iter().flatten() {
            match (name, key.split_once(':')) {
                ("map", Some(("f", key))) => {
                    assert!(value.get(key).is_some(), "map.{key}");
                    paths.insert(format!("map.{key}"));
                }
                ("set", Some(("v", item))) => {
                    let item: Value = serde_json::from_str(item).expect("a value");
                    assert!(
                        value.as_array().is_some_and(|it| it.contains(&item)),
                        "set[{item}]"
                    );
                    paths.insert(format!("set[{item}]"));
                }
                ("items", Some(("k", keys))) => {
                    let keys: Value = serde_json::from_str(keys).expect("keys");
                    let is_it = |item: &&Value| item["name"] == keys["name"];
                    let item = value
                        .as_array()
                        .and_then(|it| it.iter().find(is_it))
                        .expect("the item");
                    let key = keys["name"].as_str().expect("a name");
                    for member in members.as_object().into_iter().flatten().map(|it| it.0) {
                        if let Some(member) = member.strip_prefix("f:") {
                            assert!(item.get(member).is_some(), "items[{key}].{member}");
                            paths.insert(format!("items[{key}].{member}"));
                        }
                    }
                }
                (_, None) => {}
                (name, _) => panic!("{name} has {key}"),
            }
        }
        if inner.as_object().is_some_and(Map::is_empty) {
            paths.insert(name.to_owned());
        }
    }
}
