//! The versions that this controller wrote, to name the events of its own writes.
//!
//! ```text
//! reply to a write → (source, object, version | uid) → Own ◀─ is this event ours? ─ cause
//! ```
//!
//! A write that changed nothing is answered with the version of an earlier writer. So a version is
//! certain only if the object was created, or if the request stated the version that it changed; a
//! delete is certain by its uid.
//!
//! Upstream counterpart: none.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use kinform_api::{KeyRef, ObjectKey};
use kinform_core::causes::{Cause, Causes, Event, Origin, uid_hash};
use kinform_core::loops::Change;

use super::Effect;
use crate::controller::echo::{Certainty, Write};
use crate::sync::lock;

/// BOUND: writes that are known, some 100 bytes each; of more, the oldest is forgotten.
const KNOWN: usize = 4096;

/// A state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Mark {
    source: u16,
    key: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    Version(u64),
    /// The object of this uid is gone.
    Gone(u64),
}

#[derive(Debug, Default)]
pub(in crate::controller) struct Own {
    known: Mutex<Known>,
    // A controller that does not write never takes the lock.
    has_some: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    marks: HashMap<Mark, Write>,
    order: VecDeque<Mark>,
}

impl Own {
    /// Notes the effect of a write on an object of the source. Returns whether the state was not known:
    /// of a write that changed nothing it mostly was.
    pub(super) fn note(&self, source: u16, effect: &Effect, write: Write) -> bool {
        let mark = |namespace: &str, name: &str, state| Mark {
            source,
            key: KeyRef { namespace, name }.hash64(),
            state,
        };
        match effect {
            Effect::Stored {
                namespace,
                name,
                version,
                ..
            } => {
                let version = version.parse().ok().map(State::Version);
                version.is_some_and(|version| self.add(mark(namespace, name, version), write))
            }
            Effect::Deleted {
                namespace,
                name,
                uid,
            } => {
                let mark = mark(namespace, name, State::Gone(uid_hash(uid)));
                let certainty = Certainty::Deleted;
                self.add(mark, Write { certainty, ..write })
            }
            Effect::Unknown => false,
        }
    }

    fn add(&self, mark: Mark, write: Write) -> bool {
        let mut known = lock(&self.known);
        let before = known.marks.get(&mark).copied();
        if before.is_some_and(|before| before.certainty != Certainty::Likely) {
            return false;
        }
        known.marks.insert(mark, write);
        if before.is_none() {
            known.order.push_back(mark);
        }
        if known.order.len() > KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.marks.remove(&oldest);
        }
        self.has_some.store(true, Ordering::Release);
        before.is_none()
    }

    /// The own write that the event of a cause reports, if it does. `key` is the hash of the key of its
    /// object.
    pub(in crate::controller) fn knows(&self, cause: &Cause, key: u64) -> Option<Write> {
        if !cause.event.is_of_object() || !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let (source, known) = (cause.source, lock(&self.known));
        let is = |state| known.marks.get(&Mark { source, key, state }).copied();
        let gone = || (cause.event == Event::Deleted).then(|| is(State::Gone(cause.before)));
        let version = cause.version.map(|version| State::Version(version.get()));
        version.and_then(is).or_else(|| gone().flatten())
    }

    /// The writer of a change.
    pub(in crate::controller) fn writer(&self, change: &Change) -> Origin {
        let cause = Cause {
            version: NonZeroU64::new(change.version),
            source: change.source,
            ..Cause::of(Event::Updated)
        };
        match self.knows(&cause, change.object.key_ref().hash64()) {
            Some(_) => Origin::Own,
            None => Origin::Foreign,
        }
    }

    /// Names the writers of the causes of `key`.
    pub(in crate::controller) fn name(&self, key: KeyRef<'_>, causes: &mut Causes) {
        for cause in causes.iter_mut().filter(|cause| cause.event.is_of_object()) {
            if cause.origin == Origin::Unknown && cause.event != Event::Resynced {
                cause.origin = match self.knows(cause, of_cause(key, cause)) {
                    Some(_) => Origin::Own,
                    None => Origin::Foreign,
                };
            }
        }
    }

    /// Returns whether a cause of `key` is certainly a write of one of its runs, which has heard of it by
    /// the reply.
    pub(in crate::controller) fn is_echo(&self, key: KeyRef<'_>, cause: &Cause) -> bool {
        let write = self.knows(cause, of_cause(key, cause));
        write.is_some_and(|write| write.is_echo(key.hash64(), cause))
    }
}

/// The hash of the key of a cause's object.
fn of_cause(key: KeyRef<'_>, cause: &Cause) -> u64 {
    cause.key.as_ref().map_or(key, ObjectKey::key_ref).hash64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyRef<'_> = KeyRef {
        namespace: "a",
        name: "x",
    };

    fn stored(version: u64) -> Effect {
        Effect::Stored {
            namespace: "a".into(),
            name: "x".into(),
            version: version.to_string(),
            labels: HashMap::new(),
        }
    }

    fn gone() -> Effect {
        Effect::Deleted {
            namespace: "a".into(),
            name: "x".into(),
            uid: "u".into(),
        }
    }

    fn cause(event: Event, version: u64) -> Cause {
        let before = match event {
            Event::Updated => version - 1,
            Event::Deleted => uid_hash("u"),
            _ => 0,
        };
        let version = NonZeroU64::new(version);
        Cause {
            version,
            before,
            ..Cause::of(event)
        }
    }

    fn write(certainty: Certainty) -> Write {
        Write {
            certainty,
            writer: KEY.hash64(),
        }
    }

    fn note(own: &Own, effect: &Effect, write: Write) {
        own.note(0, effect, write);
    }

    #[test]
    fn an_event_is_own_by_source_key_and_version_and_a_deletion_by_uid() {
        let (own, key) = (Own::default(), KEY.hash64());
        let knows = |cause: &Cause, key| own.knows(cause, key).is_some();
        assert!(!knows(&cause(Event::Updated, 7), key));
        note(&own, &stored(7), write(Certainty::Likely));
        note(&own, &gone(), write(Certainty::Likely));
        assert!(knows(&cause(Event::Updated, 7), key));
        assert!(!knows(&cause(Event::Updated, 8), key));
        assert!(!knows(&cause(Event::Requeued, 7), key));
        assert!(!knows(&cause(Event::Updated, 7), key + 1));
        let mut other = cause(Event::Updated, 7);
        other.source = 1;
        assert!(!knows(&other, key));
        assert!(knows(&cause(Event::Deleted, 9), key));
        assert!(!knows(&cause(Event::Added, 9), key));
    }

    #[test]
    fn an_echo_is_one_write_of_the_same_key_and_nothing_else() {
        let merged = Cause {
            before: 5,
            ..cause(Event::Updated, 7)
        };
        let updated = cause(Event::Updated, 7);
        for (certainty, cause, expected) in [
            (Certainty::Likely, &updated, false),
            (Certainty::Changed(6), &updated, true),
            // Another writer's version 6 is in the same event.
            (Certainty::Changed(6), &merged, false),
            (Certainty::Created, &cause(Event::Added, 7), true),
            (Certainty::Created, &updated, false),
        ] {
            let own = Own::default();
            note(&own, &stored(7), write(certainty));
            // A later write that changed nothing takes no certainty away.
            note(&own, &stored(7), write(Certainty::Likely));
            assert_eq!(own.is_echo(KEY, cause), expected, "{certainty:?} {cause:?}");
            let writer = KEY.hash64() + 1;
            let own = Own::default();
            note(&own, &stored(7), Write { certainty, writer });
            assert!(!own.is_echo(KEY, cause), "a run of another key made it");
        }
        let own = Own::default();
        note(&own, &gone(), write(Certainty::Likely));
        assert!(own.is_echo(KEY, &cause(Event::Deleted, 9)));
    }

    #[test]
    fn the_oldest_writes_are_forgotten() {
        let own = Own::default();
        let last = 3 * KNOWN as u64;
        for version in 1..=last {
            note(
                &own,
                &stored(version),
                write(Certainty::Changed(version - 1)),
            );
        }
        let known = lock(&own.known);
        assert_eq!((known.marks.len(), known.order.len()), (KNOWN, KNOWN));
        drop(known);
        let first = last - KNOWN as u64 + 1;
        assert!(own.is_echo(KEY, &cause(Event::Updated, first)));
        assert!(!own.is_echo(KEY, &cause(Event::Updated, first - 1)));
    }
}
