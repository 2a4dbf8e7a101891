//! An informer without its source: one writer, many readers, any number of deliveries.
//!
//! ```text
//! deltas ──Writer::apply──▶ ring, then root, then end ──▶ Reader::root, Reader::deliver
//! ```
//!
//! The order of publishing is the contract: a batch is in the ring and its root is in the cell before a
//! cursor may hear of it, so whoever hears a change finds it, or something newer, in the store.
//! The shell wakes its handlers after `apply` returns news; nothing here waits or wakes.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`sharedIndexInformer`,
//! `sharedProcessor.distribute`).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use kinform_api::{KeyRef, mutant};

use super::applier::{Applied, Applier};
use super::forms::Holds;
use super::news::News;
use super::report::{ApplyCounts, ApplyEvent};
use super::ring::{Ring, RingLimits, RingWriter};
#[cfg(feature = "compressed")]
use super::tier::Tier;
use super::tier::{Trained, Training};
use crate::delta::{Delta, HandlerId};
use crate::fifo;
use crate::object::Object;
use crate::object::reduction::Reduction;
use crate::snapshot::Snapshot;
use crate::store::directory::Seed;
use crate::store::edit::{BuiltIndex, Edit};
use crate::store::index::{Index, IndexConflict};
use crate::store::root::{IndexId, Root};
use crate::store::shared::SharedRoot;
use crate::sync::{ArcSwap, AtomicU64, fence};

/// The one who applies deltas and publishes.
#[derive(Debug)]
pub struct Writer {
    applier: Applier,
    ring: RingWriter,
    hub: Arc<Hub>,
}

/// Reads what a [`Writer`] publishes; cheap to clone, usable from any thread.
#[derive(Debug, Clone)]
pub struct Reader {
    pub(super) hub: Arc<Hub>,
}

/// The outcome of a batch, for wakers and reports.
#[derive(Debug)]
pub struct Published {
    /// True if there are changes for handlers, or the store is synced now.
    pub is_news: bool,
    /// True if the version of the store moved.
    pub has_moved: bool,
    /// The events worth a report.
    pub events: Vec<ApplyEvent>,
}

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) root: SharedRoot,
    pub(super) ring: Arc<Ring>,
    next_handler: AtomicU64,
    marks: ArcSwap<BTreeMap<HandlerId, Weak<Mark>>>,
}

/// The state that the writer and the delivery of one handler share.
#[derive(Debug)]
pub(super) struct Mark {
    /// The number of times the handler was due for a resync.
    pub(super) resync_times: AtomicU64,
    /// The position of the last one.
    pub(super) resync_position: AtomicU64,
    // The oldest batch that the handler may ask the ring for.
    needed: AtomicU64,
}

impl Default for Mark {
    fn default() -> Self {
        Self {
            resync_times: AtomicU64::new(0),
            resync_position: AtomicU64::new(0),
            needed: AtomicU64::new(u64::MAX),
        }
    }
}

impl Mark {
    /// Keeps the batches from a position on. A root that is loaded after this call is not older than
    /// the batches that were dropped before it: the fence pairs with that of [`Hub::needed`].
    pub(super) fn pin(&self, position: u64) {
        self.needed.store(position, Ordering::Release);
        if !mutant!("C9") {
            fence(Ordering::SeqCst);
        }
    }

    /// Tells the writer the oldest batch that is still needed; `u64::MAX` if none is.
    pub(super) fn needs(&self, position: u64) {
        self.needed.store(position, Ordering::Release);
    }
}

impl Writer {
    /// An empty store with these indexes besides that of namespaces.
    ///
    /// # Errors
    /// Two indexes have one name.
    pub fn new(
        indexes: impl IntoIterator<Item = Index>,
        seed: Seed,
        limits: RingLimits,
    ) -> Result<Self, IndexConflict> {
        let empty = Root::empty(seed);
        let mut edit = Edit::new(&empty);
        for index in indexes {
            edit.install(BuiltIndex::build(empty.clone(), index))?;
        }
        let root = edit.commit(0);
        let ring = RingWriter::new(limits);
        let hub = Hub {
            root: SharedRoot::new(root.clone()),
            ring: Arc::clone(ring.ring()),
            next_handler: AtomicU64::new(1),
            marks: ArcSwap::default(),
        };
        Ok(Self {
            applier: Applier::new(root, limits.changes),
            ring,
            hub: Arc::new(hub),
        })
    }

    /// The same, keeping what it stores compressed. To be said before anything is stored. Needs the feature `compressed`.
    #[cfg(feature = "compressed")]
    #[must_use]
    pub fn with_tier(mut self, tier: Tier) -> Self {
        self.applier = self.applier.with_tier(tier);
        self
    }

    /// The same, which may [reduce](Self::reduce) its objects to their metadata and declared fields. To be said
    /// before anything is stored.
    #[must_use]
    pub fn reducible_to(mut self, reduction: Arc<Reduction>) -> Self {
        self.applier = self.applier.reducible_to(reduction);
        self.hub.root.publish(self.applier.root().clone());
        self
    }

    /// Returns the training of a compression dictionary, once, for the caller to run off the hot
    /// path and to pass its outcome to [`trained`](Self::trained). Always `None` for a store that
    /// is not compressed.
    ///
    /// Until the first outcome is passed on, objects are stored uncompressed: a caller that bounds
    /// memory reads no further meanwhile.
    pub fn training(&mut self) -> Option<Training> {
        self.applier.training()
    }

    /// Keeps what is stored compressed, and what was stored before once a dictionary is learnt and
    /// [`reform`](Self::reform) has nothing left.
    pub fn compress(&mut self) {
        self.applier.compress();
    }

    /// Keeps what is stored as it comes, and what was stored before once [`reform`](Self::reform) has nothing
    /// left.
    pub fn expand(&mut self) {
        self.applier.expand();
    }

    /// Keeps only metadata and declared fields of what is stored, and of what was stored before once
    /// [`reform`](Self::reform) has nothing left.
    pub fn reduce(&mut self) {
        self.applier.reduce();
    }

    /// Keeps all fields of what is stored from now on; a list that begins after this brings back those of what
    /// is [reduced](Root::reduced).
    pub fn keep_whole(&mut self) {
        self.applier.keep_whole();
    }

    /// Returns whether fields are wanted again, and the list that brings them back has not begun.
    #[must_use]
    pub fn awaits_list(&self) -> bool {
        self.applier.awaits_list()
    }

    /// Changes the form of the next `count` objects or so, and publishes them; returns whether some are left.
    /// No change is heard.
    pub fn reform(&mut self, count: usize) -> bool {
        let left = self.applier.reform(count);
        if !self.applier.root().ptr_eq(&self.hub.root.load()) {
            self.hub.root.publish(self.applier.root().clone());
        }
        left
    }

    /// Drops the changes that every handler has received; otherwise the next batch does.
    pub fn forget_heard(&mut self) {
        self.ring.release(self.hub.needed());
    }

    /// The memory of the store.
    #[must_use]
    pub fn holds(&self) -> Holds {
        self.applier.holds()
    }

    /// Takes what came of a training: what is stored is compressed from now on. No change is heard.
    pub fn trained(&mut self, trained: Trained) {
        let root = self.applier.trained(trained).clone();
        self.hub.root.publish(root);
    }

    /// Publishes what a snapshot holds, before anything else: see [`Applier::restore`].
    pub fn restore(&mut self, snapshot: Snapshot) {
        let root = self.applier.restore(snapshot);
        self.hub.root.publish(root);
    }

    /// Applies deltas and publishes what came of them.
    ///
    /// # Complexity
    /// A few microseconds a change; the number of handlers does not matter.
    pub fn apply(&mut self, deltas: impl IntoIterator<Item = Delta>) -> Published {
        let applied = self.applier.apply(deltas);
        self.publish(applied)
    }

    /// The same for what a fifo hands out: the root says the version below which nothing waits there.
    pub fn apply_batch(&mut self, batch: fifo::Batch) -> Published {
        let applied = self.applier.apply_batch(batch);
        self.publish(applied)
    }

    fn publish(&mut self, applied: Applied) -> Published {
        let Applied {
            root,
            news,
            due,
            events,
        } = applied;
        let before = self.hub.root.load();
        let is_synced_now = root.has_synced() && !before.has_synced();
        let is_news = !matches!(news, News::None) || !due.is_empty() || is_synced_now;
        self.ring.release(self.hub.needed());
        match news {
            News::None => {}
            News::Changes(changes) => self.ring.write(changes, root.clone()),
            News::ByDiff => self.ring.clear(),
        }
        let end = root.position();
        let has_moved = before.version() != root.version();
        if mutant!("C1") {
            self.ring.reveal(end);
        }
        self.hub.root.publish(root);
        self.ring.reveal(end);
        self.hub.mark_due(&due, end);
        Published {
            is_news,
            has_moved,
            events,
        }
    }

    /// Installs an index that was built from an earlier root of this store.
    ///
    /// # Errors
    /// There is an index of that name.
    pub fn install(
        &mut self,
        built: BuiltIndex,
    ) -> Result<(IndexId, Vec<ApplyEvent>), IndexConflict> {
        let (id, root, events) = self.applier.install(built)?;
        self.hub.root.publish(root);
        Ok((id, events))
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> ApplyCounts {
        self.applier.counts()
    }

    /// A reader of what this publishes.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            hub: Arc::clone(&self.hub),
        }
    }
}

impl Reader {
    /// The newest root.
    #[must_use]
    pub fn root(&self) -> Root {
        self.hub.root.load()
    }

    /// The object of this key in the newest root.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<Object> {
        self.hub.root.get(key)
    }

    /// The ring, for its gauges.
    #[must_use]
    pub fn ring(&self) -> &Ring {
        &self.hub.ring
    }
}

impl Hub {
    /// A new handler, and the mark that says when it is due to hear everything again.
    pub(super) fn admit(&self) -> (HandlerId, Arc<Mark>) {
        let id = HandlerId(self.next_handler.fetch_add(1, Ordering::Relaxed));
        let mark = Arc::new(Mark::default());
        self.marks.rcu(|marks| {
            let mut marks = BTreeMap::clone(marks);
            marks.retain(|_, mark| mark.strong_count() > 0);
            marks.insert(id, Arc::downgrade(&mark));
            marks
        });
        (id, mark)
    }

    fn mark_due(&self, due: &[HandlerId], position: u64) {
        if due.is_empty() {
            return;
        }
        let marks = self.marks.load();
        for mark in due.iter().filter_map(|id| marks.get(id)?.upgrade()) {
            mark.resync_position.store(position, Ordering::Release);
            mark.resync_times.fetch_add(1, Ordering::Release);
        }
    }

    /// The oldest position that a handler may ask the ring for. O(handlers).
    fn needed(&self) -> u64 {
        fence(Ordering::SeqCst);
        let marks = self.marks.load();
        let marks = marks.values().filter_map(Weak::upgrade);
        let needed = marks.map(|mark| mark.needed.load(Ordering::Acquire));
        needed.min().unwrap_or(u64::MAX)
    }
}
