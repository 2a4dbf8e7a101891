//! The decision about a DaemonSet's pods: nodes that get one, and pods that go.
//!
//! ```text
//! template + nodes + pods + now ─▶ manage: one pod a node ─nothing to do─▶ roll: old pods go, or new ones surge
//! ```
//!
//! Missing and wrong pods come first; an update goes on when they are in order. Nodes are looked at
//! in the order of their names.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/daemon/daemon_controller.go` (`manage`),
//! `update.go` (`rollingUpdate`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;

use super::place::{Fit, Template, target};
use crate::json::text;
use crate::pods::{
    is_available, is_finished, is_ready, is_terminating, min_ready, node as node_of, phase,
};
use crate::scheduler::fit::name;
use crate::share::{Rounding, share};

/// The state that a decision is made of.
pub(super) struct Input<'i> {
    pub(super) set: &'i Value,
    pub(super) template: &'i Template,
    pub(super) nodes: &'i [Arc<Node>],
    /// The set's pods.
    pub(super) pods: &'i [Arc<Pod>],
    pub(super) now: Timestamp,
}

/// The work of one reconcile.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The nodes that get a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that ended, by their nodes: they are deleted, failed ones not too often.
    pub(super) ended: Vec<(String, Arc<Pod>)>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty() && self.ended.is_empty()
    }
}

/// The pods of each node. A node without pods is not there.
pub(super) type ByNode = BTreeMap<String, Vec<Arc<Pod>>>;

/// Decides the work of one reconcile.
pub(super) fn plan(input: &Input<'_>) -> Plan {
    let by_node = by_node(input.pods);
    let plan = manage(input, &by_node);
    let is_rolling = text(input.set, "/spec/updateStrategy/type") == "RollingUpdate";
    if !plan.is_empty() || !is_rolling {
        return plan;
    }
    roll(input, by_node)
}

/// Sorts pods by their nodes, each node's pods in the order in which they are kept. Pods that ended
/// and are being deleted do not count.
pub(super) fn by_node(pods: &[Arc<Pod>]) -> ByNode {
    let mut by_node = ByNode::new();
    for pod in pods {
        let is_over = is_terminating(pod) && is_finished(pod);
        if let Some(node) = target(pod).filter(|_| !is_over) {
            let pods = by_node.entry(node.to_owned()).or_default();
            pods.push(Arc::clone(pod));
        }
    }
    for pods in by_node.values_mut() {
        pods.sort_by_cached_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (node_of(pod).is_empty(), created, pod.metadata.name.clone())
        });
    }
    by_node
}

fn sorted(nodes: &[Arc<Node>]) -> BTreeMap<&str, &Node> {
    let named = nodes.iter().map(|node| (name(node), &**node));
    named.collect()
}

fn surge(set: &Value, desired: i64) -> i64 {
    let surge = set.pointer("/spec/updateStrategy/rollingUpdate/maxSurge");
    share(surge, desired, Rounding::Up)
}

/// Returns whether an update creates a node's new pod before its old one goes.
fn surges(set: &Value) -> bool {
    text(set, "/spec/updateStrategy/type") == "RollingUpdate" && surge(set, 100) > 0
}

fn manage(input: &Input<'_>, by_node: &ByNode) -> Plan {
    let mut plan = Plan::default();
    let nodes = sorted(input.nodes);
    for (&name, node) in &nodes {
        let fit = input.template.fit(node);
        match (fit, by_node.get(name)) {
            (Fit::Wants, None) => plan.create.push(name.to_owned()),
            (Fit::Keeps | Fit::Refuses, None) => {}
            (Fit::Refuses, Some(pods)) => plan.delete.extend(staying(pods)),
            (Fit::Wants | Fit::Keeps, Some(pods)) => {
                manage_node(input, (name, fit), pods, &mut plan);
            }
        }
    }
    // No scheduler binds them, and nobody else deletes them.
    let lost = by_node
        .iter()
        .filter(|(node, _)| !nodes.contains_key(node.as_str()));
    let lost = lost.flat_map(|(_, pods)| staying(pods));
    plan.delete
        .extend(lost.filter(|pod| node_of(pod).is_empty()));
    plan
}

/// The pods that are not being deleted.
fn staying(pods: &[Arc<Pod>]) -> impl Iterator<Item = Arc<Pod>> {
    pods.iter().filter(|pod| !is_terminating(pod)).cloned()
}

fn manage_node(input: &Input<'_>, (node, fit): (&str, Fit), pods: &[Arc<Pod>], plan: &mut Plan) {
    let (ended, running): (Vec<_>, Vec<_>) = staying(pods).partition(|pod| is_finished(pod));
    let ended = ended.into_iter().map(|pod| (node.to_owned(), pod));
    plan.ended.extend(ended);
    if !surges(input.set) {
        plan.delete.extend(running.into_iter().skip(1));
        return;
    }
    if running.is_empty() && fit == Fit::Wants {
        plan.create.push(node.to_owned());
    }
    if running.len() <= 1 {
        return;
    }
    let is_new = |pod: &Arc<Pod>| input.template.is_of(pod);
    let (mut new, mut old): (Vec<_>, Vec<_>) = running.into_iter().partition(is_new);
    plan.delete.extend(new.drain(new.len().min(1)..));
    plan.delete.extend(old.drain(old.len().min(1)..));
    // Both stay while the old one serves and the new one does not yet.
    if let (Some(new), Some(old)) = (new.pop(), old.pop())
        && (!is_ready(&old) || input.is_available(&new))
    {
        plan.delete.push(old);
    }
}

impl Input<'_> {
    fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, min_ready(self.set), self.now)
    }
}

/// The pods of a node in an update.
enum OnNode {
    /// At most one of either kind: new, old.
    Known(Option<Arc<Pod>>, Option<Arc<Pod>>),
    TooMany,
}

fn on_node(template: &Template, pods: &[Arc<Pod>]) -> OnNode {
    let (new, old): (Vec<_>, Vec<_>) = staying(pods).partition(|pod| template.is_of(pod));
    match new.len() > 1 || old.len() > 1 {
        true => OnNode::TooMany,
        false => OnNode::Known(new.into_iter().next(), old.into_iter().next()),
    }
}

fn roll(input: &Input<'_>, mut by_node: ByNode) -> Plan {
    let nodes = sorted(input.nodes);
    let wanting = nodes
        .iter()
        .filter(|(_, node)| input.template.fit(node) == Fit::Wants);
    let mut desired = 0;
    for (&name, _) in wanting {
        desired += 1;
        by_node.entry(name.to_owned()).or_default();
    }
    let most = input
        .set
        .pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    let most = share(most, desired, Rounding::Up);
    match surge(input.set, desired) {
        // Otherwise nothing could ever move.
        0 if most == 0 => replace(input, &by_node, 1),
        0 => replace(input, &by_node, most),
        surge => surge_up(input, &by_node, (surge, desired), &nodes),
    }
}

/// Deletes old pods: those that are not available, and others as far as `most` allows.
fn replace(input: &Input<'_>, by_node: &ByNode, most: i64) -> Plan {
    let (mut unavailable, mut candidates) = (0, Vec::new());
    let mut plan = Plan::default();
    for pods in by_node.values() {
        match on_node(input.template, pods) {
            OnNode::Known(Some(new), None) => {
                unavailable += i64::from(!input.is_available(&new));
            }
            OnNode::Known(None, Some(old)) if input.is_available(&old) => candidates.push(old),
            OnNode::Known(None, Some(old)) => {
                plan.delete.push(old);
                unavailable += 1;
            }
            // The next reconcile fills or clears this node.
            OnNode::TooMany | OnNode::Known(..) => unavailable += 1,
        }
    }
    let room = usize::try_from(most - unavailable).unwrap_or(0);
    plan.delete.extend(candidates.into_iter().take(room));
    plan
}

/// Creates new pods beside old ones, and deletes those that are replaced.
fn surge_up(
    input: &Input<'_>,
    by_node: &ByNode,
    (most, desired): (i64, i64),
    nodes: &BTreeMap<&str, &Node>,
) -> Plan {
    let mut plan = Plan::default();
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (node, pods) in by_node {
        let OnNode::Known(new, old) = on_node(input.template, pods) else {
            surging += 1;
            continue;
        };
        let serves = |pod: &Arc<Pod>| input.is_available(pod);
        available += i64::from(old.as_ref().or(new.as_ref()).is_some_and(serves));
        let Some(old) = old else {
            continue;
        };
        let fit = nodes
            .get(node.as_str())
            .map(|node| input.template.fit(node));
        match new {
            Some(new) if serves(&new) => plan.delete.push(old),
            Some(_) => surging += 1,
            None => match (fit == Some(Fit::Wants), serves(&old)) {
                (true, true) => candidates.push(node.clone()),
                (true, false) => plan.create.push(node.clone()),
                (false, true) => unwanted.push(old),
                (false, false) => plan.delete.push(old),
            },
        }
    }
    let room = usize::try_from(most - surging).unwrap_or(0);
    plan.create.extend(candidates.into_iter().take(room));
    // A pod on a node that no longer wants it goes when enough others serve.
    let spare = usize::try_from(available - desired).unwrap_or(0);
    plan.delete.extend(unwanted.into_iter().take(spare));
    plan
}

/// The words about a pod that ended: reason, and what is done.
pub(super) fn about_ended(node: &str, pod: &Pod) -> (&'static str, String) {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    match phase(pod) {
        "Failed" => (
            "FailedDaemonPod",
            format!(
                "Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it"
            ),
        ),
        _ => (
            "SucceededDaemonPod",
            format!(
                "Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it"
            ),
        ),
    }
}
