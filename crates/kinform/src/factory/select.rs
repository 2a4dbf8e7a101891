//! What an informer is to watch, said before it is asked for.
//!
//! ```text
//! factory.select(target) → InformerBuilder (namespaces, selectors, form, transform) → Informer<Pod>
//! ```
//!
//! Everything said here but how values are kept is part of what makes two informers the same: two
//! that differ in a selector are two watches.
//!
//! Upstream counterpart: `client-go:informers/factory.go` (`WithNamespace`, `WithTweakListOptions`,
//! `WithTransform`), there for a whole factory.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use kinform_api::Scope;
use kinform_core::object::budget::TypedBudget;
use kinform_core::object::projection::Projection;

use crate::informer::{Cores, CoresParts, Informer, Recipe, Storage, Transform};
use crate::object::{Keeps, Lens};
use crate::reflector_options::ReflectorOptions;
use crate::registry::{Identity, Patience, Registry, RegistryRecipe, Via};
use crate::source::{Representation, ResourceInfo};

/// What is selected before anything is narrowed.
pub(super) struct Selection {
    pub(super) registry: Arc<Registry>,
    pub(super) info: ResourceInfo,
    pub(super) namespaces: Vec<String>,
    pub(super) representation: Representation,
    pub(super) projection: Projection,
    pub(super) resync_period: Option<Duration>,
    pub(super) via: Option<Via>,
}

/// Narrows and trims an informer before it is asked for.
#[must_use]
pub struct InformerBuilder<K> {
    selection: Selection,
    transform: Option<Transform>,
    patience: Patience,
    storage: Storage,
    keeps: Keeps,
    stops_when_unused: bool,
    of: PhantomData<fn() -> K>,
}

impl<K> InformerBuilder<K> {
    pub(super) fn new(selection: Selection) -> Self {
        Self {
            selection,
            transform: None,
            patience: Patience(None),
            storage: Storage::Plain,
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

    /// Only objects whose fields match; which fields is up to the server.
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

    /// Asks for metadata only, which is a watch of its own.
    pub fn metadata_only(mut self) -> Self {
        self.selection.representation = Representation::Metadata;
        self
    }

    /// What is kept of each object.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.selection.projection = projection;
        self
    }

    /// Changes each object before it is stored.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// What its reflectors ask for and how patient they are, instead of the factory's: lists,
    /// pages, timeouts, backoff, the window for internal errors.
    /// An informer with such options of its own is a watch of its own.
    pub fn reflector(mut self, options: ReflectorOptions) -> Self {
        self.patience = Patience(Some(options.into_config()));
        self
    }

    /// How often each handler of this informer is told every stored object again, unless the handler says otherwise.
    /// A period is at least one second; zero is never.
    ///
    /// Default: the factory's. Upstream: the second argument of `NewSharedIndexInformer`.
    #[doc(alias = "defaultEventHandlerResyncPeriod")]
    pub fn resync_period(mut self, period: Duration) -> Self {
        self.selection.resync_period = Some(period);
        self
    }

    /// Keeps the objects compressed: for large caches of which little is read.
    ///
    /// What objects of the kind have in common is learnt from the first 256 of them (64 of large ones), or at the
    /// end of a smaller list of at least 32; until then they are kept as they came. Keys and versions are read as
    /// before; whatever else a handle reads, it inflates first, for itself: some microseconds an object. Changes that
    /// are told one by one come as the server said them, the state before them compressed; first lists, resyncs and
    /// what a handler hears that fell behind come compressed. Indexes cost nothing more, but for those that are added later.
    /// An informer that keeps its objects compressed is a watch of its own.
    ///
    /// Needs the feature `compressed`.
    ///
    /// Default: objects are kept as the server encoded them. Upstream counterpart: none.
    #[cfg(feature = "compressed")]
    pub fn keep_compressed(mut self) -> Self {
        self.storage = Storage::Compressed;
        self
    }

    /// Keeps what this handle decodes beside the bytes, as long as the object is stored.
    pub fn keep_decoded(mut self) -> Self {
        self.keeps = Keeps::All;
        self
    }

    /// Keeps of what this handle decodes what is read again, up to `bytes`; what was not read for longest makes
    /// room. What a value weighs is estimated from the bytes of its object.
    ///
    /// Units and default: bytes; without this nothing is kept.
    pub fn keep_decoded_within(mut self, bytes: usize) -> Self {
        self.keeps = Keeps::Within(TypedBudget::new(bytes));
        self
    }

    /// Its watch ends when its last handler or stream is given back; asking for it again after that
    /// makes a new one. Counts for everybody who shares it.
    pub fn stop_when_unused(mut self) -> Self {
        self.stops_when_unused = true;
        self
    }

    /// The informer: a new one, or one that runs already for somebody who asked for the same.
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
        let lens = Lens::new(type_meta, self.keeps, cores.reporters().clone());
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
