//! The ledger of the scheduler: what the pods of each node have asked for.
//!
//! ```text
//! pods as watched ─┐
//! bindings decided ┴─▶ Ledger: node → (requests, pods)
//! preemptions ──▶ nominations: room on a node that others of lower priority do not get
//! ```
//!
//! INVARIANT: the sums of a node are those of its entries.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodAffinityTerm};
use kinform::ObjectKey;

use super::neighbours::{Labels, Neighbour, averse};
use crate::pods::{is_finished, is_terminating, node as node_of};
use crate::quantity::milli;

/// Requests by resource, in thousandths.
pub(super) type Requests = BTreeMap<String, i128>;

/// The requests of pods by node.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pods: HashMap<ObjectKey, Entry>,
    nodes: HashMap<String, Taken>,
    /// The pods with required anti-affinity.
    averse: BTreeSet<ObjectKey>,
    /// The number of pods of each priority.
    priorities: BTreeMap<i64, usize>,
    // BOUND: pods that preempted others and are not bound yet.
    nominations: HashMap<ObjectKey, Nomination>,
}

/// News of a pod for those that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Room became free.
    Freed,
    /// The pod came to its node.
    Placed,
    /// The ledger is as before.
    Same,
}

impl News {
    fn of(was_freed: bool) -> Self {
        match was_freed {
            true => Self::Freed,
            false => Self::Same,
        }
    }
}

pub(super) fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    // No code under this lock panics in the middle of a change.
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The room that is kept for a pod which preempted others.
#[derive(Debug)]
struct Nomination {
    uid: String,
    node: String,
    priority: i64,
    requests: Requests,
}

/// A pod on a node, as preemption sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'l> {
    pub(super) key: &'l ObjectKey,
    pub(super) priority: i64,
    /// The time at which it started. One that did not start yet is the youngest.
    pub(super) since: Timestamp,
    pub(super) is_ending: bool,
    pub(super) requests: &'l Requests,
}

#[derive(Debug)]
struct Entry {
    uid: String,
    node: String,
    requests: Requests,
    basis: Basis,
    priority: i64,
    since: Option<Timestamp>,
    is_ending: bool,
    averse: Vec<PodAffinityTerm>,
}

/// The origin of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Basis {
    /// The pod is bound, as a watch told.
    Seen,
    /// The binding is about to be written, or was written.
    Assumed,
}

/// The part of a node that is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) pods: usize,
    pub(super) requests: Requests,
}

impl Taken {
    /// Counts one more pod.
    pub(super) fn add(&mut self, requests: &Requests) {
        self.pods += 1;
        for (resource, amount) in requests {
            *self.requests.entry(resource.clone()).or_default() += amount;
        }
    }

    /// Counts one pod less.
    pub(super) fn remove(&mut self, requests: &Requests) {
        self.pods -= 1;
        for (resource, amount) in requests {
            *self.requests.entry(resource.clone()).or_default() -= amount;
        }
    }
}

impl Ledger {
    /// Enters a pod as the cache has it.
    pub(super) fn see(&mut self, key: &ObjectKey, pod: &Pod) -> News {
        let node = node_of(pod);
        if is_finished(pod) {
            return News::of(self.remove(key));
        }
        if node.is_empty() {
            // The cache may be older than a decision: that stands, unless the pod is another one.
            if self.has(key, pod) {
                return News::Same;
            }
            // A change of its status, such as the one that tells of the nomination, leaves it.
            let is_of = |nomination: &Nomination| nomination.uid == uid(pod);
            let nomination = self.nominations.remove(key);
            let was_freed = self.remove(key);
            return News::of(match nomination {
                Some(nomination) if is_of(&nomination) => {
                    self.nominations.insert(key.clone(), nomination);
                    was_freed
                }
                nomination => was_freed || nomination.is_some(),
            });
        }
        let known = self.pods.get(key);
        if known.is_some_and(|known| known.node == node && known.uid == uid(pod)) {
            return self.refresh(key, pod);
        }
        match self.enter(key, pod, (node, Basis::Seen)) {
            true => News::Freed,
            false => News::Placed,
        }
    }

    /// Brings the entry of a pod up to date.
    fn refresh(&mut self, key: &ObjectKey, pod: &Pod) -> News {
        let Some(known) = self.pods.get_mut(key) else {
            return News::Same;
        };
        let was = std::mem::replace(&mut known.basis, Basis::Seen);
        // A decision of this process may be ahead of the cache.
        known.is_ending |= is_terminating(pod);
        // A pod that this process bound starts later.
        known.since = started(pod).or(known.since);
        let requests = requests(pod);
        // It was resized.
        if requests != known.requests {
            if let Some(taken) = self.nodes.get_mut(&known.node) {
                taken.remove(&known.requests);
                taken.add(&requests);
            }
            let before = std::mem::replace(&mut known.requests, requests);
            let now = |resource: &String| known.requests.get(resource).copied().unwrap_or(0);
            if before.iter().any(|(resource, was)| now(resource) < *was) {
                return News::Freed;
            }
        }
        match was {
            Basis::Assumed => News::Placed,
            Basis::Seen => News::Same,
        }
    }

    /// Returns whether this very pod has a node.
    pub(super) fn has(&self, key: &ObjectKey, pod: &Pod) -> bool {
        self.pods
            .get(key)
            .is_some_and(|entry| entry.uid == uid(pod))
    }

    /// Enters a binding that is about to be written. Returns whether room became free: that which was
    /// kept for the pod on another node.
    pub(super) fn assume(&mut self, key: &ObjectKey, pod: &Pod, node: &str) -> bool {
        self.enter(key, pod, (node, Basis::Assumed))
    }

    /// Takes back a binding that was not written. It stays if a watch has told it meanwhile: then it
    /// was written, and only the reply was lost. Returns whether room became free.
    pub(super) fn unassume(&mut self, key: &ObjectKey, node: &str) -> bool {
        let entry = self.pods.get(key);
        let is_its = |entry: &Entry| entry.basis == Basis::Assumed && entry.node == node;
        entry.is_some_and(is_its) && self.remove(key)
    }

    /// Removes a pod. Returns whether it had a node.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        let was_nominated = self.nominations.remove(key).is_some();
        let Some(entry) = self.pods.remove(key) else {
            return was_nominated;
        };
        if !entry.averse.is_empty() {
            self.averse.remove(key);
        }
        if let Some(count) = self.priorities.get_mut(&entry.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&entry.priority);
            }
        }
        if let Some(taken) = self.nodes.get_mut(&entry.node) {
            taken.remove(&entry.requests);
            if taken.pods == 0 {
                self.nodes.remove(&entry.node);
            }
        }
        true
    }

    /// The part of a node that is taken; `None` if that is nothing.
    pub(super) fn taken(&self, node: &str) -> Option<&Taken> {
        self.nodes.get(node)
    }

    /// The part of a node that is taken for this pod: with the room that is kept for others whose
    /// priority is not lower.
    pub(super) fn taken_for(
        &self,
        node: &str,
        key: &ObjectKey,
        priority: i64,
    ) -> Option<Cow<'_, Taken>> {
        let taken = self.taken(node);
        let mut kept = self.nominations.iter().filter(|(other, nomination)| {
            nomination.node == node && nomination.priority >= priority && *other != key
        });
        let Some(first) = kept.next() else {
            return taken.map(Cow::Borrowed);
        };
        let mut sum = taken.cloned().unwrap_or_default();
        for (_, nomination) in [first].into_iter().chain(kept) {
            sum.add(&nomination.requests);
        }
        Some(Cow::Owned(sum))
    }

    /// Keeps room on a node for a pod. Returns whether room became free: that which was kept for it
    /// on another node.
    pub(super) fn nominate(&mut self, key: &ObjectKey, pod: &Pod, node: &str) -> bool {
        let nomination = Nomination {
            uid: uid(pod).to_owned(),
            node: node.to_owned(),
            priority: priority(pod),
            requests: requests(pod),
        };
        let before = self.nominations.insert(key.clone(), nomination);
        before.is_some_and(|before| before.node != node)
    }

    /// Keeps no room for a pod any longer. Returns whether room became free.
    pub(super) fn renounce(&mut self, key: &ObjectKey) -> bool {
        self.nominations.remove(key).is_some()
    }

    /// The node on which room is kept for a pod.
    pub(super) fn nominated(&self, key: &ObjectKey) -> Option<&str> {
        let nomination = self.nominations.get(key);
        nomination.map(|nomination| nomination.node.as_str())
    }

    /// Notes that a pod was deleted: it is on its way out.
    pub(super) fn end(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.pods.get_mut(key) {
            entry.is_ending = true;
        }
    }

    /// The pods of lower priority, by node.
    // Complexity: O(1) if there is none, else O(pods).
    pub(super) fn below(&self, priority: i64) -> HashMap<&str, Vec<Held<'_>>> {
        let mut below: HashMap<&str, Vec<Held<'_>>> = HashMap::new();
        if self.priorities.range(..priority).next().is_none() {
            return below;
        }
        for (key, entry) in &self.pods {
            if entry.priority < priority {
                below.entry(&entry.node).or_default().push(Held {
                    key,
                    priority: entry.priority,
                    since: entry.since.unwrap_or(Timestamp::MAX),
                    is_ending: entry.is_ending,
                    requests: &entry.requests,
                });
            }
        }
        below
    }

    /// The neighbours of a pod that minds them; of any other, those that may be averse to it.
    // Complexity: O(pods), or O(averse pods).
    pub(super) fn neighbours<'l>(
        &'l self,
        minds: bool,
        labels: &dyn Fn(&ObjectKey) -> Option<Labels>,
    ) -> Vec<Neighbour<'l>> {
        let neighbour = |(key, entry): (&'l ObjectKey, &'l Entry)| {
            Some(Neighbour {
                key,
                node: &entry.node,
                labels: labels(key)?,
                is_ending: entry.is_ending,
                averse: &entry.averse,
            })
        };
        if minds {
            return self.pods.iter().filter_map(neighbour).collect();
        }
        let averse = self.averse.iter();
        let averse = averse.filter_map(|key| self.pods.get_key_value(key));
        averse.filter_map(neighbour).collect()
    }

    /// Enters a pod in place of what was known of it. Returns whether room on another node became
    /// free.
    fn enter(&mut self, key: &ObjectKey, pod: &Pod, (node, basis): (&str, Basis)) -> bool {
        let before = self.pods.get(key).map(|entry| &*entry.node);
        let mut before = before.into_iter().chain(self.nominated(key));
        let was_freed = before.any(|before| before != node);
        self.remove(key);
        let requests = requests(pod);
        let taken = self.nodes.entry(node.to_owned()).or_default();
        taken.add(&requests);
        let priority = priority(pod);
        *self.priorities.entry(priority).or_default() += 1;
        let entry = Entry {
            uid: uid(pod).to_owned(),
            node: node.to_owned(),
            requests,
            basis,
            priority,
            since: started(pod),
            is_ending: is_terminating(pod),
            averse: averse(pod).to_vec(),
        };
        if !entry.averse.is_empty() {
            self.averse.insert(key.clone());
        }
        self.pods.insert(key.clone(), entry);
        was_freed
    }
}

/// The time at which a pod started.
fn started(pod: &Pod) -> Option<Timestamp> {
    let started = pod.status.as_ref()?.start_time.as_ref();
    started.map(|time| time.0)
}

/// The priority of a pod.
pub(super) fn priority(pod: &Pod) -> i64 {
    let spec = pod.spec.as_ref();
    i64::from(spec.and_then(|spec| spec.priority).unwrap_or(0))
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// The requests of a pod: of its containers together, or of the largest init container, and its
/// overhead. Init containers that go on running count with the containers.
pub(super) fn requests(pod: &Pod) -> Requests {
    let mut sum = Requests::new();
    let Some(spec) = &pod.spec else { return sum };
    let add = |sum: &mut Requests, container: &Container| {
        for (resource, amount) in of_container(container) {
            *sum.entry(resource).or_default() += amount;
        }
    };
    let inits = spec.init_containers.as_deref().unwrap_or_default();
    let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let (sidecars, inits): (Vec<_>, Vec<_>) = inits.iter().partition(is_sidecar);
    for container in spec.containers.iter().chain(sidecars) {
        add(&mut sum, container);
    }
    for init in inits {
        for (resource, amount) in of_container(init) {
            let most = sum.entry(resource).or_default();
            *most = amount.max(*most);
        }
    }
    for (resource, amount) in spec.overhead.iter().flatten() {
        *sum.entry(resource.clone()).or_default() += milli(&amount.0);
    }
    sum
}

fn of_container(container: &Container) -> Requests {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests
        .into_iter()
        .flatten()
        .map(|(resource, amount)| (resource.clone(), milli(&amount.0)))
        .collect()
}
