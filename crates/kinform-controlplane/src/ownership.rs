//! Objects that controllers adopt and release.
//!
//! ```text
//! object → uid of its controller          owner + object ─▶ PATCH of ownerReferences, with its uid
//! pod without a controller → the objects whose selector selects it
//! ```
//!
//! The uid in the patch makes it fail for another object of the same name.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_ref_manager.go`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kinform::{Enqueue, Informer, Obj, ObjectKey};
use serde_json::{Value, json};

use crate::json::{name, text, uid};
use crate::pods::{self, Pods, is_terminating, labels_of, owner_reference};
use crate::selector::selects;
use crate::writer::{Failed, Writer};

/// The UID of an object's controlling owner.
pub(crate) fn controller_uid(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    owners
        .iter()
        .find(controls)
        .map(|owner| text(owner, "/uid"))
}

/// The objects that may adopt a pod, if it has no controller.
// Complexity: O(objects of its namespace) for a pod without a controller.
pub(crate) fn selecting(owners: &Informer<Value>, pod: &Obj<Pod>) -> Vec<Enqueue> {
    if pod.owner_references().iter().any(|owner| owner.controller) {
        return Vec::new();
    }
    let labels = labels_of(pod.labels());
    if labels.is_empty() {
        return Vec::new();
    }
    let namespace = pod.namespace();
    let owners = owners
        .snapshot()
        .in_namespace(namespace.unwrap_or_default());
    let fits = owners.typed().filter_map(|owner| {
        let key = ObjectKey::new(namespace, name(&owner));
        selects(owner.pointer("/spec/selector"), &labels).then_some(key)
    });
    fits.map(Enqueue::from).collect()
}

/// The pods of an owner: those that it controls and that belong to it. Those without a controller
/// that belong to it are adopted, those that do not are released.
pub(crate) async fn claim_pods(
    writer: &Writer,
    owner: &Value,
    pods: &Pods,
    belongs: impl Fn(&Pod) -> bool,
) -> Result<Vec<Arc<Pod>>, Failed> {
    let namespace = text(owner, "/metadata/namespace");
    let mut candidates = pods.owned_by(uid(owner));
    candidates.extend(pods.without_owner(namespace));
    let mut claimed = Vec::new();
    for pod in candidates {
        let path = pods::path(&pod);
        let pod_uid = pod.metadata.uid.as_deref();
        let labels = pod.metadata.labels.as_ref();
        let is_selected =
            labels.is_some_and(|labels| selects(owner.pointer("/spec/selector"), labels));
        let is_owned = pods::controller_uid(&pod).is_some();
        match (is_owned, is_selected && belongs(&pod)) {
            (true, true) => claimed.push(pod),
            (true, false) => release(writer, owner, &path, pod_uid).await?,
            (false, true) if !is_terminating(&pod) => {
                if adopt(writer, owner, &path, pod_uid).await?.is_some() {
                    claimed.push(pod);
                }
            }
            (false, _) => {}
        }
    }
    Ok(claimed)
}

/// Makes an owner the controller of the object at a path. Returns the object; `None` if it is gone.
pub(crate) async fn adopt(
    writer: &Writer,
    owner: &Value,
    path: &str,
    of_uid: Option<&str>,
) -> Result<Option<Value>, Failed> {
    let patch = json!({"metadata": {
        "ownerReferences": [owner_reference(owner)], "uid": of_uid,
    }});
    match writer.patch(path, &patch).await {
        Err(error) if error.code() == Some(404) => Ok(None),
        patched => patched.map(Some),
    }
}

/// Removes an owner from the object at a path.
pub(crate) async fn release(
    writer: &Writer,
    owner: &Value,
    path: &str,
    of_uid: Option<&str>,
) -> Result<(), Failed> {
    let patch = json!({"metadata": {
        "ownerReferences": [{"$patch": "delete", "uid": uid(owner)}], "uid": of_uid,
    }});
    match writer.patch(path, &patch).await {
        // An object that is gone, or another one of its name, is released.
        Err(error) if matches!(error.code(), Some(404 | 422)) => Ok(()),
        patched => patched.map(drop),
    }
}
