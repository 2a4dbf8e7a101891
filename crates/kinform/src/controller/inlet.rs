//! The way of events into the queue, with their causes.
//!
//! ```text
//! event → own write? (ignored if asked) → (key, cause) → WorkQueue
//! ```
//!
//! An event can come before the reply to the write that it reports. Such an event of a key that is
//! running queues it; `settle` of the worker takes that back once the reply has named the version.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use kinform_api::ObjectKey;
use kinform_core::causes::Cause;
use kinform_core::object::Object;
use kinform_core::queue::Priority;
use tokio::sync::Notify;

use super::echo::Echoes;
use super::feed::{Sink, WrittenBy};
use super::sharded::Sharded;
use super::writes::Writes;
use crate::workqueue::WorkQueue;

/// The sink of a controller's triggers.
pub(super) struct Inlet {
    pub(super) queue: WorkQueue<ObjectKey>,
    pub(super) writes: Arc<Writes>,
    pub(super) echoes: Echoes,
    pub(super) sharded: Option<Sharded>,
    /// Told when something has changed: its key is not to wait until all objects are heard.
    pub(super) urgent: Notify,
}

impl Sink for Inlet {
    fn heard(&self, source: u16, object: &Object) {
        self.writes.unheard.heard(source, object);
    }

    fn written_by(&self, cause: &Cause, object: &Object) -> WrittenBy {
        match self.writes.own.knows(cause, object.key_hash()) {
            None => WrittenBy::Unknown,
            Some(write) if self.echoes == Echoes::Ignored => WrittenBy::Ignored(write),
            Some(_) => WrittenBy::Own,
        }
    }

    fn compares(&self) -> bool {
        self.writes.loops.follows_some()
    }

    fn compare(&self, key: &ObjectKey, source: u16, old: &Object, new: &Object) {
        self.writes.loops.updated(key, source, old, new);
    }

    fn add_all(&self, mut keys: Vec<(ObjectKey, Cause)>, priority: Priority) {
        if let Some(sharded) = &self.sharded {
            keys.retain(|(key, _)| sharded.admits(key));
        }
        if priority != Priority::Low && !keys.is_empty() {
            self.urgent.notify_one();
        }
        self.queue.add_caused(keys, priority);
    }
}
