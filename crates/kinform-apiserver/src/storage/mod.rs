//! The state of the server: one revision counter, one log, and a snapshot of each resource.
//!
//! ```text
//! write ──commit──▶ revision + 1 ──▶ snapshot of its shelf ──▶ lists, initial events
//!                        └─────────▶ log of (revision, previous, current) ──▶ watches
//! ```
//!
//! The API's guarantees about versions follow from this module: a list is a snapshot at a revision,
//! a watch is a cursor in the log, and both are taken under one lock, so no event is lost between
//! them. Watchers own no queue: the log evicts events past a slow watcher's cursor, and the watch
//! ends. An older state is the current one with the log's later events undone.
//!
//! The store never encodes, filters or waits: the lock is held for a look-up, or for copying one
//! object's bytes. The log is bounded in events and bytes; the stored objects are bounded by the
//! writers. A *shelf* is the storage of one resource in all its served versions.
//!
//! Upstream: `apiserver:pkg/storage/{etcd3,cacher}`.

#[cfg(test)]
mod model;
mod scan;
mod snapshot;
pub(crate) mod stored;
mod watch_window;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

pub(crate) use snapshot::Place;
pub use snapshot::Snapshot;
pub(crate) use stored::decimal;
pub use stored::{Draft, SelectableField, Stored};
pub use watch_window::Event;
pub(crate) use watch_window::{Ends, Polled};
use watch_window::{Log, Order};

/// The first revision of a new store, high enough that `resourceVersion=1` is too old.
pub(crate) const FIRST_REVISION: u64 = 1000;

/// The bounds of the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Events, over all resources.
    pub events: usize,
    /// Bytes of superseded versions that only the log keeps.
    pub bytes: usize,
}

impl Default for HistoryLimits {
    /// 100,000 events, 256 MiB.
    fn default() -> Self {
        // BOUND: about 90 s of 1,000 writes a second, like the window of upstream's watch cache.
        Self {
            events: 100_000,
            bytes: 256 << 20,
        }
    }
}

/// The storage of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelf(usize);

/// The state that a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key is free.
    Absent,
    /// The key holds the version that this revision wrote.
    Revision(u64),
    /// The key holds any version.
    Present,
    /// Any state.
    Any,
}

/// The outcome of a write.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the change, or of the stored version if nothing changed.
    pub revision: u64,
    /// The version now stored; for a removal, the last one.
    pub object: Arc<Stored>,
    /// Set if the write made a new revision. Writing the stored state again makes none.
    pub changed: bool,
}

/// The error of a write that expected another state; contains the current object.
#[derive(Clone, Debug)]
pub struct Mismatch(pub Option<Arc<Stored>>);

/// A resource at a revision.
#[derive(Clone, Debug)]
pub struct View {
    /// The objects.
    pub snapshot: Snapshot,
    /// The store's revision at that moment.
    pub revision: u64,
}

/// The reason why a past state is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfReach {
    /// The revision is below the history.
    Expired,
    /// The revision is above the current one, which it contains.
    Future(u64),
}

/// The storage of all resources.
pub struct Store {
    inner: Mutex<Inner>,
    revision: watch::Sender<u64>,
}

struct Inner {
    revision: u64,
    /// The lowest revision from which a watch can start.
    // INVARIANT: every event with a revision above the floor is in its shelf's log.
    floor: u64,
    order: Order,
    shelves: Vec<ShelfState>,
    by_name: HashMap<Arc<str>, Shelf>,
}

struct ShelfState {
    name: Arc<str>,
    snapshot: Snapshot,
    log: Log,
    wake: watch::Sender<u64>,
}

impl Store {
    /// An empty store at its first revision.
    #[must_use]
    pub fn new(limits: HistoryLimits) -> Self {
        Self {
            inner: Mutex::new(Inner {
                revision: FIRST_REVISION,
                floor: FIRST_REVISION,
                order: Order::new(limits),
                shelves: Vec::new(),
                by_name: HashMap::new(),
            }),
            revision: watch::Sender::new(FIRST_REVISION),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under this lock panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bounds of the history.
    #[must_use]
    pub fn limits(&self) -> HistoryLimits {
        self.lock().order.limits()
    }

    /// Returns the current revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Returns the revision of the last change of any of these shelves; 0 if there was none.
    pub(crate) fn last_change(&self, shelves: &[Shelf]) -> u64 {
        let inner = self.lock();
        let of = |shelf: &Shelf| *inner.shelves[shelf.0].wake.borrow();
        shelves.iter().map(of).max().unwrap_or(0)
    }

    /// The lowest revision from which a watch can start and of which a list can be had.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.lock().floor
    }

    /// Follows the current revision.
    pub(crate) fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The shelf with this name (`deployments.apps`, `pods`), made if it is new.
    #[must_use]
    pub fn shelf(&self, name: &str) -> Shelf {
        let mut inner = self.lock();
        if let Some(shelf) = inner.by_name.get(name) {
            return *shelf;
        }
        let shelf = Shelf(inner.shelves.len());
        let name: Arc<str> = name.into();
        inner.by_name.insert(name.clone(), shelf);
        let wake = watch::Sender::new(0);
        inner.shelves.push(ShelfState {
            name,
            snapshot: Snapshot::default(),
            log: Log::default(),
            wake,
        });
        shelf
    }

    /// The names of all shelves.
    #[must_use]
    pub fn shelves(&self) -> Vec<Arc<str>> {
        self.lock()
            .shelves
            .iter()
            .map(|shelf| shelf.name.clone())
            .collect()
    }

    /// The current version of an object.
    #[must_use]
    pub fn get(&self, shelf: Shelf, key: &str) -> Option<Arc<Stored>> {
        self.lock().shelves[shelf.0].snapshot.get(key).cloned()
    }

    /// Returns the current state of a resource.
    #[must_use]
    pub fn view(&self, shelf: Shelf) -> View {
        let inner = self.lock();
        View {
            snapshot: inner.shelves[shelf.0].snapshot.clone(),
            revision: inner.revision,
        }
    }

    /// Returns the state of a resource at a past `revision`.
    ///
    /// Complexity: O(events of this resource since then).
    ///
    /// # Errors
    /// The revision is below the history, or not reached yet.
    pub fn view_at(&self, shelf: Shelf, revision: u64) -> Result<View, OutOfReach> {
        let (mut snapshot, later) = {
            let inner = self.lock();
            if revision < inner.floor {
                return Err(OutOfReach::Expired);
            }
            if revision > inner.revision {
                return Err(OutOfReach::Future(inner.revision));
            }
            let state = &inner.shelves[shelf.0];
            (state.snapshot.clone(), state.log.after(revision))
        };
        for event in later.into_iter().rev() {
            match event.previous {
                Some(previous) => drop(snapshot.insert(previous)),
                None => drop(
                    event
                        .current
                        .and_then(|object| snapshot.remove(object.key())),
                ),
            }
        }
        Ok(View { snapshot, revision })
    }

    /// Stores an object under the next revision, or finds that it is there already.
    ///
    /// # Errors
    /// The current state is not the expected one.
    pub fn put(&self, shelf: Shelf, draft: Draft, expect: Expect) -> Result<Committed, Mismatch> {
        let mut inner = self.lock();
        let current = inner.current(shelf, draft.key(), expect)?;
        if let Some(current) = current.as_ref().filter(|current| draft.repeats(current)) {
            let (revision, object) = (current.revision(), current.clone());
            return Ok(Committed {
                revision,
                object,
                changed: false,
            });
        }
        let revision = inner.revision + 1;
        let object = Arc::new(draft.seal(revision));
        inner.shelves[shelf.0].snapshot.insert(object.clone());
        self.record(&mut inner, shelf, current, Some(object.clone()));
        Ok(Committed {
            revision,
            object,
            changed: true,
        })
    }

    /// Removes an object; the removal takes a revision of its own.
    ///
    /// # Errors
    /// The current state is not the expected one, or there is no such object.
    pub fn remove(&self, shelf: Shelf, key: &str, expect: Expect) -> Result<Committed, Mismatch> {
        let mut inner = self.lock();
        let Some(object) = inner.current(shelf, key, expect)? else {
            return Err(Mismatch(None));
        };
        inner.shelves[shelf.0].snapshot.remove(key);
        let revision = self.record(&mut inner, shelf, Some(object.clone()), None);
        Ok(Committed {
            revision,
            object,
            changed: true,
        })
    }

    fn record(
        &self,
        inner: &mut Inner,
        shelf: Shelf,
        previous: Option<Arc<Stored>>,
        current: Option<Arc<Stored>>,
    ) -> u64 {
        inner.revision += 1;
        let revision = inner.revision;
        let weight = previous.as_ref().map_or(0, |object| object.bytes().len());
        inner.shelves[shelf.0].log.push(Event {
            revision,
            previous,
            current,
        });
        inner.order.push(revision, shelf, weight);
        while let Some((evicted, from)) = inner.order.pop_over_limit() {
            inner.shelves[from.0].log.evict(evicted);
            inner.floor = inner.floor.max(evicted);
        }
        inner.shelves[shelf.0].wake.send_replace(revision);
        self.revision.send_replace(revision);
        revision
    }

    /// Advances the revision by `by` without a change, as writes to resources that no client sees
    /// do. It stops at half of the largest signed number, so that no write can make it overflow.
    pub fn advance(&self, by: u64) -> u64 {
        const MOST: u64 = i64::MAX as u64 / 2;
        let mut inner = self.lock();
        inner.revision = inner.revision.saturating_add(by).min(MOST);
        self.revision.send_replace(inner.revision);
        inner.revision
    }

    /// Drops the history up to `revision`: watches, exact lists and continue tokens below it
    /// expire.
    /// Watches that are under way go on. Returns the floor.
    pub fn compact(&self, revision: u64) -> u64 {
        let mut inner = self.lock();
        inner.floor = inner.floor.max(revision.min(inner.revision));
        inner.floor
    }

    /// Returns the changes after a revision, in order, or the current state if some of them were
    /// evicted. Both come with the revision up to which they are complete.
    pub(crate) fn since(&self, revision: u64) -> Since {
        let inner = self.lock();
        let upto = inner.revision;
        let mut events = Vec::new();
        if upto == revision {
            return Since::Events(events, upto);
        }
        for (at, state) in inner.shelves.iter().enumerate() {
            let polled = state.log.poll(revision, upto, PollLimits::NONE);
            if polled.lost {
                let shelves = inner.shelves.iter().enumerate();
                let shelves = shelves.map(|(at, state)| (Shelf(at), state.snapshot.clone()));
                return Since::Lost(shelves.collect(), upto);
            }
            events.extend(polled.events.into_iter().map(|event| (Shelf(at), event)));
        }
        events.sort_by_key(|(_, event)| event.revision);
        Since::Events(events, upto)
    }

    /// Events of a shelf after a cursor, up to `limits.ceiling`, at most `limits.events`, and no
    /// further one once their objects have `limits.bytes`.
    pub(crate) fn poll(&self, shelf: Shelf, after: u64, limits: PollLimits) -> Polled {
        let inner = self.lock();
        let ceiling = limits.ceiling.unwrap_or(u64::MAX).min(inner.revision);
        inner.shelves[shelf.0].log.poll(after, ceiling, limits)
    }

    /// Checks that a watch can start after `revision`. The error is the floor, the lowest such
    /// revision.
    pub(crate) fn can_resume(&self, revision: u64) -> Result<(), u64> {
        let inner = self.lock();
        if revision < inner.floor {
            Err(inner.floor)
        } else {
            Ok(())
        }
    }

    /// Returns a receiver that wakes when a shelf is written to or its watches are ended.
    pub(crate) fn subscribe(&self, shelf: Shelf) -> watch::Receiver<u64> {
        self.lock().shelves[shelf.0].wake.subscribe()
    }

    /// Ends the watches of a shelf, which notice at their next poll that the count of ends has
    /// grown.
    pub(crate) fn end_watches(&self, shelf: Shelf, end: EndWatches) {
        let mut inner = self.lock();
        let state = &mut inner.shelves[shelf.0];
        state.log.end(end);
        state.wake.send_modify(|_| {});
    }

    /// Returns the number of times that the watches of a shelf were ended.
    pub(crate) fn ends(&self, shelf: Shelf) -> Ends {
        self.lock().shelves[shelf.0].log.ends()
    }

    /// Wakes all watches, so that they poll again.
    pub(crate) fn wake_all(&self) {
        for shelf in &self.lock().shelves {
            shelf.wake.send_modify(|_| {});
        }
        self.revision.send_modify(|_| {});
    }

    /// Ends the watches of all shelves immediately.
    pub(crate) fn end_all_watches(&self) {
        let shelves = self.lock().shelves.len();
        for shelf in 0..shelves {
            self.end_watches(Shelf(shelf), EndWatches::AtOnce);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.lock();
        f.debug_struct("Store")
            .field("revision", &inner.revision)
            .field("floor", &inner.floor)
            .field("shelves", &inner.shelves.len())
            .finish_non_exhaustive()
    }
}

/// The changes since a revision.
#[derive(Debug)]
pub(crate) enum Since {
    Events(Vec<(Shelf, Event)>, u64),
    /// The log does not reach back to that revision; contains the current state instead.
    Lost(Vec<(Shelf, Snapshot)>, u64),
}

/// The limits of a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
    /// The highest revision that a lagging replica shows.
    pub(crate) ceiling: Option<u64>,
}

impl PollLimits {
    const NONE: Self = Self {
        events: usize::MAX,
        bytes: usize::MAX,
        ceiling: None,
    };
}

/// States whether ended watches first receive the events that are already written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndWatches {
    /// Watches end immediately; their clients resume.
    AtOnce,
    /// Watches first receive all events: the resource is going away.
    AfterEvents,
}

impl Inner {
    fn current(
        &self,
        shelf: Shelf,
        key: &str,
        expect: Expect,
    ) -> Result<Option<Arc<Stored>>, Mismatch> {
        let current = self.shelves[shelf.0].snapshot.get(key).cloned();
        let holds = match (expect, &current) {
            (Expect::Absent, found) => found.is_none(),
            (Expect::Present, found) => found.is_some(),
            (Expect::Revision(revision), found) => found
                .as_ref()
                .is_some_and(|object| object.revision() == revision),
            (Expect::Any, _) => true,
        };
        if holds {
            Ok(current)
        } else {
            Err(Mismatch(current))
        }
    }
}

/// The name of the shelf of a resource: `pods`, `deployments.apps`.
#[must_use]
pub fn shelf_name(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        _ => format!("{plural}.{group}"),
    }
}
