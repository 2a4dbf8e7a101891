//! Metrics of controllers and their queues, named as upstream's.
//!
//! ```text
//! (name, ControllerMetrics, workers) → workqueue_*, controller_runtime_*, kinform_controller_*
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/internal/controller/metrics`,
//! `controller-runtime:pkg/internal/metrics/workqueue.go`.

use kinform::controller::{ControllerMetrics, ControllerStats};

use super::family::{Family, Labels, buckets, seconds};

/// A controller that is scraped.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) name: String,
    pub(crate) workers: usize,
    pub(crate) metrics: ControllerMetrics,
}

/// The bounds of upstream's reconcile times, in seconds.
const RECONCILE: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// The bounds of upstream's queue times: ten nanoseconds, and eleven powers of ten more.
pub(super) const QUEUE: [f64; 12] = [
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0,
];

/// The families of these controllers.
pub(crate) fn families(controllers: &[Watched]) -> Vec<Family> {
    let read = |c: &Watched| (c.clone(), c.metrics.snapshot());
    let all: Vec<_> = controllers.iter().map(read).collect();
    let mut families = queues(&all);
    families.extend(reconciles(&all));
    families.extend(own(&all));
    families
}

fn queues(all: &[(Watched, ControllerStats)]) -> Vec<Family> {
    let mut depth = Family::gauge("workqueue_depth", "Keys that wait for a worker.");
    let mut adds = Family::counter("workqueue_adds_total", "Keys added.");
    let mut retries = Family::counter("workqueue_retries_total", "Delayed adds.");
    let mut latency = Family::histogram(
        "workqueue_queue_duration_seconds",
        "Time from the add of a key to a worker.",
    );
    let mut work = Family::histogram(
        "workqueue_work_duration_seconds",
        "Time that a worker had a key.",
    );
    let mut unfinished = Family::gauge(
        "workqueue_unfinished_work_seconds",
        "Time that workers have had their keys so far, in sum.",
    );
    let mut longest = Family::gauge(
        "workqueue_longest_running_processor_seconds",
        "Time that the slowest worker has had its key so far.",
    );
    for (controller, stats) in all {
        let name = &controller.name;
        let labels: Labels = vec![("name", name.clone()), ("controller", name.clone())];
        let queue = &stats.queue;
        // Upstream's integers: all above 0 are one lane here, and all below.
        let normal = queue
            .depth
            .saturating_sub(queue.depth_high + queue.depth_low);
        for (priority, keys) in [
            ("100", queue.depth_high),
            ("0", normal),
            ("-100", queue.depth_low),
        ] {
            let mut labels = labels.clone();
            labels.push(("priority", priority.to_owned()));
            depth.set(&labels, keys as f64);
        }
        adds.count(&labels, queue.adds);
        retries.count(&labels, queue.retries);
        latency.observe(&labels, buckets(&queue.queue_latency, &QUEUE));
        work.observe(&labels, buckets(&queue.work_duration, &QUEUE));
        unfinished.set(&labels, seconds(queue.unfinished));
        longest.set(&labels, seconds(queue.longest_running));
    }
    vec![depth, adds, retries, latency, work, unfinished, longest]
}

fn reconciles(all: &[(Watched, ControllerStats)]) -> Vec<Family> {
    let mut total = Family::counter(
        "controller_runtime_reconcile_total",
        "Reconciles by their result.",
    );
    let mut errors = Family::counter(
        "controller_runtime_reconcile_errors_total",
        "Reconciles that failed.",
    );
    let mut terminal = Family::counter(
        "controller_runtime_terminal_reconcile_errors_total",
        "Reconciles that failed and are not retried.",
    );
    let mut panics = Family::counter(
        "controller_runtime_reconcile_panics_total",
        "Reconciles that panicked.",
    );
    let mut timeouts = Family::counter(
        "controller_runtime_reconcile_timeouts_total",
        "Reconciles that met their deadline.",
    );
    let mut times = Family::histogram(
        "controller_runtime_reconcile_time_seconds",
        "Duration of reconciles.",
    );
    let mut most = Family::gauge(
        "controller_runtime_max_concurrent_reconciles",
        "Workers of the controller.",
    );
    let mut active = Family::gauge(
        "controller_runtime_active_workers",
        "Workers that reconcile now.",
    );
    let mut loops = Family::counter(
        "kinform_controller_loops_total",
        "Keys whose reconciles start each other (loop), or with a field that two writers set by turns (fight).",
    );
    for (controller, stats) in all {
        let labels: Labels = vec![("controller", controller.name.clone())];
        for (kind, count) in [("loop", stats.loops), ("fight", stats.fights)] {
            let mut labels = labels.clone();
            labels.push(("kind", kind.to_owned()));
            loops.count(&labels, count);
        }
        // All from the start, as upstream's: a rate needs the zero before the first.
        for (result, count) in [
            ("success", stats.succeeded.saturating_sub(stats.requeued)),
            ("requeue_after", stats.requeued),
            ("requeue", stats.conflicts + stats.throttled),
            ("error", stats.failed),
        ] {
            let mut labels = labels.clone();
            labels.push(("result", result.to_owned()));
            total.count(&labels, count);
        }
        errors.count(&labels, stats.failed);
        terminal.count(&labels, stats.permanent);
        panics.count(&labels, stats.panics);
        timeouts.count(&labels, stats.timeouts);
        times.observe(&labels, buckets(&stats.queue.work_duration, &RECONCILE));
        most.set(&labels, controller.workers as f64);
        active.set(&labels, stats.queue.processing as f64);
    }
    vec![
        total, errors, terminal, panics, timeouts, times, most, active, loops,
    ]
}

/// Families that upstream does not have.
fn own(all: &[(Watched, ControllerStats)]) -> Vec<Family> {
    let mut noop_writes = Family::counter(
        "kinform_controller_noop_writes_total",
        "Writes that changed nothing.",
    );
    let mut elided = Family::counter(
        "kinform_controller_elided_applies_total",
        "Applies that were not sent, since they would change nothing.",
    );
    let mut stale = Family::counter(
        "kinform_controller_stale_runs_total",
        "Reconciles that needed a fresher view, and were tried again.",
    );
    let mut hot = Family::counter(
        "kinform_controller_hot_runs_total",
        "Reconciles that asked for the next one at once, and wrote nothing.",
    );
    let mut slow = Family::counter(
        "kinform_controller_slow_runs_total",
        "Reconciles that took more than a minute, or do so now.",
    );
    for (controller, stats) in all {
        let labels: Labels = vec![("controller", controller.name.clone())];
        hot.count(&labels, stats.hot);
        slow.count(&labels, stats.slow);
        noop_writes.count(&labels, stats.noop_writes);
        elided.count(&labels, stats.elided);
        stale.count(&labels, stats.stale);
    }
    vec![noop_writes, elided, stale, hot, slow]
}
