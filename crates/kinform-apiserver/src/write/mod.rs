//! Writes: create, update and delete, from a body to a revision.
//!
//! ```text
//! body ──decode──▶ checks against the path ──prepare──▶ Draft ──store.put/remove──▶ reply
//! ```
//!
//! Upstream: `apiserver:pkg/endpoints/handlers`, `apiserver:pkg/registry/rest`.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use kinform_api::{Status, StatusDetails};
use serde_json::{Map, Value};

use crate::api::{Api, WriteRequest};
use crate::http::body::Body;
use crate::http::negotiate::{self, Form};
use crate::http::reply;
use crate::http::route::Target;
use crate::read::{not_found, object_reply};
use crate::storage::{Draft, Expect, Mismatch};

/// Answers POST, PUT and DELETE.
pub(crate) async fn handle(
    api: &Arc<Api>,
    target: &Target,
    request: WriteRequest<'_>,
) -> Result<Response<Body>, Status> {
    let form = negotiate::form(request.headers)?;
    match (request.method.clone(), &target.name) {
        (Method::POST, None) => create(api, target, &request, form),
        (Method::PUT, Some(_)) => update(api, target, &request, form),
        (Method::DELETE, Some(_)) => delete(api, target),
        _ => Err(Status::method_not_allowed()),
    }
}

fn create(
    api: &Arc<Api>,
    target: &Target,
    request: &WriteRequest<'_>,
    form: Form,
) -> Result<Response<Body>, Status> {
    let mut value = decode(request)?;
    let metadata = metadata(&mut value)?;
    if let Some(namespace) = &target.namespace {
        metadata.insert("namespace".to_owned(), Value::from(namespace.as_str()));
    }
    metadata.insert(
        "uid".to_owned(),
        Value::from(uuid::Uuid::new_v4().to_string()),
    );
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    metadata.insert("creationTimestamp".to_owned(), Value::from(now));
    let draft = draft(target, value)?;
    let name = draft
        .key()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let done = api
        .store
        .put(target.resource.shelf, draft, Expect::Absent)
        .map_err(|_| Status::already_exists(&target.resource.group_resource(), &name))?;
    Ok(object_reply(
        StatusCode::CREATED,
        &target.resource,
        &done.object,
        form,
    ))
}

fn update(
    api: &Arc<Api>,
    target: &Target,
    request: &WriteRequest<'_>,
    form: Form,
) -> Result<Response<Body>, Status> {
    let shelf = target.resource.shelf;
    let key = target.key().unwrap_or_default();
    let current = api
        .store
        .get(shelf, &key)
        .ok_or_else(|| not_found(target))?;
    let stored = current.value();
    let mut value = decode(request)?;
    let metadata = metadata(&mut value)?;
    let expect = match metadata.get("resourceVersion").and_then(Value::as_str) {
        Some(version) if !version.is_empty() => {
            Expect::Revision(version.parse().unwrap_or_default())
        }
        _ => Expect::Present,
    };
    for kept in ["uid", "creationTimestamp", "namespace", "name"] {
        if let Some(value) = stored["metadata"].get(kept) {
            metadata.insert(kept.to_owned(), value.clone());
        }
    }
    let draft = draft(target, value)?;
    let done = api
        .store
        .put(shelf, draft, expect)
        .map_err(|mismatch| conflict(target, &mismatch))?;
    Ok(object_reply(
        StatusCode::OK,
        &target.resource,
        &done.object,
        form,
    ))
}

fn delete(api: &Arc<Api>, target: &Target) -> Result<Response<Body>, Status> {
    let key = target.key().unwrap_or_default();
    let done = api
        .store
        .remove(target.resource.shelf, &key, Expect::Present)
        .map_err(|_| not_found(target))?;
    Ok(reply::status(&Status::success(StatusDetails {
        name: done.object.name().to_owned(),
        group: target.resource.group.to_string(),
        kind: target.resource.plural.to_string(),
        uid: done.object.uid().to_owned(),
        ..StatusDetails::default()
    })))
}

fn decode(request: &WriteRequest<'_>) -> Result<Value, Status> {
    serde_json::from_slice(&request.body).map_err(|error| Status::bad_request(error.to_string()))
}

fn metadata(value: &mut Value) -> Result<&mut Map<String, Value>, Status> {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    metadata.ok_or_else(|| Status::bad_request("metadata is missing"))
}

fn draft(target: &Target, value: Value) -> Result<Draft, Status> {
    Draft::new(&target.resource.fields, value)
        .ok_or_else(|| Status::bad_request("metadata.name is missing"))
}

fn conflict(target: &Target, mismatch: &Mismatch) -> Status {
    let name = target.name.as_deref().unwrap_or_default();
    match mismatch {
        Mismatch(Some(_)) => Status::modified(&target.resource.group_resource(), name),
        Mismatch(None) => not_found(target),
    }
}
