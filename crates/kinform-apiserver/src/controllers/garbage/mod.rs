//! The garbage collector: deletes objects whose owners are gone.
//!
//! ```text
//! log of the store ──▶ graph (owner's uid ──▶ dependents) ──▶ objects to look at
//!                                      decide ──▶ [Change] ──apply──▶ deletes, released finalizers
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
//! `decide.rs` decides about one object, under the lock of the graph; `change.rs` makes the writes,
//! without it. Runs take turns, so that a request returns only when the consequences of its write
//! are done, whichever run found them. The graph itself is data (`state/owner_graph.rs`).
//!
//! Complexity: linear in the writes, and in the dependents of deleted objects.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector`.

mod change;
mod decide;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use self::change::{Change, Target};
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::state::owner_graph::{Node, OwnerGraph};
use crate::storage::{LogPlace, Shelf, Since, Stored};

/// The name of the collector in the journal.
const NAME: &str = "garbage-collector";

/// Adds all writes until now to the graph, without judging them.
pub(crate) fn adopt(state: &State) {
    if let Some(owners) = &state.owners {
        owners.graph().follow(&state.store, &mut VecDeque::new());
    }
}

/// Applies the consequences of the writes since the last run. A server that does not collect
/// garbage has no graph: then dependents stay, and so do finalizers for a collector.
pub(crate) fn run(state: &Arc<State>) {
    let Some(owners) = &state.owners else {
        return;
    };
    collect(state, owners, VecDeque::new());
}

/// Decides about an object again, which changed since it was decided on.
pub(crate) fn look_again(state: &Arc<State>, shelf: Shelf, key: &str) {
    let Some(owners) = &state.owners else {
        return;
    };
    collect(
        state,
        owners,
        VecDeque::from([Node::Object(shelf, key.into())]),
    );
}

/// Records a delete of the collector in the journal.
pub(super) fn note_delete(state: &State, resource: &Arc<ResourceInfo>, object: &Arc<Stored>) {
    change::note(
        state,
        "delete",
        &Target::new(resource.clone(), object.clone()),
    );
}

/// Adds all writes until now to the graph, and applies the consequences that an earlier process
/// left open: for dependents of objects that were deleted within the history, and for objects that
/// wait for the collector.
pub(crate) fn resume(state: &Arc<State>) {
    let Some(owners) = &state.owners else {
        return;
    };
    let mut queue = VecDeque::new();
    {
        let mut graph = owners.graph();
        graph.follow(&state.store, &mut queue);
        let is_terminating = |shelf: Shelf, key: &str| {
            let object = state.store.get(shelf, key);
            object.is_some_and(|object| object.is_terminating())
        };
        queue.retain(|node| match node {
            Node::Object(shelf, key) => is_terminating(*shelf, key),
            Node::Owner(..) => true,
        });
        let kept = LogPlace::after(state.store.floor());
        if let Since::Events(events, _) = state.store.since(kept) {
            for (_, event) in events {
                let gone = event.previous.filter(|_| event.current.is_none());
                let Some(gone) = gone else { continue };
                let left = graph.dependents(gone.uid());
                queue.extend(left.map(|(shelf, key)| Node::Object(*shelf, key.clone())));
            }
        }
    }
    collect(state, owners, queue);
}

/// Looks at the objects of a queue, and at those that the writes since the last run concern.
fn collect(state: &Arc<State>, owners: &OwnerGraph, mut queue: VecDeque<Node>) {
    let _turn = owners.turn();
    while let Some(changes) = next(state, owners, &mut queue) {
        let again = changes.into_iter().filter_map(|change| change.apply(state));
        queue.extend(again);
    }
}

/// Decides about the next object to look at; `None` if there is none left.
fn next(state: &State, owners: &OwnerGraph, queue: &mut VecDeque<Node>) -> Option<Vec<Change>> {
    let mut graph = owners.graph();
    graph.follow(&state.store, queue);
    let node = queue.pop_front()?;
    Some(decide::look_at(state, &graph, &node, queue))
}
