//! Writes that lose a race, step by step.
//!
//! ```text
//! state as read ──another request writes──▶ outcome of the write
//! ```
//!
//! The test calls each step with what another writer has changed meanwhile: no threads, no luck.
//!
//! Upstream: `kubernetes/apiserver:pkg/registry/generic/registry/store_test.go`,
//! `kubernetes/kubernetes:pkg/controller/namespace/deletion`.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};
use kinform_api::Status;
use serde_json::{Value, json};

use super::attempt::Write;
use super::request::WriteRequest;
use super::{Action, Answer, Outcome};
use crate::access::User;
use crate::admission::{Annotations, Warnings};
use crate::budget::Meter;
use crate::controllers::follow;
use crate::controllers::namespace::{Remains, conclude};
use crate::http::negotiate;
use crate::http::query::Query;
use crate::http::route::{Route, Target, route};
use crate::object::part::Part;
use crate::server::{Server, Service};
use crate::state::State;
use crate::storage::{Draft, Expect};
use crate::write::commit::delete_stored;

const NAMESPACES: &str = "/api/v1/namespaces";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

async fn send(service: &Service, method: Method, path: &str, body: Value) -> u16 {
    service.ask(method, path, body).await.0
}

async fn server() -> (Server, Service) {
    let server = Server::builder().in_process();
    let service = server.service();
    let namespace = json!({"metadata": {"name": "a"}});
    assert_eq!(
        send(&service, Method::POST, NAMESPACES, namespace).await,
        201
    );
    (server, service)
}

fn target(state: &State, path: &str) -> Target {
    match route(&state.registry, path) {
        Route::Target(target) => target,
        other => panic!("{path} leads to {other:?}"),
    }
}

/// Commits a create that was decided on before. Returns the code, and whether the object exists.
fn create(state: &Arc<State>, target: &Target) -> (u16, bool) {
    let write = Write {
        state,
        target,
        part: Part::Main,
        form: negotiate::form(&HeaderMap::new(), target.resource.is_custom()).unwrap(),
        request: &WriteRequest {
            method: &Method::POST,
            headers: &HeaderMap::new(),
            query: &Query::default(),
            user: &User::admin(),
            body: Bytes::new(),
            meter: Meter::endless(),
            warnings: Warnings::default(),
            annotations: Annotations::default(),
        },
    };
    let object = json!({"metadata": {"name": "m", "namespace": "a", "uid": "u"}});
    let outcome = Outcome::new(201, Action::Create(object), Answer::Stored);
    let written = write.commit(outcome.into(), None).unwrap();
    follow::written(state, &written);
    let is_there = state.store.get(target.resource.shelf, "a/m").is_some();
    (written.reply.status().as_u16(), is_there)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_a_share_while_the_server_stops_is_refused() {
    let (server, service) = server().await;
    let state = server.state();
    let all = state.shares.take(10 << 20).await.unwrap();
    let path = "/api/v1/namespaces/a/configmaps";
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "v".repeat(100_000)}});
    let (code, ()) = tokio::join!(send(&service, Method::POST, path, map), async {
        state.stopping.cancel();
        drop(all);
    });
    let maps = target(state, path).resource;
    assert_eq!(code, 503);
    assert!(state.store.get(maps.shelf, "a/m").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_while_its_namespace_goes_does_not_stay() {
    let (server, service) = server().await;
    let maps = target(server.state(), "/api/v1/namespaces/a/configmaps");
    assert_eq!(create(server.state(), &maps), (201, true));
    let path = format!("{NAMESPACES}/a");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await,
        200
    );
    assert_eq!(create(server.state(), &maps), (201, false));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_made_while_its_definition_goes_does_not_stay() {
    let (server, service) = server().await;
    let definition = json!({"metadata": {"name": "foos.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    assert_eq!(
        send(&service, Method::POST, DEFINITIONS, definition).await,
        201
    );
    let foos = target(server.state(), "/apis/example.com/v1/namespaces/a/foos");
    assert_eq!(create(server.state(), &foos), (201, true));
    let path = format!("{DEFINITIONS}/foos.example.com");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await,
        200
    );
    assert_eq!(create(server.state(), &foos), (201, false));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_there_again_is_not_the_one_that_was_emptied() {
    let (server, service) = server().await;
    let state = server.state();
    let namespaces = target(state, NAMESPACES).resource;
    let before = state.store.get(namespaces.shelf, "a").unwrap();
    let path = format!("{NAMESPACES}/a");
    assert_eq!(
        send(&service, Method::DELETE, &path, Value::Null).await,
        200
    );
    let again = json!({"metadata": {"name": "a"}});
    assert_eq!(send(&service, Method::POST, NAMESPACES, again).await, 201);
    let done = conclude(state, &namespaces, before, &Remains::default());
    assert!(done.is_none());
    let now = state.store.get(namespaces.shelf, "a").unwrap();
    assert!(now.value()["metadata"]["deletionTimestamp"].is_null());
    // For the current state, `conclude` acts.
    let done = conclude(state, &namespaces, now, &Remains::default());
    assert!(done.is_some());
    assert!(state.store.get(namespaces.shelf, "a").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_on_its_second_try_is_answered_so() {
    let (server, _service) = server().await;
    let state = server.state();
    let maps = target(state, "/api/v1/namespaces/a/configmaps").resource;
    let touch = |count: usize| {
        let object = json!({"metadata": {"name": "m", "namespace": "a"}, "data": {"n": count}});
        let draft = Draft::new(&maps.fields, object).unwrap();
        state.store.put(maps.shelf, draft, Expect::Any).unwrap();
    };
    let tries = Cell::new(0);
    let remove = |current: Option<&Value>| {
        assert!(current.is_some());
        tries.set(tries.get() + 1);
        // Another writer is faster.
        touch(tries.get());
        let status = Answer::Status(Box::new(Status::success(Default::default())));
        Ok(Outcome::new(200, Action::Remove, status))
    };
    touch(0);
    let refused = delete_stored(&state.store, &maps, "a/m", |current| {
        if tries.get() == 1 {
            return Err(Box::new(Status::conflict(
                &maps.group_resource(),
                "m",
                "why",
            )));
        }
        remove(current)
    });
    let status = refused.unwrap_err();
    assert_eq!((status.code, tries.get()), (409, 1));
    assert!(status.message.ends_with("why"), "{}", status.message);
    let status = delete_stored(&state.store, &maps, "a/m", remove).unwrap_err();
    assert_eq!((status.code, &*status.reason), (409, "Conflict"));
    assert!(status.message.contains("\"m\""), "{}", status.message);
    assert!(state.store.get(maps.shelf, "a/m").is_some());
}
