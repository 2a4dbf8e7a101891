//! The naive model of a store with a disk: every state at every revision, and two marks.
//!
//! ```text
//! written ──▶ states, events ──settled──▶ durable      lost ──▶ all after the durable mark is gone
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::*;

/// Objects by key, with their revisions.
pub(super) type Objects = BTreeMap<String, u64>;

/// An event: its revision, the version before, and the version after.
pub(super) type Change = (u64, Option<u64>, Option<u64>);

/// Everything that happened to one shelf.
#[derive(Clone, Debug)]
pub(super) struct History {
    states: Vec<(u64, Objects)>,
    changes: Vec<Change>,
    pub(super) durable: u64,
    /// The highest revision that a write has ever had.
    pub(super) highest: u64,
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            states: vec![(FIRST_REVISION, Objects::new())],
            changes: Vec::new(),
            durable: FIRST_REVISION,
            highest: FIRST_REVISION,
        }
    }

    pub(super) fn head(&self) -> u64 {
        self.states.last().unwrap().0
    }

    pub(super) fn at(&self, revision: u64) -> &Objects {
        let at = self.states.partition_point(|(known, _)| *known <= revision);
        &self.states[at - 1].1
    }

    /// Writes or removes an object, in the store and here.
    pub(super) fn write(&mut self, store: &Store, shelf: Shelf, key: &str, content: Option<u64>) {
        let mut objects = self.at(self.head()).clone();
        let before = objects.get(key).copied();
        let expect = before.map_or(Expect::Absent, Expect::Revision);
        let revision = match content {
            Some(content) => {
                let done = store.put(shelf, draft(key, content), expect).unwrap();
                assert!(done.changed);
                objects.insert(key.to_owned(), done.revision);
                done.revision
            }
            None if before.is_none() => return,
            None => {
                let done = store.remove(shelf, key, expect).unwrap();
                objects.remove(key);
                done.revision
            }
        };
        assert!(revision > self.highest, "{revision} was used before");
        self.highest = revision;
        let after = objects.get(key).copied();
        self.changes.push((revision, before, after));
        self.states.push((revision, objects));
    }

    /// Everything up to a revision is on disk, and nothing else.
    pub(super) fn reached(&mut self, revision: u64) {
        self.durable = revision;
        self.states.retain(|(at, _)| *at <= revision);
        self.changes.retain(|(at, ..)| *at <= revision);
    }

    /// A new process has everything up to a revision; the revisions after it are free again.
    #[cfg(feature = "disk")]
    pub(super) fn restart(&mut self, revision: u64) {
        self.reached(revision);
        self.highest = revision;
    }

    /// A lost batch turns out to be on disk: the history is the one with it.
    pub(super) fn take(&mut self, other: Self) {
        let highest = self.highest;
        *self = Self { highest, ..other };
    }

    /// Returns the revision after which a history of `events` events is kept.
    pub(super) fn kept(&self, events: usize) -> u64 {
        let evicted = self.changes.len().checked_sub(events + 1);
        evicted.map_or(FIRST_REVISION, |at| self.changes[at].0)
    }

    /// Everything after the durable mark is lost.
    pub(super) fn lost(&mut self) {
        self.reached(self.durable);
    }

    /// Compares what readers, watches and writers see.
    pub(super) fn check(&self, store: &Store, shelf: Shelf) {
        assert_eq!(store.revision(), self.durable);
        assert_eq!(objects(&store.shown(shelf)), *self.at(self.durable));
        assert_eq!(objects(&store.view(shelf)), *self.at(self.head()));
        let floor = store.floor();
        for from in [floor - 1, floor, (floor + self.durable) / 2, self.durable] {
            assert_eq!(store.can_resume(from).is_err(), from < floor);
            if from < floor {
                assert_eq!(store.view_at(shelf, from).err(), Some(OutOfReach::Expired));
                continue;
            }
            let view = store.view_at(shelf, from).unwrap();
            assert_eq!(objects(&view), *self.at(from), "at {from}");
            let changes = self.changes.iter().copied();
            let wanted = changes.filter(|(at, ..)| *at > from && *at <= self.durable);
            assert_eq!(heard(store, shelf, from), wanted.collect::<Vec<_>>());
        }
    }
}

/// The events that a watch hears after a revision.
pub(super) fn heard(store: &Store, shelf: Shelf, from: u64) -> Vec<Change> {
    let polled = store.poll(shelf, from, PollLimits::NONE);
    assert!(!polled.lost);
    assert!(polled.upto <= store.revision().max(from));
    let version = |object: &Option<Arc<Stored>>| object.as_ref().map(|it| it.revision());
    let events = polled.events.iter();
    events
        .map(|event| {
            (
                event.revision,
                version(&event.previous),
                version(&event.current),
            )
        })
        .collect()
}

pub(super) fn objects(view: &View) -> Objects {
    let objects = view.snapshot.iter();
    let entry = |object: &Arc<Stored>| {
        let text = object.value()["metadata"]["resourceVersion"].clone();
        assert_eq!(text, object.revision().to_string());
        (object.key().to_owned(), object.revision())
    };
    objects.map(entry).collect()
}

fn draft(key: &str, content: u64) -> Draft {
    let (namespace, name) = key.split_once('/').unwrap();
    let metadata = json!({"namespace": namespace, "name": name});
    Draft::new(&[], json!({"metadata": metadata, "data": content})).unwrap()
}
