//! A pod that looks for a node, and all that decides about it.
//!
//! ```text
//! pod + nodes + neighbours ─▶ Incoming ─▶ Around (what neighbours mean for it) ─▶ refusals of a node
//! ```
//!
//! Filters come in upstream's order, and the first that refuses ends the check: the node itself, its
//! resources, volumes, spread, affinity to pods.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/runtime` (`RunFilterPlugins`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::ObjectKey;

use super::affinity::{Attraction, Terms};
use super::claims::Needs;
use super::fit::{name, refusals};
use super::ledger::{Ledger, Requests, Taken, requests};
use super::neighbours::{Caches, Labels, Neighbour, Seen};
use super::spread::{Counts, constraints};

/// A pod without a node.
pub(super) struct Incoming<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) pod: &'a Pod,
    pub(super) nodes: &'a [Arc<Node>],
    pub(super) requests: Requests,
    /// The volumes that the pod has and needs.
    pub(super) needs: &'a Needs,
    labels: Labels,
    terms: Terms<'a>,
    /// Empty if no constraint is about pods.
    neighbours: Vec<Neighbour<'a>>,
    pub(super) caches: Caches<'a>,
}

/// The meaning of neighbours for a pod.
#[derive(Debug, Default)]
pub(super) struct Around {
    attraction: Attraction,
    counts: Counts,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(
        key: &'a ObjectKey,
        pod: &'a Pod,
        (nodes, needs): (&'a [Arc<Node>], &'a Needs),
        ledger: &'a Ledger,
        caches: Caches<'a>,
    ) -> Self {
        Self {
            key,
            pod,
            nodes,
            requests: requests(pod),
            needs,
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            terms: Terms::of(pod),
            neighbours: ledger.neighbours(minds_pods(pod), caches.pods),
            caches,
        }
    }

    /// The meaning of the neighbours, without some of them.
    pub(super) fn around(&self, without: &BTreeSet<&ObjectKey>) -> Around {
        if self.neighbours.is_empty() && !minds_pods(self.pod) {
            return Around::default();
        }
        let seen = Seen {
            namespace: self.key.namespace().unwrap_or_default(),
            labels: &self.labels,
        };
        let left = || {
            let all = self.neighbours.iter();
            all.filter(|one| one.key != self.key && !without.contains(one.key))
        };
        let nodes: HashMap<&str, &Node> = self.nodes.iter().map(|n| (name(n), &**n)).collect();
        Around {
            attraction: Attraction::of(&self.terms, seen, left(), &nodes, self.caches),
            counts: Counts::of(self.pod, seen, left(), self.nodes),
        }
    }

    /// The reasons why the pod cannot run on a node; empty if it can.
    pub(super) fn refusals(
        &self,
        node: &Node,
        taken: Option<&Taken>,
        around: &Around,
    ) -> Vec<String> {
        let refused = refusals(self.pod, &self.requests, node, taken);
        if !refused.is_empty() {
            return refused;
        }
        let refused = self.needs.steps(node).err();
        let refused = refused.or_else(|| around.counts.refusal(node));
        let refused = refused.or_else(|| around.attraction.refusal(node));
        refused.map(str::to_owned).into_iter().collect()
    }

    /// Returns whether no deleted pod would make a node fit.
    pub(super) fn is_hopeless(&self, node: &Node, around: &Around) -> bool {
        !refusals(self.pod, &self.requests, node, None).is_empty()
            || self.needs.steps(node).is_err()
            || around.counts.hopeless(node).is_some()
            || around.attraction.hopeless(node).is_some()
    }
}

impl Around {
    /// The weight of the pod's preferences for other pods that a node meets.
    pub(super) fn preference(&self, node: &Node) -> i64 {
        self.attraction.preference(node)
    }

    /// The number of pods alike near a node.
    pub(super) fn crowd(&self, node: &Node) -> i64 {
        self.counts.score(node)
    }
}

/// Returns whether the place of other pods counts for this one.
pub(super) fn minds_pods(pod: &Pod) -> bool {
    !Terms::of(pod).is_empty() || !constraints(pod).is_empty()
}
