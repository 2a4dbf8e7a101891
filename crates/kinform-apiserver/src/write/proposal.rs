//! The first half of a write: the object that a request proposes.
//!
//! ```text
//! request + stored state -> decode, patch or apply, uid, owners -> Proposal ──complete──▶ Outcome
//! ```
//!
//! Each verb has a `propose` of its own (`create.rs`, `update.rs`, `patch.rs`, `apply.rs`); all of
//! them are pure, and run again when the stored state changed before the commit.

use serde_json::Value;

/// An object before the server's own fields and the checks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) object: Value,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
    pub(crate) owners: Owners,
}

/// The treatment of the managed fields of an object that is too large with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// They are left out.
    Spared,
    /// The object is refused: an apply exists for its owners.
    Needed,
}
