//! Reports of the applier: events for people, counts for metrics.
//!
//! ```text
//! Applier ──ApplyEvent, ApplyCounts──▶ the shell's reports and metrics
//! ```
//!
//! Nothing here is needed to go on; leaving it unread loses nothing but knowledge. Events name keys,
//! versions and reasons, never content.
//!
//! Upstream counterpart: the log lines of `client-go:tools/cache`.

use kinform_api::ObjectKey;

use crate::delta::Quarantine;
use crate::store::index::IndexFailure;

/// Something worth saying, for reports and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyEvent {
    /// A list was published.
    Listed(Listed),
    /// A list broke off and was dropped.
    ListAborted,
    /// The server went back: its list is older than what was stored.
    WentBack {
        /// The version that was stored.
        from: String,
        /// The version of the list.
        to: String,
    },
    /// An object was quarantined.
    Quarantined(Quarantine),
    /// A quarantined object can be read again, or was deleted.
    Healed(ObjectKey),
    /// An object is stored, but not under this index.
    Unindexed(IndexFailure),
}

/// The outcome of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its version.
    pub version: String,
    /// Objects that it named.
    pub items: usize,
    /// Of these, the ones that were stored already, at the same version.
    pub unchanged: usize,
    /// Stored objects that it did not name, and that are gone therefore.
    pub deleted: usize,
    /// Stored objects that it did not name, and that stay, since an item could not be read.
    pub withheld: usize,
    /// Items that could not be read.
    pub quarantined: usize,
}

/// Counts since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplyCounts {
    /// Events of the watch that changed the store.
    pub applied: u64,
    /// Events dropped since the same version is stored.
    pub duplicates: u64,
    /// Events dropped since something newer is stored under their key.
    pub stale: u64,
    /// Deletes of what is not stored.
    pub unknown_deletes: u64,
    /// Bookmarks below the version that was reached already.
    pub late_bookmarks: u64,
    /// Objects quarantined.
    pub quarantined: u64,
    /// Objects that an index leaves out.
    pub unindexed: u64,
    /// Lists published.
    pub lists: u64,
    /// Lists dropped.
    pub aborted_lists: u64,
}
