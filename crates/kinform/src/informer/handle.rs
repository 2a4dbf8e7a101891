//! Users' handle of an informer.
//!
//! ```text
//! factory.informer::<Pod>() → Informer<Pod>
//!     → state, reports, numbers, namespaces (here)
//!     → store, lister, indexes, handlers, changes (their files)
//! ```
//!
//! A handle is cheap to clone and keeps no task running: the factory does. `K` is only a lens: the
//! same informer seen as another type is [`Informer::cast`], on the same watch and cache.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`SharedIndexInformer`).

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use kinform_core::delta::Quarantine;
use kinform_core::object::Object;
use kube_client::Client;
use tokio::sync::watch;

use super::group::{Cores, Member};
use super::registration::{HandlerStats, ListenerState};
use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::memory::Membership;
use crate::metrics::InformerStats;
use crate::object::Lens;
use crate::report::Reports;
use crate::source::ResourceInfo;
use crate::state::InformerState;

/// A shared cache of one resource, kept up to date by a watch, and the stream of its changes.
#[doc(alias = "SharedIndexInformer")]
#[doc(alias = "Reflector")]
pub struct Informer<K> {
    cores: Cores,
    lens: Arc<Lens>,
    of: PhantomData<fn() -> K>,
}

impl<K> Informer<K> {
    pub(crate) fn new(cores: Cores, lens: Arc<Lens>) -> Self {
        Self {
            cores,
            lens,
            of: PhantomData,
        }
    }

    pub(crate) fn cores(&self) -> &Cores {
        &self.cores
    }

    /// The lens through which its objects are decoded.
    pub(crate) fn lens(&self) -> &Arc<Lens> {
        &self.lens
    }

    pub(crate) fn env(&self) -> Env {
        let members = self.cores.members();
        let first = members.first();
        first.map_or_else(Env::system, |member| member.core.env.clone())
    }

    /// An object as it would be stored, from the JSON reply to a write; `None` if no namespace is
    /// watched.
    pub(crate) fn ingest(&self, json: &[u8]) -> Result<Option<Object>, String> {
        let members = self.cores.members();
        // All watches of an informer turn the same bytes into the same object.
        let made = members
            .first()
            .map(|member| member.core.ingest.written(json));
        made.transpose().map_err(|error| error.to_string())
    }

    /// The resource that is watched; with several namespaces, that of the first.
    pub fn resource(&self) -> &ResourceInfo {
        self.cores.info()
    }

    /// The client of its watches; `None` if their source is the program's own, or no namespace is
    /// watched.
    pub fn client(&self) -> Option<Client> {
        let members = self.cores.members();
        members.first().and_then(|member| member.core.client())
    }

    /// The namespaces watched now. Empty if the informer watches all namespaces or a resource of
    /// the cluster, or if every namespace was removed.
    pub fn namespaces(&self) -> Vec<String> {
        let members = self.cores.members();
        let namespaces = members.iter().map(|member| member.namespace.clone());
        namespaces.flatten().collect()
    }

    /// Watches one more namespace; returns whether it was not watched before. Everything made from
    /// this informer covers it from now on: stores, indexes, states, reports, and handlers and
    /// streams, which hear its objects as initial adds. If the informer runs, the namespace is
    /// listed immediately; [`synced`](Self::synced) then waits for it, too.
    ///
    /// An equal informer that another caller got from the factory keeps its own namespaces.
    ///
    /// # Errors
    /// - The informer watches all namespaces or a resource of the cluster, or is stopped.
    /// - The informer is a view of one watch, from
    ///   [`InformerFactory::informers`](crate::InformerFactory::informers).
    /// - `namespace` is empty.
    /// - The watch of the namespace has another index of the same name.
    /// - The informer runs, and the caller is outside of a tokio runtime.
    pub fn add_namespace(&self, namespace: &str) -> Result<bool, Error> {
        self.cores.add(namespace)
    }

    /// Stops watching this namespace; returns whether it was watched. Its objects are gone from
    /// stores immediately. Handlers and streams receive a deletion, final state unknown, for each
    /// of its objects that was reported to them. Its watch ends, unless another live informer has
    /// it.
    ///
    /// # Order guarantees
    /// Changes of the namespace that were published before may be left out, but no delete of an
    /// object that was reported. If the namespace comes back, its initial adds come after all of
    /// them.
    pub fn remove_namespace(&self, namespace: &str) -> bool {
        self.cores.remove(namespace)
    }

    /// The same informer through another lens.
    pub fn cast<T>(&self) -> Informer<T> {
        Informer::new(self.cores.clone(), Arc::clone(&self.lens))
    }

    /// The state of the informer; with several namespaces, the worst of theirs.
    pub fn state(&self) -> InformerState {
        let members = self.cores.members();
        let states = members
            .iter()
            .map(|member| member.core.state.borrow().clone());
        states
            .max_by_key(InformerState::badness)
            .unwrap_or_else(|| match self.cores.stop_token().is_cancelled() {
                true => InformerState::Stopped,
                false => InformerState::Pending,
            })
    }

    /// Waits until `wanted` accepts the state; returns that state.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn state_when(
        &self,
        mut wanted: impl FnMut(&InformerState) -> bool,
    ) -> InformerState {
        let mut namespaces = self.cores.changed();
        loop {
            // Before the look: a change from here on wakes this task.
            namespaces.borrow_and_update();
            let states = self.states();
            let state = self.state();
            if wanted(&state) {
                return state;
            }
            let stop = self.cores.stop_token();
            let is_empty = states.is_empty() && !stop.is_cancelled();
            tokio::select! {
                biased;
                () = stop.cancelled(), if is_empty => {}
                // The senders live as long as the cores that `self` holds.
                _ = namespaces.changed() => {}
                () = any_changes(states) => {}
            }
        }
    }

    fn states(&self) -> Vec<watch::Receiver<InformerState>> {
        let members = self.cores.members();
        let states = members.iter().map(|member| member.core.state.subscribe());
        states.collect()
    }

    /// Returns whether every namespace watched now has stored its first list, at any time.
    pub fn has_synced(&self) -> bool {
        let members = self.cores.members();
        members.iter().all(|member| member.core.root().has_synced())
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// The informer is stopped before the sync.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self) -> Result<(), Error> {
        self.state_when(|state| state.is_stopped() || self.has_synced())
            .await;
        if self.has_synced() {
            return Ok(());
        }
        Err(Error::stopped(self.resource()))
    }

    /// The same, but no longer than `limit`.
    ///
    /// # Errors
    /// The time ended first, and the error states the cause of the wait; or the informer is
    /// stopped.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced_within(&self, limit: Duration) -> Result<(), Error> {
        let env = self
            .cores
            .members()
            .first()
            .map(|member| member.core.env.clone());
        let Some(env) = env else {
            return self.synced().await;
        };
        let deadline = env.now() + limit;
        tokio::select! {
            biased;
            synced = self.synced() => synced,
            () = env.sleep_until(deadline) => {
                let (resource, state) = (self.resource(), self.state());
                let message = format!("{resource}: not synced after {limit:?}: {state}");
                Err(Error::new(ErrorKind::TimedOut, message))
            }
        }
    }

    /// A stream of reports from now on. A namespace that is added later is included once the
    /// stream is polled after that.
    pub fn reports(&self) -> Reports {
        self.cores.reports()
    }

    /// The statistics of the informer, over the namespaces watched now.
    pub fn stats(&self) -> InformerStats {
        let mut stats = InformerStats::default();
        let members = self.cores.members();
        for Member { core, .. } in members.iter() {
            let root = core.root();
            stats.objects += root.len() as u64;
            stats.heap_bytes += root.heap_size() as u64;
            stats.held_bytes += root.held_size() as u64;
            let step = core.membership.as_ref().map(Membership::step);
            stats.memory = stats.memory.max(step.unwrap_or_default());
            stats.quarantined_now += root.quarantined().len() as u64;
            stats.managed_fields_bytes += core.managed_fields_bytes();
            core.reporter.telemetry.add_to(&mut stats, core.env.now());
        }
        // A listener of several cores is known to each: it counts once.
        for Member { core, .. } in members.iter() {
            let listeners = core.listeners();
            stats.handlers = stats.handlers.max(listeners.count);
            stats.handler_lag = stats.handler_lag.max(listeners.most_lag);
            stats.handlers_behind = stats.handlers_behind.max(listeners.times_behind);
        }
        stats
    }

    /// The numbers of each handler and stream, over the namespaces watched now.
    pub fn handlers(&self) -> Vec<HandlerStats> {
        let members = self.cores.members();
        let mut found: Vec<Arc<ListenerState>> = Vec::new();
        for Member { core, .. } in members.iter() {
            // A listener of several cores is known to each: it counts once.
            for listener in core.each_listener() {
                if !found.iter().any(|known| Arc::ptr_eq(known, &listener)) {
                    found.push(listener);
                }
            }
        }
        found.iter().map(|listener| listener.stats()).collect()
    }

    /// The objects that are quarantined now, in the order of their keys; at most `limit`.
    pub fn quarantined(&self, limit: usize) -> Vec<Quarantine> {
        let members = self.cores.members();
        let mut found = Vec::new();
        for Member { core, .. } in members.iter() {
            let left = limit - found.len();
            found.extend(core.root().quarantined().values().take(left).cloned());
        }
        found
    }

    /// Lists everything again as soon as possible.
    pub fn relist(&self) {
        let members = self.cores.members();
        members.iter().for_each(|member| member.core.relist());
    }

    /// Stops the watch, also for other informers that share it. Handlers hear the changes published
    /// before. The cache stays readable.
    pub fn stop(&self) {
        self.cores.stop();
    }
}

/// Waits until one of these changes; pending for ever if `states` is empty.
async fn any_changes(mut states: Vec<watch::Receiver<InformerState>>) {
    if states.is_empty() {
        std::future::pending::<()>().await;
    }
    let changes = states.iter_mut().map(|state| Box::pin(state.changed()));
    drop(select_all(changes).await);
}

impl InformerState {
    /// The order of states: the one with the highest rank is reported for several namespaces.
    fn badness(&self) -> u8 {
        match self {
            Self::Synced { .. } => 0,
            Self::Stale { .. } => 1,
            Self::Pending => 2,
            Self::Listing { trouble: None } => 3,
            Self::Listing { trouble: Some(_) } => 4,
            Self::NoSuchKind(_) => 5,
            Self::Forbidden(_) => 6,
            Self::Stopped => 7,
        }
    }
}

impl<K> Clone for Informer<K> {
    fn clone(&self) -> Self {
        self.cast()
    }
}

impl<K> fmt::Debug for Informer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("resource", self.resource())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
