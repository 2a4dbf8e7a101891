//! The counters of one informer, and their snapshot.
//!
//! ```text
//! loop, handlers, readers → Telemetry (counters) → InformerStats (plain numbers)
//! ```
//!
//! Counters are local to an informer: no registry, no global. The exporter adds Prometheus' names.
//! The loop copies its machines' numbers here once a turn.
//!
//! Upstream counterpart: `client-go:tools/cache/reflector_metrics.go` (defined there, not wired).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kinform_core::informer::report::ApplyCounts;
use kinform_core::reflector::Request;
use kinform_core::reflector::report::RelistReason;
use kinform_core::stats::ReflectorStats;
use kinform_core::time::Instant;

use crate::memory::MemoryStep;

/// Numbers of one informer, over all its namespaces. Totals count since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InformerStats {
    /// Objects stored now.
    pub objects: u64,
    /// Bytes that they take on the heap, decoded values not counted.
    pub heap_bytes: u64,
    /// Bytes that the cache takes from the system: objects, tables and indexes, with what an allocator adds; an
    /// estimate.
    pub held_bytes: u64,
    /// The things given up to hold the factory's memory budget; of several namespaces, the most.
    pub memory: MemoryStep,
    /// Bytes of bodies read, decompressed.
    pub wire_bytes: u64,
    /// Of these, the bytes of `metadata.managedFields`.
    pub managed_fields_bytes: u64,
    /// Events of watches, bookmarks not counted. An event is counted before a handler hears of it.
    pub events: u64,
    /// Items of lists.
    pub items: u64,
    /// Bookmarks.
    pub bookmarks: u64,
    /// Whole lists stored.
    pub lists: u64,
    /// Of these, those after the first.
    pub relists: u64,
    /// The reasons of relists, in a few words, and their numbers.
    pub relist_reasons: BTreeMap<&'static str, u64>,
    /// Time that lists took, each from its first request until it was read to the end.
    pub list_time: Duration,
    /// Watches begun; a streaming list counts as one from its end on.
    pub watches: u64,
    /// Time that watches lasted, of those that ended.
    pub watch_time: Duration,
    /// The age of the watch that is open now; of several, that of the oldest.
    pub watch_age: Option<Duration>,
    /// Starts from a snapshot on disk that needed no list.
    pub resumed: u64,
    /// Watches that continued where the one before stopped.
    pub reopens: u64,
    /// Requests made.
    pub requests: u64,
    /// Items and events read about objects outside of the informer's share, and dropped.
    pub outside: u64,
    /// Failures that were followed by a wait.
    pub retries: u64,
    /// Watches closed because they were silent.
    pub silences: u64,
    /// Objects quarantined because they could not be parsed, or because their list had another of
    /// their name.
    pub quarantined: u64,
    /// Of these, those that are still quarantined.
    pub quarantined_now: u64,
    /// Objects read whose texts were not all UTF-8, and are stored with U+FFFD in their place.
    pub mended: u64,
    /// Objects missing from at least one index.
    pub unindexed: u64,
    /// Deltas that wait to be applied.
    pub queue_depth: u64,
    /// Handlers and streams.
    pub handlers: u64,
    /// Changes reported to handlers and streams.
    pub notifications: u64,
    /// The lag of the slowest handler, in batches.
    pub handler_lag: u64,
    /// Times that a handler or stream fell behind the kept changes and received a diff instead; of
    /// those that exist now.
    pub handlers_behind: u64,
    /// Handlers' panics.
    pub handler_panics: u64,
    /// Objects that readers could not decode.
    pub undecodable: u64,
}

/// The counters behind [`InformerStats`].
#[derive(Debug, Default)]
pub(crate) struct Telemetry {
    wire_bytes: AtomicU64,
    notifications: AtomicU64,
    handler_panics: AtomicU64,
    undecodable: AtomicU64,
    mended: AtomicU64,
    machines: Mutex<(ReflectorStats, ApplyCounts, usize)>,
    requests: Mutex<RequestClock>,
}

/// Measures the duration of lists and watches.
#[derive(Debug, Default)]
pub(crate) struct RequestClock {
    list_began: Option<Instant>,
    watch_began: Option<Instant>,
    is_streaming: bool,
    list_time: Duration,
    watches: u64,
    watch_time: Duration,
    relist_reasons: BTreeMap<&'static str, u64>,
}

impl RequestClock {
    pub(crate) fn requested(&mut self, request: &Request, now: Instant) {
        // It may be beside a streaming list.
        if matches!(request, Request::Probe { .. }) {
            return;
        }
        self.closed(now);
        match request {
            Request::Watch { options, .. } if options.send_initial_events != Some(true) => {
                self.watch(now);
            }
            Request::List { .. } | Request::Watch { .. } => {
                self.is_streaming = matches!(request, Request::Watch { .. });
                self.list_began.get_or_insert(now);
            }
            Request::Probe { .. } => {}
        }
    }

    pub(crate) fn closed(&mut self, now: Instant) {
        self.is_streaming = false;
        if let Some(began) = self.watch_began.take() {
            self.watch_time += now.since(began);
        }
    }

    pub(crate) fn listed(&mut self, relist: Option<RelistReason>, now: Instant) {
        if let Some(began) = self.list_began.take() {
            self.list_time += now.since(began);
        }
        if let Some(reason) = relist {
            *self.relist_reasons.entry(reason.as_str()).or_default() += 1;
        }
        if std::mem::take(&mut self.is_streaming) {
            self.watch(now);
        }
    }

    fn watch(&mut self, now: Instant) {
        self.watches += 1;
        self.watch_began = Some(now);
    }
}

impl Telemetry {
    pub(crate) fn wire_bytes(&self, bytes: usize) {
        self.wire_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn notified(&self, changes: u64) {
        self.notifications.fetch_add(changes, Ordering::Relaxed);
    }

    pub(crate) fn handler_panicked(&self) {
        self.handler_panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn undecodable(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn mended(&self) {
        self.mended.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what happened to a request.
    pub(crate) fn requests(&self, happened: impl FnOnce(&mut RequestClock)) {
        happened(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn machines(
        &self,
        reflector: ReflectorStats,
        applier: ApplyCounts,
        queue_depth: usize,
    ) {
        *self.machines.lock().unwrap_or_else(PoisonError::into_inner) =
            (reflector, applier, queue_depth);
    }

    /// Adds these numbers to `stats`.
    pub(crate) fn add_to(&self, stats: &mut InformerStats, now: Instant) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.wire_bytes += read(&self.wire_bytes);
        stats.notifications += read(&self.notifications);
        stats.mended += read(&self.mended);
        stats.handler_panics += read(&self.handler_panics);
        stats.undecodable += read(&self.undecodable);
        self.requests(|clock| {
            stats.list_time += clock.list_time;
            stats.watches += clock.watches;
            stats.watch_time += clock.watch_time;
            let age = clock.watch_began.map(|began| now.since(began));
            stats.watch_age = stats.watch_age.max(age);
            for (reason, times) in &clock.relist_reasons {
                *stats.relist_reasons.entry(reason).or_default() += times;
            }
        });
        let machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let (reflector, applier, queue_depth) = &*machines;
        stats.events += reflector.events;
        stats.items += reflector.items;
        stats.bookmarks += reflector.bookmarks;
        stats.lists += reflector.lists;
        stats.relists += reflector.relists;
        stats.resumed += reflector.resumed;
        stats.reopens += reflector.reopens;
        stats.requests += reflector.requests;
        stats.outside += reflector.outside;
        stats.retries += reflector.retries;
        stats.silences += reflector.silences;
        stats.quarantined += applier.quarantined;
        stats.unindexed += applier.unindexed;
        stats.queue_depth += *queue_depth as u64;
    }
}
