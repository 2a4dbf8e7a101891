//! Events: a controller's messages to people about an object (`kubectl describe` shows them).
//!
//! ```text
//! EventRecorder::event (never waits) → bounded queue → EventDelivery::run → POST | PATCH
//! ```
//!
//! A recorder is a handle for reconcile functions; delivery is one future that its owner runs in
//! parallel to the controller. Events are for people, so they are never worth a stall: a full queue
//! drops (and counts) the new one, a noisy object is rate limited, an event that the server refuses
//! is logged once and dropped. Equal events within ten minutes are one object whose count grows.
//! Never: retries a refusal, exceeds its bounds, fails a reconcile.
//!
//! Upstream counterpart: `client-go:tools/record` (`event.go`, `events_cache.go`). Not here: the
//! aggregation of events that differ in their message only.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kinform_core::time::Instant;
use kube_client::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::env::{Env, wall_clock};

/// BOUND: events that wait for delivery; more are dropped. Upstream: `maxQueuedEvents`.
const QUEUED_MAX: usize = 1000;
/// BOUND: objects and events remembered. Upstream: `maxLruCacheEntries`.
const REMEMBERED_MAX: usize = 4096;
/// BOUND: bytes of a message.
const MESSAGE_MAX: usize = 1024;
/// Equal events further apart are new ones. Upstream: `defaultAggregateIntervalInSeconds`.
const SAME_FOR: Duration = Duration::from_secs(600);
/// An object may have 25 events at once, then one in five minutes. Upstream: `defaultSpamBurst`,
/// `-QPS`.
const SPAM_BURST: u32 = 25;
const SPAM_INTERVAL: Duration = Duration::from_secs(300);
/// Upstream: `maxTriesPerEvent`, `defaultSleepDuration`.
const TRIES_MAX: u32 = 12;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The type of an event: normal, or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Normal operation.
    Normal,
    /// A problem that may need attention.
    Warning,
}

/// Records events about objects; cheap to clone.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Occurrence>,
    dropped: Arc<AtomicU64>,
}

/// Delivers recorded events to the server while it runs.
#[must_use = "events are delivered by `run`"]
pub struct EventDelivery {
    client: kube_client::Client,
    component: String,
    queue: mpsc::Receiver<Occurrence>,
    env: Env,
    recorded: Remembered<Identity, Recorded>,
    noisy: Remembered<String, Instant>,
    last_nanos: i128,
}

#[derive(Debug)]
struct Occurrence {
    identity: Identity,
    about: ObjectReference,
    at: Timestamp,
}

/// The properties by which two events are the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Identity {
    about: String,
    event_type: EventType,
    reason: String,
    message: String,
}

/// An event that the server has.
#[derive(Clone, Debug)]
struct Recorded {
    name: String,
    count: i32,
    first: Timestamp,
}

/// The result of one try.
enum Tried {
    Done,
    /// The server no longer has the event.
    Missing,
    Refused(kube_client::Error),
    Unreachable(String),
}

impl EventRecorder {
    /// A recorder for `component` (the controller's name), and the delivery of its events.
    pub fn new(client: kube_client::Client, component: &str) -> (Self, EventDelivery) {
        let (sender, receiver) = mpsc::channel(QUEUED_MAX);
        let delivery = EventDelivery {
            client,
            component: component.to_owned(),
            queue: receiver,
            env: Env::system(),
            recorded: Remembered::default(),
            noisy: Remembered::default(),
            last_nanos: 0,
        };
        (
            Self {
                queue: sender,
                dropped: Arc::default(),
            },
            delivery,
        )
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
        let cut = cut_at(message, MESSAGE_MAX);
        let identity = Identity {
            about: identity_of(&about),
            event_type,
            reason: reason.to_owned(),
            message: message[..cut].to_owned(),
        };
        let occurrence = Occurrence {
            identity,
            about,
            at: wall_clock(),
        };
        if self.queue.try_send(occurrence).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events dropped because the queue was full or delivery had ended.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl EventDelivery {
    /// Delivers events until `stop` is cancelled, or until every recorder is gone and the queue is
    /// empty. At `stop`, the event whose delivery is under way is dropped. Then each queued event
    /// gets one try, for at most ten seconds in all.
    ///
    /// # Cancel safety
    /// Dropping it drops the events that are queued.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let occurrence = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                occurrence = self.queue.recv() => occurrence,
            };
            let Some(occurrence) = occurrence else { return };
            tokio::select! {
                biased;
                () = self.deliver(&occurrence, TRIES_MAX) => {}
                () = stop.cancelled() => break,
            }
        }
        self.queue.close();
        let deadline = self.env.now() + REQUEST_TIMEOUT;
        let env = self.env.clone();
        let rest = async {
            while let Some(occurrence) = self.queue.recv().await {
                self.deliver(&occurrence, 1).await;
            }
        };
        tokio::select! {
            biased;
            () = rest => {}
            () = env.sleep_until(deadline) => {}
        }
    }

    async fn deliver(&mut self, occurrence: &Occurrence, tries: u32) {
        let now = self.env.now();
        if self.is_spam(&occurrence.identity.about, now) {
            return;
        }
        let known = self
            .recorded
            .get(&occurrence.identity, now, SAME_FOR)
            .cloned();
        let mut recorded = match known {
            Some(recorded) => Recorded {
                count: recorded.count.saturating_add(1),
                ..recorded
            },
            None => self.first_recorded(occurrence),
        };
        for attempt in 1..=tries {
            match self.tell(occurrence, &recorded).await {
                Tried::Done => {
                    self.recorded
                        .put(occurrence.identity.clone(), recorded, now);
                    return;
                }
                Tried::Missing => recorded = self.first_recorded(occurrence),
                Tried::Refused(error) => {
                    let Identity { about, reason, .. } = &occurrence.identity;
                    tracing::warn!(%error, about, reason, "the server refused an event");
                    return;
                }
                Tried::Unreachable(error) => {
                    tracing::debug!(error, attempt, "an event could not be delivered");
                    if attempt < tries {
                        // The first pause is random, so that many clients do not return at the same
                        // time.
                        let share = if attempt == 1 { self.env.jitter() } else { 1.0 };
                        let until = self.env.now() + RETRY_PAUSE.mul_f64(share);
                        self.env.sleep_until(until).await;
                    }
                }
            }
        }
        tracing::warn!(
            about = occurrence.identity.about,
            tries,
            "an event was given up"
        );
    }

    async fn tell(&self, occurrence: &Occurrence, recorded: &Recorded) -> Tried {
        let namespace = namespace_of(&occurrence.about);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let result = if recorded.count > 1 {
            let patch = json!({"count": recorded.count, "lastTimestamp": Time(occurrence.at)});
            let patched = async {
                let patch = Patch::Merge(&patch);
                events
                    .patch(&recorded.name, &PatchParams::default(), &patch)
                    .await
            };
            tokio::time::timeout(REQUEST_TIMEOUT, patched).await
        } else {
            let event = self.event(occurrence, recorded);
            let created = async { events.create(&PostParams::default(), &event).await };
            tokio::time::timeout(REQUEST_TIMEOUT, created).await
        };
        match result {
            Ok(Ok(_)) => Tried::Done,
            Ok(Err(kube_client::Error::Api(status)))
                if status.code == 404 && recorded.count > 1 =>
            {
                Tried::Missing
            }
            Ok(Err(error @ kube_client::Error::Api(_))) => Tried::Refused(error),
            Ok(Err(error)) => Tried::Unreachable(error.to_string()),
            Err(_) => Tried::Unreachable(format!("no answer within {REQUEST_TIMEOUT:?}")),
        }
    }

    fn event(&self, occurrence: &Occurrence, recorded: &Recorded) -> Event {
        let Identity {
            event_type,
            reason,
            message,
            ..
        } = &occurrence.identity;
        let event_type = match event_type {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        Event {
            metadata: ObjectMeta {
                name: Some(recorded.name.clone()),
                namespace: Some(namespace_of(&occurrence.about).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: occurrence.about.clone(),
            type_: Some(event_type.to_owned()),
            reason: Some(reason.clone()),
            message: Some(message.clone()),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            first_timestamp: Some(Time(recorded.first)),
            last_timestamp: Some(Time(occurrence.at)),
            count: Some(recorded.count),
            ..Event::default()
        }
    }

    /// An event that the server does not have yet, under a name of its own.
    fn first_recorded(&mut self, occurrence: &Occurrence) -> Recorded {
        // kube#2122: two events of one instant had one name.
        self.last_nanos = occurrence.at.as_nanosecond().max(self.last_nanos + 1);
        let object = occurrence.about.name.as_deref().unwrap_or_default();
        // Not every object's name may be part of an event's (RBAC has colons).
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        let object = if object.is_empty() || object.len() > 230 || !object.chars().all(fits) {
            "event"
        } else {
            object
        };
        let name = format!("{object}.{:x}", self.last_nanos);
        Recorded {
            name,
            count: 1,
            first: occurrence.at,
        }
    }

    fn is_spam(&mut self, about: &str, now: Instant) -> bool {
        let all = SPAM_INTERVAL * SPAM_BURST;
        let about = about.to_owned();
        let full_at = self
            .noisy
            .get(&about, now, all)
            .copied()
            .unwrap_or_default();
        let full_at = full_at.max(now) + SPAM_INTERVAL;
        let spam = full_at.since(now) > all;
        if !spam {
            self.noisy.put(about, full_at, now);
        }
        spam
    }
}

/// A bounded map: at most [`REMEMBERED_MAX`] entries, the least recently used are evicted first.
#[derive(Debug)]
struct Remembered<K, V>(HashMap<K, (V, Instant)>);

impl<K: Eq + Hash + Clone, V> Remembered<K, V> {
    fn get(&self, key: &K, now: Instant, within: Duration) -> Option<&V> {
        let (value, used) = self.0.get(key)?;
        (now.since(*used) <= within).then_some(value)
    }

    fn put(&mut self, key: K, value: V, now: Instant) {
        if self.0.len() >= REMEMBERED_MAX && !self.0.contains_key(&key) {
            // Half of them together: O(1) a put in the long run.
            let mut used: Vec<Instant> = self.0.values().map(|(_, used)| *used).collect();
            let (_, &mut median, _) = used.select_nth_unstable(REMEMBERED_MAX / 2);
            self.0.retain(|_, (_, used)| *used > median);
        }
        self.0.insert(key, (value, now));
    }
}

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The namespace of an object's events: `default` for an object of the cluster.
fn namespace_of(about: &ObjectReference) -> &str {
    about
        .namespace
        .as_deref()
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or("default")
}

fn identity_of(about: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let ObjectReference {
        api_version,
        kind,
        namespace,
        name,
        uid,
        field_path,
        ..
    } = about;
    let parts = [api_version, kind, namespace, name, uid, field_path].map(part);
    parts.join(" ")
}

/// The last position up to `max` at which a text can be cut between characters.
fn cut_at(text: &str, max: usize) -> usize {
    (0..=max.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

impl std::fmt::Debug for EventDelivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventDelivery")
            .field("component", &self.component)
            .finish_non_exhaustive()
    }
}
