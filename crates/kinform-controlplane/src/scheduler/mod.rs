//! The scheduler: binds pods to nodes.
//!
//! ```text
//! pod without a node + nodes + ledger (what is taken of each) ─▶ choice (pure) ─▶ binding | Unschedulable
//!        ▲                                                                              │
//!        └──────── a node changed, a pod ended: those that wait are tried again ◀───────┘
//! ```
//!
//! One worker decides, so that two pods never get the same room. A binding counts in the ledger from
//! the moment it is decided; the watch only confirms it.
//! Pods of lower priority go if that helps: see `preempt.rs`.
//! Not considered: affinity to pods, topology spread, volumes, host ports, disruption budgets.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler`.

mod choice;
pub(crate) mod fit;
mod ledger;
mod preempt;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, DecodedValues, Enqueue, Error, Handlers, Informer, Obj, ObjectKey,
    Priority, Reconciler, Target,
};
use serde_json::json;

use self::choice::{Choice, choose};
use self::ledger::Ledger;
use self::preempt::Preemption;
use crate::clock::stamp;
use crate::frame::Frame;
use crate::pods::{condition, is_active, node as node_of};
use crate::writer::{Failed, Writer, collection};

const NAME: &str = "default-scheduler";
const MANAGER: &str = "kube-scheduler";
/// The user whose client the scheduler writes with.
pub(crate) const USER: &str = "system:kube-scheduler";

/// The treatment of pods in a cluster without any node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutNodes {
    /// They wait in silence: the kubelet is about to make a node.
    Wait,
    /// They are unschedulable.
    Tell,
}

/// The context of every reconcile.
struct State {
    without_nodes: WithoutNodes,
    frame: Frame,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    ledger: Arc<Mutex<Ledger>>,
    waiting: Waiting,
    events: EventRecorder,
}

/// The pods that found no node.
#[derive(Clone, Default)]
struct Waiting(Arc<Mutex<BTreeSet<ObjectKey>>>);

impl Waiting {
    fn all(&self) -> Vec<ObjectKey> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.iter().cloned().collect()
    }

    fn add(&self, key: &ObjectKey) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(key.clone());
    }

    fn remove(&self, key: &ObjectKey) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(key);
    }
}

/// Makes the scheduler.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(
    frame: &Frame,
    events: EventRecorder,
    without_nodes: WithoutNodes,
) -> Result<Reconciler, Error> {
    let pods: Informer<Pod> = frame.factory.informer();
    let nodes: Informer<Node> = frame
        .factory
        .select(Target::new())
        .decoded_values(DecodedValues::All)
        .build();
    let (ledger, waiting) = (Arc::<Mutex<Ledger>>::default(), Waiting::default());
    let (of_nodes, of_pods, gone) = (waiting.clone(), waiting.clone(), waiting.clone());
    let controller = Controller::of(&pods)
        .watches(&nodes, move |_| {
            of_nodes.all().into_iter().map(Enqueue::from)
        })
        .named("scheduler")
        .client(frame.client_of(USER))
        .context(State {
            without_nodes,
            frame: frame.clone(),
            nodes,
            pods: pods.clone(),
            ledger: Arc::clone(&ledger),
            waiting,
            events,
        })
        .on_gone(move |key, _| {
            gone.remove(&key);
            std::future::ready(Ok::<_, Failed>(Action::await_change()))
        })
        .shutdown_on(frame.stop.clone());
    let queue = controller.queue();
    keep(&pods, &ledger, move || {
        queue.add_all(of_pods.all(), Priority::Normal);
    })?;
    Ok(controller.reconciling(schedule))
}

/// Keeps the ledger in step with the cache, and calls `freed` when a pod leaves its node.
fn keep(
    pods: &Informer<Pod>,
    ledger: &Arc<Mutex<Ledger>>,
    freed: impl Fn() + Send + Sync + 'static,
) -> Result<(), Error> {
    let freed = Arc::new(freed);
    let [added, updated, deleted] = [(); 3].map(|()| (Arc::clone(ledger), Arc::clone(&freed)));
    let seen = |(ledger, freed): &(Arc<Mutex<Ledger>>, Arc<_>), pod: &Obj<Pod>| {
        let Ok(typed) = pod.typed() else { return };
        if lock(ledger).see(&pod.key(), &typed) {
            call(&**freed);
        }
    };
    let handlers = Handlers::new()
        .named("scheduler-ledger")
        .on_add(move |pod| seen(&added, pod.object()))
        .on_update(move |_, pod| seen(&updated, pod))
        .on_delete(move |pod| {
            if lock(&deleted.0).remove(&pod.object().key()) {
                call(&*deleted.1);
            }
        });
    // The informer keeps the handler.
    drop(pods.add_handler(handlers)?);
    Ok(())
}

fn call(freed: &impl Fn()) {
    freed();
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    // No code under this lock panics in the middle of a change.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn schedule(pod: Arc<Pod>, cx: Ctx<State>) -> Result<Action, Failed> {
    let spec = pod.spec.as_ref();
    let is_mine = spec
        .and_then(|spec| spec.scheduler_name.as_deref())
        .is_none_or(|name| name == NAME);
    let is_gated = spec
        .and_then(|spec| spec.scheduling_gates.as_deref())
        .is_some_and(|gates| !gates.is_empty());
    if !is_mine || is_gated || !is_active(&pod) || !node_of(&pod).is_empty() {
        cx.waiting.remove(cx.key());
        return Ok(Action::await_change());
    }
    // Before the nodes are read: a node that comes, or room that is freed, from here on runs the pod
    // again.
    cx.waiting.add(cx.key());
    let nodes: Vec<Arc<Node>> = cx.nodes.list().typed().collect();
    let choice = {
        let mut ledger = lock(&cx.ledger);
        if ledger.has(cx.key(), &pod) {
            // Bound by an earlier run, which the cache does not show yet.
            cx.waiting.remove(cx.key());
            return Ok(Action::await_change());
        }
        let choice = choose(cx.key(), &pod, &nodes, &ledger);
        match &choice {
            Choice::Node(node) => ledger.assume(cx.key(), &pod, node),
            Choice::Preempt(preemption, _) => {
                ledger.nominate(cx.key(), &pod, &preemption.node);
            }
            Choice::Wait | Choice::Unschedulable(_) => {}
        }
        choice
    };
    match choice {
        Choice::Node(node) => {
            let bound = bind(&pod, &node, &cx).await;
            if bound.is_err() {
                lock(&cx.ledger).unassume(cx.key(), &node);
            }
            bound?;
            cx.waiting.remove(cx.key());
        }
        Choice::Preempt(preemption, why) => {
            refuse(&pod, &why, Some(&preemption.node), &cx).await?;
            evict(&pod, &preemption, &cx).await?;
        }
        // The room that they free runs it again.
        Choice::Wait => {}
        Choice::Unschedulable(why) => {
            if !nodes.is_empty() || cx.without_nodes == WithoutNodes::Tell {
                refuse(&pod, &why, None, &cx).await?;
            }
        }
    }
    Ok(Action::await_change())
}

/// The path of a pod, and its namespace and name.
fn place(pod: &Pod) -> (String, &str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let path = format!("{}/{name}", collection("/api/v1", namespace, "pods"));
    (path, namespace, name)
}

async fn bind(pod: &Pod, node: &str, cx: &Ctx<State>) -> Result<(), Failed> {
    let (path, namespace, name) = place(pod);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
        "target": {"kind": "Node", "name": node},
    });
    let writer = Writer::new(cx.client()?, MANAGER);
    match writer.create(&format!("{path}/binding"), &binding).await {
        // Gone, or bound by somebody else: the watch tells.
        Err(error) if matches!(error.code(), Some(404 | 409)) => {
            lock(&cx.ledger).unassume(cx.key(), node);
            return Ok(());
        }
        bound => drop(bound?),
    }
    let note = format!("Successfully assigned {namespace}/{name} to {node}");
    let about = cx.events.for_object(pod).action("Binding");
    about.normal("Scheduled", &note);
    Ok(())
}

/// Deletes the pods that go for another one.
async fn evict(pod: &Pod, preemption: &Preemption, cx: &Ctx<State>) -> Result<(), Failed> {
    let writer = Writer::new(cx.client()?, MANAGER);
    for key in &preemption.victims {
        let victim = cx.pods.get(key).and_then(|victim| victim.typed().ok());
        let Some(victim) = victim else {
            continue;
        };
        let (path, ..) = place(&victim);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
            "lastProbeTime": null, "lastTransitionTime": stamp(cx.frame.clock.now()),
            "observedGeneration": victim.metadata.generation,
        });
        let patch = json!({"status": {"conditions": [condition]}});
        match writer.patch(&format!("{path}/status"), &patch).await {
            // It went by itself.
            Err(error) if error.code() == Some(404) => continue,
            patched => drop(patched?),
        }
        writer.delete(&path, &json!({})).await?;
        lock(&cx.ledger).end(key);
        let (by, node) = (pod.metadata.uid.as_deref(), &preemption.node);
        let note = format!("Preempted by pod {} on node {node}", by.unwrap_or_default());
        let about = cx.events.for_object(&*victim).action("Preempting");
        about.normal("Preempted", &note);
    }
    Ok(())
}

/// Tells why a pod found no node, unless that was told; with the node that it waits for.
async fn refuse(
    pod: &Pod,
    why: &str,
    nominated: Option<&str>,
    cx: &Ctx<State>,
) -> Result<(), Failed> {
    let told = condition(pod, "PodScheduled");
    if told.is_some_and(|told| told.status == "False" && told.message.as_deref() == Some(why)) {
        return Ok(());
    }
    let about = cx.events.for_object(pod).action("Scheduling");
    about.warning("FailedScheduling", why);
    let mut patch = json!({"status": {"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why,
        "lastProbeTime": null, "lastTransitionTime": stamp(cx.frame.clock.now()),
        "observedGeneration": pod.metadata.generation,
    }]}});
    if let Some(node) = nominated {
        patch["status"]["nominatedNodeName"] = node.into();
    }
    let path = format!("{}/status", place(pod).0);
    let writer = Writer::new(cx.client()?, MANAGER);
    match writer.patch(&path, &patch).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        patched => patched.map(drop),
    }
}
