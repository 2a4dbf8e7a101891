//! Affinity between pods: the nodes near which a pod must be, may not be, or would like to be.
//!
//! ```text
//! terms of a pod + neighbours + their nodes ─▶ Attraction ─▶ of a node: refusal, preference
//! anti-affinity of neighbours ──────────────┘
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/plugins/interpodaffinity`. Difference:
//! the preferences of the neighbours do not count, only those of the pod.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::{Node, Pod, PodAffinityTerm, WeightedPodAffinityTerm};

use super::fit::label;
use super::neighbours::{Caches, Neighbour, Seen, averse, covers};

const NOT_NEAR: &str = "node(s) didn't match pod affinity rules";
const TOO_NEAR: &str = "node(s) didn't match pod anti-affinity rules";
const UNWANTED: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// The terms of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'p> {
    near: &'p [PodAffinityTerm],
    apart: &'p [PodAffinityTerm],
    rather_near: &'p [WeightedPodAffinityTerm],
    rather_apart: &'p [WeightedPodAffinityTerm],
}

impl<'p> Terms<'p> {
    pub(super) fn of(pod: &'p Pod) -> Self {
        let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
        let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required = near.and_then(|near| {
            near.required_during_scheduling_ignored_during_execution
                .as_deref()
        });
        let preferred = near.and_then(|near| {
            near.preferred_during_scheduling_ignored_during_execution
                .as_deref()
        });
        let rather_apart = apart.and_then(|apart| {
            apart
                .preferred_during_scheduling_ignored_during_execution
                .as_deref()
        });
        Self {
            near: required.unwrap_or_default(),
            apart: averse(pod),
            rather_near: preferred.unwrap_or_default(),
            rather_apart: rather_apart.unwrap_or_default(),
        }
    }

    /// Returns whether the pod does not care about others.
    pub(super) fn is_empty(&self) -> bool {
        self.near.is_empty()
            && self.apart.is_empty()
            && self.rather_near.is_empty()
            && self.rather_apart.is_empty()
    }
}

/// A part of the cluster: the value of a node's label.
type Place = (String, String);

/// The parts of the cluster to which a pod is drawn, or from which it is kept.
#[derive(Debug, Default)]
pub(super) struct Attraction {
    /// The labels of the required terms.
    near: Vec<String>,
    found: HashSet<Place>,
    /// Says that the pod may be the first of its kind: no pod is found, and its terms cover itself.
    is_first: bool,
    apart: HashSet<Place>,
    unwanted: HashSet<Place>,
    /// The weight of a pod in a part.
    preferred: HashMap<Place, i64>,
}

impl Attraction {
    // Complexity: O(neighbours times terms).
    pub(super) fn of<'n>(
        terms: &Terms<'_>,
        pod: Seen<'_>,
        neighbours: impl Iterator<Item = &'n Neighbour<'n>>,
        nodes: &HashMap<&str, &Node>,
        caches: Caches<'_>,
    ) -> Self {
        let topology = |term: &PodAffinityTerm| term.topology_key.clone();
        let mut this = Self {
            near: terms.near.iter().map(topology).collect(),
            ..Self::default()
        };
        let all_cover = |other| {
            terms
                .near
                .iter()
                .all(|term| covers(term, pod, other, caches))
        };
        for neighbour in neighbours {
            let Some(node) = nodes.get(neighbour.node) else {
                continue;
            };
            let other = neighbour.seen();
            let place = |term: &PodAffinityTerm| place(node, &term.topology_key);
            if !terms.near.is_empty() && all_cover(other) {
                this.found.extend(terms.near.iter().filter_map(place));
            }
            let apart = terms.apart.iter();
            let apart = apart.filter(|term| covers(term, pod, other, caches));
            this.apart.extend(apart.filter_map(place));
            let averse = neighbour.averse.iter();
            let averse = averse.filter(|term| covers(term, other, pod, caches));
            this.unwanted.extend(averse.filter_map(place));
            for (preferred, sign) in [(terms.rather_near, 1), (terms.rather_apart, -1)] {
                for one in preferred {
                    let term = &one.pod_affinity_term;
                    if covers(term, pod, other, caches)
                        && let Some(place) = place(term)
                    {
                        *this.preferred.entry(place).or_default() += sign * i64::from(one.weight);
                    }
                }
            }
        }
        this.is_first = this.found.is_empty() && all_cover(pod);
        this
    }

    /// The reason why no deleted pod would make the node fit.
    pub(super) fn hopeless(&self, node: &Node) -> Option<&'static str> {
        let is_near = |key: &String| match place(node, key) {
            Some(place) => self.is_first || self.found.contains(&place),
            None => false,
        };
        (!self.near.iter().all(is_near)).then_some(NOT_NEAR)
    }

    /// The reason why the node does not fit.
    pub(super) fn refusal(&self, node: &Node) -> Option<&'static str> {
        let is_in = |places: &HashSet<Place>| {
            let mut places = places.iter();
            places.any(|(key, value)| label(node, key) == Some(value))
        };
        if let Some(why) = self.hopeless(node) {
            return Some(why);
        }
        if is_in(&self.apart) {
            return Some(TOO_NEAR);
        }
        is_in(&self.unwanted).then_some(UNWANTED)
    }

    /// The weight of the preferences that the node meets.
    pub(super) fn preference(&self, node: &Node) -> i64 {
        let met = self.preferred.iter();
        let met = met.filter(|((key, value), _)| label(node, key) == Some(value));
        met.map(|(_, weight)| weight).sum()
    }
}

fn place(node: &Node, key: &str) -> Option<Place> {
    Some((key.to_owned(), label(node, key)?.clone()))
}
