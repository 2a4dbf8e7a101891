//! The requests on leases of members and shards, and their answers.
//!
//! ```text
//! Write, Bury, ReadShard, ReadMember, Leave ──▶ one request each ──▶ Input
//! ```
//!
//! Only a conflict says that nothing was stored; every other failure may have been stored.
//! BOUND: `AT_ONCE` requests at a time, each of `TIMEOUT` at most.
//!
//! Upstream counterpart: none.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kinform::controller::LastWrites;
use kinform_core::shards::{Answer, Input, RequestId, ShardId, Write};
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube_client::{Api, Client, Error};
use serde_json::json;
use tokio::sync::Semaphore;

use super::lease::{GROUP, Named, Names, Read, WEIGHT};

/// BOUND: requests at a time; a start may write every shard.
const AT_ONCE: usize = 32;
/// BOUND: the time of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Makes requests on the leases of a group.
#[derive(Clone)]
pub(super) struct Requests {
    api: Api<Lease>,
    pub(super) names: Names,
    turns: Arc<Semaphore>,
}

impl Requests {
    pub(super) fn new(client: Client, namespace: &str, names: Names) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            names,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Awaits a request in its turn; `None` if it took too long.
    async fn turn<T>(
        &self,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        // Never closed.
        let _turn = self.turns.acquire().await;
        tokio::time::timeout(TIMEOUT, request).await.ok()
    }

    /// Writes the lease of a shard; one without an owner tells these writes.
    pub(super) async fn write(self, write: Write, last: Option<LastWrites>) -> Input {
        let lease = self
            .names
            .written(write.shard, write.version, &write.record, last.as_ref());
        let params = PostParams::default();
        let stored = match write.version {
            None => self.turn(self.api.create(&params, &lease)).await,
            Some(_) => {
                let name = self.names.shard(write.shard);
                self.turn(self.api.replace(&name, &params, &lease)).await
            }
        };
        answered(write.id, stored.as_ref())
    }

    /// Clears the holder of a member's lease that has this version.
    pub(super) async fn bury(self, id: RequestId, member: Arc<str>, version: u64) -> Input {
        // A merge patch with a version is refused at any other one.
        let patch = json!({
            "metadata": { "resourceVersion": version.to_string() },
            "spec": { "holderIdentity": "" },
        });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        let stored = self.turn(self.api.patch(&member, &params, &patch)).await;
        answered(id, stored.as_ref())
    }

    /// Reads the lease of a shard; `None` if it cannot be read now.
    pub(super) async fn read_shard(self, shard: ShardId) -> Option<Input> {
        let name = self.names.shard(shard);
        let version = None;
        match self.turn(self.api.get_opt(&name)).await?.ok()? {
            None => Some(Input::ShardGone { shard, version }),
            Some(lease) => match self.names.read(&lease)? {
                Read::Shard(lease) => Some(Input::ShardSeen(lease)),
                Read::Member(_) => None,
            },
        }
    }

    /// Reads the lease of a member; `None` if it cannot be read now.
    pub(super) async fn read_member(self, id: RequestId, name: Arc<str>) -> Option<Input> {
        let found = self.turn(self.api.get_opt(&name)).await?.ok()?;
        let lease = match found {
            None => None,
            Some(lease) => match self.names.read(&lease)? {
                Read::Member(lease) => Some(lease),
                Read::Shard(_) => return None,
            },
        };
        Some(Input::MemberRead { id, name, lease })
    }

    /// Reads the lease that tells the group's division; `None` if it cannot be read now.
    pub(super) async fn division(&self) -> Option<Option<Lease>> {
        let name = self.names.division_lease();
        self.turn(self.api.get_opt(&name)).await?.ok()
    }

    /// Writes that lease. Returns whether it is written.
    pub(super) async fn put_division(&self, lease: &Lease) -> bool {
        let params = PostParams::default();
        let written = match lease.metadata.resource_version {
            None => self.turn(self.api.create(&params, lease)).await,
            Some(_) => {
                let name = self.names.division_lease();
                self.turn(self.api.replace(&name, &params, lease)).await
            }
        };
        matches!(written, Some(Ok(_)))
    }

    /// Reads all leases of the group; `None` if they cannot be read now.
    pub(super) async fn members(&self) -> Option<Vec<Lease>> {
        let group = format!("{GROUP}={}", self.names.group);
        let params = ListParams::default().labels(&group);
        let list = self.turn(self.api.list(&params)).await?.ok()?;
        Some(list.items)
    }

    /// Writes the weight zero to a member's lease. Returns whether it is written.
    pub(super) async fn leave(&self, member: &str) -> bool {
        let patch = json!({ "metadata": { "annotations": { WEIGHT: "0" } } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        matches!(
            self.turn(self.api.patch(member, &params, &patch)).await,
            Some(Ok(_))
        )
    }

    /// Deletes a member's lease that has this version. A failure leaves it for the next sweep.
    pub(super) async fn delete(&self, member: &str, version: u64) {
        let params = DeleteParams::default().preconditions(Preconditions {
            resource_version: Some(version.to_string()),
            uid: None,
        });
        match self.turn(self.api.delete(member, &params)).await {
            Some(Ok(_)) => {
                tracing::debug!(member, "the lease of a member that is gone was deleted")
            }
            Some(Err(error)) => tracing::debug!(member, %error, "a member's lease was not deleted"),
            None => {}
        }
    }

    /// Deletes this process's own lease, whatever its version; nobody else has its name.
    pub(super) async fn delete_own(&self, member: &str) {
        let deleted = self
            .turn(self.api.delete(member, &DeleteParams::default()))
            .await;
        if let Some(Err(error)) = deleted {
            tracing::debug!(member, %error, "the own lease was not deleted");
        }
    }
}

/// The answer to a write.
fn answered(id: RequestId, stored: Option<&Result<Lease, Error>>) -> Input {
    let answer = match stored {
        Some(Ok(lease)) => {
            version(lease).map_or(Answer::Failed, |version| Answer::Stored { version })
        }
        Some(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => Answer::Conflict,
        Some(Err(error)) => {
            tracing::warn!("a lease of a shard was not written, and is tried again: {error}");
            Answer::Failed
        }
        None => Answer::Failed,
    };
    Input::Answer { id, answer }
}

fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_ref()?.parse().ok()
}

/// A lease as an input of the machine.
pub(super) fn seen(read: Read) -> Input {
    match read {
        Read::Member(lease) => Input::MemberSeen(lease),
        Read::Shard(lease) => Input::ShardSeen(lease),
    }
}

/// The absence of a lease at a version.
pub(super) fn gone(named: Named, version: u64) -> Input {
    match named {
        Named::Member(name) => Input::MemberGone { name, version },
        Named::Shard(shard) => Input::ShardGone {
            shard,
            version: Some(version),
        },
    }
}
