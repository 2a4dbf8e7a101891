//! Patches of each type.
//!
//! ```text
//! PATCH object, Content-Type ──▶ 200 | refusal
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/endpoints/handlers/patch.go`,
//! `apimachinery:pkg/util/strategicpatch`, `kubernetes:test/e2e/apimachinery/apply.go`.

use serde_json::{Value, json};

use super::probe::{Failure, Probe, holds, same, version};
use super::{Row, refusals, rows};

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) const REFUSALS: &[Row] = refusals![
    a_patch_that_is_not_json_is_refused: "Test4xxStatusCodeInvalidPatch";
        "PATCH" "/api/v1/namespaces/default" "application/merge-patch+json" "{" => 400 "BadRequest" "",
    a_list_of_operations_that_is_none_is_refused: "Test4xxStatusCodeInvalidPatch";
        "PATCH" "/api/v1/namespaces/default" "application/json-patch+json" "{}" => 400 "BadRequest" "",
    a_merge_of_a_wrong_type_is_refused: "Test4xxStatusCodeInvalidPatch";
        "PATCH" "/api/v1/namespaces/default" "application/merge-patch+json" r#"{"metadata":{"labels":[1]}}"# => 422 "Invalid" "",
    an_apply_without_a_manager_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "PATCH" "~/configmaps/x" "application/apply-patch+yaml" r#"{"apiVersion":"v1","kind":"ConfigMap"}"# => 422 "Invalid" "fieldManager",
    force_on_another_type_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "PATCH" "/api/v1/namespaces/default?force=true" "application/merge-patch+json" "{}" => 422 "Invalid" "force",
    a_manager_with_a_strange_name_is_refused: "apimachinery:pkg/apis/meta/v1/validation";
        "PATCH" "/api/v1/namespaces/default?fieldManager=a%0Ab" "application/merge-patch+json" "{}" => 422 "Invalid" "fieldManager",
];

pub(super) const ROWS: &[Row] = rows![
    a_merge_sets_and_removes: "RFC 7396",
    a_merge_replaces_lists: "RFC 7396",
    operations_are_done_in_their_order: "RFC 6902",
    a_failed_test_is_refused: "apiserver:pkg/endpoints/handlers/patch.go",
    an_operation_on_nothing_is_refused: "apiserver:pkg/endpoints/handlers/patch.go",
    a_strategic_merge_merges_lists_by_their_key: "apimachinery:pkg/util/strategicpatch",
    a_strategic_merge_deletes_by_directive: "apimachinery:pkg/util/strategicpatch",
    a_strategic_merge_orders_by_directive: "apimachinery:pkg/util/strategicpatch",
    a_strategic_merge_replaces_by_directive: "apimachinery:pkg/util/strategicpatch",
    a_strategic_merge_retains_keys: "apimachinery:pkg/util/strategicpatch",
    finalizers_are_merged_as_a_set: "apimachinery:pkg/util/strategicpatch",
    a_patch_with_an_old_version_is_a_conflict: "apiserver:pkg/endpoints/handlers/patch.go",
    a_patch_cannot_change_the_name: "apiserver:pkg/endpoints/handlers/patch.go",
    a_patch_cannot_change_the_uid: "apiserver:pkg/endpoints/handlers/patch.go",
    a_patch_that_changes_nothing_writes_nothing: "TestNoOpUpdates",
    a_patch_of_the_status_leaves_the_rest: "apiserver:pkg/registry/generic/registry",
    a_dry_run_of_a_patch_writes_nothing: "apiserver:pkg/registry/generic/registry",
    an_apply_creates: "test/integration/apiserver/apply",
    an_apply_owns_what_it_sets: "test/integration/apiserver/apply",
    an_apply_of_anothers_field_is_a_conflict: "test/integration/apiserver/apply",
    a_forced_apply_takes_the_field: "test/integration/apiserver/apply",
    an_apply_removes_what_it_no_longer_sets: "test/integration/apiserver/apply",
    an_apply_keeps_what_others_own: "test/integration/apiserver/apply",
];

async fn patch(p: &Probe, media: &str, path: &str, body: &Value) -> Result<Value, Failure> {
    p.write("PATCH", path, media, body).await?.code(200)
}

async fn a_merge_sets_and_removes(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let done = p
        .merge("~/configmaps/a", &json!({"data": {"k": null, "l": "2"}}))
        .await?
        .code(200)?;
    same("the data", &done["data"], &json!({"l": "2"}))
}

async fn pod(p: &Probe) -> Result<Value, Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["example.com/a"]},
        "spec": {"containers": [{"name": "x", "image": "i:v1"}, {"name": "y", "image": "j:v1"}]}});
    p.post("~/pods", &pod).await?.code(201)
}

async fn deployment(p: &Probe) -> Result<Value, Failure> {
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
            {"name": "x", "image": "i:v1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "y", "image": "j:v1"}]}}}});
    p.post("~apps/v1/deployments", &deployment).await?.code(201)
}

fn containers(object: &Value) -> Vec<&str> {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array();
    containers
        .into_iter()
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect()
}

async fn strategic(p: &Probe, spec: Value) -> Result<Value, Failure> {
    patch(
        p,
        STRATEGIC,
        "~apps/v1/deployments/a",
        &json!({"spec": {"template": {"spec": spec}}}),
    )
    .await
}

async fn a_merge_replaces_lists(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let body =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "z", "image": "k"}]}}}});
    let done = p.merge("~apps/v1/deployments/a", &body).await?.code(200)?;
    same("the containers", containers(&done), ["z"])
}

async fn operations_are_done_in_their_order(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let operations = json!([{"op": "test", "path": "/data/k", "value": "1"},
        {"op": "add", "path": "/data/l", "value": "2"}, {"op": "move", "from": "/data/l", "path": "/data/m"},
        {"op": "copy", "from": "/data/m", "path": "/data/n"}, {"op": "replace", "path": "/data/k", "value": "9"},
        {"op": "remove", "path": "/data/m"}]);
    let done = patch(p, JSON, "~/configmaps/a", &operations).await?;
    same("the data", &done["data"], &json!({"k": "9", "n": "2"}))
}

async fn a_failed_test_is_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let operations = json!([{"op": "test", "path": "/data/k", "value": "2"}]);
    p.write("PATCH", "~/configmaps/a", JSON, &operations)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn an_operation_on_nothing_is_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let operations = json!([{"op": "remove", "path": "/data/none"}]);
    p.write("PATCH", "~/configmaps/a", JSON, &operations)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn a_strategic_merge_merges_lists_by_their_key(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let spec = json!({"containers": [{"name": "x", "image": "i:v2", "env": [{"name": "B", "value": "3"}]}]});
    let done = strategic(p, spec).await?;
    same("the containers", containers(&done), ["x", "y"])?;
    let first = &done["spec"]["template"]["spec"]["containers"][0];
    same("the image", first["image"].as_str(), Some("i:v2"))?;
    let wanted = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]);
    let mut env = first["env"].as_array().cloned().unwrap_or_default();
    env.sort_by_key(|entry| entry["name"].to_string());
    same("the environment", json!(env), wanted)
}

async fn a_strategic_merge_deletes_by_directive(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let done = strategic(
        p,
        json!({"containers": [{"name": "x", "$patch": "delete"}]}),
    )
    .await?;
    same("the containers", containers(&done), ["y"])
}

async fn a_strategic_merge_orders_by_directive(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let spec = json!({"$setElementOrder/containers": [{"name": "y"}, {"name": "x"}]});
    let done = strategic(p, spec).await?;
    same("the containers", containers(&done), ["y", "x"])
}

async fn a_strategic_merge_replaces_by_directive(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let spec = json!({"containers": [{"$patch": "replace"}, {"name": "z", "image": "k"}]});
    let done = strategic(p, spec).await?;
    same("the containers", containers(&done), ["z"])
}

async fn a_strategic_merge_retains_keys(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let body = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let done = patch(p, STRATEGIC, "~apps/v1/deployments/a", &body).await?;
    same(
        "the strategy",
        &done["spec"]["strategy"],
        &json!({"type": "Recreate"}),
    )
}

async fn finalizers_are_merged_as_a_set(p: &Probe) -> Result<(), Failure> {
    pod(p).await?;
    let add = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let done = patch(p, STRATEGIC, "~/pods/a", &add).await?;
    let count = done["metadata"]["finalizers"].as_array().map(Vec::len);
    same("the finalizers", count, Some(2))?;
    let take = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let done = patch(p, STRATEGIC, "~/pods/a", &take).await?;
    same(
        "the finalizers",
        &done["metadata"]["finalizers"],
        &json!(["example.com/b"]),
    )
}

async fn a_patch_with_an_old_version_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    let body =
        json!({"metadata": {"resourceVersion": version(&made).to_string()}, "data": {"k": "3"}});
    p.merge("~/configmaps/a", &body).await?.says(
        409,
        "Conflict",
        "the object has been modified",
    )?;
    Ok(())
}

async fn a_patch_cannot_change_the_name(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let answer = p
        .merge("~/configmaps/a", &json!({"metadata": {"name": "b"}}))
        .await?;
    answer.refused(400, "BadRequest")?;
    Ok(())
}

async fn a_patch_cannot_change_the_uid(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let answer = p
        .merge("~/configmaps/a", &json!({"metadata": {"uid": "b"}}))
        .await?;
    answer.says(422, "Invalid", "field is immutable")?;
    Ok(())
}

async fn a_patch_that_changes_nothing_writes_nothing(p: &Probe) -> Result<(), Failure> {
    let made = deployment(p).await?;
    for (media, body) in [
        ("application/merge-patch+json", json!({})),
        (STRATEGIC, json!({"spec": {"replicas": 1}})),
        (JSON, json!([])),
    ] {
        let done = patch(p, media, "~apps/v1/deployments/a", &body).await?;
        same(media, version(&done), version(&made))?;
    }
    Ok(())
}

async fn a_patch_of_the_status_leaves_the_rest(p: &Probe) -> Result<(), Failure> {
    deployment(p).await?;
    let body = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let done = p
        .merge("~apps/v1/deployments/a/status", &body)
        .await?
        .code(200)?;
    same("the spec", done["spec"]["replicas"].as_u64(), Some(1))?;
    same("the status", done["status"]["replicas"].as_u64(), Some(3))
}

async fn a_dry_run_of_a_patch_writes_nothing(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let dry = p
        .merge("~/configmaps/a?dryRun=All", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    same("the answer", dry["data"]["k"].as_str(), Some("2"))?;
    let read = p.get("~/configmaps/a").await?.code(200)?;
    same("the version", version(&read), version(&made))
}

fn applied(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
}

async fn apply(p: &Probe, query: &str, data: Value) -> Result<super::probe::Answer, Failure> {
    let path = format!("~/configmaps/a?{query}");
    p.write("PATCH", &path, APPLY, &applied(data)).await
}

async fn an_apply_creates(p: &Probe) -> Result<(), Failure> {
    let made = apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(201)?;
    same("the data", &made["data"], &json!({"x": "1"}))?;
    let again = apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(200)?;
    same("the version", version(&again), version(&made))
}

async fn an_apply_owns_what_it_sets(p: &Probe) -> Result<(), Failure> {
    let made = apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(201)?;
    let managers = made["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    same("the managers", managers.len(), 1)?;
    let entry = &managers[0];
    let seen = (
        entry["manager"].as_str(),
        entry["operation"].as_str(),
        entry["fieldsType"].as_str(),
    );
    same(
        "the entry",
        seen,
        (Some("one"), Some("Apply"), Some("FieldsV1")),
    )?;
    same(
        "the fields",
        &entry["fieldsV1"],
        &json!({"f:data": {"f:x": {}}}),
    )
}

async fn an_apply_of_anothers_field_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(201)?;
    let answer = apply(p, "fieldManager=two", json!({"x": "2"})).await?;
    let status = answer.says(409, "Conflict", "conflict with \"one\"")?;
    let cause = &status["details"]["causes"][0];
    let seen = (cause["reason"].as_str(), cause["field"].as_str());
    same(
        "the cause",
        seen,
        (Some("FieldManagerConflict"), Some(".data.x")),
    )
}

async fn a_forced_apply_takes_the_field(p: &Probe) -> Result<(), Failure> {
    apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(201)?;
    let done = apply(p, "fieldManager=two&force=true", json!({"x": "2"}))
        .await?
        .code(200)?;
    same("the data", &done["data"], &json!({"x": "2"}))?;
    let managers = done["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten();
    let managers: Vec<_> = managers
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    same("the managers", managers, ["two"])
}

async fn an_apply_removes_what_it_no_longer_sets(p: &Probe) -> Result<(), Failure> {
    apply(p, "fieldManager=one", json!({"x": "1", "y": "1"}))
        .await?
        .code(201)?;
    let done = apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(200)?;
    same("the data", &done["data"], &json!({"x": "1"}))
}

async fn an_apply_keeps_what_others_own(p: &Probe) -> Result<(), Failure> {
    apply(p, "fieldManager=one", json!({"x": "1"}))
        .await?
        .code(201)?;
    apply(p, "fieldManager=two", json!({"y": "1"}))
        .await?
        .code(200)?;
    let done = apply(p, "fieldManager=one", json!({"z": "1"}))
        .await?
        .code(200)?;
    same("the data", &done["data"], &json!({"y": "1", "z": "1"}))?;
    holds(
        "two managers",
        done["metadata"]["managedFields"]
            .as_array()
            .is_some_and(|all| all.len() == 2),
    )
}
