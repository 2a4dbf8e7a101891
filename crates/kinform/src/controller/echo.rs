//! Echoes: events of a write whose own run has the reply.
//!
//! ```text
//! own write (evidence, key whose run made it) + cause of a key → that write and nothing else?
//! ```
//!
//! Upstream counterpart: none.

use kinform_core::causes::{Cause, Event};

/// The treatment of echoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echoes {
    /// They queue keys as other events do.
    Heard,
    /// They queue no key.
    Ignored,
}

/// The evidence that a version is an own write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    /// It created the object.
    Created,
    /// It changed the object of this version.
    Changed(u64),
    /// It deleted the object.
    Deleted,
    /// None: it may have changed nothing.
    Likely,
}

/// A write of this controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) certainty: Certainty,
    /// The hash of the key whose run made it.
    pub(super) writer: u64,
}

impl Write {
    /// Returns whether a run of the key with this hash made it, and the cause is that write and nothing
    /// else. An informer that fell behind reports several updates as one: then the version before is
    /// not the one that the write changed, and another writer's change may be among them.
    pub(super) fn is_echo(self, key: u64, cause: &Cause) -> bool {
        let is_alone = match (self.certainty, cause.event) {
            (Certainty::Created, Event::Added) | (Certainty::Deleted, Event::Deleted) => true,
            (Certainty::Changed(from), Event::Updated) => from == cause.before,
            _ => false,
        };
        is_alone && self.writer == key
    }
}
