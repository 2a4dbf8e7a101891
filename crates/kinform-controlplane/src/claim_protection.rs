//! The controller that protects claims: one that is deleted goes when no pod uses it.
//!
//! ```text
//! deleted claim with the finalizer + pods on nodes that mount it ─▶ wait | PUT without the finalizer
//! ```
//!
//! The server adds the finalizer to every claim. Without this controller a deleted claim would stay,
//! and a StatefulSet that was scaled down and up again would wait for it.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/volume/pvcprotection`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kinform::{Action, Controller, Ctx, Enqueue, Informer, Obj, Reconciler};
use serde_json::Value;

use crate::frame::Frame;
use crate::json::{is_terminating, name, set as put, text};
use crate::pods::claims_of;
use crate::writer::{Failed, Writer, collection};

const FINALIZER: &str = "kubernetes.io/pvc-protection";

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
    let is_used = || !cx.pods.mounting(cx.key()).is_empty();
    let Some(body) = unprotected(&claim).filter(|_| !is_used()) else {
        return Ok(Action::await_change());
    };
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let namespace = text(&claim, "/metadata/namespace");
    let claims = collection("/api/v1", namespace, "persistentvolumeclaims");
    let path = format!("{claims}/{}", name(&claim));
    match writer.replace(&path, &body).await {
        Err(error) if error.code() == Some(404) => Ok(Action::await_change()),
        written => written.map(|_| Action::await_change()),
    }
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
    use serde_json::json;

    use super::*;

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
