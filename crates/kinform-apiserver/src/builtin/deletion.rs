//! Deletion of built-in kinds: protected objects, finalizers and grace periods.
//!
//! ```text
//! resource + object -> refused | grace period in seconds | held until finalizers or content are gone
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/{pod,namespace}/strategy.go`,
//! `pkg/registry/batch/job/strategy.go`, `plugin/pkg/admission/namespace/lifecycle`.

use kinform_api::{GroupResource, Status, mutant};
use serde_json::Value;

use crate::object::{at, metadata, text};
use crate::resource::{Propagation, ResourceInfo};

/// The warning for the delete of a job that leaves its pods behind implicitly.
const ORPHANED_PODS: &str = "child pods are preserved by default when jobs are deleted; set \
     propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this \
     warning";
/// The grace period of a pod that names none, in seconds.
const GRACE_PERIOD: i64 = 30;

/// Refuses the deletion of namespaces that every cluster has.
///
/// # Errors
/// 403 for such a namespace.
pub(crate) fn check(resource: &ResourceInfo, name: &str) -> Result<(), Box<Status>> {
    let is_kept = matches!(name, "default" | "kube-system" | "kube-public");
    if !resource.is_core("namespaces") || !is_kept {
        return Ok(());
    }
    let why = "this namespace may not be deleted";
    let resource = GroupResource::new("", "namespaces");
    Err(Box::new(Status::forbidden(&resource, name, why)))
}

/// Returns the grace period in seconds: that of a pod on a node, and 0 for everything else.
pub(crate) fn grace_period(resource: &ResourceInfo, asked: Option<i64>, object: &Value) -> i64 {
    if !resource.is_core("pods") || text(object, &["spec", "nodeName"]).is_empty() {
        return 0;
    }
    if matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") {
        return 0;
    }
    let own = at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
    match asked.or(own).unwrap_or(GRACE_PERIOD) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// Sets the members of a terminating object: its grace period, or the phase of a namespace.
pub(crate) fn mark(resource: &ResourceInfo, object: &mut Value, grace_period: i64) {
    if resource.is_core("namespaces") {
        object["status"]["phase"] = Value::from("Terminating");
        return;
    }
    let grace_period = Value::from(grace_period);
    metadata::of(object).insert("deletionGracePeriodSeconds".to_owned(), grace_period);
}

/// Returns whether a deleted object is still held: by a grace period, finalizers, or the content of
/// a namespace.
pub(crate) fn is_held(resource: &ResourceInfo, object: &Value) -> bool {
    let grace = at(object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let namespace = || {
        let finalizers = at(object, &["spec", "finalizers"]).and_then(Value::as_array);
        resource.is_core("namespaces") && finalizers.is_some_and(|list| !list.is_empty())
    };
    let finalizer = metadata::finalizers(object).find(|_| !mutant!("S5"));
    grace.unwrap_or(0) > 0 || finalizer.is_some() || namespace()
}

/// Returns whether the answer to a delete is the pod as it was marked rather than as it was.
pub(crate) fn answers_marked(resource: &ResourceInfo) -> bool {
    resource.is_core("pods")
}

/// The warning for a client that deletes an object whose dependents stay by default, without a
/// propagation policy.
pub(crate) fn warning(
    resource: &ResourceInfo,
    propagation: Option<Propagation>,
) -> Option<&'static str> {
    let is_job = resource.group == "batch" && resource.plural == "jobs";
    (is_job && propagation.is_none()).then_some(ORPHANED_PODS)
}
