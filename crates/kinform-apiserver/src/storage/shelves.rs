//! The shelves of a store, its two marks, and the writes that are not on disk yet.
//!
//! ```text
//! put, remove ──▶ head ──staged──cut──▶ Batch ──on disk──settle──▶ durable ──▶ lists, watches
//!                                          └──not on disk──undo──▶ head = durable again
//! ```
//!
//! Writes are decided against the *head*; readers and watches see the state at the *durable* mark.
//! A store without a disk stages no write: its marks are one. A batch contains all staged writes
//! and all evictions that they cause, so that the disk keeps the window that memory keeps.
//!
//! This module decides and writes no file. A lost revision is never assigned again: a writer may
//! still expect the version that had it.

use std::collections::HashMap;
use std::sync::Arc;

use kinform_api::mutant;
use tokio::sync::watch;

use super::watch_window::{Log, Order};
use super::{
    Committed, Draft, Event, Expect, FIRST_REVISION, HistoryLimits, Mismatch, OutOfReach,
    PollLimits, Polled, Shelf, Snapshot, Stored, View,
};

/// The shelves and the marks.
pub(super) struct Shelves {
    /// The revision of the last write.
    pub(super) head: u64,
    /// The revision that readers see.
    // INVARIANT: never above the head, and equal to it if nothing is staged.
    pub(super) durable: u64,
    /// The last revision that was assigned. Above the head after writes were lost.
    last: u64,
    /// The lowest revision from which a watch can start.
    // INVARIANT: every event with a revision above the floor is in its shelf's log.
    pub(super) floor: u64,
    /// The number of times that staged writes were lost.
    pub(super) losses: u64,
    pub(super) order: Order,
    pub(super) all: Vec<ShelfState>,
    pub(super) by_name: HashMap<Arc<str>, Shelf>,
    /// `None` if the store has no disk.
    staging: Option<Staging>,
}

/// The state of one resource.
pub(super) struct ShelfState {
    pub(super) name: Arc<str>,
    /// The objects at the head.
    pub(super) snapshot: Snapshot,
    /// The objects at the durable mark, if they are others.
    durable: Option<Snapshot>,
    /// Counts the changes of the objects at the head; never goes back.
    pub(super) changes: u64,
    pub(super) log: Log,
    pub(super) wake: watch::Sender<u64>,
}

impl ShelfState {
    /// Returns the objects that readers see.
    pub(super) fn shown(&self) -> &Snapshot {
        self.durable.as_ref().unwrap_or(&self.snapshot)
    }
}

/// The writes that are not on disk.
#[derive(Default)]
struct Staging {
    // BOUND: each writer waits for its write; writes without a request are the caller's to bound.
    events: Vec<(Shelf, Event)>,
    /// Revisions of stored versions that the last run should have deleted.
    owed: Vec<u64>,
    /// Set if the floor was raised without a write.
    is_compacted: bool,
}

/// The writes and evictions of one transaction.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The revision that the disk has reached with this batch.
    pub(crate) upto: u64,
    /// The floor after this batch.
    pub(crate) floor: u64,
    /// The writes, in order, with the names of their shelves.
    pub(crate) events: Vec<(Arc<str>, Event)>,
    /// Revisions of the versions that are no longer needed.
    #[cfg_attr(
        not(any(test, feature = "disk")),
        expect(dead_code, reason = "the disk reads it")
    )]
    pub(crate) dead: Vec<u64>,
    shelves: Vec<Shelf>,
    /// Events up to this revision leave the history.
    evicted: Option<u64>,
    /// The changed shelves as this batch leaves them.
    snapshots: Vec<(Shelf, Snapshot)>,
}

/// A version of an object, or its removal, as the disk has it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) revision: u64,
    pub(crate) shelf: Shelf,
    pub(crate) key: Box<str>,
    /// `None` for a removal.
    pub(crate) object: Option<Arc<Stored>>,
}

impl Shelves {
    pub(super) fn new(limits: HistoryLimits) -> Self {
        Self {
            head: FIRST_REVISION,
            durable: FIRST_REVISION,
            last: FIRST_REVISION,
            floor: FIRST_REVISION,
            losses: 0,
            order: Order::new(limits),
            all: Vec::new(),
            by_name: HashMap::new(),
            staging: None,
        }
    }

    /// The objects that readers see, as shelves of their own: at the durable mark, without history.
    pub(super) fn copy(&self) -> Self {
        let shelf = |state: &ShelfState| ShelfState {
            name: state.name.clone(),
            snapshot: state.shown().clone(),
            durable: None,
            changes: state.changes,
            log: Log::after(self.durable),
            wake: watch::Sender::new(0),
        };
        Self {
            head: self.durable,
            durable: self.durable,
            last: self.durable,
            floor: self.durable,
            losses: 0,
            order: Order::new(self.order.limits()),
            all: self.all.iter().map(shelf).collect(),
            by_name: self.by_name.clone(),
            staging: None,
        }
    }

    pub(super) fn shelf(&mut self, name: &str) -> Shelf {
        if let Some(shelf) = self.by_name.get(name) {
            return *shelf;
        }
        let shelf = Shelf(self.all.len());
        let name: Arc<str> = name.into();
        self.by_name.insert(name.clone(), shelf);
        self.all.push(ShelfState {
            name,
            snapshot: Snapshot::default(),
            changes: 0,
            durable: None,
            log: Log::default(),
            wake: watch::Sender::new(0),
        });
        shelf
    }

    /// Returns the state of a resource at a revision that readers may see, and the events to undo
    /// for it.
    pub(super) fn past(
        &self,
        shelf: Shelf,
        revision: u64,
    ) -> Result<(Snapshot, Vec<Event>), OutOfReach> {
        if revision < self.floor {
            return Err(OutOfReach::Expired);
        }
        if revision > self.durable {
            return Err(OutOfReach::Future(self.durable));
        }
        let state = &self.all[shelf.0];
        Ok((
            state.shown().clone(),
            state.log.between(revision, self.durable),
        ))
    }

    /// Returns what readers see of a resource.
    pub(super) fn shown(&self, shelf: Shelf) -> View {
        View {
            snapshot: self.all[shelf.0].shown().clone(),
            revision: self.durable,
        }
    }

    pub(super) fn poll(&self, shelf: Shelf, after: u64, limits: PollLimits) -> Polled {
        let seen = match mutant!("S13") {
            true => self.head,
            false => self.durable,
        };
        let ceiling = limits.ceiling.unwrap_or(u64::MAX).min(seen);
        self.all[shelf.0].log.poll(after, ceiling, limits)
    }

    pub(super) fn put(
        &mut self,
        shelf: Shelf,
        draft: Draft,
        expect: Expect,
    ) -> Result<Committed, Mismatch> {
        let current = self.current(shelf, draft.key(), expect)?;
        if let Some(current) = current.as_ref().filter(|current| draft.repeats(current)) {
            let (revision, object) = (current.revision(), current.clone());
            return Ok(Committed {
                revision,
                object,
                changed: false,
            });
        }
        let revision = self.last + 1;
        let object = Arc::new(draft.seal(revision));
        self.keep_durable(shelf);
        self.all[shelf.0].snapshot.insert(object.clone());
        self.record(shelf, current, Some(object.clone()));
        Ok(Committed {
            revision,
            object,
            changed: true,
        })
    }

    pub(super) fn remove(
        &mut self,
        shelf: Shelf,
        key: &str,
        expect: Expect,
    ) -> Result<Committed, Mismatch> {
        let Some(object) = self.current(shelf, key, expect)? else {
            return Err(Mismatch(None));
        };
        self.keep_durable(shelf);
        self.all[shelf.0].snapshot.remove(key);
        let revision = self.record(shelf, Some(object.clone()), None);
        Ok(Committed {
            revision,
            object,
            changed: true,
        })
    }

    fn current(
        &self,
        shelf: Shelf,
        key: &str,
        expect: Expect,
    ) -> Result<Option<Arc<Stored>>, Mismatch> {
        let current = self.all[shelf.0].snapshot.get(key).cloned();
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

    /// Keeps the objects that readers see before a write changes the head.
    fn keep_durable(&mut self, shelf: Shelf) {
        self.all[shelf.0].changes += 1;
        if self.staging.is_some() {
            let state = &mut self.all[shelf.0];
            if state.durable.is_none() {
                state.durable = Some(state.snapshot.clone());
            }
        }
    }

    fn record(
        &mut self,
        shelf: Shelf,
        previous: Option<Arc<Stored>>,
        current: Option<Arc<Stored>>,
    ) -> u64 {
        self.last += 1;
        let revision = self.last;
        self.head = revision;
        let event = Event {
            revision,
            previous,
            current,
        };
        self.append(shelf, event.clone());
        match &mut self.staging {
            Some(staging) => staging.events.push((shelf, event)),
            None => {
                self.durable = revision;
                self.evict(self.order.excess());
                self.all[shelf.0].wake.send_replace(revision);
            }
        }
        revision
    }

    /// Adds an event to the history.
    fn append(&mut self, shelf: Shelf, event: Event) {
        let weight = event.previous.as_ref().map_or(0, |it| it.bytes().len());
        self.order.push(event.revision, shelf, weight);
        self.all[shelf.0].log.push(event);
    }

    /// Drops events up to a revision, and raises the floor to the last of them.
    fn evict(&mut self, upto: Option<u64>) {
        let Some(upto) = upto else { return };
        while let Some((evicted, from)) = self.order.pop(upto) {
            self.all[from.0].log.evict(evicted);
            self.floor = self.floor.max(evicted);
        }
    }

    /// Advances the revision without a change.
    pub(super) fn advance(&mut self, by: u64) -> u64 {
        const MOST: u64 = i64::MAX as u64 / 2;
        self.last = self.last.saturating_add(by).min(MOST);
        self.head = self.last;
        if self.staging.is_none() {
            self.durable = self.head;
        }
        self.head
    }

    /// Raises the floor, up to what readers see.
    pub(super) fn compact(&mut self, revision: u64) -> u64 {
        self.floor = self.floor.max(revision.min(self.durable));
        if let Some(staging) = &mut self.staging {
            staging.is_compacted = true;
        }
        self.floor
    }

    /// Takes the versions of a disk, in the order of their revisions, and stages every write from
    /// now on.
    pub(super) fn fill(&mut self, revision: u64, floor: u64, versions: Vec<Version>) {
        let mut owed = Vec::new();
        self.floor = floor;
        for state in &mut self.all {
            state.log.begin(floor);
        }
        for version in versions {
            let state = &mut self.all[version.shelf.0];
            state.changes += 1;
            let snapshot = &mut state.snapshot;
            let previous = match &version.object {
                Some(object) => snapshot.insert(object.clone()),
                None => snapshot.remove(&version.key),
            };
            if version.revision > floor {
                let event = Event {
                    revision: version.revision,
                    previous,
                    current: version.object,
                };
                self.append(version.shelf, event);
                continue;
            }
            // A raised floor keeps no events.
            owed.extend(previous.map(|previous| previous.revision()));
            if version.object.is_none() {
                owed.push(version.revision);
            }
        }
        (self.head, self.durable, self.last) = (revision, revision, revision);
        self.staging = Some(Staging {
            owed,
            ..Staging::default()
        });
    }

    /// Returns whether there is something to write to the disk.
    pub(super) fn is_staged(&self) -> bool {
        self.staging.as_ref().is_some_and(|staging| {
            self.head != self.durable || staging.is_compacted || !staging.owed.is_empty()
        })
    }

    /// Returns the number of writes that are staged.
    pub(super) fn staged(&self) -> usize {
        let staging = self.staging.as_ref();
        staging.map_or(0, |staging| staging.events.len())
    }

    /// Takes all that is staged, as one transaction. The caller settles or undoes a batch before it
    /// cuts the next one.
    pub(super) fn cut(&mut self) -> Option<Batch> {
        if !self.is_staged() {
            return None;
        }
        let evicted = self.order.excess();
        let mut dead = self.dead(evicted.unwrap_or(0));
        let staging = self.staging.as_mut()?;
        dead.extend_from_slice(&staging.owed);
        staging.is_compacted = false;
        let staged = std::mem::take(&mut staging.events);
        let changed = |state: &ShelfState| state.durable.as_ref().map(|_| state.snapshot.clone());
        let snapshots = self.all.iter().enumerate();
        let snapshots = snapshots.filter_map(|(at, state)| Some((Shelf(at), changed(state)?)));
        let name = |(shelf, event): (Shelf, Event)| (self.all[shelf.0].name.clone(), event);
        Some(Batch {
            upto: self.head,
            floor: self.floor.max(evicted.unwrap_or(0)),
            shelves: staged.iter().map(|(shelf, _)| *shelf).collect(),
            snapshots: snapshots.collect(),
            events: staged.into_iter().map(name).collect(),
            dead,
            evicted,
        })
    }

    /// Returns the revisions of the versions that only events up to `upto` need: those that they
    /// superseded, and removals.
    fn dead(&self, upto: u64) -> Vec<u64> {
        let mut dead = Vec::new();
        for (revision, shelf) in self.order.upto(upto) {
            let Some(event) = self.all[shelf.0].log.find(revision) else {
                continue;
            };
            dead.extend(event.previous.as_ref().map(|previous| previous.revision()));
            if event.current.is_none() {
                dead.push(revision);
            }
        }
        dead
    }

    /// Shows a batch that is on disk to the readers.
    pub(super) fn settle(&mut self, batch: &Batch) {
        self.durable = batch.upto;
        if let Some(staging) = &mut self.staging {
            staging.owed.clear();
        }
        self.evict(batch.evicted);
        self.floor = self.floor.max(batch.floor);
        for (shelf, snapshot) in &batch.snapshots {
            let state = &mut self.all[shelf.0];
            let is_ahead = state.log.last().is_some_and(|last| last > batch.upto);
            state.durable = is_ahead.then(|| snapshot.clone());
            state.wake.send_replace(batch.upto);
        }
        debug_assert!(self.durable <= self.head);
    }

    /// Takes back all writes that are not on disk.
    pub(super) fn undo(&mut self) {
        for state in &mut self.all {
            if let Some(durable) = state.durable.take() {
                state.snapshot = durable;
                state.changes += 1;
                state.log.undo(self.durable);
            }
        }
        self.order.undo(self.durable);
        self.head = self.durable;
        self.losses += 1;
        if let Some(staging) = &mut self.staging {
            staging.events.clear();
            staging.is_compacted = true;
        }
    }

    /// Shows a batch that was undone, and is on disk all the same. What was staged since is taken
    /// back.
    pub(super) fn redo(&mut self, batch: &Batch) {
        self.undo();
        for (shelf, (_, event)) in batch.shelves.iter().zip(&batch.events) {
            self.append(*shelf, event.clone());
        }
        for (shelf, snapshot) in &batch.snapshots {
            self.all[shelf.0].snapshot = snapshot.clone();
            self.all[shelf.0].changes += 1;
        }
        self.head = batch.upto;
        self.settle(batch);
    }
}
