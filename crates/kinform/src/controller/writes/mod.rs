//! The writes of a controller's reconciles: a key is not reconciled on a view older than them.
//!
//! ```text
//! cx.client() → request → reply: version, or uid of a delete ──▶ noted for the key
//!                      └─ no reply: a question for the server's version
//! key handed out, not all seen ──▶ parked (no worker waits) ──seen, or 30 s──▶ queue ──▶ reconcile
//! ```
//!
//! Only caches of the controller count: its primary resource, and those that it owns or watches. A
//! write that their selectors hide is not waited for. After the limit the key runs all the same; the
//! run knows that its view may be old.
//! INVARIANT: a worker waits for no cache; a parked key is in one place of the parking task.
//!
//! `client` notes, `own` keeps the versions, `target` reads paths, `park` waits.
//!
//! Upstream counterpart: `controller-runtime:pkg/client` (`consistency.go`), off by default there;
//! `kubernetes/enhancements:5647`.

mod client;
pub(super) mod own;
pub(super) mod park;
mod target;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use kinform_api::selector::LabelSelector;
use kinform_api::{GroupVersionResource, KeyRef, ObjectKey, ResourceVersion, mutant};
use kube_client::Client;
use kube_core::ObjectMeta;

use self::own::Own;
use self::target::Target;
use super::echo::{Certainty, Write};
use super::feed::{Holder, Trigger};
use super::last_writes::LastWrites;
use super::loops::Detector;
use super::signs::{Effects, Streaks};
use super::stats::Counters;
use super::view::View;
use crate::informer::{Core, OwnWrites as SeenWrites, Unheard};
use crate::sync::lock;

/// BOUND: collections of one key whose version is asked for. A key with more runs on a view that may
/// be old.
const MAX_QUESTIONS: usize = 16;

/// The use of a controller's own writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnWrites {
    /// A key waits until the caches have them.
    Awaited,
    /// A key may run on a view without them.
    Ignored,
}

/// The writes of one controller that its caches may not have yet.
pub(super) struct Writes {
    caches: Vec<Cache>,
    /// The versions that were written.
    pub(super) own: Own,
    /// The keys whose runs may start themselves.
    pub(super) loops: Detector,
    /// The keys whose runs show signs of trouble.
    pub(super) streaks: Streaks,
    seen: SeenWrites,
    /// Objects of which the controller has heard nothing.
    pub(super) unheard: Unheard,
    /// Writes without an answer: the server may have stored them.
    // BOUND: of keys not handed out since their reply was lost, `MAX_QUESTIONS` each.
    unanswered: Mutex<HashMap<ObjectKey, Vec<Target>>>,
    /// Keys that run on a view that may be old: their writes were waited for long enough.
    // BOUND: keys whose writes were not seen at the last look.
    stale: Mutex<HashSet<ObjectKey>>,
    /// Keys with a write that is neither seen nor asked for, or that no cache will show any more: their
    /// next run says so.
    // BOUND: keys that have not run since.
    unasked: Mutex<HashSet<ObjectKey>>,
    /// The last writes of the term.
    last: Mutex<LastWrites>,
    using: OwnWrites,
    counters: Arc<Counters>,
}

/// A cache of the controller.
struct Cache {
    resource: GroupVersionResource,
    /// `None` if it has all labels.
    selector: Option<LabelSelector>,
    holder: Holder,
}

/// The effect of a write, by the server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    /// The object is stored at this version, with these labels.
    Stored {
        namespace: String,
        name: String,
        version: String,
        labels: HashMap<String, String>,
    },
    /// The object of this uid is gone, or going.
    Deleted {
        namespace: String,
        name: String,
        uid: String,
    },
    /// There was no reply, or it does not state the effect.
    Unknown,
}

impl Effect {
    /// Returns whether the object is stored at a version that it had before.
    fn is_of_version(&self, before: [&Option<String>; 2]) -> bool {
        let Self::Stored { version, .. } = self else {
            return false;
        };
        before.into_iter().flatten().any(|before| before == version)
    }

    /// The reply to a delete states no namespace: that of the request counts.
    fn of_request(mut self, target: &Target) -> Self {
        if let (Self::Deleted { namespace, .. }, Some(asked)) = (&mut self, &target.namespace) {
            namespace.clone_from(asked);
        }
        self
    }
}

/// The client of one run, made when it is asked for.
#[derive(Clone)]
pub(super) struct Writer {
    writes: Arc<Writes>,
    client: Arc<OnceLock<Client>>,
    effects: Arc<Effects>,
}

impl Writer {
    pub(super) fn new(writes: Arc<Writes>) -> Self {
        Self {
            writes,
            client: Arc::default(),
            effects: Arc::default(),
        }
    }

    /// The effects of the run's writes so far.
    pub(super) fn effects(&self) -> &Effects {
        &self.effects
    }

    /// Notes that the run found an object as it should be.
    pub(super) fn found(
        &self,
        key: &ObjectKey,
        resource: &GroupVersionResource,
        meta: &ObjectMeta,
    ) {
        self.writes.found(key, resource, meta);
    }

    /// A client above `below` that notes the writes of `key`, and refuses deletes that need a
    /// fresher view.
    pub(super) fn client(&self, key: &ObjectKey, below: &Client, view: &Arc<View>) -> Client {
        let make = || {
            client::noting(
                (Arc::clone(&self.writes), Arc::clone(&self.effects)),
                key.clone(),
                Arc::clone(view),
                below,
            )
        };
        self.client.get_or_init(make).clone()
    }

    /// Gives up the run's client. It has a task, which ends in its next turn: that comes before
    /// the next run, or thousands of them would wait for it.
    pub(super) async fn end(self) {
        let was_made = self.client.get().is_some();
        drop(self);
        if was_made {
            tokio::task::yield_now().await;
        }
    }
}

impl Writes {
    pub(super) fn new(
        triggers: &[Box<dyn Trigger>],
        using: OwnWrites,
        counters: Arc<Counters>,
    ) -> Self {
        let caches = triggers.iter().map(|trigger| {
            let info = trigger.resource();
            Cache {
                resource: info.resource.clone(),
                selector: info.label_selector.as_deref().and_then(|s| s.parse().ok()),
                holder: trigger.holder(),
            }
        });
        Self {
            caches: caches.collect(),
            own: Own::default(),
            loops: Detector::default(),
            streaks: Streaks::default(),
            seen: SeenWrites::new(),
            unheard: Unheard::default(),
            unanswered: Mutex::default(),
            stale: Mutex::default(),
            unasked: Mutex::default(),
            last: Mutex::default(),
            using,
            counters,
        }
    }

    /// Returns whether a cache has not seen a write that was made for `key`.
    pub(super) fn are_pending(&self, key: &ObjectKey) -> bool {
        !self.seen.has_seen(key) || lock(&self.unanswered).contains_key(key)
    }

    /// Returns whether a cache may lack a write that was made for `key` to this object.
    pub(super) fn is_pending(&self, key: &ObjectKey, object: KeyRef<'_>) -> bool {
        lock(&self.unanswered).contains_key(key) || self.seen.is_pending(key, object)
    }

    /// The caches of a resource, in any of its versions, that may hold an object.
    pub(super) fn holders<'a>(
        &'a self,
        (group, plural): (&'a str, &'a str),
        object: KeyRef<'a>,
    ) -> impl Iterator<Item = Arc<Core>> + 'a {
        let caches = self.caches.iter();
        let caches = caches.filter(move |cache| cache.is_of(group, plural));
        caches.filter_map(move |cache| (cache.holder)(object))
    }

    /// The version of an object as a cache has it.
    fn cached_version(&self, target: &Target) -> Option<String> {
        let object = KeyRef {
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: target.name.as_deref()?,
        };
        let cached = self
            .holders(target.resource(), object)
            .find_map(|core| core.get(object))?;
        Some(cached.resource_version().to_owned())
    }

    /// The uid of an object as a cache has it.
    pub(super) fn uid(&self, of: &GroupVersionResource, object: KeyRef<'_>) -> Option<String> {
        let cached = self
            .holders((&of.group, &of.resource), object)
            .find_map(|core| core.get(object))?;
        Some(cached.uid().to_owned())
    }

    /// Returns whether a run of `key` must wait for its own writes: once for 30 s, not again until it
    /// writes again, or has a question for the server.
    pub(super) fn must_wait(&self, key: &ObjectKey) -> bool {
        let has_waited = || {
            let is_asked = lock(&self.unanswered).contains_key(key);
            !is_asked && lock(&self.stale).contains(key)
        };
        self.are_pending(key) && !has_waited()
    }

    /// A run of `key` begins. Returns whether its view may be older than its own writes: each run says
    /// so until the caches have them.
    pub(super) fn begin(&self, key: &ObjectKey) -> bool {
        let is_unasked = lock(&self.unasked).remove(key);
        let is_stale = lock(&self.stale).contains(key);
        if is_stale && !mutant!("R8") && !self.are_pending(key) {
            lock(&self.stale).remove(key);
            return is_unasked;
        }
        if mutant!("R8") {
            lock(&self.stale).remove(key);
        }
        is_stale || is_unasked
    }

    /// A term was lost: keys of the next one begin with a fresh view.
    pub(super) fn end_term(&self) {
        lock(&self.stale).clear();
        lock(&self.unasked).clear();
        self.streaks.clear();
        self.unheard.clear();
        *lock(&self.last) = LastWrites::default();
    }

    /// The last writes of the term.
    pub(super) fn last(&self) -> LastWrites {
        lock(&self.last).clone()
    }

    /// The keys with a write that had no answer.
    pub(super) fn unanswered(&self) -> Vec<ObjectKey> {
        lock(&self.unanswered).keys().cloned().collect()
    }

    /// Notes the effect of a write for `key`.
    fn note(&self, key: &ObjectKey, target: Target, effect: Effect, certainty: Certainty) {
        let writer = key.key_ref().hash64();
        let (group, plural) = target.resource();
        let effect = effect.of_request(&target);
        let (mut is_fresh, mut is_ours) = (false, false);
        for (source, cache) in self.caches.iter().enumerate() {
            if !cache.is_of(group, plural) {
                continue;
            }
            is_ours = true;
            let write = Write { certainty, writer };
            is_fresh |= self.own.note(source as u16, &effect, write);
            match &effect {
                Effect::Stored {
                    namespace,
                    name,
                    version,
                    labels,
                } => {
                    let written = KeyRef { namespace, name };
                    if let Some(core) = (cache.holder)(written)
                        && (cache.may_show(|key| labels.get(key))
                            || core.root().get(written).is_some())
                    {
                        self.wrote(cache, Some(version));
                        let cached = (source as u16, &core);
                        self.unheard.add(key, cached, written, version);
                        if self.using == OwnWrites::Awaited {
                            self.seen.stored(key, &core, written, version);
                        }
                    }
                }
                Effect::Deleted {
                    namespace,
                    name,
                    uid,
                } => {
                    let deleted = KeyRef { namespace, name };
                    if let Some(core) = (cache.holder)(deleted) {
                        self.wrote(cache, None);
                        if self.using == OwnWrites::Awaited {
                            self.seen.deleted(key, &core, deleted, uid);
                        }
                    }
                }
                Effect::Unknown => self.wrote(cache, None),
            }
        }
        if is_fresh {
            self.loops.wrote(key);
        }
        if is_ours {
            // The next run waits for this write.
            lock(&self.stale).remove(key);
        }
        if effect == Effect::Unknown && is_ours && self.using == OwnWrites::Awaited {
            self.ask_later(key, target.of_collection());
        }
    }

    /// Notes that a run of `key` found an object as it should be: it need not write it.
    pub(super) fn found(
        &self,
        key: &ObjectKey,
        resource: &GroupVersionResource,
        meta: &ObjectMeta,
    ) {
        let (Some(name), Some(version)) = (&meta.name, &meta.resource_version) else {
            return;
        };
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let found = KeyRef { namespace, name };
        let label = |key: &str| meta.labels.as_ref()?.get(key);
        for (source, cache) in self.caches.iter().enumerate() {
            let shows = cache.is_of(&resource.group, &resource.resource) && cache.may_show(label);
            if let Some(core) = (cache.holder)(found).filter(|_| shows) {
                let cached = (source as u16, &core);
                self.unheard.add(key, cached, found, version);
            }
        }
    }

    /// Notes a write of the term.
    fn wrote(&self, cache: &Cache, version: Option<&str>) {
        let version = version.map(ResourceVersion::from);
        let resource = cache.resource.group_resource();
        lock(&self.last).add(&resource, version.as_ref());
    }

    /// Notes a question about the writes of `key`.
    fn ask_later(&self, key: &ObjectKey, question: Target) {
        let mut unanswered = lock(&self.unanswered);
        let questions = unanswered.entry(key.clone()).or_default();
        let is_known = questions.contains(&question);
        if !is_known && questions.len() < MAX_QUESTIONS {
            questions.push(question);
        } else if !is_known {
            lock(&self.unasked).insert(key.clone());
        }
    }

    /// Takes the answer to a question for the server's version.
    fn answered(&self, key: &ObjectKey, target: &Target, version: &str) {
        let written = KeyRef {
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: "",
        };
        for core in self.holders(target.resource(), written) {
            self.seen.stored(key, &core, written, version);
        }
    }

    /// The writes of `key` were waited for long enough: it runs without them.
    fn give_up(&self, key: &ObjectKey) {
        if mutant!("R8") {
            self.seen.forget(key);
            lock(&self.unanswered).remove(key);
        }
        lock(&self.stale).insert(key.clone());
    }

    /// A cache will not show the writes of `key`: it runs without these, and its next run says so.
    fn forget_ended(&self, key: &ObjectKey) {
        self.seen.forget_ended(key);
        lock(&self.unanswered).remove(key);
        lock(&self.unasked).insert(key.clone());
    }
}

impl Cache {
    fn is_of(&self, group: &str, plural: &str) -> bool {
        self.resource.group == group && self.resource.resource == plural
    }

    /// Returns whether the cache's selector lets an object with these labels through. A field
    /// selector is not evaluated: the version that the cache has reached decides.
    fn may_show<'a>(&self, label: impl Fn(&str) -> Option<&'a String>) -> bool {
        let selector = self.selector.as_ref();
        selector.is_none_or(|selector| selector.matches(label))
    }
}
