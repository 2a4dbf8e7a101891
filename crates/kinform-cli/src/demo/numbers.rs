//! The demo's numbers: taken each tick, shown, and summed up at the end.
//!
//! ```text
//! Pipeline's counters → Sampler (rates over the last seconds) → Numbers → a line;  → Summary
//! ```
//!
//! Every figure is measured; `docs/cli.md` defines those of the summary.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use serde::Serialize;

use super::pipeline::Pipeline;

/// BOUND: ticks that a rate is taken over.
const WINDOW: usize = 5;

/// The numbers of one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Numbers {
    seconds: f64,
    objects: u64,
    bytes: u64,
    events_per_second: f64,
    relists: u64,
    notifications: u64,
    queue_depth: usize,
    reconciles: u64,
    latency_p50_ms: f64,
    latency_p99_ms: f64,
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
    pub(crate) fn take(&mut self, pipeline: &Pipeline) -> Numbers {
        let stats = pipeline.stats();
        let stats: Vec<_> = stats.iter().map(|(_, stats)| stats).collect();
        self.remember(stats.iter().map(|stats| stats.events).sum());
        let work = pipeline.work();
        let (latency_p50_ms, latency_p99_ms) = pipeline.latencies();
        Numbers {
            seconds: self.started.elapsed().as_secs_f64(),
            objects: stats.iter().map(|stats| stats.objects).sum(),
            bytes: stats.iter().map(|stats| stats.heap_bytes).sum(),
            events_per_second: self.recent_rate(),
            relists: stats.iter().map(|stats| stats.relists).sum(),
            notifications: pipeline.notifications(),
            queue_depth: work.depth,
            reconciles: work.reconciles,
            latency_p50_ms,
            latency_p99_ms,
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
        match (self.seen.front(), self.seen.back()) {
            (Some(then), Some(now)) if now.0 > then.0 => {
                now.1.saturating_sub(then.1) as f64 / (now.0 - then.0).as_secs_f64()
            }
            _ => 0.0,
        }
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
        self.pods = pipeline.informer("pods").stats().objects;
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

/// One line.
impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:5.1} s  {} objects  {:.1} MB  {:.0} events/s  {} heard  queue {}  {} reconciles  {} \
             relists  write to handler p50 {:.1} ms p99 {:.1} ms",
            self.seconds,
            self.objects,
            self.bytes as f64 / 1e6,
            self.events_per_second,
            self.notifications,
            self.queue_depth,
            self.reconciles,
            self.relists,
            self.latency_p50_ms,
            self.latency_p99_ms,
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_figures() {
        let numbers = Numbers {
            seconds: 12.3,
            objects: 5_720,
            bytes: 6_800_000,
            events_per_second: 199.6,
            relists: 4,
            notifications: 9_001,
            queue_depth: 3,
            reconciles: 77,
            latency_p50_ms: 1.1,
            latency_p99_ms: 6.0,
        };
        assert_eq!(
            numbers.to_string(),
            " 12.3 s  5720 objects  6.8 MB  200 events/s  9001 heard  queue 3  77 reconciles  4 \
             relists  write to handler p50 1.1 ms p99 6.0 ms"
        );
    }
}
