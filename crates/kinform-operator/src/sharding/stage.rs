//! Everything around a member that it needs to run.
//!
//! ```text
//! operator ──▶ Stage { informers, client, own lease, controllers' caches } ──▶ Member, Driver
//! ```
//!
//! Upstream counterpart: none.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kinform::InformerFactory;
use kinform::controller::LastWrites;
use kube_client::Client;

use crate::leader::Leadership;

/// Waits for caches.
pub(crate) type CatchUp = Arc<dyn Fn(Option<LastWrites>) -> BoxFuture<'static, ()> + Send + Sync>;

/// Everything that a member needs to run.
pub(crate) struct Stage<'a> {
    pub(crate) factory: &'a InformerFactory,
    /// A client that no term covers.
    pub(crate) client: Client,
    pub(crate) leadership: Leadership,
    /// The time that running reconciles have to end.
    pub(crate) grace: Duration,
    /// Waits until the caches of sharded controllers have these writes; `None`: what the server has
    /// now.
    pub(crate) catch_up: CatchUp,
    /// The last writes of the operator's controllers.
    pub(crate) last_writes: Arc<dyn Fn() -> LastWrites + Send + Sync>,
}
