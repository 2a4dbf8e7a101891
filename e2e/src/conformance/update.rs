//! Replacing: versions, members that are kept, and writes without a change.
//!
//! ```text
//! PUT object (with the version that was read) ──▶ 200 | conflict | refusal
//! ```
//!
//! Upstream counterpart: `apiserver:pkg/registry/rest/update.go`,
//! `apiserver:pkg/endpoints/handlers/update.go`,
//! `kubernetes:test/integration/apiserver/apidefinitions` (`generation_test`).

use serde_json::{Value, json};

use super::probe::{Failure, Probe, config_map, same, version};
use super::{Row, rows};

pub(super) const ROWS: &[Row] = rows![
    an_old_version_is_a_conflict: "RunTestGuaranteedUpdateWithConflict",
    no_version_takes_the_latest: "apiserver:pkg/registry/rest/update.go (AllowUnconditionalUpdate)",
    what_must_have_a_version_is_refused_without: "kubernetes:pkg/registry/coordination/lease/strategy.go",
    another_uid_is_a_conflict: "RunTestPreconditionalDeleteWithSuggestion",
    another_name_than_the_paths_is_refused: "apiserver:pkg/endpoints/handlers/rest.go",
    the_same_again_is_no_change: "TestNoOpUpdates",
    the_time_and_the_uid_are_kept: "apiserver:pkg/registry/rest/update.go",
    a_change_of_the_spec_is_a_generation: "generation_test",
    a_change_of_a_label_is_no_generation: "generation_test",
    a_change_of_the_status_is_no_generation: "generation_test",
    the_status_is_kept_by_a_write_of_the_object: "kubernetes:pkg/registry/apps/deployment/strategy.go",
    only_the_status_is_taken_by_a_write_of_the_status: "kubernetes:pkg/registry/apps/deployment/strategy.go",
    a_status_with_an_old_version_is_a_conflict: "apiserver:pkg/registry/generic/registry",
    a_selector_of_a_deployment_is_immutable: "kubernetes:pkg/apis/apps/validation",
    an_immutable_map_is_immutable: "kubernetes:pkg/apis/core/validation (Immutable)",
    a_new_finalizer_on_a_deleted_object_is_refused: "apimachinery:pkg/api/validation (ValidateObjectMetaUpdate)",
    a_dry_run_changes_nothing: "apiserver:pkg/registry/generic/registry",
    a_scale_is_read_and_written: "kubernetes:test/integration/apiserver (scale)",
    a_pod_is_bound_to_a_node_once: "kubernetes:pkg/registry/core/pod/storage",
    a_lease_is_taken_over_by_one_only: "client-go: leaderelection",
    a_label_that_is_none_is_refused_in_a_replacement: "apimachinery:pkg/api/validation",
    a_label_of_an_endpoint_slice_is_a_generation: "kubernetes:pkg/registry/discovery/endpointslice/strategy.go",
    removing_the_last_finalizer_of_a_deleted_object_deletes_it: "TestStoreDeleteWithFinalizers",
];

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

async fn deployed(p: &Probe) -> Result<Value, Failure> {
    p.post("~apps/v1/deployments", &deployment())
        .await?
        .code(201)
}

fn generation(object: &Value) -> Option<u64> {
    object["metadata"]["generation"].as_u64()
}

async fn an_old_version_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    let mut first = p.map("a", "1").await?;
    p.merge("~/configmaps/a", &json!({"data": {"k": "2"}}))
        .await?
        .code(200)?;
    first["data"]["k"] = "3".into();
    let answer = p.put("~/configmaps/a", &first).await?;
    answer.says(409, "Conflict", "the object has been modified")?;
    Ok(())
}

async fn no_version_takes_the_latest(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let put = p
        .put("~/configmaps/a", &config_map("a", "2"))
        .await?
        .code(200)?;
    same("the data", put["data"]["k"].as_str(), Some("2"))
}

async fn what_must_have_a_version_is_refused_without(p: &Probe) -> Result<(), Failure> {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"holderIdentity": "x"}});
    let path = "~coordination.k8s.io/v1/leases";
    p.post(path, &lease).await?.code(201)?;
    let answer = p.put(&format!("{path}/a"), &lease).await?;
    answer.says(422, "Invalid", "must be specified for an update")?;
    Ok(())
}

async fn another_uid_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    let mut map = config_map("a", "2");
    map["metadata"]["uid"] = "0d7a1cbe-6a5e-4a7e-9f51-0c7ff0a3b6a5".into();
    p.put("~/configmaps/a", &map)
        .await?
        .says(409, "Conflict", "UID in precondition")?;
    Ok(())
}

async fn another_name_than_the_paths_is_refused(p: &Probe) -> Result<(), Failure> {
    p.map("a", "1").await?;
    p.put("~/configmaps/a", &config_map("b", "2"))
        .await?
        .refused(400, "BadRequest")?;
    Ok(())
}

async fn the_same_again_is_no_change(p: &Probe) -> Result<(), Failure> {
    let made = deployed(p).await?;
    let put = p.put("~apps/v1/deployments/a", &made).await?.code(200)?;
    same("the version", version(&put), version(&made))?;
    let again = p
        .put("~apps/v1/deployments/a", &deployment())
        .await?
        .code(200)?;
    same(
        "the version without defaults",
        version(&again),
        version(&made),
    )
}

async fn the_time_and_the_uid_are_kept(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let put = p
        .put("~/configmaps/a", &config_map("a", "2"))
        .await?
        .code(200)?;
    for kept in ["uid", "creationTimestamp"] {
        same(kept, &put["metadata"][kept], &made["metadata"][kept])?;
    }
    Ok(())
}

async fn a_change_of_the_spec_is_a_generation(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    made["spec"]["replicas"] = 3.into();
    let put = p.put("~apps/v1/deployments/a", &made).await?.code(200)?;
    same("the generation", generation(&put), Some(2))
}

async fn a_change_of_a_label_is_no_generation(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    made["metadata"]["labels"] = json!({"x": "y"});
    let put = p.put("~apps/v1/deployments/a", &made).await?.code(200)?;
    same("the generation", generation(&put), Some(1))
}

async fn a_change_of_the_status_is_no_generation(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    made["status"] = json!({"replicas": 2, "observedGeneration": 1});
    let put = p
        .put("~apps/v1/deployments/a/status", &made)
        .await?
        .code(200)?;
    same("the generation", generation(&put), Some(1))?;
    same("the status", put["status"]["replicas"].as_u64(), Some(2))
}

async fn the_status_is_kept_by_a_write_of_the_object(p: &Probe) -> Result<(), Failure> {
    deployed(p).await?;
    let status = json!({"status": {"replicas": 2}});
    let mut now = p
        .merge("~apps/v1/deployments/a/status", &status)
        .await?
        .code(200)?;
    now["status"] = json!({"replicas": 9});
    now["spec"]["paused"] = true.into();
    let put = p.put("~apps/v1/deployments/a", &now).await?.code(200)?;
    same("the status", put["status"]["replicas"].as_u64(), Some(2))?;
    same("the spec", put["spec"]["paused"].as_bool(), Some(true))
}

async fn only_the_status_is_taken_by_a_write_of_the_status(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    made["spec"]["replicas"] = 9.into();
    made["status"] = json!({"readyReplicas": 1, "replicas": 1});
    let put = p
        .put("~apps/v1/deployments/a/status", &made)
        .await?
        .code(200)?;
    same("the spec", put["spec"]["replicas"].as_u64(), Some(2))?;
    same(
        "the status",
        put["status"]["readyReplicas"].as_u64(),
        Some(1),
    )
}

async fn a_status_with_an_old_version_is_a_conflict(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    p.merge("~apps/v1/deployments/a", &json!({"spec": {"paused": true}}))
        .await?
        .code(200)?;
    made["status"] = json!({"replicas": 1});
    p.put("~apps/v1/deployments/a/status", &made)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn a_selector_of_a_deployment_is_immutable(p: &Probe) -> Result<(), Failure> {
    let mut made = deployed(p).await?;
    made["spec"]["selector"]["matchLabels"]["b"] = "c".into();
    made["spec"]["template"]["metadata"]["labels"]["b"] = "c".into();
    p.put("~apps/v1/deployments/a", &made)
        .await?
        .says(422, "Invalid", "field is immutable")?;
    Ok(())
}

async fn an_immutable_map_is_immutable(p: &Probe) -> Result<(), Failure> {
    let mut map = config_map("a", "1");
    map["immutable"] = true.into();
    let mut made = p.post("~/configmaps", &map).await?.code(201)?;
    made["data"]["k"] = "2".into();
    p.put("~/configmaps/a", &made)
        .await?
        .says(422, "Invalid", "immutable")?;
    Ok(())
}

/// A config map that is deleted but for its finalizer.
async fn held(p: &Probe) -> Result<Value, Failure> {
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    p.post("~/configmaps", &map).await?.code(201)?;
    p.delete("~/configmaps/a").await?.code(200)
}

async fn a_new_finalizer_on_a_deleted_object_is_refused(p: &Probe) -> Result<(), Failure> {
    let mut held = held(p).await?;
    held["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    p.put("~/configmaps/a", &held)
        .await?
        .says(422, "Invalid", "no new finalizers can be added")?;
    Ok(())
}

async fn a_dry_run_changes_nothing(p: &Probe) -> Result<(), Failure> {
    let made = p.map("a", "1").await?;
    let dry = p
        .put("~/configmaps/a?dryRun=All", &config_map("a", "2"))
        .await?
        .code(200)?;
    same("the answer", dry["data"]["k"].as_str(), Some("2"))?;
    let read = p.get("~/configmaps/a").await?.code(200)?;
    same("the data", read["data"]["k"].as_str(), Some("1"))?;
    same("the version", version(&read), version(&made))
}

async fn a_scale_is_read_and_written(p: &Probe) -> Result<(), Failure> {
    let made = deployed(p).await?;
    let mut scale = p.get("~apps/v1/deployments/a/scale").await?.code(200)?;
    same("the kind", scale["kind"].as_str(), Some("Scale"))?;
    same("the version", version(&scale), version(&made))?;
    same(
        "the selector",
        scale["status"]["selector"].as_str(),
        Some("app=a"),
    )?;
    scale["spec"]["replicas"] = 5.into();
    p.put("~apps/v1/deployments/a/scale", &scale)
        .await?
        .code(200)?;
    let read = p.get("~apps/v1/deployments/a").await?.code(200)?;
    same("replicas", read["spec"]["replicas"].as_u64(), Some(5))?;
    same("the generation", generation(&read), Some(2))
}

async fn a_pod_is_bound_to_a_node_once(p: &Probe) -> Result<(), Failure> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    p.post("~/pods", &pod).await?.code(201)?;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}});
    p.post("~/pods/a/binding", &binding).await?.code(201)?;
    let read = p.get("~/pods/a").await?.code(200)?;
    same("the node", read["spec"]["nodeName"].as_str(), Some("n1"))?;
    p.post("~/pods/a/binding", &binding).await?.says(
        409,
        "Conflict",
        "already assigned to node",
    )?;
    Ok(())
}

async fn a_lease_is_taken_over_by_one_only(p: &Probe) -> Result<(), Failure> {
    let path = "~coordination.k8s.io/v1/leases";
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
        "spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.123456Z"}});
    let made = p.post(path, &lease).await?.code(201)?;
    same(
        "the time",
        made["spec"]["renewTime"].as_str(),
        Some("2026-01-01T00:00:00.123456Z"),
    )?;
    let (mut one, mut other) = (made.clone(), made);
    one["spec"]["holderIdentity"] = "one".into();
    other["spec"]["holderIdentity"] = "other".into();
    p.put(&format!("{path}/a"), &one).await?.code(200)?;
    p.put(&format!("{path}/a"), &other)
        .await?
        .refused(409, "Conflict")?;
    Ok(())
}

async fn a_label_that_is_none_is_refused_in_a_replacement(p: &Probe) -> Result<(), Failure> {
    let mut made = p.map("a", "1").await?;
    made["metadata"]["labels"] = json!({"a b": "c"});
    p.put("~/configmaps/a", &made)
        .await?
        .says(422, "Invalid", "metadata.labels")?;
    Ok(())
}

async fn a_label_of_an_endpoint_slice_is_a_generation(p: &Probe) -> Result<(), Failure> {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "a"},
        "addressType": "IPv4", "endpoints": []});
    let path = "~discovery.k8s.io/v1/endpointslices";
    let made = p.post(path, &slice).await?.code(201)?;
    same("at first", generation(&made), Some(1))?;
    let label = json!({"metadata": {"labels": {"x": "y"}}});
    let labelled = p.merge(&format!("{path}/a"), &label).await?.code(200)?;
    same("after a label", generation(&labelled), Some(2))
}

async fn removing_the_last_finalizer_of_a_deleted_object_deletes_it(
    p: &Probe,
) -> Result<(), Failure> {
    let mut held = held(p).await?;
    held["metadata"]["finalizers"] = json!([]);
    let put = p.put("~/configmaps/a", &held).await?.code(200)?;
    same(
        "the answer is the object",
        put["kind"].as_str(),
        Some("ConfigMap"),
    )?;
    p.get("~/configmaps/a").await?.refused(404, "NotFound")?;
    Ok(())
}
