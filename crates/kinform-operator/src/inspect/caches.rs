//! The view *Caches*: a row an informer, with its handlers.
//!
//! ```text
//! Sampled, states, handlers ─▶ Caches { rows: state, objects, versions, relists, handlers }
//! ```
//!
//! BOUND: 200 rows, 50 handlers of each.
//! Upstream counterpart: none.

use std::collections::BTreeMap;

use kinform::HandlerStats;
use serde::{Deserialize, Serialize};

use super::numbers::{Head, Latency, ROWS, buckets, millis};
use super::program::{Cache, Program, type_name, word};
use super::sampler::{CacheFlow, Sampled};
use super::sight::Sight;

/// BOUND: handlers of an informer that are shown.
const HANDLERS: usize = 50;

/// The informers of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Caches {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The informers whose type the caller may list.
    pub caches: Vec<CacheRow>,
    /// Informers that are left out: the caller may not list their type, or there are too many.
    pub hidden: u64,
}

/// One informer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CacheRow {
    /// Its name, for `?cache=`.
    pub cache: String,
    /// The resource, as `deployments.apps`.
    pub resource: String,
    /// The version of the API.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, if it is one.
    pub namespace: Option<String>,
    /// The label selector.
    pub labels: Option<String>,
    /// The field selector.
    pub fields: Option<String>,
    /// `pending`, `listing`, `synced`, `stale`, `forbidden`, `no-such-kind` or `stopped`.
    pub state: String,
    /// The failure of the last attempt, in one word; `null` if it did not fail.
    pub trouble: Option<String>,
    /// Objects stored.
    pub objects: u64,
    /// Memory of the store, without decoded values.
    pub bytes: u64,
    /// The resource version of the cache.
    pub resource_version: String,
    /// The age of the watch that is open, in milliseconds.
    pub watch_age_ms: Option<f64>,
    /// Whole lists stored.
    pub lists: u64,
    /// Of these, those after the first.
    pub relists: u64,
    /// The reasons of relists, and their numbers.
    pub relist_reasons: BTreeMap<String, u64>,
    /// Watches begun.
    pub watches: u64,
    /// Of these, those that continued where the one before stopped.
    pub reopens: u64,
    /// Events of watches.
    pub events: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Failures that were followed by a wait.
    pub retries: u64,
    /// Watches closed because they were silent.
    pub silences: u64,
    /// Objects that are quarantined now.
    pub quarantined: u64,
    /// Bytes of `metadata.managedFields` that were read and not kept.
    pub managed_fields_bytes: u64,
    /// Handlers and streams.
    pub handlers: Vec<HandlerRow>,
}

/// One handler, or one stream of changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HandlerRow {
    /// Its name.
    pub name: String,
    /// Batches that wait for delivery.
    pub lag: u64,
    /// Changes delivered; a stream does not count them.
    pub heard: u64,
    /// Calls that ended in a panic.
    pub panics: u64,
    /// Times that it fell behind, and received a diff instead.
    pub times_behind: u64,
    /// From the publication of a change until the handler was done with it, sampled, since the start.
    pub handled: Latency,
}

/// The view for this caller.
pub(super) fn caches(program: &Program, sampled: &Sampled, sight: &Sight) -> Caches {
    let mut hidden = 0;
    let mut rows = Vec::new();
    for (cache, flow) in sampled.caches() {
        if !sight.sees_cache(cache.informer.resource()) || rows.len() >= ROWS {
            hidden += 1;
            continue;
        }
        rows.push(row(cache, &flow));
    }
    Caches {
        head: Head::of(&program.name),
        caches: rows,
        hidden,
    }
}

fn row(cache: &Cache, flow: &CacheFlow<'_>) -> CacheRow {
    let (info, stats) = (cache.informer.resource(), flow.stats);
    let state = cache.informer.state();
    let mut handlers: Vec<_> = cache.informer.handlers().iter().map(handler).collect();
    handlers.sort_by(|a, b| b.lag.cmp(&a.lag).then_with(|| a.name.cmp(&b.name)));
    handlers.truncate(HANDLERS);
    let snapshot = cache.informer.snapshot();
    let reasons = stats.relist_reasons.iter();
    CacheRow {
        cache: cache.id.clone(),
        resource: type_name(info),
        api_version: info.resource.api_version(),
        kind: info.kind.clone(),
        namespace: info.namespace.clone(),
        labels: info.label_selector.clone(),
        fields: info.field_selector.clone(),
        state: word(&state).to_owned(),
        trouble: state.trouble().map(|trouble| trouble.reason.clone()),
        objects: stats.objects,
        bytes: stats.heap_bytes,
        resource_version: snapshot.versions().next().unwrap_or_default().to_owned(),
        watch_age_ms: stats.watch_age.map(millis),
        lists: stats.lists,
        relists: stats.relists,
        relist_reasons: reasons
            .map(|(&why, &times)| (why.to_owned(), times))
            .collect(),
        watches: stats.watches,
        reopens: stats.reopens,
        events: stats.events,
        bookmarks: stats.bookmarks,
        retries: stats.retries,
        silences: stats.silences,
        quarantined: stats.quarantined_now,
        managed_fields_bytes: stats.managed_fields_bytes,
        handlers,
    }
}

fn handler(stats: &HandlerStats) -> HandlerRow {
    HandlerRow {
        name: stats.name.clone(),
        lag: stats.lag,
        heard: stats.heard,
        panics: stats.panics,
        times_behind: stats.times_behind,
        handled: Latency::since(&buckets(&stats.latency), None),
    }
}
