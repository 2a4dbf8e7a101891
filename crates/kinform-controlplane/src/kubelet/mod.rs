//! A kubelet that is not one: it plays every node, and its pods by a script.
//!
//! ```text
//! pod bound to a node ─▶ step (pure) ─▶ one patch of status | the end of a deleted pod | a later look
//! pod without a node, no node at all ─▶ one node            node without a condition Ready ─▶ its status
//! ```
//!
//! The pods of a node whose condition Ready is Unknown are left alone: its kubelet was lost.
//!
//! No container runs. Pods start at once and become ready at once, unless an annotation says
//! otherwise: see `script.rs`.
//!
//! Upstream counterpart: `kubernetes:pkg/kubelet`, as `kubernetes-sigs/kwok` plays it.

mod node;
mod script;
mod step;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::{Action, Controller, Ctx, Enqueue, Informer, Obj, ObjectKey, Reconciler};
use serde_json::{Value, json};

use self::step::{Step, step};
use crate::frame::Frame;
use crate::pods::{Pods, condition, is_active, node as node_of};
use crate::writer::{Failed, Writer, collection};

const WORKERS: usize = 8;
const MANAGER: &str = "kubelet";
/// The user whose client the kubelet writes with.
pub(crate) const USER: &str = "system:node:kinform-node";
/// The first address of pods; 8 million follow.
const FIRST_IP: u32 = Ipv4Addr::new(10, 128, 0, 1).to_bits();
const LAST_IP: u32 = Ipv4Addr::new(10, 255, 255, 255).to_bits();

/// The treatment of the taint that nodes have until they are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewNodes {
    /// The controller of nodes takes it away.
    Tainted,
    /// Nobody else takes it away.
    Untainted,
}

/// The context of the loop of nodes.
struct NodeState {
    frame: Frame,
    new_nodes: NewNodes,
}

/// The context of the loop of pods.
struct State {
    frame: Frame,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    /// The next address of a pod, once one was needed.
    next_ip: OnceLock<AtomicU32>,
}

impl State {
    /// Returns a new address: above those that pods of an earlier process still have.
    fn address(&self) -> Ipv4Addr {
        let next = self.next_ip.get_or_init(|| {
            let pods = self.pods.list();
            let used = pods.typed().filter_map(|pod| pod_ip(&pod)).max();
            AtomicU32::new(used.map_or(FIRST_IP, |used| used + 1))
        });
        Ipv4Addr::from_bits(next.fetch_add(1, Ordering::Relaxed))
    }
}

/// The address of a pod, if it is one of this kubelet's.
fn pod_ip(pod: &Pod) -> Option<u32> {
    let ip = pod.status.as_ref()?.pod_ip.as_deref()?;
    let ip = ip.parse::<Ipv4Addr>().ok()?.to_bits();
    (FIRST_IP..LAST_IP).contains(&ip).then_some(ip)
}

/// Makes the two loops: of pods, of nodes.
pub(crate) fn controllers(frame: &Frame, new_nodes: NewNodes) -> [Reconciler; 2] {
    let pods: Informer<Pod> = frame.factory.informer();
    let nodes: Informer<Node> = frame.factory.informer();
    let state = State {
        frame: frame.clone(),
        nodes: nodes.clone(),
        pods: pods.clone(),
        next_ip: OnceLock::new(),
    };
    let client = frame.client_of(USER);
    let lost = Lost {
        pods: frame.pods.clone(),
        nodes: nodes.clone(),
        names: Mutex::default(),
    };
    let pods = Controller::of(&pods)
        .watches(&nodes, move |node| lost.found(node))
        .named("kubelet")
        .client(client.clone())
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(play);
    let nodes = Controller::of(&nodes)
        .named("kubelet-node")
        .client(client)
        .context(NodeState {
            frame: frame.clone(),
            new_nodes,
        })
        .shutdown_on(frame.stop.clone())
        .reconciling(post_status);
    [pods, nodes]
}

/// The nodes that were lost.
struct Lost {
    pods: Pods,
    nodes: Informer<Node>,
    /// BOUND: one name a lost node; removed with it.
    names: Mutex<BTreeSet<String>>,
}

impl Lost {
    /// The pods of a node that was lost, and is there again.
    fn found(&self, node: &Obj<Node>) -> Vec<Enqueue> {
        let name = node.name();
        let now = self.nodes.get(&node.key());
        let now = now.and_then(|node| node.typed().ok());
        let is_lost = now.as_ref().is_some_and(|node| node::is_lost(node));
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if is_lost {
            names.insert(name.to_owned());
            return Vec::new();
        }
        let was_lost = names.remove(name);
        drop(names);
        match was_lost && now.is_some() {
            true => {
                let pods = self.pods.keys_on_node(name);
                pods.into_iter().map(Enqueue::from).collect()
            }
            false => Vec::new(),
        }
    }
}

async fn play(pod: Arc<Pod>, cx: Ctx<State>) -> Result<Action, Failed> {
    if node_of(&pod).is_empty() {
        if is_active(&pod) && cx.nodes.store().is_empty() {
            let node = node::node(cx.frame.clock.now());
            make_node(&Writer::new(cx.client()?, MANAGER), &node).await?;
        }
        return Ok(Action::await_change());
    }
    let node = cx.nodes.get(&ObjectKey::new(None::<&str>, node_of(&pod)));
    let node = node.and_then(|node| node.typed().ok());
    if node.is_some_and(|node| node::is_lost(&node)) || is_marked_for_lost(&pod, &cx).await? {
        return Ok(Action::await_change());
    }
    let now = cx.frame.clock.now();
    let step = step(&pod, now);
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let pods = collection("/api/v1", namespace, "pods");
    let path = format!(
        "{pods}/{}",
        pod.metadata.name.as_deref().unwrap_or_default()
    );
    match step {
        Step::Nothing => Ok(Action::await_change()),
        Step::Look(later) => Ok(Action::requeue(later)),
        Step::End => {
            let uid = pod.metadata.uid.as_deref();
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
            match Writer::new(cx.client()?, MANAGER)
                .delete(&path, &options)
                .await
            {
                // Another pod of that name is not ours to end.
                Err(error) if error.code() == Some(409) => Ok(Action::await_change()),
                ended => ended.map(|_| Action::await_change()),
            }
        }
        Step::Patch(mut status, then) => {
            add_addresses(&mut status, &pod, &cx);
            let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
            let path = format!("{path}/status");
            let writer = Writer::new(cx.client()?, MANAGER);
            match writer.patch(&path, &patch).await {
                Err(error) if error.code() == Some(404) => Ok(Action::await_change()),
                patched => {
                    patched?;
                    Ok(then.map_or(Action::await_change(), Action::requeue))
                }
            }
        }
    }
}

/// Returns whether a pod is not ready because its node was lost, which the cache may not show yet.
async fn is_marked_for_lost(pod: &Pod, cx: &Ctx<State>) -> Result<bool, Failed> {
    let is = |kind, status| condition(pod, kind).is_some_and(|one| one.status == status);
    if !(is("Ready", "False") && is("ContainersReady", "True")) {
        return Ok(false);
    }
    let writer = Writer::new(cx.client()?, MANAGER);
    let node = writer
        .read(&format!("/api/v1/nodes/{}", node_of(pod)))
        .await?;
    let node = node.and_then(|node| serde_json::from_value(node).ok());
    Ok(node.is_some_and(|node| node::is_lost(&node)))
}

/// Gives a pod that starts its addresses.
fn add_addresses(status: &mut Value, pod: &Pod, cx: &State) {
    let has_ip = pod.status.as_ref().is_some_and(|s| s.pod_ip.is_some());
    if has_ip || status.get("startTime").is_none() {
        return;
    }
    let host = cx
        .nodes
        .get(&ObjectKey::new(None::<&str>, node_of(pod)))
        .and_then(|node| node.typed().ok())
        .and_then(|node| node::internal_ip(&node))
        .unwrap_or_else(|| node::HOST_IP.to_owned());
    let is_on_host = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let ip = if is_on_host {
        host.clone()
    } else {
        cx.address().to_string()
    };
    status["podIPs"] = json!([{"ip": ip}]);
    status["podIP"] = ip.into();
    status["hostIPs"] = json!([{"ip": host}]);
    status["hostIP"] = host.into();
}

async fn make_node(writer: &Writer, node: &Value) -> Result<(), Failed> {
    match writer.create("/api/v1/nodes", node).await {
        Err(error) if error.code() == Some(409) => Ok(()),
        made => made.map(drop),
    }
}

/// Fills in the status of a node that has none, and lets pods onto one that is ready.
async fn post_status(node: Arc<Node>, cx: Ctx<NodeState>) -> Result<Action, Failed> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    if cx.new_nodes == NewNodes::Untainted
        && let Some(taints) = node::taints_when_ready(&node)
    {
        let version = &node.metadata.resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        let writer = Writer::new(cx.client()?, MANAGER);
        writer
            .patch(&format!("/api/v1/nodes/{name}"), &patch)
            .await?;
    }
    if let Some(status) = node::missing_status(&node, cx.frame.clock.now()) {
        let path = format!("/api/v1/nodes/{name}/status");
        let writer = Writer::new(cx.client()?, MANAGER);
        let patch = json!({"status": status});
        writer.patch(&path, &patch).await?;
    }
    Ok(Action::await_change())
}
