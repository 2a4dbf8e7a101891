//! A controller's place in a share: what it may work on.
//!
//! ```text
//! Share ──open shards──▶ Gate ──Pass──▶ one reconcile
//! ```
//!
//! Upstream counterpart: none.

use std::fmt;

use kinform_core::shards::ShardId;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use super::Share;
use crate::sync::lock;

/// A controller's look at a share.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    share: Share,
    /// The newest opening that was told.
    told: Option<u64>,
}

impl Gate {
    pub(crate) fn new(share: Share) -> Self {
        let told = None;
        Self { share, told }
    }

    /// The share.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// The right to work on a key of this shard; `None` unless it is open.
    pub(crate) fn enter(&self, shard: ShardId) -> Option<Pass> {
        let mut inner = lock(&self.share.0.inner);
        let slot = inner.slots.get_mut(&shard)?;
        slot.opened?;
        slot.running += 1;
        let end = slot.end.clone();
        let share = self.share.clone();
        Some(Pass { share, shard, end })
    }

    /// Waits for shards that were opened since the last call.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) async fn opened(&mut self) -> Vec<ShardId> {
        let told = self.told;
        let share = self.share.clone();
        share.until(|| !share.opened_after(told).is_empty()).await;
        // Both in one look: an opening is not told twice.
        let inner = lock(&share.0.inner);
        let slots = inner.slots.iter();
        let new: Vec<_> = slots.filter(|(_, slot)| slot.opened > told).collect();
        self.told = new
            .iter()
            .map(|(_, slot)| slot.opened)
            .max()
            .unwrap_or(told);
        new.into_iter().map(|(shard, _)| *shard).collect()
    }
}

/// The right to work on one key, until it is dropped.
pub(crate) struct Pass {
    share: Share,
    shard: ShardId,
    end: CancellationToken,
}

impl Pass {
    /// Waits until the work has to end.
    ///
    /// Cancel safety: nothing is lost.
    pub(crate) fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.end.cancelled()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut inner = lock(&self.share.0.inner);
        if let Some(slot) = inner.slots.get_mut(&self.shard) {
            slot.running -= 1;
            inner.tidy(self.shard);
        }
        drop(inner);
        self.share.tell();
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass")
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}
