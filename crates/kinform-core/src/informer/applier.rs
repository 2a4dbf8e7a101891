//! Applies a batch of deltas to the store.
//!
//! ```text
//! [Delta] ──▶ Edit of the published root │ Edit of a list that runs ──▶ Applied { root, news, .. }
//! ```
//!
//! - A list edits a root that nobody sees; its end sweeps what it did not name and publishes at once,
//!   its abort drops everything. What did not change (same uid and version) costs a look-up.
//! - `Added` of what is there is an update, `Updated` of what is not an add, `Deleted` of what is not
//!   nothing. An event older than what is stored under its key is dropped and counted, whatever its
//!   uid: it is about what was there before.
//! - Versions name states, but for a server that went back: it may use them again. In its list, what has
//!   a stored uid and version is compared byte by byte.
//! - A uid that changed is a delete, then an add. A list has the last word: in it, older wins, too, and
//!   a list below the stored version is reported as [`super::report::ApplyEvent::WentBack`].
//! - Of two items of one name in a list the first stays, unless the second is a newer state of the
//!   same object; what is left out is quarantined (`listing`).
//! - An unreadable object is quarantined. The object stored under its key stays; if a list has one
//!   without a readable key, that list deletes no object, and reports so.
//!
//! INVARIANT: the version of a root moves only past an object that was applied, quarantined, or
//! voided by a list.
//!
//! Upstream counterpart: `client-go:tools/cache/controller.go` (`processDeltas`, `processReplacedAll`).

use std::sync::Arc;

use kinform_api::{ResourceVersion, mutant};

use super::listing::{Listing, Said, heal, is_older, is_unread, remember};
use super::narrow::narrow;
use super::news::{News, Pending};
use super::packing::Packing;
use super::reform::Reform;
use super::report::{ApplyCounts, ApplyEvent, Listed};
#[cfg(feature = "compressed")]
use super::tier::Tier;
use super::tier::{Trained, Training};
use crate::delta::{Change, Delta, HandlerId, Quarantine, QuarantineOrigin};
use crate::fifo;
use crate::object::Object;
use crate::scope::Scope;
use crate::snapshot::Snapshot;
use crate::store::diff::same_version;
use crate::store::edit::{BuiltIndex, Edit, Seen};
use crate::store::index::IndexConflict;
use crate::store::root::{IndexId, Root};

/// Applies deltas to a store, one batch at a time.
#[derive(Debug)]
pub struct Applier {
    pub(super) root: Root,
    pub(super) list: Option<Listing>,
    // The objects that lists name from now on; of all, if that was never said.
    wanted: Option<Arc<Scope>>,
    counts: ApplyCounts,
    // BOUND: changes recorded of one batch or list; beyond, handlers take the difference of roots.
    max_changes: usize,
    // The forms of what is stored; changes hold objects as they came.
    pub(super) packing: Packing,
    // What is stored is changed to the form that is wanted, from these slots on.
    pub(super) reform: Reform,
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct Applied {
    /// The root after it: the one before, if nothing changed.
    pub root: Root,
    /// The changes for handlers.
    pub news: News,
    /// The handlers due to hear every object again.
    pub due: Vec<HandlerId>,
    /// The events worth a report.
    pub events: Vec<ApplyEvent>,
}

/// The work on one batch.
struct Batch {
    edit: Edit,
    pending: Pending,
    reached: Reached,
    // What the version does not fall below: that of the root before, or of the last list.
    floor: Option<u64>,
    events: Vec<ApplyEvent>,
    due: Vec<HandlerId>,
    is_touched: bool,
}

/// The version reached so far, without an allocation an event.
struct Reached {
    version: String,
    revision: Option<u64>,
}

impl Applier {
    /// Begins from a root. At most `max_changes` changes of a batch or list are recorded one by one.
    #[must_use]
    pub fn new(root: Root, max_changes: usize) -> Self {
        Self {
            root,
            list: None,
            wanted: None,
            counts: ApplyCounts::default(),
            max_changes,
            packing: Packing::default(),
            reform: Reform::default(),
        }
    }

    /// The same, keeping what it stores compressed. Needs the feature `compressed`.
    #[cfg(feature = "compressed")]
    #[must_use]
    pub fn with_tier(mut self, tier: Tier) -> Self {
        self.packing.tier = Some(tier);
        self
    }

    /// Stores what a snapshot holds, before anything else; returns the root that has it. Handlers hear
    /// it as what is stored when they come, but the store is not synced by it.
    ///
    /// # Complexity
    /// O(objects).
    pub fn restore(&mut self, snapshot: Snapshot) -> Root {
        debug_assert!(
            self.root.is_empty() && self.list.is_none(),
            "it is the first"
        );
        let Snapshot {
            version,
            objects,
            quarantined,
        } = snapshot;
        let mut edit = Edit::new(&self.root);
        for object in objects {
            let form = self.packing.form(&object);
            edit.insert_as(object, form);
        }
        if let Some(tier) = &mut self.packing.tier {
            tier.list_ended();
        }
        *edit.quarantined_mut() = quarantined;
        edit.reach(&version);
        edit.mark_restored();
        // Failures of indexes are counted again when the objects change.
        self.counts.unindexed += edit.take_failures().count as u64;
        self.root = edit.commit(self.root.position());
        self.root.clone()
    }

    /// Returns the training of a compression dictionary, once; its outcome is passed to
    /// [`trained`](Self::trained).
    pub fn training(&mut self) -> Option<Training> {
        self.packing.tier.as_mut()?.training()
    }

    /// Takes what came of a training; returns the newest root, of which what was stored before is compressed now.
    ///
    /// # Complexity
    /// O(objects), once.
    pub fn trained(&mut self, trained: Trained) -> &Root {
        if let Some(tier) = &mut self.packing.tier
            && tier.trained(trained)
            && !mutant!("K5")
        {
            if self.reform.is_by_pieces {
                self.reform.begin(self.list.is_some());
                return &self.root;
            }
            let mut edit = Edit::new(&self.root);
            edit.compress(|object| tier.keep(object));
            self.root = edit.commit(self.root.position());
            if let Some(list) = &mut self.list {
                list.edit.compress(|object| tier.keep(object));
            }
        }
        &self.root
    }

    /// The newest root.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> ApplyCounts {
        self.counts
    }

    /// Returns whether a list has begun and not ended.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        self.list.is_some()
    }

    /// Applies deltas in order; the result is published as a whole.
    ///
    /// # Order guarantees
    /// Changes come in the order of the deltas; those of a list come at its end, its deletes first.
    pub fn apply(&mut self, deltas: impl IntoIterator<Item = Delta>) -> Applied {
        let batch = self.work(deltas);
        self.finish(batch)
    }

    /// The same for what a fifo hands out: the root says the version below which nothing waits there.
    pub fn apply_batch(&mut self, from: fifo::Batch) -> Applied {
        let mut batch = self.work(from.deltas);
        if self.list.is_none() {
            batch.reach(&from.version);
        }
        self.finish(batch)
    }

    fn work(&mut self, deltas: impl IntoIterator<Item = Delta>) -> Batch {
        let mut batch = Batch {
            edit: Edit::new(&self.root),
            pending: Pending::new(self.max_changes),
            floor: revision(self.root.version()),
            reached: Reached::at(self.root.version()),
            events: Vec::new(),
            due: Vec::new(),
            is_touched: false,
        };
        for delta in deltas {
            self.step(delta, &mut batch);
        }
        batch
    }

    /// Installs an index that was built from an earlier root of this store; returns the root that
    /// has it, to be published. No change is heard.
    ///
    /// # Errors
    /// There is an index of that name.
    pub fn install(
        &mut self,
        built: BuiltIndex,
    ) -> Result<(IndexId, Root, Vec<ApplyEvent>), IndexConflict> {
        let mut edit = Edit::new(&self.root);
        let id = edit.install(built.clone())?;
        let mut events = Vec::new();
        self.report_failures(&mut edit, &mut events);
        self.root = edit.commit(self.root.position());
        if let Some(list) = &mut self.list {
            list.edit.install(built)?;
        }
        Ok((id, self.root.clone(), events))
    }

    /// Puts an object into the list that runs, if there is one.
    fn put_listed(&mut self, object: Object, said: Said, batch: &mut Batch) {
        if let Some(list) = &mut self.list {
            let (packing, counts) = (&mut self.packing, &mut self.counts);
            list.put(object, said, packing, counts, &mut batch.events);
        }
    }

    fn step(&mut self, delta: Delta, batch: &mut Batch) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) if self.list.is_none() => {
                self.put(object, batch);
            }
            Delta::Added(object) | Delta::Updated(object) => {
                self.put_listed(object, Said::Change, batch);
            }
            // Outside of a list it belongs to one that was given up: void.
            Delta::Replaced(object) => self.put_listed(object, Said::Item, batch),
            Delta::Deleted(object) => self.delete(object, batch),
            Delta::ListBegin => self.begin(batch),
            Delta::WentBack => {
                if let Some(list) = &mut self.list {
                    list.went_back = true;
                }
            }
            Delta::Doubted => {
                if let Some(list) = &mut self.list {
                    list.is_doubted = true;
                }
            }
            Delta::ListEnd { version } => self.end(version, batch),
            Delta::ListAbort => self.abort(batch),
            Delta::Sync { due } => batch.due.extend_from_slice(&due),
            Delta::CaughtUp => {
                batch.edit.mark_synced();
                batch.is_touched = true;
            }
            Delta::Forget => self.forget(batch),
            Delta::Scope(scope) => self.narrow(scope, batch),
            Delta::Bookmark { version } => self.bookmark(&version, batch),
            Delta::Quarantined(quarantine) => self.set_apart(quarantine, batch),
        }
    }

    fn put(&mut self, object: Object, batch: &mut Batch) {
        let found = batch.edit.find(object.key_ref());
        let slot = found.map(|(slot, _)| slot);
        if let Some((_, stored)) = found {
            if same_version(stored, &object) {
                self.counts.duplicates += 1;
                return;
            }
            if !mutant!("B13") && is_older(&object, stored) && !is_unread(&batch.edit, &object) {
                self.counts.stale += 1;
                return;
            }
        }
        self.counts.applied += 1;
        batch.reached.by(&object);
        batch.is_touched = true;
        heal(&mut batch.edit, &object, &mut batch.events);
        let form = self.packing.form(&object);
        let new = batch.pending.handle(&object);
        let old = batch.edit.insert_found(object, form, slot);
        batch.pending.stored(old, new);
    }

    fn delete(&mut self, object: Object, batch: &mut Batch) {
        let (edit, pending) = match &mut self.list {
            Some(list) => (&mut list.edit, &mut list.pending),
            None => {
                batch.reached.by(&object);
                batch.is_touched = true;
                (&mut batch.edit, &mut batch.pending)
            }
        };
        let is_unread = is_unread(edit, &object);
        let Some(stored) = edit.get(object.key_ref()) else {
            self.counts.unknown_deletes += 1;
            return heal(edit, &object, &mut batch.events);
        };
        // A uid that was deleted does not live on, whatever version tells it.
        let is_final = !object.uid().is_empty() && object.uid() == stored.uid();
        if !mutant!("B13") && !is_final && is_older(&object, stored) && !is_unread {
            self.counts.stale += 1;
            return;
        }
        self.counts.applied += 1;
        heal(edit, &object, &mut batch.events);
        let Some(stored) = edit.remove(object.key_ref()) else {
            return;
        };
        // The deletion of another uid says that the stored one is gone, too, but not how it ended.
        pending.push(if stored.uid() == object.uid() {
            Change::Deleted {
                object,
                final_state_unknown: false,
            }
        } else {
            Change::Deleted {
                object: stored,
                final_state_unknown: true,
            }
        });
    }

    fn begin(&mut self, batch: &mut Batch) {
        self.abort(batch);
        let mut pending = Pending::new(self.max_changes);
        // Whoever listens now has heard nothing: the first list is heard as an initial list.
        pending.is_by_diff = !(self.root.has_synced() || self.root.is_restored());
        self.list = Some(Listing::new(batch.edit.fork(), pending));
        self.reform.list_began();
        self.packing.list_began();
    }

    fn abort(&mut self, batch: &mut Batch) {
        self.reform.list = None;
        if self.list.take().is_some() {
            self.packing.list_aborted();
            self.counts.aborted_lists += 1;
            batch.events.push(ApplyEvent::ListAborted);
        }
    }

    fn end(&mut self, version: String, batch: &mut Batch) {
        let Some(mut list) = self.list.take() else {
            return;
        };
        let reached = Reached::at(&version);
        if reached.revision < batch.reached.revision && reached.revision.is_some() {
            let (from, to) = (batch.reached.version.clone(), version.clone());
            batch.events.push(ApplyEvent::WentBack { from, to });
            list.went_back = true;
        }
        list.believe_reused(&mut self.packing);
        self.reform.list_ended();
        self.packing.list_ended();
        let Listing {
            mut edit,
            seen,
            pending,
            mut listed,
            nameless,
            went_back,
            ..
        } = list;
        if nameless > 0 {
            listed.withheld = edit.count_unseen(&seen);
        } else {
            let swept = edit.sweep(&seen);
            listed.deleted = swept.len();
            for object in swept {
                if mutant!("B3") && self.root.get(object.key_ref()).is_none() {
                    edit.insert(object);
                    continue;
                }
                if mutant!("B5") {
                    continue;
                }
                batch.pending.push(Change::Deleted {
                    object,
                    final_state_unknown: true,
                });
            }
        }
        batch.pending.append(pending);
        batch.floor = reached.revision;
        batch.reached = reached;
        edit.set_scope(self.wanted.clone());
        edit.mark_synced();
        if let Some(tier) = &mut self.packing.tier {
            tier.list_ended();
        }
        if went_back {
            edit.begin_epoch();
        }
        // Failures of what the batch did before the list are still to be told.
        self.report_failures(&mut batch.edit, &mut batch.events);
        batch.edit = edit;
        batch.is_touched = true;
        self.counts.lists += 1;
        batch
            .events
            .push(ApplyEvent::Listed(Listed { version, ..listed }));
    }

    /// Takes everything away, heard as deletes whose final state is not known.
    fn forget(&mut self, batch: &mut Batch) {
        self.abort(batch);
        batch.edit.quarantined_mut().clear();
        for object in batch.edit.sweep(&Seen::default()) {
            batch.pending.push(Change::Deleted {
                object,
                final_state_unknown: true,
            });
        }
        batch.is_touched = true;
    }

    /// Objects outside leave the store and the list that runs. A range that is wanted more is stored once
    /// a list has ended: until then the root does not claim it.
    fn narrow(&mut self, wanted: Arc<Scope>, batch: &mut Batch) {
        let before = self.wanted.replace(Arc::clone(&wanted));
        if before.is_some_and(|before| before.is_within(&wanted)) {
            if mutant!("H14") {
                batch.edit.set_scope(Some(wanted));
                batch.is_touched = true;
            }
            return;
        }
        batch.pending.has_left |= narrow(&mut batch.edit, &wanted) > 0;
        if let Some(list) = &mut self.list {
            narrow(&mut list.edit, &wanted);
            list.pending.give_up();
        }
        batch.is_touched = true;
    }

    fn bookmark(&mut self, version: &str, batch: &mut Batch) {
        // In a list, the end says the version.
        if self.list.is_some() {
            return;
        }
        match (revision(version), batch.reached.revision) {
            (Some(new), Some(reached)) if new < reached => self.counts.late_bookmarks += 1,
            _ => batch.reached = Reached::at(version),
        }
    }

    fn set_apart(&mut self, quarantine: Quarantine, batch: &mut Batch) {
        if mutant!("B9") {
            return batch
                .reached
                .at_least(quarantine.version.as_deref().unwrap_or_default());
        }
        self.counts.quarantined += 1;
        batch
            .events
            .push(ApplyEvent::Quarantined(quarantine.clone()));
        let (edit, pending) = match &mut self.list {
            Some(list) => {
                list.listed.quarantined += 1;
                match &quarantine.key {
                    // Whatever is stored under it is not gone.
                    Some(key) => _ = list.edit.mark(key.key_ref(), &mut list.seen),
                    // It was read, and has no name: it hides no object.
                    None if quarantine.is_nameless() => {}
                    None => list.nameless += 1,
                }
                (&mut list.edit, &mut list.pending)
            }
            None => {
                if let Some(version) = &quarantine.version {
                    batch.reached.at_least(version);
                }
                batch.is_touched = true;
                (&mut batch.edit, &mut batch.pending)
            }
        };
        let Some(key) = quarantine.key.clone() else {
            return;
        };
        if quarantine.origin == QuarantineOrigin::Deletion {
            if let Some(object) = edit.remove(key.key_ref()) {
                pending.push(Change::Deleted {
                    object,
                    final_state_unknown: true,
                });
            }
            edit.quarantined_mut().remove(&key);
        } else {
            remember(edit, key, quarantine);
        }
    }

    fn finish(&mut self, mut batch: Batch) -> Applied {
        self.report_failures(&mut batch.edit, &mut batch.events);
        let news = batch.pending.into_news();
        let is_news = !matches!(news, News::None);
        if batch.is_touched || is_news || *batch.reached.version != **self.root.version() {
            batch.edit.reach(&batch.reached.version);
            self.root = batch.edit.commit(self.root.position() + u64::from(is_news));
        }
        Applied {
            root: self.root.clone(),
            news,
            due: batch.due,
            events: batch.events,
        }
    }

    fn report_failures(&mut self, edit: &mut Edit, events: &mut Vec<ApplyEvent>) {
        let failures = edit.take_failures();
        self.counts.unindexed += failures.count as u64;
        events.extend(failures.first.into_iter().map(ApplyEvent::Unindexed));
    }
}

impl Batch {
    /// Records that deltas up to this version are applied; those still in the fifo may be older.
    fn reach(&mut self, version: &ResourceVersion) {
        let revision = version.parsed();
        let is_below = revision.is_some() && revision < self.floor;
        if !version.is_unset() && !is_below {
            self.reached = Reached {
                version: version.to_string(),
                revision,
            };
        }
    }
}

impl Reached {
    fn at(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            revision: revision(version),
        }
    }

    /// Moves on to the version of an event; never back, where versions are numbers.
    fn by(&mut self, object: &Object) {
        self.move_on(object.resource_version(), object.revision());
    }

    fn at_least(&mut self, version: &str) {
        self.move_on(version, revision(version));
    }

    fn move_on(&mut self, version: &str, revision: Option<u64>) {
        let is_behind = matches!((revision, self.revision), (Some(new), Some(old)) if new <= old);
        if !version.is_empty() && !is_behind {
            self.version.clear();
            self.version.push_str(version);
            self.revision = revision;
        }
    }
}

fn revision(version: &str) -> Option<u64> {
    ResourceVersion::from(version).parsed()
}
