//! The orders of an election's owner.
//!
//! ```text
//! Leadership ──Orders──▶ driver, candidacy
//! ```
//!
//! Upstream counterpart: the context of `LeaderElector.Run`.

/// The orders of the owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    pub(super) is_stop: bool,
    /// Times that the owner said that no work runs.
    pub(super) idles: u64,
}
