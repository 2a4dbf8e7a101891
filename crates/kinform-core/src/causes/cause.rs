//! One cause of a key.
//!
//! ```text
//! event of a source: which object, version, parts changed, written by whom → Cause (64 bytes)
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/event`, which ends at the handler.

use std::fmt;
use std::num::NonZeroU64;

use kinform_api::ObjectKey;

use crate::object::Object;
use crate::object::changed::Changed;
use crate::time::Instant;

/// The event that queued a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Event {
    /// The object was in the first list.
    Initial,
    /// The object was created.
    Added,
    /// The object was changed.
    Updated,
    /// The object was deleted.
    Deleted,
    /// The object was reported again without a change.
    Resynced,
    /// The last run asked for another one after a delay.
    Requeued,
    /// The wake-up time of the key has come.
    Woken,
    /// The last run failed, met a conflict or was throttled.
    Retried,
    /// The caches have the writes of an earlier run, or were waited for long enough.
    Unparked,
    /// A term began.
    Term,
    /// The program added the key.
    Asked,
}

impl Event {
    /// The name in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Added => "added",
            Self::Updated => "updated",
            Self::Deleted => "deleted",
            Self::Resynced => "resynced",
            Self::Requeued => "requeued",
            Self::Woken => "woken",
            Self::Retried => "retried",
            Self::Unparked => "unparked",
            Self::Term => "term",
            Self::Asked => "asked",
        }
    }

    /// Returns whether it is an event of an object.
    #[must_use]
    pub const fn is_of_object(self) -> bool {
        matches!(
            self,
            Self::Initial | Self::Added | Self::Updated | Self::Deleted | Self::Resynced
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The writer of the version that an event reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// It is not known; events without a write have no writer.
    #[default]
    Unknown,
    /// Another writer than this controller.
    Foreign,
    /// This controller.
    Own,
}

/// One cause of a key.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The object of the event; `None` if it has the key that is queued.
    pub key: Option<ObjectKey>,
    /// The version of the object, if it is a number.
    pub version: Option<NonZeroU64>,
    /// Of an update, the version before it, if that is a number; of a deletion, a hash of the object's
    /// uid; else 0.
    pub before: u64,
    /// When the key was queued for it.
    pub enqueued: Instant,
    /// The number of further equal causes.
    pub merged: u32,
    /// The place of the source among those of the controller.
    pub source: u16,
    /// The event.
    pub event: Event,
    /// The parts that an update changed.
    pub changed: Changed,
    /// The writer.
    pub origin: Origin,
}

impl Cause {
    /// A cause without an object.
    #[must_use]
    pub const fn of(event: Event) -> Self {
        Self::of_source(0, event)
    }

    /// A cause of a source, about no object yet.
    pub(super) const fn of_source(source: u16, event: Event) -> Self {
        Self {
            key: None,
            version: None,
            before: 0,
            enqueued: Instant::ZERO,
            merged: 0,
            source,
            event,
            changed: Changed::NONE,
            origin: Origin::Unknown,
        }
    }

    /// The cause that an event of an object is.
    #[must_use]
    pub fn of_object(source: u16, event: Event, object: &Object) -> Self {
        Self {
            version: object.revision().and_then(NonZeroU64::new),
            before: match event {
                Event::Deleted => uid_hash(object.uid()),
                _ => 0,
            },
            ..Self::of_source(source, event)
        }
    }

    /// The cause that an update is.
    #[must_use]
    pub fn of_update(source: u16, old: &Object, new: &Object) -> Self {
        Self {
            before: old.revision().unwrap_or_default(),
            changed: new.changed_since(old),
            ..Self::of_object(source, Event::Updated, new)
        }
    }

    /// Returns whether it is the same event of the same object.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.event, self.source, self.version) == (other.event, other.source, other.version)
            && self.before == other.before
            && self.key == other.key
    }
}

/// A hash of a uid; 0 for none.
#[must_use]
pub fn uid_hash(uid: &str) -> u64 {
    if uid.is_empty() {
        return 0;
    }
    kinform_api::KeyRef {
        namespace: "",
        name: uid,
    }
    .hash64()
}
