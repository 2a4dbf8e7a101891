//! One handle over the informers of a resource in many clusters.
//!
//! ```text
//! Cluster joined ─▶ make(cluster) → Informer<K> ─▶ handlers, indexes of the handle
//! get(ClusterKey) │ list │ by_index ─▶ each cluster's own cache
//! ```
//!
//! Each cluster's part is a cache of its own, consistent in itself; there is no common version.
//! INVARIANT: an informer that joins has all indexes and handlers of the handle before it starts.
//!
//! Upstream counterpart: `multicluster-runtime:pkg/source` (`Kind`), one source for each cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use super::{Cluster, ClusterKey, Clusters, Follow};
use crate::error::Error;
use crate::handler::Handlers;
use crate::index::Index;
use crate::informer::{Informer, Registration};
use crate::object::Obj;
use crate::state::InformerState;
use crate::store::Listing;
use crate::sync::lock;

type Make<K> = Box<dyn Fn(&Cluster) -> Informer<K> + Send + Sync>;
type MakeIndex<K> = Box<dyn Fn() -> Index<K> + Send + Sync>;
type MakeHandlers<K> = Box<dyn Fn(&Cluster) -> Handlers<K> + Send + Sync>;

/// Objects of each cluster, by its name, in the order of the names.
pub type ClusterListings<K> = Vec<(Arc<str>, Listing<K>)>;

/// The informers of one resource in all clusters, now and later. Cheap to clone.
pub struct ClusterInformer<K>(Arc<Inner<K>>);

struct Inner<K> {
    make: Make<K>,
    parts: Mutex<Parts<K>>,
}

struct Parts<K> {
    members: BTreeMap<Arc<str>, Member<K>>,
    indexes: Vec<MakeIndex<K>>,
    handlers: BTreeMap<u64, MakeHandlers<K>>,
    next: u64,
}

struct Member<K> {
    cluster: Cluster,
    informer: Informer<K>,
    registrations: BTreeMap<u64, Registration>,
}

/// Handlers in each cluster. Dropping it leaves them where they are.
#[must_use = "without it, the handlers cannot be removed"]
pub struct ClusterRegistration {
    id: u64,
    remove: Box<dyn Fn(u64) + Send + Sync>,
}

impl<K: Send + Sync + 'static> ClusterInformer<K> {
    pub(super) fn over(clusters: &Clusters, make: Make<K>) -> Result<Self, Error> {
        let parts = Parts {
            members: BTreeMap::new(),
            indexes: Vec::new(),
            handlers: BTreeMap::new(),
            next: 0,
        };
        let inner = Arc::new(Inner {
            make,
            parts: Mutex::new(parts),
        });
        clusters.follow(&inner)?;
        Ok(Self(inner))
    }

    /// Adds handlers in each cluster, now and later: `make` is called once for each that joins, under
    /// a lock: it must not call the clusters nor this handle.
    ///
    /// Handlers of a cluster that is removed hear nothing more, and no deletes. They are made anew
    /// when a cluster of its name joins again, and hear its objects as initial adds.
    ///
    /// # Errors
    /// The informers run, and no tokio runtime does here. Then no handler was added.
    ///
    /// # Order guarantees
    /// Those of [`Informer::add_handler`] within a cluster; none over clusters.
    pub fn add_handler(
        &self,
        make: impl Fn(&Cluster) -> Handlers<K> + Send + Sync + 'static,
    ) -> Result<ClusterRegistration, Error> {
        let mut parts = lock(&self.0.parts);
        let id = parts.next;
        parts.next += 1;
        let added = parts.members.values_mut().try_for_each(|member| {
            let registration = member.informer.add_handler(make(&member.cluster))?;
            member.registrations.insert(id, registration);
            Ok(())
        });
        if let Err(error) = added {
            parts.remove_handler(id);
            return Err(error);
        }
        parts.handlers.insert(id, Box::new(make));
        drop(parts);
        let inner = Arc::downgrade(&self.0);
        let remove = move |id| {
            if let Some(inner) = inner.upgrade() {
                lock(&inner.parts).remove_handler(id);
            }
        };
        Ok(ClusterRegistration {
            id,
            remove: Box::new(remove),
        })
    }

    /// Adds an index in each cluster, now and later, to be read by [`by_index`](Self::by_index). `make`
    /// is called under a lock, as that of handlers.
    ///
    /// # Errors
    /// As of [`Informer::add_index`]. Clusters that were asked before keep it.
    pub fn add_index(
        &self,
        make: impl Fn() -> Index<K> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let mut parts = lock(&self.0.parts);
        for member in parts.members.values() {
            member.informer.add_index(make())?;
        }
        parts.indexes.push(Box::new(make));
        Ok(())
    }

    /// The object of this key.
    pub fn get(&self, key: &ClusterKey) -> Option<Obj<K>> {
        self.in_cluster(&key.cluster)?.get(&key.key)
    }

    /// The informer of one cluster.
    pub fn in_cluster(&self, name: &str) -> Option<Informer<K>> {
        let parts = lock(&self.0.parts);
        parts
            .members
            .get(name)
            .map(|member| member.informer.clone())
    }

    /// All objects.
    pub fn list(&self) -> ClusterListings<K> {
        let informers = self.informers().into_iter();
        informers
            .map(|(name, informer)| (name, informer.list()))
            .collect()
    }

    /// The objects under `value` of the index `name`.
    ///
    /// # Errors
    /// There is no index of that name.
    pub fn by_index(
        &self,
        name: &str,
        value: impl AsRef<[u8]>,
    ) -> Result<ClusterListings<K>, Error> {
        let informers = self.informers().into_iter();
        let found = informers.map(|(cluster, informer)| {
            let listing = informer.store().by_index(name, value.as_ref())?;
            Ok((cluster, listing))
        });
        found.collect()
    }

    /// Returns the number of objects in all clusters.
    pub fn len(&self) -> usize {
        let informers = self.informers().into_iter();
        informers.map(|(_, informer)| informer.store().len()).sum()
    }

    /// Returns whether no cluster has an object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The state in each cluster: a cluster that is away is `Stale`, with the reason.
    pub fn states(&self) -> Vec<(Arc<str>, InformerState)> {
        let informers = self.informers().into_iter();
        informers
            .map(|(name, informer)| (name, informer.state()))
            .collect()
    }

    /// Returns whether the caches of all clusters that are here now had their first list.
    pub fn has_synced(&self) -> bool {
        self.informers()
            .iter()
            .all(|(_, informer)| informer.has_synced())
    }

    fn informers(&self) -> Vec<(Arc<str>, Informer<K>)> {
        let parts = lock(&self.0.parts);
        let members = parts.members.iter();
        members
            .map(|(name, member)| (Arc::clone(name), member.informer.clone()))
            .collect()
    }
}

impl<K> Parts<K> {
    fn remove_handler(&mut self, id: u64) {
        self.handlers.remove(&id);
        for member in self.members.values_mut() {
            if let Some(registration) = member.registrations.remove(&id) {
                registration.cancel();
            }
        }
    }
}

impl<K: Send + Sync + 'static> Follow for Inner<K> {
    fn joined(&self, cluster: &Cluster) -> Result<(), Error> {
        let mut parts = lock(&self.parts);
        let informer = (self.make)(cluster);
        for make in &parts.indexes {
            informer.add_index(make())?;
        }
        let handlers = parts.handlers.iter();
        let registrations = handlers.map(|(id, make)| {
            let registration = informer.add_handler(make(cluster))?;
            Ok((*id, registration))
        });
        let registrations = registrations.collect::<Result<_, Error>>()?;
        let member = Member {
            cluster: cluster.clone(),
            informer,
            registrations,
        };
        parts.members.insert(Arc::clone(&cluster.name), member);
        Ok(())
    }

    fn left(&self, name: &str) {
        let left = lock(&self.parts).members.remove(name);
        for registration in left.iter().flat_map(|member| member.registrations.values()) {
            registration.cancel();
        }
    }
}

impl ClusterRegistration {
    /// Removes the handlers from all clusters.
    pub fn remove(self) {
        (self.remove)(self.id);
    }
}

impl<K> Clone for ClusterInformer<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> fmt::Debug for ClusterInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<Arc<str>> = lock(&self.0.parts).members.keys().cloned().collect();
        f.debug_struct("ClusterInformer")
            .field("clusters", &names)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterRegistration")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
