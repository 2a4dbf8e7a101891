//! The controller that protects claims: one that is deleted goes when no pod uses it. It also tells in
//! their conditions which claims are used.
//!
//! ```text
//! deleted claim with the finalizer + pods that mount it ─▶ wait | PUT without the finalizer
//! bound claim + pods that mount it ─▶ condition Unused
//! ```
//!
//! The server adds the finalizer to every claim. Without this controller a deleted claim would stay,
//! and a StatefulSet that was scaled down and up again would wait for it.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/volume/pvcprotection`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kinform::{Action, Controller, Ctx, Enqueue, Informer, Obj, Reconciler};
use serde_json::{Value, json};

use crate::clock::stamp;
use crate::frame::Frame;
use crate::json::{is_terminating, name, set as put, text};
use crate::pods::claims_of;
use crate::writer::{Failed, Writer, collection};

const FINALIZER: &str = "kubernetes.io/pvc-protection";
/// The condition of a claim that tells whether a pod uses it.
const UNUSED: &str = "Unused";

/// Makes the controller.
pub(crate) fn controller(frame: &Frame) -> Reconciler {
    let claims: Informer<PersistentVolumeClaim> = frame.factory.informer();
    let claims: Informer<Value> = claims.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    Controller::of(&claims)
        .watches(&pods, of_pod)
        .named("pvc-protection-controller")
        .client(frame.client("pvc-protection-controller"))
        .context(frame.clone())
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

fn of_pod(pod: &Obj<Pod>) -> Vec<Enqueue> {
    let Ok(pod) = pod.typed() else {
        return Vec::new();
    };
    claims_of(&pod).map(Enqueue::from).collect()
}

async fn reconcile(claim: Arc<Value>, cx: Ctx<Frame>) -> Result<Action, Failed> {
    // A kubelet does not start a pod that comes with a claim on its way out: without a node it waits.
    let is_used = !cx.pods.mounting(cx.key()).is_empty();
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let namespace = text(&claim, "/metadata/namespace");
    let claims = collection("/api/v1", namespace, "persistentvolumeclaims");
    let written = if let Some(status) = told(&claim, is_used, cx.clock.now()) {
        writer.put_status(&claims, &claim, status).await.map(drop)
    } else if let Some(body) = unprotected(&claim).filter(|_| !is_used) {
        let path = format!("{claims}/{}", name(&claim));
        writer.replace(&path, &body).await.map(drop)
    } else {
        Ok(())
    };
    match written {
        Err(error) if error.code() == Some(404) => Ok(Action::await_change()),
        written => written.map(|()| Action::await_change()),
    }
}

/// The status of a bound claim that tells whether a pod uses it; `None` if it does so already.
fn told(claim: &Value, is_used: bool, now: Timestamp) -> Option<Value> {
    if text(claim, "/status/phase") != "Bound" || is_terminating(claim) {
        return None;
    }
    let (is_unused, reason, message) = match is_used {
        true => (
            "False",
            "PodUsingPVC",
            "A pod is currently referencing this PVC",
        ),
        false => (
            "True",
            "NoPodsUsingPVC",
            "No pods are currently referencing this PVC",
        ),
    };
    let mut status = claim.get("status")?.clone();
    let conditions = status.get("conditions").and_then(Value::as_array).cloned();
    let mut conditions = conditions.unwrap_or_default();
    let known = conditions.iter().position(|of| text(of, "/type") == UNUSED);
    if known.is_some_and(|at| text(&conditions[at], "/status") == is_unused) {
        return None;
    }
    let condition = json!({
        "type": UNUSED, "status": is_unused, "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": stamp(now),
    });
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    put(&mut status, &["conditions"], conditions.into());
    Some(status)
}

/// A deleted claim without the finalizer; `None` if it is not deleted, or has none.
fn unprotected(claim: &Value) -> Option<Value> {
    let finalizers = claim.pointer("/metadata/finalizers")?.as_array()?;
    let left: Vec<Value> = finalizers
        .iter()
        .filter(|one| *one != FINALIZER)
        .cloned()
        .collect();
    if !is_terminating(claim) || left.len() == finalizers.len() {
        return None;
    }
    let mut claim = claim.clone();
    put(&mut claim, &["metadata", "finalizers"], left.into());
    Some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_claim_tells_whether_a_pod_uses_it() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let claim = |phase: &str, conditions: Value| {
            json!({"metadata": {"name": "c"},
            "status": {"phase": phase, "conditions": conditions}})
        };
        let other = json!({"type": "Resizing", "status": "True"});
        let bound = claim("Bound", json!([other]));
        let unused = told(&bound, false, at(7)).unwrap();
        assert_eq!(
            unused["conditions"],
            json!([other, {"type": "Unused", "status": "True", "reason": "NoPodsUsingPVC",
                "message": "No pods are currently referencing this PVC",
                "lastProbeTime": null, "lastTransitionTime": "1970-01-01T00:00:07Z"}])
        );
        let unused = claim("Bound", unused["conditions"].clone());
        assert_eq!(told(&unused, false, at(9)), None);
        let used = told(&unused, true, at(9)).unwrap();
        let found = &used["conditions"][1];
        assert_eq!(found["status"], "False");
        assert_eq!(found["reason"], "PodUsingPVC");
        assert_eq!(found["lastTransitionTime"], "1970-01-01T00:00:09Z");
        assert_eq!(told(&claim("Pending", Value::Null), true, at(9)), None);
        let mut goes = bound;
        goes["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:09Z");
        assert_eq!(told(&goes, true, at(9)), None);
    }

    #[test]
    fn only_a_deleted_claim_loses_its_finalizer() {
        let claim = |deleted: Option<&str>, finalizers: &[&str]| {
            let claim = json!({"metadata": {
                "name": "c", "deletionTimestamp": deleted, "finalizers": finalizers,
            }});
            unprotected(&claim).map(|claim| claim["metadata"]["finalizers"].clone())
        };
        let now = Some("2026-01-01T00:00:00Z");
        assert_eq!(claim(None, &[FINALIZER]), None);
        assert_eq!(claim(now, &["other"]), None);
        assert_eq!(claim(now, &[FINALIZER, "other"]), Some(json!(["other"])));
    }
}
