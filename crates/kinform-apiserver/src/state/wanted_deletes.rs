//! Deletes that controllers want, and about which admission is still to be asked.
//!
//! ```text
//! collector, end of a namespace ──add, once for each object──▶ queue ──take──▶ admission, delete
//! ```
//!
//! Controllers run within a write and never wait; webhooks take time. So such a delete waits here
//! until the request that caused it asks.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::resource::{Propagation, ResourceInfo};
use crate::storage::{Shelf, Stored};

/// The controller that wants a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The garbage collector, with this treatment of dependents.
    Collected(Propagation),
    /// The controller that empties a namespace.
    Emptied,
}

/// A delete that a controller wants.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) resource: Arc<ResourceInfo>,
    /// The object as the controller read it.
    pub(crate) object: Arc<Stored>,
    pub(crate) wish: Wish,
}

impl Wanted {
    fn key(&self) -> (Shelf, String) {
        (self.resource.shelf, self.object.key().to_owned())
    }
}

/// The deletes that wait.
#[derive(Debug, Default)]
pub(crate) struct WantedDeletes(Mutex<Queue>);

/// BOUND: one entry for each stored object.
#[derive(Debug, Default)]
struct Queue {
    list: VecDeque<Wanted>,
    // INVARIANT: the keys of the list.
    keys: HashSet<(Shelf, String)>,
}

impl WantedDeletes {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a delete, unless one of this object waits already.
    pub(crate) fn add(&self, wanted: Wanted) {
        let mut queue = self.queue();
        if queue.keys.insert(wanted.key()) {
            queue.list.push_back(wanted);
        }
    }

    /// Takes the delete that has waited longest.
    pub(crate) fn take(&self) -> Option<Wanted> {
        let mut queue = self.queue();
        let wanted = queue.list.pop_front()?;
        queue.keys.remove(&wanted.key());
        Some(wanted)
    }
}
