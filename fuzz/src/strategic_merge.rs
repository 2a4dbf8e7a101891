//! Strategic merge patches of Deployments: an evaluator with the merge keys of a page.
//!
//! ```text
//! bytes ──▶ (Deployment, patch) ──▶ PUT, PATCH ──▶ the merged one; again ──▶ no change; {} ──▶ no change
//!                          └──▶ evaluator ──▶ the same, lists compared by their keys
//! ```
//!
//! Input is a patch in JSON, which must then only be answered and not change a second time what it
//! changed once, or is drawn: then each part of the result is predicted. Directives are drawn, too:
//! `$patch`, `$retainKeys`, `$deleteFromPrimitiveList`, `$setElementOrder`.
//! Upstream: `apimachinery:pkg/util/strategicpatch`, whose tests assert the same of `{}`.

use http::Method;
use serde_json::{Map, Value, json};

use crate::draw::Draw;
use crate::in_process::{Cluster, JSON, Once};
use crate::shape::Shape;

/// Pieces of patches.
pub const WORDS: &[&[u8]] = &[
    b"{\"spec\":{\"template\":{\"spec\":{\"containers\":[",
    b"\"name\":\"a\"",
    b"\"image\":\"i\"",
    b"\"$patch\":\"delete\"",
    b"\"$patch\":\"replace\"",
    b"\"$patch\":\"merge\"",
    b"\"$retainKeys\":[",
    b"\"$deleteFromPrimitiveList/finalizers\":[\"e.com/a\"]",
    b"\"$setElementOrder/containers\":[",
    b"\"metadata\":{\"labels\":{",
    b"\"env\":[",
    b"\"volumes\":[",
    b"\"tolerations\":[",
    b"null",
    b"{",
    b"}",
    b",",
    b"[",
    b"]",
    b"\"ports\":[{\"containerPort\":80}]",
    b"\"strategy\":{\"$retainKeys\":[\"type\"]",
];

const MEDIA: &str = "application/strategic-merge-patch+json";
const PATH: &str = "/apis/apps/v1/namespaces/default/deployments";

thread_local! {
    static SERVER: Once = const { Once::new() };
}

/// Reads the bytes as a patch.
pub fn run(bytes: &[u8]) -> Shape {
    SERVER.with(|server| {
        let cluster = server.get(|cluster| {
            cluster.create(PATH, &deployment(&mut Draw::new(&[])));
        });
        match serde_json::from_slice::<Value>(bytes) {
            Ok(patch) => of_text(cluster, &patch),
            Err(_) => drawn(cluster, &mut Draw::new(bytes)),
        }
    })
}

fn patch(cluster: &Cluster, patch: &Value) -> (u16, Value) {
    cluster.ask(Method::PATCH, &format!("{PATH}/a"), (MEDIA, patch))
}

fn lay(cluster: &Cluster, deployment: &Value) -> Value {
    let (code, reply) = cluster.ask(Method::PUT, &format!("{PATH}/a"), (JSON, deployment));
    assert_eq!(code, 200, "{reply}");
    let (code, same) = patch(cluster, &json!({}));
    assert_eq!((code, &same), (200, &reply), "an empty patch");
    reply
}

fn of_text(cluster: &Cluster, body: &Value) -> Shape {
    let mut shape = Shape::default();
    let mut draw = Draw::new(&[1, 2, 0, 3, 1, 2, 1, 2, 1, 1, 2, 3, 1, 2, 3, 1, 1, 1, 1]);
    lay(cluster, &deployment(&mut draw));
    let (code, once) = patch(cluster, body);
    shape.saw(code);
    let message = once["message"].as_str().unwrap_or_default();
    shape.text(message);
    shape.form(&body.to_string());
    // Upstream has no code for patches that contradict themselves or their type.
    assert!(
        matches!(code, 200 | 400 | 404 | 409 | 422 | 500),
        "{code} {once}"
    );
    assert!(code != 500 || !message.contains("panic"), "{once}");
    if code == 200 && !has_repeats(body) {
        let (code, twice) = patch(cluster, body);
        // A version or a uid in the patch is compared with the object's.
        if code == 200 {
            assert_eq!(content(&twice), content(&once), "{body}, twice");
        }
    }
    // The object is put back for the next input, whatever this one did to it.
    cluster.ask(
        Method::DELETE,
        &format!("{PATH}/a?gracePeriodSeconds=0"),
        (JSON, &Value::Null),
    );
    let finalizers = json!({"metadata": {"finalizers": null}});
    cluster.ask(
        Method::PATCH,
        &format!("{PATH}/a"),
        ("application/merge-patch+json", &finalizers),
    );
    cluster.create(PATH, &deployment(&mut Draw::new(&[])));
    shape
}

/// Returns whether a list has an item twice: its second application finds another list.
fn has_repeats(value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            let key = |item: &Value| match item.as_object() {
                Some(members) => ["name", "containerPort", "mountPath", "key"]
                    .iter()
                    .find_map(|key| members.get(*key).map(Value::to_string))
                    .unwrap_or_default(),
                None => item.to_string(),
            };
            let mut keys: Vec<String> = items.iter().map(key).collect();
            keys.sort_unstable();
            let length = keys.len();
            keys.dedup();
            keys.len() < length || items.iter().any(has_repeats)
        }
        Value::Object(members) => members.values().any(has_repeats),
        _ => false,
    }
}

/// An object without what each write changes.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for name in ["resourceVersion", "generation", "managedFields"] {
            metadata.remove(name);
        }
    }
    object
}

fn drawn(cluster: &Cluster, draw: &mut Draw<'_>) -> Shape {
    let mut shape = Shape::default();
    let before = lay(cluster, &deployment(draw));
    let body = drawn_patch(draw, &before);
    let mut expected = before.clone();
    merge_map(&mut expected, &body);
    let (code, once) = patch(cluster, &body);
    shape.saw(code);
    shape.form(&body.to_string());
    let template = "/spec/template/spec";
    let containers = expected
        .pointer(&format!("{template}/containers"))
        .and_then(Value::as_array);
    let is_valid =
        containers.is_some_and(|it| !it.is_empty() && it.iter().all(|it| it["image"].is_string()));
    if !is_valid {
        assert_eq!(code, 422, "{body} of {before}: {once}");
        return shape;
    }
    assert_eq!(code, 200, "{body} of {before}: {once}");
    for pointer in [
        "/metadata/labels",
        "/metadata/finalizers",
        "/spec/template/spec/nodeSelector",
        "/spec/template/spec/tolerations",
        "/spec/template/spec/imagePullSecrets",
        "/spec/template/spec/volumes",
        "/spec/template/spec/containers",
    ] {
        let (found, expected) = (
            plain(once.pointer(pointer)),
            plain(expected.pointer(pointer)),
        );
        assert_eq!(found, expected, "{pointer} of {body} on {before}");
    }
    let (code, twice) = patch(cluster, &body);
    assert_eq!(code, 200, "{twice}");
    assert_eq!(content(&twice), content(&once), "{body}, twice");
    shape
}

/// A value without an order of lists, defaults and empty members.
fn plain(value: Option<&Value>) -> Value {
    match value {
        Some(Value::Array(items)) => {
            let mut items: Vec<Value> = items.iter().map(|item| plain(Some(item))).collect();
            items.sort_by_key(Value::to_string);
            match items.is_empty() {
                true => Value::Null,
                false => Value::Array(items),
            }
        }
        Some(Value::Object(members)) => {
            const DEFAULTS: [&str; 5] = [
                "imagePullPolicy",
                "terminationMessagePath",
                "terminationMessagePolicy",
                "resources",
                "protocol",
            ];
            let kept = members
                .iter()
                .filter(|(name, _)| !DEFAULTS.contains(&name.as_str()));
            let kept = kept.map(|(name, value)| (name.clone(), plain(Some(value))));
            let kept: Map<String, Value> = kept.filter(|(_, value)| !value.is_null()).collect();
            match kept.is_empty() {
                true => Value::Null,
                false => Value::Object(kept),
            }
        }
        Some(value) => value.clone(),
        None => Value::Null,
    }
}

/// A Deployment with some of the lists that are merged; of no bytes, the smallest one.
fn deployment(draw: &mut Draw<'_>) -> Value {
    let containers: Vec<Value> = names(draw, &["a", "b", "c"], 1)
        .into_iter()
        .map(|name| {
            let mut container = container(draw, name);
            container["image"] = "i".into();
            container
        })
        .collect();
    let mut spec = json!({"containers": containers});
    parts(draw, &mut spec, Flavour::Object);
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "labels": texts(draw, Flavour::Object), "finalizers": finalizers(draw)},
        "spec": {"selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": spec}}})
}

/// The use of a map that is drawn: nulls and directives are a patch's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flavour {
    Object,
    Patch,
}

/// At least a number of the names, each once.
fn names<'n>(draw: &mut Draw<'_>, of: &[&'n str], least: usize) -> Vec<&'n str> {
    let mut left = of.to_vec();
    let length = least + draw.below(left.len() + 1 - least);
    (0..length)
        .map(|_| left.remove(draw.below(left.len())))
        .collect()
}

fn container(draw: &mut Draw<'_>, name: &str) -> Value {
    let mut container = json!({"name": name});
    if draw.one_in(2) {
        container["env"] = names(draw, &["X", "Y", "Z"], 0)
            .into_iter()
            .map(|name| json!({"name": name, "value": draw.pick(&["1", "2"])}))
            .collect();
    }
    if draw.one_in(3) {
        container["args"] = names(draw, &["-a", "-b"], 0).into();
    }
    if draw.one_in(3) {
        let ports = names(draw, &["80", "81"], 1).into_iter();
        let ports = ports.filter_map(|port| port.parse::<u16>().ok());
        container["ports"] = ports.map(|port| json!({"containerPort": port, "name": format!("{}{port}", draw.pick(&["p", "q"]))})).take(1).collect();
    }
    container
}

fn texts(draw: &mut Draw<'_>, flavour: Flavour) -> Value {
    let members = names(draw, &["k", "l", "m"], 0).into_iter().map(|name| {
        let value = match flavour == Flavour::Patch && draw.one_in(3) {
            true => Value::Null,
            false => draw.pick(&["x", "y"]).into(),
        };
        (name.to_owned(), value)
    });
    Value::Object(members.collect())
}

fn finalizers(draw: &mut Draw<'_>) -> Value {
    names(draw, &["e.com/a", "e.com/b", "e.com/c"], 0).into()
}

/// Other lists and maps of a pod.
fn parts(draw: &mut Draw<'_>, spec: &mut Value, flavour: Flavour) {
    if draw.one_in(2) {
        spec["nodeSelector"] = texts(draw, flavour);
    }
    if draw.one_in(3) {
        let tolerations = names(draw, &["t", "u"], 0).into_iter();
        spec["tolerations"] = tolerations
            .map(|key| json!({"key": key, "operator": "Exists"}))
            .collect();
    }
    if draw.one_in(3) {
        let secrets = names(draw, &["s", "t"], 0).into_iter();
        spec["imagePullSecrets"] = secrets.map(|name| json!({"name": name})).collect();
    }
    if draw.one_in(3) {
        let volumes = names(draw, &["v", "w"], 0).into_iter();
        let volumes = volumes.map(|name| match (flavour, draw.below(2)) {
            (Flavour::Object, 0) => json!({"name": name, "emptyDir": {}}),
            (Flavour::Object, _) => json!({"name": name, "hostPath": {"path": "/p", "type": ""}}),
            // Without the directive, a volume of two sources may come out.
            (Flavour::Patch, _) => json!({"name": name, "$retainKeys": ["name", "emptyDir"],
                "emptyDir": {"medium": "Memory"}}),
        });
        spec["volumes"] = volumes.collect();
    }
}

fn drawn_patch(draw: &mut Draw<'_>, before: &Value) -> Value {
    let there = before
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    let there = there.map_or(0, Vec::len);
    let mut items = names(draw, &["a", "b", "c", "d"], 0);
    items.truncate(3);
    let containers: Vec<Value> = items
        .iter()
        .map(|name| match draw.below(6) {
            1 if there > 1 => json!({"name": name, "$patch": "delete"}),
            _ => {
                let mut container = container(draw, name);
                container["image"] = draw.pick(&["i", "j"]).into();
                container
            }
        })
        .collect();
    let mut spec = json!({});
    if !containers.is_empty() {
        if draw.one_in(4) {
            let order = containers.iter().filter(|it| it.get("$patch").is_none());
            spec["$setElementOrder/containers"] =
                order.map(|it| json!({"name": it["name"]})).collect();
        }
        spec["containers"] = containers.into();
    }
    parts(draw, &mut spec, Flavour::Patch);
    if let Some(selector) = spec.get_mut("nodeSelector").filter(|_| draw.one_in(4)) {
        selector["$patch"] = "replace".into();
        if let Some(members) = selector.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
    }
    let mut metadata = json!({"labels": texts(draw, Flavour::Patch)});
    if draw.one_in(3) {
        let gone = finalizers(draw);
        metadata["$deleteFromPrimitiveList/finalizers"] = gone;
    } else if draw.one_in(2) {
        metadata["finalizers"] = finalizers(draw);
    }
    json!({"metadata": metadata, "spec": {"template": {"spec": spec}}})
}

/// The key by which items of a list are merged: `Some(None)` for scalars, `None` for lists that are
/// replaced.
fn merge_key(list: &str) -> Option<Option<&'static str>> {
    match list {
        "containers" | "env" | "imagePullSecrets" | "volumes" => Some(Some("name")),
        "ports" => Some(Some("containerPort")),
        "finalizers" => Some(None),
        _ => None,
    }
}

fn merge_map(target: &mut Value, patch: &Value) {
    let (Value::Object(target), Value::Object(patch)) = (target, patch) else {
        return;
    };
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *target = patch.clone();
            target.remove("$patch");
            return;
        }
        Some(_) => return target.clear(),
        None => {}
    }
    if let Some(Value::Array(keys)) = patch.get("$retainKeys") {
        target.retain(|name, _| keys.iter().any(|key| key == name.as_str()));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().cloned().unwrap_or_default();
            if let Some(Value::Array(items)) = target.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            continue;
        }
        match (target.get_mut(name), value) {
            (_, Value::Null) => _ = target.remove(name),
            (Some(before @ Value::Object(_)), Value::Object(_)) => merge_map(before, value),
            (Some(Value::Array(before)), Value::Array(after)) if merge_key(name).is_some() => {
                merge_list(before, after, merge_key(name).flatten());
            }
            (_, value) => _ = target.insert(name.clone(), clean(value)),
        }
    }
}

fn merge_list(before: &mut Vec<Value>, after: &[Value], key: Option<&str>) {
    for item in after {
        let is_same = |other: &Value| match key {
            Some(key) => other[key] == item[key],
            None => other == item,
        };
        let at = before.iter().position(is_same);
        match (at, item.get("$patch")) {
            (Some(at), Some(_)) => _ = before.remove(at),
            (None, Some(_)) => {}
            (Some(at), None) => merge_map(&mut before[at], item),
            (None, None) => before.push(clean(item)),
        }
    }
}

/// A value that was not there before: without nulls, directives and items to delete.
fn clean(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter(|(name, value)| !value.is_null() && !name.starts_with('$'));
            Value::Object(
                kept.map(|(name, value)| (name.clone(), clean(value)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let kept = items.iter().filter(|item| item.get("$patch").is_none());
            Value::Array(kept.map(clean).collect())
        }
        value => value.clone(),
    }
}
