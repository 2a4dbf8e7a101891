//! The mirrors of versions that are not stored (`storage/mirror.rs`), one for each that was read.
//!
//! ```text
//! resource ──same definition──▶ its mirror        another definition ──▶ a new mirror
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::resource::ResourceInfo;
use crate::storage::Store;
use crate::storage::mirror::Mirror;

/// The mirrors of a server.
#[derive(Debug, Default)]
pub(crate) struct Mirrors(
    // BOUND: one for each version of a definition that is served.
    Mutex<Vec<(Arc<ResourceInfo>, Arc<Mirror>)>>,
);

impl Mirrors {
    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<ResourceInfo>, Arc<Mirror>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mirror of a resource, and whether it was made now.
    pub(crate) fn of(&self, store: &Store, resource: &Arc<ResourceInfo>) -> (Arc<Mirror>, bool) {
        let mut all = self.lock();
        let is_same =
            |of: &ResourceInfo| of.shelf == resource.shelf && of.version == resource.version;
        let found = all.iter().position(|(of, _)| is_same(of));
        if let Some(found) = found
            && all[found].0.serves_as(resource)
        {
            // Compared faster the next time.
            all[found].0 = resource.clone();
            return (all[found].1.clone(), false);
        }
        let mirror = Arc::new(Mirror::new(resource.shelf, store.limits()));
        let made = (resource.clone(), mirror.clone());
        match found {
            Some(found) => all[found] = made,
            None => all.push(made),
        }
        (mirror, true)
    }

    /// Returns the mirror of a resource that was read already.
    pub(crate) fn known(&self, resource: &ResourceInfo) -> Option<Arc<Mirror>> {
        let all = self.lock();
        let is_it = |of: &ResourceInfo| {
            of.shelf == resource.shelf && of.version == resource.version && of.serves_as(resource)
        };
        let found = all.iter().find(|(of, _)| is_it(of));
        found.map(|(_, mirror)| mirror.clone())
    }

    /// Returns whether a mirror is still in use.
    pub(crate) fn has(&self, mirror: &Arc<Mirror>) -> bool {
        self.lock().iter().any(|(_, of)| Arc::ptr_eq(of, mirror))
    }

    /// Removes a mirror that nobody fills.
    pub(crate) fn remove(&self, mirror: &Arc<Mirror>) {
        self.lock().retain(|(_, of)| !Arc::ptr_eq(of, mirror));
    }
}
