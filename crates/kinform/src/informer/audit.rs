//! Compares the cache with the server periodically, for servers that lose events.
//!
//! ```text
//! period → root at version V → list of metadata at exactly V, in pages → Audit
//! Audit → report, list again
//! ```
//!
//! Off by default. An audit runs in parallel to the watch, in a task of its own, and holds a root
//! of the cache and one item of the list. A server that no longer knows the version, refuses or
//! takes too long is asked again after the period; only a difference has consequences.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector_data_consistency_detector.go`.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kinform_api::{ListOptions, VersionMatch};
use kinform_core::informer::audit::{Audit, Divergence};
use kinform_core::object::Object;
use kinform_core::object::projection::Projection;
use kinform_core::store::root::Root;
use kinform_core::time::Instant;
use kinform_core::wire::encoding::ListReader;
use kinform_core::wire::list::ListPart;
use tokio::task::JoinSet;

use crate::env::Env;
use crate::source::ListerWatcher;

/// BOUND: a comparison costs the server a list.
const MIN_PERIOD: Duration = Duration::from_secs(10);
/// BOUND: pages of one comparison.
const MAX_PAGES: u32 = 20_000;
const PAGE_SIZE: u32 = 500;

/// The result of a comparison.
pub(super) struct Audited {
    pub(super) version: String,
    /// The difference, if there is one; or the reason why the comparison failed.
    pub(super) found: Result<Option<Divergence>, String>,
}

/// The schedule of comparisons, and the comparison under way.
pub(super) struct Auditor {
    source: Option<Arc<dyn ListerWatcher>>,
    period: Duration,
    limit: Duration,
    next: Option<Instant>,
    // INVARIANT: at most one.
    running: JoinSet<Audited>,
}

impl Auditor {
    /// An auditor that compares each `period` with a list of `source`, for at most `limit`.
    pub(super) fn new(
        source: Option<Arc<dyn ListerWatcher>>,
        period: Option<Duration>,
        limit: Duration,
    ) -> Self {
        Self {
            source: source.filter(|_| period.is_some()),
            period: period.unwrap_or_default().max(MIN_PERIOD),
            limit,
            next: None,
            running: JoinSet::new(),
        }
    }

    /// The time of the next call of [`Auditor::on_time`]; never, if audits are off.
    pub(super) fn next_wake(&mut self, now: Instant) -> Option<Instant> {
        self.source.as_ref()?;
        Some(*self.next.get_or_insert(now + self.period))
    }

    /// Begins a comparison, if it is time and none runs.
    pub(super) fn on_time(&mut self, root: &Root, options: ListOptions, env: &Env) {
        let now = env.now();
        let Some(source) = self.source.clone() else {
            return;
        };
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        self.next = Some(now + self.period);
        let version = root.version().to_string();
        let is_comparable = root.has_synced() && !matches!(&*version, "" | "0");
        if !is_comparable || !self.running.is_empty() {
            return;
        }
        let options = ListOptions {
            resource_version: Some(version.as_str().into()),
            version_match: Some(VersionMatch::Exact),
            limit: Some(PAGE_SIZE),
            ..options
        };
        let (audit, env, deadline) = (Audit::new(root), env.clone(), now + self.limit);
        self.running.spawn(async move {
            let found = tokio::select! {
                biased;
                found = compare(&*source, audit, options, &version) => found,
                () = env.sleep_until(deadline) => Err("it took too long".to_owned()),
            };
            Audited { version, found }
        });
    }

    /// The result of the comparison under way; pending for ever if none runs.
    ///
    /// Cancel safety: nothing is lost.
    pub(super) async fn next(&mut self) -> Audited {
        match self.running.join_next().await {
            Some(Ok(audited)) => audited,
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// Ends the comparison under way.
    pub(super) async fn shutdown(&mut self) {
        self.running.shutdown().await;
    }
}

async fn compare(
    source: &dyn ListerWatcher,
    mut audit: Audit,
    mut options: ListOptions,
    version: &str,
) -> Result<Option<Divergence>, String> {
    let projection = Projection::default();
    for _ in 0..MAX_PAGES {
        let body = source.list(&options).await.map_err(|e| e.to_string())?;
        let mut splitter = ListReader::new(body.encoding());
        let mut chunks = body.into_chunks();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|e| e.to_string())?;
            let fed = splitter.feed(&chunk, &mut |part| match part {
                ListPart::Item(item) => {
                    audit.item(Object::from_item(&item, &projection).as_ref());
                }
                ListPart::Unreadable(unreadable) => audit.item(Err(&unreadable)),
            });
            fed.map_err(|e| e.to_string())?;
        }
        let meta = splitter.finish().map_err(|e| e.to_string())?;
        if meta.resource_version != version {
            return Err("the server listed another version".to_owned());
        }
        if meta.continue_token.is_empty() {
            return Ok(audit.finish());
        }
        options.continue_token = Some(meta.continue_token);
        (options.resource_version, options.version_match) = (None, None);
    }
    Err("the list does not end".to_owned())
}
