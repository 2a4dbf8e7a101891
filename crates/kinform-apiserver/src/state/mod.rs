//! The data of a running server, without its sockets and its request handlers.
//!
//! ```text
//! router, verbs, controllers ──▶ State { store, registry, access, faults, journal, .. }
//! ```
//!
//! The modules above share one `State`; this module answers no request.
//!
//! * `derived.rs`: values computed from stored objects; `metrics.rs`: counts and durations of
//!   requests; `plugins.rs`: the admission plugins that are on; `feature_gates.rs`: the features that
//!   are on; `mirrors.rs`: the objects of versions
//!   that are not stored;
//! * `owner_graph.rs`: the objects that refer to each owner; `pod_logs.rs`: lines that tests
//!   register for containers; `event_ttl.rs`: when events end; `documents.rs`: OpenAPI documents that
//!   were made; `wanted_deletes.rs`: deletes that await admission; `quota_counts.rs`: namespaces
//!   whose quotas are to be counted; `shares.rs`: cores and memory of costly requests; `offload.rs`:
//!   their computation on other threads.

pub(crate) mod derived;
pub(crate) mod documents;
pub(crate) mod event_ttl;
pub(crate) mod feature_gates;
pub(crate) mod metrics;
pub(crate) mod mirrors;
pub(crate) mod offload;
pub(crate) mod owner_graph;
pub(crate) mod plugins;
pub(crate) mod pod_logs;
pub(crate) mod quota_counts;
pub(crate) mod shares;
pub(crate) mod wanted_deletes;

use std::sync::Arc;
use std::time::Duration;

use kinform_api::Status;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::derived::Derived;
use self::documents::Documents;
use self::event_ttl::EventTtl;
use self::feature_gates::{FeatureGate, FeatureGates};
use self::metrics::Metrics;
use self::mirrors::Mirrors;
use self::owner_graph::OwnerGraph;
use self::plugins::AdmissionPlugins;
use self::pod_logs::PodLogs;
use self::quota_counts::QuotaCounts;
use self::shares::Shares;
use self::wanted_deletes::WantedDeletes;
use crate::access::Access;
use crate::budget;
use crate::clock::Clock;
use crate::encode::select::Selection;
use crate::fault::Faults;
use crate::hooks::Hooks;
use crate::http::list_options::ReadOptions;
use crate::http::route::Target;
use crate::http::shard_selector::ShardSelector;
use crate::journal::Journal;
use crate::kubelets::Kubelets;
use crate::random;
use crate::resource::Registry;
use crate::storage::{Shelf, Store, View};

/// Default duration of a watch; a random factor of up to two lengthens it.
const WATCH_TIMEOUT: Duration = Duration::from_secs(1800);
/// The longest timeout that a watch may ask for.
const LONGEST_WATCH: u64 = 7 * 24 * 3600;

/// Bounds and periods of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events that a live watch may be behind before it is cut.
    pub(crate) watch_backlog: usize,
    /// Interval of bookmarks, for watches that allow them.
    pub(crate) bookmark_period: Option<Duration>,
    /// Watches at a time, over all clients.
    pub(crate) watches: usize,
    /// The size of a request's body.
    pub(crate) body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            watch_backlog: 10_000,
            // BOUND: an idle watch is about 2 KB.
            watches: 100_000,
            bookmark_period: Some(Duration::from_secs(60)),
            body: budget::BODY,
        }
    }
}

/// The data of a server.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) faults: Faults,
    pub(crate) journal: Arc<Journal>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) access: Access,
    pub(crate) logs: PodLogs,
    /// The references of all stored objects; `None` if the server does not collect garbage.
    pub(crate) owners: Option<OwnerGraph>,
    pub(crate) event_ttl: EventTtl,
    pub(crate) quota_counts: QuotaCounts,
    pub(crate) wanted_deletes: WantedDeletes,
    pub(crate) clock: Clock,
    /// Names under which it is reached, besides those of every server.
    pub(crate) names: Vec<String>,
    /// Permits left for further watches.
    pub(crate) watches: Arc<Semaphore>,
    /// Cores and memory for further costly requests.
    pub(crate) shares: Shares,
    /// Stores objects all the same that this server never acts on.
    pub(crate) keeps_inert: bool,
    /// The compiled-in admission plugins that are on.
    pub(crate) plugins: AdmissionPlugins,
    pub(crate) gates: FeatureGates,
    /// Calls of webhooks.
    pub(crate) hooks: Hooks,
    /// The parsed configurations of webhooks.
    pub(crate) webhooks: Derived,
    /// The compiled admission policies.
    pub(crate) policies: Derived,
    /// Objects in versions of definitions that are not stored.
    pub(crate) mirrors: Mirrors,
    /// Exchanges with the kubelets of nodes; `None` if the server calls no kubelet.
    pub(crate) kubelets: Option<Kubelets>,
    /// A kubelet ends deleted pods, not the server.
    pub(crate) has_kubelets: bool,
    /// The authority that each namespace has a copy of; `None` if namespaces begin empty.
    pub(crate) namespace_authority: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) openapi: Documents,
    pub(crate) stopping: CancellationToken,
    /// Enables fault injection over a socket.
    pub(crate) has_admin_path: bool,
}

impl State {
    /// View for reads that may be stale: the store, or a replica with an injected lag.
    pub(crate) fn replica_view(&self, shelf: Shelf) -> View {
        let lagging = self
            .faults
            .replica()
            .and_then(|at| self.store.view_at(shelf, at).ok());
        lagging.unwrap_or_else(|| self.store.shown(shelf))
    }

    /// The revision that the replica has reached.
    pub(crate) fn replica_revision(&self) -> u64 {
        let now = self.store.revision();
        self.faults.replica().map_or(now, |at| at.min(now))
    }

    /// Resolves the selectors of a request. Selectors of shards count only if the feature is on.
    ///
    /// # Errors
    /// A field that the resource does not know, a name that contradicts the path's, or a malformed
    /// selector of shards.
    pub(crate) fn selection(
        &self,
        target: &Target,
        options: &ReadOptions,
    ) -> Result<Selection, Status> {
        let selection = Selection::new(target, options.labels.clone(), &options.fields)?;
        let is_sharded =
            !options.shards.is_empty() && self.gates.has(FeatureGate::ShardedListAndWatch);
        let shards = is_sharded.then(|| ShardSelector::parse(&options.shards));
        Ok(selection.within(shards.transpose()?))
    }

    pub(crate) fn bookmark_period(&self) -> Option<Duration> {
        self.limits.bookmark_period
    }

    /// Duration of a watch.
    pub(crate) fn watch_timeout(&self, asked_seconds: u64) -> Duration {
        match asked_seconds {
            0 => WATCH_TIMEOUT.mul_f64(1.0 + random::share()),
            asked => Duration::from_secs(asked.min(LONGEST_WATCH)),
        }
    }
}
