//! The fate of one object in a garbage collection.
//!
//! ```text
//! object + owners + dependents ──▶ stays | loses references | deleted | dependents first | orphans them
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector/garbagecollector.go`
//! (`attemptToDeleteItem`, `processDeletingDependentsItem`, `orphanDependents`).

use std::collections::VecDeque;
use std::sync::Arc;

use kinform_api::mutant;
use serde_json::Value;

use super::NAME;
use crate::clock;
use crate::controllers::effects;
use crate::journal::Record;
use crate::object::metadata::{self, FOREGROUND, ORPHAN};
use crate::object::text;
use crate::resource::{Propagation, ResourceInfo};
use crate::state::State;
use crate::state::owner_graph::{Graph, Node, Owner, Ties};
use crate::storage::Stored;
use crate::write::DeleteOptions;

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

/// Does the pending work of one object. Consequences arrive through the log; other objects to look
/// at are queued.
pub(super) fn look_at(state: &Arc<State>, graph: &Graph, node: &Node, queue: &mut VecDeque<Node>) {
    let found = match node {
        Node::Object(shelf, key) => state.store.get(*shelf, key).and_then(|object| {
            let entries = state.registry.entries();
            let resource = entries.iter().find(|entry| entry.shelf == *shelf)?;
            Some((resource.clone(), object))
        }),
        Node::Owner(owner, namespace) => find(state, owner, namespace.as_deref())
            .and_then(|(resource, object)| Some((resource, object?)))
            .filter(|(_, object)| object.uid() == owner.uid),
    };
    let Some((resource, object)) = found else {
        return;
    };
    let ties = Ties::of(&object);
    if ties.is_terminating() {
        if ties.has_finalizer(ORPHAN) {
            let_go(state, graph, (&resource, &object));
        } else if ties.has_finalizer(FOREGROUND) {
            await_dependents(state, graph, (&resource, &object), queue);
        }
        return;
    }
    if !ties.owners().is_empty() {
        judge(state, graph, (&resource, &object), &ties, queue);
    }
}

/// Deletes an object whose owners are gone or wait for it; an object with an owner left only loses
/// the other references.
pub(super) fn judge(
    state: &Arc<State>,
    graph: &Graph,
    (resource, object): (&Arc<ResourceInfo>, &Stored),
    ties: &Ties,
    queue: &mut VecDeque<Node>,
) {
    let standing = |owner: &Owner| standing(state, owner, object.namespace());
    let mut of: Vec<Standing> = ties.owners().iter().map(standing).collect();
    if mutant!("S9") {
        of.truncate(1);
    }
    let is_solid = of.contains(&Standing::Solid);
    if is_solid {
        if of.iter().any(|standing| *standing != Standing::Solid) {
            // An owner that was added since the object was read was not judged, and is kept.
            let keep = |uid: &str| {
                let mut pairs = ties.owners().iter().zip(&of);
                !pairs.any(|(owner, standing)| owner.uid == uid && *standing != Standing::Solid)
            };
            keep_owners(state, (resource, object), keep);
        }
        return;
    }
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
            unblock(state, (resource, object));
        }
        Propagation::Foreground
    } else if ties.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if ties.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let options = DeleteOptions {
        propagation: Some(propagation),
        uid: Some(object.uid().to_owned()),
        resource_version: Some(object.revision().to_string()),
        ..DeleteOptions::default()
    };
    match effects::delete(state, resource, object.key(), &options) {
        Ok(()) => note(state, "delete", resource, object),
        // The judgement is about the object as it was read: it may have another owner by now.
        Err(status) if status.code == 409 => {
            queue.push_back(Node::Object(resource.shelf, object.key().into()));
        }
        Err(_) => {}
    }
}

/// Releases an object whose blocking dependents are gone; otherwise looks at those dependents.
fn await_dependents(
    state: &Arc<State>,
    graph: &Graph,
    (resource, object): (&Arc<ResourceInfo>, &Stored),
    queue: &mut VecDeque<Node>,
) {
    let mut is_blocked = false;
    for (shelf, key) in graph.dependents(object.uid()) {
        let Some(dependent) = state.store.get(*shelf, key) else {
            continue;
        };
        let ties = Ties::of(&dependent);
        let blocks = |owner: &Owner| {
            owner.uid == object.uid() && owner.block_owner_deletion.unwrap_or(false)
        };
        if ties.owners().iter().any(blocks) {
            is_blocked = true;
            if !ties.is_terminating() {
                queue.push_back(Node::Object(*shelf, key.clone()));
            }
        }
    }
    if !is_blocked {
        release(state, (resource, object), FOREGROUND);
    }
}

/// Removes the references of all dependents, then releases the object.
fn let_go(state: &Arc<State>, graph: &Graph, (resource, object): (&Arc<ResourceInfo>, &Stored)) {
    for (shelf, key) in graph.dependents(object.uid()) {
        let entries = state.registry.entries();
        let of = entries.iter().find(|entry| entry.shelf == *shelf);
        if let (Some(of), Some(dependent)) = (of, state.store.get(*shelf, key)) {
            keep_owners(state, (of, &dependent), |uid| uid != object.uid());
        }
    }
    release(state, (resource, object), ORPHAN);
}

/// Removes a finalizer; the object is removed with its last one.
fn release(state: &Arc<State>, (resource, object): (&Arc<ResourceInfo>, &Stored), finalizer: &str) {
    let done = effects::change(state, resource, object.key(), |next| {
        let metadata = metadata::of(next);
        let Some(Value::Array(list)) = metadata.get_mut("finalizers") else {
            return;
        };
        list.retain(|name| name != finalizer);
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    });
    if done {
        note(state, "patch", resource, object);
    }
}

/// Removes references to owners other than the kept ones.
fn keep_owners(
    state: &Arc<State>,
    (resource, object): (&Arc<ResourceInfo>, &Stored),
    keep: impl Fn(&str) -> bool,
) {
    let done = effects::change(state, resource, object.key(), |next| {
        let metadata = metadata::of(next);
        let Some(Value::Array(list)) = metadata.get_mut("ownerReferences") else {
            return;
        };
        list.retain(|owner| keep(text(owner, &["uid"])));
        if list.is_empty() {
            metadata.remove("ownerReferences");
        }
    });
    if done {
        note(state, "patch", resource, object);
    }
}

/// Stops the object from blocking the deletion of its owners.
fn unblock(state: &Arc<State>, (resource, object): (&Arc<ResourceInfo>, &Stored)) {
    let done = effects::change(state, resource, object.key(), |next| {
        let owners = metadata::of(next).get_mut("ownerReferences");
        let owners = owners.and_then(Value::as_array_mut);
        for owner in owners.into_iter().flatten() {
            if owner["blockOwnerDeletion"] == Value::Bool(true) {
                owner["blockOwnerDeletion"] = Value::Bool(false);
            }
        }
    });
    if done {
        note(state, "patch", resource, object);
    }
}

/// Resolves a reference from a namespace: the resource, and its object if there is one. `None` if
/// the kind is not served, or if its objects cannot be owners from that namespace.
fn find(
    state: &Arc<State>,
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

fn standing(state: &Arc<State>, owner: &Owner, namespace: Option<&str>) -> Standing {
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

/// Records a write in the journal.
fn note(state: &State, verb: &'static str, resource: &ResourceInfo, object: &Stored) {
    let entry = state.journal.begin(Record {
        verb,
        resource: resource.plural.clone(),
        namespace: object.namespace().map(str::to_owned),
        name: Some(object.name().to_owned()),
        query: String::new(),
        controller: Some(NAME),
        code: 200,
        bytes: 0,
        time: state.clock.now(),
        started: clock::instant(),
        ended: None,
    });
    drop(entry);
}
