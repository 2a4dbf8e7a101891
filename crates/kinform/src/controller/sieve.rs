//! The events of the primary resource that reach the queue.
//!
//! ```text
//! event → the controller's own finalizer write? hidden → predicate → key into the queue
//! ```
//!
//! The write that adds a finalizer is hidden by its version, since the run that made it goes on
//! with the object as it was stored then. A state is hidden only if that very version is heard.
//!
//! Upstream counterpart: `controller-runtime:pkg/predicate`; none for own writes.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Mutex;

use kinform_api::{ObjectKey, ResourceVersion};
use kinform_core::object::Object;

use super::predicate::Predicate;
use crate::sync::lock;

/// BOUND: own writes whose event was not heard yet; at the bound, all are heard again.
const OWN_MAX: usize = 1024;

/// Decides which events are heard.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    predicate: Mutex<Option<Predicate>>,
    /// The versions of own writes.
    own: Mutex<HashMap<ObjectKey, String>>,
}

impl Sieve {
    /// Adds a condition.
    pub(super) fn add(&self, predicate: Predicate) {
        let mut known = lock(&self.predicate);
        *known = Some(match known.take() {
            Some(known) => known.and(predicate),
            None => predicate,
        });
    }

    /// The condition, for a handler that asks it for each event.
    pub(super) fn predicate(&self) -> Option<Predicate> {
        lock(&self.predicate).clone()
    }

    /// Records a write whose event is not to be heard.
    pub(super) fn wrote(&self, key: &ObjectKey, version: &str) {
        let mut own = lock(&self.own);
        if own.len() >= OWN_MAX {
            own.clear();
        }
        own.insert(key.clone(), version.to_owned());
    }

    /// Returns whether an update is the event of an own write. Each handler hears it; the write is
    /// forgotten at the next version.
    pub(super) fn is_own(&self, object: &Object) -> bool {
        let mut own = lock(&self.own);
        if own.is_empty() {
            return false;
        }
        let key = object.key();
        let Some(version) = own.get(&key) else {
            return false;
        };
        let heard = ResourceVersion::from(object.resource_version());
        match heard.compare(&ResourceVersion::from(version.as_str())) {
            Ok(Ordering::Equal) => true,
            Ok(Ordering::Less) => false,
            Ok(Ordering::Greater) | Err(_) => {
                let is_same = version == object.resource_version();
                own.remove(&key);
                is_same
            }
        }
    }
}
