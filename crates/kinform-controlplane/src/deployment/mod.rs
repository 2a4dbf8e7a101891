//! The controller of Deployments: ReplicaSets that roll from one pod template to the next.
//!
//! ```text
//! Deployment + its ReplicaSets ─▶ adopt ─▶ plan (pure) ─▶ create, scale, delete sets; status; events
//! ```
//!
//! `plan.rs` decides the writes and their order, `scaling.rs` the numbers, `status.rs` the status.
//! This file reads caches and writes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/deployment`.

mod model;
mod plan;
#[cfg(test)]
mod plan_tests;
mod scaling;
mod status;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, Enqueue, Error, Index, IndexReader, Informer, Obj, ObjectKey,
    Reconciler,
};
use serde_json::{Value, json};

use self::plan::{HasPods, Input, Write, plan};
use crate::frame::Frame;
use crate::json::{is_terminating, name, set as put, text, texts, uid};
use crate::ownership::{adopt, controller_uid};
use crate::pods::{Pods, is_finished, reference};
use crate::selector::selects;
use crate::writer::{Failed, Writer, collection, collection_of};

const WORKERS: usize = 5;
const APPS: &str = "/apis/apps/v1";
const ORPHANS: &str = "orphans";

/// The context of every reconcile.
struct State {
    frame: Frame,
    sets: IndexReader<Value>,
    orphans: IndexReader<Value>,
    events: EventRecorder,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Result<Reconciler, Error> {
    let deployments: Informer<Deployment> = frame.factory.informer();
    let deployments: Informer<Value> = deployments.cast();
    let sets: Informer<ReplicaSet> = frame.factory.informer();
    let sets: Informer<Value> = sets.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let state = State {
        frame: frame.clone(),
        sets: sets.add_index(Index::owner())?,
        orphans: sets.add_index(Index::by(ORPHANS, |set: &Value| {
            let namespace = text(set, "/metadata/namespace").to_owned();
            controller_uid(set).is_none().then_some(namespace)
        }))?,
        events,
    };
    let of_pods = sets.clone();
    Ok(Controller::of(&deployments)
        .owns(&sets)
        // Recreate waits for the last old pod to be gone.
        .watches(&pods, move |pod| deployment_of(&of_pods, pod))
        .named("deployment-controller")
        .client(frame.client("deployment-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

/// The Deployment of a pod that ends, by its set.
fn deployment_of(sets: &Informer<Value>, pod: &Obj<Pod>) -> Option<Enqueue> {
    if !pod.is_terminating() {
        return None;
    }
    let owners = pod.owner_references();
    let set = owners
        .iter()
        .find(|owner| owner.controller && owner.kind == "ReplicaSet")?;
    let set = sets.get(&ObjectKey::new(pod.namespace(), &set.name))?;
    let owners = set.owner_references();
    let owner = owners
        .iter()
        .find(|owner| owner.controller && owner.kind == "Deployment")?;
    Some(Enqueue::from(ObjectKey::new(pod.namespace(), &owner.name)))
}

/// The pods of sets, as the decision asks for them.
struct Alive<'p>(&'p Pods);

impl fmt::Debug for Alive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alive")
    }
}

impl HasPods for Alive<'_> {
    fn has_pods(&self, uid: &str) -> bool {
        self.0.owned_by(uid).iter().any(|pod| !is_finished(pod))
    }
}

async fn reconcile(deployment: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let sets = claim(&writer, &deployment, &cx).await?;
    let plan = plan(Input {
        deployment: &deployment,
        sets,
        has_pods: &Alive(&cx.frame.pods),
        now: cx.frame.clock.now(),
    });
    let mut versions = HashMap::new();
    for write in plan.writes {
        perform(&writer, &deployment, write, &mut versions, &cx).await?;
    }
    Ok(plan.later.map_or(Action::await_change(), Action::requeue))
}

/// The sets that the Deployment controls; those without an owner that it selects are adopted.
async fn claim(writer: &Writer, deployment: &Value, cx: &State) -> Result<Vec<Value>, Failed> {
    let owned = cx.sets.get(uid(deployment));
    let mut sets: Vec<Value> = owned
        .typed()
        .filter(|set| controller_uid(set) == Some(uid(deployment)))
        .map(|set| Value::clone(&set))
        .collect();
    if is_terminating(deployment) {
        return Ok(sets);
    }
    let namespace = text(deployment, "/metadata/namespace");
    let selector = deployment.pointer("/spec/selector");
    let orphans = cx.orphans.get(namespace);
    for set in orphans.typed() {
        if is_terminating(&set) || !selects(selector, &texts(&set, "/metadata/labels")) {
            continue;
        }
        let path = set_path(namespace, name(&set));
        sets.extend(adopt(writer, deployment, &path, Some(uid(&set))).await?);
    }
    Ok(sets)
}

fn set_path(namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(APPS, namespace, "replicasets"))
}

/// Makes one write. `versions` has those of the sets that this reconcile wrote before.
async fn perform(
    writer: &Writer,
    deployment: &Value,
    write: Write,
    versions: &mut HashMap<String, Value>,
    cx: &State,
) -> Result<(), Failed> {
    let namespace = text(deployment, "/metadata/namespace");
    match write {
        Write::CreateSet(set) => {
            let path = collection(APPS, namespace, "replicasets");
            match writer.create(&path, &set).await {
                Err(error) if error.code() == Some(409) => {
                    collide(writer, deployment, &set, cx).await?;
                    return Err(error);
                }
                created => drop(created?),
            }
        }
        Write::ReplaceSet(mut set) => {
            let name = name(&set).to_owned();
            if let Some(version) = versions.get(&name) {
                put(&mut set, &["metadata", "resourceVersion"], version.clone());
            }
            let path = set_path(namespace, &name);
            let written = writer.replace(&path, &set).await?;
            let version = written.pointer("/metadata/resourceVersion");
            versions.insert(name, version.cloned().unwrap_or_default());
        }
        Write::DeleteSet(name) => {
            let path = set_path(namespace, &name);
            writer.delete(&path, &json!({})).await?;
        }
        Write::Status(body) => {
            let deployments = collection_of(APPS, deployment, "deployments");
            let path = format!("{deployments}/{}/status", name(deployment));
            writer.replace(&path, &body).await?;
        }
        Write::Event(note) => {
            let about = cx.events.for_reference(reference(deployment));
            about.normal("ScalingReplicaSet", &note);
        }
    }
    Ok(())
}

/// Counts a collision: another object has the name of the new set. The next hash differs then.
async fn collide(
    writer: &Writer,
    deployment: &Value,
    set: &Value,
    cx: &State,
) -> Result<(), Failed> {
    let owned = cx.sets.get(uid(deployment));
    let is_it = |one: &Value| name(one) == name(set) && model::has_template_of(one, set);
    if owned.typed().any(|one| is_it(&one)) {
        // Its own, which the cache did not have when the reconcile began.
        return Ok(());
    }
    let mut status = deployment.get("status").cloned().unwrap_or_default();
    let collisions = crate::json::int(deployment, "/status/collisionCount") + 1;
    put(&mut status, &["collisionCount"], collisions.into());
    let deployments = collection_of(APPS, deployment, "deployments");
    let written = writer.put_status(&deployments, deployment, status).await;
    written.map(drop)
}
