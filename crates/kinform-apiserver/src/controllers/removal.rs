//! Removals that a controller makes: of one object without a grace period, and of the objects below
//! a key.
//!
//! ```text
//! object -> deleted with uid as its precondition, without a grace period, as far as finalizers allow
//! ```

use crate::budget::Meter;
use crate::object::metadata;
use crate::resource::ResourceInfo;
use crate::resource::rules::Propagation;
use crate::state::State;
use crate::storage::{Shelf, Store, Stored};
use crate::write::commit::delete_stored;
use crate::write::delete::delete;
use crate::write::options::{DeleteOptions, WriteOptions};
use crate::write::{Context, Fresh};

/// Deletes this very object without a grace period, as far as its finalizers allow. An object that
/// is already being deleted keeps its propagation policy.
pub(super) fn at_once(state: &State, resource: &ResourceInfo, object: &Stored) {
    let write = WriteOptions::default();
    let is_said = is_terminating(object);
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        propagation: (!is_said).then_some(Propagation::Background),
        uid: Some(object.uid().to_owned()),
        ..DeleteOptions::default()
    };
    let context = Context {
        resource,
        namespace: object.namespace(),
        options: &write,
        now: state.clock.now(),
        fresh: Fresh::default(),
        meter: &Meter::endless(),
    };
    // No consequences are applied here: the caller applies them. An object that may not be deleted,
    // or that has been replaced, stays.
    drop(delete_stored(
        &state.store,
        resource,
        object.key(),
        |current| delete(&context, object.name(), &options, current),
    ));
}

/// Returns whether an object is being deleted. An object can be large: it is decoded only if its
/// metadata may say so.
pub(super) fn is_terminating(object: &Stored) -> bool {
    object.has_ties() && metadata::is_terminating(&object.value())
}

pub(super) fn keys(store: &Store, shelf: Shelf, prefix: &str) -> Vec<String> {
    let view = store.view(shelf);
    let mut place = view.snapshot.seek(prefix);
    let mut keys = Vec::new();
    while let Some(object) = view
        .snapshot
        .at(place)
        .filter(|o| o.key().starts_with(prefix))
    {
        keys.push(object.key().to_owned());
        place = view.snapshot.next(place);
    }
    keys
}
