//! The caches of a run, for applies that would change nothing or that must not be sent.
//!
//! ```text
//! cx.apply(object) → hands: known? ──▶ Seen: cached whole, all own writes seen ──▶ no request
//!                                       └─ another owner controls what is cached ──▶ an error
//! ```
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kinform_api::{GroupVersionResource, KeyRef, ObjectKey};

use super::stats::Counters;
use super::writes::Writes;
use crate::hands::{Applied, Caches, Memory};
use crate::informer::Core;

/// The applies that are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elides {
    /// Those that would change nothing.
    Applies,
    /// None.
    Nothing,
}

/// The applies of a controller that need not, or must not be sent.
pub(super) struct Elisions {
    /// `None` if each apply is sent, whether it would change anything or not.
    pub(super) applied: Option<Arc<Applied>>,
    pub(super) writes: Arc<Writes>,
    pub(super) counters: Arc<Counters>,
}

impl Elisions {
    /// The memory of an apply in a run of `key`.
    pub(super) fn memory(&self, key: &ObjectKey) -> Memory {
        Memory {
            applied: self.applied.clone(),
            caches: Box::new(Seen {
                key: key.clone(),
                writes: Arc::clone(&self.writes),
                counters: Arc::clone(&self.counters),
            }),
        }
    }
}

/// The caches, as far as they have seen the writes of a key.
struct Seen {
    key: ObjectKey,
    writes: Arc<Writes>,
    counters: Arc<Counters>,
}

impl Seen {
    /// The caches that may hold an object; none if one may lack a write of this controller to it.
    fn holders<'a>(
        &'a self,
        resource: &'a GroupVersionResource,
        object: KeyRef<'a>,
    ) -> impl Iterator<Item = Arc<Core>> + 'a {
        let is_seen = !self.writes.is_pending(&self.key, object);
        let resource_name = (&*resource.group, &*resource.resource);
        let caches = is_seen.then(|| self.writes.holders(resource_name, object));
        caches.into_iter().flatten()
    }
}

impl Caches for Seen {
    fn whole(&self, resource: &GroupVersionResource, object: KeyRef<'_>) -> Option<Vec<u8>> {
        self.holders(resource, object).find_map(|cache| {
            let is_whole = cache.info.resource == *resource && cache.keeps_whole();
            let cached = cache
                .get(object)
                .filter(|cached| is_whole && !cached.is_reduced())?;
            Some(cached.thawed().to_json(&cache.info.type_meta()))
        })
    }

    fn controller(
        &self,
        resource: &GroupVersionResource,
        object: KeyRef<'_>,
    ) -> Option<OwnerReference> {
        let mut caches = self.holders(resource, object);
        let cached = caches.find_map(|cache| cache.get(object))?;
        let owners = cached.owner_references();
        let owner = owners.into_iter().find(|owner| owner.controller)?;
        Some(OwnerReference {
            api_version: owner.api_version,
            kind: owner.kind,
            name: owner.name,
            uid: owner.uid,
            ..OwnerReference::default()
        })
    }

    fn elided(&self) {
        self.counters.elided.add(1);
    }
}
