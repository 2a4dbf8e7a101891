//! The writes of the garbage collector.
//!
//! ```text
//! [Change], as decided ──apply──▶ store, journal ──▶ the object again, if it was written since
//! ```
//!
//! Each is tried against the newest state of its object; a lost race is repeated, and a delete is
//! decided anew. Nothing is locked meanwhile but the collector's turn.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector/operations.go`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::NAME;
use crate::clock;
use crate::controllers::{defer, effects};
use crate::journal::Record;
use crate::object::metadata;
use crate::object::text;
use crate::resource::{Propagation, ResourceInfo};
use crate::state::State;
use crate::state::owner_graph::Node;
use crate::state::wanted_deletes::Wish;
use crate::storage::Stored;
use crate::write::DeleteOptions;

/// An object as it was read, and its resource.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: Arc<ResourceInfo>,
    pub(super) object: Arc<Stored>,
}

/// A write that was decided on.
#[derive(Debug)]
pub(super) enum Change {
    /// Deletes the object, if it is still as it was read.
    Delete(Target, Propagation),
    /// Removes the references to the owners of these uids.
    DropOwners(Target, Vec<String>),
    /// Removes a finalizer; the object is removed with its last one.
    Release(Target, &'static str),
    /// Stops the object from blocking the deletion of its owners.
    Unblock(Target),
}

impl Target {
    pub(super) fn new(resource: Arc<ResourceInfo>, object: Arc<Stored>) -> Self {
        Self { resource, object }
    }
}

impl Change {
    /// Makes the write. Returns the object to decide about again, if it was written since.
    pub(super) fn apply(self, state: &Arc<State>) -> Option<Node> {
        match self {
            Self::Delete(target, propagation) => return delete(state, &target, propagation),
            Self::DropOwners(target, uids) => patch(state, &target, |metadata| {
                let uids: HashSet<&str> = uids.iter().map(|uid| &**uid).collect();
                retain(metadata, "ownerReferences", |owner| {
                    !uids.contains(text(owner, &["uid"]))
                });
            }),
            Self::Release(target, finalizer) => patch(state, &target, |metadata| {
                retain(metadata, "finalizers", |name| name != finalizer);
            }),
            Self::Unblock(target) => patch(state, &target, |metadata| {
                let owners = metadata.get_mut("ownerReferences");
                let owners = owners.and_then(Value::as_array_mut);
                for owner in owners.into_iter().flatten() {
                    if owner["blockOwnerDeletion"] == Value::Bool(true) {
                        owner["blockOwnerDeletion"] = Value::Bool(false);
                    }
                }
            }),
        }
        None
    }
}

fn delete(state: &Arc<State>, target: &Target, propagation: Propagation) -> Option<Node> {
    let Target { resource, object } = target;
    if defer::defers(state, resource, object, Wish::Collected(propagation)) {
        return None;
    }
    let options = DeleteOptions {
        propagation: Some(propagation),
        uid: Some(object.uid().to_owned()),
        resource_version: Some(object.revision().to_string()),
        ..DeleteOptions::default()
    };
    match effects::delete(state, resource, object.key(), &options) {
        Ok(()) => note(state, "delete", target),
        // The decision is about the object as it was read: it may have another owner by now.
        Err(status) if status.code == 409 => {
            return Some(Node::Object(resource.shelf, object.key().into()));
        }
        Err(_) => {}
    }
    None
}

fn patch(
    state: &Arc<State>,
    target: &Target,
    change: impl Fn(&mut serde_json::Map<String, Value>),
) {
    let Target { resource, object } = target;
    if effects::change(state, resource, object.key(), |next| {
        change(metadata::of(next))
    }) {
        note(state, "patch", target);
    }
}

/// Keeps some of the items of a list; an empty list goes.
fn retain(
    metadata: &mut serde_json::Map<String, Value>,
    name: &str,
    is_kept: impl Fn(&Value) -> bool,
) {
    let Some(Value::Array(list)) = metadata.get_mut(name) else {
        return;
    };
    list.retain(is_kept);
    if list.is_empty() {
        metadata.remove(name);
    }
}

/// Records a write in the journal.
pub(super) fn note(state: &State, verb: &'static str, Target { resource, object }: &Target) {
    let entry = state.journal.begin(Record {
        verb,
        resource: resource.plural.clone(),
        namespace: object.namespace().map(str::to_owned),
        name: Some(object.name().to_owned()),
        query: String::new(),
        controller: Some(NAME),
        code: 200,
        bytes: 0,
        annotations: BTreeMap::new(),
        time: state.clock.now(),
        started: clock::instant(),
        ended: None,
    });
    drop(entry);
}
