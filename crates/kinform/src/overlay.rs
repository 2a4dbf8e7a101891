//! A cache with one's own writes laid over it, until the informer has caught up.
//!
//! ```text
//! what the server answered ──wrote──▶ overlay ─┐
//! informer's root ────────────────────────────┴─▶ get, list, by_index: the newer of both
//! ```
//!
//! A write is laid over the cache as long as the cache has not reached its version; from then on
//! the cache itself shows the write, a newer state, or the deletion. So no tombstones are kept, and
//! a write that is recorded late, after its object was changed or deleted again, is not shown.
//! Versions that are not numbers have no order: there, any change of the key ends the overlay.
//!
//! BOUND: the number of writes, of which the oldest give way; each ends with its lifetime, in case
//! the informer hangs.
//!
//! Upstream counterpart: `client-go:tools/cache/mutation_cache.go` (`MutationCache`), which
//! compares versions as integers, panics on others, and learns of deletions from a handler.
//! Complexity: a read is O(writes laid over) more than without.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform_api::{ObjectKey, mutant};
use kinform_core::object::Object;
use kinform_core::time::Instant;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::informer::{Informer, Write};
use crate::object::Obj;
use crate::store::{Listing, Snapshot, Store};
use crate::sync::lock;

/// Upstream's lifetime of a write.
const LIFETIME: Duration = Duration::from_secs(5 * 60);
const CAPACITY: usize = 1000;

/// A cache that shows the caller's own writes immediately; cheap to clone, clones share the writes.
#[doc(alias = "MutationCache")]
pub struct Overlay<K> {
    store: Store<K>,
    informer: Informer<K>,
    written: Arc<Mutex<VecDeque<Written>>>,
    env: Env,
    capacity: usize,
    lifetime: Duration,
}

#[derive(Clone)]
struct Written {
    write: Write,
    object: Object,
    at: Instant,
}

impl<K> Overlay<K> {
    /// An overlay without writes over the cache of `informer`. It holds up to 1,000 writes for up
    /// to five minutes.
    #[must_use]
    pub fn new(informer: &Informer<K>) -> Self {
        Self {
            store: informer.store(),
            informer: informer.clone(),
            written: Arc::default(),
            env: informer.env(),
            capacity: CAPACITY,
            lifetime: LIFETIME,
        }
    }

    /// The same, for up to `writes` writes and up to `lifetime`.
    #[must_use]
    pub fn with_bounds(self, writes: usize, lifetime: Duration) -> Self {
        Self {
            capacity: writes,
            lifetime,
            ..self
        }
    }

    /// The newer of the written and the stored object under a key.
    pub fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        let (snapshot, laid_over) = self.look();
        let written = laid_over.iter().find(|written| written.write.key == *key);
        match written {
            Some(written) => Some(snapshot.obj(&written.object)),
            None => snapshot.get(key),
        }
    }

    /// All objects, each in its newer state, in no order.
    pub fn list(&self) -> Vec<Obj<K>> {
        let (snapshot, laid_over) = self.look();
        lay_over(&snapshot, &snapshot.list(), &laid_over, |_| true)
    }

    /// All objects of a namespace, each in its newer state, in no order.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Obj<K>> {
        let (snapshot, laid_over) = self.look();
        let listing = snapshot.in_namespace(namespace);
        let is_in = |object: &Object| object.key_ref().namespace == namespace;
        lay_over(&snapshot, &listing, &laid_over, is_in)
    }

    /// The objects that, in their newer state, have `value` in the index `name`; in no order.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(&self, name: &str, value: impl AsRef<[u8]>) -> Result<Vec<Obj<K>>, Error> {
        let value = value.as_ref();
        let (snapshot, laid_over) = self.look();
        let listing = snapshot.by_index(name, value)?;
        let index = snapshot.definition(name)?;
        let has_value = |object: &Object| {
            let values = index.extract(object).unwrap_or_default();
            values.iter().any(|has| **has == *value)
        };
        Ok(lay_over(&snapshot, &listing, &laid_over, has_value))
    }

    /// Writes that the cache has not reached yet: a gauge.
    #[must_use]
    pub fn unseen(&self) -> usize {
        self.look().1.len()
    }

    /// The cache as it is, and the writes that it has not reached; reached ones are removed.
    fn look(&self) -> (Snapshot<K>, Vec<Written>) {
        let now = self.env.now();
        let mut all = lock(&self.written);
        // Under the lock: no other caller removes a write because of a state newer than this one.
        let snapshot = self.store.snapshot();
        all.retain(|written| {
            let root = snapshot.root_of(written.write.key.key_ref());
            let is_seen = root.is_none_or(|root| written.write.is_seen(root));
            (!is_seen || mutant!("K3")) && now.since(written.at) <= self.lifetime
        });
        (snapshot, all.iter().cloned().collect())
    }
}

/// A listing with its writes in place of the objects stored under their keys.
fn lay_over<K>(
    snapshot: &Snapshot<K>,
    listing: &Listing<K>,
    laid_over: &[Written],
    belongs: impl Fn(&Object) -> bool,
) -> Vec<Obj<K>> {
    let is_stored = |object: &Object| {
        let key = object.key_ref();
        !laid_over
            .iter()
            .any(|written| written.write.key.key_ref() == key)
    };
    let mut objects = listing.matching(is_stored);
    let written = laid_over.iter().filter(|written| belongs(&written.object));
    objects.extend(written.map(|written| snapshot.obj(&written.object)));
    objects
}

impl<K: Serialize + DeserializeOwned + Any + Send + Sync> Overlay<K> {
    /// Lays the server's reply to a create, update, patch or apply over the cache.
    ///
    /// # Errors
    /// It has no name or version, cannot be written as JSON, or the informer's transform fails. No
    /// write is recorded then.
    #[doc(alias = "Mutation")]
    pub fn wrote(&self, object: &K) -> Result<(), Error> {
        let invalid = |why: String| {
            let message = format!("what was written cannot be laid over the cache: {why}");
            Error::new(ErrorKind::Invalid, message)
        };
        let json = serde_json::to_vec(object).map_err(|error| invalid(error.to_string()))?;
        let Some(object) = self.informer.ingest(&json).map_err(invalid)? else {
            return Ok(());
        };
        if object.resource_version().is_empty() {
            return Err(invalid("it has no resource version".to_owned()));
        }
        let mut all = lock(&self.written);
        let snapshot = self.store.snapshot();
        let key = object.key_ref();
        let Some(root) = snapshot.root_of(key) else {
            return Ok(());
        };
        let write = Write::new(key, object.resource_version(), root);
        let at = self.env.now();
        if let Some(known) = all.iter().position(|known| known.write.key == write.key) {
            if all[known].write.is_newer_than(&write) {
                return Ok(());
            }
            all.remove(known);
        }
        if !write.is_seen(root) {
            while all.len() >= self.capacity.max(1) {
                all.pop_front();
            }
            all.push_back(Written { write, object, at });
        }
        Ok(())
    }
}

impl<K> Clone for Overlay<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            informer: self.informer.clone(),
            written: Arc::clone(&self.written),
            env: self.env.clone(),
            ..*self
        }
    }
}

impl<K> fmt::Debug for Overlay<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay")
            .field("unseen", &lock(&self.written).len())
            .finish_non_exhaustive()
    }
}
