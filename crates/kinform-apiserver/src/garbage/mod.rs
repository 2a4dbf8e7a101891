//! The garbage collector: what nobody owns any more goes.
//!
//! ```text
//! log of the store ──▶ graph (owner's uid ──▶ dependents) ──▶ objects to look at ──▶ deletes, released finalizers
//! ```
//!
//! It runs after each write, before its reply: a client that deleted an owner finds the dependents gone,
//! and watches hear first of the owner, then of them, as they would from upstream's collector. What was
//! stored by other ways than requests (a seeded cluster, a restored state) is taken into the graph and not
//! judged, until its owner or its references change. Its deletes stand in the journal under its name.
//!
//! An owner is looked for under the group, kind and name that its reference says, in the namespace of the
//! dependent; one with another uid is not there. A reference to a kind that is not served keeps its object.
//!
//! * `graph.rs`: who refers to whom; `work.rs`: what becomes of an object.
//!
//! Complexity: linear in what was written, and in the dependents of what goes.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector`.

mod graph;
#[cfg(test)]
mod tests;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::api::Api;
use crate::storage::Store;

use self::graph::Graph;

/// The name under which its writes stand in the journal.
const NAME: &str = "garbage-collector";

/// The collector of a server.
#[derive(Debug)]
pub(crate) struct Collector {
    graph: Option<Mutex<Graph>>,
}

impl Collector {
    /// A collector that knows everything that is stored already.
    pub(crate) fn new(store: &Store) -> Self {
        let collector = Self {
            graph: Some(Mutex::default()),
        };
        collector.adopt(store);
        collector
    }

    /// None at all: finalizers for a collector stay, dependents stay.
    pub(crate) fn off() -> Self {
        Self { graph: None }
    }

    fn graph(&self) -> Option<MutexGuard<'_, Graph>> {
        let graph = self.graph.as_ref()?;
        // Nothing that runs under this lock leaves the graph half changed: it can be made anew.
        Some(graph.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what was written until now into the graph, without judging it.
    pub(crate) fn adopt(&self, store: &Store) {
        if let Some(mut graph) = self.graph() {
            graph.follow(store, &mut VecDeque::new());
        }
    }

    /// Does everything that follows from what was written.
    pub(crate) fn run(&self, api: &Arc<Api>) {
        let Some(mut graph) = self.graph() else {
            return;
        };
        let mut queue = VecDeque::new();
        loop {
            graph.follow(&api.store, &mut queue);
            let Some(node) = queue.pop_front() else {
                return;
            };
            work::look_at(api, &graph, &node, &mut queue);
        }
    }
}
