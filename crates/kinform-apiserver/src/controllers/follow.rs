//! Consequences of a commit: the part of upstream's controllers that clients depend on.
//!
//! ```text
//! Written ──effects──▶ definitions, pods, namespaces ──garbage──▶ dependents
//! ```
//!
//! All of this is done before the reply is sent, in the order in which upstream's controllers would
//! write, so that watches see the same events.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/namespace`,
//! `apiextensions-apiserver:pkg/controller`.

use std::sync::Arc;

use kinform_api::Status;

use crate::controllers::effects;
use crate::controllers::garbage;
use crate::controllers::removal::at_once;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::Stored;
use crate::write::NamespaceState;
use crate::write::commit::Written;
use crate::write::namespace_state;
use crate::write::options::DeleteOptions;

/// Applies all consequences of a write. The router calls it before it sends the reply.
pub(crate) fn written(state: &Arc<State>, written: &Written) {
    let object = written.object.as_deref();
    if let (true, Some(object)) = (written.is_new, object) {
        keep_in_place(state, &written.resource, object);
    }
    changed(state, &written.resource, object);
}

/// Applies all consequences of a change of an object.
pub(crate) fn changed(state: &Arc<State>, resource: &ResourceInfo, object: Option<&Stored>) {
    effects::follow(state, resource, object);
    garbage::run(state);
}

/// Removes a new object whose namespace or definition was deleted concurrently: that deletion did
/// not see it.
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
    effects::delete(state, resource, key, options)?;
    garbage::run(state);
    Ok(())
}
