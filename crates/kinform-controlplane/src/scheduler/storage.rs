//! The caches of storage, and the nodes that are kept for pods until their claims are bound.
//!
//! ```text
//! steps of a chosen node ─▶ PUT of volumes (they name the claim) and claims (they name the node)
//!                       └─▶ reservation: the pod is bound to the node once its claims are bound
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/plugins/volumebinding/binder.go`
//! (`BindPodVolumes`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kinform::{Informer, ObjectKey};
use serde_json::Value;

use super::claims::{Needs, Step, Storage};
use crate::frame::Frame;
use crate::json::annotate;
use crate::volumes::{SELECTED_NODE, claim_path, name_claim, volume_path};
use crate::writer::{Failed, Writer};

/// The time in which the claims of a pod must be bound; then it looks for a node again.
pub(super) const BIND_WITHIN: Duration = Duration::from_secs(600);

/// A node that is kept for a pod.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) node: String,
    pub(super) since: Timestamp,
    uid: Option<String>,
}

/// The caches and the reservations.
#[derive(Clone)]
pub(super) struct Stores {
    pub(super) claims: Informer<Value>,
    pub(super) volumes: Informer<Value>,
    pub(super) classes: Informer<StorageClass>,
    // BOUND: pods whose claims are not bound yet.
    reserved: Arc<Mutex<HashMap<ObjectKey, Reservation>>>,
}

impl Stores {
    pub(super) fn new(frame: &Frame) -> Self {
        let claims: Informer<PersistentVolumeClaim> = frame.factory.informer();
        let volumes: Informer<PersistentVolume> = frame.factory.informer();
        Self {
            claims: claims.cast(),
            volumes: volumes.cast(),
            classes: frame.factory.informer(),
            reserved: Arc::default(),
        }
    }

    /// The volumes that a pod has and needs.
    ///
    /// # Errors
    /// The pod waits for one of its claims; this is why.
    pub(super) fn needs(&self, pod: &Pod) -> Result<Needs, String> {
        Needs::of(
            pod,
            Storage {
                claim: &|key| self.claims.get(key)?.typed().ok(),
                class: &|name| {
                    let class = self.classes.get(&ObjectKey::new(None::<&str>, name))?;
                    class.typed().ok()
                },
                volumes: &|| self.volumes.list().typed().collect(),
            },
        )
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Reservation>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reserve(&self, key: &ObjectKey, pod: &Pod, node: &str, since: Timestamp) {
        let reservation = Reservation {
            node: node.to_owned(),
            since,
            uid: pod.metadata.uid.clone(),
        };
        self.lock().insert(key.clone(), reservation);
    }

    pub(super) fn release(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    /// The node that is kept for this very pod.
    pub(super) fn reserved(&self, key: &ObjectKey, pod: &Pod) -> Option<Reservation> {
        let reserved = self.lock();
        let reservation = reserved.get(key);
        reservation
            .filter(|one| one.uid == pod.metadata.uid)
            .cloned()
    }
}

/// Writes the steps that give a pod its volumes on a node.
pub(super) async fn take(steps: &[Step], node: &str, writer: &Writer) -> Result<(), Failed> {
    for step in steps {
        match step {
            Step::Bind { volume, claim } => {
                let mut volume = Value::clone(volume);
                if name_claim(&mut volume, claim) {
                    writer.replace(&volume_path(&volume), &volume).await?;
                }
            }
            Step::Provision(claim) => {
                let mut claim = Value::clone(claim);
                if annotate(&mut claim, SELECTED_NODE, node) {
                    writer.replace(&claim_path(&claim), &claim).await?;
                }
            }
        }
    }
    Ok(())
}
