//! Restores objects of another server, with their uids, times and states.
//!
//! ```text
//! object of a dump ──its type──▶ Draft ──▶ store, under a revision of this server
//! ```
//!
//! A dump may contain fields that a client could not write: uid, creation, status, owners by uid,
//! pending deletions. Only the version is this server's. The fields are those of the kind; no
//! defaults are applied. An object that a webhook would convert is stored in the version that it has.
//!
//! Upstream: none; `etcdctl snapshot restore` is the nearest.

use std::sync::Arc;

use kinform_api::{Scope, Status};
use serde_json::Value;

use super::follow;
use crate::budget::Meter;
use crate::controllers::{definitions, garbage};
use crate::object::part::Part;
use crate::object::text;
use crate::state::State;
use crate::storage::{Draft, Expect};
use crate::write::body::{bad_request, decode_value};
use crate::write::options::WriteOptions;
use crate::write::{Context, Fresh, inert};

/// Stores an object with `apiVersion` and `kind`, over an existing one of its name.
///
/// # Errors
/// 404 for a kind that is not served, 400 for an object that is malformed or has no name, 501 for one
/// that this server would not act on.
pub(crate) fn restore(state: &Arc<State>, object: Value) -> Result<(), Box<Status>> {
    let (version, kind) = (
        text(&object, &["apiVersion"]).to_owned(),
        text(&object, &["kind"]).to_owned(),
    );
    let entries = state.registry.entries();
    let served = entries
        .iter()
        .find(|entry| entry.kind == kind && entry.api_version() == version && entry.is_stored());
    let Some(resource) = served else {
        let message = format!("no kind {kind:?} is served in version {version:?}");
        return Err(Box::new(Status::failure(
            404,
            kinform_api::reason::NOT_FOUND,
            message,
        )));
    };
    let namespace = text(&object, &["metadata", "namespace"]).to_owned();
    let options = WriteOptions::default();
    let context = Context {
        resource,
        namespace: Some(namespace.as_str()).filter(|_| resource.scope == Scope::Namespaced),
        options: &options,
        now: state.clock.now(),
        fresh: Fresh::default(),
        meter: &Meter::endless(),
    };
    if context.namespace == Some("") {
        return Err(bad_request("the object has no namespace".to_owned()));
    }
    let object = decode_value(&context, Part::Main, object)?.object;
    if !state.keeps_inert {
        inert::refuse(resource, &object)?;
    }
    definitions::keep_version(state, resource);
    let draft = Draft::new(&resource.fields, resource.to_stored(object))
        .ok_or_else(|| bad_request("the object has no name".to_owned()))?;
    let stored = state.store.put(resource.shelf, draft, Expect::Any);
    // An owner that the dump lacks does not cause a deletion.
    garbage::adopt(state);
    follow::changed(
        state,
        resource,
        stored.ok().map(|done| done.object).as_deref(),
    );
    Ok(())
}
