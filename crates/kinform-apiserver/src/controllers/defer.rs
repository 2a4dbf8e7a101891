//! Deletes of controllers that wait, because admission is to be asked about them.
//!
//! ```text
//! delete that a controller wants ──asked about?──▶ queue (asked.rs takes it) | made at once
//! ```

use std::sync::Arc;

use crate::admission::{self, Operation};
use crate::resource::ResourceInfo;
use crate::state::State;
use crate::state::wanted_deletes::{Wanted, Wish};
use crate::storage::Stored;

/// Lets a delete wait if admission is to be asked about it. Returns whether it does.
pub(super) fn defers(
    state: &State,
    resource: &Arc<ResourceInfo>,
    object: &Arc<Stored>,
    wish: Wish,
) -> bool {
    let asks = admission::asks(state, resource, ("", Operation::Delete));
    if asks {
        state.wanted_deletes.add(Wanted {
            resource: resource.clone(),
            object: object.clone(),
            wish,
        });
    }
    asks
}
