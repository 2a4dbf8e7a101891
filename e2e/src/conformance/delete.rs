//! Deleting: options, finalizers, answers.
//!
//! ```text
//! DELETE object | collection, options ──▶ Status | the object | refusal
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/registry/generic/registry` (`TestStoreDelete*`),
//! `kubernetes:test/integration/apiserver` (`Test202StatusCode`).

use serde_json::{Value, json};

use super::probe::{Failure, Probe, config_map, holds, names, same, version};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    a_deletion_is_answered_with_a_status: "apiserver:pkg/endpoints/handlers/delete.go",
    some_kinds_are_answered_with_the_object: "apiserver:pkg/registry/generic/registry (ReturnDeletedObject)",
    a_wrong_uid_is_a_conflict: "RunTestValidateDeletionWith*",
    a_wrong_version_is_a_conflict: "RunTestConditionalDelete",
    the_right_preconditions_delete: "RunTestConditionalDelete",
    a_finalizer_holds_the_object: "TestStoreDeleteWithFinalizers",
    a_second_deletion_changes_nothing: "TestStoreDeleteWithFinalizers",
    a_held_object_counts_a_generation: "apiserver:pkg/registry/rest/delete.go",
    foreground_waits_by_a_finalizer: "TestStoreDeletionPropagation",
    orphaning_waits_by_a_finalizer: "TestStoreDeletionPropagation",
    both_policies_are_refused: "apimachinery:pkg/apis/meta/v1/validation",
    an_unknown_policy_is_refused: "apimachinery:pkg/apis/meta/v1/validation",
    options_may_stand_in_the_query: "apiserver:pkg/endpoints/handlers/delete.go",
    a_dry_run_deletes_nothing: "apiserver:pkg/registry/generic/registry",
    a_collection_is_deleted_by_selector: "apiserver:pkg/registry/generic/registry (DeleteCollection)",
    a_collection_without_a_match_is_no_error: "apiserver:pkg/registry/generic/registry (DeleteCollection)",
    an_unscheduled_pod_is_gone_at_once: "kubernetes:pkg/registry/core/pod/strategy.go (CheckGracefulDelete)",
    a_name_can_be_used_again: "apiserver:pkg/storage",
    creating_what_is_being_deleted_says_so: "apiserver:pkg/registry/generic/registry",
    an_evicted_pod_is_deleted: "kubernetes:pkg/registry/core/pod/storage/eviction.go",
    the_default_namespace_is_not_deleted: "kubernetes:plugin/pkg/admission/namespace/lifecycle",
    a_body_that_is_no_options_is_refused: "apiserver:pkg/endpoints/handlers/delete.go",
];

async fn a_deletion_is_answered_with_a_status(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let status = p.delete("~/configmaps/a").await?.code(200)?;
    same("the status", status["status"].as_str(), Some("Success"))?;
    same(
        "the uid",
        &status["details"]["uid"],
        &made["metadata"]["uid"],
    )?;
    same(
        "the kind",
        status["details"]["kind"].as_str(),
        Some("configmaps"),
    )
}

async fn some_kinds_are_answered_with_the_object(p: &Probe) -> Result<(), Failure> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    p.post("~/serviceaccounts", &account).await?.code(201)?;
    let gone = p.delete("~/serviceaccounts/a").await?.code(200)?;
    same("the kind", gone["kind"].as_str(), Some("ServiceAccount"))
}

async fn a_wrong_uid_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let options = json!({"preconditions": {"uid": "0d7a1cbe-6a5e-4a7e-9f51-0c7ff0a3b6a5"}});
    p.delete_by("~/configmaps/a", &options)
        .await?
        .refused(409, "Conflict")?;
    p.get("~/configmaps/a").await?.code(200)?;
    Ok(())
}

async fn a_wrong_version_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let options = json!({"preconditions": {"resourceVersion": "1"}});
    p.delete_by("~/configmaps/a", &options)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn the_right_preconditions_delete(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let metadata = &made["metadata"];
    let options = json!({"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}});
    p.delete_by("~/configmaps/a", &options).await?.code(200)?;
    p.get("~/configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn held(p: &Probe) -> Result<Value, Failure> {
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    p.post("~/configmaps", &map).await?.code(201)
}

async fn a_finalizer_holds_the_object(p: &Probe) -> Result<(), Failure> {
    held(p).await?;
    let marked = p.delete("~/configmaps/a").await?.code(200)?;
    same("the kind", marked["kind"].as_str(), Some("ConfigMap"))?;
    holds(
        "the time",
        marked["metadata"]["deletionTimestamp"].is_string(),
    )?;
    same(
        "the grace",
        marked["metadata"]["deletionGracePeriodSeconds"].as_u64(),
        Some(0),
    )?;
    p.get("~/configmaps/a").await?.code(200)?;
    Ok(())
}

async fn a_second_deletion_changes_nothing(p: &Probe) -> Result<(), Failure> {
    held(p).await?;
    let first = p.delete("~/configmaps/a").await?.code(200)?;
    let second = p.delete("~/configmaps/a").await?.code(200)?;
    same("the version", version(&second), version(&first))
}

async fn a_held_object_counts_a_generation(p: &Probe) -> Result<(), Failure> {
    let role = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "a", "finalizers": ["example.com/hold"]},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    let made = p
        .post("~policy/v1/poddisruptionbudgets", &role)
        .await?
        .code(201)?;
    same("before", made["metadata"]["generation"].as_u64(), Some(1))?;
    let marked = p
        .delete("~policy/v1/poddisruptionbudgets/a")
        .await?
        .code(200)?;
    same("after", marked["metadata"]["generation"].as_u64(), Some(2))
}

async fn waits_by(p: &Probe, policy: &str, finalizer: &str) -> Result<(), Failure> {
    // An object that is deleted already keeps the garbage collector, where there is one, from
    // acting.
    held(p).await?;
    let options = json!({"propagationPolicy": policy});
    let marked = p.delete_by("~/configmaps/a", &options).await?.code(200)?;
    let finalizers = marked["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    holds(
        &format!("{finalizers:?}"),
        finalizers.contains(&finalizer.into()),
    )
}

async fn foreground_waits_by_a_finalizer(p: &Probe) -> Result<(), Failure> {
    waits_by(p, "Foreground", "foregroundDeletion").await
}

async fn orphaning_waits_by_a_finalizer(p: &Probe) -> Result<(), Failure> {
    waits_by(p, "Orphan", "orphan").await
}

async fn both_policies_are_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let options = json!({"propagationPolicy": "Background", "orphanDependents": true});
    p.delete_by("~/configmaps/a", &options)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn an_unknown_policy_is_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let options = json!({"propagationPolicy": "Sideways"});
    p.delete_by("~/configmaps/a", &options)
        .await?
        .refused(422, "Invalid")?;
    Ok(())
}

async fn options_may_stand_in_the_query(p: &Probe) -> Result<(), Failure> {
    held(p).await?;
    let marked = p
        .delete("~/configmaps/a?propagationPolicy=Foreground")
        .await?
        .code(200)?;
    let finalizers = marked["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    holds(
        "foreground",
        finalizers.contains(&"foregroundDeletion".into()),
    )
}

async fn a_dry_run_deletes_nothing(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    p.delete("~/configmaps/a?dryRun=All").await?.code(200)?;
    p.get("~/configmaps/a").await?.code(200)?;
    Ok(())
}

async fn a_collection_is_deleted_by_selector(p: &Probe) -> Result<(), Failure> {
    for name in ["a", "b"] {
        p.map(name, "1").await?;
    }
    let mut other = config_map("c", "1");
    other["metadata"]["labels"] = json!({});
    p.post("~/configmaps", &other).await?.code(201)?;
    let gone = p
        .delete("~/configmaps?labelSelector=of%3Drow")
        .await?
        .code(200)?;
    same("what is answered", names(&gone), ["a", "b"])?;
    let list = p.get("~/configmaps").await?.code(200)?;
    same("what is left", names(&list), ["c"])
}

async fn a_collection_without_a_match_is_no_error(p: &Probe) -> Result<(), Failure> {
    let gone = p
        .delete("~/configmaps?labelSelector=of%3Dnobody")
        .await?
        .code(200)?;
    same("what is answered", names(&gone).len(), 0)
}

async fn pod(p: &Probe) -> Result<Value, Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    p.post("~/pods", &pod).await?.code(201)
}

async fn an_unscheduled_pod_is_gone_at_once(p: &Probe) -> Result<(), Failure> {
    pod(p).await?;
    let gone = p.delete("~/pods/a").await?.code(200)?;
    same("the kind", gone["kind"].as_str(), Some("Pod"))?;
    p.get("~/pods/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn a_name_can_be_used_again(p: &Probe) -> Result<(), Failure> {
    let first = p.map("a", "1").await?;
    p.delete("~/configmaps/a").await?.code(200)?;
    let second = p.map("a", "1").await?;
    holds(
        "another uid",
        first["metadata"]["uid"] != second["metadata"]["uid"],
    )
}

async fn creating_what_is_being_deleted_says_so(p: &Probe) -> Result<(), Failure> {
    held(p).await?;
    p.delete("~/configmaps/a").await?.code(200)?;
    let answer = p.post("~/configmaps", &config_map("a", "1")).await?;
    answer.says(409, "AlreadyExists", "object is being deleted")?;
    Ok(())
}

async fn an_evicted_pod_is_deleted(p: &Probe) -> Result<(), Failure> {
    pod(p).await?;
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    p.post("~/pods/a/eviction", &eviction).await?.code(201)?;
    p.get("~/pods/a").await?.refused(404, "NotFound")?;
    Ok(())
}

async fn the_default_namespace_is_not_deleted(p: &Probe) -> Result<(), Failure> {
    p.delete("/api/v1/namespaces/default")
        .await?
        .refused(403, "Forbidden")?;
    Ok(())
}

async fn a_body_that_is_no_options_is_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    p.delete_by("~/configmaps/a", &config_map("a", "1"))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}
