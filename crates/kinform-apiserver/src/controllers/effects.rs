//! The direct effects of a write, by the kind of its object.
//!
//! ```text
//! definition written -> conditions, resources served      namespace deleted -> content deleted, namespace gone
//! pod deleted gracefully, no kubelet -> gone              last custom object gone -> definition gone
//! ```
//!
//! The garbage collector runs after these effects and writes through this module.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/namespace`,
//! `apiextensions-apiserver:pkg/controller`.

use super::account;
use super::addresses;
use super::definitions::{release_definition, settle_definitions};
use super::event_ttl;
use super::namespace::drain_namespace;
use super::quota;
use super::removal::at_once;
use crate::access::rbac;
use crate::budget::Meter;
use crate::object::at;
use crate::object::metadata;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::TRIES;
use crate::write::commit::delete_stored;
use crate::write::complete::is_finished;
use crate::write::delete;
use crate::write::options::{DeleteOptions, WriteOptions};
use crate::write::{Context, Fresh};
use kinform_api::Status;
use serde_json::Value;
use std::sync::Arc;

/// Applies the effects of a change of an object, except those of the garbage collector.
pub(crate) fn follow(state: &Arc<State>, resource: &ResourceInfo, object: Option<&Stored>) {
    let Some(object) = object else { return };
    if event_ttl::concerns(resource) {
        event_ttl::written(state, object.key());
    }
    if resource.is_core("pods") && !state.has_kubelets {
        finish_pod(state, resource, object);
    }
    if resource.is_definition() {
        settle_definitions(state);
    } else if resource.is_custom() {
        release_definition(state, resource);
    }
    if resource.group == rbac::GROUP && resource.plural == "clusterroles" {
        rbac::aggregation::aggregate(&state.store);
    }
    account::follow(state, resource, object);
    addresses::follow(state, resource, object);
    if resource.is_core("namespaces") {
        drain_namespace(state, object.name());
    } else if let Some(namespace) = object.namespace() {
        drain_namespace(state, namespace);
    }
    quota::follow(state, resource, object);
}

/// Deletes an object as a client would, without running the garbage collector.
///
/// # Errors
/// 404, 409 and 403 as a client gets them.
pub(crate) fn delete(
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
        now: state.clock.now(),
        fresh: Fresh::default(),
        meter: &Meter::endless(),
    };
    let done = delete_stored(&state.store, resource, key, |current| {
        delete::delete(&context, name, options, current)
    })?;
    follow(state, resource, done.as_deref());
    Ok(())
}

/// Changes a stored object, retrying lost races; an object that is being deleted and no longer held
/// is removed. Returns whether anything was written.
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
            follow(state, resource, Some(&done.object));
            return done.changed;
        }
    }
    false
}

/// Removes a terminating pod that has a grace period, as far as its finalizers allow.
fn finish_pod(state: &Arc<State>, resource: &ResourceInfo, pod: &Stored) {
    let Some(current) = state.store.get(resource.shelf, pod.key()) else {
        return;
    };
    if !current.has_ties() {
        return;
    }
    let value = current.value();
    let grace = at(&value, &["metadata", "deletionGracePeriodSeconds"]);
    if metadata::is_terminating(&value) && grace.and_then(Value::as_i64).unwrap_or(0) > 0 {
        at_once(state, resource, &current);
    }
}
