//! Pods that still have the finalizer of Jobs although no Job counts them: it is removed.
//!
//! ```text
//! pod with the finalizer ─┐
//! pods of a Job that is gone or finished ─┴▶ Job there and running? ─▶ leave │ finalizer off
//! ```
//!
//! Without this, such a pod could never be deleted.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go` (`syncOrphanPod`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinform::{
    Action, Controller, Ctx, Enqueue, FieldPath, Informer, ObjectKey, Reconciler, WorkQueue,
    predicate,
};
use serde_json::Value;

use super::member::{TRACKING, is_tracked};
use super::{MANAGER, finished, is_managed_elsewhere, without_finalizer};
use crate::frame::Frame;
use crate::json::uid;
use crate::pods::Pods;
use crate::writer::{Failed, Writer};

/// Makes the controller, and its queue for pods of finished Jobs.
pub(super) fn controller(
    frame: &Frame,
    jobs: &Informer<Value>,
) -> (Reconciler, WorkQueue<ObjectKey>) {
    let pods: Informer<Pod> = frame.factory.informer();
    let finalizers: FieldPath = "metadata.finalizers[*]"
        .parse()
        .expect("the path is a literal");
    let (caches, of_jobs) = (frame.pods.clone(), jobs.clone());
    let controller = Controller::of(&pods).named("job-controller-orphans");
    let queue = controller.queue();
    let controller = controller
        .filter(predicate::matching(move |pod| {
            pod.at(&finalizers).iter().any(|one| one == TRACKING)
        }))
        .watches(jobs, move |job| {
            pods_of_gone(&of_jobs, &caches, &job.key(), job.uid())
        })
        .client(frame.client("job-controller"))
        .context(jobs.clone())
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile);
    (controller, queue)
}

/// The pods of a Job that is no longer there.
fn pods_of_gone(jobs: &Informer<Value>, pods: &Pods, key: &ObjectKey, uid: &str) -> Vec<Enqueue> {
    if jobs.get(key).is_some_and(|job| job.uid() == uid) {
        return Vec::new();
    }
    let pods = pods.owned_by(uid);
    let pods = pods.iter().filter(|pod| is_tracked(pod));
    let keys = pods.map(|pod| {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Enqueue::from(ObjectKey::new(pod.metadata.namespace.as_deref(), name))
    });
    keys.collect()
}

async fn reconcile(pod: Arc<Pod>, cx: Ctx<Informer<Value>>) -> Result<Action, Failed> {
    if !is_tracked(&pod) || is_counted(&pod, &cx) {
        return Ok(Action::await_change());
    }
    let writer = Writer::new(cx.client()?, MANAGER);
    without_finalizer(&writer, &pod).await?;
    Ok(Action::await_change())
}

/// Returns whether somebody counts the pod: its Job, or a controller that is not ours.
fn is_counted(pod: &Pod, jobs: &Informer<Value>) -> bool {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return false;
    };
    if owner.kind != "Job" || owner.api_version != "batch/v1" {
        return true;
    }
    let job = jobs.get(&ObjectKey::new(
        pod.metadata.namespace.as_deref(),
        &owner.name,
    ));
    let job = job
        .and_then(|job| job.typed().ok())
        .filter(|job| uid(job) == owner.uid);
    job.is_some_and(|job| is_managed_elsewhere(&job) || finished(&job).is_none())
}
