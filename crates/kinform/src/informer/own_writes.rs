//! Waiting for the cache: until a version is reached, or until it has seen the caller's own writes.
//!
//! ```text
//! version ──Informer::reached──▶ once every namespace's root is at or past it
//! (key, written object) ──OwnWrites::wrote──▶ seen(key) once the cache has passed those writes
//! ```
//!
//! A cache lags behind the server, and a controller that reads it right after a write decides on
//! the state before. `OwnWrites` is the gate: not before the cache saw my writes for this key. It
//! compares with the version that the store has reached, which bookmarks also advance, so a write
//! that was overwritten or deleted meanwhile counts as seen as well. A server that went back in
//! time has lost the write: there is no wait then.
//!
//! Upstream counterpart: none in client-go; `kubernetes:pkg/controller/util/consistency`
//! (`ConsistencyStore`) and `kubernetes/enhancements:5647`.
//! Complexity: a look reads the writes of its key. A write is O(1), but O(keys) when it is for one
//! more key and their number has doubled since the last sweep. A write is forgotten once it was
//! seen.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use futures::future::select_all;
use kinform_api::{KeyRef, ObjectKey, ResourceVersion, mutant};
use kinform_core::object::Object;
use kinform_core::store::root::Root;
use tokio::sync::watch;

use super::{Core, Cores, Informer, Progress};
use crate::error::{Error, ErrorKind};
use crate::sync::lock;

impl<K> Informer<K> {
    /// Waits until the cache has reached `version`: all changes up to it are stored. With several
    /// namespaces, each of them must; a quiet one gets there by a bookmark, within a minute or so.
    /// If the server went back in time, the cache gets there in its new history, if ever.
    ///
    /// # Errors
    /// The informer is stopped before; or `version`, or the version of the cache once it has
    /// synced, is not a positive decimal without a leading zero: such versions have no order.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reached(&self, version: impl Into<ResourceVersion>) -> Result<(), Error> {
        let version = version.into();
        ordered(&version)?;
        let namespaces = self.cores().changed();
        let watched = || {
            let members = self.cores().members();
            members
                .iter()
                .map(|member| Arc::clone(&member.core))
                .collect()
        };
        let is_there = |cores: &[Arc<Core>]| {
            let mut is_there = true;
            for root in cores.iter().map(|core| core.root()) {
                if wants_nothing(&root) {
                    continue;
                }
                // Before the first list, the version of this server is not known.
                if root.has_synced() {
                    ordered(&ResourceVersion::from(&**root.version()))?;
                }
                is_there &= root.has_synced() && has_reached(&root, &version);
            }
            Ok(is_there)
        };
        when(namespaces, watched, is_there).await
    }
}

/// Fails if versions like this one have no order.
fn ordered(version: &ResourceVersion) -> Result<(), Error> {
    if version.compare(version).is_err() {
        let message = format!("version {version:?} cannot be compared");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Waits until publications of the cores make `is_so` true; the set of cores is read again when
/// `changed` says that it may be another.
pub(super) async fn when(
    mut changed: watch::Receiver<u64>,
    watched: impl Fn() -> Vec<Arc<Core>>,
    mut is_so: impl FnMut(&[Arc<Core>]) -> Result<bool, Error>,
) -> Result<(), Error> {
    loop {
        changed.borrow_and_update();
        let cores = watched();
        let subscribed = cores.iter().map(|core| core.progress.subscribe());
        let mut all: Vec<watch::Receiver<Progress>> = subscribed.collect();
        // Before the look: a change from here on wakes this task.
        let ended = all.iter_mut().position(|one| one.borrow_and_update().ended);
        if is_so(&cores)? {
            return Ok(());
        }
        if let Some(ended) = ended {
            // A namespace that was removed has ended, too.
            if changed.has_changed().unwrap_or(false) {
                continue;
            }
            return Err(Error::stopped(&cores[ended].info));
        }
        tokio::select! {
            biased;
            // The waiting caller holds the sender.
            _ = changed.changed() => {}
            () = any(&mut all) => {}
        }
    }
}

/// Waits until the newest roots are not these ones, or the watches are others.
///
/// # Errors
/// An informer is stopped: it will not move any more.
pub(crate) async fn moved_from(cores: &Cores, roots: &[Root]) -> Result<(), Error> {
    let watched = || -> Vec<Arc<Core>> {
        let members = cores.members();
        members
            .iter()
            .map(|member| Arc::clone(&member.core))
            .collect()
    };
    let is_other = |cores: &[Arc<Core>]| {
        let mut pairs = cores.iter().zip(roots);
        Ok(cores.len() != roots.len() || pairs.any(|(core, root)| !core.root().ptr_eq(root)))
    };
    let is_empty = cores.members().is_empty();
    tokio::select! {
        biased;
        moved = when(cores.changed(), watched, is_other) => moved,
        // Nothing else tells the end of an informer whose namespaces are all gone.
        () = cores.stop_token().cancelled(), if is_empty => Err(Error::stopped(cores.info())),
    }
}

async fn any(all: &mut [watch::Receiver<Progress>]) {
    if all.is_empty() {
        return std::future::pending().await;
    }
    let changes = all.iter_mut().map(|one| Box::pin(one.changed()));
    drop(select_all(changes).await);
}

/// Returns whether a store is to have nothing: it follows no server then.
fn wants_nothing(root: &Root) -> bool {
    root.scope().is_some_and(|scope| scope.is_empty()) && root.has_synced()
}

/// Returns whether a root includes all changes up to `version`; false if unknown.
pub(crate) fn has_reached(root: &Root, version: &ResourceVersion) -> bool {
    let reached = ResourceVersion::from(&**root.version());
    matches!(
        reached.compare(version),
        Ok(Ordering::Equal | Ordering::Greater)
    )
}

/// A write of the caller, and the state of the cache at that time.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) key: ObjectKey,
    pub(crate) version: ResourceVersion,
    // The epoch of the root, and the object stored under the key, when the write was recorded.
    epoch: u64,
    stored: Option<(String, String)>,
    /// The uid of the object that the write deleted.
    deleted: Option<String>,
}

impl Write {
    pub(crate) fn new(key: KeyRef<'_>, version: &str, root: &Root) -> Self {
        Self {
            key: key.to_key(),
            version: version.into(),
            epoch: root.epoch(),
            stored: stored(root, key),
            deleted: None,
        }
    }

    /// A deletion, whose reply states no version.
    fn of_deletion(key: KeyRef<'_>, uid: &str, root: &Root) -> Self {
        Self {
            deleted: Some(uid.to_owned()),
            ..Self::new(key, "", root)
        }
    }

    /// Returns whether this is known to be the later of two writes.
    pub(crate) fn is_newer_than(&self, other: &Self) -> bool {
        matches!(self.version.compare(&other.version), Ok(Ordering::Greater))
    }

    /// Returns whether the cache has passed this write, and so shows its effect itself.
    pub(crate) fn is_seen(&self, root: &Root) -> bool {
        // The versions of a snapshot may be another server's.
        if root.is_restored() && !root.has_synced() {
            return false;
        }
        if wants_nothing(root) {
            return true;
        }
        let key = self.key.key_ref();
        if let Some(uid) = &self.deleted {
            let is_there = |object: &Object| object.uid() == uid && !object.is_terminating();
            return !root.get(key).is_some_and(is_there);
        }
        let is_newer = |version: &str| {
            let stored = ResourceVersion::from(version).compare(&self.version);
            matches!(stored, Ok(Ordering::Equal | Ordering::Greater))
        };
        if root
            .get(key)
            .is_some_and(|o| is_newer(o.resource_version()))
        {
            return true;
        }
        // A server that went back has lost the write.
        if root.epoch() != self.epoch {
            return true;
        }
        let reached = ResourceVersion::from(&**root.version());
        match reached.compare(&self.version) {
            Ok(order) => order != Ordering::Less,
            // Versions without an order: any change under the key is taken for the write.
            Err(_) => stored(root, key) != self.stored,
        }
    }
}

fn stored(root: &Root, key: KeyRef<'_>) -> Option<(String, String)> {
    let object = root.get(key)?;
    Some((
        object.uid().to_owned(),
        object.resource_version().to_owned(),
    ))
}

/// The gate of a controller that reads its own writes: not before the cache saw my writes for this
/// key. Cheap to clone; clones share their state.
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # async fn reconcile(
/// #     writes: kinform::OwnWrites, deployments: kinform::Informer<Deployment>,
/// #     key: kinform_api::ObjectKey, written: Deployment,
/// # ) -> Result<(), kinform::Error> {
/// writes.seen(&key).await?; // at the beginning of a reconcile
/// // .. read caches, decide, write ..
/// writes.wrote(&key, &deployments, &written); // the server's reply
/// # Ok(())
/// # }
/// ```
#[doc(alias = "ConsistencyStore")]
#[derive(Clone, Default)]
pub struct OwnWrites(Arc<Recorded>);

#[derive(Default)]
struct Recorded {
    keys: Mutex<Keys>,
    // Counts the times that a key was written to a core without another unseen write for it: then
    // the cores to be waited for are others.
    joined: watch::Sender<u64>,
}

#[derive(Default)]
struct Keys {
    unseen: HashMap<ObjectKey, Vec<Unseen>>,
    // Twice the number of keys that the last sweep left.
    sweep_at: usize,
}

// BOUND: two for each object written for a key and not seen yet, the second a deletion. A look at a
// key removes its writes that were seen. Recording one more key removes those of all keys, once
// there are twice as many keys as the last sweep left, and `SWEEP_AT` at least.
struct Unseen {
    core: Arc<Core>,
    write: Write,
}

impl OwnWrites {
    /// A gate without writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `object`, the server's reply to a write, was written for `key`. `informer` is
    /// the one whose cache should see it. An object outside of its namespaces, or without a name or
    /// a resource version, is not recorded.
    pub fn wrote<K, T: kube_core::Resource>(
        &self,
        key: &ObjectKey,
        informer: &Informer<K>,
        object: &T,
    ) {
        let meta = object.meta();
        let (Some(name), Some(version)) = (&meta.name, &meta.resource_version) else {
            return;
        };
        let written = KeyRef {
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            name,
        };
        if let Some(core) = informer.cores().holder(written) {
            self.stored(key, &core, written, version);
        }
    }

    /// Records that the object `written` was stored at `version` for `key`.
    pub(crate) fn stored(
        &self,
        key: &ObjectKey,
        core: &Arc<Core>,
        written: KeyRef<'_>,
        version: &str,
    ) {
        let root = core.root();
        let write = Write::new(written, version, &root);
        self.record(key, core, write, &root);
    }

    /// Records that the object `deleted` of this uid was deleted for `key`.
    pub(crate) fn deleted(
        &self,
        key: &ObjectKey,
        core: &Arc<Core>,
        deleted: KeyRef<'_>,
        uid: &str,
    ) {
        let root = core.root();
        let write = Write::of_deletion(deleted, uid, &root);
        self.record(key, core, write, &root);
    }

    /// Forgets the writes for `key` that no cache will show: the watches of those have ended.
    pub(crate) fn forget_ended(&self, key: &ObjectKey) {
        let mut keys = lock(&self.0.keys);
        let Some(unseen) = keys.unseen.get_mut(key) else {
            return;
        };
        unseen.retain(|known| !known.core.progress.borrow().ended);
        if unseen.is_empty() {
            keys.unseen.remove(key);
        }
    }

    /// Forgets the writes for `key`.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        lock(&self.0.keys).unseen.remove(key);
    }

    fn record(&self, key: &ObjectKey, core: &Arc<Core>, write: Write, root: &Root) {
        let mut keys = lock(&self.0.keys);
        if !keys.unseen.contains_key(key) {
            keys.sweep();
        }
        let is_of_core = |known: &Unseen| Arc::ptr_eq(&known.core, core);
        let is_before = |known: &Unseen| {
            is_of_core(known) && known.write.key == write.key && known.write.deleted.is_none()
        };
        let before = keys
            .unseen
            .get(key)
            .and_then(|all| all.iter().find(|k| is_before(k)));
        let is_pending = before.is_some_and(|known| !known.write.is_seen(root));
        // A deletion is not seen before the object was: the cache may not have it yet.
        if write.is_seen(root) && !(write.deleted.is_some() && is_pending) {
            return;
        }
        // Replies of concurrent writes may come in another order.
        if write.deleted.is_none() && before.is_some_and(|k| k.write.is_newer_than(&write)) {
            return;
        }
        let unseen = keys.unseen.entry(key.clone()).or_default();
        let joins = !unseen.iter().any(is_of_core);
        // A deletion leaves the write before it: the cache may not have the object yet.
        if write.deleted.is_none() {
            unseen.retain(|known| !(is_of_core(known) && known.write.key == write.key));
        }
        if mutant!("K4") {
            unseen.clear();
        }
        let core = Arc::clone(core);
        unseen.push(Unseen { core, write });
        drop(keys);
        if joins {
            self.0.joined.send_modify(|count| *count += 1);
        }
    }

    /// Returns whether caches have seen everything that was written for `key`.
    #[must_use]
    pub fn has_seen(&self, key: &ObjectKey) -> bool {
        let mut keys = lock(&self.0.keys);
        let Some(unseen) = keys.unseen.get_mut(key) else {
            return true;
        };
        let is_left = forget_seen(unseen);
        if !is_left {
            keys.unseen.remove(key);
        }
        !is_left
    }

    /// Returns whether a cache has not seen a write to `object` that was made for `key`.
    pub(crate) fn is_pending(&self, key: &ObjectKey, object: KeyRef<'_>) -> bool {
        let keys = lock(&self.0.keys);
        let mut unseen = keys.unseen.get(key).into_iter().flatten();
        unseen.any(|known| {
            known.write.key.key_ref() == object && !known.write.is_seen(&known.core.root())
        })
    }

    /// Waits until caches have seen everything that was written for `key`.
    ///
    /// # Errors
    /// A watch that should see it ends before: its informer is stopped, or its namespace is removed
    /// and no other informer holds the watch.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn seen(&self, key: &ObjectKey) -> Result<(), Error> {
        if self.has_seen(key) {
            return Ok(());
        }
        let joined = self.0.joined.subscribe();
        when(joined, || self.awaited(key), |_| Ok(self.has_seen(key))).await
    }

    /// The cores that have not seen everything that was written for `key`.
    fn awaited(&self, key: &ObjectKey) -> Vec<Arc<Core>> {
        let mut keys = lock(&self.0.keys);
        let Some(unseen) = keys.unseen.get_mut(key) else {
            return Vec::new();
        };
        forget_seen(unseen);
        let cores = unseen.iter().map(|unseen| Arc::clone(&unseen.core));
        cores.collect()
    }

    /// The versions that were written for `key` and not seen yet, with the cores that should show them.
    pub(crate) fn awaited_versions(&self, key: &ObjectKey) -> Vec<(Arc<Core>, ResourceVersion)> {
        let mut keys = lock(&self.0.keys);
        let Some(unseen) = keys.unseen.get_mut(key) else {
            return Vec::new();
        };
        forget_seen(unseen);
        let stored = unseen.iter().filter(|known| known.write.deleted.is_none());
        let version = |known: &Unseen| (Arc::clone(&known.core), known.write.version.clone());
        stored.map(version).collect()
    }

    /// Forgets the writes, for all keys, of which a core is known to lack none up to `version`,
    /// although its version is older.
    pub(crate) fn caught_up(&self, core: &Arc<Core>, version: &ResourceVersion) {
        let is_shown = |known: &Unseen| {
            let order = known.write.version.compare(version);
            let is_older = matches!(order, Ok(Ordering::Less | Ordering::Equal));
            Arc::ptr_eq(&known.core, core) && known.write.deleted.is_none() && is_older
        };
        lock(&self.0.keys).unseen.retain(|_, unseen| {
            unseen.retain(|known| !is_shown(known));
            !unseen.is_empty()
        });
        self.0.joined.send_modify(|count| *count += 1);
    }

    /// Keys with writes that were not seen at the last look: a gauge.
    #[must_use]
    pub fn unseen(&self) -> usize {
        lock(&self.0.keys).unseen.len()
    }
}

impl Keys {
    /// Before one more key: removes the writes that were seen, if that is due.
    fn sweep(&mut self) {
        if self.unseen.len() < self.sweep_at.max(SWEEP_AT) {
            return;
        }
        self.unseen.retain(|_, unseen| forget_seen(unseen));
        self.sweep_at = 2 * self.unseen.len();
    }
}

/// Keys below which recording does not look for writes that were seen.
const SWEEP_AT: usize = 64;

/// Removes the writes that were seen; returns whether any are left.
fn forget_seen(unseen: &mut Vec<Unseen>) -> bool {
    let is_pending = |unseen: &Unseen| !unseen.write.is_seen(&unseen.core.root());
    unseen.retain(|known| known.write.deleted.is_some() || is_pending(known));
    if unseen.iter().all(|known| known.write.deleted.is_none()) {
        return !unseen.is_empty();
    }
    let stored: Vec<_> = unseen
        .iter()
        .filter(|known| known.write.deleted.is_none())
        .map(|known| (Arc::as_ptr(&known.core), known.write.key.clone()))
        .collect();
    // A deletion is not seen before the object was.
    unseen.retain(|known| {
        let is_after = |(core, key): &(*const Core, ObjectKey)| {
            std::ptr::eq(*core, Arc::as_ptr(&known.core)) && *key == known.write.key
        };
        known.write.deleted.is_none() || stored.iter().any(is_after) || is_pending(known)
    });
    !unseen.is_empty()
}

impl fmt::Debug for OwnWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnWrites")
            .field("unseen", &self.unseen())
            .finish()
    }
}
