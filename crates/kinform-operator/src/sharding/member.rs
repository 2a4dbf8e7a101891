//! One replica of a group that shares its work, from its start to its last shard.
//!
//! ```text
//! ShardSettings ──▶ Member ──run──▶ Driver until the stop ──▶ own lease released, deleted
//! ```
//!
//! Upstream counterpart: none.

use k8s_openapi::api::coordination::v1::Lease;
use kinform::Share;
use kinform_api::names::dns_label_errors;
use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use super::lease::{DIVISION, GROUP, Names, division_text};
use super::requests::Requests;
use super::stage::Stage;
use crate::error::{Error, ErrorKind};
use crate::leader::LeaderElection;
use crate::settings::ShardSettings;

/// A replica of a group that shares its work.
pub(crate) struct Member {
    pub(crate) share: Share,
    pub(crate) settings: ShardSettings,
    group: String,
    pub(crate) namespace: String,
    /// The identity of this process.
    id: String,
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
            .label(DIVISION, division_text(self.settings.shards))
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
        let driver = Driver::new(
            (&self.settings, &self.share),
            &own,
            leases,
            requests.clone(),
            stage,
        )?;
        driver.run(stop).await?;
        leadership.stop().await;
        requests.delete_own(&own).await;
        Ok(())
    }
}
