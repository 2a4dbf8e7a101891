//! The demo's numbers: taken each tick, shown, and summed up at the end.
//!
//! ```text
//! Pipeline's counters → Sampler (rates over the last seconds) → Numbers → view;  → Summary
//! ```
//!
//! Every figure is measured; `docs/cli.md` defines those of the summary.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::Serialize;

use super::churn::Tally;
use super::pipeline::Pipeline;

/// BOUND: ticks that rates are taken over, and that the sparkline shows.
const WINDOW: usize = 60;
/// Ticks for "now".
const RECENT: usize = 4;

/// One type's row.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) events: u64,
    pub(crate) lists: u64,
    pub(crate) reopens: u64,
    pub(crate) queue_depth: u64,
    pub(crate) handler_lag: u64,
}

/// All numbers of one frame.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    pub(crate) seconds: f64,
    pub(crate) rows: Vec<Row>,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
    pub(crate) events_per_second: f64,
    pub(crate) relists: u64,
    pub(crate) notifications: u64,
    pub(crate) queue_depth: usize,
    pub(crate) reconciles: u64,
    pub(crate) reconcile_errors: u64,
    pub(crate) latency_p50_ms: f64,
    pub(crate) latency_p99_ms: f64,
    pub(crate) busiest_node: Option<(String, usize)>,
    pub(crate) writes: u64,
    pub(crate) refused: u64,
    /// Events in each of the last ticks.
    pub(crate) history: Vec<u64>,
}

/// Takes numbers, and keeps those of the last ticks.
#[derive(Debug)]
pub(crate) struct Sampler {
    started: Instant,
    first_events: Option<u64>,
    seen: VecDeque<(Instant, u64)>,
}

/// The one object of `-o json`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    pub(crate) pods: u64,
    pub(crate) objects: u64,
    pub(crate) sync_seconds: f64,
    pub(crate) events_per_second: f64,
    pub(crate) handler_events: u64,
    pub(crate) reconciles: u64,
    pub(crate) relists: u64,
    pub(crate) latency_p50_ms: f64,
    pub(crate) latency_p99_ms: f64,
    pub(crate) rss_bytes: u64,
}

impl Sampler {
    /// Starts now.
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            first_events: None,
            seen: VecDeque::new(),
        }
    }

    /// Takes the numbers.
    pub(crate) fn take(&mut self, pipeline: &Pipeline, tally: &Tally) -> Numbers {
        let rows: Vec<Row> = pipeline
            .stats()
            .into_iter()
            .map(|(title, stats)| Row {
                title,
                objects: stats.objects,
                bytes: stats.heap_bytes,
                events: stats.events,
                lists: stats.lists,
                reopens: stats.reopens,
                queue_depth: stats.queue_depth,
                handler_lag: stats.handler_lag,
            })
            .collect();
        let events = rows.iter().map(|row| row.events).sum();
        self.remember(events);
        let work = pipeline.work();
        let (latency_p50_ms, latency_p99_ms) = pipeline.latencies();
        let busiest = pipeline
            .by_node
            .values()
            .into_iter()
            .max_by_key(|(_, pods)| *pods);
        Numbers {
            seconds: self.started.elapsed().as_secs_f64(),
            objects: rows.iter().map(|row| row.objects).sum(),
            bytes: rows.iter().map(|row| row.bytes).sum(),
            events_per_second: self.recent_rate(),
            relists: pipeline
                .stats()
                .iter()
                .map(|(_, stats)| stats.relists)
                .sum(),
            notifications: pipeline.heard.notifications.load(Ordering::Relaxed),
            queue_depth: work.depth,
            reconciles: work.reconciles,
            reconcile_errors: work.failed,
            latency_p50_ms,
            latency_p99_ms,
            busiest_node: busiest.map(|(node, pods)| (node.to_string(), pods)),
            writes: tally.accepted.load(Ordering::Relaxed),
            refused: tally.refused.load(Ordering::Relaxed),
            history: self.history(),
            rows,
        }
    }

    fn remember(&mut self, events: u64) {
        self.first_events.get_or_insert(events);
        self.seen.push_back((Instant::now(), events));
        if self.seen.len() > WINDOW {
            self.seen.pop_front();
        }
    }

    /// Events a second over the last ticks.
    fn recent_rate(&self) -> f64 {
        let from = self.seen.len().saturating_sub(RECENT + 1);
        match (self.seen.get(from), self.seen.back()) {
            (Some(then), Some(now)) if now.0 > then.0 => {
                now.1.saturating_sub(then.1) as f64 / (now.0 - then.0).as_secs_f64()
            }
            _ => 0.0,
        }
    }

    fn history(&self) -> Vec<u64> {
        self.seen
            .iter()
            .zip(self.seen.iter().skip(1))
            .map(|(a, b)| b.1.saturating_sub(a.1))
            .collect()
    }

    /// The totals at the end of the demo.
    pub(crate) fn summary(&self, pipeline: &Pipeline) -> Summary {
        let events: u64 = pipeline.stats().iter().map(|(_, stats)| stats.events).sum();
        let seconds = self.started.elapsed().as_secs_f64();
        let (latency_p50_ms, latency_p99_ms) = pipeline.latencies();
        Summary {
            sync_seconds: pipeline.sync_seconds,
            events_per_second: events.saturating_sub(self.first_events.unwrap_or(events)) as f64
                / seconds,
            latency_p50_ms,
            latency_p99_ms,
            ..Summary::default()
        }
    }
}

impl Summary {
    /// Adds the figures that are known only at the end.
    pub(crate) fn complete(&mut self, pipeline: &Pipeline) {
        self.pods = pipeline.types[1].1.stats().objects;
        self.objects = pipeline.objects();
        self.handler_events = pipeline.notifications();
        self.reconciles = pipeline.work().reconciles;
        self.relists = pipeline
            .stats()
            .iter()
            .map(|(_, stats)| stats.relists)
            .sum();
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "objects in caches     {} ({} pods)",
            self.objects, self.pods
        )?;
        writeln!(f, "first sync            {:.2} s", self.sync_seconds)?;
        writeln!(
            f,
            "events                {:.0} a second",
            self.events_per_second
        )?;
        writeln!(f, "heard by handlers     {}", self.handler_events)?;
        writeln!(f, "reconciles            {}", self.reconciles)?;
        writeln!(f, "relists               {}", self.relists)?;
        writeln!(
            f,
            "write to handler      {:.1} ms median, {:.1} ms 99th percentile",
            self.latency_p50_ms, self.latency_p99_ms
        )?;
        writeln!(
            f,
            "resident memory       {:.0} MB, server included",
            self.rss_bytes as f64 / 1e6
        )
    }
}
