//! Configures a factory before it makes informers.
//!
//! ```text
//! client, or a program's own sources → FactoryBuilder (namespaces, projection, bounds) →
//! InformerFactory
//! ```
//!
//! Upstream counterpart: `client-go:informers/factory.go` (`SharedInformerOption`).

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinform_core::fifo::{FifoLimits, FifoPolicy};
use kinform_core::informer::ring::RingLimits;
use kinform_core::object::projection::Projection;
use kube_client::Client;

use super::{InformerFactory, Inner};
use crate::env::Env;
use crate::informer::{Options, Rewinds, Tasks};
use crate::memory::Memory;
use crate::reflector_options::ReflectorOptions;
use crate::registry::{Registry, Sources};
use crate::snapshot::{Disk, DiskCache};
use crate::source::{Compression, HttpSource, ListerWatcher, Representation, ResourceInfo, Wire};

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
    resync_period: Option<Duration>,
    env: Env,
    options: Options,
    disk: Option<DiskCache>,
    memory: Option<u64>,
}

impl FactoryBuilder {
    pub(super) fn of_client(client: Client) -> Self {
        Self::new(Origin::Client(client))
    }

    pub(super) fn of_sources(
        make: impl Fn(ResourceInfo, Representation) -> Arc<dyn ListerWatcher> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Origin::Sources(Box::new(make)))
    }

    fn new(origin: Origin) -> Self {
        Self {
            origin,
            namespaces: Vec::new(),
            projection: Projection::default(),
            compression: Compression::default(),
            wire: Wire::default(),
            resync_period: None,
            env: Env::system(),
            options: Options::default(),
            disk: None,
            memory: None,
        }
    }

    /// Only these namespaces; each gets a watch of its own. All namespaces if the list is empty.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        self.namespaces = namespaces.into_iter().map(N::into).collect();
        self.namespaces.sort_unstable();
        self.namespaces.dedup();
        self
    }

    /// Sets the part of every object that is kept, unless an informer has its own.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Sets the compression of replies; not for a program's own sources. Default: none.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the encodings of replies; not for a program's own sources. Default: protobuf of built-in
    /// kinds and of metadata, else JSON.
    pub fn wire(mut self, wire: Wire) -> Self {
        self.wire = wire;
        self
    }

    /// Sets the options of the reflectors, unless an informer has its own.
    pub fn reflector(mut self, options: ReflectorOptions) -> Self {
        self.options.reflector = options.into_config();
        self
    }

    /// Sets the period after which each handler hears every stored object again, unless an informer
    /// or the handler has its own. A period is at least one second; zero disables resync.
    ///
    /// Default: never. Upstream: the second argument of `NewSharedInformerFactory`.
    #[doc(alias = "defaultResync")]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.resync_period = Some(period);
        self
    }

    /// Sets the order in which deltas are applied. Default: as they came.
    pub fn fifo(mut self, policy: FifoPolicy) -> Self {
        self.options.fifo = policy;
        self
    }

    /// Bounds the deltas that wait between reading and applying; at the bound, reading stops.
    pub fn fifo_limits(mut self, limits: FifoLimits) -> Self {
        self.options.fifo_limits = limits;
        self
    }

    /// Bounds the changes that are kept for slow handlers; a handler that falls further behind
    /// receives a diff instead. Changes that every handler has received are not kept.
    pub fn ring_limits(mut self, limits: RingLimits) -> Self {
        self.options.ring = limits;
        self
    }

    /// Keeps the caches on disk, so that the next start needs no list. Default: `None`, in memory only.
    pub fn disk_cache(mut self, disk: impl Into<Option<DiskCache>>) -> Self {
        self.disk = disk.into();
        self
    }

    /// Sets the bytes that all caches of the factory may take together, tables and indexes included.
    ///
    /// Above them, informers give up decoded values, then plain bodies: objects are kept compressed,
    /// the largest cache first, with zstd if there is the feature `compressed`, else with LZ4. Reads
    /// give the same, and cost more. Those that
    /// [can do without some fields](crate::InformerBuilder::reducible_to) then give these up: reads of
    /// them are errors. Steps are taken back when there has been room for them for half
    /// a minute; see [`InformerFactory::memory`].
    ///
    /// Default: `None`, no budget. Upstream counterpart: none.
    pub fn memory_budget(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.memory = bytes.into();
        self
    }

    /// Sets other clocks and randomness, for tests.
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
                rewinds: Rewinds::default(),
                disk: self.disk.map(Disk::new),
                cores: Mutex::default(),
                memory: self.memory.map(Memory::new),
            }),
            namespaces: self.namespaces,
            projection: self.projection,
            compression,
            wire,
            resync_period: self.resync_period,
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
