//! The controller of EndpointSlices: the pods of each Service with a selector.
//!
//! ```text
//! Service + pods that it selects + their nodes' zones + its slices ─▶ plan (pure) ─▶ create, replace, delete
//! ```
//!
//! Slices of deleted Services go by their owner. Endpoints are another controller's.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/endpointslice`,
//! `k8s.io/endpointslice:reconciler.go`.

pub(crate) mod endpoint;
mod plan;
pub(crate) mod service;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kinform::{
    Action, Controller, Ctx, Error, Index, IndexReader, Informer, ObjectKey, Reconciler,
};
use serde_json::{Value, json};

use self::plan::{Write, plan};
use self::service::{has_endpoints, pods_of, services_of};
use crate::frame::Frame;
use crate::json::{name, text, uid};
use crate::pods::node as node_of;
use crate::writer::{Failed, Writer, collection};

const WORKERS: usize = 5;
const API: &str = "/apis/discovery.k8s.io/v1";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The context of every reconcile.
struct State {
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: IndexReader<Value>,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame) -> Result<Reconciler, Error> {
    let services: Informer<Service> = frame.factory.informer();
    let services: Informer<Value> = services.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let slices: Informer<EndpointSlice> = frame.factory.informer();
    let slices: Informer<Value> = slices.cast();
    let state = State {
        pods: pods.clone(),
        nodes: frame.factory.informer(),
        slices: slices.add_index(Index::owner())?,
    };
    let of_pods = services.clone();
    Ok(Controller::of(&services)
        .owns(&slices)
        .watches(&pods, move |pod| services_of(&of_pods, pod))
        .named("endpointslice-controller")
        .client(frame.client("endpointslice-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

async fn reconcile(service: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    if !has_endpoints(&service) {
        return Ok(Action::await_change());
    }
    let namespace = text(&service, "/metadata/namespace");
    let pods = pods_of(&service, &cx.pods);
    let slices = cx.slices.get(uid(&service));
    // Slices of others stay as they are, also if the service owns them.
    let is_ours = |slice: &Arc<Value>| plan::is_managed(slice);
    let slices = slices.typed().filter(is_ours);
    let slices: Vec<Value> = slices.map(|slice| Value::clone(&slice)).collect();
    let zone = |pod: &Pod| {
        let node = cx.nodes.get(&ObjectKey::new(None::<&str>, node_of(pod)))?;
        node.label(ZONE).map(|zone| zone.into_owned())
    };
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let path = collection(API, namespace, "endpointslices");
    for write in plan(&service, &pods, &slices, zone) {
        match write {
            Write::Create(slice) => drop(writer.create(&path, &slice).await?),
            Write::Replace(slice) => {
                let path = format!("{path}/{}", name(&slice));
                writer.replace(&path, &slice).await?;
            }
            Write::Delete(name) => {
                writer.delete(&format!("{path}/{name}"), &json!({})).await?;
            }
        }
    }
    Ok(Action::await_change())
}
