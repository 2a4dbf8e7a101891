//! The stage between the wire and the store: what is kept of an object, and what is made of it.
//!
//! ```text
//! bytes of one object → Projection → (typed transform) → Object | Unreadable
//! ```
//!
//! Runs once an object version, before anything is stored or compared, outside all locks. A
//! transform that fails or panics sets its object apart, as one that cannot be read: it heals with
//! its next version. Key, uid and version always stay those of the wire.
//!
//! Upstream counterpart: `client-go:tools/cache` (`TransformFunc`), which runs on decoded objects.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kinform_api::TypeMeta;
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::object::typed::TypedCache;
use kinform_core::wire::item::Item;
use kinform_core::wire::unreadable::Unreadable;
use serde::Serialize;
use serde::de::DeserializeOwned;

type Apply = dyn Fn(&Object, &TypeMeta) -> Result<Object, Unreadable> + Send + Sync;

/// A function that changes objects before they are stored.
///
/// Clones of one transform are equal; two made apart are not, even of the same function: informers
/// share a watch only if they were given clones of one.
#[derive(Clone)]
pub struct Transform(Arc<Apply>);

impl Transform {
    /// `transform`, applied to the decoded object; the result is stored as JSON.
    pub fn typed<K>(transform: impl Fn(K) -> K + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + Serialize + Clone + Any + Send + Sync,
    {
        Self(Arc::new(move |object, meta| {
            let failed = |reason: String| unreadable(object, reason);
            let value = object
                .typed::<K>(meta, TypedCache::Never)
                .map_err(|error| failed(error.to_string()))?;
            let changed = catch_unwind(AssertUnwindSafe(|| transform(Arc::unwrap_or_clone(value))))
                .map_err(|_| failed("the transform panicked".to_owned()))?;
            let json = serde_json::to_vec(&changed)
                .map_err(|_| failed("the transformed object cannot be written".to_owned()))?;
            object.with_payload(&json)
        }))
    }
}

fn unreadable(object: &Object, reason: String) -> Unreadable {
    Unreadable {
        key: Some(object.key()),
        resource_version: Some(object.resource_version().to_owned()),
        path: String::new(),
        reason,
    }
}

impl PartialEq for Transform {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Transform {}

impl Hash for Transform {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transform")
    }
}

/// Makes objects of bytes.
#[derive(Debug)]
pub(crate) struct Ingest {
    /// What managedFields weighed, in all that was read.
    pub(crate) managed_fields_bytes: AtomicU64,
    pub(crate) projection: Projection,
    pub(crate) transform: Option<Transform>,
    pub(crate) type_meta: TypeMeta,
}

impl Ingest {
    pub(crate) fn object(&self, item: &Item<'_>) -> Result<Object, Unreadable> {
        let object = Object::from_item(item, &self.projection)?;
        self.managed_fields_bytes
            .fetch_add(item.managed_fields_bytes() as u64, Ordering::Relaxed);
        match &self.transform {
            Some(transform) => (transform.0)(&object, &self.type_meta),
            None => Ok(object),
        }
    }
}
