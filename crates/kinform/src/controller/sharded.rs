//! The part of a controller's keys that this replica works on.
//!
//! ```text
//! event → key → its shard open? → queue → worker → enter → reconcile under a Pass
//!         a shard is opened → all of its objects → queue
//! ```
//!
//! A key of another replica is dropped, wherever it is met: the shard's opening brings it back.
//! INVARIANT: a reconcile begins only with a pass, and holds it to its end.
//!
//! Upstream counterpart: none.

use std::sync::Arc;

use kinform_api::{ObjectKey, Scope};
use kinform_core::object::Object;
use kinform_core::shards::{ShardField, ShardId, Shards};

use super::Controller;
use super::feed::Feed;
use crate::error::{Error, ErrorKind};
use crate::share::{Gate, Pass, Share};

type UidOf = dyn Fn(&ObjectKey) -> Option<String> + Send + Sync;

/// The share of a controller, and the way from its keys to shards.
#[derive(Clone)]
pub(super) struct Sharded {
    gate: Gate,
    /// The uid of a stored object.
    uid_of: Arc<UidOf>,
}

impl Sharded {
    fn new<K: 'static>(share: &Share, feed: &Arc<dyn Feed<K>>) -> Self {
        let feed = Arc::clone(feed);
        Self {
            gate: Gate::new(share.clone()),
            uid_of: Arc::new(move |key| feed.get(key).map(|object| object.uid().to_owned())),
        }
    }

    pub(super) fn share(&self) -> &Share {
        self.gate.share()
    }

    fn shards(&self) -> Shards {
        self.share().shards()
    }

    /// The shard of a key; `None` if only the object knows it, and it is gone.
    fn shard_of(&self, key: &ObjectKey) -> Option<ShardId> {
        match self.shards().field() {
            ShardField::Namespace => {
                Some(self.shards().shard_of(key.namespace().unwrap_or_default()))
            }
            ShardField::Uid => (self.uid_of)(key).map(|uid| self.shards().shard_of(&uid)),
        }
    }

    /// Returns whether a key is to be queued.
    pub(super) fn admits(&self, key: &ObjectKey) -> bool {
        let shard = self.shard_of(key);
        shard.is_some_and(|shard| self.share().is_open(shard))
    }

    /// The right to work on a key; `None` if it is another replica's.
    pub(super) fn enter(&self, key: &ObjectKey) -> Option<Pass> {
        self.gate.enter(self.shard_of(key)?)
    }

    /// Waits for shards that were opened since the last call.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn opened(&mut self) -> Vec<ShardId> {
        self.gate.opened().await
    }

    /// Returns whether a stored object is in one of these shards.
    pub(super) fn is_in(&self, shards: &[ShardId], object: &Object) -> bool {
        let shard = match self.shards().field() {
            ShardField::Namespace => {
                let namespace = object.key_ref().namespace;
                self.shards().shard_of(namespace)
            }
            ShardField::Uid => self.shards().shard_of(object.uid()),
        };
        shards.contains(&shard)
    }
}

/// Waits for shards of a share that were opened; for ever, without one.
pub(super) async fn opened(sharded: &mut Option<Sharded>) -> Vec<ShardId> {
    match sharded {
        Some(sharded) => sharded.opened().await,
        None => std::future::pending().await,
    }
}

impl<K: Send + Sync + 'static, C: Send + Sync + 'static> Controller<K, C> {
    /// Works only on keys in the open shards of `share`, and on all objects of a shard when it is
    /// opened. The controller's informers have the same share:
    /// [`InformerBuilder::share`](crate::InformerBuilder::share).
    ///
    /// By namespace, an object and what it owns are in one shard; a resource of the cluster is
    /// refused ([`Error::is_invalid`] of `run`), since all its objects would be. By uid, a key whose
    /// object is gone has no shard, so [`on_gone`](Self::on_gone) is refused: use a
    /// [`finalizer`](Self::finalizer).
    ///
    /// # Order guarantees
    /// One key is never in two reconciles at the same time, in all replicas whose shares have no open
    /// shard in common.
    ///
    /// Upstream counterpart: none.
    pub fn sharded(mut self, share: &Share) -> Self {
        self.sharded = Some(Sharded::new(share, &self.primary));
        self
    }

    /// Fails if its keys cannot be divided.
    pub(super) fn is_divisible(&self) -> Result<(), Error> {
        let Some(sharded) = &self.sharded else {
            return Ok(());
        };
        let why = match sharded.shards().field() {
            ShardField::Namespace if self.primary.resource().scope == Scope::Cluster => {
                "a resource of the cluster has no namespaces to divide: divide it by uid"
            }
            ShardField::Uid if self.on_gone.is_some() => {
                "the shard of an object that is gone is not known by uid: use a finalizer \
                 instead of `on_gone`, or divide by namespace"
            }
            _ => return Ok(()),
        };
        let message = format!("{}: {why}", self.primary.resource());
        Err(Error::new(ErrorKind::Invalid, message))
    }
}
