//! The lister: a cache read as client-go's listers are.
//!
//! ```text
//! Lister::namespace("a").get("x") → Obj<K> | Error that is_not_found()
//! ```
//!
//! Adds to [`Store`] an error for what is missing, with the resource's name in it, and selection by
//! labels, which uses an index of a label where there is one.
//!
//! Upstream counterpart: `client-go:tools/cache/listers.go`, `client-go:listers`.

use std::fmt;

use kinform_api::selector::LabelSelector;
use kinform_api::{GroupResource, KeyRef};

use crate::error::{Error, ErrorKind};
use crate::informer::Informer;
use crate::object::Obj;
use crate::store::Store;

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

impl<K> Informer<K> {
    /// The cache as client-go's listers are read.
    pub fn lister(&self) -> Lister<K> {
        Lister::new(self.store(), self.resource().resource.group_resource())
    }
}

impl<K> Lister<K> {
    fn new(store: Store<K>, resource: GroupResource) -> Self {
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
        self.store.matching(selector)
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
        let snapshot = self.lister.store.snapshot();
        snapshot.matching_in(&self.namespace, selector)
    }
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
