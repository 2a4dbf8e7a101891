//! Patches of built-ins, as upstream's tables have them.
//!
//! ```text
//! kind, original, patch -> merged, or [code, message]
//! ```

use serde_json::json;

use super::*;

fn check_kind(kind: (&str, &str, &str), original: Value, patch: Value, expected: Value) {
    let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
    let (Value::Object(mut original), Value::Object(patch)) = (original, patch) else {
        panic!("objects are merged")
    };
    let shown = format!("{patch:?}");
    let merged = merge(of, &mut original, patch);
    let merged = merged.map(|()| Value::Object(original));
    match merged {
        Ok(value) => assert_eq!(value, expected, "{shown}"),
        Err(status) => assert_eq!(json!([status.code, status.message]), expected, "{shown}"),
    }
}

fn check(original: Value, patch: Value, expected: Value) {
    check_kind(("", "v1", "Pod"), original, patch, expected);
}

fn containers(names: &[&str]) -> Value {
    let items = names.iter().map(|name| json!({"name": name, "image": "i"}));
    json!({"spec": {"containers": items.collect::<Vec<_>>()}})
}

#[test]
fn maps_are_merged_and_null_deletes() {
    let labels = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
    check(
        labels.clone(),
        json!({"metadata": {"labels": {"a": null, "c": "3", "d": null}, "annotations": {"x": "y", "n": null}}}),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}, "annotations": {"x": "y"}}}),
    );
    check(
        labels.clone(),
        json!({"metadata": {"labels": {"$patch": "replace", "z": "1"}}}),
        json!({"metadata": {"labels": {"z": "1"}}}),
    );
    check(
        labels.clone(),
        json!({"metadata": {"labels": {"$patch": "delete"}}}),
        json!({"metadata": {"labels": {}}}),
    );
    check(
        labels,
        json!({"metadata": {"labels": {"$patch": "what"}}}),
        json!([500, "unknown patch type: what in map"]),
    );
}

#[test]
fn lists_of_objects_are_merged_by_their_key() {
    check(
        containers(&["a", "b"]),
        json!({"spec": {"containers": [{"name": "b", "image": "j"}, {"name": "c", "image": "k"}]}}),
        json!({"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "j"},
            {"name": "c", "image": "k"}]}}),
    );
    check(
        containers(&["a", "b"]),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
        containers(&["b"]),
    );
    check(
        containers(&["a", "b"]),
        json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c", "image": "i"}]}}),
        containers(&["c"]),
    );
    check(
        containers(&["a"]),
        json!({"spec": {"containers": [{"image": "j"}]}}),
        json!([500, "map: map[] does not contain declared merge key: name"]),
    );
    check(
        containers(&["a"]),
        json!({"spec": {"containers": ["a"]}}),
        json!([500, "list element types are not identical"]),
    );
    // Ports are merged by a number.
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    check_kind(
        ("", "v1", "Service"),
        ports(json!([{"port": 80, "name": "x"}, {"port": 81}])),
        ports(json!([{"port": 81, "name": "y"}])),
        ports(json!([{"port": 80, "name": "x"}, {"port": 81, "name": "y"}])),
    );
    // Nested: the environment of one container.
    check(
        json!({"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}], "args": ["1"]}]}}),
        json!({"spec": {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["2"]}]}}),
        json!({"spec": {"containers": [{"name": "a", "args": ["2"],
            "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]}}),
    );
}

#[test]
fn the_order_that_a_patch_tells_is_made() {
    let order = |names: &[&str], items: Value| {
        let order: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"$setElementOrder/containers": order, "containers": items}})
    };
    check(
        containers(&["a", "b", "c"]),
        order(&["c", "a"], json!(null)),
        containers(&["b", "c", "a"]),
    );
    check(
        containers(&["a", "b"]),
        order(&["c", "a", "b"], json!([{"name": "c", "image": "i"}])),
        containers(&["c", "a", "b"]),
    );
    check(
        containers(&["a", "b"]),
        order(&["b"], json!([{"name": "a", "$patch": "delete"}])),
        containers(&["b"]),
    );
    check(
        json!({}),
        json!({"spec": {"containers": []}}),
        json!({"spec": {"containers": []}}),
    );
    check(
        containers(&["a", "b"]),
        order(&["a", "b"], json!([{"name": "b"}, {"name": "a"}])),
        json!([
            500,
            "The order in patch list doesn't match $setElementOrder list"
        ]),
    );
    check(
        containers(&["a"]),
        json!({"spec": {"$setElementOrder/containers": 1}}),
        json!([400, "invalid patch format of setElementOrder list"]),
    );
}

#[test]
fn scalars_join_and_leave_a_list_and_keys_are_retained() {
    let finalizers = |names: &[&str]| json!({"metadata": {"finalizers": names}});
    check(
        finalizers(&["a", "b"]),
        finalizers(&["b", "c"]),
        finalizers(&["a", "b", "c"]),
    );
    check(
        finalizers(&["a", "b"]),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}),
        finalizers(&["b"]),
    );
    let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
    let deployment = ("apps", "v1", "Deployment");
    let rolling = strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}));
    check_kind(
        deployment,
        rolling.clone(),
        strategy(json!({"$retainKeys": ["type"], "type": "Recreate"})),
        strategy(json!({"type": "Recreate"})),
    );
    check_kind(
        deployment,
        rolling.clone(),
        strategy(json!({"$retainKeys": ["type"], "rollingUpdate": {"maxSurge": 2}})),
        json!([400, "invalid patch format of retainKeys"]),
    );
    check_kind(
        deployment,
        rolling,
        strategy(json!({"$retainKeys": "type"})),
        json!([400, "invalid patch format of retainKeys"]),
    );
    // No release has a taint's key as its merge key: the list is replaced.
    check_kind(
        ("", "v1", "Node"),
        json!({"spec": {"taints": [{"key": "a"}], "podCIDRs": ["1"]}}),
        json!({"spec": {"taints": [{"key": "b"}], "podCIDRs": ["2"]}}),
        json!({"spec": {"taints": [{"key": "b"}], "podCIDRs": ["2", "1"]}}),
    );
}

#[test]
fn what_is_new_keeps_no_directives() {
    check(
        json!({}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "$retainKeys": ["containers"],
            "containers": [{"name": "a", "tty": null}, {"name": "b", "$patch": "delete"}]}}),
        json!({"spec": {"containers": [{"name": "a"}]}}),
    );
}

#[test]
fn large_lists_are_merged_in_little_time() {
    let many = |from: usize| -> Vec<Value> {
        (from..from + 20_000)
            .map(|at| Value::from(format!("f/{at}")))
            .collect()
    };
    let of = kinform_schema::builtin("", "v1", "Pod").unwrap();
    let mut original = json!({"metadata": {"finalizers": many(0)}});
    let patch = json!({"metadata": {"finalizers": many(10_000),
        "$setElementOrder/finalizers": many(10_000)}});
    let Value::Object(patch) = patch else {
        unreachable!()
    };
    merge(of, original.as_object_mut().unwrap(), patch).unwrap();
    assert_eq!(
        original["metadata"]["finalizers"].as_array().unwrap().len(),
        30_000
    );
}
