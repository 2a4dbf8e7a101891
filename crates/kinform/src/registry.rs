//! The watches that a factory runs: one for all informers with equal requests.
//!
//! ```text
//! Identity (resource, namespace, selectors, form, projection, transform, storage, share,
//!           own client, own reflector options) → Core, made once
//! ```
//!
//! A recipe makes the watches of one informer, also those of namespaces that come later. It holds
//! the registry weakly: a handle keeps no factory alive. A watch is stopped when its namespace is
//! removed from the last informer that holds it, not when the last handle is dropped; a later
//! request makes a new one.
//! INVARIANT: a user's code that makes a source runs under no lock.
//!
//! Upstream counterpart: `client-go:informers/factory.go` (`sharedInformerFactory.informers`).

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Weak};

use kinform_core::object::projection::Projection;
use kinform_core::object::reduction::Reduction;
use kinform_core::reflector::config::ReflectorConfig;

use crate::env::Env;
use crate::informer::{
    Core, CoreParts, Ingest, Options, Recipe, Rewinds, Sharded, Storage, Tasks, Transform,
};
use crate::memory::Memory;
use crate::reporter::Reporter;
use crate::snapshot::{Disk, Selected};
use crate::source::{ListerWatcher, Representation, ResourceInfo};
use crate::sync::lock;

/// Makes the source of one watch.
pub(crate) type Sources =
    dyn Fn(ResourceInfo, Representation) -> Arc<dyn ListerWatcher> + Send + Sync;

/// Watches by identity. The hasher has fixed keys, so that a factory starts its informers in the same
/// order in each run of a simulation; identities are the program's own, not a server's.
pub(crate) type Cores = HashMap<Identity, Arc<Core>, BuildHasherDefault<DefaultHasher>>;

/// The watches of a factory, and the parts to make them.
pub(crate) struct Registry {
    pub(crate) sources: Box<Sources>,
    pub(crate) env: Env,
    pub(crate) options: Options,
    pub(crate) tasks: Tasks,
    /// Of the factory's own server.
    pub(crate) rewinds: Rewinds,
    /// Of the factory's own server.
    pub(crate) disk: Option<Arc<Disk>>,
    pub(crate) cores: Mutex<Cores>,
    /// The memory budget of all watches, if there is one.
    pub(crate) memory: Option<Arc<Memory>>,
}

/// The properties by which two watches are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) info: ResourceInfo,
    pub(crate) representation: Representation,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform>,
    pub(crate) via: Option<Via>,
    pub(crate) patience: Patience,
    pub(crate) storage: Storage,
    pub(crate) reduction: Option<Arc<Reduction>>,
    pub(crate) sharded: Option<Sharded>,
}

/// Reflector options of one informer, if it has its own: they are part of its identity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patience(pub(crate) Option<ReflectorConfig>);

/// An informer's own source, instead of the factory's. Two made separately are never the same:
/// clients cannot be compared, and caches are never shared between credentials.
#[derive(Clone)]
pub(crate) struct Via(pub(crate) Arc<Sources>);

/// Makes the watches of one identity; the namespace in it is filled in.
#[derive(Clone, Debug)]
pub(crate) struct RegistryRecipe {
    pub(crate) registry: Weak<Registry>,
    pub(crate) identity: Identity,
    pub(crate) stops_when_unused: bool,
}

impl Recipe for RegistryRecipe {
    fn core(&self, namespace: Option<&str>) -> Option<Arc<Core>> {
        let registry = self.registry.upgrade()?;
        let mut identity = self.identity.clone();
        identity.info.namespace = namespace.map(str::to_owned);
        let core = registry.core(identity);
        if self.stops_when_unused {
            core.stop_when_unused();
        }
        Some(core)
    }

    fn give_back(&self, core: &Core) {
        let Some(registry) = self.registry.upgrade() else {
            return;
        };
        let mut cores = lock(&registry.cores);
        if core.release() == 0 {
            core.stop();
            cores.retain(|_, core| !core.is_stopped());
        }
    }
}

impl Registry {
    fn core(&self, identity: Identity) -> Arc<Core> {
        if let Some(core) = lock(&self.cores).get(&identity)
            && !core.is_stopped()
        {
            core.hold();
            return Arc::clone(core);
        }
        // The user's code makes the source, so it runs outside the lock. A second caller may be
        // faster.
        let core = self.make(&identity);
        let mut cores = lock(&self.cores);
        let core = match cores.get(&identity) {
            Some(known) if !known.is_stopped() => Arc::clone(known),
            // None yet, or one that was stopped: its holders keep its last state.
            _ => {
                cores.retain(|_, core| !core.is_stopped());
                cores.insert(identity, Arc::clone(&core));
                core
            }
        };
        core.hold();
        core
    }

    fn make(&self, identity: &Identity) -> Arc<Core> {
        let info = identity.info.clone();
        let type_meta = info.type_meta();
        let mut options = self.options.clone();
        if let Some(config) = &identity.patience.0 {
            options.reflector.clone_from(config);
        }
        if identity.via.is_some() {
            // Another server: the factory's memory of its own server does not apply.
            options.stream_support = Default::default();
        }
        let reflector = &mut options.reflector;
        reflector.label_selector.clone_from(&info.label_selector);
        reflector.field_selector.clone_from(&info.field_selector);
        let source = |representation| match &identity.via {
            Some(Via(sources)) => sources(info.clone(), representation),
            None => (self.sources)(info.clone(), representation),
        };
        // A part of the objects is not what a list at a version has.
        let is_audited = options.reflector.audit_period.is_some() && identity.sharded.is_none();
        // A transform has no name that another process could compare; another client, another server.
        let disk = self.disk.as_ref().filter(|_| identity.via.is_none());
        let disk = disk.filter(|_| identity.transform.is_none());
        // The next process may have other shards.
        let disk = disk.filter(|_| identity.sharded.is_none());
        let made = source(identity.representation);
        // A program's own source may change objects as a transform does.
        let disk = disk.filter(|_| made.client().is_some());
        let shelf = disk.and_then(|disk| {
            let variant = format!("{:?} {:?}", identity.patience, identity.storage);
            let (form, projection) = (identity.representation, &identity.projection);
            let selected = Selected::new(&info, form, projection, variant);
            disk.shelf(&info, selected)
        });
        let is_of_factory = identity.via.is_none() && made.client().is_some();
        let core = Core::new(CoreParts {
            source: made,
            audit_source: is_audited.then(|| source(Representation::Metadata)),
            ingest: Ingest {
                managed_fields_bytes: AtomicU64::new(0),
                projection: identity.projection.clone(),
                transform: identity.transform.clone(),
                wire_type: identity.representation.type_of(&type_meta),
                type_meta,
                namespace: info.namespace.as_deref().map(Into::into),
                reporter: Reporter::new(),
            },
            storage: identity.storage,
            reduction: identity.reduction.clone(),
            sharded: identity.sharded.clone(),
            shelf,
            env: self.env.clone(),
            options,
            tasks: self.tasks.clone(),
            // A program's own client or source may be of another server.
            rewinds: match is_of_factory {
                true => self.rewinds.clone(),
                false => Rewinds::default(),
            },
            membership: self.memory.as_ref().map(Memory::join),
        });
        if self.tasks.stop.is_cancelled() {
            core.stop();
        }
        core
    }
}

impl Hash for Identity {
    /// All but the share: equal requests of different shares are rare, and watches without one start
    /// in the order that they have in a program without shares.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            info,
            representation,
            projection,
            transform,
            via,
            patience,
            storage,
            reduction,
            sharded: _,
        } = self;
        (info, representation, projection, transform).hash(state);
        (via, patience, storage, reduction).hash(state);
    }
}

// A policy that holds a NaN equals nothing: then each informer has a watch of its own.
impl Eq for Patience {}

impl Hash for Patience {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.is_some().hash(state);
    }
}

impl PartialEq for Via {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Via {}

impl Hash for Via {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl fmt::Debug for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Via")
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("cores", &lock(&self.cores).len())
            .finish_non_exhaustive()
    }
}
