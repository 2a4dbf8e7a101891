//! The lister: a cache read as client-go's listers are.
//!
//! ```text
//! Lister::namespace("a").get("x") → Obj<K> | Error that is_not_found()
//! ```
//!
//! Adds to [`Store`] an error for what is missing, with the resource's name in it, and selection by
//! labels. A selector is a walk over the listing; for values that are asked for often, add an index.
//!
//! Upstream counterpart: `client-go:tools/cache/listers.go`, `client-go:listers`.

use std::fmt;

use kinform_api::selector::LabelSelector;
use kinform_api::{GroupResource, KeyRef};

use crate::error::{Error, ErrorKind};
use crate::object::Obj;
use crate::store::{Listing, Store};

/// Reads a cache.
pub struct Lister<K> {
    store: Store<K>,
    resource: GroupResource,
}

/// Reads one namespace of a cache.
pub struct NamespaceLister<K> {
    lister: Lister<K>,
    namespace: String,
}

impl<K> Lister<K> {
    pub(crate) fn new(store: Store<K>, resource: GroupResource) -> Self {
        Self { store, resource }
    }

    /// An object of the cluster.
    ///
    /// # Errors
    /// It is not in the cache ([`Error::is_not_found`]).
    pub fn get(&self, name: &str) -> Result<Obj<K>, Error> {
        self.find("", name)
    }

    /// The objects that `selector` wants, of all namespaces.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        select(&self.store.list(), selector)
    }

    /// One namespace of it; the empty name is all of them, as upstream's.
    #[must_use]
    pub fn namespace(&self, namespace: impl Into<String>) -> NamespaceLister<K> {
        NamespaceLister {
            lister: self.clone(),
            namespace: namespace.into(),
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Result<Obj<K>, Error> {
        self.store
            .get_ref(KeyRef { namespace, name })
            .ok_or_else(|| {
                // The words of apimachinery's NotFound.
                let message = format!("{} {name:?} not found", self.resource);
                Error::new(ErrorKind::NotFound, message)
            })
    }
}

impl<K> NamespaceLister<K> {
    /// The object of this name.
    ///
    /// # Errors
    /// It is not in the cache ([`Error::is_not_found`]).
    pub fn get(&self, name: &str) -> Result<Obj<K>, Error> {
        self.lister.find(&self.namespace, name)
    }

    /// The objects that `selector` wants.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        if self.namespace.is_empty() {
            return self.lister.list(selector);
        }
        select(&self.lister.store.in_namespace(&self.namespace), selector)
    }
}

fn select<K>(listing: &Listing<K>, selector: &LabelSelector) -> Vec<Obj<K>> {
    listing.matching(|object| {
        let object = object.thawed();
        let labels: Vec<_> = object.labels().collect();
        selector.matches(|key| {
            let found = labels.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.as_ref())
        })
    })
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self::new(self.store.clone(), self.resource.clone())
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        self.lister.namespace(&*self.namespace)
    }
}

impl<K> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister")
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl<K> fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceLister")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}
