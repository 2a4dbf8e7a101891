//! The garbage collector: deletes objects whose owners are gone.
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
//! `work.rs` decides about one object; the graph itself is data (`state/owner_graph.rs`).
//!
//! Complexity: linear in what was written, and in the dependents of what goes.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector`.

#[cfg(test)]
mod tests;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::state::State;

use crate::state::owner_graph::Graph;

/// The name under which its writes stand in the journal.
const NAME: &str = "garbage-collector";

/// Takes everything that was written until now into the graph, without judging it.
pub(crate) fn adopt(state: &State) {
    if let Some(mut graph) = graph(state) {
        graph.follow(&state.store, &mut VecDeque::new());
    }
}

/// Does everything that follows from the writes since the last run.
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

/// The graph of owners; `None` if this server does not collect garbage: then finalizers for a collector
/// stay, and dependents stay.
fn graph(state: &State) -> Option<MutexGuard<'_, Graph>> {
    let graph = state.owners.as_ref()?;
    // Nothing that runs under this lock leaves the graph half changed: it can be made anew.
    Some(graph.lock().unwrap_or_else(PoisonError::into_inner))
}
