//! The handle that records events.
//!
//! ```text
//! event(..), for_object(..).normal(..) → Occurrence → bounded queue (never waits)
//! ```
//!
//! Upstream counterpart: `client-go:tools/record` (`EventRecorder`), `client-go:tools/events`
//! (`EventRecorder`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::Resource;
use tokio::sync::mpsc;

use super::correlator::Correlator;
use super::counts::{Counters, EventCounts};
use super::delivery::EventDelivery;
use super::machine::Machine;
use super::occurrence::{EventType, Occurrence};
use super::series::Series;
use crate::env::wall_clock;

/// BOUND: events that wait for delivery; more are dropped. Upstream: `maxQueuedEvents`.
const QUEUED_MAX: usize = 1000;

/// Records events about objects; cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    counters: Arc<Counters>,
}

/// Records events about one object.
#[derive(Clone, Debug)]
#[must_use = "it records by `normal` and `warning`"]
pub struct ObjectEvents<'r> {
    recorder: &'r EventRecorder,
    about: ObjectReference,
    related: Option<ObjectReference>,
    action: String,
}

impl EventRecorder {
    /// A recorder for `component` (the controller's name) that writes events of `v1`, and the
    /// delivery of its events. Equal events count up, similar ones are combined.
    pub fn new(client: kube_client::Client, component: &str) -> (Self, EventDelivery) {
        let machine = Machine::Core(Correlator::default());
        Self::with_machine(client, component, machine)
    }

    /// A recorder for `controller` (a qualified name) that writes events of `events.k8s.io/v1`, and
    /// the delivery of its events. Equal events are a series.
    pub fn with_series(client: kube_client::Client, controller: &str) -> (Self, EventDelivery) {
        let machine = Machine::Series(Series::default());
        Self::with_machine(client, controller, machine)
    }

    fn with_machine(
        client: kube_client::Client,
        controller: &str,
        machine: Machine,
    ) -> (Self, EventDelivery) {
        let (queue, receiver) = mpsc::channel(QUEUED_MAX);
        let counters = Arc::default();
        let delivery =
            EventDelivery::new(client, controller, receiver, machine, Arc::clone(&counters));
        (Self { queue, counters }, delivery)
    }

    /// Records an event about an object (`kube_core::Resource::object_ref` names it). Returns
    /// immediately.
    ///
    /// A message longer than 1 KiB is cut. If the queue is full or delivery has ended, the event is
    /// dropped and counted.
    pub fn event(
        &self,
        about: ObjectReference,
        event_type: EventType,
        reason: &str,
        message: &str,
    ) {
        self.for_reference(about)
            .record(event_type, reason, message);
    }

    /// Records a normal event about an object; see [`event`](Self::event).
    pub fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: &str) {
        self.for_object(object).normal(reason, note);
    }

    /// Records a warning about an object; see [`event`](Self::event).
    pub fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: &str, note: &str) {
        self.for_object(object).warning(reason, note);
    }

    /// A recorder of events about one object.
    pub fn for_object<K: Resource<DynamicType = ()>>(&self, object: &K) -> ObjectEvents<'_> {
        self.for_reference(object.object_ref(&()))
    }

    /// The same, for an object that is known by a reference, and may be gone.
    pub fn for_reference(&self, about: ObjectReference) -> ObjectEvents<'_> {
        ObjectEvents {
            recorder: self,
            about,
            related: None,
            action: String::new(),
        }
    }

    /// The numbers of this recorder and its clones.
    #[must_use]
    pub fn counts(&self) -> EventCounts {
        self.counters.snapshot()
    }

    /// Events dropped because the queue was full, delivery had ended, the object was noisy, or the
    /// server could not be reached.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counts().dropped
    }
}

impl ObjectEvents<'_> {
    /// Adds a second object that the events are about.
    pub fn related<K: Resource<DynamicType = ()>>(mut self, object: &K) -> Self {
        self.related = Some(object.object_ref(&()));
        self
    }

    /// Sets what the controller did or tried, a word as `Scale`. Default: the reason.
    pub fn action(mut self, action: &str) -> Self {
        action.clone_into(&mut self.action);
        self
    }

    /// Records a normal event.
    pub fn normal(&self, reason: &str, note: &str) {
        self.record(EventType::Normal, reason, note);
    }

    /// Records a warning.
    pub fn warning(&self, reason: &str, note: &str) {
        self.record(EventType::Warning, reason, note);
    }

    fn record(&self, event_type: EventType, reason: &str, note: &str) {
        let occurrence = Occurrence {
            about: self.about.clone(),
            related: self.related.clone(),
            event_type,
            reason: reason.to_owned(),
            action: self.action.clone(),
            note: note.to_owned(),
            at: wall_clock(),
        };
        let EventRecorder { queue, counters } = self.recorder;
        if queue.try_send(occurrence.cut()).is_err() {
            counters.dropped.add(1);
        }
    }
}
