//! The effects that an earlier process began and did not end.
//!
//! ```text
//! stored state of a start ──▶ definitions settled, namespaces drained, pods finished, garbage collected
//! ```
//!
//! A process may have ended between a write and its effects. The stored state tells what is open:
//! objects that are being deleted, definitions without conditions, and dependents of owners that
//! were deleted within the history. A dependent whose owner was never stored stays, as it does for
//! a server that goes on.
//!
//! Upstream: controllers that list their objects at their start.

use std::sync::Arc;

use super::definitions::settle_definitions;
use super::effects;
use super::garbage;
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::storage::Stored;

/// Applies the effects that are open in the stored state.
pub(crate) fn resume(state: &Arc<State>) {
    settle_definitions(state);
    for (resource, object) in terminating(state) {
        effects::follow(state, &resource, Some(&object));
    }
    garbage::resume(state);
}

/// Returns the namespaces and pods that are being deleted.
fn terminating(state: &State) -> Vec<(Arc<ResourceInfo>, Arc<Stored>)> {
    let entries = state.registry.entries();
    let mut found = Vec::new();
    for resource in entries.iter() {
        if !resource.is_core("namespaces") && !resource.is_core("pods") {
            continue;
        }
        let view = state.store.view(resource.shelf);
        let objects = view.snapshot.iter();
        let objects = objects.filter(|object| object.is_terminating());
        found.extend(objects.map(|object| (resource.clone(), object.clone())));
    }
    found
}
