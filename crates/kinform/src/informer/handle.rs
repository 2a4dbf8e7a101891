//! What users hold of an informer.
//!
//! ```text
//! factory.informer::<Pod>() → Informer<Pod> → store, lister, indexes, handlers, changes, state
//! ```
//!
//! A handle is cheap to clone and keeps nothing running: the factory does. `K` is only a lens: the
//! same informer seen as another type is [`Informer::cast`], on the same watch and cache.
//!
//! Upstream counterpart: `client-go:tools/cache/shared_informer.go` (`SharedIndexInformer`).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::future::select_all;
use futures::stream::{StreamExt, select_all as merge};
use kinform_api::ObjectKey;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::Cores;
use super::listen::{Registration, listen};
use crate::changes::Changes;
use crate::error::{Error, ErrorKind};
use crate::handler::Handlers;
use crate::index::Index;
use crate::lister::Lister;
use crate::metrics::InformerStats;
use crate::object::{Lens, Obj};
use crate::report::Reports;
use crate::source::ResourceInfo;
use crate::state::InformerState;
use crate::store::{IndexReader, Listing, Snapshot, Store};

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

    /// What is watched; of several namespaces, the first.
    pub fn resource(&self) -> &ResourceInfo {
        &self.cores[0].info
    }

    /// The namespaces watched; empty means all, or a resource of the cluster.
    pub fn namespaces(&self) -> Vec<&str> {
        let namespaces = self.cores.iter().map(|core| core.info.namespace.as_deref());
        namespaces.flatten().collect()
    }

    /// The same informer through another lens.
    pub fn cast<T>(&self) -> Informer<T> {
        Informer::new(self.cores.clone(), Arc::clone(&self.lens))
    }

    /// The cache, to be read at any time.
    pub fn store(&self) -> Store<K> {
        Store::new(self.cores.clone(), &self.lens)
    }

    /// The cache as client-go's listers are read.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.store(), self.resource().resource.group_resource())
    }

    /// The cache as it is now.
    pub fn snapshot(&self) -> Snapshot<K> {
        self.store().snapshot()
    }

    /// The object of this key.
    pub fn get(&self, key: &ObjectKey) -> Option<Obj<K>> {
        self.store().get(key)
    }

    /// All objects.
    pub fn list(&self) -> Listing<K> {
        self.store().list()
    }

    /// How it is doing; of several namespaces, the one that does worst.
    pub fn state(&self) -> InformerState {
        let states = self.cores.iter().map(|core| core.state.borrow().clone());
        states
            .max_by_key(InformerState::badness)
            .unwrap_or(InformerState::Pending)
    }

    /// Waits until `wanted` says yes to the state; gives that state.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn state_when(
        &self,
        mut wanted: impl FnMut(&InformerState) -> bool,
    ) -> InformerState {
        let mut receivers: Vec<watch::Receiver<InformerState>> = self
            .cores
            .iter()
            .map(|core| core.state.subscribe())
            .collect();
        loop {
            for receiver in &mut receivers {
                receiver.borrow_and_update();
            }
            let state = self.state();
            if wanted(&state) {
                return state;
            }
            let changes = receivers
                .iter_mut()
                .map(|receiver| Box::pin(receiver.changed()));
            // The senders live as long as the cores that `self` holds.
            let _ = select_all(changes).await;
        }
    }

    /// Whether the first list of every namespace has been stored, at any time.
    pub fn has_synced(&self) -> bool {
        self.cores.iter().all(|core| core.root().has_synced())
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// The informer is stopped before.
    ///
    /// Cancel safety: nothing is lost.
    pub async fn synced(&self) -> Result<(), Error> {
        self.state_when(|state| state.is_stopped() || self.has_synced())
            .await;
        if self.has_synced() {
            return Ok(());
        }
        Err(stopped(self.resource()))
    }

    /// What happens to it, from now on.
    pub fn reports(&self) -> Reports {
        let reports = self.cores.iter().map(|core| Reports::new(core.reports()));
        match &self.cores[..] {
            [core] => Reports::new(core.reports()),
            _ => Reports::merged(merge(reports).boxed()),
        }
    }

    /// Its numbers.
    pub fn stats(&self) -> InformerStats {
        let mut stats = InformerStats::default();
        for core in &*self.cores {
            let root = core.root();
            stats.objects += root.len() as u64;
            stats.heap_bytes += root.heap_size() as u64;
            stats.quarantined_now += root.quarantined().len() as u64;
            stats.managed_fields_bytes += core.managed_fields_bytes();
            core.telemetry.add_to(&mut stats);
        }
        // A listener of several cores is known to each: it counts once.
        let listeners = self.cores.iter().map(|core| core.listeners());
        for (handlers, lag) in listeners {
            stats.handlers = stats.handlers.max(handlers);
            stats.handler_lag = stats.handler_lag.max(lag);
        }
        stats
    }

    /// Lists everything again as soon as possible.
    pub fn relist(&self) {
        self.cores.iter().for_each(|core| core.relist());
    }

    /// Stops its watch, for everybody who shares it. Handlers hear what was published before.
    /// The cache stays readable.
    pub fn stop(&self) {
        self.cores.iter().for_each(|core| core.stop());
    }

    fn running(&self) -> Result<(), Error> {
        match self.cores.iter().find(|core| core.is_stopped()) {
            Some(core) => Err(stopped(&core.info)),
            None => Ok(()),
        }
    }
}

impl<K: 'static> Informer<K> {
    /// Changes as a stream: first everything stored, then every change, with no gap and no repeat.
    /// Dropping it ends it.
    ///
    /// # Errors
    /// The informer is stopped.
    pub fn changes(&self) -> Result<Changes<K>, Error> {
        self.running()?;
        Ok(Changes::new(&self.cores, &self.lens))
    }

    /// Adds handlers, at any time: they hear everything stored as initial adds, then every change.
    ///
    /// # Errors
    /// The informer is stopped, or no tokio runtime runs here.
    #[doc(alias = "AddEventHandler")]
    pub fn add_handler(&self, handlers: Handlers<K>) -> Result<Registration, Error> {
        self.running()?;
        in_runtime()?;
        Ok(listen(
            &self.cores,
            handlers.into_parts(Arc::clone(&self.lens)),
        ))
    }
}

impl<K: DeserializeOwned + Any + Send + Sync> Informer<K> {
    /// Adds an index, at any time; the same path, label or owner index again is the one that is
    /// there. While it is built beside a running informer, reads look at each object.
    ///
    /// # Errors
    /// The name is taken by another definition, or the path is none that this type has.
    #[doc(alias = "AddIndexers")]
    pub fn add_index(&self, index: Index<K>) -> Result<IndexReader<K>, Error> {
        self.running()?;
        let definition = index.define(self.resource(), &self.lens)?;
        for core in &*self.cores {
            core.is_new(&definition)?;
        }
        for core in &*self.cores {
            core.add_index(definition.clone())?;
        }
        Ok(IndexReader::new(self.store(), definition.index.name()))
    }
}

/// Fails outside a tokio runtime.
pub(crate) fn in_runtime() -> Result<(), Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::new(
            ErrorKind::Invalid,
            "this needs a tokio runtime: call it inside async code",
        )
        .with_cause(error)),
    }
}

fn stopped(info: &ResourceInfo) -> Error {
    Error::new(
        ErrorKind::Stopped,
        format!("the informer of {info} is stopped"),
    )
}

impl InformerState {
    /// Which of several states tells most about what to do.
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

#[cfg(test)]
impl<K> Informer<K> {
    /// The lens of its objects, for tests that make some.
    pub(crate) fn lens(&self) -> &Arc<Lens> {
        &self.lens
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
