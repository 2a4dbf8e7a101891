//! The informer as a controller needs it, and the keys made from its changes.
//!
//! ```text
//! changes of the primary resource → its key ─┐
//! changes of owned objects → their owner's ──┼→ WorkQueue<ObjectKey>
//! changes of watched objects → a function's ─┘   (a batch at a time)
//! ```
//!
//! Only the key and its cause travel: by the time a worker has them, the object may be newer or gone.
//! Keys of a first list or a resync wait behind those of changes ([`Priority::Low`]).
//! Never: blocks, decodes (a mapping function may, if its author wants), reads the API.
//!
//! Upstream counterpart: `sample-controller:controller.go` (`enqueueFoo`, `handleObject`),
//! `controller-runtime:pkg/handler`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use kinform_api::{KeyRef, ObjectKey, Scope};
use kinform_core::causes::{Cause, Event, Origin};
use kinform_core::object::Object;
use kinform_core::queue::Priority;
use kube_client::Client;

use super::echo::Write;
use super::predicate::{self, Predicate};
use super::sieve::Sieve;
use crate::error::Error;
use crate::informer::Core;
use crate::object::Obj;
use crate::source::ResourceInfo;
use crate::sync::lock;

/// The part of an informer that a controller needs.
pub(super) trait Feed<K>: Send + Sync + 'static {
    /// The resource that it watches.
    fn resource(&self) -> &ResourceInfo;
    /// The object as it is stored now.
    fn get(&self, key: &ObjectKey) -> Option<Obj<K>>;
    /// The objects that are stored now.
    fn all(&self) -> Vec<Obj<K>>;
    /// Reports all stored objects, then changes, and all objects again each period, if one is
    /// given.
    fn listen(
        &self,
        hear: Hear<K>,
        resync_period: Option<Duration>,
    ) -> Result<Box<dyn Listening>, Error>;
    /// Waits for the first list.
    fn synced(&self) -> BoxFuture<'static, Result<(), Error>>;
    /// Waits until no further change will be reported.
    fn stopped(&self) -> BoxFuture<'static, ()>;
    /// The client of its source, if it has one.
    fn client(&self) -> Option<Client> {
        None
    }
    /// Finds the watch that has an object of a key.
    fn holder(&self) -> Holder {
        Arc::new(|_| None)
    }
}

/// Finds the watch that has an object of this key.
pub(super) type Holder = Arc<dyn Fn(KeyRef<'_>) -> Option<Arc<Core>> + Send + Sync>;

/// A handler that was added to a feed.
pub(super) trait Listening: Send + Sync {
    /// Waits until it has received the objects of the first list, or is removed.
    fn heard_first(&self) -> BoxFuture<'_, ()>;
    /// Removes the handler: it receives no more changes.
    fn remove(self: Box<Self>);
}

pub(super) type Hear<K> = Arc<dyn Fn(Heard<'_, K>) + Send + Sync>;

/// A change, as a controller hears it.
#[derive(Debug)]
pub(super) enum Heard<'a, K> {
    Added {
        object: &'a Obj<K>,
        initial: bool,
    },
    Updated {
        old: &'a Obj<K>,
        new: &'a Obj<K>,
    },
    Deleted(&'a Obj<K>),
    Resynced(&'a Obj<K>),
    /// Further changes may follow only later.
    BatchEnd,
}

impl<'a, K> Heard<'a, K> {
    /// The object that it is about, in its newest state.
    fn object(&self) -> Option<&'a Obj<K>> {
        match self {
            Self::Added { object, .. } | Self::Deleted(object) | Self::Resynced(object) => {
                Some(object)
            }
            Self::Updated { new, .. } => Some(new),
            Self::BatchEnd => None,
        }
    }
}

/// A feed with the function that makes keys of its objects, with its type erased.
pub(super) trait Trigger: Send + Sync {
    fn resource(&self) -> &ResourceInfo;
    /// `source` is its place among the triggers of the controller.
    fn listen(
        &self,
        sink: Arc<dyn Sink>,
        source: u16,
        resync_period: Option<Duration>,
    ) -> Result<Box<dyn Listening>, Error>;
    fn synced(&self) -> BoxFuture<'static, Result<(), Error>>;
    fn stopped(&self) -> BoxFuture<'static, ()>;
    fn holder(&self) -> Holder;
    /// The keys of stored objects, as a first list would queue them; none of a source whose objects
    /// only concern others.
    fn keys(&self, _wanted: &dyn Fn(&Object) -> bool) -> Vec<(ObjectKey, Cause)> {
        Vec::new()
    }
}

/// The receiver of keys.
pub(super) trait Sink: Send + Sync {
    /// There is an event of an object of the source, whether or not it concerns a key.
    fn heard(&self, _source: u16, _object: &Object) {}
    /// The writer of the state that an event reports.
    fn written_by(&self, cause: &Cause, object: &Object) -> WrittenBy;
    /// Returns whether updates are to be compared for some key.
    fn compares(&self) -> bool {
        false
    }
    /// An update of an object of the source concerns `key`.
    fn compare(&self, _key: &ObjectKey, _source: u16, _old: &Object, _new: &Object) {}
    fn add_all(&self, keys: Vec<(ObjectKey, Cause)>, priority: Priority);
}

/// The writer of a state, as far as it is known when its event comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum WrittenBy {
    Unknown,
    /// This controller.
    Own,
    /// This controller; the key whose run wrote it is not queued for it.
    Ignored(Write),
}

/// The primary resource, and which of its events count.
pub(super) struct Primary<K> {
    pub(super) feed: Arc<dyn Feed<K>>,
    pub(super) sieve: Arc<Sieve>,
}

/// Another resource, whose objects concern primary ones.
pub(super) struct Mapped<T> {
    pub(super) feed: Arc<dyn Feed<T>>,
    pub(super) keys_of: KeysOf<T>,
}

/// The keys that an object concerns.
pub(super) type KeysOf<T> = Arc<dyn Fn(&Obj<T>) -> Vec<Enqueue> + Send + Sync>;

/// A key that a function of [`Controller::watches`](super::Controller::watches) asks for: made of a
/// key, or of a key and a priority.
///
/// Without a priority a key of a first list waits behind those of changes ([`Priority::Low`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enqueue {
    key: ObjectKey,
    priority: Option<Priority>,
}

impl From<ObjectKey> for Enqueue {
    fn from(key: ObjectKey) -> Self {
        Self {
            key,
            priority: None,
        }
    }
}

impl From<(ObjectKey, Priority)> for Enqueue {
    fn from((key, priority): (ObjectKey, Priority)) -> Self {
        Self {
            key,
            priority: Some(priority),
        }
    }
}

impl<K: 'static> Trigger for Primary<K> {
    fn resource(&self) -> &ResourceInfo {
        self.feed.resource()
    }

    fn listen(
        &self,
        sink: Arc<dyn Sink>,
        source: u16,
        resync_period: Option<Duration>,
    ) -> Result<Box<dyn Listening>, Error> {
        let batch = Batch::of(sink, source);
        let sieve = Arc::clone(&self.sieve);
        let predicate = sieve.predicate();
        let hear: Hear<K> = Arc::new(move |heard| {
            batch.heard(&heard);
            match heard {
                heard if hides(&sieve, predicate.as_ref(), &heard) => {}
                Heard::BatchEnd => batch.end(),
                heard => {
                    if let Heard::Updated { old, new } = &heard
                        && batch.sink.compares()
                    {
                        batch.compare(&new.key(), old, new);
                    }
                    if let Some((object, cause, writer)) = batch.cause(&heard) {
                        batch.add((object.key(), cause), priority_of(&heard), writer);
                    }
                }
            }
        });
        self.feed.listen(hear, resync_period)
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.feed.synced()
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        self.feed.stopped()
    }

    fn holder(&self) -> Holder {
        self.feed.holder()
    }

    fn keys(&self, wanted: &dyn Fn(&Object) -> bool) -> Vec<(ObjectKey, Cause)> {
        let filter = self.sieve.predicate();
        let passes = |object: &Object| {
            let event = predicate::Event::Whole(object);
            filter.as_ref().is_none_or(|filter| filter.passes(event))
        };
        let all = self.feed.all().into_iter();
        let some = all.filter(|object| wanted(object.raw()) && passes(object.raw()));
        some.map(|object| {
            let cause = Cause::of_object(PRIMARY, Event::Initial, object.raw());
            (object.key(), cause)
        })
        .collect()
    }
}

impl<T: 'static> Trigger for Mapped<T> {
    fn resource(&self) -> &ResourceInfo {
        self.feed.resource()
    }

    fn listen(
        &self,
        sink: Arc<dyn Sink>,
        source: u16,
        _: Option<Duration>,
    ) -> Result<Box<dyn Listening>, Error> {
        let (batch, keys_of) = (Batch::of(sink, source), Arc::clone(&self.keys_of));
        let hear: Hear<T> = Arc::new(move |heard| {
            batch.heard(&heard);
            let mut keys = match &heard {
                // sample-controller: a resync of an owned object is no news.
                Heard::Resynced(_) => return,
                Heard::BatchEnd => return batch.end(),
                Heard::Added { object, .. } | Heard::Deleted(object) => keys_of(object),
                // The object that it concerned before is notified, too.
                Heard::Updated { old, .. } => keys_of(old),
            };
            if let Heard::Updated { new, .. } = &heard {
                let of_new = keys_of(new);
                // Mostly the same ones: an event is one cause of a key.
                if of_new != keys {
                    keys.extend(of_new);
                }
            }
            if keys.is_empty() {
                return;
            }
            if let Heard::Updated { old, new } = &heard {
                keys.iter()
                    .for_each(|asked| batch.compare(&asked.key, old, new));
            }
            let Some((object, mut cause, writer)) = batch.cause(&heard) else {
                return;
            };
            cause.key = Some(object.key());
            let priority = priority_of(&heard);
            for asked in keys {
                let priority = asked.priority.unwrap_or(priority);
                batch.add((asked.key, cause.clone()), priority, writer);
            }
        });
        // client-go: a resync of a secondary object is no news.
        self.feed.listen(hear, Some(Duration::ZERO))
    }

    fn synced(&self) -> BoxFuture<'static, Result<(), Error>> {
        self.feed.synced()
    }

    fn stopped(&self) -> BoxFuture<'static, ()> {
        self.feed.stopped()
    }

    fn holder(&self) -> Holder {
        self.feed.holder()
    }
}

/// The place of the primary resource among the triggers of a controller.
const PRIMARY: u16 = 0;

/// The lane of keys of an event, if nobody asks for another.
fn priority_of<K>(heard: &Heard<'_, K>) -> Priority {
    match heard {
        Heard::Added { initial: true, .. } | Heard::Resynced(_) => Priority::Low,
        _ => Priority::Normal,
    }
}

/// Returns whether an event of the primary resource does not count.
fn hides<K>(sieve: &Sieve, filter: Option<&Predicate>, heard: &Heard<'_, K>) -> bool {
    let event = match heard {
        Heard::Updated { new, .. } if sieve.is_own(new.raw()) => return true,
        Heard::BatchEnd => return false,
        _ if filter.is_none() => return false,
        Heard::Updated { old, new } => predicate::Event::Updated {
            old: old.raw(),
            new: new.raw(),
        },
        Heard::Added { object, .. } | Heard::Deleted(object) | Heard::Resynced(object) => {
            predicate::Event::Whole(object.raw())
        }
    };
    !filter.is_none_or(|filter| filter.passes(event))
}

/// Keys of changes that were reported together, to be added together.
struct Batch {
    sink: Arc<dyn Sink>,
    source: u16,
    // BOUND: `BATCH_KEYS` of each.
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    high: Vec<(ObjectKey, Cause)>,
    normal: Vec<(ObjectKey, Cause)>,
    low: Vec<(ObjectKey, Cause)>,
}

/// BOUND: keys that wait for the end of a batch.
const BATCH_KEYS: usize = 256;

impl Batch {
    fn of(sink: Arc<dyn Sink>, source: u16) -> Self {
        Self {
            sink,
            source,
            keys: Mutex::default(),
        }
    }

    fn heard<K>(&self, heard: &Heard<'_, K>) {
        if let Some(object) = heard.object() {
            self.sink.heard(self.source, object.raw());
        }
    }

    fn compare<K>(&self, key: &ObjectKey, old: &Obj<K>, new: &Obj<K>) {
        self.sink.compare(key, self.source, old.raw(), new.raw());
    }

    /// The object of an event, the cause that it is, and the writer of the state.
    fn cause<'a, K>(&self, heard: &Heard<'a, K>) -> Option<(&'a Obj<K>, Cause, WrittenBy)> {
        let object = heard.object()?;
        let of = |event| Cause::of_object(self.source, event, object.raw());
        let mut cause = match heard {
            Heard::Added { initial: true, .. } => of(Event::Initial),
            Heard::Added { .. } => of(Event::Added),
            Heard::Updated { old, new } => Cause::of_update(self.source, old.raw(), new.raw()),
            Heard::Deleted(_) => of(Event::Deleted),
            Heard::Resynced(_) => of(Event::Resynced),
            Heard::BatchEnd => return None,
        };
        let writer = self.sink.written_by(&cause, object.raw());
        if !matches!(writer, WrittenBy::Unknown) {
            cause.origin = Origin::Own;
        }
        Some((object, cause, writer))
    }

    fn add(&self, key: (ObjectKey, Cause), priority: Priority, by: WrittenBy) {
        if let WrittenBy::Ignored(write) = by
            && write.is_echo(key.0.key_ref().hash64(), &key.1)
        {
            return;
        }
        let mut keys = lock(&self.keys);
        let those = match priority {
            Priority::Low => &mut keys.low,
            Priority::Normal => &mut keys.normal,
            Priority::High => &mut keys.high,
        };
        those.push(key);
        let is_full = those.len() >= BATCH_KEYS;
        drop(keys);
        if is_full {
            self.end();
        }
    }

    fn end(&self) {
        let Keys { high, normal, low } = std::mem::take(&mut *lock(&self.keys));
        self.sink.add_all(high, Priority::High);
        self.sink.add_all(normal, Priority::Normal);
        self.sink.add_all(low, Priority::Low);
    }
}

/// The key of the controlling owner, if that has the primary kind. Versions of the owner's group
/// are not compared: an object keeps the reference that it was made with.
///
/// Upstream: `metav1.GetControllerOf`.
pub(super) fn owner_key<T>(object: &Obj<T>, primary: &ResourceInfo) -> Option<ObjectKey> {
    let owners = object.owner_references();
    let owner = owners.iter().find(|owner| owner.controller)?;
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    if owner.kind != primary.kind || group != primary.resource.group {
        return None;
    }
    match primary.scope {
        Scope::Namespaced => Some(ObjectKey::new(object.namespace(), &owner.name)),
        Scope::Cluster => Some(ObjectKey::new(None, &owner.name)),
    }
}
