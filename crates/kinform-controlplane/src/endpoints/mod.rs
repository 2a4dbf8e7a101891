//! The controllers of Endpoints, which are deprecated and read all the same: those of Services with a
//! selector, and the slices that mirror those that somebody else writes.
//!
//! ```text
//! Service + pods ─▶ plan (pure) ─▶ Endpoints of the Service's name          Service gone ─▶ Endpoints gone
//! Endpoints of others + Service without a selector ─▶ mirror (pure) ─▶ EndpointSlices
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/endpoint`, `pkg/controller/endpointslicemirroring`.

mod mirror;
mod plan;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Endpoints, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kinform::{
    Action, Controller, Ctx, Enqueue, Error, Index, IndexReader, Informer, ObjectKey, Reconciler,
};
use serde_json::{Value, json};

use self::plan::{Write, plan};
use crate::endpoint_slice::service::{has_endpoints, pods_of, services_of};
use crate::frame::Frame;
use crate::json::{name, text, uid};
use crate::writer::{Failed, Writer, collection};

const WORKERS: usize = 5;

/// The context of every reconcile.
struct State {
    pods: Informer<Pod>,
    endpoints: Informer<Value>,
}

fn path(namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection("/api/v1", namespace, "endpoints"))
}

/// Makes the controller of Services with a selector.
pub(crate) fn controller(frame: &Frame) -> Reconciler {
    let services: Informer<Service> = frame.factory.informer();
    let services: Informer<Value> = services.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let endpoints: Informer<Endpoints> = frame.factory.informer();
    let endpoints: Informer<Value> = endpoints.cast();
    let state = State {
        pods: pods.clone(),
        endpoints: endpoints.clone(),
    };
    let (of_pods, of_endpoints) = (services.clone(), services.clone());
    Controller::of(&services)
        // Deleted or changed by somebody else: written again. Those of no Service are none of ours.
        .watches(&endpoints, move |one| {
            let key = ObjectKey::new(one.namespace(), one.name());
            of_endpoints.get(&key).map(|_| Enqueue::from(key))
        })
        .watches(&pods, move |pod| services_of(&of_pods, pod))
        .named("endpoint-controller")
        .client(frame.client("endpoint-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .on_gone(|key, cx| async move { delete(&key, &cx).await })
        .reconciling(reconcile)
}

async fn reconcile(service: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    if !has_endpoints(&service) {
        return Ok(Action::await_change());
    }
    let namespace = text(&service, "/metadata/namespace");
    let pods = pods_of(&service, &cx.pods);
    let key = ObjectKey::new(Some(namespace), name(&service));
    let before = cx.endpoints.get(&key).and_then(|one| one.typed().ok());
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    match plan(&service, &pods, before.as_deref()) {
        None => {}
        Some(Write::Create(made)) => {
            let path = collection("/api/v1", namespace, "endpoints");
            writer.create(&path, &made).await?;
        }
        Some(Write::Replace(next)) => {
            writer
                .replace(&path(namespace, name(&service)), &next)
                .await?;
        }
    }
    Ok(Action::await_change())
}

/// Deletes the Endpoints of a Service that is gone.
async fn delete(key: &ObjectKey, cx: &Ctx<State>) -> Result<Action, Failed> {
    if cx.endpoints.get(key).is_some() {
        let writer = Writer::new(cx.client()?, "kube-controller-manager");
        let namespace = key.namespace().unwrap_or_default();
        writer
            .delete(&path(namespace, key.name()), &json!({}))
            .await?;
    }
    Ok(Action::await_change())
}

/// The context of every reconcile of the mirror.
struct MirrorState {
    services: Informer<Value>,
    slices: IndexReader<Value>,
}

/// Makes the controller that mirrors Endpoints of others.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn mirroring(frame: &Frame) -> Result<Reconciler, Error> {
    let services: Informer<Service> = frame.factory.informer();
    let services: Informer<Value> = services.cast();
    let endpoints: Informer<Endpoints> = frame.factory.informer();
    let endpoints: Informer<Value> = endpoints.cast();
    let slices: Informer<EndpointSlice> = frame.factory.informer();
    let slices: Informer<Value> = slices.cast();
    let state = MirrorState {
        services: services.clone(),
        slices: slices.add_index(Index::owner())?,
    };
    Ok(Controller::of(&endpoints)
        .owns(&slices)
        .watches(&services, |service| {
            Some(Enqueue::from(ObjectKey::new(
                service.namespace(),
                service.name(),
            )))
        })
        .named("endpointslicemirroring-controller")
        .client(frame.client("endpointslicemirroring-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(mirror))
}

async fn mirror(endpoints: Arc<Value>, cx: Ctx<MirrorState>) -> Result<Action, Failed> {
    let namespace = text(&endpoints, "/metadata/namespace");
    let key = ObjectKey::new(Some(namespace), name(&endpoints));
    let service = cx.services.get(&key).and_then(|one| one.typed().ok());
    let slices = cx.slices.get(uid(&endpoints));
    let slices: Vec<Arc<Value>> = slices
        .typed()
        .filter(|slice| mirror::is_managed(slice))
        .collect();
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let path = collection("/apis/discovery.k8s.io/v1", namespace, "endpointslices");
    for write in mirror::plan(&endpoints, service.as_deref(), &slices) {
        match write {
            mirror::Write::Create(slice) => drop(writer.create(&path, &slice).await?),
            mirror::Write::Replace(slice) => {
                writer
                    .replace(&format!("{path}/{}", name(&slice)), &slice)
                    .await?;
            }
            mirror::Write::Delete(name) => {
                writer.delete(&format!("{path}/{name}"), &json!({})).await?;
            }
        }
    }
    Ok(Action::await_change())
}
