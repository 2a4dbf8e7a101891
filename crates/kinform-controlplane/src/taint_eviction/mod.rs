//! The controller that deletes pods from nodes with a taint NoExecute.
//!
//! ```text
//! node whose taints changed ─▶ its pods ─▶ decide (pure) ─▶ condition DisruptionTarget, DELETE
//!                                              └─▶ a look at the end of a toleration
//! ```
//!
//! Times of tolerations begin when this process sees the taint, as upstream's: a restart begins them
//! anew.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/tainteviction`.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Taint};
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, DecodedValues, Enqueue, Informer, Obj, ObjectKey, Reconciler, Target,
};
use serde_json::json;

use self::plan::{Decision, Fate, decide};
use crate::frame::Frame;
use crate::pods::{self, Pods, disruption_target, node as node_of};
use crate::scheduler::fit::taints as taints_of;
use crate::writer::{Failed, Writer};

const WORKERS: usize = 8;

/// The context of every reconcile.
struct State {
    frame: Frame,
    nodes: Informer<Node>,
    /// The pods that do not stay, with their UIDs.
    /// BOUND: one entry a pod on a tainted node; removed with it.
    fates: Mutex<HashMap<ObjectKey, (Option<String>, Fate)>>,
    events: EventRecorder,
}

impl State {
    fn fates(&self) -> MutexGuard<'_, HashMap<ObjectKey, (Option<String>, Fate)>> {
        // No code under this lock panics in the middle of a change.
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, pod: &ObjectKey, what: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name().to_owned()),
            namespace: pod.namespace().map(str::to_owned),
            ..ObjectReference::default()
        };
        let note = format!("{what} Pod {pod}");
        let about = self.events.for_reference(about);
        about.normal("TaintManagerEviction", &note);
    }
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Reconciler {
    let pods: Informer<Pod> = frame.factory.informer();
    let nodes: Informer<Node> = frame
        .factory
        .select(Target::new())
        .decoded_values(DecodedValues::All)
        .build();
    let tainted = Tainted {
        pods: frame.pods.clone(),
        nodes: nodes.clone(),
        taints: Mutex::default(),
    };
    let state = State {
        frame: frame.clone(),
        nodes: nodes.clone(),
        fates: Mutex::default(),
        events,
    };
    Controller::of(&pods)
        .watches(&nodes, move |node| tainted.concerned(node))
        .named("taint-eviction-controller")
        .client(frame.client("node-controller"))
        .workers(WORKERS)
        .context(state)
        .on_gone(gone)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

/// The nodes whose taints evict.
struct Tainted {
    pods: Pods,
    nodes: Informer<Node>,
    /// BOUND: one entry a tainted node; removed with it.
    taints: Mutex<HashMap<ObjectKey, Vec<Taint>>>,
}

impl Tainted {
    /// The pods of a node, if its taints that evict changed.
    fn concerned(&self, node: &Obj<Node>) -> Vec<Enqueue> {
        let key = node.key();
        let taints = evicting(&self.nodes, &key).unwrap_or_default();
        let mut known = self.taints.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = match taints.is_empty() {
            true => known.remove(&key).is_some(),
            false => known.insert(key.clone(), taints.clone()) != Some(taints),
        };
        drop(known);
        if !is_new {
            return Vec::new();
        }
        let pods = self.pods.keys_on_node(key.name());
        pods.into_iter().map(Enqueue::from).collect()
    }
}

/// The taints of a node that evict; `None` if there is no such node.
fn evicting(nodes: &Informer<Node>, node: &ObjectKey) -> Option<Vec<Taint>> {
    let node = nodes.get(node)?.typed().ok()?;
    let evicting = taints_of(&node)
        .iter()
        .filter(|taint| taint.effect == "NoExecute");
    Some(evicting.cloned().collect())
}

async fn gone(pod: ObjectKey, cx: Ctx<State>) -> Result<Action, Failed> {
    let fate = cx.fates().remove(&pod);
    if let Some((_, Fate::At(_))) = fate {
        cx.tell(&pod, "Cancelling deletion of");
    }
    Ok(Action::await_change())
}

async fn reconcile(pod: Arc<Pod>, cx: Ctx<State>) -> Result<Action, Failed> {
    let (key, node) = (cx.key(), node_of(&pod));
    if node.is_empty() {
        return Ok(Action::await_change());
    }
    let known = cx.fates().get(key).cloned();
    // Another pod of that name begins anew.
    let fate = known
        .filter(|(uid, _)| *uid == pod.metadata.uid)
        .map(|(_, fate)| fate);
    let taints = evicting(&cx.nodes, &ObjectKey::new(None::<&str>, node));
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.as_deref());
    let now = cx.frame.clock.now();
    match decide(
        taints.as_deref(),
        tolerations.unwrap_or_default(),
        fate,
        now,
    ) {
        Decision::Stay => {}
        Decision::Spare => {
            cx.fates().remove(key);
            cx.tell(key, "Cancelling deletion of");
        }
        Decision::Wait(end, left) => {
            let fate = (pod.metadata.uid.clone(), Fate::At(end));
            cx.fates().insert(key.clone(), fate);
            return Ok(Action::requeue(left));
        }
        Decision::Delete { was_to_wait } => {
            if was_to_wait {
                cx.fates().remove(key);
                cx.tell(key, "Cancelling deletion of");
            }
            if cx.failures() == 0 {
                cx.tell(key, "Marking for deletion");
            }
            delete(&pod, &cx).await?;
            let fate = (pod.metadata.uid.clone(), Fate::Deleted);
            cx.fates().insert(key.clone(), fate);
        }
    }
    Ok(Action::await_change())
}

/// Says why a pod goes, and deletes it.
async fn delete(pod: &Pod, cx: &Ctx<State>) -> Result<(), Failed> {
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let condition = disruption_target(
        pod,
        "DeletionByTaintManager",
        "Taint manager: deleting due to NoExecute taint",
        cx.frame.clock.now(),
    );
    let uid = pod.metadata.uid.as_deref();
    let patch = json!({"metadata": {"uid": uid}, "status": {"conditions": [condition]}});
    match writer.patch(&pods::status_path(pod), &patch).await {
        // It is gone, or another pod.
        Err(error) if matches!(error.code(), Some(404 | 409)) => return Ok(()),
        patched => drop(patched?),
    }
    let options = json!({"preconditions": {"uid": uid}});
    match writer.delete(&pods::path(pod), &options).await {
        Err(error) if error.code() == Some(409) => Ok(()),
        deleted => deleted.map(drop),
    }
}
