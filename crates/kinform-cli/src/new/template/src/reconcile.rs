//! The work for one object: its ConfigMap has the text of the spec, and its status says so.
//!
//! Both functions are called again after an error, after a crash and for every change, so they must
//! do no harm when there is nothing to do.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::events::EventRecorder;
use kinform::{Action, Ctx, Error, Informer, ObjectKey, owner};
use kube::ResourceExt as _;
use kube::api::ObjectMeta;

use crate::api;

/// The condition that holds once the ConfigMap is as desired.
pub const READY: &str = "Ready";
// only: cluster
/// The namespace of the ConfigMaps, as the objects have none. // only: cluster
const NAMESPACE: &str = "default"; // only: cluster

/// The context of every call.
pub(crate) struct State {
    pub(crate) events: EventRecorder,
    pub(crate) config_maps: Informer<ConfigMap>,
}

/// Brings the ConfigMap, then the status, into the desired state.
pub(crate) async fn reconcile(
    object: Arc<api::Gizmo>,
    cx: Ctx<State>,
) -> Result<Action, Error> {
    // What is written through `cx` is in the caches when this object is reconciled next.
    let applied = cx.apply(&config_map(&object)).await;
    let (is_ready, reason, message) = match &applied {
        Ok(_) => (true, "Applied", "the ConfigMap has the text".to_owned()),
        Err(error) if error.is_owned_by_another() => (false, "NotOurs", error.to_string()),
        Err(error) => (false, "Failed", error.to_string()),
    };
    let written = cx.status(&object, |status| {
        status.observed_generation = object.metadata.generation;
        status.condition(READY, is_ready, reason, &message);
    });
    if written.await?.is_changed() {
        match is_ready {
            true => cx.events.normal(&*object, reason, &message),
            false => cx.events.warning(&*object, reason, &message),
        }
    }
    // An error brings the object back, later each time.
    applied.map(|_| Action::await_change())
}

/// Deletes the ConfigMap of an object that is being deleted.
///
/// Garbage collection would delete it, too, as the object owns it. A finalizer is for what lives
/// outside of the cluster: replace this by your own, or remove it together with `FINALIZER`.
pub(crate) async fn cleanup(object: Arc<api::Gizmo>, cx: Ctx<State>) -> Result<(), Error> {
    let wanted = config_map(&object);
    let key = ObjectKey::new(wanted.metadata.namespace.as_deref(), &object.name_any());
    // Another writer's ConfigMap of that name stays.
    if let Some(cached) = cx.config_maps.get(&key)
        && let Ok(existing) = cached.typed()
        && owner::is_controlled(&*existing, &cx.owner()?)
    {
        cx.delete(&*existing).await?;
    }
    Ok(())
}

/// The desired ConfigMap. The object becomes its owner when it is applied.
fn config_map(object: &api::Gizmo) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(object.name_any()),
            namespace: Some(NAMESPACE.to_owned()), // only: cluster
            namespace: object.namespace(), // only: namespaced
            ..ObjectMeta::default()
        },
        data: Some([("text".to_owned(), object.spec.text.clone())].into()),
        ..ConfigMap::default()
    }
}
