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

use futures::future::join_all;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Informer, Reconciler};
use serde_json::{Value, json};

use self::plan::{Plan, plan};
use crate::frame::Frame;
use crate::json::{is_terminating, name, text, uid};
use crate::ownership::{adopt, release, selecting};
use crate::pods::{from_template, reference};
use crate::writer::{Failed, Writer, collection};

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
    if set.get("status") != Some(&next) {
        let mut body = Value::clone(&set);
        crate::json::set(&mut body, &["status"], next);
        let path = format!("{}/status", path_of(&set));
        writer.replace(&path, &body).await?;
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    Ok(status::next_look(&set, &plan, now).map_or(Action::await_change(), Action::requeue))
}

fn path_of(set: &Value) -> String {
    let namespace = text(set, "/metadata/namespace");
    let sets = collection("/apis/apps/v1", namespace, "replicasets");
    format!("{sets}/{}", name(set))
}

/// Adopts and releases pods.
async fn claim(writer: &Writer, set: &Value, plan: &Plan) -> Result<(), Failed> {
    for pod in &plan.adopt {
        adopt(
            writer,
            set,
            &pod_path(set, pod),
            pod.metadata.uid.as_deref(),
        )
        .await?;
    }
    for pod in &plan.release {
        release(
            writer,
            set,
            &pod_path(set, pod),
            pod.metadata.uid.as_deref(),
        )
        .await?;
    }
    Ok(())
}

fn pod_path(set: &Value, pod: &Pod) -> String {
    let pods = collection("/api/v1", text(set, "/metadata/namespace"), "pods");
    format!(
        "{pods}/{}",
        pod.metadata.name.as_deref().unwrap_or_default()
    )
}

/// Creates or deletes pods.
async fn manage(writer: &Writer, cx: &Ctx<State>, set: &Value, plan: &Plan) -> Result<(), Failed> {
    let about = || cx.events.for_reference(reference(set));
    let pods = collection("/api/v1", text(set, "/metadata/namespace"), "pods");
    let body = from_template(set);
    let mut left = plan.create.min(BURST);
    let mut batch = 1;
    while left > 0 {
        let now = batch.min(left);
        let created = join_all((0..now).map(|_| writer.create(&pods, &body))).await;
        let mut failed = None;
        for created in created {
            match created {
                Ok(pod) => {
                    let note = format!("Created pod: {}", name(&pod));
                    about().normal("SuccessfulCreate", &note);
                }
                Err(error) => {
                    let note = format!("Error creating: {}", error.message());
                    about().warning("FailedCreate", &note);
                    failed = Some(error);
                }
            }
        }
        if let Some(failed) = failed {
            return Err(failed);
        }
        left -= now;
        batch *= 2;
    }
    let no_options = &json!({});
    let delete = plan.delete.iter().take(BURST);
    let deleted = join_all(delete.map(|pod| async move {
        let gone = writer.delete(&pod_path(set, pod), no_options).await;
        (pod, gone)
    }));
    for (pod, gone) in deleted.await {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        match gone {
            Ok(_) => about().normal("SuccessfulDelete", &format!("Deleted pod: {pod}")),
            Err(error) => {
                let note = format!("Error deleting: {}", error.message());
                about().warning("FailedDelete", &note);
                return Err(error);
            }
        }
    }
    Ok(())
}
