//! The view *Pipeline*: the way of data through the program, with rates and lag on each edge.
//!
//! ```text
//! Sampled ─▶ Pipeline { informers: wire → deltas → store → handlers,  controllers: queue → reconcile }
//! ```
//!
//! Upstream counterpart: none.

use kinform::{ShardField, ShardState, Share};
use serde::{Deserialize, Serialize};

use super::numbers::{Head, Latency, Rate, millis};
use super::program::{Cache, Lease, Program, type_name, word};
use super::sampler::{CacheFlow, ControllerFlow, Sampled};
use super::sight::Sight;

/// The way of data through the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Pipeline {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The time over which rates are taken, in milliseconds; `null` at the first look.
    pub window_ms: Option<f64>,
    /// The lease, of an operator with leader election.
    pub lease: Option<LeaseState>,
    /// The division of keys among replicas, if there is one.
    pub sharding: Option<ShardingState>,
    /// The informers whose type the caller may list.
    pub informers: Vec<InformerFlow>,
    /// The controllers.
    pub controllers: Vec<QueueFlow>,
    /// Informers that are left out, since the caller may not list their type.
    pub hidden: u64,
}

/// The lease of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LeaseState {
    /// Namespace and name.
    pub name: String,
    /// This replica leads.
    pub is_leading: bool,
}

/// The division of keys among replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ShardingState {
    /// The number of shards in all replicas.
    pub shards: u64,
    /// The field by which keys are divided: `namespace` or `uid`.
    pub by: String,
    /// The number of shards of this replica.
    pub own: u64,
    /// The first of them, at most 256.
    pub rows: Vec<ShardRow>,
}

/// One shard of this replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ShardRow {
    /// Its number.
    pub shard: u32,
    /// `reading` (its range is read), `waiting` (for its owner, or its caches), `open`, or `closing`
    /// (reconciles run to their end).
    pub state: String,
    /// Reconciles that run.
    pub running: u64,
}

/// BOUND: shards in an answer.
const MAX_SHARD_ROWS: usize = 256;

/// The data of one informer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct InformerFlow {
    /// The name of the cache.
    pub cache: String,
    /// One word: see [`CacheRow::state`](super::CacheRow::state).
    pub state: String,
    /// Bytes of bodies read, decompressed.
    pub wire_bytes: Rate,
    /// Items of lists and events of watches.
    pub deltas: Rate,
    /// Deltas that wait to be applied.
    pub queued: u64,
    /// Objects stored.
    pub objects: u64,
    /// Memory of the store.
    pub bytes: u64,
    /// Changes delivered to handlers.
    pub notifications: Rate,
    /// Handlers and streams.
    pub handlers: u64,
    /// Batches that the slowest handler has not heard yet.
    pub lag: u64,
    /// From the publication of a change in the store until a handler is done with it, sampled, over
    /// ten seconds or so.
    pub handled: Latency,
}

/// The data of one controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueFlow {
    /// The name of the controller.
    pub controller: String,
    /// The resource that it reconciles, if the caller may list it.
    pub resource: Option<String>,
    /// Workers.
    pub workers: u64,
    /// Keys that wait for a worker.
    pub depth: u64,
    /// Keys that workers have.
    pub in_work: u64,
    /// Times that a key began to wait.
    pub adds: Rate,
    /// Reconciles that ended.
    pub runs: Rate,
    /// Reconciles that failed.
    pub failures: Rate,
    /// From the add of a key to a worker, over ten seconds or so.
    pub waited: Latency,
    /// From a worker to the end of the reconcile, over ten seconds or so.
    pub took: Latency,
}

/// The view for this caller.
pub(super) fn pipeline(program: &Program, sampled: &Sampled, sight: &Sight) -> Pipeline {
    let sees = |cache: &Cache| sight.sees_cache(cache.informer.resource());
    let all = sampled.caches();
    let (seen, hidden): (Vec<_>, Vec<_>) = all.partition(|(cache, _)| sees(cache));
    let flows = seen.into_iter().map(|(cache, flow)| informer(cache, &flow));
    let controllers = sampled.controllers().map(|(controller, flow)| {
        let of = controller.metrics.resources().first();
        let of = of.filter(|info| sight.sees_some(&info.resource));
        QueueFlow {
            controller: controller.name.clone(),
            resource: of.map(type_name),
            workers: controller.workers as u64,
            ..queue(&flow)
        }
    });
    Pipeline {
        head: Head::of(&program.name),
        window_ms: sampled.window().map(millis),
        lease: (program.lease)().map(|lease: Lease| LeaseState {
            name: lease.name,
            is_leading: lease.is_leading,
        }),
        sharding: program.share.as_ref().map(sharding),
        informers: flows.collect(),
        controllers: controllers.collect(),
        hidden: hidden.len() as u64,
    }
}

fn sharding(share: &Share) -> ShardingState {
    let (shards, states) = (share.shards(), share.states());
    let row = |state: &ShardState| ShardRow {
        shard: state.shard.0,
        state: match (state.is_open, state.running, state.has_synced) {
            (true, ..) => "open",
            (false, 1.., _) => "closing",
            (false, 0, true) => "waiting",
            (false, 0, false) => "reading",
        }
        .to_owned(),
        running: state.running as u64,
    };
    ShardingState {
        shards: u64::from(shards.count()),
        by: match shards.field() {
            ShardField::Namespace => "namespace",
            ShardField::Uid => "uid",
        }
        .to_owned(),
        own: states.len() as u64,
        rows: states.iter().take(MAX_SHARD_ROWS).map(row).collect(),
    }
}

fn informer(cache: &Cache, flow: &CacheFlow<'_>) -> InformerFlow {
    let stats = flow.stats;
    InformerFlow {
        cache: cache.id.clone(),
        state: word(&cache.informer.state()).to_owned(),
        wire_bytes: flow.rate(|stats| stats.wire_bytes),
        deltas: flow.rate(|stats| stats.events + stats.items),
        queued: stats.queue_depth,
        objects: stats.objects,
        bytes: stats.heap_bytes,
        notifications: flow.rate(|stats| stats.notifications),
        handlers: stats.handlers,
        lag: stats.handler_lag,
        handled: flow.latency,
    }
}

fn queue(flow: &ControllerFlow<'_>) -> QueueFlow {
    QueueFlow {
        depth: flow.stats.queue.depth as u64,
        in_work: flow.stats.queue.processing as u64,
        adds: flow.rate(|stats| stats.queue.adds),
        runs: flow.rate(kinform::controller::ControllerStats::reconciles),
        failures: flow.rate(|stats| stats.failed),
        waited: flow.waited,
        took: flow.took,
        ..QueueFlow::default()
    }
}
