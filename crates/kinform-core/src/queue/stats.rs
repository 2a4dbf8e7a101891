//! Counts of a queue's work.
//!
//! ```text
//! queue → QueueStats, a copy of all numbers at one instant
//! ```
//!
//! Numbers are plain fields that the queue adds to while it works; nothing refreshes them in the
//! background: ages are computed when somebody asks.
//!
//! Upstream counterpart: `client-go:util/workqueue/metrics.go` (the metric's name is given at each
//! field), which refreshes two of them twice a second for as long as the queue lives.

use std::time::Duration;

use crate::stats::Histogram;

/// A queue's numbers at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStats {
    /// Keys that wait to be handed out (`workqueue_depth`).
    pub depth: usize,
    /// Those of them in the high lane.
    pub depth_high: usize,
    /// Those of them in the low lane; the others are in the normal one.
    pub depth_low: usize,
    /// Keys that wait for their time.
    pub delayed: usize,
    /// Keys handed out and not given back.
    pub processing: usize,
    /// Keys that the queue knows: the above, and those whose failures it remembers.
    pub known: usize,
    /// Times that a key began to wait (`workqueue_adds_total`); repeats while it waits do not count.
    pub adds: u64,
    /// Adds that met a key which was to be handed out anyway.
    pub merged: u64,
    /// Delayed and rate limited adds (`workqueue_retries_total`).
    pub retries: u64,
    /// Adds and retries after the shutdown, and keys given up by it, by a close or by a clear.
    pub refused: u64,
    /// Time since each handed out key was handed out, in sum (`workqueue_unfinished_work_seconds`).
    pub unfinished: Duration,
    /// The longest of them (`workqueue_longest_running_processor_seconds`).
    pub longest_running: Duration,
    /// From being added to being handed out (`workqueue_queue_duration_seconds`).
    pub queue_latency: Histogram,
    /// From being handed out to being given back (`workqueue_work_duration_seconds`).
    pub work_duration: Histogram,
}
