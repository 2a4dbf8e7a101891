//! The controllers of ReplicaSets and ReplicationControllers: as many pods as a set asks for.
//!
//! ```text
//! set + its pods + orphans ─▶ plan (pure) ─▶ adopt, release, create | delete ─▶ events, status
//! ```
//!
//! The status is that of the pods before the writes, as upstream's: the next reconcile, which their
//! watch events cause, counts them. Creations go in batches of 1, 2, 4, and so on, and stop after a
//! batch with a failure.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/replicaset/replica_set.go`, and its use in
//! `pkg/controller/replication`.

mod plan;
mod rank;
mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
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

/// The kind of sets that a controller keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ReplicaSet,
    /// Its status does not count the pods on their way out.
    ReplicationController,
}

impl Kind {
    /// The path of its version, and its plural.
    const fn path(self) -> (&'static str, &'static str) {
        match self {
            Self::ReplicaSet => ("/apis/apps/v1", "replicasets"),
            Self::ReplicationController => ("/api/v1", "replicationcontrollers"),
        }
    }

    /// The name of its controller, and of that one's account.
    const fn controller(self) -> &'static str {
        match self {
            Self::ReplicaSet => "replicaset-controller",
            Self::ReplicationController => "replication-controller",
        }
    }
}

/// The context of every reconcile.
struct State {
    frame: Frame,
    kind: Kind,
    events: EventRecorder,
}

/// Makes the controller of ReplicaSets.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Reconciler {
    let sets: Informer<ReplicaSet> = frame.factory.informer();
    of_kind(Kind::ReplicaSet, sets.cast(), frame, events)
}

/// Makes the controller of ReplicationControllers.
pub(crate) fn of_replication_controllers(frame: &Frame, events: EventRecorder) -> Reconciler {
    let sets: Informer<ReplicationController> = frame.factory.informer();
    of_kind(Kind::ReplicationController, sets.cast(), frame, events)
}

fn of_kind(kind: Kind, sets: Informer<Value>, frame: &Frame, events: EventRecorder) -> Reconciler {
    let pods: Informer<Pod> = frame.factory.informer();
    let state = State {
        frame: frame.clone(),
        kind,
        events,
    };
    let adopters = sets.clone();
    Controller::of(&sets)
        .owns(&pods)
        .watches(&pods, move |pod| selecting(&adopters, pod))
        .named(kind.controller())
        .client(frame.client(kind.controller()))
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
    let mut next = status::next(&set, &plan, failure.as_deref(), now);
    if let (Kind::ReplicationController, Some(status)) = (cx.kind, next.as_object_mut()) {
        status.remove("terminatingReplicas");
    }
    let (version, plural) = cx.kind.path();
    let sets = collection_of(version, &set, plural);
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
