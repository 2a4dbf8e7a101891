//! The controller of nodes: it notices lost ones, taints, and marks their pods.
//!
//! ```text
//! node + lease ─▶ Cluster: alive? ──lost──▶ conditions Unknown ─▶ its pods are not ready
//!                                └────────▶ taints NoSchedule, labels ─▶ taint NoExecute, at its turn
//! ```
//!
//! `health.rs` has the signs of life, `taints.rs` the taints, `cluster.rs` whose turn it is. What the
//! taint NoExecute does to pods is the matter of `taint_eviction`.
//!
//! The scripted kubelet renews no lease and posts a status once, so that no time passes in vain under
//! paused time. Beside it, a node is watched only if it has a lease in `kube-node-lease`, which
//! somebody else made. Without it every node is watched, as upstream does.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/nodelifecycle`. Differences: a node is lost at
//! the end of its grace period, there at the next of the looks every 5 s; added and removed taints
//! are one write.

mod cluster;
mod health;
mod taints;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Informer, ObjectKey, Reconciler, Target};
use serde_json::{Value, json};

use self::cluster::{Cluster, Life, Turn};
use self::taints::{NOT_READY, UNREACHABLE};
use crate::clock::stamp;
use crate::frame::Frame;
use crate::json::{name, text, uid};
use crate::pods::{self, condition};
use crate::writer::{Failed, Writer};

const MANAGER: &str = "kube-controller-manager";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "kube-node-lease";
/// The time between two looks at a node that is not ready: the rest of the cluster decides, too.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// The nodes that must give signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    All,
    /// Those with a lease.
    Leased,
}

/// The context of every reconcile.
struct State {
    frame: Frame,
    nodes: Informer<Value>,
    leases: Informer<Lease>,
    watched: Watched,
    cluster: Mutex<Cluster>,
    events: EventRecorder,
}

impl State {
    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        // No code under this lock panics in the middle of a change.
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the last renewal of a node's lease.
    fn renewed(&self, node: &str) -> Option<Timestamp> {
        let lease = self.leases.get(&ObjectKey::new(Some(LEASES), node))?;
        let lease = lease.typed().ok()?;
        Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
    }

    fn tell(&self, node: &str, uid: &str, reason: &str, note: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        self.events.for_reference(about).normal(reason, note);
    }
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame, events: EventRecorder, watched: Watched) -> Reconciler {
    let nodes: Informer<Node> = frame.factory.informer();
    let nodes: Informer<Value> = nodes.cast();
    let leases: Informer<Lease> = frame
        .factory
        .select(Target::new())
        .namespaces([LEASES])
        .build();
    let state = State {
        frame: frame.clone(),
        nodes: nodes.clone(),
        leases: leases.clone(),
        watched,
        cluster: Mutex::default(),
        events,
    };
    Controller::of(&nodes)
        .watches(&leases, |lease| {
            [ObjectKey::new(None::<&str>, lease.name())]
        })
        .named("node-lifecycle-controller")
        .client(frame.client("node-controller"))
        .context(state)
        .on_gone(gone)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

async fn gone(node: ObjectKey, cx: Ctx<State>) -> Result<Action, Failed> {
    let node = node.name();
    let known = cx.cluster().forget(node);
    if let Some(uid) = known {
        let note = format!("Node {node} event: Removing Node {node} from Controller");
        cx.tell(node, &uid, "RemovingNode", &note);
    }
    Ok(Action::await_change())
}

async fn reconcile(node: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let (node_name, now) = (name(&node), cx.frame.clock.now());
    let renewed = cx.renewed(node_name);
    let sight = cx.cluster().see(&node, renewed, cx.watched, now);
    if sight.is_new {
        let note = format!("Node {node_name} event: Registered Node {node_name} in Controller");
        cx.tell(node_name, uid(&node), "RegisteredNode", &note);
    }
    let writer = Writer::new(cx.client()?, MANAGER);
    let mut current = Value::clone(&node);
    if sight.life == Life::Lost
        && let Some(status) = health::lost(&current, now)
        && let Some(lost) = writer.put_status(NODES, &current, status).await?
    {
        if health::ready(&current) == Some("True") {
            let note = format!("Node {node_name} status is now: NodeNotReady");
            cx.tell(node_name, uid(&node), "NodeNotReady", &note);
            cx.cluster().mark(node_name, true);
        }
        current = lost;
    }
    if let Some(taints) = taints::against_scheduling(&current, now) {
        current = put_taints(&writer, &current, taints).await?;
    }
    if let Some(labels) = taints::missing_labels(&current) {
        let patch = json!({"metadata": {"labels": labels}});
        current = writer.patch(&path(&current), &patch).await?;
    }
    if cx.cluster().is_freshly_lost(node_name) {
        mark_pods(&writer, node_name, &cx).await?;
        cx.cluster().mark(node_name, false);
    }
    let later = taint_for_eviction(&writer, &current, &cx).await?;
    let left = match sight.life {
        Life::Left(left) => Some(left),
        Life::Unwatched | Life::Lost => None,
    };
    let next = left.into_iter().chain(later).min();
    Ok(next.map_or(Action::await_change(), Action::requeue))
}

/// Gives a node the taint that evicts, takes it back, or waits. Returns the time until another look.
async fn taint_for_eviction(
    writer: &Writer,
    node: &Value,
    cx: &State,
) -> Result<Option<Duration>, Failed> {
    let now = cx.frame.clock.now();
    let Some(ready) = health::ready(node) else {
        return Ok(None);
    };
    let (key, opposite) = match ready {
        "True" => {
            if let Some(taints) = taints::for_eviction(node, None, now) {
                put_taints(writer, node, taints).await?;
            }
            return Ok(None);
        }
        "False" => (NOT_READY, UNREACHABLE),
        _ => (UNREACHABLE, NOT_READY),
    };
    let turn = cx.cluster().turn(name(node), cx.nodes.store().len(), now);
    // A node that is tainted already gets the other taint at once.
    let turn = match taints::evicts(node, key) || taints::evicts(node, opposite) {
        true if turn != Turn::Never => Turn::Now,
        _ => turn,
    };
    let wanted = match turn {
        Turn::Now => Some(key),
        Turn::Never => None,
        Turn::Wait => return Ok(Some(LOOK_PERIOD)),
        Turn::After(wait) => return Ok(Some(wait.min(LOOK_PERIOD))),
    };
    if let Some(taints) = taints::for_eviction(node, wanted, now) {
        put_taints(writer, node, taints).await?;
        if turn == Turn::Now && !taints::evicts(node, opposite) {
            cx.cluster().taken(name(node), now);
        }
    }
    Ok(Some(LOOK_PERIOD))
}

fn path(node: &Value) -> String {
    format!("{NODES}/{}", name(node))
}

async fn put_taints(writer: &Writer, node: &Value, taints: Value) -> Result<Value, Failed> {
    let version = text(node, "/metadata/resourceVersion");
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
    writer.patch(&path(node), &patch).await
}

/// Marks the pods of a lost node as not ready.
async fn mark_pods(writer: &Writer, node: &str, cx: &State) -> Result<(), Failed> {
    for pod in cx.frame.pods.on_node(node) {
        if condition(&pod, "Ready").is_none_or(|ready| ready.status == "False") {
            continue;
        }
        let patch = unready(&pod, cx.frame.clock.now());
        match writer.patch(&pods::status_path(&pod), &patch).await {
            Err(error) if matches!(error.code(), Some(404 | 409)) => continue,
            marked => drop(marked?),
        }
        let about = cx.events.for_object(&*pod);
        about.warning("NodeNotReady", "Node is not ready");
    }
    Ok(())
}

/// The patch that makes a pod not ready.
fn unready(pod: &Pod, now: Timestamp) -> Value {
    json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [{
        "type": "Ready", "status": "False", "lastTransitionTime": stamp(now),
        "observedGeneration": pod.metadata.generation,
    }]}})
}
