//! Informers for Kubernetes: shared caches with indexes, handlers, work queues and controllers.
//!
//! ```text
//! source → reflector → delta fifo → store + indexes → fan-out → handlers → work queue → reconcile
//! └─ here: HTTP   └──────────── machines of kinform-core, driven from here ──────────┘
//! ```
//!
//! This crate is the shell: tasks, timers and sockets, on tokio and `kube-client`. Every decision is
//! made by a machine of `kinform-core`; every clock and random number comes from [`mod@env`].
//!
//! | file | what lives there |
//! |---|---|
//! | `factory`, `select`, `registry` | [`InformerFactory`]: one watch for all who ask for the same |
//! | `informer` | [`Informer`] and the tasks behind it |
//! | `store`, `lister`, `index` | reading the cache |
//! | `overlay` | reading the cache with one's own writes laid over it |
//! | `handler`, `changes` | hearing what changes: closures, or a stream |
//! | `state`, `report`, `metrics` | how it is doing |
//! | [`workqueue`], [`controller`] | keys for workers, and the loop around a reconcile function |
//! | [`events`] | what controllers tell people |
//! | `source` | where lists and watches come from |
//! | `env` | clocks and randomness |
//!
//! ```no_run
//! # async fn example() -> Result<(), kinform::Error> {
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::Pod;
//! use kinform::{Handlers, Index, InformerFactory};
//!
//! let factory = InformerFactory::try_default().await?;
//! let pods = factory.informer::<Pod>(); // one watch, however many ask
//! let by_node = pods.add_index(Index::path("spec.nodeName"))?;
//! pods.add_handler(Handlers::new().on_delete(|pod| println!("{} is gone", pod.key())))?;
//! factory.start()?;
//! factory.synced_within(Duration::from_secs(60)).await?; // an error says who is late, and why
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
//! Upstream counterpart: `client-go:tools/cache`, `client-go:informers`.

mod changes;
pub mod controller;
pub mod env;
mod error;
pub mod events;
mod factory;
mod handler;
mod index;
mod informer;
mod lister;
mod metrics;
mod object;
mod overlay;
mod registry;
mod report;
mod retry;
mod select;
pub mod source;
mod state;
mod store;
pub mod workqueue;

pub use kinform_core::backoff::BackoffPolicy;
pub use kinform_core::fifo::FifoPolicy;
pub use kinform_core::object::projection::Projection;
pub use kinform_core::object::typed::DecodeError;
pub use kinform_core::queue::{AddOutcome, Limiter, Next, Priority, QueueStats, Running, Verdict};
pub use kinform_core::reflector::config::{FirstList, ReflectorConfig, StreamingList};

pub use crate::changes::Changes;
pub use crate::error::Error;
pub use crate::factory::{FactoryBuilder, InformerFactory};
pub use crate::handler::{Deleted, Handlers, Notification};
pub use crate::index::Index;
pub use crate::informer::{Informer, OwnWrites, Registration, Transform};
pub use crate::lister::{Lister, NamespaceLister};
pub use crate::metrics::InformerStats;
pub use crate::object::{Obj, ObjRef};
pub use crate::overlay::Overlay;
pub use crate::report::{Report, ReportEvent, Reports};
pub use crate::retry::retry_on_conflict;
pub use crate::select::InformerBuilder;
pub use crate::state::{InformerState, Trouble};
pub use crate::store::{Handles, IndexReader, Listing, Objects, Snapshot, Store};
