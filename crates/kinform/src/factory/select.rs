//! The choice of an informer before it is built.
//!
//! ```text
//! factory.select(target) → InformerBuilder (namespaces, selectors, form, …) → Informer<Pod>
//! ```
//!
//! All of these choices are part of an informer's identity, except the decoded values that are
//! kept, the resync period and the lifetime: two that differ in a selector are two watches.
//!
//! Upstream counterpart: `client-go:informers/factory.go` (`WithNamespace`, `WithTweakListOptions`,
//! `WithTransform`), there for a whole factory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::{FieldPath, Scope};
use kinform_core::object::budget::TypedBudget;
use kinform_core::object::projection::Projection;
use kinform_core::object::reduction::Reduction;

use crate::informer::{Cores, CoresParts, Informer, Recipe, Sharded, Storage, Transform};
use crate::object::{Keeps, Lens};
use crate::reflector_options::ReflectorOptions;
use crate::registry::{Identity, Patience, Registry, RegistryRecipe, Via};
use crate::share::Share;
use crate::source::{Representation, ResourceInfo};

/// The selection before it is narrowed.
pub(super) struct Selection {
    pub(super) registry: Arc<Registry>,
    pub(super) info: ResourceInfo,
    pub(super) namespaces: Vec<String>,
    pub(super) representation: Representation,
    pub(super) projection: Projection,
    pub(super) resync_period: Option<Duration>,
    pub(super) via: Option<Via>,
}

/// Configures an informer before it is built.
#[must_use]
pub struct InformerBuilder<K> {
    selection: Selection,
    transform: Option<Transform>,
    patience: Patience,
    storage: Storage,
    reduction: Option<Arc<Reduction>>,
    sharded: Option<Sharded>,
    keeps: Keeps,
    stops_when_unused: bool,
    of: PhantomData<fn() -> K>,
}

/// Decoded values that an informer keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodedValues {
    /// No values: each `typed()` decodes.
    #[default]
    None,
    /// Those that are read repeatedly, up to this number of bytes; the least recently read value is
    /// evicted first. The weight of a value is estimated from the bytes of its object.
    Within(usize),
    /// All values, in addition to the bytes, as long as the object is stored.
    All,
}

/// The lifetime of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifetime {
    /// As long as the factory, or until it is stopped.
    #[default]
    OfFactory,
    /// Until its last handler is removed and its last stream is dropped; a later request makes a
    /// new one. Dropping a [`Registration`](crate::Registration) removes no handler.
    WhileUsed,
}

impl<K> InformerBuilder<K> {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            transform: None,
            patience: Patience(None),
            storage: Storage::Plain,
            reduction: None,
            sharded: None,
            keeps: Keeps::Nothing,
            stops_when_unused: false,
            of: PhantomData,
        }
    }

    /// Only objects whose labels match.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.selection.info.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose fields match; the server decides which fields it supports.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.selection.info.field_selector = Some(selector.into());
        self
    }

    /// Only these namespaces, instead of the factory's; ignored for resources of the cluster.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        if self.selection.info.scope == Scope::Namespaced {
            self.selection.namespaces = namespaces.into_iter().map(N::into).collect();
            self.selection.namespaces.sort_unstable();
            self.selection.namespaces.dedup();
        }
        self
    }

    /// Requests metadata only, which is a watch of its own.
    pub fn metadata_only(mut self) -> Self {
        self.selection.representation = Representation::Metadata;
        self
    }

    /// Sets the part of each object that is kept.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.selection.projection = projection;
        self
    }

    /// Keeps only objects of a share: those whose namespace or uid, as its [`Shards`](crate::Shards) say,
    /// has a hash in its ranges. The ranges may come and go while the informer runs.
    ///
    /// An object whose range is given up leaves the cache. Nobody hears of that, neither as a deletion nor
    /// in a resync; if the range comes back, so does the object, as an add. Each extension costs a list;
    /// several that are there at once cost one. With no range the informer asks for nothing, is empty, and
    /// counts as synced.
    ///
    /// The cache is not kept on disk and not audited. A resource of the cluster cannot be shared by
    /// namespaces: [`InformerFactory::start`](crate::InformerFactory::start) then fails.
    pub fn share(mut self, share: &Share) -> Self {
        self.sharded = Some(Sharded::own(share));
        self
    }

    /// The same for objects whose controlling owners are of a share, such as the pods of its ReplicaSets.
    /// An object without a controlling owner is not kept, and one that passes to an owner outside of the
    /// share is heard as deleted.
    ///
    /// By uid, the server sends the objects of all owners, and this process drops the others. Projection
    /// and transform must keep `metadata.ownerReferences`. By namespace, this is [`share`](Self::share).
    pub fn share_of_owners(mut self, share: &Share) -> Self {
        self.sharded = Some(Sharded::of_owners(share));
        self
    }

    /// Changes each object before it is stored.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// Sets the options of its reflectors, instead of the factory's: lists, pages, timeouts,
    /// backoff, the window for internal errors. An informer with its own options has a watch of its
    /// own.
    pub fn reflector(mut self, options: ReflectorOptions) -> Self {
        self.patience = Patience(Some(options.into_config()));
        self
    }

    /// Sets the period after which each of its handlers hears every stored object again, unless the
    /// handler has its own. A period is at least one second; zero disables resync.
    ///
    /// Default: the factory's. Upstream: the second argument of `NewSharedIndexInformer`.
    #[doc(alias = "defaultEventHandlerResyncPeriod")]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.selection.resync_period = Some(period);
        self
    }

    /// Sets the form in which the cache keeps its objects; another form is another watch.
    ///
    /// Default: as the server encoded them. Upstream counterpart: none.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Allows the cache to give up fields when the factory's memory budget cannot be held otherwise: what is left
    /// of an object is its metadata, except for `managedFields`, and what is at these paths.
    ///
    /// This is the last step of the [budget](crate::FactoryBuilder::memory_budget). While it is taken,
    /// [`Obj::is_reduced`](crate::Obj::is_reduced) says so of an object, [`Obj::typed`](crate::Obj::typed) is an
    /// error, and so is [`Obj::at`](crate::Obj::at) of a path that is not among these. A single change still
    /// reaches handlers with all fields of the new state; first lists, resyncs, old states and a late handler's
    /// replay reach them without. Once there is room again, a list brings the fields back, and no handler hears
    /// of that.
    ///
    /// Meant for caches that are read by key, label, index and a few paths. A path to one element of a list keeps
    /// that of every element. A controller that decodes such an object retries until it can. Indexes may read any
    /// field, but one that is added after the start, and that of a [join](crate::Informer::join), only metadata
    /// and these paths. Waiting for a [condition](crate::until::condition) needs `status.conditions` among them.
    ///
    /// Default: no field is given up. Without a budget nothing is. Upstream counterpart: none.
    pub fn reducible_to(mut self, paths: impl IntoIterator<Item = FieldPath>) -> Self {
        self.reduction = Some(Arc::new(Reduction::keeping(paths)));
        self
    }

    /// Sets the decoded values that this handle keeps. Default: none.
    pub fn decoded_values(mut self, keeps: DecodedValues) -> Self {
        self.keeps = match keeps {
            DecodedValues::All => Keeps::All,
            DecodedValues::Within(bytes) => Keeps::Within(Arc::new(TypedBudget::new(bytes))),
            DecodedValues::None => Keeps::Nothing,
        };
        self
    }

    /// Sets the lifetime of its watch, for every informer that shares it. Default: as long as the
    /// factory.
    pub fn lifetime(mut self, lifetime: Lifetime) -> Self {
        self.stops_when_unused = lifetime == Lifetime::WhileUsed;
        self
    }

    /// The informer. It shares the watch of an earlier equal request, unless that watch was
    /// stopped.
    pub fn build(self) -> Informer<K> {
        let selection = self.selection;
        let namespaces: Vec<Option<String>> = match selection.namespaces.as_slice() {
            [] => vec![None],
            named => named.iter().cloned().map(Some).collect(),
        };
        let type_meta = selection.info.type_meta();
        let registry = selection.registry;
        let recipe = RegistryRecipe {
            registry: Arc::downgrade(&registry),
            identity: Identity {
                info: selection.info,
                representation: selection.representation,
                projection: selection.projection,
                transform: self.transform,
                via: selection.via,
                patience: self.patience,
                storage: self.storage,
                reduction: self.reduction,
                sharded: self.sharded,
            },
            stops_when_unused: self.stops_when_unused,
        };
        let cores = namespaces.into_iter().map(|namespace| {
            let core = recipe.core(namespace.as_deref());
            (namespace, core.expect("the registry is held here"))
        });
        let cores = Cores::new(CoresParts {
            cores: cores.collect(),
            recipe: Some(Arc::new(recipe)),
            tasks: &registry.tasks,
            resync_period: selection.resync_period,
        });
        let memory = registry.memory.as_ref().map(Arc::clone);
        let (reporters, reduction) = (cores.reporters().clone(), cores.reduction());
        let lens = Lens::new(type_meta, self.keeps, reporters, memory, reduction);
        Informer::new(cores, lens)
    }
}

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("info", &self.selection.info)
            .field("namespaces", &self.selection.namespaces)
            .finish_non_exhaustive()
    }
}
