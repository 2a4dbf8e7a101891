//! The data of one version of a store.
//!
//! ```text
//! key ──directory──▶ slot ──radix──▶ object        value ──index──▶ slots
//! ```
//!
//! A [`Root`](super::root::Root) shares it with all its readers; an [`Edit`](super::edit::Edit)
//! changes a copy, whose parts are shared until they change.
//!
//! Upstream counterpart: the maps of `client-go:tools/cache/thread_safe_store.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kinform_api::{KeyRef, ObjectKey};

use super::directory::{Directory, Seed};
use super::index::IndexData;
use super::radix::Radix;
use super::slots::SlotSet;
use super::weight::{self, Sizes};
use crate::delta::Quarantine;
use crate::object::Object;
use crate::object::reduction::Reduction;
use crate::scope::Scope;

#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) slots: Radix<Object>,
    // INVARIANT: holds exactly the slots in use, by the hash of their object's key; in an edit, but for what
    // waits at its frontier.
    pub(super) keys: Directory,
    pub(super) free: SlotSet,
    pub(super) indexes: Vec<IndexData>,
    pub(super) seed: Seed,
    pub(super) sizes: Sizes,
    pub(super) version: Arc<str>,
    pub(super) synced: bool,
    pub(super) restored: bool,
    pub(super) position: u64,
    pub(super) epoch: u64,
    /// The part of the resource that is here whole; `None` if that is all of it.
    pub(super) scope: Option<Arc<Scope>>,
    /// The fields that are left of its reduced objects; `None` if it reduces none.
    pub(super) reduction: Option<Arc<Reduction>>,
    pub(super) quarantined: Arc<BTreeMap<ObjectKey, Quarantine>>,
}

impl State {
    /// Bytes of the tables, an estimate.
    pub(super) fn tables(&self) -> usize {
        weight::tables(self.keys.len(), &self.indexes)
    }

    pub(super) fn slot_of(&self, key: KeyRef<'_>) -> Option<u32> {
        self.object_of(key).map(|(slot, _)| slot)
    }

    pub(super) fn object_of(&self, key: KeyRef<'_>) -> Option<(u32, &Object)> {
        let mut found = None;
        let slot = self.keys.find(self.seed.hash(key), |slot| {
            let object = self.slots.get(slot as usize);
            found = object.filter(|object| object.has_key(key));
            found.is_some()
        });
        slot.zip(found)
    }
}
