//! One place to get informers from: equal requests share a watch.
//!
//! ```text
//! InformerFactory (one client) → InformerBuilder → Registry → Informer<K>
//!       start · synced_within · shutdown (drains, leaves no task) · drop (ends everything)
//! ```
//!
//! Two requests are equal if resource, namespace, selectors, representation, projection, transform
//! storage and share are, and the reflector options and the client of an informer that has its own. The
//! type is not part of it: a typed and a dynamic view share one watch. A watch belongs to one
//! client, so caches are never shared between credentials.
//! INVARIANT: the factory owns every task of its informers; the handles own none.
//!
//! Upstream counterpart: `client-go:informers/factory.go`, `client-go:dynamic/dynamicinformer`.

mod builder;
mod select;
mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kinform_api::Scope;
use kinform_core::object::projection::Projection;
use kube_client::{Client, Config};
use kube_core::dynamic::DynamicObject;
use serde::de::DeserializeOwned;

pub use self::builder::FactoryBuilder;
use self::select::Selection;
pub use self::select::{DecodedValues, InformerBuilder, Lifetime};
pub use self::target::Target;
use crate::env::in_runtime;
use crate::error::{Error, ErrorKind};
use crate::informer::{Core, Cores, CoresParts, Informer};
use crate::memory::MemoryUse;
use crate::object::{Keeps, Lens};
use crate::registry::{Registry, Via};
use crate::source::{
    ClientOptions, Compression, HttpSource, ListerWatcher, Representation, ResourceInfo, Wire,
    client_for, default_client,
};
use crate::sync::lock;

/// Makes informers, starts them together and ends them together. Cheap to clone; when the last
/// clone is dropped, every informer that it started ends.
#[derive(Clone)]
#[doc(alias = "SharedInformerFactory")]
pub struct InformerFactory(Arc<Inner>);

struct Inner {
    registry: Arc<Registry>,
    // Empty: all namespaces.
    namespaces: Vec<String>,
    projection: Projection,
    compression: Compression,
    wire: Wire,
    resync_period: Option<Duration>,
}

impl InformerFactory {
    /// A factory whose informers use `client`, over all namespaces.
    ///
    /// A client from kube retries 429, 503 and 504 by itself up to 15 times, which hides them from
    /// the informers, and has no limit of requests a second; [`from_config`](Self::from_config)
    /// makes one without the former and with the latter. [`client_for`] names the other differences.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A factory by kubectl's rules: kubeconfig, else the service account of the pod.
    ///
    /// # Errors
    /// No configuration is found, or it cannot be used.
    pub async fn try_default() -> Result<Self, Error> {
        Ok(Self::new(default_client().await?))
    }

    /// A factory with a client of its own for `config`.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn from_config(config: Config) -> Result<Self, Error> {
        Ok(Self::new(client_for(config, &ClientOptions::default())?))
    }

    /// A factory to be configured, whose informers use `client`.
    pub fn builder(client: Client) -> FactoryBuilder {
        FactoryBuilder::of_client(client)
    }

    /// A factory to be configured, whose informers get their source from `make`.
    pub fn with_sources(
        make: impl Fn(ResourceInfo, Representation) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
    ) -> FactoryBuilder {
        FactoryBuilder::of_sources(make)
    }

    /// The informer of `K`, in the factory's namespaces.
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        self.select(Target::new()).build()
    }

    /// Starts a builder for the informer of a [`Target`]: a type, a resource known by name
    /// ([`ResourceInfo`]), a discovered one (kube's `ApiResource` with its scope or capabilities),
    /// or the resource of a `kube::Api`.
    ///
    /// A namespace or selectors in a [`ResourceInfo`] are taken as they are. With an `Api`,
    /// requests go through the client of that `Api`, in its namespace; clients cannot be compared,
    /// so each call makes a watch of its own, and credentials share nothing: clone the informer
    /// instead. That client's own retries apply, see [`new`](Self::new).
    pub fn select<K>(&self, target: impl Into<Target<K>>) -> InformerBuilder<K> {
        let target = target.into();
        let namespaces = match (&target.namespaces, target.resource.scope) {
            (_, Scope::Cluster) => Vec::new(),
            (Some(namespaces), _) => namespaces.clone(),
            (None, _) => self.0.namespaces.clone(),
        };
        let (compression, wire) = (self.0.compression, self.0.wire);
        let via = target.client.map(|client| {
            Via(Arc::new(move |info, representation| {
                let source = HttpSource::new(client.clone(), info);
                let source = source.with_representation(representation);
                Arc::new(source.with_compression(compression).with_wire(wire)) as _
            }))
        });
        InformerBuilder::new(Selection {
            registry: Arc::clone(&self.0.registry),
            info: target.resource,
            namespaces,
            representation: target.representation,
            projection: self.0.projection.clone(),
            resync_period: self.0.resync_period,
            via,
        })
    }

    /// Starts every informer of the factory that does not run yet; to be called again after further
    /// informers were made.
    ///
    /// # Errors
    /// The factory was shut down, no tokio runtime runs here, or an informer cannot be shared as it was
    /// asked for ([`is_invalid`](Error::is_invalid)): then none is started.
    pub fn start(&self) -> Result<(), Error> {
        in_runtime()?;
        if self.0.registry.tasks.tracker.is_closed() {
            return Err(Error::new(
                ErrorKind::Stopped,
                "the factory was shut down: it starts nothing any more",
            ));
        }
        let cores = lock(&self.0.registry.cores);
        if let Some(mistake) = cores.values().find_map(|core| core.mistake.as_ref()) {
            return Err(Error::new(ErrorKind::Invalid, mistake.clone()));
        }
        cores.values().for_each(Core::start);
        drop(cores);
        Ok(())
    }

    /// Waits until every informer has stored its first list.
    ///
    /// # Errors
    /// The time ended first, or an informer was stopped; the error names each late informer, and
    /// why.
    ///
    /// Cancel safety: dropping the future loses nothing.
    #[doc(alias = "WaitForCacheSync")]
    pub async fn synced_within(&self, limit: Duration) -> Result<(), Error> {
        let informers = self.informers();
        let all = join_all(informers.iter().map(Informer::synced));
        let deadline = self.0.registry.env.now() + limit;
        tokio::select! {
            biased;
            results = all => results.into_iter().collect(),
            () = self.0.registry.env.sleep_until(deadline) => Err(late(&informers, limit)),
        }
    }

    /// Stops all informers, lets handlers hear all published changes, and returns when no task is
    /// left.
    ///
    /// Cancel safety: once polled, everything ends even if the wait is dropped.
    pub async fn shutdown(&self) {
        self.0.registry.tasks.stop.cancel();
        lock(&self.0.registry.cores)
            .values()
            .for_each(|core| core.stop());
        self.0.registry.tasks.tracker.close();
        self.0.registry.tasks.tracker.wait().await;
    }

    /// The same, but handlers that are not done at the limit are ended: an async function at its
    /// next await, closures after the batches under way (256 changes and the rest of a batch).
    /// Closures that may block ([`Handlers::blocking`](crate::Handlers::blocking)) hear the rest of
    /// their batch on their thread, which this does not wait for.
    ///
    /// Cancel safety: as [`shutdown`](Self::shutdown).
    pub async fn shutdown_within(&self, limit: Duration) {
        let deadline = self.0.registry.env.now() + limit;
        tokio::select! {
            biased;
            () = self.shutdown() => return,
            () = self.0.registry.env.sleep_until(deadline) => self.0.registry.tasks.abort.cancel(),
        }
        self.0.registry.tasks.tracker.wait().await;
    }

    /// Returns the number of tasks that run for the factory.
    pub fn task_count(&self) -> usize {
        self.0.registry.tasks.tracker.len()
    }

    /// The memory that its informers hold, if it has a budget
    /// ([`FactoryBuilder::memory_budget`]); what each has given up is in its
    /// [`stats`](Informer::stats).
    pub fn memory(&self) -> Option<MemoryUse> {
        self.0
            .registry
            .memory
            .as_ref()
            .map(|memory| memory.report())
    }

    /// The informers of the factory, one for each watch.
    pub fn informers(&self) -> Vec<Informer<DynamicObject>> {
        let cores: Vec<_> = {
            let cores = lock(&self.0.registry.cores);
            let cores = cores.values();
            cores.inspect(|core| core.hold()).map(Arc::clone).collect()
        };
        let view = |core: Arc<Core>| {
            let tasks = &self.0.registry.tasks;
            let namespace = core.info.namespace.clone();
            let cores = Cores::new(CoresParts {
                recipe: None,
                cores: vec![(namespace, core)],
                tasks,
                resync_period: None,
            });
            let reporters = cores.reporters().clone();
            let (type_meta, reduction) = (cores.info().type_meta(), cores.reduction());
            let lens = Lens::new(type_meta, Keeps::Nothing, reporters, None, reduction);
            Informer::new(cores, lens)
        };
        cores.into_iter().map(view).collect()
    }
}

fn late(informers: &[Informer<DynamicObject>], limit: Duration) -> Error {
    let late = informers.iter().filter(|informer| !informer.has_synced());
    let mut lines: Vec<_> = late
        .map(|informer| format!("{}: {}", informer.resource(), informer.state()))
        .collect();
    lines.sort_unstable();
    Error::new(
        ErrorKind::TimedOut,
        format!(
            "{} of {} informers are not synced after {limit:?}: {}",
            lines.len(),
            informers.len(),
            lines.join("; ")
        ),
    )
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.registry.tasks.abort.cancel();
        self.registry.tasks.tracker.close();
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerFactory")
            .field("namespaces", &self.0.namespaces)
            .field("tasks", &self.task_count())
            .finish_non_exhaustive()
    }
}
