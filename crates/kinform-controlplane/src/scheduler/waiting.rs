//! The pods that found no node, by what may change that, and the handlers that try them again.
//!
//! ```text
//! key + pod ─▶ Waiting ─▶ all │ those that mind pods │ those that mind claims
//! pods ─▶ ledger ─▶ room was freed: all │ a pod with a node is another: those that mind pods ─▶ queue
//! labels of namespaces ─▶ all ─────────────────────────────────────────────────────────────────┘
//! ```
//!
//! INVARIANT: whatever gives back room, or changes an answer of a filter, tries those again that it may
//! help. A pod whose own binding failed is not among them: it comes back with its delay, and two such
//! pods must not wake each other without one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kinform::{Error, Handlers, Informer, Obj, ObjectKey, Priority, WorkQueue};

use super::claims::minds_claims;
use super::incoming::minds_pods;
use super::ledger::{Ledger, News, lock};
use crate::pods::node as node_of;

/// The pods without a node, and the queue in which they are tried again.
#[derive(Clone)]
pub(super) struct Waiting {
    // BOUND: pods that are unscheduled.
    pods: Arc<Mutex<BTreeMap<ObjectKey, Minds>>>,
    queue: WorkQueue<ObjectKey>,
}

/// The objects that a pod minds, besides nodes.
#[derive(Clone, Copy, Debug)]
struct Minds {
    pods: bool,
    claims: bool,
}

impl Waiting {
    pub(super) fn new(queue: WorkQueue<ObjectKey>) -> Self {
        Self {
            pods: Arc::default(),
            queue,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Minds>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn those(&self, are: impl Fn(&ObjectKey, Minds) -> bool) -> Vec<ObjectKey> {
        let waiting = self.lock();
        let those = waiting.iter().filter(|(key, minds)| are(key, **minds));
        those.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn all(&self) -> Vec<ObjectKey> {
        self.those(|_, _| true)
    }

    pub(super) fn minding_claims(&self) -> Vec<ObjectKey> {
        self.those(|_, minds| minds.claims)
    }

    /// Tries all pods again.
    fn wake_all(&self) {
        self.queue.add_all(self.all(), Priority::Normal);
    }

    /// Tries all pods again but one, which gave back room itself.
    pub(super) fn wake_others(&self, than: &ObjectKey) {
        let others = self.those(|key, _| key != than);
        self.queue.add_all(others, Priority::Normal);
    }

    fn wake_minding_pods(&self) {
        let minding = self.those(|_, minds| minds.pods);
        self.queue.add_all(minding, Priority::Normal);
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

/// Keeps the ledger in step with the cache of pods, and tries pods again at its news.
pub(super) fn hear_pods(
    pods: &Informer<Pod>,
    ledger: &Arc<Mutex<Ledger>>,
    waiting: &Waiting,
) -> Result<(), Error> {
    let [added, updated, deleted] = [(); 3].map(|()| (Arc::clone(ledger), waiting.clone()));
    let handlers = Handlers::new()
        .named("scheduler-ledger")
        .on_add(move |pod| hear(&added, None, pod.object()))
        .on_update(move |old, pod| hear(&updated, Some(old), pod))
        .on_delete(move |pod| {
            if lock(&deleted.0).remove(&pod.object().key()) {
                deleted.1.wake_all();
            }
        });
    // The informer keeps the handler.
    drop(pods.add_handler(handlers)?);
    Ok(())
}

fn hear((ledger, waiting): &(Arc<Mutex<Ledger>>, Waiting), old: Option<&Obj<Pod>>, pod: &Obj<Pod>) {
    let Ok(typed) = pod.typed() else { return };
    let news = lock(ledger).see(&pod.key(), &typed);
    let is_other = || {
        let is_other = |old: &Obj<Pod>| {
            old.is_terminating() != pod.is_terminating() || !old.labels().eq(pod.labels())
        };
        !node_of(&typed).is_empty() && old.is_some_and(is_other)
    };
    match news {
        News::Freed => waiting.wake_all(),
        News::Placed => waiting.wake_minding_pods(),
        News::Same if is_other() => waiting.wake_minding_pods(),
        News::Same => {}
    }
}

/// Tries pods again when a namespace has other labels. Terms of affinity select namespaces by them,
/// those of the pod that waits and those of pods on nodes.
pub(super) fn hear_namespaces(
    namespaces: &Informer<Namespace>,
    waiting: &Waiting,
) -> Result<(), Error> {
    let [added, updated] = [(); 2].map(|()| waiting.clone());
    let handlers = Handlers::new()
        .named("scheduler-namespaces")
        // Until then its labels were unknown, if its pods came first.
        .on_add(move |_| added.wake_all())
        .on_update(move |old, new| {
            if !old.labels().eq(new.labels()) {
                updated.wake_all();
            }
        });
    drop(namespaces.add_handler(handlers)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use kinform::Limiter;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_gives_back_room_wakes_the_others() {
        let queue = WorkQueue::new(Limiter::default());
        let waiting = Waiting::new(queue.clone());
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let [one, other] = ["one", "other"].map(|name| ObjectKey::new(Some("ns"), name));
        waiting.add(&one, &pod);
        waiting.add(&other, &pod);
        waiting.wake_others(&one);
        assert_eq!(queue.len(), 1);
        waiting.wake_minding_pods();
        assert_eq!(queue.len(), 1);
        waiting.wake_all();
        assert_eq!(queue.len(), 2);
    }
}
