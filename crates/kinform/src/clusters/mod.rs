//! Many clusters in one program: a factory for each, one handle over all.
//!
//! ```text
//! add(name, client) │ kubeconfig contexts │ Secrets ──▶ Clusters ──▶ Cluster (name, factory)
//!                        ┌──────────── joined, left ───────┘
//!                        ├──▶ ClusterInformer<K>: an informer in each; keys carry the cluster
//!                        └──▶ engage: controllers of each, until it leaves
//! ```
//!
//! A cluster that is away is a state of its informers: their caches stay readable, marked stale. A
//! cluster that is removed takes its caches with it; nobody hears its objects deleted, because they
//! are not. Clusters share nothing: not a client, a cache, a queue or a limit, so one that is slow or
//! away holds no other up.
//!
//! `informer` is the handle over all, `engaged` runs what belongs to each, `discovery` adds clusters
//! by contexts and Secrets.
//!
//! INVARIANT: whoever follows hears of each cluster that joins once, before it starts, and of its
//! leaving once.
//!
//! Upstream counterpart: `multicluster-runtime` (`Provider`, `Engage`).

mod discovery;
mod engaged;
mod informer;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use kinform_api::ObjectKey;
use kube_client::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use self::discovery::{Discovered, Discovery};
pub use self::informer::{ClusterInformer, ClusterListings, ClusterRegistration};
use crate::error::{Error, ErrorKind};
use crate::factory::InformerFactory;
use crate::informer::Informer;
use crate::sync::lock;

/// BOUND: characters of a cluster's name: it is part of logs and of each key.
const MAX_NAME: usize = 253;

/// Clusters by name, which come and go. Cheap to clone.
///
/// When the last clone is dropped, the informers of all clusters end.
#[derive(Clone, Default)]
pub struct Clusters(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    clusters: BTreeMap<Arc<str>, Cluster>,
    followers: Vec<Weak<dyn Follow>>,
    /// Clusters that were removed, until no task of them is left.
    leaving: Vec<Cluster>,
    next: u64,
    was_started: bool,
}

/// A receiver of the clusters that come and go. Called under the lock of the clusters: it must not
/// call them, and neither must functions of the user's that it calls.
trait Follow: Send + Sync {
    fn joined(&self, cluster: &Cluster) -> Result<(), Error>;
    fn left(&self, name: &str);
}

/// One of the clusters. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    /// Tells it from another one that has its name at another time.
    id: u64,
    name: Arc<str>,
    factory: InformerFactory,
    client: Option<Client>,
    ended: CancellationToken,
    // A child of `ended`: whoever holds it cannot end the cluster.
    left: CancellationToken,
}

/// The key of an object of one of several clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// The object's key there.
    pub key: ObjectKey,
}

impl ClusterKey {
    /// The key of an object of this cluster.
    pub fn new(cluster: impl Into<Arc<str>>, key: ObjectKey) -> Self {
        let cluster = cluster.into();
        Self { cluster, key }
    }
}

impl Cluster {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its factory: for informers of this cluster alone.
    pub fn factory(&self) -> &InformerFactory {
        &self.factory
    }

    /// The client that it was added with.
    pub fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// The key of an object of it.
    pub fn key(&self, key: ObjectKey) -> ClusterKey {
        ClusterKey::new(Arc::clone(&self.name), key)
    }

    /// Cancelled when the cluster is removed, or all are shut down: for
    /// [`Controller::shutdown_on`](crate::Controller::shutdown_on).
    pub fn left(&self) -> &CancellationToken {
        &self.left
    }
}

impl Clusters {
    /// No clusters yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cluster with a factory of its own for this client. If the others were started, it is
    /// started, too.
    ///
    /// # Errors
    /// - [`is_name_taken`](Error::is_name_taken): there is a cluster of this name.
    /// - [`is_invalid`](Error::is_invalid): the name is empty or too long, no tokio runtime runs
    ///   here, or an informer cannot be made as it was asked for.
    /// - [`is_stopped`](Error::is_stopped): the clusters were shut down.
    pub fn add(&self, name: &str, client: Client) -> Result<Cluster, Error> {
        let factory = InformerFactory::new(client.clone());
        self.join(name, factory, Some(client))
    }

    /// The same with a factory of the caller's, for options that [`add`](Self::add) does not have.
    /// The clusters start it and shut it down.
    ///
    /// # Errors
    /// As of [`add`](Self::add).
    pub fn add_factory(&self, name: &str, factory: InformerFactory) -> Result<Cluster, Error> {
        self.join(name, factory, None)
    }

    fn join(
        &self,
        name: &str,
        factory: InformerFactory,
        client: Option<Client>,
    ) -> Result<Cluster, Error> {
        if name.is_empty() || name.len() > MAX_NAME {
            let message = format!("a cluster's name has 1 to {MAX_NAME} bytes: {name:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut state = lock(&self.0.state);
        if self.0.stop.is_cancelled() {
            let message = "the clusters were shut down: none can be added";
            return Err(Error::new(ErrorKind::Stopped, message));
        }
        if state.clusters.contains_key(name) {
            let message = format!("there is a cluster named {name:?}");
            return Err(Error::new(ErrorKind::NameTaken, message));
        }
        let ended = self.0.stop.child_token();
        state.next += 1;
        let cluster = Cluster {
            id: state.next,
            name: name.into(),
            factory,
            client,
            left: ended.child_token(),
            ended,
        };
        let followers = state.followers();
        let joined = followers.iter().try_for_each(|one| one.joined(&cluster));
        let started = joined.and_then(|()| match state.was_started {
            true => cluster.factory.start(),
            false => Ok(()),
        });
        if let Err(error) = started {
            followers.iter().for_each(|one| one.left(name));
            return Err(error);
        }
        state
            .clusters
            .insert(Arc::clone(&cluster.name), cluster.clone());
        drop(state);
        self.0.changed.send_modify(|version| *version += 1);
        Ok(cluster)
    }

    /// Removes a cluster: what belongs to it ends, its handlers hear nothing more. Returns whether
    /// there was one. Ends when no task of it is left.
    ///
    /// Its name can be used again at once; handlers then hear its objects as initial adds.
    ///
    /// Cancel safety: once polled, the cluster is removed even if the wait is dropped.
    pub async fn remove(&self, name: &str) -> bool {
        let Some(cluster) = self.get(name) else {
            return false;
        };
        let is_removed = self.take(&cluster);
        if is_removed {
            self.end(&cluster).await;
        }
        is_removed
    }

    /// Removes this very cluster, and not one that has its name by now; its tasks may still run.
    fn take(&self, cluster: &Cluster) -> bool {
        {
            let mut state = lock(&self.0.state);
            let present = state.clusters.get(&cluster.name);
            if present.is_none_or(|present| present.id != cluster.id) {
                return false;
            }
            state.clusters.remove(&cluster.name);
            let followers = state.followers();
            followers.iter().for_each(|one| one.left(&cluster.name));
            // Those whose wait was dropped.
            state.leaving.retain(|one| one.factory.task_count() > 0);
            state.leaving.push(cluster.clone());
        }
        cluster.ended.cancel();
        self.0.changed.send_modify(|version| *version += 1);
        true
    }

    /// Waits until no task of a cluster that was removed is left.
    async fn end(&self, cluster: &Cluster) {
        cluster.factory.shutdown().await;
        let mut state = lock(&self.0.state);
        state.leaving.retain(|one| one.id != cluster.id);
    }

    /// The cluster of a name.
    pub fn get(&self, name: &str) -> Option<Cluster> {
        lock(&self.0.state).clusters.get(name).cloned()
    }

    /// All clusters, in the order of their names.
    pub fn all(&self) -> Vec<Cluster> {
        lock(&self.0.state).clusters.values().cloned().collect()
    }

    /// Starts the informers of all clusters, and of those that come later. To be called again after
    /// further informers were made.
    ///
    /// # Errors
    /// As of [`InformerFactory::start`], of the first cluster that cannot be started.
    pub fn start(&self) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        state.was_started = true;
        let mut clusters = state.clusters.values();
        clusters.try_for_each(|cluster| cluster.factory.start())
    }

    /// Waits until the informers of each cluster that is here now have stored their first list.
    ///
    /// # Errors
    /// The time ended first: the error names each late cluster. The others are synced.
    ///
    /// Cancel safety: dropping the future loses nothing.
    pub async fn synced_within(&self, limit: Duration) -> Result<(), Error> {
        let clusters = self.all();
        let waits = clusters.iter().map(|cluster| async move {
            let synced = cluster.factory.synced_within(limit).await;
            synced.map_err(|error| format!("{}: {error}", cluster.name))
        });
        let late: Vec<String> = join_all(waits)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        if late.is_empty() {
            return Ok(());
        }
        let (count, of) = (late.len(), clusters.len());
        let message = format!(
            "{count} of {of} clusters are not synced: {}",
            late.join("; ")
        );
        Err(Error::new(ErrorKind::TimedOut, message))
    }

    /// Removes all clusters, and returns when no task is left. None can be added any more.
    ///
    /// Cancel safety: once polled, everything ends even if the wait is dropped.
    pub async fn shutdown(&self) {
        self.0.stop.cancel();
        for cluster in self.all() {
            self.take(&cluster);
        }
        let leaving = lock(&self.0.state).leaving.clone();
        join_all(leaving.iter().map(|cluster| self.end(cluster))).await;
    }

    /// One handle over the informers of `K` in all clusters, in their factories' namespaces.
    ///
    /// # Errors
    /// As of [`select`](Self::select).
    pub fn informer<K>(&self) -> Result<ClusterInformer<K>, Error>
    where
        K: kube_core::Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        self.select(|cluster| cluster.factory().informer::<K>())
    }

    /// One handle over informers that `make` makes, one for each cluster, now and later. It runs
    /// under a lock: it must not call the clusters.
    ///
    /// # Errors
    /// The informers are started already, and one cannot be.
    pub fn select<K>(
        &self,
        make: impl Fn(&Cluster) -> Informer<K> + Send + Sync + 'static,
    ) -> Result<ClusterInformer<K>, Error>
    where
        K: Send + Sync + 'static,
    {
        ClusterInformer::over(self, Box::new(make))
    }

    /// Adds a follower, which hears of the present clusters at once.
    fn follow(&self, follower: &Arc<impl Follow + 'static>) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        for cluster in state.clusters.values() {
            follower.joined(cluster)?;
            if state.was_started {
                cluster.factory.start()?;
            }
        }
        let follower: Arc<dyn Follow> = Arc::clone(follower) as _;
        state.followers.push(Arc::downgrade(&follower));
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for cluster in state.clusters.values().chain(&state.leaving) {
            // The first poll ends everything; handles may keep the factory alive.
            let _ = cluster.factory.shutdown().now_or_never();
        }
    }
}

impl State {
    /// Those that are still there.
    fn followers(&mut self) -> Vec<Arc<dyn Follow>> {
        self.followers
            .retain(|follower| follower.strong_count() > 0);
        self.followers.iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.key)
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<Arc<str>> = lock(&self.0.state).clusters.keys().cloned().collect();
        f.debug_tuple("Clusters").field(&names).finish()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
