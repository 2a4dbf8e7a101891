//! The number of pods that the owner of a pod asks for.
//!
//! ```text
//! owner of a pod ─▶ ReplicaSet, its Deployment (caches) │ /scale of any other kind (two requests)
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/disruption/disruption.go` (`finders`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kinform::{Informer, ObjectKey};
use kube_client::{Client, Error as ClientError};
use serde_json::Value;

use crate::json::{int, text, uid};
use crate::scale_subresource::{find, get, message};

/// The owners whose scale caches have.
#[derive(Clone)]
pub(super) struct Caches {
    pub(super) sets: Informer<Value>,
    pub(super) deployments: Informer<Value>,
}

/// The scale of pods' owners together, and whether some pods have none.
#[derive(Debug, Default)]
pub(super) struct Scale {
    pub(super) total: i64,
    pub(super) unmanaged: bool,
}

/// Adds up what the owners of pods ask for, each once.
///
/// # Errors
/// An owner is not there, or has no scale; the message says which.
pub(super) async fn scale(
    caches: &Caches,
    client: &Client,
    pods: &[Arc<Pod>],
) -> Result<Scale, String> {
    let mut known: HashMap<String, i64> = HashMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut unmanaged = false;
    for pod in pods {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
            unmanaged = true;
            continue;
        };
        if !seen.insert(owner.uid.clone()) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let found = match cached(caches, owner, namespace) {
            Some(found) => Some(found),
            None => of_subresource(client, owner, namespace).await?,
        };
        let (uid, replicas) = found.ok_or_else(|| {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            format!("found no controllers for pod {name:?}")
        })?;
        known.insert(uid, replicas);
    }
    Ok(Scale {
        total: known.values().sum(),
        unmanaged,
    })
}

/// The UID and the scale of a ReplicaSet, or of the Deployment that controls it.
fn cached(caches: &Caches, owner: &OwnerReference, namespace: &str) -> Option<(String, i64)> {
    let is_of = |kind: &str, api_version: &str, expected: &str| {
        kind == expected && api_version.starts_with("apps/")
    };
    if !is_of(&owner.kind, &owner.api_version, "ReplicaSet") {
        return None;
    }
    let get = |from: &Informer<Value>, name: &str, with_uid: &str| {
        let found = from.get(&ObjectKey::new(Some(namespace), name))?;
        found.typed().ok().filter(|found| uid(found) == with_uid)
    };
    let replicas = |object: &Value| (uid(object).to_owned(), int(object, "/spec/replicas"));
    let set = get(&caches.sets, &owner.name, &owner.uid)?;
    let owners = set
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let deployment = owners.into_iter().flatten().find(|owner| {
        let is_controller = owner.get("controller") == Some(&Value::Bool(true));
        is_controller
            && is_of(
                text(owner, "/kind"),
                text(owner, "/apiVersion"),
                "Deployment",
            )
    });
    match deployment {
        Some(owner) => {
            let found = get(&caches.deployments, text(owner, "/name"), uid_of(owner))?;
            Some(replicas(&found))
        }
        None => Some(replicas(&set)),
    }
}

fn uid_of(owner: &Value) -> &str {
    text(owner, "/uid")
}

/// The UID and the scale of an owner by its subresource; `None` if it is not there.
async fn of_subresource(
    client: &Client,
    owner: &OwnerReference,
    namespace: &str,
) -> Result<Option<(String, i64)>, String> {
    let served = find(client, &owner.api_version, &owner.kind).await;
    let Some(served) = served.map_err(message)? else {
        let (kind, version) = (&owner.kind, &owner.api_version);
        return Err(format!(
            "no matches for kind {kind:?} in version {version:?}"
        ));
    };
    if !served.has_scale {
        let resource = served.full_name();
        return Err(format!(
            "{resource} does not implement the scale subresource"
        ));
    }
    let scale = match get(client, &served.scale_path(namespace, &owner.name)).await {
        Ok(scale) => Some(scale),
        Err(ClientError::Api(status)) if status.code == 404 => None,
        Err(error) => return Err(message(error)),
    };
    let scale = scale.filter(|scale| uid(scale) == owner.uid);
    Ok(scale.map(|scale| (owner.uid.clone(), int(&scale, "/spec/replicas"))))
}
