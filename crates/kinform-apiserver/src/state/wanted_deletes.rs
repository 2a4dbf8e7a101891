//! Deletes that controllers want, and about which admission is still to be asked.
//!
//! ```text
//! collector, end of a namespace ──add, once for each object──▶ queue ──take──▶ one task: admission, delete
//! reply of a write that wanted deletes ◀──settled── queue empty again
//! ```
//!
//! Controllers run within a write and never wait; webhooks take time. So such a delete waits here
//! for a task that asks.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

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

/// A function that begins the task when a delete is added.
struct Starter(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Starter")
    }
}

/// The deletes that wait.
#[derive(Debug, Default)]
pub(crate) struct WantedDeletes {
    queue: Mutex<Queue>,
    /// Begins the task.
    starter: OnceLock<Starter>,
    /// The number that had been added when the task last had nothing left to do.
    settled: watch::Sender<u64>,
}

/// BOUND: one entry for each stored object.
#[derive(Debug, Default)]
struct Queue {
    list: VecDeque<Wanted>,
    // INVARIANT: the keys of the list.
    keys: HashSet<(Shelf, String)>,
    /// The number that were added ever.
    added: u64,
    is_running: bool,
}

impl Queue {
    fn insert(&mut self, wanted: &Wanted) -> bool {
        self.keys.insert(wanted.key())
    }
}

impl WantedDeletes {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `start` whenever a delete was added.
    pub(crate) fn started_by(&self, start: impl Fn() + Send + Sync + 'static) {
        // The first one stays: a server has one.
        let _ = self.starter.set(Starter(Box::new(start)));
    }

    /// Adds a delete, unless one of this object waits already.
    pub(crate) fn add(&self, wanted: Wanted) {
        let mut queue = self.queue();
        if !queue.insert(&wanted) {
            return;
        }
        queue.list.push_back(wanted);
        queue.added += 1;
        drop(queue);
        if let Some(Starter(start)) = self.starter.get() {
            start();
        }
    }

    /// Puts a delete back that was taken and is still to be asked about.
    pub(crate) fn put_back(&self, wanted: Wanted) {
        let mut queue = self.queue();
        if queue.insert(&wanted) {
            queue.list.push_front(wanted);
        }
    }

    /// Returns the number that were ever added.
    pub(crate) fn added(&self) -> u64 {
        self.queue().added
    }

    /// Returns whether a task must begin: deletes wait, and none runs. It counts as running then.
    pub(crate) fn begins(&self) -> bool {
        let mut queue = self.queue();
        !queue.list.is_empty() && !std::mem::replace(&mut queue.is_running, true)
    }

    /// Ends the task, whose work may not be done.
    pub(crate) fn rest(&self) {
        self.queue().is_running = false;
    }

    /// Ends the task if nothing is left to do, and tells those who wait. Returns whether it ended.
    pub(crate) fn ends(&self) -> bool {
        let mut queue = self.queue();
        queue.is_running = !queue.list.is_empty();
        let (added, ended) = (queue.added, !queue.is_running);
        drop(queue);
        if ended {
            self.settled.send_if_modified(|settled| {
                let is_later = *settled < added;
                *settled = added.max(*settled);
                is_later
            });
        }
        ended
    }

    /// Waits until the first deletes, as many as were added by then, are settled.
    pub(crate) async fn settled(&self, added: u64) {
        let mut settled = self.settled.subscribe();
        // The sender is this object's: it is there.
        drop(settled.wait_for(|settled| *settled >= added).await);
    }

    /// Takes the delete that has waited longest.
    pub(crate) fn take(&self) -> Option<Wanted> {
        let mut queue = self.queue();
        let wanted = queue.list.pop_front()?;
        queue.keys.remove(&wanted.key());
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_begins_once_and_ends_when_nothing_is_left() {
        let server = crate::Server::builder().plain().in_process();
        let namespaces = match server.state().registry.find("", "v1", "namespaces") {
            crate::resource::Found::Resource(found) => found,
            other => panic!("{other:?}"),
        };
        let object = server
            .state()
            .store
            .get(namespaces.shelf, "default")
            .unwrap();
        let wanted = Wanted {
            resource: namespaces,
            object,
            wish: Wish::Emptied,
        };
        let deletes = WantedDeletes::default();
        assert!(!deletes.begins());
        deletes.add(wanted.clone());
        deletes.add(wanted);
        assert_eq!(deletes.added(), 1);
        assert!(deletes.begins() && !deletes.begins());
        let taken = deletes.take().unwrap();
        deletes.put_back(taken);
        assert!(!deletes.ends());
        deletes.rest();
        assert!(deletes.begins());
        assert!(deletes.take().is_some());
        assert!(deletes.ends() && deletes.take().is_none());
        assert_eq!(*deletes.settled.borrow(), 1);
    }
}
