//! What an informer is to watch, said before it is asked for.
//!
//! ```text
//! factory.select::<Pod>() → InformerBuilder (namespaces, selectors, form, transform) → Informer<Pod>
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

use kinform_api::Scope;
use kinform_core::object::budget::TypedBudget;
use kinform_core::object::projection::Projection;
use kinform_core::reflector::config::ReflectorConfig;

use crate::factory::InformerFactory;
use crate::informer::{Cores, Informer, Transform};
use crate::object::{Keeps, Lens};
use crate::registry::{Identity, Patience, Recipe, Storage, Via};
use crate::source::{Representation, ResourceInfo};

/// Narrows and trims an informer before it is asked for.
#[must_use]
pub struct InformerBuilder<K> {
    factory: InformerFactory,
    info: ResourceInfo,
    namespaces: Vec<String>,
    representation: Representation,
    projection: Projection,
    transform: Option<Transform>,
    via: Option<Via>,
    patience: Patience,
    storage: Storage,
    keeps: Keeps,
    stops_when_unused: bool,
    of: PhantomData<fn() -> K>,
}

impl<K> InformerBuilder<K> {
    pub(crate) fn new(
        factory: InformerFactory,
        info: ResourceInfo,
        namespaces: Vec<String>,
        projection: Projection,
    ) -> Self {
        Self {
            factory,
            info,
            namespaces,
            representation: Representation::Full,
            projection,
            transform: None,
            via: None,
            patience: Patience(None),
            storage: Storage::Plain,
            keeps: Keeps::Nothing,
            stops_when_unused: false,
            of: PhantomData,
        }
    }

    pub(crate) fn via(mut self, via: Via) -> Self {
        self.via = Some(via);
        self
    }

    /// Only objects whose labels match.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.info.label_selector = Some(selector.into());
        self
    }

    /// Only objects whose fields match; which fields is up to the server.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.info.field_selector = Some(selector.into());
        self
    }

    /// Only these namespaces, instead of the factory's; ignored for resources of the cluster.
    pub fn namespaces<N: Into<String>>(mut self, namespaces: impl IntoIterator<Item = N>) -> Self {
        if self.info.scope == Scope::Namespaced {
            self.namespaces = namespaces.into_iter().map(N::into).collect();
            self.namespaces.sort_unstable();
            self.namespaces.dedup();
        }
        self
    }

    /// Asks for metadata only, which is a watch of its own.
    pub fn metadata_only(mut self) -> Self {
        self.representation = Representation::Metadata;
        self
    }

    /// What is kept of each object.
    pub fn projection(mut self, projection: Projection) -> Self {
        self.projection = projection;
        self
    }

    /// Changes each object before it is stored.
    #[doc(alias = "SetTransform")]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// What its reflectors ask for and how patient they are, instead of the factory's: lists,
    /// pages, timeouts, backoff, the window for internal errors. Selectors in it are ignored.
    /// An informer with such options of its own is a watch of its own.
    pub fn reflector(mut self, config: ReflectorConfig) -> Self {
        self.patience = Patience(Some(config));
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
        let namespaces: Vec<Option<String>> = match self.namespaces.as_slice() {
            [] => vec![None],
            named => named.iter().cloned().map(Some).collect(),
        };
        let registry = self.factory.registry();
        let recipe = Recipe {
            registry: Arc::downgrade(registry),
            identity: Identity {
                info: self.info,
                representation: self.representation,
                projection: self.projection,
                transform: self.transform,
                via: self.via,
                patience: self.patience,
                storage: self.storage,
            },
            stops_when_unused: self.stops_when_unused,
        };
        let cores = namespaces.into_iter().map(|namespace| {
            let core = recipe.core(namespace.as_deref());
            (namespace, core.expect("the factory is held here"))
        });
        let cores = cores.collect();
        let cores = Cores::new(Some(recipe), cores, &registry.tasks);
        let lens = Lens::of(&cores, self.keeps);
        Informer::new(cores, lens)
    }
}

impl<K> fmt::Debug for InformerBuilder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformerBuilder")
            .field("info", &self.info)
            .field("namespaces", &self.namespaces)
            .finish_non_exhaustive()
    }
}
