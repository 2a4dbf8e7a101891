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
    let (mut resources, mut changed) = (Vec::new(), Vec::new());
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
            let is_new =
                conditions::is_established(&next) && !conditions::is_established(&current.value());
            let objects = shelf_of(store, &next);
            if is_new {
                changed.extend(serve_ahead(state, &next));
            }
            if !put(state, shelf, next, &current) && is_new {
                // A watch that began meanwhile would never end.
                changed.push(objects);
            }
            // The definitions are read again only if one of them was written, here or by a
            // concurrent request.
            others = all();
        }
        if let Some(settled) = store.get(shelf, &name) {
            let settled = settled.value();
            resources.extend(served::resources_of(&settled, shelf_of(store, &settled)));
        }
    }
    changed.extend(state.registry.set_custom(resources));
    drop(changing);
    for shelf in changed {
        store.end_watches(shelf, EndWatches::AtOnce);
    }
    for name in keys(store, shelf, "") {
        end(state, shelf, &name);
    }
}

/// Serves the resources of a definition that is about to be stored as established: a client that
/// sees the condition can use them at once. Returns the shelves whose watches have to end.
fn serve_ahead(state: &State, definition: &Value) -> Vec<Shelf> {
    let mut resources = stored_resources(&state.store);
    resources.extend(served::resources_of(
        definition,
        shelf_of(&state.store, definition),
    ));
    state.registry.set_custom(resources)
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
    let served = entries.iter().find(|entry| entry.shelf == objects).cloned();
    // One that was served ahead, and then not established, has objects, too.
    let unserved = || served::resource_of_all(&value, objects).map(Arc::new);
    if let Some(resource) = served.or_else(unserved) {
        for key in keys(&state.store, objects, "") {
            if let Some(object) = state.store.get(objects, &key)
                && !is_terminating(&object)
            {
                at_once(state, &resource, &object);
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use http::Method;
    use serde_json::json;

    use super::*;
    use crate::Server;
    use crate::definition::CLEANUP;

    const TYPES: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const OBJECTS: &str = "/apis/example.com/v1/foos";

    /// The state that a definition has which was deleted after it was served, and before it was stored
    /// as established.
    #[tokio::test]
    async fn a_definition_that_ends_before_it_is_served_takes_its_objects_with_it() {
        let server = Server::builder().plain().in_process();
        let state = server.state();
        let mut definition = foos();
        definition["metadata"]["finalizers"] = json!([CLEANUP]);
        definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let accepted = json!({"acceptedNames": definition["spec"]["names"]});
        definition["status"] = accepted;
        let object = json!({"apiVersion": "example.com/v1", "kind": "Foo",
            "metadata": {"name": "a", "uid": "u"}});
        let shelf = shelf_of(&state.store, &definition);
        let definitions = state.store.shelf(DEFINITIONS);
        for (shelf, object) in [(shelf, object), (definitions, definition)] {
            let draft = Draft::new(&[], object).unwrap();
            state.store.put(shelf, draft, Expect::Any).unwrap();
        }
        settle_definitions(state);
        assert!(keys(&state.store, shelf, "").is_empty());
        assert!(state.store.get(definitions, "foos.example.com").is_none());
    }

    fn foos() -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        json!({
            "metadata": {"name": "foos.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster",
                "names": {"plural": "foos", "kind": "Foo"}, "versions": [version]},
        })
    }

    /// Waits until the definition is established, or made in vain; returns what a list of its
    /// objects answers then.
    fn list_once_established(
        server: &Server,
        is_looking: &AtomicBool,
        is_made: &AtomicBool,
    ) -> u16 {
        let service = server.service();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let path = format!("{TYPES}/foos.example.com");
        runtime.block_on(async {
            loop {
                let is_last = is_made.load(Ordering::Acquire);
                let (_, seen) = service.ask(Method::GET, &path, Value::Null).await;
                is_looking.store(true, Ordering::Release);
                if conditions::is_established(&seen) || is_last {
                    return service.ask(Method::GET, OBJECTS, Value::Null).await.0;
                }
            }
        })
    }

    #[test]
    fn a_client_that_sees_a_definition_established_can_use_it() {
        // Each round has one moment at which a server that stores first and serves later is caught.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _entered = runtime.enter();
        for round in 0..50 {
            let server = Server::builder().plain().in_process();
            let service = server.service();
            let (is_looking, is_made) = (AtomicBool::new(false), AtomicBool::new(false));
            let code = std::thread::scope(|scope| {
                let looks = scope.spawn(|| list_once_established(&server, &is_looking, &is_made));
                while !is_looking.load(Ordering::Acquire) && !looks.is_finished() {
                    std::thread::yield_now();
                }
                let made = runtime.block_on(service.ask(Method::POST, TYPES, foos()));
                is_made.store(true, Ordering::Release);
                assert_eq!(made.0, 201, "{}", made.1);
                looks.join().unwrap()
            });
            assert_eq!(code, 200, "in round {round}");
        }
    }
}
