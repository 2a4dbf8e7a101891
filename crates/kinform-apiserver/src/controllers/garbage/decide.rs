//! The fate of one object in a garbage collection.
//!
//! ```text
//! object + owners + dependents ──▶ stays │ [Change]: loses references, deleted, orphans dependents
//!                                        └ other objects to look at: dependents first
//! ```
//!
//! Decisions read the store and the graph, and write nothing.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector/garbagecollector.go`
//! (`attemptToDeleteItem`, `processDeletingDependentsItem`, `orphanDependents`).

use std::collections::VecDeque;
use std::sync::Arc;

use kinform_api::mutant;

use super::change::{Change, Target};
use crate::object::metadata::{FOREGROUND, ORPHAN};
use crate::resource::{Propagation, ResourceInfo};
use crate::state::State;
use crate::state::owner_graph::{Graph, Node, Owner, Ties};
use crate::storage::{Shelf, Stored};

/// Relation of an owner to its dependent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It exists, or its kind cannot be looked up.
    Solid,
    /// It exists, and is deleted once its dependents are gone.
    Waiting,
    /// It does not exist.
    Absent,
}

/// Decides about one object; other objects to look at are queued.
pub(super) fn look_at(
    state: &State,
    graph: &Graph,
    node: &Node,
    queue: &mut VecDeque<Node>,
) -> Vec<Change> {
    let found = match node {
        Node::Object(shelf, key) => target(state, *shelf, key),
        Node::Owner(owner, namespace) => find(state, owner, namespace.as_deref())
            .and_then(|(resource, object)| Some(Target::new(resource, object?)))
            .filter(|target| target.object.uid() == owner.uid),
    };
    let Some(target) = found else {
        return Vec::new();
    };
    let ties = Ties::of(&target.object);
    if ties.is_terminating() {
        return if ties.has_finalizer(ORPHAN) {
            orphan_dependents(state, graph, target)
        } else if ties.has_finalizer(FOREGROUND) {
            await_dependents(state, graph, target, queue)
        } else {
            Vec::new()
        };
    }
    match ties.owners().is_empty() {
        true => Vec::new(),
        false => judge(state, graph, target, &ties),
    }
}

/// Deletes an object whose owners are gone or wait for it; an object with an owner left only loses
/// the other references.
pub(super) fn judge(state: &State, graph: &Graph, target: Target, ties: &Ties) -> Vec<Change> {
    let object = &target.object;
    let standing = |owner: &Owner| standing(state, owner, object.namespace());
    let mut of: Vec<Standing> = ties.owners().iter().map(standing).collect();
    if mutant!("S9") {
        of.truncate(1);
    }
    if of.contains(&Standing::Solid) {
        let pairs = ties.owners().iter().zip(&of);
        let lost = pairs.filter(|(_, standing)| **standing != Standing::Solid);
        let lost: Vec<String> = lost.map(|(owner, _)| owner.uid.clone()).collect();
        return match lost.is_empty() {
            true => Vec::new(),
            // An owner that was added since the object was read was not judged, and is kept.
            false => vec![Change::DropOwners(target, lost)],
        };
    }
    let mut changes = Vec::new();
    let dependents = || graph.dependents(object.uid());
    let propagation = if of.contains(&Standing::Waiting) && dependents().next().is_some() {
        let is_circle = dependents().any(|(shelf, key)| {
            let dependent = state.store.get(*shelf, key);
            dependent.is_some_and(|dependent| {
                let ties = Ties::of(&dependent);
                ties.is_terminating() && ties.has_finalizer(FOREGROUND)
            })
        });
        if is_circle {
            // Both wait for each other: this object no longer blocks its owner.
            changes.push(Change::Unblock(target.clone()));
        }
        Propagation::Foreground
    } else if ties.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if ties.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    changes.push(Change::Delete(target, propagation));
    changes
}

/// Releases an object whose blocking dependents are gone; otherwise looks at those dependents.
fn await_dependents(
    state: &State,
    graph: &Graph,
    target: Target,
    queue: &mut VecDeque<Node>,
) -> Vec<Change> {
    let mut is_blocked = false;
    for (shelf, key) in graph.dependents(target.object.uid()) {
        let Some(dependent) = state.store.get(*shelf, key) else {
            continue;
        };
        let ties = Ties::of(&dependent);
        let blocks = |owner: &Owner| {
            owner.uid == target.object.uid() && owner.block_owner_deletion.unwrap_or(false)
        };
        if ties.owners().iter().any(blocks) {
            is_blocked = true;
            if !ties.is_terminating() {
                queue.push_back(Node::Object(*shelf, key.clone()));
            }
        }
    }
    match is_blocked {
        true => Vec::new(),
        false => vec![Change::Release(target, FOREGROUND)],
    }
}

/// Removes the references of all dependents, then releases the object.
fn orphan_dependents(state: &State, graph: &Graph, target: Target) -> Vec<Change> {
    let uid = target.object.uid();
    let dependents = graph.dependents(uid);
    let dependents = dependents.filter_map(|(shelf, key)| self::target(state, *shelf, key));
    let mut changes: Vec<Change> = dependents
        .map(|dependent| Change::DropOwners(dependent, vec![uid.to_owned()]))
        .collect();
    changes.push(Change::Release(target, ORPHAN));
    changes
}

/// The object of a key, with its resource; `None` if either is gone.
fn target(state: &State, shelf: Shelf, key: &str) -> Option<Target> {
    let object = state.store.get(shelf, key)?;
    let entries = state.registry.entries();
    let resource = entries.iter().find(|entry| entry.shelf == shelf)?;
    Some(Target::new(resource.clone(), object))
}

/// Resolves a reference from a namespace: the resource, and its object if there is one. `None` if
/// the kind is not served, or if its objects cannot be owners from that namespace.
fn find(
    state: &State,
    owner: &Owner,
    namespace: Option<&str>,
) -> Option<(Arc<ResourceInfo>, Option<Arc<Stored>>)> {
    let (group, version) = match owner.api_version.split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", owner.api_version.as_str()),
    };
    let entries = state.registry.entries();
    let resource = entries.iter().find(|of| {
        of.kind == owner.kind && of.group == group && of.version == version && of.is_stored()
    })?;
    let key = match (resource.is_namespaced(), namespace) {
        (false, _) => owner.name.clone(),
        (true, Some(namespace)) => format!("{namespace}/{}", owner.name),
        (true, None) => return None,
    };
    let object = state.store.get(resource.shelf, &key);
    Some((resource.clone(), object))
}

fn standing(state: &State, owner: &Owner, namespace: Option<&str>) -> Standing {
    let Some((_, found)) = find(state, owner, namespace) else {
        return Standing::Solid;
    };
    let Some(found) = found.filter(|found| found.uid() == owner.uid) else {
        return Standing::Absent;
    };
    let ties = Ties::of(&found);
    if ties.is_terminating() && ties.has_finalizer(FOREGROUND) {
        Standing::Waiting
    } else {
        Standing::Solid
    }
}
