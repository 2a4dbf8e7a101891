//! The caches of a controller, and how old they may be.
//!
//! ```text
//! of, owns, watches → View: require_fresh(limit) ──▶ each cache, at the same time ──▶ fresh | Error
//! delete through Ctx → destructive limit? ──▶ the same, before the request is sent
//! ```
//!
//! Upstream counterpart: none; `kubernetes:pkg/controller/util/consistency` knows own writes only.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use super::last_writes::LastWrites;
use crate::error::Error;
use crate::informer::{Core, Cores};

/// BOUND: caches that are asked about at the same time.
const AT_ONCE: usize = 16;

/// The caches of a controller.
#[derive(Default)]
pub(super) struct View {
    informers: Vec<Cores>,
    /// The age that a view may have for deletes.
    destructive_limit: Option<Duration>,
}

impl View {
    pub(super) fn add(&mut self, informer: &Cores) {
        self.informers.push(informer.clone());
    }

    pub(super) fn set_destructive_limit(&mut self, limit: Duration) {
        self.destructive_limit = Some(limit);
    }

    pub(super) fn destructive_limit(&self) -> Option<Duration> {
        self.destructive_limit
    }

    /// The caches as they are now, each once.
    pub(super) fn caches(&self) -> Vec<Arc<Core>> {
        let (mut known, mut caches) = (HashSet::new(), Vec::new());
        for informer in &self.informers {
            for member in informer.members().iter() {
                if known.insert(Arc::as_ptr(&member.core)) {
                    caches.push(Arc::clone(&member.core));
                }
            }
        }
        caches
    }

    /// As of [`Ctx::require_fresh`](super::Ctx::require_fresh).
    pub(super) async fn require_fresh(&self, limit: Duration) -> Result<(), Error> {
        // Each by its own clock, and all as of this call.
        let since = |cache: Arc<Core>| (cache.now() - limit, cache);
        let caches: Vec<_> = self.caches().into_iter().map(since).collect();
        let ask = |(since, cache): (_, Arc<Core>)| async move { cache.fresh_since(since).await };
        let asked = stream::iter(caches).map(ask).buffer_unordered(AT_ONCE);
        asked.try_collect().await
    }

    /// As of [`Reconciler::catch_up`](super::Reconciler::catch_up).
    pub(super) async fn catch_up(&self, writes: Option<&LastWrites>) -> Result<(), Error> {
        let catch_up = |cache: Arc<Core>| async move {
            let resource = cache.info.resource.group_resource();
            match writes.map(|writes| writes.of(&resource)) {
                Some(None) => Ok(()),
                Some(Some(Some(version))) => cache.caught_up(version).await,
                None | Some(Some(None)) => cache.fresh_since(cache.now()).await,
            }
        };
        // A type that is not installed has nothing to catch up with.
        let caches = self.caches().into_iter().filter(|c| c.root().has_synced());
        let caught_up = stream::iter(caches).map(catch_up).buffer_unordered(AT_ONCE);
        // One that fails does not end the wait for the others.
        let all: Vec<Result<(), Error>> = caught_up.collect().await;
        all.into_iter().collect()
    }

    /// Refuses a delete on a view that is older than the limit.
    pub(super) async fn allow_delete(&self) -> Result<(), Error> {
        match self.destructive_limit {
            Some(limit) => self.require_fresh(limit).await,
            None => Ok(()),
        }
    }
}
