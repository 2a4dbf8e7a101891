//! The controller of ReplicaSets: as many pods as a set asks for.
//!
//! ```text
//! ReplicaSet + its pods + orphans ─▶ plan (pure) ─▶ adopt, release, create | delete ─▶ events, status
//! ```
//!
//! The status is that of the pods before the writes, as upstream's: the next reconcile, which their
//! watch events cause, counts them. Creations go in batches of 1, 2, 4, and so on, and stop after a
//! batch with a failure.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/replicaset/replica_set.go`.

mod plan;
mod rank;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Informer, Reconciler};
use serde_json::Value;

use self::plan::{Plan, plan};
use crate::frame::Frame;
use crate::json::{is_terminating, text, uid};
use crate::ownership::{adopt, release, selecting};
use crate::pod_control::PodControl;
use crate::pods::{from_template, next_available, path};
use crate::writer::{Failed, Writer, collection_of};

const WORKERS: usize = 5;
/// BOUND: pods that one reconcile creates or deletes, as upstream's burst.
const BURST: usize = 500;

/// The context of every reconcile.
struct State {
    frame: Frame,
    events: EventRecorder,
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Reconciler {
    let sets: Informer<ReplicaSet> = frame.factory.informer();
    let pods: Informer<Pod> = frame.factory.informer();
    let state = State {
        frame: frame.clone(),
        events,
    };
    let sets: Informer<Value> = sets.cast();
    let adopters = sets.clone();
    Controller::of(&sets)
        .owns(&pods)
        .watches(&pods, move |pod| selecting(&adopters, pod))
        .named("replicaset-controller")
        .client(frame.client("replicaset-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

async fn reconcile(set: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let now = cx.frame.clock.now();
    let namespace = text(&set, "/metadata/namespace");
    let mut pods = cx.frame.pods.owned_by(uid(&set));
    pods.extend(cx.frame.pods.without_owner(namespace));
    let plan = plan(&set, &pods);
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let mut failed = None;
    if !is_terminating(&set) {
        // A failed claim is no failed create or delete: the status stays as it is.
        claim(&writer, &set, &plan).await?;
        failed = manage(&writer, &cx, &set, &plan).await.err();
    }
    let failure = failed.as_ref().map(Failed::message);
    let next = status::next(&set, &plan, failure.as_deref(), now);
    let sets = collection_of("/apis/apps/v1", &set, "replicasets");
    writer.put_status(&sets, &set, next).await?;
    if let Some(failed) = failed {
        return Err(failed);
    }
    Ok(next_available(&set, &plan.active, now).map_or(Action::await_change(), Action::requeue))
}

/// Adopts and releases pods.
async fn claim(writer: &Writer, set: &Value, plan: &Plan) -> Result<(), Failed> {
    for pod in &plan.adopt {
        adopt(writer, set, &path(pod), pod.metadata.uid.as_deref()).await?;
    }
    for pod in &plan.release {
        release(writer, set, &path(pod), pod.metadata.uid.as_deref()).await?;
    }
    Ok(())
}

/// Creates or deletes pods.
async fn manage(writer: &Writer, cx: &Ctx<State>, set: &Value, plan: &Plan) -> Result<(), Failed> {
    let pods = PodControl {
        writer,
        owner: set,
        events: &cx.events,
    };
    let body = from_template(set);
    let (_, failed) = pods.create(&vec![&body; plan.create.min(BURST)]).await;
    failed.map_or(Ok(()), Err)?;
    let (_, failed) = pods
        .delete(&plan.delete[..plan.delete.len().min(BURST)])
        .await;
    failed.map_or(Ok(()), Err)
}
