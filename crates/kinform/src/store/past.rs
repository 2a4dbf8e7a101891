//! Reads of the past: a state that is over, and what changed between two states.
//!
//! ```text
//! Informer::keep_past ─▶ states by version (kinform-core) ──Store::at──▶ Snapshot
//! (older Snapshot, newer Snapshot) ──changes_to──▶ Differences: Added, Updated, Deleted
//! ```
//!
//! A kept state costs the objects that were replaced since, not a copy. States that are over give way
//! to the limits, the oldest first. With several namespaces there is a past for each, and a version,
//! which the server has for all, is looked up in each.
//! Never: asks the server.
//!
//! Upstream counterpart: none; client-go's store has one state. The server answers a read of an old
//! version itself (`resourceVersionMatch=Exact`) as long as its history has it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use kinform_api::ResourceVersion;
use kinform_core::store::diff::Diff;
use kinform_core::store::past::{Missing, PastLimits};
use kinform_core::store::root::Root;

use super::{Snapshot, Store};
use crate::error::{Error, ErrorKind};
use crate::handler::Notification;
use crate::informer::{Informer, moved_from};
use crate::object::Lens;

/// BOUND: changes that are looked for at a time; whole blocks, so a few more may come.
const AT_ONCE: usize = 256;

impl<K> Informer<K> {
    /// Keeps states that are over, from now on, for [`Store::at`].
    ///
    /// The first call decides the limits, also for other informers that share the watch.
    pub fn keep_past(&self, limits: PastLimits) {
        self.cores().keep_past(limits);
    }

    /// Waits until the cache is not what this snapshot has.
    ///
    /// # Errors
    /// The informer is stopped.
    pub(crate) async fn moved_from(&self, told: &Snapshot<K>) -> Result<(), Error> {
        moved_from(self.cores(), &told.roots).await
    }
}

impl<K> Store<K> {
    /// The cache as it was when the server was at `version`: the newest state that began at or
    /// before it.
    ///
    /// Changes that came together became one state, so a version in between gives the state before
    /// them. [`Snapshot::versions`] has the version that the snapshot reached.
    ///
    /// # Errors
    /// - [`is_expired`](Error::is_expired): the state is older than what is kept, or nothing is kept
    ///   ([`Informer::keep_past`]).
    /// - [`is_stale`](Error::is_stale): the cache has not got to the version;
    ///   [`Informer::reached`] waits for it.
    /// - [`is_invalid`](Error::is_invalid): the version has no order with those of the cache.
    ///
    /// # Complexity
    /// O(log states).
    pub fn at(&self, version: impl Into<ResourceVersion>) -> Result<Snapshot<K>, Error> {
        let version = version.into();
        let members = self.cores.members();
        let roots: Result<Vec<Root>, Missing> = members
            .iter()
            .map(|member| member.core.at(&version))
            .collect();
        let roots = roots.map_err(|missing| {
            let kind = match &missing {
                Missing::TooOld(_) => ErrorKind::Expired,
                Missing::NotReached(_) => ErrorKind::Stale,
                Missing::Incomparable => ErrorKind::Invalid,
            };
            let resource = self.cores.info();
            let message = format!("there is no state of {resource} at {version}: {missing}");
            Error::new(kind, message)
        })?;
        Ok(Snapshot {
            roots: roots.into(),
            members: Arc::clone(&members),
            cores: self.cores.clone(),
            lens: Arc::clone(&self.lens),
            of: std::marker::PhantomData,
        })
    }

    /// The changes from the state at `older` to the state at `newer`.
    ///
    /// # Errors
    /// As of [`at`](Self::at).
    pub fn changes_between(
        &self,
        older: impl Into<ResourceVersion>,
        newer: impl Into<ResourceVersion>,
    ) -> Result<Differences<K>, Error> {
        self.at(older)?.changes_to(&self.at(newer)?)
    }
}

impl<K> Snapshot<K> {
    /// The changes from this state to another one of the same informer, as a handler hears them that
    /// knows this one: `Added`, `Updated` and `Deleted`, the last with final state unknown.
    ///
    /// The other state may also be the older one.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid): the snapshots are of different informers, or namespaces
    /// came or went in between.
    ///
    /// # Order guarantees
    /// None over keys. The delete of a key comes directly before its add.
    ///
    /// # Complexity
    /// O(changed blocks), as it is iterated.
    pub fn changes_to(&self, other: &Self) -> Result<Differences<K>, Error> {
        self.differences(other, Diff::between)
    }

    /// The same with a deletion of each object that left the share of the informer.
    pub(crate) fn changes_with_what_left(&self, other: &Self) -> Result<Differences<K>, Error> {
        self.differences(other, |old, new| Diff::between(old, new).with_what_left())
    }

    fn differences(
        &self,
        other: &Self,
        between: impl Fn(Root, Root) -> Diff,
    ) -> Result<Differences<K>, Error> {
        let (mine, theirs) = (self.members.iter(), other.members.iter());
        let is_same = self.members.len() == other.members.len()
            && mine.zip(theirs).all(|(a, b)| Arc::ptr_eq(&a.core, &b.core));
        if !is_same {
            let message = "the snapshots are not of the same watches";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let pairs = self.roots.iter().zip(&*other.roots);
        Ok(Differences {
            diffs: pairs
                .map(|(old, new)| between(old.clone(), new.clone()))
                .collect(),
            ready: VecDeque::new(),
            lens: Arc::clone(&self.lens),
        })
    }
}

/// The changes between two snapshots, found as they are asked for. It keeps both states alive.
#[must_use]
pub struct Differences<K> {
    diffs: VecDeque<Diff>,
    ready: VecDeque<Notification<K>>,
    lens: Arc<Lens>,
}

impl<K> Iterator for Differences<K> {
    type Item = Notification<K>;

    fn next(&mut self) -> Option<Notification<K>> {
        while self.ready.is_empty() {
            let diff = self.diffs.front_mut()?;
            let mut changes = Vec::new();
            diff.take_into(&mut changes, AT_ONCE);
            let told = changes
                .iter()
                .map(|change| Notification::of(change, &self.lens));
            self.ready.extend(told);
            if diff.is_done() {
                self.diffs.pop_front();
            }
        }
        self.ready.pop_front()
    }
}

impl<K> fmt::Debug for Differences<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Differences")
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
