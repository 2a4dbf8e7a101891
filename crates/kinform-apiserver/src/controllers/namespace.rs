//! The deletion of a namespace with its content.
//!
//! ```text
//! deleted -> pods deleted -> other content deleted -> conditions (what remains, and why) -> finalized -> gone
//! ```
//!
//! A namespace is checked whenever an object in it was written. Finalizers hold the objects that
//! remain; the namespace's conditions report the finalizers and the number of objects.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/namespace/deletion`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::removal::{at_once, is_terminating, keys};
use super::{defer, kinds};
use crate::object::{metadata, text};
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::state::wanted_deletes::Wish;
use crate::storage::{Draft, Expect, Shelf, Stored};
use crate::write::commit::TRIES;

const FINALIZER: &str = "kubernetes";

/// Returns the object of a namespace.
fn namespace(state: &State, name: &str) -> Option<Arc<Stored>> {
    state.store.get(state.store.shelf("namespaces"), name)
}

/// Objects that a namespace still contains.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Number of objects of each resource, as `configmaps.`.
    objects: BTreeMap<String, usize>,
    /// Number of objects that each finalizer holds.
    finalizers: BTreeMap<String, usize>,
}

/// Empties a namespace that is being deleted, and removes it once it is empty.
pub(super) fn drain_namespace(state: &Arc<State>, name: &str) {
    let Some(object) = namespace(state, name) else {
        return;
    };
    let Found::Resource(namespaces) = state.registry.find("", "v1", "namespaces") else {
        return;
    };
    if !is_terminating(&object) {
        return;
    }
    let uid = object.uid().to_owned();
    for _ in 0..TRIES {
        let remains = delete_content(state, name);
        // Another request may have written or removed it while its content was deleted.
        let Some(object) = namespace(state, name).filter(|object| object.uid() == uid) else {
            return;
        };
        if conclude(state, &namespaces, object, &remains).is_some() {
            return;
        }
    }
}

/// Stores the conditions for the remaining content; removes the namespace once it is empty and no
/// finalizer holds it. Returns `None` if another writer was faster.
pub(crate) fn conclude(
    state: &State,
    namespaces: &ResourceInfo,
    object: Arc<Stored>,
    remains: &Remains,
) -> Option<Arc<Stored>> {
    let mut next = object.value();
    set_conditions(&mut next, remains, state.clock.now());
    if remains.objects.is_empty() {
        let held = finalizers(&next).any(|finalizer| finalizer != FINALIZER);
        if !held && metadata::finalizers(&next).next().is_none() {
            let last = put(state, namespaces, next, object)?;
            let expect = Expect::Revision(last.revision());
            let gone = state.store.remove(namespaces.shelf, last.key(), expect);
            return Some(gone.ok()?.object);
        }
        let kept: Vec<Value> = finalizers(&next)
            .filter(|finalizer| *finalizer != FINALIZER)
            .map(Value::from)
            .collect();
        next["spec"] = match kept.is_empty() {
            true => json!({}),
            false => json!({"finalizers": kept}),
        };
    }
    put(state, namespaces, next, object)
}

/// Stores a namespace; returns `None` if another writer was faster.
fn put(
    state: &State,
    namespaces: &ResourceInfo,
    next: Value,
    over: Arc<Stored>,
) -> Option<Arc<Stored>> {
    if next == over.value() {
        return Some(over);
    }
    let draft = Draft::new(&namespaces.fields, next)?;
    let expect = Expect::Revision(over.revision());
    let done = state.store.put(namespaces.shelf, draft, expect);
    Some(done.ok()?.object)
}

fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let list = namespace["spec"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Deletes everything in a namespace; returns the remaining content. Pods go first: as long as one
/// remains, everything else stays, because it may need its secrets, accounts and policies to end.
fn delete_content(state: &Arc<State>, name: &str) -> Remains {
    let mut remains = Remains::default();
    let entries = state.registry.entries();
    if let Some(pods) = entries.iter().find(|entry| entry.is_core("pods")) {
        delete_objects(state, pods, name, &mut remains);
        if !remains.objects.is_empty() {
            return remains;
        }
    }
    let mut seen: HashSet<Shelf> = HashSet::new();
    for entry in entries.iter() {
        if entry.is_namespaced() && entry.is_stored() && seen.insert(entry.shelf) {
            delete_objects(state, entry, name, &mut remains);
        }
    }
    remains
}

/// Deletes the objects of a resource in a namespace, and counts those that remain.
fn delete_objects(
    state: &Arc<State>,
    entry: &Arc<ResourceInfo>,
    name: &str,
    remains: &mut Remains,
) {
    for key in keys(&state.store, entry.shelf, &format!("{name}/")) {
        if let Some(object) = state.store.get(entry.shelf, &key)
            && !is_terminating(&object)
            && !defer::defers(state, entry, &object, Wish::Emptied)
        {
            at_once(state, entry, &object);
            kinds::follow(state, entry, &object);
        }
        let Some(left) = state.store.get(entry.shelf, &key) else {
            continue;
        };
        let of = format!("{}.{}", entry.plural, entry.group);
        *remains.objects.entry(of).or_default() += 1;
        // An object can be large, and most have no finalizer.
        let tied = match left.has_ties() {
            true => left.value(),
            false => Value::Null,
        };
        for finalizer in metadata::finalizers(&tied) {
            *remains.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// One condition of a namespace: type, status, reason and message.
type Condition = (&'static str, (&'static str, &'static str, String));

/// The conditions that report the remaining content of a namespace.
fn conditions_of(remains: &Remains) -> [Condition; 5] {
    let told = |counts: &BTreeMap<String, usize>, word: &str| {
        let one =
            |(name, count): (&String, &usize)| format!("{name} {word}{count} resource instances");
        counts.iter().map(one).collect::<Vec<String>>().join(", ")
    };
    let (objects, held) = (
        told(&remains.objects, "has "),
        told(&remains.finalizers, "in "),
    );
    let content = match objects.as_str() {
        "" => (
            "False",
            "ContentRemoved",
            "All content successfully removed".to_owned(),
        ),
        _ => (
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {objects}"),
        ),
    };
    let finalizers = match held.as_str() {
        "" => (
            "False",
            "ContentHasNoFinalizers",
            "All content-preserving finalizers finished".to_owned(),
        ),
        _ => (
            "True",
            "SomeFinalizersRemain",
            format!("Some content in the namespace has finalizers remaining: {held}"),
        ),
    };
    let fine = |reason, message: &str| ("False", reason, message.to_owned());
    [
        (
            "NamespaceDeletionDiscoveryFailure",
            fine(
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            fine(
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
        ),
        (
            "NamespaceDeletionContentFailure",
            fine(
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", finalizers),
    ]
}

/// Sets the conditions that report the remaining content.
fn set_conditions(namespace: &mut Value, remains: &Remains, now: Timestamp) {
    let wanted = conditions_of(remains);
    let old = namespace["status"]["conditions"].as_array();
    let old: Vec<Value> = old.cloned().unwrap_or_default();
    let is_ours = |of: &Value| wanted.iter().any(|(name, _)| text(of, &["type"]) == *name);
    let mut next: Vec<Value> = old.iter().filter(|of| !is_ours(of)).cloned().collect();
    for (name, (status, reason, message)) in &wanted {
        let before = old.iter().find(|of| text(of, &["type"]) == *name);
        let since = before
            .filter(|before| text(before, &["status"]) == *status)
            .map(|before| before["lastTransitionTime"].clone());
        next.push(json!({
            "type": name,
            "status": status,
            "lastTransitionTime": since.unwrap_or_else(|| metadata::time(now)),
            "reason": reason,
            "message": message,
        }));
    }
    namespace["status"]["conditions"] = Value::from(next);
}
