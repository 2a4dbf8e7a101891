//! Sharding: all replicas work, each on its own part of the keys.
//!
//! ```text
//! leases of members, shards ──informer──▶ driver ◀─inputs, steps─▶ Sharding (core)
//!        ▲                                  │ extend, open, close ..
//!        └────────requests──────────────────┤                ▼
//! own member lease ◀─▶ Leadership ──terms───┘              Share ──▶ informers, controllers
//! ```
//!
//! `kinform-core/src/shards/` decides; this room asks the server and tells the share. The member's own
//! lease is that of an election without rivals, with a thread and connections of its own.
//!
//! `lease` is the wire, `division` lets replicas of one division work at a time, `requests` the way there, `waits` what is waited for, `sweep` removes leases of
//! processes that are gone, `driver` is the loop.
//!
//! Upstream counterpart: none.

mod division;
mod driver;
mod lease;
mod requests;
mod sweep;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kinform::controller::LastWrites;
use kinform::{InformerFactory, Shards, Share};
use kinform_api::names::dns_label_errors;
use kube_client::Client;
use tokio_util::sync::CancellationToken;

use self::division::DIVISION;
use self::driver::Driver;
use self::lease::{GROUP, Names};
use self::requests::Requests;
use crate::error::{Error, ErrorKind};
use crate::leader::{LeaderElection, Leadership, LeaseOptions};

/// The division of work among replicas.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ShardSettings {
    /// The division of keys. All replicas have the same.
    pub shards: Shards,
    /// The name of the group of replicas, of which its leases are named; the operator's if it is
    /// `None`.
    pub name: Option<String>,
    /// The namespace of the leases; the pod's if it is `None`.
    pub namespace: Option<String>,
    /// The timings of the members' leases. All replicas have the same.
    pub options: LeaseOptions,
}

impl ShardSettings {
    /// A division with the default timings.
    pub fn new(shards: Shards) -> Self {
        Self {
            shards,
            name: None,
            namespace: None,
            options: LeaseOptions::default(),
        }
    }
}

/// A replica of a group that shares its work.
pub(crate) struct Member {
    pub(crate) share: Share,
    pub(crate) settings: ShardSettings,
    group: String,
    pub(crate) namespace: String,
    /// The identity of this process.
    id: String,
}

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
    /// The last writes of sharded controllers.
    pub(crate) last_writes: Arc<dyn Fn() -> LastWrites + Send + Sync>,
}

impl Member {
    /// # Errors
    /// The name cannot be that of leases.
    pub(crate) fn new(
        operator: &str,
        settings: ShardSettings,
        namespace: String,
        id: String,
    ) -> Result<Self, Error> {
        let group = settings.name.clone().unwrap_or_else(|| operator.to_owned());
        let errors = dns_label_errors(&group);
        if !errors.is_empty() {
            let why = errors.join("; ");
            let message = format!("the name {group:?} of a group of replicas is not valid: {why}");
            return Err(Error::new(ErrorKind::Usage, message));
        }
        settings.options.validate()?;
        Ok(Self {
            share: Share::new(settings.shards),
            settings,
            group,
            namespace,
            id,
        })
    }

    fn names(&self) -> Names {
        Names::new(&self.group, self.settings.shards)
    }

    fn lease_name(&self) -> String {
        self.names().member(&self.id)
    }

    /// The member's lease, as `namespace/name`.
    pub(crate) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.lease_name())
    }

    /// The election for the own lease.
    pub(crate) fn election(&self) -> LeaderElection {
        LeaderElection::new(&self.namespace, self.lease_name())
            .identity(&self.id)
            .options(self.settings.options.clone())
            .label(GROUP, &self.group)
            .label(DIVISION, division::text(self.settings.shards))
    }

    /// Takes part until `stop` is cancelled and everything was given up, or until no term can be had
    /// any more. The own lease is then released and deleted.
    ///
    /// # Errors
    /// The election broke, or the watch of leases ended before the stop.
    ///
    /// # Cancel safety
    /// Dropping it gives nothing up: the lease expires.
    pub(crate) async fn run(
        &self,
        stage: Stage<'_>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let leases = stage
            .factory
            .select::<Lease>(kinform::Target::<Lease>::new())
            .namespaces([&self.namespace])
            .labels(format!("{GROUP}={}", self.group))
            .build();
        stage.factory.start()?;
        let requests = Requests::new(stage.client.clone(), &self.namespace, self.names());
        let own = self.lease_name();
        let leadership = stage.leadership.clone();
        let driver = Driver::new(self, &own, leases, requests.clone(), stage)?;
        driver.run(stop).await?;
        leadership.stop().await;
        requests.delete_own(&own).await;
        Ok(())
    }
}
