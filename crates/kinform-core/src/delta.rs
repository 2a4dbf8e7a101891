//! The nouns that the rooms hand on: what a reflector heard, and what a handler hears.
//!
//! ```text
//! reflector ──Delta──▶ fifo ──Delta──▶ informer ──Change──▶ handlers
//! ```
//!
//! A [`Delta`] is what the server said, in its order; list and resync are tokens in the same stream.
//! A [`Change`] is what became of the store: the difference that a handler hears, with the state that
//! it heard before. Nothing here decides anything.
//!
//! Upstream counterpart: `client-go:tools/cache/delta_fifo.go` (`Delta`, `DeltaType`,
//! `DeletedFinalStateUnknown`) and `client-go:tools/cache/controller.go` (`ResourceEventHandler`).

use std::fmt;
use std::sync::Arc;

use kinform_api::{KeyRef, ObjectKey};

use crate::object::Object;
use crate::scope::Scope;
use crate::wire::unreadable::{MISSING, NAME};

/// One thing that a reflector heard, in the server's order.
///
/// # Order guarantees
/// `ListBegin`, then `Replaced` and `Quarantined`, of a stream also `Updated` and `Deleted`, then
/// `ListEnd` or `ListAbort`: a list is one barrier.
/// A `ListBegin` inside a list aborts the one before.
#[derive(Debug, Clone)]
pub enum Delta {
    /// The watch said that the object is new.
    Added(Object),
    /// The watch said that the object changed.
    Updated(Object),
    /// The watch said that the object is gone; this is its state at deletion.
    Deleted(Object),
    /// A list begins: paged, or streamed by a watch.
    ListBegin,
    /// An item of the list that runs.
    Replaced(Object),
    /// The list that runs is of a server that went back in time: a version that is stored already may
    /// name another state now.
    WentBack,
    /// The list that runs may be of another history than what is stored: a version that is stored already
    /// may name another state now.
    Doubted,
    /// The list is whole: what it did not name is gone, and the watch goes on from here.
    ListEnd {
        /// The version of the list.
        version: String,
    },
    /// The list broke off: all that it said is void.
    ListAbort,
    /// The resync period of these handlers has passed: they hear every stored object once more.
    Sync {
        /// The handlers that are due.
        due: Arc<[HandlerId]>,
    },
    /// The objects of a snapshot, with the changes since, are those that the server had when it was
    /// asked: the store is synced, as after a list.
    CaughtUp,
    /// The objects of a snapshot are not believed any more: the server has no such type.
    Forget,
    /// From now on only the objects of this scope are kept. What is outside leaves, without a deletion;
    /// what comes into it is stored by the next list.
    Scope(Arc<Scope>),
    /// Nothing changed up to this version.
    Bookmark {
        /// The version that the server named.
        version: String,
    },
    /// The server said something about an object that cannot be read.
    Quarantined(Quarantine),
}

/// An object quarantined since it cannot be read, or since its list has another of its name: its
/// place and the reason; never its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantine {
    /// Its key, as far as it can be read.
    pub key: Option<ObjectKey>,
    /// Its version, as far as it can be read.
    pub version: Option<String>,
    /// The path in the object at which reading stopped.
    pub path: String,
    /// Why it cannot be read, or is left out: one line.
    pub reason: String,
    /// The part of a reply that it came in.
    pub origin: QuarantineOrigin,
}

impl Quarantine {
    /// Returns whether it was read, and has no name: no object of a server is like that.
    #[must_use]
    pub fn is_nameless(&self) -> bool {
        self.key.is_none() && self.path == NAME && self.reason == MISSING
    }
}

/// The part of a server's reply that an unreadable object came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuarantineOrigin {
    /// An item of a list, paged or streamed.
    List,
    /// A watch event that says that the object is there: added or modified.
    Watch,
    /// A watch event that says that the object is gone.
    Deletion,
    /// An item of a list that has another item of that name.
    Duplicate,
}

/// Names one handler of one informer; never used twice in an informer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u64);

/// A change of one object, as one handler hears it.
///
/// # Order guarantees
/// For one handler and one key: `(Added Updated* Deleted)*`, with `Sync` only between `Added` and
/// `Deleted`; `old` is always what this handler heard last. Objects of different uid are never
/// joined by an `Updated`.
#[derive(Debug, Clone)]
pub enum Change {
    /// The object is there and was not before.
    Added {
        /// Its state.
        object: Object,
        /// True if the object was stored when the handler came.
        initial: bool,
    },
    /// The object changed.
    Updated {
        /// The state that this handler heard last.
        old: Object,
        /// The state now.
        new: Object,
    },
    /// The object is gone.
    Deleted {
        /// Its state at deletion; or the last state told, if the deletion itself was not heard.
        object: Object,
        /// True if the deletion itself was not heard, so that `object` may be older than the end.
        final_state_unknown: bool,
    },
    /// A resync: the object as this handler knows it already.
    Sync(Object),
}

impl Delta {
    /// The object that this speaks of, if it carries one.
    pub fn object(&self) -> Option<&Object> {
        match self {
            Self::Added(object)
            | Self::Updated(object)
            | Self::Deleted(object)
            | Self::Replaced(object) => Some(object),
            Self::ListBegin
            | Self::WentBack
            | Self::Doubted
            | Self::ListEnd { .. }
            | Self::ListAbort
            | Self::CaughtUp
            | Self::Forget
            | Self::Scope(_)
            | Self::Sync { .. }
            | Self::Bookmark { .. }
            | Self::Quarantined(_) => None,
        }
    }
}

impl Change {
    /// The newest state that this carries.
    pub fn object(&self) -> &Object {
        match self {
            Self::Added { object, .. } | Self::Deleted { object, .. } | Self::Sync(object) => {
                object
            }
            Self::Updated { new, .. } => new,
        }
    }

    /// The key of the object.
    pub fn key(&self) -> KeyRef<'_> {
        self.object().key_ref()
    }

    /// Bytes of versions that nothing but this change may keep alive: what the newest root has no
    /// more use for.
    pub fn heap_size(&self) -> usize {
        match self {
            Self::Added { .. } | Self::Sync(_) => 0,
            Self::Updated { old: object, .. } | Self::Deleted { object, .. } => object.heap_size(),
        }
    }
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}")?,
            None => f.write_str("an object without a readable name")?,
        }
        if let Some(version) = &self.version {
            write!(f, " at version {version}")?;
        }
        write!(f, ": {}", self.reason)?;
        if self.path.is_empty() {
            Ok(())
        } else {
            write!(f, " at {}", self.path)
        }
    }
}

impl fmt::Display for HandlerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "handler {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarantine_is_one_line() {
        let mut quarantine = Quarantine {
            key: Some(ObjectKey::new(Some("shop"), "cart")),
            version: Some("7".into()),
            path: "metadata.uid".into(),
            reason: "not a string".into(),
            origin: QuarantineOrigin::Watch,
        };
        assert_eq!(
            quarantine.to_string(),
            "shop/cart at version 7: not a string at metadata.uid"
        );
        quarantine = Quarantine {
            key: None,
            version: None,
            path: String::new(),
            ..quarantine.clone()
        };
        assert_eq!(
            quarantine.to_string(),
            "an object without a readable name: not a string"
        );
    }
}
