//! What follows from a commit: the part of upstream's controllers that clients cannot do without.
//!
//! ```text
//! definition written -> conditions, resources served      namespace deleted -> content deleted, namespace gone
//! pod deleted gracefully -> gone at once                  last custom object gone -> definition gone
//! ```
//!
//! Everything is done before the reply goes out, in the order in which upstream's controllers would
//! write it, so watches see the same events. The garbage collector comes last (`garbage/`).
//! There is no kubelet: a pod that got a grace period is marked, and then gone at once.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/namespace`, `apiextensions-apiserver:pkg/controller`.

use std::sync::Arc;

use jiff::Timestamp;
use kinform_api::Status;
use serde_json::Value;

use super::namespace::drain_namespace;
use crate::access::rbac;
use crate::controllers::garbage;
use crate::definition::{conditions, served};
use crate::object::at;
use crate::object::part::Part;
use crate::object::{metadata, text};
use crate::ownership;
use crate::resource::rules::Propagation;
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::shelf_name;
use crate::storage::{Draft, EndWatches, Expect, Shelf, Store, Stored};
use crate::write::NamespaceState;
use crate::write::commit::TRIES;
use crate::write::commit::Written;
use crate::write::commit::delete_stored;
use crate::write::delete::delete;
use crate::write::namespace_state;
use crate::write::options::{DeleteOptions, WriteOptions};
use crate::write::update::is_finished;
use crate::write::{Context, Fresh};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Who writes what this server writes by itself.
const MANAGER: &str = "kube-apiserver";

/// Does everything that follows from a write. Called by the router before the reply goes out.
pub(crate) fn written(state: &Arc<State>, written: &Written) {
    let object = written.object.as_deref();
    if let (true, Some(object)) = (written.is_new, object) {
        keep_in_place(state, &written.resource, object);
    }
    changed(state, &written.resource, object);
}

/// Does everything that follows from a change of an object of a resource.
pub(crate) fn changed(state: &Arc<State>, resource: &ResourceInfo, object: Option<&Stored>) {
    settle(state, resource, object);
    garbage::run(state);
}

/// Takes a new object away again whose namespace or definition went while it was made: the deletion of
/// those did not see it.
fn keep_in_place(state: &State, resource: &ResourceInfo, object: &Stored) {
    let is_served = || {
        let entries = state.registry.entries();
        entries.iter().any(|of| of.shelf == resource.shelf)
    };
    let is_known = || !resource.is_custom() || is_served();
    let namespace = namespace_state(&state.store, object.namespace());
    if namespace == NamespaceState::Missing || !is_known() {
        at_once(state, resource, object);
    }
}

/// The same without what the garbage collector does: it calls this itself.
fn settle(state: &Arc<State>, resource: &ResourceInfo, object: Option<&Stored>) {
    let Some(object) = object else { return };
    if resource.is_core("pods") {
        finish_pod(state, resource, object);
    }
    if resource.is_definition() {
        settle_definitions(state);
    } else if resource.is_custom() {
        release_definition(state, resource);
    }
    if resource.group == rbac::GROUP && resource.plural == "clusterroles" {
        rbac::bootstrap::aggregate(&state.store);
    }
    if resource.is_core("namespaces") {
        drain_namespace(state, object.name());
    } else if let Some(namespace) = object.namespace() {
        drain_namespace(state, namespace);
    }
}

/// Deletes an object as a client would.
///
/// # Errors
/// 404, 409 and 403 as a client gets them.
pub(crate) fn delete_object(
    state: &Arc<State>,
    resource: &ResourceInfo,
    key: &str,
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    delete_quietly(state, resource, key, options)?;
    garbage::run(state);
    Ok(())
}

/// The same without what the garbage collector does then.
///
/// # Errors
/// 404, 409 and 403 as a client gets them.
pub(crate) fn delete_quietly(
    state: &Arc<State>,
    resource: &ResourceInfo,
    key: &str,
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    let write = WriteOptions::default();
    let (namespace, name) = match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    };
    let context = Context {
        resource,
        namespace,
        options: &write,
        now: Timestamp::now(),
        fresh: Fresh::default(),
    };
    let done = delete_stored(&state.store, resource, key, |current| {
        delete(&context, name, options, current)
    })?;
    settle(state, resource, done.as_deref());
    Ok(())
}

/// Changes an object that is stored, until nobody is faster; one that nothing holds any more goes. Gives
/// whether anything was done.
pub(crate) fn change(
    state: &Arc<State>,
    resource: &ResourceInfo,
    key: &str,
    change: impl Fn(&mut Value),
) -> bool {
    for _ in 0..TRIES {
        let Some(current) = state.store.get(resource.shelf, key) else {
            return false;
        };
        let mut next = current.value();
        change(&mut next);
        let expect = Expect::Revision(current.revision());
        let done = if is_finished(resource, &next) {
            state.store.remove(resource.shelf, key, expect)
        } else {
            let Some(draft) = Draft::new(&resource.fields, next) else {
                return false;
            };
            state.store.put(resource.shelf, draft, expect)
        };
        if let Ok(done) = done {
            settle(state, resource, Some(&done.object));
            return done.changed;
        }
    }
    false
}

/// A pod that is being deleted is gone as soon as nothing else holds it.
fn finish_pod(state: &Arc<State>, resource: &ResourceInfo, pod: &Stored) {
    let Some(current) = state.store.get(resource.shelf, pod.key()) else {
        return;
    };
    let value = current.value();
    let grace = at(&value, &["metadata", "deletionGracePeriodSeconds"]);
    if metadata::is_terminating(&value) && grace.and_then(Value::as_i64).unwrap_or(0) > 0 {
        at_once(state, resource, &current);
    }
}

/// Deletes this very object without a grace period, as far as its finalizers allow. What becomes of the
/// dependents of one that is being deleted already was said then.
pub(super) fn at_once(state: &State, resource: &ResourceInfo, object: &Stored) {
    let write = WriteOptions::default();
    let is_said = metadata::is_terminating(&object.value());
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        propagation: (!is_said).then_some(Propagation::Background),
        uid: Some(object.uid().to_owned()),
        ..DeleteOptions::default()
    };
    let context = Context {
        resource,
        namespace: object.namespace(),
        options: &write,
        now: Timestamp::now(),
        fresh: Fresh::default(),
    };
    // Nothing follows from this: whoever called is what follows. One that may not be deleted, or is
    // another one by now, stays.
    drop(delete_stored(
        &state.store,
        resource,
        object.key(),
        |current| delete(&context, object.name(), &options, current),
    ));
}

pub(super) fn keys(store: &Store, shelf: Shelf, prefix: &str) -> Vec<String> {
    let view = store.view(shelf);
    let mut place = view.snapshot.seek(prefix);
    let mut keys = Vec::new();
    while let Some(object) = view
        .snapshot
        .at(place)
        .filter(|o| o.key().starts_with(prefix))
    {
        keys.push(object.key().to_owned());
        place = view.snapshot.next(place);
    }
    keys
}

/// Brings every definition to rest, and serves what they define.
pub(crate) fn settle_definitions(state: &Arc<State>) {
    let changing = state.registry.change();
    let store = &state.store;
    let shelf = store.shelf(DEFINITIONS);
    let mut resources = Vec::new();
    let all = || -> Vec<Value> {
        let view = store.view(shelf);
        view.snapshot.iter().map(|one| one.value()).collect()
    };
    let mut others = all();
    for name in keys(store, shelf, "") {
        for _ in 0..TRIES {
            let Some(current) = store.get(shelf, &name) else {
                break;
            };
            let Some(next) = conditions::settle(&current.value(), &others, Timestamp::now()) else {
                break;
            };
            put(state, shelf, next, &current);
            // They are read anew only if one of them was written, here or by somebody who was faster.
            others = all();
        }
        if let Some(settled) = store.get(shelf, &name) {
            let settled = settled.value();
            resources.extend(served::resources_of(&settled, shelf_of(store, &settled)));
        }
    }
    let changed = state.registry.set_custom(resources);
    drop(changing);
    for shelf in changed {
        store.end_watches(shelf, EndWatches::AtOnce);
    }
    for name in keys(store, shelf, "") {
        end(state, shelf, &name);
    }
}

/// Says that the objects of a definition go, takes them away, and then the definition.
fn end(state: &Arc<State>, shelf: Shelf, name: &str) {
    let Some(mut current) = state.store.get(shelf, name) else {
        return;
    };
    let mut value = current.value();
    if !conditions::awaits_cleanup(&value) {
        return;
    }
    let waiting = conditions::wait(&value, Timestamp::now());
    if waiting != value {
        put(state, shelf, waiting, &current);
        let Some(stored) = state.store.get(shelf, name) else {
            return;
        };
        (value, current) = (stored.value(), stored);
    }
    let objects = shelf_of(&state.store, &value);
    let entries = state.registry.entries();
    if let Some(resource) = entries.iter().find(|entry| entry.shelf == objects) {
        for key in keys(&state.store, objects, "") {
            if let Some(object) = state.store.get(objects, &key)
                && !metadata::is_terminating(&object.value())
            {
                at_once(state, resource, &object);
            }
        }
    }
    if !keys(&state.store, objects, "").is_empty() {
        return;
    }
    let released = conditions::release(&value, Timestamp::now());
    let is_free = metadata::finalizers(&released).next().is_none();
    let gone = if is_free {
        state
            .store
            .remove(shelf, name, Expect::Revision(current.revision()))
            .is_ok()
    } else {
        put(state, shelf, released, &current)
    };
    if gone && is_free {
        state.store.end_watches(objects, EndWatches::AfterEvents);
        settle_definitions(state);
    }
}

/// After an object of a definition went: the definition may have waited for it.
fn release_definition(state: &Arc<State>, resource: &ResourceInfo) {
    let shelf = state.store.shelf(DEFINITIONS);
    let name = format!("{}.{}", resource.plural, resource.group);
    let waits = state
        .store
        .get(shelf, &name)
        .is_some_and(|object| conditions::awaits_cleanup(&object.value()));
    if waits && keys(&state.store, resource.shelf, "").is_empty() {
        end(state, shelf, &name);
    }
}

fn shelf_of(store: &Store, definition: &Value) -> Shelf {
    let group = text(definition, &["spec", "group"]);
    store.shelf(&shelf_name(
        group,
        text(definition, &["spec", "names", "plural"]),
    ))
}

/// Stores a definition as this server's own work.
fn put(state: &State, shelf: Shelf, mut object: Value, over: &Stored) -> bool {
    if let Found::Resource(resource) =
        state
            .registry
            .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    {
        let options = WriteOptions {
            manager: MANAGER.to_owned(),
            ..WriteOptions::default()
        };
        let context = Context {
            resource: &resource,
            namespace: None,
            options: &options,
            now: Timestamp::now(),
            fresh: Fresh::default(),
        };
        ownership::updated(&context.writer(), Part::Status, &mut object, &over.value());
    }
    let Some(draft) = Draft::new(&[], object) else {
        return false;
    };
    state
        .store
        .put(shelf, draft, Expect::Revision(over.revision()))
        .is_ok()
}
