//! The collector judges an object as it was read; a write since then makes it look again.
//!
//! ```text
//! object as read ──another request writes it──▶ judge ──▶ the new state stays, and is judged again
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/garbagecollector/garbagecollector.go`
//! (`attemptToDeleteItem`: preconditions of uid and version).

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use super::change::Target;
use super::decide::{judge, look_at};
use crate::resource::{Found, ResourceInfo};
use crate::server::Server;
use crate::state::State;
use crate::state::owner_graph::{Graph, Node, Ties};
use crate::storage::{Draft, Expect, Stored};

/// A server whose collector runs only when the test calls it.
fn server() -> (Server, Arc<ResourceInfo>) {
    let server = Server::builder().without_garbage_collection().in_process();
    match server.state().registry.find("", "v1", "configmaps") {
        Found::Resource(maps) => (server, maps),
        other => panic!("config maps are {other:?}"),
    }
}

/// Stores a config map with owners, of which each has the uid of its name.
fn put(state: &State, maps: &ResourceInfo, name: &str, owners: &[&str]) -> Arc<Stored> {
    let owner =
        |name: &&str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name});
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    let object = json!({"metadata": {"name": name, "namespace": "a", "uid": name,
        "ownerReferences": owners}});
    let draft = Draft::new(&maps.fields, object).unwrap();
    state
        .store
        .put(maps.shelf, draft, Expect::Any)
        .unwrap()
        .object
}

fn owners(state: &State, maps: &ResourceInfo, name: &str) -> Vec<String> {
    let object = state.store.get(maps.shelf, &format!("a/{name}")).unwrap();
    let object = object.value();
    let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
    let name = |owner: &Value| owner["name"].as_str().unwrap().to_owned();
    owners.iter().map(name).collect()
}

/// Decides about the object as it was read, and makes the writes; returns objects to look at again.
fn judged(state: &Arc<State>, maps: &Arc<ResourceInfo>, read: Arc<Stored>) -> Vec<Node> {
    let ties = Ties::of(&read);
    let target = Target::new(maps.clone(), read);
    let changes = judge(state, &Graph::default(), target, &ties);
    let again = changes.into_iter().filter_map(|change| change.apply(state));
    again.collect()
}

#[test]
fn an_owner_that_was_added_since_stays() {
    let (server, maps) = server();
    let state = server.state();
    put(state, &maps, "there", &[]);
    put(state, &maps, "second", &[]);
    let read = put(state, &maps, "child", &["gone", "there"]);
    put(state, &maps, "child", &["gone", "there", "second"]);
    assert!(judged(state, &maps, read).is_empty());
    assert_eq!(owners(state, &maps, "child"), ["there", "second"]);
}

#[test]
fn an_object_that_got_rid_of_its_owner_since_is_judged_anew() {
    let (server, maps) = server();
    let state = server.state();
    put(state, &maps, "there", &[]);
    let read = put(state, &maps, "child", &["gone"]);
    put(state, &maps, "child", &["there"]);
    let again = judged(state, &maps, read);
    assert_eq!(owners(state, &maps, "child"), ["there"]);
    let mut queue = VecDeque::new();
    let changes = look_at(state, &Graph::default(), &again[0], &mut queue);
    assert!(changes.is_empty() && queue.is_empty());
    assert_eq!(owners(state, &maps, "child"), ["there"]);
    // A dependent that still has no other owner is deleted.
    let read = put(state, &maps, "child", &["gone"]);
    assert!(judged(state, &maps, read).is_empty());
    assert!(state.store.get(maps.shelf, "a/child").is_none());
}
