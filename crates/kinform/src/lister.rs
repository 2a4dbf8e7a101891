//! The lister: the interface of client-go's listers to a cache.
//!
//! ```text
//! Lister::namespace("a").get("x") → Obj<K> | Error that is_not_found()
//! ```
//!
//! Adds to [`Store`] an error for a missing object, with the resource's name in it, and selection
//! by labels within one namespace. As in [`Store::matching`], a selection uses an index of a label
//! if there is one.
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
    /// A view of the cache with the interface of client-go's listers.
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

    /// The objects that `selector` selects, of all namespaces.
    pub fn list(&self, selector: &LabelSelector) -> Vec<Obj<K>> {
        self.store.matching(selector)
    }

    /// A view of one namespace; the empty name means all of them, as upstream's.
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

    /// The objects that `selector` selects.
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
