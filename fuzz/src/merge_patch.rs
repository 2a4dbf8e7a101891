//! Merge patches: the server's result is that of an evaluator of ten lines.
//!
//! ```text
//! bytes ──▶ (spec, patch) ──▶ PUT, PATCH dryRun ──▶ spec │ 422
//!                    └──▶ evaluator of RFC 7386 ──▶ the same
//! ```
//!
//! Input is `{"spec": {..}, "patch": ..}`, or drawn from the bytes.
//! Upstream: `gopkg.in/evanphx/json-patch.v4` (`MergePatch`).

use http::Method;
use serde_json::{Map, Value, json};

use crate::draw::{Draw, is_exact};
use crate::in_process::{Cluster, Once, THINGS, anything};
use crate::json_patch::{depth, lay};
use crate::shape::Shape;

/// Pieces of patches.
pub const WORDS: &[&[u8]] = &[
    b"\"spec\":",
    b"\"patch\":",
    b"null",
    b"{}",
    b"[]",
    b"\"a\":",
    b"\"b\":{",
    b"\"list\":[",
    b"{",
    b"}",
    b",",
    b"[",
    b"]",
    b"1",
    b"\"x\"",
    b"true",
    b":null",
];

const MEDIA: &str = "application/merge-patch+json";

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as an object and a patch.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| cluster.serve_things(&anything()));
        merged(cluster, bytes)
    })
}

fn merged(cluster: &Cluster, bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    let (spec, patch) = written(bytes).unwrap_or_else(|| {
        let mut draw = Draw::new(bytes);
        (Value::Object(draw.members(4)), draw.json(4))
    });
    let before = lay(cluster, &spec);
    let path = format!("{THINGS}/a?dryRun=All");
    let body = json!({"spec": patch});
    let (code, reply) = cluster.ask(Method::PATCH, &path, (MEDIA, &body));
    let mut expected = before.clone();
    merge(&mut expected, &body);
    shape.saw((code, patch.is_object()));
    shape.text(reply["message"].as_str().unwrap_or_default());
    shape.text(&skeleton(&patch, 3));
    shape.text(&skeleton(&spec, 2));
    shape.count(changes(&before["spec"], &reply["spec"]));
    match expected.get("spec") {
        None | Some(Value::Object(_)) => {
            assert_eq!(code, 200, "{patch} of {spec}: {reply}");
            assert_eq!(reply["spec"], expected["spec"], "{patch} of {spec}");
            // A second application changes nothing.
            merge(&mut expected, &body);
            assert_eq!(reply["spec"], expected["spec"], "{patch} of {spec}, twice");
        }
        Some(_) => assert_eq!(code, 422, "{patch} of {spec}: {reply}"),
    }
    shape
}

fn written(bytes: &[u8]) -> Option<(Value, Value)> {
    let text: Value = serde_json::from_slice(bytes).ok().filter(is_exact)?;
    let (spec, patch) = (text.get("spec")?, text.get("patch")?);
    let is_usual = spec.is_object() && depth(spec) < 60 && depth(patch) < 60;
    is_usual.then(|| (spec.clone(), patch.clone()))
}

/// RFC 7386, section 2.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let mut members = target.as_object().cloned().unwrap_or_else(Map::new);
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            let mut merged = members.remove(name).unwrap_or_default();
            merge(&mut merged, value);
            members.insert(name.clone(), merged);
        }
    }
    *target = Value::Object(members);
}

/// The kinds of a value's parts.
fn skeleton(value: &Value, depth: usize) -> String {
    match value {
        Value::Object(members) if depth > 0 => {
            let parts = members.values().take(4);
            let parts: String = parts.map(|it| skeleton(it, depth - 1)).collect();
            format!("{{{parts}}}")
        }
        Value::Object(_) => "o".to_owned(),
        Value::Array(_) => "l".to_owned(),
        Value::Null => "0".to_owned(),
        _ => "s".to_owned(),
    }
}

/// The number of members that differ.
fn changes(before: &Value, after: &Value) -> usize {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let gone = before
                .keys()
                .filter(|name| !after.contains_key(*name))
                .count();
            let lacks = Value::Null;
            let members = after
                .iter()
                .map(|(name, value)| changes(before.get(name).unwrap_or(&lacks), value));
            gone + members.sum::<usize>()
        }
        (before, after) => usize::from(before != after),
    }
}
