//! The direct effects of a write.
//!
//! ```text
//! write, delete of a controller ──kinds.rs──▶ what the object's kind keeps ──namespace.rs──▶ namespace emptied
//! ```
//!
//! The garbage collector runs after these effects and writes through this module.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controller/namespace`,
//! `apiextensions-apiserver:pkg/controller`.

use std::sync::Arc;

use kinform_api::Status;
use serde_json::Value;

use super::kinds;
use super::namespace::drain_namespace;
use crate::budget::Meter;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::{Draft, Expect, Stored};
use crate::write::commit::{TRIES, delete_stored};
use crate::write::complete::is_finished;
use crate::write::delete;
use crate::write::options::{DeleteOptions, WriteOptions};
use crate::write::{Context, Fresh};

/// Applies the effects of a change of an object, except those of the garbage collector.
pub(crate) fn follow(state: &Arc<State>, resource: &ResourceInfo, object: Option<&Stored>) {
    let Some(object) = object else { return };
    kinds::follow(state, resource, object);
    let is_namespace = resource.is_core("namespaces").then(|| object.name());
    if let Some(namespace) = is_namespace.or(object.namespace()) {
        drain_namespace(state, namespace);
    }
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
    let deleted = commit_delete(state, resource, key, options)?;
    follow(state, resource, deleted.as_deref());
    Ok(())
}

/// The same for a caller that empties the object's namespace itself.
///
/// # Errors
/// Those of [`delete`].
pub(super) fn delete_in_namespace(
    state: &Arc<State>,
    resource: &ResourceInfo,
    key: &str,
    options: &DeleteOptions,
) -> Result<(), Box<Status>> {
    if let Some(deleted) = commit_delete(state, resource, key, options)? {
        kinds::follow(state, resource, &deleted);
    }
    Ok(())
}

fn commit_delete(
    state: &State,
    resource: &ResourceInfo,
    key: &str,
    options: &DeleteOptions,
) -> Result<Option<Arc<Stored>>, Box<Status>> {
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
    delete_stored(&state.store, resource, key, |current| {
        delete::delete(&context, name, options, current)
    })
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
