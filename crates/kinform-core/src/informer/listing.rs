//! A list that runs: what it has named so far, on a root that nobody sees.
//!
//! ```text
//! ListBegin → Listing ⇄ put(item | change), seen → its end: sweep, publish | its abort: dropped
//! ```
//!
//! An unchanged object (same uid and version) costs a look-up. A list has the last word on what was
//! stored before it, but not on what it said itself: a second item of one name is left out,
//! unless it is a newer state of the same object, and quarantined either way. A change that a
//! streaming list tells of an object that it has named is no second item.
//!
//! Upstream counterpart: `client-go:tools/cache/thread_safe_store.go` (`Replace`), where the last
//! item of a name stays and nobody hears of the others.

use std::collections::BTreeMap;

use kinform_api::{ObjectKey, ResourceVersion, mutant};

use super::news::Pending;
use super::packing::Packing;
use super::report::{ApplyCounts, ApplyEvent, Listed};
use crate::delta::{Quarantine, QuarantineOrigin};
use crate::object::Object;
use crate::store::diff::same_version;
use crate::store::edit::{Edit, Seen};

// BOUND: quarantined objects remembered by key; all are reported and counted.
const MAX_QUARANTINED: usize = 1024;

/// A list that runs.
#[derive(Debug)]
pub(super) struct Listing {
    pub(super) edit: Edit,
    pub(super) seen: Seen,
    pub(super) pending: Pending,
    pub(super) listed: Listed,
    /// Unreadable items that may be anyone's.
    pub(super) nameless: usize,
    /// Items of a stored uid and version with other bytes: they count if the server went back.
    // BOUND: the items of one list; none of a server that keeps its word.
    reused: Vec<Object>,
    pub(super) went_back: bool,
    /// Bytes of the objects that it stored: as they are kept, and as they came.
    put: (usize, usize),
    /// The stored objects may be of another history: they came from a snapshot, and no list has confirmed
    /// them, or the server is said to have gone back.
    pub(super) is_doubted: bool,
}

/// The way in which a list told of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// An item: each object is one once.
    Item,
    /// A change of what a streaming list has named.
    Change,
}

impl Listing {
    /// A list that has named nothing yet.
    pub(super) fn new(mut edit: Edit, pending: Pending) -> Self {
        edit.quarantined_mut().clear();
        Self {
            is_doubted: edit.is_unconfirmed(),
            edit,
            seen: Seen::default(),
            pending,
            listed: Listed::default(),
            nameless: 0,
            reused: Vec::new(),
            went_back: false,
            put: (0, 0),
        }
    }

    /// Takes an object that the list named.
    pub(super) fn put(
        &mut self,
        object: Object,
        said: Said,
        packing: &mut Packing,
        counts: &mut ApplyCounts,
        events: &mut Vec<ApplyEvent>,
    ) {
        self.listed.items += 1;
        let marked = self.edit.mark(object.key_ref(), &mut self.seen);
        let slot = marked.map(|marked| marked.slot);
        if let Some(marked) = marked {
            let stored = marked.object;
            let is_unchanged = same_version(stored, &object);
            let is_reused = is_unchanged && !packing.agree(stored, &object);
            let wants_whole = packing.wants_whole(stored);
            if marked.was_seen && said == Said::Item && !mutant!("K16") {
                let stored = stored.clone();
                if self.leaves_out(&object, &stored, counts, events) {
                    return;
                }
            } else if marked.was_seen
                && is_older(&object, stored)
                && !is_unread(&self.edit, &object)
            {
                counts.stale += 1;
                return;
            }
            if is_unchanged {
                self.listed.unchanged += 1;
                heal(&mut self.edit, &object, events);
                if is_reused {
                    self.reused.push(object);
                } else if wants_whole {
                    // The same version with all of its fields: nobody hears of it.
                    self.store(object, packing, slot);
                }
                return;
            }
        }
        heal(&mut self.edit, &object, events);
        let new = self.pending.handle(&object);
        let old = self.store(object, packing, slot);
        if mutant!("B7") && old.is_some() {
            return;
        }
        self.pending.stored(old, new);
    }

    fn store(
        &mut self,
        object: Object,
        packing: &mut Packing,
        slot: Option<u32>,
    ) -> Option<Object> {
        let form = packing.form(&object);
        self.put.0 += form.as_ref().unwrap_or(&object).heap_size();
        self.put.1 += object.plain_size();
        self.edit.insert_seen(object, form, slot, &mut self.seen)
    }

    /// Bytes of the objects that it stored: as they are kept, and as they came.
    pub(super) fn put_sizes(&self) -> (usize, usize) {
        self.put
    }

    /// Returns whether a second item of one name is left out; quarantines the one that is.
    #[cold]
    fn leaves_out(
        &mut self,
        second: &Object,
        stored: &Object,
        counts: &mut ApplyCounts,
        events: &mut Vec<ApplyEvent>,
    ) -> bool {
        let key = second.key();
        let apart = self.edit.quarantined().get(&key);
        if apart.is_some_and(|apart| apart.origin != QuarantineOrigin::Duplicate) {
            // The first could not be read: what is stored is not of this list.
            return false;
        }
        let is_newer = stored.uid() == second.uid() && is_older(stored, second);
        let (left_out, kept) = if is_newer {
            (stored, "newer")
        } else {
            (second, "first")
        };
        let version = left_out.resource_version();
        let quarantine = Quarantine {
            key: Some(key.clone()),
            version: (!version.is_empty()).then(|| version.to_owned()),
            path: String::new(),
            reason: format!("came twice in one list; the {kept} is kept"),
            origin: QuarantineOrigin::Duplicate,
        };
        counts.quarantined += 1;
        self.listed.quarantined += 1;
        events.push(ApplyEvent::Quarantined(quarantine.clone()));
        if !is_newer {
            remember(&mut self.edit, key, quarantine);
        }
        !is_newer
    }

    /// Stores objects listed under a stored version as new states, if the server went back, or if what is
    /// stored may be of another history.
    pub(super) fn believe_reused(&mut self, packing: &mut Packing) {
        for object in std::mem::take(&mut self.reused) {
            let stored = self.edit.get(object.key_ref());
            let Some(stored) = stored.filter(|stored| same_version(stored, &object)) else {
                continue;
            };
            if self.went_back || self.is_doubted {
                self.listed.unchanged -= 1;
                let form = packing.form(&object);
                let new = self.pending.handle(&object);
                let old = self.edit.insert_as(object, form);
                self.pending.stored(old, new);
            } else if packing.wants_whole(stored) {
                let form = packing.form(&object);
                self.edit.insert_as(object, form);
            }
        }
    }
}

/// Keeps what was quarantined by its key.
pub(super) fn remember(edit: &mut Edit, key: ObjectKey, quarantine: Quarantine) {
    let known: &BTreeMap<_, _> = edit.quarantined();
    if known.len() < MAX_QUARANTINED || known.contains_key(&key) {
        edit.quarantined_mut().insert(key, quarantine);
    }
}

/// Returns whether an object is in the state that could not be read, or in a later one. Then the one
/// that is stored is older, even if its version is higher: the server went back in between.
pub(super) fn is_unread(edit: &Edit, object: &Object) -> bool {
    if edit.quarantined().is_empty() || mutant!("K24") {
        return false;
    }
    let Some(apart) = edit.quarantined().get(&object.key()) else {
        return false;
    };
    let version = apart.version.as_deref().map(ResourceVersion::from);
    let versions = (
        object.revision(),
        version.and_then(|version| version.parsed()),
    );
    let is_before = matches!(versions, (Some(new), Some(unread)) if new < unread);
    apart.origin != QuarantineOrigin::Duplicate && !is_before
}

/// Takes an object that is there in a new state, or gone, out of the quarantine.
pub(super) fn heal(edit: &mut Edit, object: &Object, events: &mut Vec<ApplyEvent>) {
    if edit.quarantined().is_empty() {
        return;
    }
    let key = object.key();
    if edit.quarantined_mut().remove(&key).is_some() {
        events.push(ApplyEvent::Healed(key));
    }
}

/// Returns whether the first version is the lower; false unless both are numbers.
pub(super) fn is_older(object: &Object, stored: &Object) -> bool {
    matches!((object.revision(), stored.revision()), (Some(new), Some(old)) if new < old)
}
