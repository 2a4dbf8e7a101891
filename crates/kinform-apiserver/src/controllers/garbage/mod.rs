//! The garbage collector: deletes objects whose owners are gone.
//!
//! ```text
//! log of the store ──▶ graph (owner's uid ──▶ dependents) ──▶ objects to look at ──▶ deletes, released finalizers
//! ```
//!
//! It runs after each write, before its reply: a client that deleted an owner finds the dependents
//! gone. Watches see the deletion of the owner before those of the dependents, as they would from
//! upstream's collector. Objects that were stored by other ways than requests (a seeded cluster, a
//! restored state) are added to the graph, and judged only when their owner or their references
//! change. The journal records its deletes under its name.
//!
//! A reference finds its owner by group, kind and name, in the namespace of the dependent; an
//! object with another uid is not the owner. A reference to a kind that is not served keeps its
//! object.
//!
//! `work.rs` decides about one object; the graph itself is data (`state/owner_graph.rs`).
//!
//! Complexity: linear in the writes, and in the dependents of deleted objects.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector`.

#[cfg(test)]
mod tests;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::state::State;

use crate::state::owner_graph::Graph;

/// The name of the collector in the journal.
const NAME: &str = "garbage-collector";

/// Adds all writes until now to the graph, without judging them.
pub(crate) fn adopt(state: &State) {
    if let Some(mut graph) = graph(state) {
        graph.follow(&state.store, &mut VecDeque::new());
    }
}

/// Applies the consequences of the writes since the last run.
pub(crate) fn run(state: &Arc<State>) {
    let Some(mut graph) = graph(state) else {
        return;
    };
    let mut queue = VecDeque::new();
    loop {
        graph.follow(&state.store, &mut queue);
        let Some(node) = queue.pop_front() else {
            return;
        };
        work::look_at(state, &graph, &node, &mut queue);
    }
}

/// The graph of owners; `None` if this server does not collect garbage: then dependents stay, and
/// so do finalizers for a collector.
fn graph(state: &State) -> Option<MutexGuard<'_, Graph>> {
    let graph = state.owners.as_ref()?;
    // A panic under this lock cannot leave the graph invalid: it can be rebuilt.
    Some(graph.lock().unwrap_or_else(PoisonError::into_inner))
}
