//! Lists and frames of watches, taken apart into objects.
//!
//! ```text
//! document ──▶ [(create | restore | remove, object)]
//! ```
//!
//! The server's crate tells a list from an object that has items.
//!
//! Upstream counterpart: none for frames of watches.

use kinform_apiserver::flatten_lists;
use serde_json::Value;

use super::Act;

/// Returns whether a document is instructions for kustomize, which no server serves.
pub(super) fn is_kustomization(value: &Value) -> bool {
    let version = value.get("apiVersion").and_then(Value::as_str);
    version.is_some_and(|version| version.starts_with("kustomize.config.k8s.io/"))
}

/// The actions of a document: its object, a list's items, or the object of a watch's frame.
pub(super) fn steps(value: Value) -> Vec<(Act, Value)> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let act = match text("type") {
        "DELETED" => Act::Remove,
        _ => Act::Restore,
    };
    if matches!(text("type"), "ADDED" | "MODIFIED" | "DELETED") && value.get("kind").is_none() {
        let object = value.get("object").cloned().unwrap_or_default();
        return vec![(act, object)];
    }
    if text("type") == "BOOKMARK" && value.get("kind").is_none() {
        return Vec::new();
    }
    let objects = flatten_lists(value).into_iter();
    objects
        .map(|object| match object.pointer("/metadata/uid") {
            Some(Value::String(_)) => (Act::Restore, object),
            _ => (Act::Create, object),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(value: Value, expected: &[&str]) {
        let kinds: Vec<String> = steps(value.clone())
            .into_iter()
            .map(
                |(act, object)| match (act, object["kind"].as_str().unwrap_or("-")) {
                    (Act::Create, kind) => kind.to_owned(),
                    (Act::Restore, kind) => format!("={kind}"),
                    (Act::Remove, kind) => format!("-{kind}"),
                },
            )
            .collect();
        assert_eq!(kinds, expected, "{value}");
    }

    #[test]
    fn lists_are_split_and_objects_with_items_are_not() {
        let items = json!([{"kind": "A"}, null, {"kind": "B"}]);
        check(json!({"kind": "List", "items": items}), &["A", "B"]);
        check(
            json!({"kind": "AList", "items": [{}, {"kind": "B"}]}),
            &["A", "B"],
        );
        check(json!({"kind": "AList", "items": []}), &[]);
        let nested = json!({"kind": "List", "items": [{"kind": "A"}, {"kind": "List", "items": items}, {"kind": "C"}]});
        check(nested, &["A", "A", "B", "C"]);
        check(json!({"kind": "AList", "items": null}), &[]);
        check(json!({"kind": "Playlist", "spec": {}}), &["Playlist"]);
        check(json!({"kind": "Menu", "items": [{}]}), &["Menu"]);
        let guests =
            |metadata: Value| json!({"kind": "GuestList", "metadata": metadata, "items": [{}]});
        check(guests(json!({"name": "wedding"})), &["GuestList"]);
        check(guests(json!({"generateName": "w-"})), &["GuestList"]);
        check(guests(json!({"resourceVersion": "5"})), &["Guest"]);
        check(Value::Null, &[]);
    }

    #[test]
    fn the_objects_of_another_server_are_restored() {
        check(json!({"kind": "A", "metadata": {"uid": "u"}}), &["=A"]);
        check(
            json!({"kind": "AList", "items": [{"metadata": {"uid": "u"}}, {}]}),
            &["=A", "A"],
        );
        for (word, expected) in [
            ("ADDED", &["=A"][..]),
            ("MODIFIED", &["=A"]),
            ("BOOKMARK", &[]),
            ("DELETED", &["-A"]),
        ] {
            check(json!({"type": word, "object": {"kind": "A"}}), expected);
        }
        check(json!({"kind": "Secret", "type": "Opaque"}), &["Secret"]);
        check(json!({"kind": "Event", "type": "ADDED"}), &["Event"]);
    }
}
