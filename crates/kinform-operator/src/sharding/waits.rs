//! Everything that a member waits for: requests, informers, reconciles, caches before work begins.
//!
//! ```text
//! Step ──▶ a task ──▶ Done: an input of the machine, or shards whose work may begin
//! ```
//!
//! All tasks end with this. A wait that nobody needs any more is ended with its shard.
//! BOUND: two tasks a shard, one a member, one for caches, and one that joins the group.
//!
//! Upstream counterpart: none.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use kinform::controller::LastWrites;
use kinform::{ShardId, Share};
use kinform_core::shards::{CloseReason, Input};
use tokio::task::{AbortHandle, JoinSet};

use super::stage::CatchUp;
use crate::leader::Inherited;

/// BOUND: the time that caches have to show what the server had when shards are opened, as at the
/// beginning of a leader's term.
const CATCH_UP: Duration = Duration::from_secs(2);

/// The writes of several owners before; `None` if some are not known.
fn told<'a>(all: impl Iterator<Item = &'a Inherited>) -> Option<LastWrites> {
    let mut writes = LastWrites::default();
    for inherited in all {
        match inherited {
            Inherited::Unknown => return None,
            Inherited::Told(told) => writes.merge(told),
        }
    }
    Some(writes)
}

/// The result of a wait.
pub(super) enum Done {
    Input(Input),
    /// The caches have caught up, or their time is over: work of these shards may begin.
    Caught(BTreeSet<ShardId>),
    /// This member may work in the term that began with this version.
    Joined(u64),
    /// A request that is made again by the machine, if it is still needed.
    Nothing,
}

/// The waits of a member.
pub(super) struct Waits {
    share: Share,
    grace: Duration,
    catch_up: CatchUp,
    tasks: JoinSet<Done>,
    extending: BTreeMap<ShardId, AbortHandle>,
    joining: Option<AbortHandle>,
    closing: BTreeSet<ShardId>,
    /// Shards to open after the next catch-up.
    opening: BTreeMap<ShardId, Inherited>,
    is_catching_up: bool,
}

impl Waits {
    pub(super) fn new(share: Share, grace: Duration, catch_up: CatchUp) -> Self {
        Self {
            share,
            grace,
            catch_up,
            tasks: JoinSet::new(),
            extending: BTreeMap::new(),
            joining: None,
            closing: BTreeSet::new(),
            opening: BTreeMap::new(),
            is_catching_up: false,
        }
    }

    /// The next result; pending without a task.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn next(&mut self) -> Done {
        loop {
            match self.tasks.join_next().await {
                None => std::future::pending().await,
                Some(Ok(done)) => {
                    if let Done::Input(Input::Drained(shard)) = &done {
                        self.closing.remove(shard);
                    }
                    return done;
                }
                // Ended with its shard.
                Some(Err(error)) if error.is_cancelled() => {}
                Some(Err(panic)) => tracing::error!(%panic, "a task of sharding died"),
            }
        }
    }

    /// Makes a request.
    pub(super) fn ask(&mut self, request: impl Future<Output = Option<Input>> + Send + 'static) {
        let request = async { request.await.map_or(Done::Nothing, Done::Input) };
        self.tasks.spawn(request);
    }

    /// Joins the group in a term.
    pub(super) fn join(&mut self, version: u64, joined: impl Future<Output = ()> + Send + 'static) {
        let joining = self.tasks.spawn(async move {
            joined.await;
            Done::Joined(version)
        });
        // Of a term that is over.
        if let Some(before) = self.joining.replace(joining) {
            before.abort();
        }
    }

    /// Extends the informers by a shard, and waits for them.
    pub(super) fn extend(&mut self, shard: ShardId) {
        self.share.extend(shard);
        let share = self.share.clone();
        let synced = self.tasks.spawn(async move {
            share.synced(shard).await;
            Done::Input(Input::RangeSynced(shard))
        });
        if let Some(before) = self.extending.insert(shard, synced) {
            before.abort();
        }
    }

    /// Shrinks the informers by a shard.
    pub(super) fn shrink(&mut self, shard: ShardId) {
        if let Some(synced) = self.extending.remove(&shard) {
            synced.abort();
        }
        self.share.shrink(shard);
    }

    /// Opens a shard once the caches have what its last owner wrote, or, if that is not known, what
    /// the server has now.
    pub(super) fn open(&mut self, shard: ShardId, inherited: Inherited) {
        self.opening.insert(shard, inherited);
        self.begin_catch_up();
    }

    /// Begins to catch up for the shards that wait for it, unless that runs already.
    fn begin_catch_up(&mut self) {
        if self.is_catching_up || self.opening.is_empty() {
            return;
        }
        self.is_catching_up = true;
        let shards: BTreeSet<ShardId> = self.opening.keys().copied().collect();
        let caught = (self.catch_up)(told(self.opening.values()));
        self.tasks.spawn(async move {
            if tokio::time::timeout(CATCH_UP, caught).await.is_err() {
                tracing::warn!(
                    ?shards,
                    "caches did not show what the server has within {CATCH_UP:?}; work begins"
                );
            }
            Done::Caught(shards)
        });
    }

    /// Work of these shards may begin, unless they were closed meanwhile.
    pub(super) fn caught(&mut self, shards: &BTreeSet<ShardId>) {
        self.is_catching_up = false;
        for shard in shards {
            if self.opening.remove(shard).is_some() {
                self.share.open(*shard);
            }
        }
        self.begin_catch_up();
    }

    /// Closes a shard, and waits for the end of its reconciles: for the grace period, and then for
    /// their next await.
    pub(super) fn close(&mut self, shard: ShardId, reason: CloseReason) {
        self.opening.remove(&shard);
        match reason {
            CloseReason::Lost => self.share.abort(shard),
            CloseReason::HandOver | CloseReason::Stop => self.share.close(shard),
        }
        if !self.closing.insert(shard) {
            return;
        }
        let (share, grace) = (self.share.clone(), self.grace);
        self.tasks.spawn(async move {
            if tokio::time::timeout(grace, share.drained(shard))
                .await
                .is_err()
            {
                tracing::warn!(%shard, "reconciles did not end within {grace:?}, and are dropped");
                share.abort(shard);
                share.drained(shard).await;
            }
            Done::Input(Input::Drained(shard))
        });
    }

    /// Returns whether no shard is being closed.
    pub(super) fn are_closed(&self) -> bool {
        self.closing.is_empty()
    }
}
