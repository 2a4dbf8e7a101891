//! The pods that found no node, by what may change that.
//!
//! ```text
//! key + pod ─▶ Waiting ─▶ all (room was freed, a node changed) │ those that mind pods │ those that mind claims
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use kinform::ObjectKey;

use super::claims::minds_claims;
use super::incoming::minds_pods;

/// The pods without a node.
// BOUND: pods that are unscheduled.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<BTreeMap<ObjectKey, Minds>>>);

/// The objects that a pod minds, besides nodes.
#[derive(Clone, Copy, Debug)]
struct Minds {
    pods: bool,
    claims: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Minds>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn those(&self, are: impl Fn(Minds) -> bool) -> Vec<ObjectKey> {
        let waiting = self.lock();
        let those = waiting.iter().filter(|(_, minds)| are(**minds));
        those.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn all(&self) -> Vec<ObjectKey> {
        self.those(|_| true)
    }

    pub(super) fn minding_pods(&self) -> Vec<ObjectKey> {
        self.those(|minds| minds.pods)
    }

    pub(super) fn minding_claims(&self) -> Vec<ObjectKey> {
        self.those(|minds| minds.claims)
    }

    pub(super) fn add(&self, key: &ObjectKey, pod: &Pod) {
        let minds = Minds {
            pods: minds_pods(pod),
            claims: minds_claims(pod),
        };
        self.lock().insert(key.clone(), minds);
    }

    pub(super) fn remove(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }
}
