//! One place to get informers from: whoever asks for the same gets the same watch.
//!
//! ```text
//! InformerFactory (one client) → InformerBuilder → Registry → Informer<K>
//!       start · synced_within · shutdown (drains, leaves no task) · drop (ends everything)
//! ```
//!
//! The same is: resource, namespace, selectors, representation, projection, transform and storage. The type
//! is not part of it: a typed and a dynamic view share one watch. A factory belongs to one client,
//! so caches are never shared between credentials.
//! INVARIANT: the factory owns every task of its informers; the handles own none.
//!
//! Upstream counterpart: `client-go:informers/factory.go`, `client-go:dynamic/dynamicinformer`.

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use kinform_api::{GroupVersionResource, Scope};
use kinform_core::fifo::FifoPolicy;
use kinform_core::object::projection::Projection;
use kinform_core::reflector::config::ReflectorConfig;
use kube_client::{Api, Client, Config};
use kube_core::dynamic::{ApiResource, DynamicObject};
use serde::de::DeserializeOwned;

use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::informer::{Core, Cores, Informer, Options, Tasks, in_runtime, lock};
use crate::object::{Keeps, Lens};
use crate::registry::{Registry, Sources, Via};
use crate::select::InformerBuilder;
use crate::source::{
    ClientOptions, Compression, HttpSource, ListerWatcher, Representation, ResourceInfo, Wire,
    client_for, default_client,
};

/// Makes informers, starts them together and ends them together. Cheap to clone; when the last
/// clone is dropped, everything it started ends.
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
}

impl InformerFactory {
    /// A factory whose informers use `client`, over all namespaces.
    ///
    /// A client that kube made retries 429, 503 and 504 by itself up to 15 times, which hides them
    /// from the informers; [`from_config`](Self::from_config) makes one that does not.
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
        FactoryBuilder::new(Origin::Client(client))
    }

    /// A factory to be configured, whose informers get their source from `make`.
    pub fn with_sources(
        make: impl Fn(ResourceInfo, Representation) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
    ) -> FactoryBuilder {
        FactoryBuilder::new(Origin::Sources(Box::new(make)))
    }

    /// The informer of `K`, in the factory's namespaces.
    pub fn informer<K>(&self) -> Informer<K>
    where
        K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        self.select::<K>().build()
    }

    /// The informer of `K`, to be narrowed or trimmed first.
    pub fn select<K>(&self) -> InformerBuilder<K>
    where
        K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        self.select_with(&K::DynamicType::default())
    }

    /// The same for a type that learns its resource at run time.
    pub fn select_with<K>(&self, kind: &K::DynamicType) -> InformerBuilder<K>
    where
        K: kube_core::Resource + DeserializeOwned + Send + Sync + 'static,
    {
        let cluster = TypeId::of::<K::Scope>() == TypeId::of::<kube_core::ClusterResourceScope>();
        let info = ResourceInfo::new(
            GroupVersionResource::new(K::group(kind), K::version(kind), K::plural(kind)),
            K::kind(kind),
            if cluster {
                Scope::Cluster
            } else {
                Scope::Namespaced
            },
        );
        let builder = self.select_resource(info);
        if K::metadata_api() {
            return builder.metadata_only();
        }
        builder
    }

    /// The informer of a resource known by name only.
    pub fn dynamic(&self, resource: ResourceInfo) -> Informer<DynamicObject> {
        self.select_resource(resource).build()
    }

    /// The informer of a discovered resource.
    pub fn dynamic_api(&self, resource: &ApiResource, scope: Scope) -> Informer<DynamicObject> {
        let gvr = GroupVersionResource::new(&resource.group, &resource.version, &resource.plural);
        self.dynamic(ResourceInfo::new(gvr, &resource.kind, scope))
    }

    /// The informer of a resource known by name only, to be narrowed or trimmed first. A namespace
    /// or selectors in `resource` are taken as they are.
    pub fn select_resource<K>(&self, resource: ResourceInfo) -> InformerBuilder<K> {
        let namespaces = match (&resource.namespace, resource.scope) {
            (_, Scope::Cluster) => Vec::new(),
            (Some(namespace), _) => vec![namespace.clone()],
            (None, _) => self.0.namespaces.clone(),
        };
        let projection = self.0.projection.clone();
        InformerBuilder::new(self.clone(), resource, namespaces, projection)
    }

    /// The informer of what `api` reaches, by the client of `api` and in its namespace, to be narrowed
    /// or trimmed first. Clients cannot be compared, so each call is a watch of its own, and nothing is
    /// shared between credentials: clone the informer instead.
    ///
    /// That client's own retries apply, see [`new`](Self::new).
    pub fn select_api<K>(&self, api: &Api<K>) -> InformerBuilder<K>
    where
        K: kube_core::Resource + DeserializeOwned + Clone + Send + Sync + 'static,
        K::DynamicType: Default,
    {
        let namespace = api.namespace().map(str::to_owned);
        let client = api.clone().into_client();
        let (compression, wire) = (self.0.compression, self.0.wire);
        let sources = move |info, representation| {
            let source = HttpSource::new(client.clone(), info).with_representation(representation);
            Arc::new(source.with_compression(compression).with_wire(wire)) as _
        };
        self.select::<K>()
            .namespaces(namespace)
            .via(Via(Arc::new(sources)))
    }

    /// Starts every informer that was asked for and does not run yet; to be called again after
    /// asking for more.
    ///
    /// # Errors
    /// The factory was shut down, or no tokio runtime runs here.
    pub fn start(&self) -> Result<(), Error> {
        in_runtime()?;
        if self.0.registry.tasks.tracker.is_closed() {
            return Err(Error::new(
                ErrorKind::Stopped,
                "the factory was shut down: it starts nothing any more",
            ));
        }
        lock(&self.0.registry.cores).values().for_each(Core::start);
        Ok(())
    }

    /// Waits until every informer has stored its first list.
    ///
    /// # Errors
    /// The time ended first, or an informer was stopped; the error names each that is late, and why.
    ///
    /// Cancel safety: nothing is lost.
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

    /// Stops all informers, lets handlers hear what was published, and returns when no task is left.
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

    /// The same, but handlers that are not done at the limit are ended after the change under way.
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

    /// How many tasks run for it.
    pub fn task_count(&self) -> usize {
        self.0.registry.tasks.tracker.len()
    }

    /// The informers that were asked for, one for each watch.
    pub fn informers(&self) -> Vec<Informer<DynamicObject>> {
        let cores: Vec<_> = {
            let cores = lock(&self.0.registry.cores);
            let cores = cores.values();
            cores.inspect(|core| core.hold()).map(Arc::clone).collect()
        };
        let view = |core: Arc<Core>| {
            let tasks = &self.0.registry.tasks;
            let namespace = core.info.namespace.clone();
            let cores = Cores::new(None, vec![(namespace, core)], tasks);
            let lens = Lens::of(&cores, Keeps::Nothing);
            Informer::new(cores, lens)
        };
        cores.into_iter().map(view).collect()
    }

    /// What its watches are made with.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.0.registry
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

enum Origin {
    Client(Client),
    Sources(Box<Sources>),
}

/// Configures a factory.
#[must_use]
pub struct FactoryBuilder {
    origin: Origin,
    namespaces: Vec<String>,
    projection: Projection,
    compression: Compression,
    wire: Wire,
    env: Env,
    options: Options,
}

impl FactoryBuilder {
    fn new(origin: Origin) -> Self {
        Self {
            origin,
            namespaces: Vec::new(),
            projection: Projection::default(),
            compression: Compression::default(),
            wire: Wire::default(),
            env: Env::system(),
            options: Options::default(),
        }
    }

    /// Only these namespaces; each gets a watch of its own. All of them if none is named.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(N::into).collect();
        self.namespaces.sort_unstable();
        self.namespaces.dedup();
        self
    }

    /// What is kept of every object, unless an informer says otherwise.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Whether replies may come compressed; not for sources of one's own.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// In which encodings replies may come; not for sources of one's own.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// What the reflectors ask for and how patient they are, unless an informer says otherwise;
    /// selectors in it are ignored.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.options.reflector = config;
        self
    }

    /// In what order deltas are applied.
    pub fn fifo(mut self, policy: FifoPolicy) -> Self {
        self.options.fifo = policy;
        self
    }

    /// Other clocks and randomness, for tests.
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// The factory.
    pub fn build(self) -> InformerFactory {
        let (compression, wire) = (self.compression, self.wire);
        let sources: Box<Sources> = match self.origin {
            Origin::Sources(sources) => sources,
            Origin::Client(client) => Box::new(move |info, representation| {
                let source = HttpSource::new(client.clone(), info);
                let source = source.with_representation(representation);
                Arc::new(source.with_compression(compression).with_wire(wire))
            }),
        };
        InformerFactory(Arc::new(Inner {
            registry: Arc::new(Registry {
                sources,
                env: self.env,
                options: self.options,
                tasks: Tasks::default(),
                cores: Mutex::default(),
            }),
            namespaces: self.namespaces,
            projection: self.projection,
            compression,
            wire,
        }))
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}
