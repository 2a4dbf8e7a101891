//! The effects of a write by the kind of its object.
//!
//! ```text
//! definition written ──▶ conditions, resources served      last custom object gone ──▶ definition gone
//! pod deleted gracefully, no kubelet ──▶ gone              account, service, quota ──▶ what belongs to it
//! ```
//!
//! Namespaces are emptied above this module, with effects of their own.

use std::sync::Arc;

use serde_json::Value;

use super::definitions::{release_definition, settle_definitions};
use super::removal::at_once;
use super::{account, addresses, event_ttl, policy_types, quota};
use crate::access::rbac;
use crate::object::{at, metadata};
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::Stored;

/// Applies the effects of a change of an object.
pub(super) fn follow(state: &Arc<State>, resource: &ResourceInfo, object: &Stored) {
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
    quota::follow(state, resource, object);
    policy_types::follow(state, resource, object);
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
