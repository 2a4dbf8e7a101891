//! A factory's memory of the resources whose streaming lists stall.
//!
//! ```text
//! FellBack { until } of one reflector → StreamSupport (a factory's) → ReflectorConfig of the next
//! ```
//!
//! A factory talks to one server. A streaming list that stalled there would stall again: for some
//! time each new informer of that resource begins with pages.
//! BOUND: one instant for each resource that the factory was asked for.
//!
//! Upstream counterpart: none; `client-go:tools/cache/reflector.go` tries the stream each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kinform_api::GroupVersionResource;
use kinform_core::reflector::config::{ReflectorConfig, StreamingList};
use kinform_core::time::Instant;

use crate::sync::lock;

/// The resources whose streaming lists stalled, each with the end of its memory; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamSupport(Arc<Mutex<HashMap<GroupVersionResource, Instant>>>);

impl StreamSupport {
    /// Records that streaming lists of `resource` do not work here: pages until then.
    pub(super) fn no_streams_until(&self, resource: &GroupVersionResource, until: Instant) {
        lock(&self.0).insert(resource.clone(), until);
    }

    /// Returns `config`, adapted to `resource` on this server. The user's own choices stay.
    pub(super) fn advise(
        &self,
        resource: &GroupVersionResource,
        mut config: ReflectorConfig,
    ) -> ReflectorConfig {
        if config.streaming_list == StreamingList::Preferred
            && let Some(&until) = lock(&self.0).get(resource)
        {
            config.streaming_list = StreamingList::NotBefore(until);
        }
        config
    }
}
