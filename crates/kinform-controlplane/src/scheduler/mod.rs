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
//! Pods of lower priority go if that helps: see `preempt.rs`. A pod that minds others (affinity, topology
//! spread) is tried again when one of them changes. One whose claims wait for its node is bound to it
//! when they are bound: `claims.rs`, `storage.rs`.
//! Not considered: host ports.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler`.

mod affinity;
mod choice;
mod claims;
#[cfg(test)]
mod constraint_tests;
pub(crate) mod fit;
mod incoming;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod neighbours;
mod preempt;
mod spread;
mod storage;
mod waiting;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, DecodedValues, Enqueue, Error, Informer, ObjectKey, Reconciler, Target,
};
use serde_json::{Value, json};

use self::choice::{Choice, choose};
use self::claims::{Needs, Progress, Step};
use self::fit::name;
use self::incoming::Incoming;
use self::ledger::{Ledger, lock};
use self::neighbours::Caches;
use self::preempt::Preemption;
use self::storage::{BIND_WITHIN, Reservation, Stores, take};
use self::waiting::{Waiting, hear_namespaces, hear_pods};
use crate::clock::{left, stamp};
use crate::frame::Frame;
use crate::pods::{self, condition, is_active, labels_of, node as node_of};
use crate::writer::{Failed, Writer};

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
    namespaces: Informer<Namespace>,
    budgets: Informer<Value>,
    ledger: Arc<Mutex<Ledger>>,
    stores: Stores,
    waiting: Waiting,
    events: EventRecorder,
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
    let ledger = Arc::<Mutex<Ledger>>::default();
    let stores = Stores::new(frame);
    let budgets: Informer<PodDisruptionBudget> = frame.factory.informer();
    let namespaces: Informer<Namespace> = frame.factory.informer();
    let controller = Controller::of(&pods);
    let waiting = Waiting::new(controller.queue());
    hear_pods(&pods, &ledger, &waiting)?;
    hear_namespaces(&namespaces, &waiting)?;
    let [of_nodes, of_claims, of_volumes, of_classes] = [(); 4].map(|()| waiting.clone());
    let (gone, reserved) = (waiting.clone(), stores.clone());
    let controller = controller
        .watches(&nodes, move |_| {
            of_nodes.all().into_iter().map(Enqueue::from)
        })
        .watches(&stores.claims, move |_| {
            of_claims.minding_claims().into_iter().map(Enqueue::from)
        })
        .watches(&stores.volumes, move |_| {
            of_volumes.minding_claims().into_iter().map(Enqueue::from)
        })
        .watches(&stores.classes, move |_| {
            of_classes.minding_claims().into_iter().map(Enqueue::from)
        })
        .named("scheduler")
        .client(frame.client_of(USER))
        .context(State {
            without_nodes,
            frame: frame.clone(),
            nodes,
            pods,
            namespaces,
            budgets: budgets.cast(),
            ledger,
            stores,
            waiting,
            events,
        })
        .on_gone(move |key, _| {
            gone.remove(&key);
            reserved.release(&key);
            std::future::ready(Ok::<_, Failed>(Action::await_change()))
        })
        .shutdown_on(frame.stop.clone());
    Ok(controller.reconciling(schedule))
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
    cx.waiting.add(cx.key(), &pod);
    if lock(&cx.ledger).has(cx.key(), &pod) {
        return match cx.stores.reserved(cx.key(), &pod) {
            Some(reservation) => settle(&pod, reservation, &cx).await,
            None => {
                // Bound by an earlier run, which the cache does not show yet.
                cx.waiting.remove(cx.key());
                Ok(Action::await_change())
            }
        };
    }
    let nodes: Vec<Arc<Node>> = cx.nodes.list().typed().collect();
    let mut needs = match cx.stores.needs(&pod) {
        Err(why) if !nodes.is_empty() => {
            give_back(&cx, Ledger::renounce);
            let why = format!("0/{} nodes are available: {why}. not found", nodes.len());
            refuse(&pod, &why, None, &cx).await?;
            return Ok(Action::await_change());
        }
        needs => needs.unwrap_or_default(),
    };
    needs.ask(&nodes);
    match decide(&pod, (&nodes, &needs), &cx) {
        Choice::Node(node) => {
            let chosen = nodes.iter().find(|one| name(one) == node);
            let steps = chosen.and_then(|chosen| needs.steps(chosen).ok());
            return put(&pod, &node, &steps.unwrap_or_default(), &cx).await;
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

/// Decides about a pod, and enters the decision.
fn decide(pod: &Pod, (nodes, needs): (&[Arc<Node>], &Needs), cx: &Ctx<State>) -> Choice {
    let labels = |key: &ObjectKey| Some(labels_of(cx.pods.get(key)?.labels()));
    let of_namespace = |name: &str| {
        let namespace = cx.namespaces.get(&ObjectKey::new(None::<&str>, name));
        namespace.map_or_else(BTreeMap::new, |namespace| labels_of(namespace.labels()))
    };
    let caches = Caches {
        pods: &labels,
        namespaces: &of_namespace,
        budgets: &|| cx.budgets.list().typed().collect(),
    };
    let mut ledger = lock(&cx.ledger);
    let choice = {
        let incoming = Incoming::new(cx.key(), pod, (nodes, needs), &ledger, caches);
        choose(&incoming, &ledger)
    };
    let was_freed = match &choice {
        Choice::Node(node) => ledger.assume(cx.key(), pod, node),
        Choice::Preempt(preemption, _) => ledger.nominate(cx.key(), pod, &preemption.node),
        Choice::Wait => false,
        Choice::Unschedulable(_) => ledger.renounce(cx.key()),
    };
    drop(ledger);
    if was_freed {
        cx.waiting.wake_others(cx.key());
    }
    choice
}

/// Gives back the room that the ledger keeps for the pod: the others are tried again.
fn give_back(cx: &Ctx<State>, change: impl FnOnce(&mut Ledger, &ObjectKey) -> bool) {
    let was_freed = change(&mut lock(&cx.ledger), cx.key());
    if was_freed {
        cx.waiting.wake_others(cx.key());
    }
}

/// Binds a pod to its node; if its claims are to be bound before, keeps the node for it.
async fn put(pod: &Pod, node: &str, steps: &[Step], cx: &Ctx<State>) -> Result<Action, Failed> {
    if steps.is_empty() {
        let bound = bind(pod, node, cx).await;
        // A failure comes back by itself, after its delay.
        cx.waiting.remove(cx.key());
        if bound.is_err() {
            give_back(cx, |ledger, key| ledger.unassume(key, node));
        }
        bound?;
        return Ok(Action::await_change());
    }
    let now = cx.frame.clock.now();
    // Before the writes: their events run the pod again.
    cx.stores.reserve(cx.key(), pod, node, now);
    let taken = take(steps, node, &Writer::new(cx.client()?, MANAGER)).await;
    if taken.is_err() {
        cx.waiting.remove(cx.key());
        cx.stores.release(cx.key());
        give_back(cx, |ledger, key| ledger.unassume(key, node));
    }
    taken?;
    Ok(Action::requeue(BIND_WITHIN))
}

/// Binds a pod to the node that is kept for it, if its claims are bound and the node still fits.
async fn settle(
    pod: &Pod,
    Reservation { node, since, .. }: Reservation,
    cx: &Ctx<State>,
) -> Result<Action, Failed> {
    let kept = cx.nodes.get(&ObjectKey::new(None::<&str>, &node));
    let kept = kept.and_then(|kept| kept.typed().ok());
    let left = left(since, BIND_WITHIN, cx.frame.clock.now());
    match (Progress::of(cx.stores.needs(pod), kept.as_deref()), left) {
        (Progress::Bound, _) => {
            cx.stores.release(cx.key());
            return put(pod, &node, &[], cx).await;
        }
        (Progress::Open, Some(left)) => return Ok(Action::requeue(left)),
        (Progress::Open, None) | (Progress::Lost, _) => {}
    }
    cx.stores.release(cx.key());
    give_back(cx, |ledger, key| ledger.unassume(key, &node));
    Ok(Action::requeue(Duration::ZERO))
}

async fn bind(pod: &Pod, node: &str, cx: &Ctx<State>) -> Result<(), Failed> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": pod.metadata.uid},
        "target": {"kind": "Node", "name": node},
    });
    let writer = Writer::new(cx.client()?, MANAGER);
    let path = format!("{}/binding", pods::path(pod));
    match writer.create(&path, &binding).await {
        // Gone, or bound by somebody else: the watch tells.
        Err(error) if matches!(error.code(), Some(404 | 409)) => {
            give_back(cx, |ledger, key| ledger.unassume(key, node));
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
        let why = format!("{NAME}: preempting to accommodate a higher priority pod");
        let now = cx.frame.clock.now();
        let condition = pods::disruption_target(&victim, "PreemptionByScheduler", &why, now);
        let patch = json!({"status": {"conditions": [condition]}});
        match writer.patch(&pods::status_path(&victim), &patch).await {
            // It went by itself.
            Err(error) if error.code() == Some(404) => continue,
            patched => drop(patched?),
        }
        writer.delete(&pods::path(&victim), &json!({})).await?;
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
    let writer = Writer::new(cx.client()?, MANAGER);
    match writer.patch(&pods::status_path(pod), &patch).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        patched => patched.map(drop),
    }
}
