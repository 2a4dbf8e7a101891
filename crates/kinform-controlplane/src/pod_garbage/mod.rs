//! The controller that deletes pods that nobody ends: of nodes that are gone or out of service, those
//! that were deleted before they had a node, and ended ones beyond a number.
//!
//! ```text
//! pod + its node, or since when that is missing ─▶ decide (pure) ─▶ phase Failed, DELETE without grace
//! ended pods > 12,500 ─▶ the oldest of them ───────────────────────▶
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podgc`. Difference: pods are looked at when they
//! or their nodes change, there every 20 s.

mod plan;

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::{
    Action, Controller, Ctx, DecodedValues, Enqueue, Error, Index, IndexReader, Informer, Obj,
    ObjectKey, Reconciler, Target,
};
use serde_json::json;

use self::plan::{Decision, PERIOD, Place, QUARANTINE, Why, decide, excess, has_ended};
use crate::clock::left;
use crate::frame::Frame;
use crate::pods::{self, Pods, disruption_target, is_finished, node as node_of};
use crate::writer::{Failed, Writer};

/// BOUND: ended pods that are kept, as upstream's default.
const THRESHOLD: usize = 12_500;
const ENDED: &str = "ended";

/// The nodes that are missing.
type Missing = Arc<Mutex<plan::Missing>>;

/// The context of every reconcile.
struct State {
    frame: Frame,
    nodes: Informer<Node>,
    ended: IndexReader<Pod>,
    missing: Missing,
    /// The time at which ended pods were deleted last.
    swept: Mutex<Option<Timestamp>>,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame) -> Result<Reconciler, Error> {
    let pods: Informer<Pod> = frame.factory.informer();
    let nodes: Informer<Node> = frame
        .factory
        .select(Target::new())
        .decoded_values(DecodedValues::All)
        .build();
    let missing = Missing::default();
    let state = State {
        frame: frame.clone(),
        nodes: nodes.clone(),
        ended: pods.add_index(Index::by(ENDED, |pod: &Pod| {
            has_ended(pod).then(|| ENDED.to_owned())
        }))?,
        missing: Arc::clone(&missing),
        swept: Mutex::default(),
    };
    let (of_nodes, cache) = (frame.pods.clone(), nodes.clone());
    Ok(Controller::of(&pods)
        .watches(&nodes, move |node| {
            concerned(&of_nodes, &cache, &missing, node)
        })
        .named("pod-garbage-collector-controller")
        .client(frame.client("pod-garbage-collector"))
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

/// The pods of a node that went, or is out of service.
fn concerned(
    pods: &Pods,
    nodes: &Informer<Node>,
    missing: &Missing,
    node: &Obj<Node>,
) -> Vec<Enqueue> {
    let is_there = nodes.get(&node.key()).is_some();
    if is_there {
        let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.forget(node.name());
    }
    let is_out = node
        .typed()
        .is_ok_and(|node| plan::is_out_of_service(&node));
    if is_there && !is_out {
        return Vec::new();
    }
    let pods = pods.keys_on_node(node.name());
    pods.into_iter().map(Enqueue::from).collect()
}

impl State {
    /// The time since when the node of a pod is missing, as far as this pod is concerned.
    fn missing_since(&self, pod: &Pod, now: Timestamp) -> Timestamp {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let has_pods = |node: &str| !self.frame.pods.keys_on_node(node).is_empty();
        missing.since(pod, now, has_pods)
    }

    fn forget_missing(&self, node: &str) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.forget(node);
    }

    /// Begins to delete ended pods, or returns the time until that may be.
    fn sweep_begins(&self, now: Timestamp) -> Result<(), std::time::Duration> {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        match swept.and_then(|swept| left(swept, PERIOD, now)) {
            Some(left) => Err(left),
            None => {
                *swept = Some(now);
                Ok(())
            }
        }
    }
}

async fn reconcile(pod: Arc<Pod>, cx: Ctx<State>) -> Result<Action, Failed> {
    let (name, now) = (node_of(&pod), cx.frame.clock.now());
    let node = cx.nodes.get(&ObjectKey::new(None::<&str>, name));
    let node = node.and_then(|node| node.typed().ok());
    let place = match &node {
        _ if name.is_empty() => Place::None,
        Some(node) => Place::Node(node),
        None => Place::Missing(cx.missing_since(&pod, now)),
    };
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    match decide(&pod, place, now) {
        Decision::Look(later) => return Ok(Action::requeue(later)),
        Decision::Keep if has_ended(&pod) => return sweep(&writer, &cx).await,
        Decision::Keep => {}
        Decision::Delete(Why::NodeGone) => {
            // The cache may be late.
            let path = format!("/api/v1/nodes/{name}");
            if writer.read(&path).await?.is_some() {
                cx.forget_missing(name);
                return Ok(Action::requeue(QUARANTINE));
            }
            end(&writer, &pod, Why::NodeGone, now).await?;
        }
        Decision::Delete(Why::Unended) => end(&writer, &pod, Why::Unended, now).await?,
    }
    Ok(Action::await_change())
}

/// Deletes the ended pods that are too many, all at once.
async fn sweep(writer: &Writer, cx: &State) -> Result<Action, Failed> {
    let (ended, now) = (cx.ended.get(ENDED), cx.frame.clock.now());
    if ended.len() <= THRESHOLD {
        return Ok(Action::await_change());
    }
    if let Err(later) = cx.sweep_begins(now) {
        return Ok(Action::requeue(later));
    }
    for pod in excess(ended.typed().collect(), THRESHOLD) {
        end(writer, &pod, Why::Unended, now).await?;
    }
    Ok(Action::await_change())
}

/// Lets a pod have failed, unless it ended, and deletes it without grace.
async fn end(writer: &Writer, pod: &Pod, why: Why, now: Timestamp) -> Result<(), Failed> {
    let uid = pod.metadata.uid.as_deref();
    if !is_finished(pod) {
        let mut patch = json!({"metadata": {"uid": uid}, "status": {"phase": "Failed"}});
        if why == Why::NodeGone {
            let message = "PodGC: node no longer exists";
            let condition = disruption_target(pod, "DeletionByPodGC", message, now);
            patch["status"]["conditions"] = json!([condition]);
        }
        match writer.patch(&pods::status_path(pod), &patch).await {
            // It is gone, or another pod.
            Err(error) if matches!(error.code(), Some(404 | 409)) => return Ok(()),
            patched => drop(patched?),
        }
    }
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    match writer.delete(&pods::path(pod), &options).await {
        Err(error) if error.code() == Some(409) => Ok(()),
        deleted => deleted.map(drop),
    }
}
