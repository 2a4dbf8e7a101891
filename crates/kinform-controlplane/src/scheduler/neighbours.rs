//! The pods on nodes, as the constraints of another pod see them.
//!
//! ```text
//! ledger (node of each pod) + caches (labels of pods and namespaces) ─▶ neighbours of a pod
//! ```
//!
//! Labels are read for a pod that has constraints, and of the pods that are averse to others. For any
//! other pod of a cluster without such pods, this costs nothing.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/types.go` (`AffinityTerm`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm};
use kinform::ObjectKey;
use serde_json::Value;

use crate::selector;

pub(super) type Labels = BTreeMap<String, String>;

/// The caches that are read while a decision is made.
#[derive(Clone, Copy)]
pub(super) struct Caches<'c> {
    /// The labels of a pod; `None` if it is gone.
    pub(super) pods: &'c dyn Fn(&ObjectKey) -> Option<Labels>,
    /// The labels of a namespace.
    pub(super) namespaces: &'c dyn Fn(&str) -> Labels,
    pub(super) budgets: &'c dyn Fn() -> Vec<Arc<Value>>,
}

/// A pod that has a node.
#[derive(Clone, Debug)]
pub(super) struct Neighbour<'l> {
    pub(super) key: &'l ObjectKey,
    pub(super) node: &'l str,
    pub(super) labels: Labels,
    pub(super) is_ending: bool,
    /// The required terms of its anti-affinity.
    pub(super) averse: &'l [PodAffinityTerm],
}

/// A pod as a term sees it: its namespace and its labels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'s> {
    pub(super) namespace: &'s str,
    pub(super) labels: &'s Labels,
}

impl Neighbour<'_> {
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen {
            namespace: self.key.namespace().unwrap_or_default(),
            labels: &self.labels,
        }
    }
}

/// Returns whether a term of a pod covers another pod.
pub(super) fn covers(
    term: &PodAffinityTerm,
    owner: Seen<'_>,
    other: Seen<'_>,
    caches: Caches<'_>,
) -> bool {
    let named = term.namespaces.as_deref().unwrap_or_default();
    let of_namespace = match (&term.namespace_selector, named) {
        (None, []) => owner.namespace == other.namespace,
        (Some(selector), named) => {
            named.iter().any(|name| name == other.namespace)
                || selector::matches(Some(selector), &(caches.namespaces)(other.namespace))
        }
        (None, named) => named.iter().any(|name| name == other.namespace),
    };
    let alike = |key: &String| owner.labels.get(key) == other.labels.get(key);
    let known = |keys: &Option<Vec<String>>| {
        let keys = keys.iter().flatten();
        let keys = keys.filter(|key| owner.labels.contains_key(*key));
        keys.cloned().collect::<Vec<_>>()
    };
    of_namespace
        && selector::matches(term.label_selector.as_ref(), other.labels)
        && known(&term.match_label_keys).iter().all(alike)
        && !known(&term.mismatch_label_keys).iter().any(alike)
}

/// The required terms of a pod's anti-affinity.
pub(super) fn averse(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
    let anti = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let terms = anti.and_then(|anti| {
        anti.required_during_scheduling_ignored_during_execution
            .as_deref()
    });
    terms.unwrap_or_default()
}
