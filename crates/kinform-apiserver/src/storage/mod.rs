//! The state of the server: one revision counter, one log, and a snapshot of each resource.
//!
//! ```text
//! write ──commit──▶ revision + 1 ──▶ snapshot of its shelf ──▶ lists, initial events
//!                        └─────────▶ log of (revision, previous, current) ──▶ watches
//! ```
//!
//! A store may have a disk. Then a write is decided at once against the *head*, and readers and
//! watches see it when it is on disk, at the *durable* mark. Without a disk both are one.
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
//! * `shelves.rs`: the shelves, the two marks and what is staged; `committer.rs`: the task that
//!   takes staged writes to the disk; `disk/`: the file;
//! * `watch_window.rs`: the log; `snapshot.rs`: the objects of a shelf; `stored.rs`: one version;
//!   `mirror.rs`: a shelf in another form.
//!
//! Upstream: `apiserver:pkg/storage/{etcd3,cacher}`.

pub(crate) mod committer;
#[cfg(feature = "disk")]
pub(crate) mod disk;
#[cfg(test)]
mod history;
#[cfg(test)]
mod marks;
pub(crate) mod mirror;
#[cfg(test)]
mod model;
mod scan;
pub(crate) mod shelves;
mod snapshot;
pub(crate) mod stored;
mod watch_window;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use committer::{Committer, Marks};
use shelves::Shelves;
pub(crate) use snapshot::Place;
pub use snapshot::Snapshot;
pub(crate) use stored::decimal;
pub use stored::{Draft, SelectableField, Stored};
pub use watch_window::Event;
pub(crate) use watch_window::{Ends, Polled};

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

/// A change, and the name of its shelf.
#[derive(Clone, Debug)]
pub struct ShelfEvent {
    /// The name of the shelf: `pods`, `deployments.apps`.
    pub shelf: Arc<str>,
    /// The change.
    pub event: Event,
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
    inner: Mutex<Shelves>,
    marks: watch::Sender<Marks>,
    /// `None` if the store has no disk.
    committer: Option<Committer>,
}

impl Store {
    /// An empty store at its first revision.
    #[must_use]
    pub fn new(limits: HistoryLimits) -> Self {
        let inner = Shelves::new(limits);
        Self {
            marks: watch::Sender::new(Marks::of(&inner)),
            inner: Mutex::new(inner),
            committer: None,
        }
    }

    /// A store of its own with the objects that readers see, at their revision, without history and
    /// without a disk.
    pub(crate) fn copy(&self) -> Self {
        let inner = self.lock().copy();
        Self {
            marks: watch::Sender::new(Marks::of(&inner)),
            inner: Mutex::new(inner),
            committer: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        // No code under this lock panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bounds of the history.
    #[must_use]
    pub fn limits(&self) -> HistoryLimits {
        self.lock().order.limits()
    }

    /// Returns the revision that readers see.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().durable
    }

    /// Returns the number of changes of these shelves at the head. A number that is the same means
    /// that they are the same.
    pub(crate) fn changes(&self, shelves: &[Shelf]) -> u64 {
        let inner = self.lock();
        shelves.iter().map(|shelf| inner.all[shelf.0].changes).sum()
    }

    /// Returns whether a shelf has no objects at the head.
    pub(crate) fn is_empty(&self, shelf: Shelf) -> bool {
        self.lock().all[shelf.0].snapshot.is_empty()
    }

    /// The lowest revision from which a watch can start and of which a list can be had.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.lock().floor
    }

    /// Follows the revision that readers see.
    pub(crate) fn marks(&self) -> watch::Receiver<Marks> {
        self.marks.subscribe()
    }

    /// The shelf with this name (`deployments.apps`, `pods`), made if it is new.
    #[must_use]
    pub fn shelf(&self, name: &str) -> Shelf {
        self.lock().shelf(name)
    }

    /// The names of all shelves.
    #[must_use]
    pub fn shelves(&self) -> Vec<Arc<str>> {
        let inner = self.lock();
        inner.all.iter().map(|shelf| shelf.name.clone()).collect()
    }

    /// The version of an object as the last write left it. A store with a disk may still lose it.
    #[must_use]
    pub fn get(&self, shelf: Shelf, key: &str) -> Option<Arc<Stored>> {
        self.lock().all[shelf.0].snapshot.get(key).cloned()
    }

    /// Returns the state of a resource as the last write left it. A store with a disk may still
    /// lose it.
    #[must_use]
    pub fn view(&self, shelf: Shelf) -> View {
        let inner = self.lock();
        View {
            snapshot: inner.all[shelf.0].snapshot.clone(),
            revision: inner.head,
        }
    }

    /// Returns the state of a resource that readers see.
    #[must_use]
    pub fn shown(&self, shelf: Shelf) -> View {
        self.lock().shown(shelf)
    }

    /// Returns the state of a resource at a past `revision`.
    ///
    /// Complexity: O(events of this resource since then).
    ///
    /// # Errors
    /// The revision is below the history, or not reached yet.
    pub fn view_at(&self, shelf: Shelf, revision: u64) -> Result<View, OutOfReach> {
        let (snapshot, later) = self.lock().past(shelf, revision)?;
        let snapshot = undone(snapshot, later);
        Ok(View { snapshot, revision })
    }

    /// Stores an object under the next revision, or finds that it is there already.
    ///
    /// # Errors
    /// The current state is not the expected one.
    pub fn put(&self, shelf: Shelf, draft: Draft, expect: Expect) -> Result<Committed, Mismatch> {
        let mut inner = self.lock();
        let done = inner.put(shelf, draft, expect)?;
        if done.changed {
            self.written(&inner);
        }
        Ok(done)
    }

    /// Removes an object; the removal takes a revision of its own.
    ///
    /// # Errors
    /// The current state is not the expected one, or there is no such object.
    pub fn remove(&self, shelf: Shelf, key: &str, expect: Expect) -> Result<Committed, Mismatch> {
        let mut inner = self.lock();
        let done = inner.remove(shelf, key, expect)?;
        self.written(&inner);
        Ok(done)
    }

    /// Notifies those who wait for a write: the readers, or the committing task.
    fn written(&self, inner: &Shelves) {
        match &self.committer {
            None => drop(self.marks.send_replace(Marks::of(inner))),
            Some(committer) => committer.notify(),
        }
    }

    /// Advances the revision by `by` without a change, as writes to resources that no client sees
    /// do. It stops at half of the largest signed number, so that no write can make it overflow.
    pub fn advance(&self, by: u64) -> u64 {
        let mut inner = self.lock();
        let revision = inner.advance(by);
        self.written(&inner);
        revision
    }

    /// Drops the history up to `revision`: watches, exact lists and continue tokens below it
    /// expire.
    /// Watches that are under way go on. Returns the floor.
    pub fn compact(&self, revision: u64) -> u64 {
        let mut inner = self.lock();
        let floor = inner.compact(revision);
        self.written(&inner);
        floor
    }

    /// Returns the writes after a place in the log, in order, or the current state if some of them
    /// were evicted or lost. Both come with the place up to which they are complete.
    pub(crate) fn since(&self, place: LogPlace) -> Since {
        let inner = self.lock();
        let upto = LogPlace {
            revision: inner.head,
            losses: inner.losses,
        };
        let mut events = Vec::new();
        if upto == place {
            return Since::Events(events, upto);
        }
        for (at, state) in inner.all.iter().enumerate() {
            let polled = state
                .log
                .poll(place.revision, upto.revision, PollLimits::NONE);
            if polled.lost || place.losses != upto.losses {
                let shelves = inner.all.iter().enumerate();
                let shelves = shelves.map(|(at, state)| (Shelf(at), state.snapshot.clone()));
                return Since::Lost(shelves.collect(), upto);
            }
            events.extend(polled.events.into_iter().map(|event| (Shelf(at), event)));
        }
        events.sort_by_key(|(_, event)| event.revision);
        Since::Events(events, upto)
    }

    /// Returns the changes after a revision, in order, and the
    /// revision up to which they are complete; `None` if the history does not reach back so far.
    /// A store with a disk may still lose the last of them.
    #[must_use]
    pub fn changes_after(&self, revision: u64) -> Option<(Vec<ShelfEvent>, u64)> {
        let Since::Events(events, upto) = self.since(LogPlace::after(revision)) else {
            return None;
        };
        let inner = self.lock();
        let named = |(shelf, event): (Shelf, Event)| ShelfEvent {
            shelf: inner.all[shelf.0].name.clone(),
            event,
        };
        Some((events.into_iter().map(named).collect(), upto.revision))
    }

    /// Events of a shelf after a cursor, up to `limits.ceiling`, at most `limits.events`, and no
    /// further one once their objects have `limits.bytes`.
    pub(crate) fn poll(&self, shelf: Shelf, after: u64, limits: PollLimits) -> Polled {
        self.lock().poll(shelf, after, limits)
    }

    /// Checks that a watch can start after `revision`. The error is the floor, the lowest such
    /// revision.
    pub(crate) fn can_resume(&self, revision: u64) -> Result<(), u64> {
        let floor = self.floor();
        if revision < floor { Err(floor) } else { Ok(()) }
    }

    /// Returns a receiver that wakes when a shelf is written to or its watches are ended.
    pub(crate) fn subscribe(&self, shelf: Shelf) -> watch::Receiver<u64> {
        self.lock().all[shelf.0].wake.subscribe()
    }

    /// Ends the watches of a shelf, which notice at their next poll that the count of ends has
    /// grown.
    pub(crate) fn end_watches(&self, shelf: Shelf, end: EndWatches) {
        let mut inner = self.lock();
        let state = &mut inner.all[shelf.0];
        state.log.end(end);
        state.wake.send_modify(|_| {});
    }

    /// Returns the number of times that the watches of a shelf were ended.
    pub(crate) fn ends(&self, shelf: Shelf) -> Ends {
        self.lock().all[shelf.0].log.ends()
    }

    /// Wakes all watches, so that they poll again.
    pub(crate) fn wake_all(&self) {
        for shelf in &self.lock().all {
            shelf.wake.send_modify(|_| {});
        }
        self.marks.send_modify(|_| {});
    }

    /// Ends the watches of all shelves immediately.
    pub(crate) fn end_all_watches(&self) {
        let shelves = self.lock().all.len();
        for shelf in 0..shelves {
            self.end_watches(Shelf(shelf), EndWatches::AtOnce);
        }
    }
}

/// Takes back events, the last one first.
fn undone(mut snapshot: Snapshot, events: Vec<Event>) -> Snapshot {
    for event in events.into_iter().rev() {
        match event.previous {
            Some(previous) => drop(snapshot.insert(previous)),
            None => drop(
                event
                    .current
                    .and_then(|object| snapshot.remove(object.key())),
            ),
        }
    }
    snapshot
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = self.lock();
        f.debug_struct("Store")
            .field("revision", &inner.durable)
            .field("floor", &inner.floor)
            .field("shelves", &inner.all.len())
            .finish_non_exhaustive()
    }
}

/// A place in the log of all writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPlace {
    pub(crate) revision: u64,
    /// The number of times that staged writes were lost before.
    losses: u64,
}

impl LogPlace {
    /// The place after a revision, in a store that has lost no write.
    pub(crate) fn after(revision: u64) -> Self {
        let losses = 0;
        Self { revision, losses }
    }
}

/// The changes since a place in the log.
#[derive(Debug)]
pub(crate) enum Since {
    Events(Vec<(Shelf, Event)>, LogPlace),
    /// The log does not reach back to that place; contains the current state instead.
    Lost(Vec<(Shelf, Snapshot)>, LogPlace),
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

/// The name of the shelf of a resource: `pods`, `deployments.apps`.
#[must_use]
pub fn shelf_name(group: &str, plural: &str) -> String {
    match group {
        "" => plural.to_owned(),
        _ => format!("{plural}.{group}"),
    }
}
