//! Reads: get, list and watch, from the store to bytes.
//!
//! ```text
//! Target + Query ──options, selection──▶ get | list | watch ──encode──▶ reply
//! ```
//!
//! * `list.rs`, `watch.rs`, `continue_token.rs`; `source.rs`: the objects that both read.
//!
//! Upstream: `apiserver:pkg/endpoints/handlers/get.go`.

pub(crate) mod continue_token;
mod list;
mod source;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Response, StatusCode};
use kinform_api::Status;

use crate::conversion;
use crate::encode::{object_reply, shown_reply};
use crate::http::body::Body;
use crate::http::list_options;
use crate::http::list_options::{ReadOptions, Version};
use crate::http::negotiate::{self, Form};
use crate::http::query::Query;
use crate::http::reply;
use crate::http::route::Target;
use crate::state::State;

/// Timeout of waiting for a version that is not yet reached.
const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Answers GET.
pub(crate) async fn read(
    state: &Arc<State>,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Response<Body>, Status> {
    let is_custom = target.resource.is_custom();
    if target.name.is_some() && !target.forced_watch {
        let form = negotiate::form(headers, is_custom)?.including(query)?;
        return get(state, target, query, (form, headers)).await;
    }
    let watch = target.forced_watch || query.flag("watch").unwrap_or(false);
    let form = match watch {
        true => negotiate::stream_form(headers, is_custom)?,
        false => negotiate::form(headers, is_custom)?,
    }
    .including(query)?;
    let verb = if watch { "watch" } else { "list" };
    if !target.resource.is_stored() {
        return Err(Status::method_not_allowed());
    }
    if !target.resource.has_verb(verb) {
        return Err(Status::method_not_supported(
            &target.resource.group_resource(),
            verb,
        ));
    }
    let options = ReadOptions::read(query, watch)?;
    if watch {
        watch::watch(state, target, options, form).await
    } else {
        list::list(state, target, options, form, headers).await
    }
}

async fn get(
    state: &Arc<State>,
    target: &Target,
    query: &Query,
    (form, headers): (Form, &HeaderMap),
) -> Result<Response<Body>, Status> {
    let version = list_options::version(query.text("resourceVersion"))
        .map_err(|why| Status::failure(500, "", why))?;
    let view = match version {
        Version::Unset => state.store.shown(target.resource.shelf),
        Version::Any => state.replica_view(target.resource.shelf),
        Version::At(asked) => {
            wait_for_asked(state, asked).await?;
            state.store.shown(target.resource.shelf)
        }
    };
    let key = target.key().unwrap_or_default();
    match view.snapshot.get(&key) {
        Some(object) => {
            let (code, resource, how) = (StatusCode::OK, &target.resource, (form, state.clock));
            let reply = match resource.is_converted() {
                true => {
                    let shown = conversion::read(state, resource, object).await;
                    let shown = shown.map_err(|status| *status)?;
                    shown_reply(code, resource, &shown, how)
                }
                false => object_reply(code, resource, object, how),
            };
            Ok(match negotiate::accepts_gzip(headers) {
                true => reply::compressed(reply),
                false => reply,
            })
        }
        None => Err(not_found(target)),
    }
}

/// The object of a path does not exist.
pub(crate) fn not_found(target: &Target) -> Status {
    let name = target.name.as_deref().unwrap_or_default();
    Status::not_found(&target.resource.group_resource(), name)
}

/// Waits until the revision is reached that a request names. With a fault, a server that lags does not
/// wait for what its storage has.
///
/// # Errors
/// 504 on timeout.
async fn wait_for_asked(state: &Arc<State>, asked: u64) -> Result<(), Status> {
    if state.faults.ignores_asked_versions() && asked <= state.store.revision() {
        return Ok(());
    }
    wait_for_revision(state, asked).await
}

/// Waits until a revision is reached.
///
/// # Errors
/// 504 on timeout.
async fn wait_for_revision(state: &Arc<State>, asked: u64) -> Result<(), Status> {
    if state.replica_revision() >= asked {
        return Ok(());
    }
    let mut marks = state.store.marks();
    let reached = tokio::time::timeout(
        FUTURE_WAIT,
        // Under the channel's lock: the store, which takes it under its own, must not be asked.
        marks.wait_for(|now| {
            let replica = state.faults.replica();
            replica.map_or(now.durable, |at| at.min(now.durable)) >= asked
        }),
    )
    .await;
    match reached {
        Ok(_) => Ok(()),
        Err(_) => Err(Status::too_large_resource_version(
            asked,
            state.replica_revision(),
        )),
    }
}
