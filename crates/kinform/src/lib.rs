//! Informers for Kubernetes: shared caches with indexes, handlers, work queues and controllers.
//!
//! ```text
//! source → reflector → delta fifo → store + indexes → fan-out → handlers → work queue → reconcile
//! └─ here: HTTP   └──────────── machines of kinform-core, driven from here ──────────┘
//! ```
//!
//! # I want to ..
//!
//! | .. | type |
//! |---|---|
//! | cache a resource and follow it | [`InformerFactory::informer`], [`Informer`] |
//! | narrow it: namespaces, labels, fields, metadata only | [`InformerFactory::select`], [`Target`], [`InformerBuilder`] |
//! | keep less of each object, or change it before it is stored | [`Projection`], [`Transform`] |
//! | read the cache | [`Store`], [`Snapshot`], [`Lister`] |
//! | find objects by a field, a label, an owner or a function | [`Index`], [`IndexReader`] |
//! | read a state that is over, or what changed between two | [`Informer::keep_past`], [`Store::at`], [`Snapshot::changes_to`] |
//! | look at objects with those that they name | [`Informer::join`], [`View`] |
//! | receive changes in closures | [`Handlers`], [`Registration`] |
//! | receive changes as a stream | [`Informer::changes`], [`Notification`] |
//! | reconcile objects | [`Controller`], [`Action`], [`Ctx`] |
//! | create or repair an object that a reconciled one owns | [`Ctx::apply`], [`Ctx::create_or_update`], [`owner`] |
//! | write a status with conditions | [`Ctx::status`], [`conditions`] |
//! | clean up when an object is deleted | [`Controller::finalizer`], [`finalizer`] |
//! | reconcile for some changes only | [`Controller::filter`], [`predicate`] |
//! | reconcile at a time, or not again | [`Action::wake_at`], [`Permanent`] |
//! | wait until an object is in a state | [`Informer::until`], [`until`] |
//! | let tenants take turns | [`Controller::fair_by`], [`WorkQueue::fair_by`], [`Fairness`] |
//! | queue keys for workers of my own | [`WorkQueue`], [`Limiter`] |
//! | read my own writes | [`OwnWrites`], [`Overlay`], [`Informer::reached`] |
//! | decide on a view that is not old | [`Ctx::require_fresh`], [`Controller::destructive_needs_fresh`] |
//! | keep objects in a store of my own | [`Reflector`], [`ReflectorStore`] |
//! | monitor an informer | [`Informer::state`], [`Informer::reports`], [`InformerStats`] |
//! | publish events about an object | [`events::EventRecorder::with_series`], or `new` for events of `v1` |
//! | follow many clusters, which come and go | [`Clusters`], [`ClusterInformer`], [`Clusters::engage`] |
//! | connect as kubectl does, or otherwise | [`source::load_config`], [`source::client_for`] |
//! | read from a source other than an API server | [`source::ListerWatcher`] |
//! | record what a server sent, and replay it | [`recording::Recorder`], [`recording::ReplaySource`] |
//!
//! # An informer
//!
//! ```no_run
//! # async fn example() -> Result<(), kinform::Error> {
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kinform::{Handlers, Index, InformerFactory};
//!
//! let factory = InformerFactory::try_default().await?;
//! let pods = factory.informer::<Pod>(); // one watch, however many callers
//! let by_node = pods.add_index(Index::path("spec.nodeName"))?;
//! pods.add_handler(Handlers::new().on_delete(|pod| println!("{} is gone", pod.key())))?;
//! factory.start()?;
//! factory.synced_within(Duration::from_secs(60)).await?; // an error names late informers, and why
//! for pod in &by_node.get("node-7") {
//!     println!("{} {}", pod.key(), pod.resource_version()); // decodes nothing, holds no lock
//! }
//! for pod in by_node.get("node-7").typed() {
//!     println!("{:?}", pod.status); // an Arc<Pod>
//! }
//! factory.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # A controller
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kinform::{Action, Controller, Ctx, Error, Informer, InformerFactory, ObjectKey};
//!
//! struct State {
//!     deployments: Informer<Deployment>,
//! }
//!
//! async fn reconcile(config: Arc<ConfigMap>, cx: Ctx<State>) -> Result<Action, Error> {
//!     let name = config.metadata.name.as_deref().unwrap_or_default();
//!     let key = ObjectKey::new(cx.key().namespace(), name);
//!     println!("{key}: {}", cx.deployments.get(&key).is_some());
//!     Ok(Action::await_change())
//! }
//!
//! # async fn example() -> Result<(), Error> {
//! let factory = InformerFactory::try_default().await?;
//! let configs = factory.informer::<ConfigMap>();
//! let deployments = factory.informer::<Deployment>();
//! let controller = Controller::of(&configs)
//!     .owns(&deployments)
//!     .workers(4)
//!     .shutdown_on_signal()
//!     .context(State { deployments });
//! factory.start()?;
//! controller.run(reconcile).await?; // an error retries that key, later each time
//! factory.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What a handler hears
//!
//! First every stored object as an initial add, then `synced` once, then each change: add, update
//! (with the state that this handler received last) and delete (with the last state). For one
//! object the order is the server's. A handler that falls too far behind receives a diff from its
//! last state instead; a delete that was not itself seen is marked
//! ([`Deleted::is_final_state_unknown`]). An object that was deleted and created again under the
//! same name is a delete and an add. A list without changes causes no calls. A resync, if
//! requested, repeats each stored object: to `on_resync`, or else to `on_update`. A panic is
//! caught, counted and reported; the next change comes as if nothing had happened.
//!
//! # Coming from client-go
//!
//! | client-go | here |
//! |---|---|
//! | `SharedInformerFactory` | [`InformerFactory`] |
//! | `SharedIndexInformer` | [`Informer`] |
//! | `ResourceEventHandlerFuncs`, `FilteringResourceEventHandler` | [`Handlers`], [`Handlers::filtered`] |
//! | `isInInitialList` | [`Added::is_initial`] |
//! | `DeletedFinalStateUnknown` | [`Deleted::is_final_state_unknown`] |
//! | `WaitForCacheSync` | [`InformerFactory::synced_within`], [`Informer::synced`] |
//! | `Indexer`, `AddIndexers`, `ByIndex` | [`Informer::add_index`], [`IndexReader::get`] |
//! | `defaultResync` | [`FactoryBuilder::resync_period`], [`InformerBuilder::resync_period`] |
//! | `TypedRateLimitingInterface` | [`WorkQueue`] |
//! | `Get`, `Done`, `Forget`, `AddRateLimited` | [`WorkQueue::get`], [`workqueue::Item::settle`] with a [`Verdict`] |
//! | `Reflector`, `Store` | [`Reflector`], [`ReflectorStore`] |
//! | `MutationCache` | [`Overlay`] |
//! | `record.EventRecorder`, `events.EventRecorder` | [`events::EventRecorder`]: `new`, `with_series` |
//! | `RetryOnConflict` | [`retry_on_conflict`] |
//! | `CreateOrUpdate`, `SetControllerReference` | [`create_or_update`], [`owner::set_controller`] |
//! | `SetStatusCondition` | [`conditions::set`], [`StatusEdit::condition`] |
//! | `GenerationChangedPredicate` | [`predicate::generation_changed`] |
//! | `TerminalError` | [`Permanent`] |
//!
//! # Coming from kube-rs
//!
//! | kube-rs | here |
//! |---|---|
//! | `Api::all(client)`, `Api::namespaced` | [`InformerFactory::new`] with the client, [`InformerBuilder::namespaces`]; or `select(&api)` |
//! | `watcher`, `reflector`, `Store` | [`Informer`], which runs without being polled; [`Store`] |
//! | `watcher::Event` | [`Notification`] |
//! | `reflector::store_shared` | every [`Informer`] is shared |
//! | `Controller::new(api, config)` | [`Controller::of`] an informer |
//! | `.owns`, `.watches` | the same |
//! | `reconcile(Arc<K>, Arc<Ctx>)` | runs as `\|object, cx\| reconcile(object, cx.context())` |
//! | `error_policy` | a [`Limiter`]; or [`controller::with_error_policy`] |
//! | `finalizer` | [`Controller::finalizer`] |
//! | `predicates` | [`Controller::filter`] |
//! | `wait::await_condition` | [`Informer::until`] |
//! | `Action::requeue`, `Action::await_change` | the same |
//! | `metadata_watcher` | [`InformerBuilder::metadata_only`] |
//!
//! This crate is the shell: tasks, timers and sockets, on tokio and `kube-client`. Every decision is
//! made by a machine of `kinform-core`; every clock and random number comes from [`mod@env`].
//!
//! Upstream counterpart: `client-go:tools/cache`, `client-go:informers`.

mod changes;
mod clusters;
pub mod controller;
pub mod env;
mod error;
pub mod events;
mod factory;
mod handler;
mod hands;
mod index;
mod index_key;
mod informer;
mod join;
mod lister;
mod memory;
mod metrics;
mod object;
mod overlay;
pub mod recording;
mod reflector_options;
mod registry;
mod report;
mod reporter;
mod retry;
mod share;
mod snapshot;
pub mod source;
mod state;
mod store;
mod sync;
pub mod workqueue;

pub use jiff::Timestamp;
pub use kinform_api::selector::{LabelOperator, LabelSelector, Requirement};
pub use kinform_api::{
    FieldPath, GroupResource, GroupVersionResource, KeyRef, ListOptions, ObjectKey,
    ResourceVersion, Scope, Status, TypeMeta, VersionMatch, WatchOptions,
};
pub use kinform_core::Encoding;
pub use kinform_core::backoff::BackoffPolicy;
pub use kinform_core::delta::Quarantine;
pub use kinform_core::fifo::{FifoLimits, FifoPolicy};
pub use kinform_core::informer::audit::Divergence;
pub use kinform_core::informer::ring::RingLimits;
pub use kinform_core::object::Object;
pub use kinform_core::object::changed::Changed;
pub use kinform_core::object::owner::OwnerReference;
pub use kinform_core::object::projection::Projection;
pub use kinform_core::object::typed::DecodeError;
pub use kinform_core::queue::{
    AddOutcome, Fairness, Limiter, Next, Priority, QueueStats, Running, Verdict, Waiting, Waits,
};
pub use kinform_core::recording::Recording;
pub use kinform_core::reflector::config::{FirstList, StreamingList};
pub use kinform_core::reflector::limits::CacheLimits;
pub use kinform_core::shards::{Ranges, ShardField, ShardId, Shards};
pub use kinform_core::stats::Histogram;
pub use kinform_core::store::past::PastLimits;
pub use kinform_core::time::Instant;
pub use tokio_util::sync::CancellationToken;

pub use crate::changes::Changes;
pub use crate::clusters::{
    Cluster, ClusterInformer, ClusterKey, ClusterListings, ClusterRegistration, Clusters,
    Discovered, Discovery,
};
pub use crate::controller::{
    Action, Cause, CauseEvent, Causes, Cleanup, Controller, ControllerMetrics, ControllerStats,
    Ctx, Enqueue, Finish, Origin, RecentRun, Reconciler, RunOutcome, WaitingKey, Warning,
    predicate,
};
pub use crate::error::{Error, Permanent, SourceError, SourceErrorKind};
pub use crate::factory::{
    DecodedValues, FactoryBuilder, InformerBuilder, InformerFactory, Lifetime, Target,
};
pub use crate::handler::{Added, Deleted, Handlers, Notification};
pub use crate::hands::{
    Apply, StatusEdit, Written, conditions, create_or_update, delete, finalizer, owner, patch,
    write_status, write_status_as,
};
pub use crate::index::Index;
pub use crate::index_key::IndexKey;
pub use crate::informer::{
    HandlerStats, Informer, OwnWrites, Reflector, ReflectorStore, Registration, Storage,
    StoreError, Transform, Until, until,
};
pub use crate::join::{JoinSnapshot, Row, RowChange, RowChanges, View};
pub use crate::lister::{Lister, NamespaceLister};
pub use crate::memory::{MemoryStep, MemoryUse};
pub use crate::metrics::InformerStats;
pub use crate::object::{Obj, ObjRef};
pub use crate::overlay::Overlay;
pub use crate::reflector_options::ReflectorOptions;
pub use crate::report::{Report, ReportEvent, Reports};
pub use crate::retry::retry_on_conflict;
pub use crate::share::{ShardState, Share};
pub use crate::snapshot::DiskCache;
pub use crate::source::ResourceInfo;
pub use crate::state::{InformerState, Trouble};
pub use crate::store::{Differences, Handles, IndexReader, Listing, Objects, Snapshot, Store};
pub use crate::workqueue::WorkQueue;

/// The examples of the READMEs.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;

    #[doc = include_str!("../../../README.md")]
    struct Repository;
}
