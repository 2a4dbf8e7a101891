//! The settings of a run: how its processes are made.
//!
//! ```text
//! seed ─▶ Settings { lease, fencing, style, servers, replicas } ─▶ servers; each process, at each of its starts
//! ```

use serde::{Deserialize, Serialize};

/// The finalizer of the controller.
pub(crate) const FINALIZER: &str = "simulated.kinform.dev/cleanup";
/// The annotation of a copy with the number of its config map.
pub(crate) const COPIED: &str = "copied";

/// Returns whether the transform of an informer panics at an object with this number.
pub(crate) fn is_poison(number: Option<&str>) -> bool {
    number.is_some_and(|number| number.ends_with('7'))
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// The timings of the lease.
    pub lease: Lease,
    /// The safeguard of a leader's writes.
    pub fencing: Fence,
    /// The way in which a reconcile makes its child.
    pub style: Style,
    /// The habits of the servers.
    pub servers: Servers,
    /// The controller keeps a finalizer.
    pub finalizer: bool,
    /// The processes.
    pub replicas: Vec<Replica>,
}

/// The timings of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Lease {
    /// Upstream's: 15 s.
    Default,
    /// 4 s.
    Quick,
}

/// The safeguard of a leader's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fence {
    /// The guard of the process.
    Guard,
    /// The server, too.
    Hard,
}

/// The way in which a reconcile makes its child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Style {
    /// `cx.apply` under a name made of the parent's.
    Apply,
    /// `cx.create_or_update` under such a name.
    CreateOrUpdate,
    /// A name of the server's choice, if the cache has no child.
    Generate,
}

/// The habits of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Servers {
    /// The answer to a watch whose history expired.
    pub expiry: Expiry,
    /// The answer of one that lags, to a list that must not be older than a version.
    pub behind: Behind,
    /// The life of a continue token.
    pub tokens: Tokens,
}

/// The answer of a server that lags, to a list that must not be older than a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Behind {
    /// A refusal after some seconds, as that of a real API server.
    Refusal,
    /// The objects that it has.
    Past,
}

/// The life of a continue token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tokens {
    /// It lasts as long as the history.
    Last,
    /// It has expired when it is used.
    Expire,
}

/// The answer of a server to a watch whose history expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expiry {
    /// An error event, as that of a real API server.
    Event,
    /// The status 410, in place of the event.
    Refusal,
}

/// The settings of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replica {
    /// JSON only, or protobuf where there is one.
    pub json: bool,
    /// Lists as streams, or as pages.
    pub streams: bool,
    /// The items of a page.
    pub page: u32,
    /// Deltas of one object together, or in order.
    pub coalesces: bool,
    /// Seconds from one resync to the next; 0 for none.
    pub resync: u64,
    /// Seconds from one audit of a cache to the next; 0 for none.
    pub audit: u64,
    /// Workers of the controller.
    pub workers: usize,
    /// Seconds that a watch lasts at least.
    pub watch: u64,
    /// The changes that are kept for slow handlers.
    pub ring: usize,
    /// Its caches are kept on disk from one start to the next.
    pub disk: bool,
}
