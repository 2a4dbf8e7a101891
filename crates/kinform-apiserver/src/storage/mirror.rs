//! The objects of a shelf in another form, under the same revisions: a version of a definition that
//! is not stored.
//!
//! ```text
//! Store ──events──▶ a task converts ──append, replace──▶ Mirror { snapshot, log } ──▶ lists, watches
//! ```
//!
//! A mirror lags behind its shelf as a replica does, and is read while nobody fills it. It never
//! converts and never waits. Its history begins with what filled it first and ends where the store's
//! does, or earlier within its own limit in bytes.
//!
//! Upstream: the watch cache of each served version, `apiserver:pkg/storage/cacher`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::watch_window::{Ends, Log, Order, Polled};
use super::{
    EndWatches, Event, FIRST_REVISION, HistoryLimits, OutOfReach, PollLimits, Shelf, Snapshot,
    Store, Stored, View, undone,
};

/// A shelf in another form.
#[derive(Debug)]
pub(crate) struct Mirror {
    source: Shelf,
    inner: Mutex<Inner>,
    progress: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    snapshot: Snapshot,
    log: Log,
    order: Order,
    /// The lowest revision from which a watch can start.
    floor: u64,
    /// Every change of the source up to here is in the snapshot.
    upto: u64,
    is_filled: bool,
    /// Set once it had every change.
    is_ready: bool,
    /// Set when nobody fills it any more.
    is_closed: bool,
    /// The reason why the last try to fill it failed.
    failure: Option<Broken>,
}

/// An object that could not be converted.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) key: Box<str>,
    pub(crate) revision: u64,
    pub(crate) why: String,
}

/// A change of the source, converted.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Box<str>,
    /// `None` for a removal.
    pub(crate) object: Option<Arc<Stored>>,
}

impl Mirror {
    /// Returns an empty mirror of a shelf.
    pub(crate) fn new(source: Shelf, limits: HistoryLimits) -> Self {
        Self {
            source,
            inner: Mutex::new(Inner {
                snapshot: Snapshot::default(),
                log: Log::default(),
                order: Order::new(limits),
                floor: FIRST_REVISION,
                upto: FIRST_REVISION,
                is_filled: false,
                is_ready: false,
                is_closed: false,
                failure: None,
            }),
            progress: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code under this lock panics in the middle of a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether it was filled at least once.
    pub(crate) fn is_filled(&self) -> bool {
        self.lock().is_filled
    }

    /// Returns whether it lacks changes of its shelf, and is going to have them.
    pub(crate) fn is_behind(&self, store: &Store) -> bool {
        !self.refresh(store) && !self.lock().is_closed
    }

    /// Notes that nobody fills it any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.progress.send_modify(|_| {});
    }

    /// Returns the revision up to which it has all changes.
    pub(crate) fn upto(&self) -> u64 {
        self.lock().upto
    }

    /// Returns the reason why the last try to fill it failed.
    pub(crate) fn failure(&self) -> Option<Broken> {
        self.lock().failure.clone()
    }

    /// Notes that a try to fill it failed.
    pub(crate) fn fail(&self, broken: Broken) {
        self.lock().failure = Some(broken);
        self.progress.send_modify(|_| {});
    }

    /// Returns whether it had every change once.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().is_ready
    }

    /// Returns its objects and the revision that they are complete for.
    pub(crate) fn view(&self) -> View {
        let inner = self.lock();
        View {
            snapshot: inner.snapshot.clone(),
            revision: inner.upto,
        }
    }

    /// Returns its objects at a past revision.
    ///
    /// # Errors
    /// The revision is below its history, or not reached yet.
    pub(crate) fn view_at(&self, revision: u64) -> Result<View, OutOfReach> {
        let inner = self.lock();
        if revision < inner.floor {
            return Err(OutOfReach::Expired);
        }
        if revision > inner.upto {
            return Err(OutOfReach::Future(inner.upto));
        }
        let later = inner.log.between(revision, inner.upto);
        let snapshot = undone(inner.snapshot.clone(), later);
        Ok(View { snapshot, revision })
    }

    /// Returns the lowest revision from which a watch can start.
    pub(crate) fn floor(&self) -> u64 {
        self.lock().floor
    }

    /// Returns events after a cursor, as a store does.
    pub(crate) fn poll(&self, after: u64, limits: PollLimits) -> Polled {
        let inner = self.lock();
        let ceiling = limits.ceiling.unwrap_or(u64::MAX).min(inner.upto);
        inner.log.poll(after, ceiling, limits)
    }

    /// Returns a receiver that wakes when it has changed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// Returns the number of times that its watches were ended.
    pub(crate) fn ends(&self) -> Ends {
        self.lock().log.ends()
    }

    /// Takes the converted changes up to a revision, in order.
    pub(crate) fn append(&self, changes: Vec<Change>, upto: u64) {
        let mut inner = self.lock();
        for change in changes {
            let previous = match &change.object {
                Some(object) => inner.snapshot.insert(object.clone()),
                None => inner.snapshot.remove(&change.key),
            };
            if previous.is_none() && change.object.is_none() {
                continue;
            }
            let weight = previous.as_ref().map_or(0, |it| it.bytes().len());
            inner.order.push(change.revision, self.source, weight);
            inner.log.push(Event {
                revision: change.revision,
                previous,
                current: change.object,
            });
        }
        inner.upto = inner.upto.max(upto);
        inner.failure = None;
        let excess = inner.order.excess();
        inner.evict(excess);
        drop(inner);
        self.progress.send_replace(upto);
    }

    /// Replaces its objects by those of a revision. Its history begins anew, and its watches end if
    /// they saw other objects.
    pub(crate) fn replace(&self, snapshot: Snapshot, revision: u64) {
        let mut inner = self.lock();
        if inner.is_filled {
            inner.log.end(EndWatches::AtOnce);
        }
        let last = inner.upto.max(revision);
        inner.evict(Some(last));
        inner.log.begin(revision);
        inner.snapshot = snapshot;
        inner.upto = revision;
        inner.floor = revision;
        inner.is_filled = true;
        inner.failure = None;
        drop(inner);
        self.progress.send_replace(revision);
    }

    /// Compares it with its shelf: drops the history that the store no longer has, and returns
    /// whether it has every change that readers of the store see.
    pub(crate) fn refresh(&self, store: &Store) -> bool {
        let (upto, floor) = (self.upto(), store.floor());
        let none = PollLimits {
            events: 0,
            bytes: 0,
            ceiling: None,
        };
        let polled = store.poll(self.source, upto, none);
        let mut inner = self.lock();
        inner.evict(Some(floor));
        let is_fresh = inner.is_filled && polled.remaining == 0 && !polled.lost;
        if is_fresh {
            inner.upto = inner.upto.max(polled.upto);
            inner.is_ready = true;
        }
        is_fresh
    }
}

impl Inner {
    /// Drops events up to a revision, and raises the floor to it.
    fn evict(&mut self, upto: Option<u64>) {
        let Some(upto) = upto.filter(|upto| *upto > self.floor) else {
            return;
        };
        while self.order.pop(upto).is_some() {}
        self.log.evict(upto);
        self.floor = upto;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::{Draft, Expect};

    fn draft(name: &str, n: u64) -> Draft {
        Draft::new(&[], json!({"metadata": {"name": name}, "n": n})).unwrap()
    }

    /// Copies what the mirror lacks, as the task does that converts.
    fn copy(store: &Store, mirror: &Mirror) {
        let polled = store.poll(mirror.source, mirror.upto(), PollLimits::NONE);
        let change = |event: Event| Change {
            revision: event.revision,
            key: event
                .current
                .as_ref()
                .or(event.previous.as_ref())
                .unwrap()
                .key()
                .into(),
            object: event.current,
        };
        mirror.append(polled.events.into_iter().map(change).collect(), polled.upto);
    }

    fn all(view: &View) -> Vec<(String, u64)> {
        let objects = view.snapshot.iter();
        objects
            .map(|it| (it.key().to_owned(), it.revision()))
            .collect()
    }

    #[test]
    fn a_mirror_has_the_objects_and_the_history_of_its_shelf() {
        let store = Store::new(HistoryLimits::default());
        let (shelf, other) = (store.shelf("a"), store.shelf("b"));
        let mirror = Mirror::new(shelf, HistoryLimits::default());
        assert!(!mirror.refresh(&store), "it was never filled");
        mirror.replace(Snapshot::default(), store.revision());
        let begin = store.revision();
        for n in 0..5 {
            store.put(shelf, draft("x", n), Expect::Any).unwrap();
            store.put(other, draft("y", n), Expect::Any).unwrap();
        }
        store.remove(shelf, "x", Expect::Any).unwrap();
        store.put(shelf, draft("z", 0), Expect::Any).unwrap();
        assert!(!mirror.refresh(&store));
        copy(&store, &mirror);
        assert!(mirror.refresh(&store));
        for revision in begin..=store.revision() {
            let ours = mirror.view_at(revision).unwrap();
            assert_eq!(all(&ours), all(&store.view_at(shelf, revision).unwrap()));
            let polled = mirror.poll(revision, PollLimits::NONE);
            let theirs = store.poll(shelf, revision, PollLimits::NONE);
            assert_eq!(polled.events.len(), theirs.events.len());
        }
        store.put(other, draft("y", 9), Expect::Any).unwrap();
        assert!(mirror.refresh(&store), "another shelf is of no account");
        assert_eq!(mirror.upto(), store.revision());
        store.compact(store.revision());
        assert!(mirror.refresh(&store));
        assert!(matches!(mirror.view_at(begin), Err(OutOfReach::Expired)));
        assert!(mirror.poll(begin, PollLimits::NONE).lost);
    }

    #[test]
    fn the_history_of_a_mirror_is_bounded_and_ends_its_watches_when_it_begins_anew() {
        let store = Store::new(HistoryLimits::default());
        let shelf = store.shelf("a");
        let limits = HistoryLimits {
            events: 3,
            bytes: usize::MAX,
        };
        let mirror = Mirror::new(shelf, limits);
        mirror.replace(Snapshot::default(), store.revision());
        for n in 0..9 {
            store.put(shelf, draft("x", n), Expect::Any).unwrap();
        }
        copy(&store, &mirror);
        assert_eq!(
            mirror.poll(mirror.floor(), PollLimits::NONE).events.len(),
            3
        );
        let before = mirror.ends().at_once;
        mirror.replace(store.view(shelf).snapshot, store.revision());
        assert_eq!(mirror.ends().at_once, before + 1);
        assert_eq!(mirror.floor(), store.revision());
        assert_eq!(all(&mirror.view()), all(&store.view(shelf)));
    }
}
