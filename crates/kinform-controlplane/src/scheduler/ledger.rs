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
    pub(super) since: Option<Timestamp>,
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
    /// Enters a pod as the cache has it. Returns whether room became free.
    pub(super) fn see(&mut self, key: &ObjectKey, pod: &Pod) -> bool {
        let node = node_of(pod);
        if is_finished(pod) {
            return self.remove(key);
        }
        if node.is_empty() {
            // The cache may be older than a decision: that stands, unless the pod is another one.
            if self.has(key, pod) {
                return false;
            }
            // A change of its status, such as the one that tells of the nomination, leaves it.
            let is_of = |nomination: &Nomination| nomination.uid == uid(pod);
            let nomination = self.nominations.remove(key);
            let was_freed = self.remove(key);
            return match nomination {
                Some(nomination) if is_of(&nomination) => {
                    self.nominations.insert(key.clone(), nomination);
                    was_freed
                }
                nomination => was_freed || nomination.is_some(),
            };
        }
        let known = self.pods.get(key);
        let is_same = known.is_some_and(|known| known.node == node && known.uid == uid(pod));
        match self.pods.get_mut(key).filter(|_| is_same) {
            Some(known) => {
                known.basis = Basis::Seen;
                // A decision of this process may be ahead of the cache.
                known.is_ending |= is_terminating(pod);
                // A pod that this process bound starts later.
                known.since = started(pod).or(known.since);
            }
            None => self.enter(key, pod, (node, Basis::Seen)),
        }
        false
    }

    /// Returns whether this very pod has a node.
    pub(super) fn has(&self, key: &ObjectKey, pod: &Pod) -> bool {
        self.pods
            .get(key)
            .is_some_and(|entry| entry.uid == uid(pod))
    }

    /// Enters a binding that is about to be written.
    pub(super) fn assume(&mut self, key: &ObjectKey, pod: &Pod, node: &str) {
        self.enter(key, pod, (node, Basis::Assumed));
    }

    /// Takes back a binding that was not written. It stays if a watch has told it meanwhile: then it
    /// was written, and only the reply was lost.
    pub(super) fn unassume(&mut self, key: &ObjectKey, node: &str) {
        let entry = self.pods.get(key);
        if entry.is_some_and(|entry| entry.basis == Basis::Assumed && entry.node == node) {
            self.remove(key);
        }
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

    /// Keeps room on a node for a pod.
    pub(super) fn nominate(&mut self, key: &ObjectKey, pod: &Pod, node: &str) {
        let nomination = Nomination {
            uid: uid(pod).to_owned(),
            node: node.to_owned(),
            priority: priority(pod),
            requests: requests(pod),
        };
        self.nominations.insert(key.clone(), nomination);
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
                    since: entry.since,
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

    fn enter(&mut self, key: &ObjectKey, pod: &Pod, (node, basis): (&str, Basis)) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, node: &str, cpu: &str, phase: &str) -> Pod {
        let node = (!node.is_empty()).then_some(node);
        let pod = json!({
            "metadata": {"name": "p", "uid": uid},
            "spec": {"nodeName": node, "containers": [container(cpu)]},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).unwrap()
    }

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    fn cpu(ledger: &Ledger, node: &str) -> Option<i128> {
        ledger.taken(node)?.requests.get("cpu").copied()
    }

    #[test]
    fn a_pod_that_was_bound_here_gets_its_start_time() {
        let mut ledger = Ledger::default();
        let started = |time: Option<&str>| -> Pod {
            let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [],
                "nodeName": "n"}, "status": {"startTime": time}});
            serde_json::from_value(pod).unwrap()
        };
        let key = ObjectKey::new(Some("ns"), "p");
        ledger.assume(&key, &started(None), "n");
        let time = "2026-01-01T00:00:00Z";
        ledger.see(&key, &started(Some(time)));
        let below = ledger.below(1);
        assert_eq!(below["n"][0].since, Some(time.parse().unwrap()));
    }

    #[test]
    fn a_decision_stands_until_the_watch_confirms_it() {
        let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
        let waiting = pod("u", "", "500m", "Pending");
        ledger.assume(&key, &waiting, "n");
        assert!(!ledger.see(&key, &waiting));
        assert_eq!(cpu(&ledger, "n"), Some(500));
        assert!(!ledger.see(&key, &pod("u", "n", "500m", "Running")));
        assert_eq!(cpu(&ledger, "n"), Some(500));
        assert!(ledger.see(&key, &pod("u", "n", "500m", "Succeeded")));
        assert_eq!(ledger.taken("n"), None);
    }

    #[test]
    fn a_binding_whose_reply_was_lost_stays_once_a_watch_has_told_it() {
        let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
        let waiting = pod("u", "", "500m", "Pending");
        ledger.assume(&key, &waiting, "n");
        ledger.unassume(&key, "m");
        assert_eq!(cpu(&ledger, "n"), Some(500), "of another node");
        ledger.see(&key, &pod("u", "n", "500m", "Pending"));
        ledger.unassume(&key, "n");
        assert_eq!(cpu(&ledger, "n"), Some(500));
        ledger.remove(&key);
        ledger.assume(&key, &waiting, "n");
        ledger.unassume(&key, "n");
        assert_eq!(ledger.taken("n"), None);
    }

    #[test]
    fn another_pod_of_the_name_is_another_pod() {
        let (mut ledger, key) = (Ledger::default(), ObjectKey::new(Some("a"), "p"));
        ledger.see(&key, &pod("u", "n", "1", "Running"));
        assert!(ledger.see(&key, &pod("v", "", "1", "Pending")));
        assert_eq!(ledger.taken("n"), None);
        ledger.see(&key, &pod("v", "m", "2", "Running"));
        assert_eq!(cpu(&ledger, "m"), Some(2000));
        assert!(ledger.remove(&key));
        assert!(!ledger.remove(&key));
    }

    #[test]
    fn containers_add_up_and_init_containers_run_before_them() {
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = "Always".into();
        let pod = json!({"spec": {
            "containers": [container("1"), container("1")],
            "initContainers": [container("2"), container("5"), sidecar],
            "overhead": {"cpu": "100m"},
        }});
        let requests = requests(&serde_json::from_value(pod).unwrap());
        assert_eq!(requests["cpu"], 5100);
    }
}
