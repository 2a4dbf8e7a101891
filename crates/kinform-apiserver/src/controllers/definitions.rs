//! The life of custom resource definitions: settled, served, and removed with their objects.
//!
//! ```text
//! definition ──conditions, one step at a time──▶ resources served
//! deleted ──its objects deleted──▶ finalizer released ──▶ gone
//! ```
//!
//! Upstream: `apiextensions-apiserver:pkg/controller/{establish,status,finalizer}`.

use super::removal::{at_once, is_terminating, keys};
use crate::budget::Meter;
use crate::definition::{conditions, served};
use crate::object::part::Part;
use crate::object::{metadata, text};
use crate::ownership;
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::shelf_name;
use crate::storage::{Draft, EndWatches, Expect, Shelf, Store, Stored};
use crate::write::commit::TRIES;
use crate::write::options::WriteOptions;
use crate::write::{Context, Fresh};
use serde_json::Value;
use std::sync::Arc;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The field manager of the server's own writes.
const MANAGER: &str = "kube-apiserver";

/// Settles every definition, and serves the resources that they define.
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
            let Some(next) = conditions::settle(&current.value(), &others, state.clock.now())
            else {
                break;
            };
            put(state, shelf, next, &current);
            // The definitions are read again only if one of them was written, here or by a
            // concurrent request.
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

/// Serves the resources of the stored definitions, after writes of definitions were lost.
pub(crate) fn serve_definitions(state: &State) {
    let changing = state.registry.change();
    let changed = state.registry.set_custom(stored_resources(&state.store));
    drop(changing);
    for shelf in changed {
        state.store.end_watches(shelf, EndWatches::AtOnce);
    }
}

/// The resources of the stored definitions.
pub(crate) fn stored_resources(store: &Store) -> Vec<ResourceInfo> {
    let view = store.view(store.shelf(DEFINITIONS));
    let definitions = view.snapshot.iter().map(|one| one.value());
    let served = |it: Value| served::resources_of(&it, shelf_of(store, &it));
    definitions.flat_map(served).collect()
}

/// Marks a definition as terminating, deletes its objects, and then the definition.
fn end(state: &Arc<State>, shelf: Shelf, name: &str) {
    let Some(mut current) = state.store.get(shelf, name) else {
        return;
    };
    let mut value = current.value();
    if !conditions::awaits_cleanup(&value) {
        return;
    }
    let waiting = conditions::wait(&value, state.clock.now());
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
                && !is_terminating(&object)
            {
                at_once(state, resource, &object);
            }
        }
    }
    if !keys(&state.store, objects, "").is_empty() {
        return;
    }
    let released = conditions::release(&value, state.clock.now());
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
        // In this order: a watch that began before the resource was taken out would never end.
        settle_definitions(state);
        state.store.end_watches(objects, EndWatches::AfterEvents);
    }
}

/// Finishes the deletion of a definition that waited for the removed object.
pub(super) fn release_definition(state: &Arc<State>, resource: &ResourceInfo) {
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

/// Adds the version of a resource to those in which its objects are stored, if it is another one.
pub(super) fn keep_version(state: &Arc<State>, resource: &ResourceInfo) {
    let Some((_, stored)) = resource.conversion() else {
        return;
    };
    if !stored.is_only || stored.now == resource.version {
        return;
    }
    let shelf = state.store.shelf(DEFINITIONS);
    let name = format!("{}.{}", resource.plural, resource.group);
    for _ in 0..TRIES {
        let Some(current) = state.store.get(shelf, &name) else {
            return;
        };
        let mut next = current.value();
        let versions = next.pointer_mut("/status/storedVersions");
        if let Some(versions) = versions.and_then(Value::as_array_mut) {
            versions.push(Value::from(resource.version.as_str()));
        }
        if put(state, shelf, next, &current) {
            return settle_definitions(state);
        }
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
            now: state.clock.now(),
            fresh: Fresh::default(),
            meter: &Meter::endless(),
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
