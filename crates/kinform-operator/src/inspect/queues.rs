//! The view *Queues*: controllers, the keys that wait and those in work, and why each is reconciled.
//!
//! ```text
//! Sampled ─▶ Queues { rows }      controller, q ─▶ its keys and last runs, each with its causes
//! ```
//!
//! A key, and the object of a cause, are named only to a caller that may list their type in their
//! namespace. BOUND: 200 keys and 200 runs of the controller that is asked for, 20 keys in work of the
//! others.
//!
//! Upstream counterpart: none.

use kinform::controller::{Cause, Causes, RecentRun, RunOutcome, WaitingKey};
use kinform::{ObjectKey, Origin, Priority, ResourceInfo, Waits};
use serde::{Deserialize, Serialize};

use super::numbers::{Head, Latency, ROWS, Rate, millis};
use super::program::{Controller, Program, type_name};
use super::sampler::{ControllerFlow, Sampled};
use super::sight::Sight;

/// BOUND: keys in work that a row shows.
const IN_WORK: usize = 20;

/// BOUND: keys that a search looks at, the oldest first: the queue is locked meanwhile.
const LOOKED_AT: usize = 5_000;

/// The controllers of the program and their queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Queues {
    /// The head.
    #[serde(flatten)]
    pub head: Head,
    /// The controllers.
    pub queues: Vec<QueueRow>,
    /// The keys of the controller that was asked for.
    pub keys: Vec<KeyRow>,
    /// The last runs of the controller that was asked for, the newest first.
    pub runs: Vec<RunRow>,
    /// Keys that are left out of `keys`: the caller may not list them, or there are too many.
    pub hidden: u64,
}

/// One controller and its queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct QueueRow {
    /// The name of the controller, for `?controller=`.
    pub controller: String,
    /// The resource that it reconciles, if the caller may list it.
    pub resource: Option<String>,
    /// Workers.
    pub workers: u64,
    /// Keys that wait for a worker.
    pub depth: u64,
    /// Of these, those in the high lane.
    pub depth_high: u64,
    /// Of these, those in the low lane.
    pub depth_low: u64,
    /// Keys that wait for their time: retries and wake-ups.
    pub delayed: u64,
    /// Keys that workers have.
    pub in_work: u64,
    /// The time that the oldest key has waited for a worker, in milliseconds.
    pub oldest_ms: Option<f64>,
    /// The time that the slowest worker has had its key so far, in milliseconds.
    pub longest_running_ms: f64,
    /// Times that a key began to wait.
    pub adds: Rate,
    /// Delayed and rate limited adds.
    pub retries: Rate,
    /// Reconciles that ended.
    pub runs: Rate,
    /// Reconciles that failed.
    pub failures: Rate,
    /// Reconciles that panicked.
    pub panics: u64,
    /// Reconciles that met a conflict.
    pub conflicts: u64,
    /// Times that a key was parked until a cache had its writes.
    pub parked: u64,
    /// Applies that were not sent, since they would change nothing.
    pub elided: u64,
    /// Writes that changed nothing.
    pub noop_writes: u64,
    /// From the add of a key to a worker, over ten seconds or so.
    pub waited: Latency,
    /// From a worker to the end of the reconcile, over ten seconds or so.
    pub took: Latency,
    /// The keys in work, the longest held first.
    pub running: Vec<InWork>,
}

/// A key that a worker has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct InWork {
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The time since it was handed out, in milliseconds.
    pub since_ms: f64,
}

/// A key that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct KeyRow {
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// `worker` (for a free one), `itself` (its worker has it, and it was added again) or `time`.
    pub waits_for: String,
    /// The time that it has waited for a worker, or the time until it is due, in milliseconds.
    pub ms: f64,
    /// `low`, `normal` or `high`.
    pub priority: String,
    /// Failures in a row.
    pub failures: u64,
    /// Why it will be reconciled.
    pub causes: CauseList,
}

/// A run that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunRow {
    /// The controller.
    pub controller: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The start, as in RFC 3339.
    pub started: String,
    /// The time that it took, in milliseconds.
    pub took_ms: f64,
    /// `succeeded`, `failed`, `gone` or `undecodable`.
    pub outcome: String,
    /// Why it ran.
    pub causes: CauseList,
}

/// The causes of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CauseList {
    /// The last causes, eight at most, the oldest first.
    pub causes: Vec<CauseRow>,
    /// The number of all causes.
    pub total: u64,
    /// All are writes of the controller itself.
    pub are_own: bool,
}

/// One cause of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CauseRow {
    /// `initial`, `added`, `updated`, `deleted`, `resynced`, `requeued`, `woken`, `retried`,
    /// `unparked`, `term` or `asked`.
    pub event: String,
    /// The resource of the object, of an event of an object.
    pub resource: Option<String>,
    /// The namespace of the object; `null` if the caller may not list it.
    pub namespace: Option<String>,
    /// The name of the object; `null` if the caller may not list it.
    pub name: Option<String>,
    /// The version of the object, if it is a number.
    pub object_version: Option<u64>,
    /// The parts that an update changed, as `spec,labels`.
    pub changed: String,
    /// `own`, `foreign` or `unknown`: the writer of that version.
    pub origin: String,
    /// Further equal causes that came meanwhile.
    pub merged: u64,
    /// The time between this cause and the start of the run, or now, in milliseconds.
    pub waited_ms: f64,
}

/// The keys that a request asks for.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked {
    pub(super) controller: Option<String>,
    /// A part of `namespace/name`.
    pub(super) q: String,
}

/// The view for this caller.
pub(super) fn queues(program: &Program, sampled: &Sampled, sight: &Sight, asked: &Asked) -> Queues {
    let mut view = Queues {
        head: Head::of(&program.name),
        ..Queues::default()
    };
    for (controller, flow) in sampled.controllers() {
        view.queues.push(row(controller, &flow, sight));
        if asked.controller.as_deref() == Some(&controller.name) {
            let depth = flow.stats.queue.depth + flow.stats.queue.delayed;
            view.keys = keys(controller, sight, &asked.q);
            view.hidden = depth.saturating_sub(view.keys.len()) as u64;
            let is_asked = |run: &RecentRun| matches(run.key(), &asked.q);
            view.runs = runs(controller, sight, is_asked);
        }
    }
    view
}

fn row(controller: &Controller, flow: &ControllerFlow<'_>, sight: &Sight) -> QueueRow {
    let (stats, queue) = (flow.stats, &flow.stats.queue);
    let of = controller.metrics.resources().first();
    let oldest = controller.metrics.waiting(1);
    let oldest = oldest.first().map(|one| one.waits.age());
    let running = controller.metrics.running().into_iter();
    let running = running.filter(|one| sees_key(sight, controller, &one.key));
    QueueRow {
        controller: controller.name.clone(),
        resource: of
            .filter(|info| sight.sees_some(&info.resource))
            .map(type_name),
        workers: controller.workers as u64,
        depth: queue.depth as u64,
        depth_high: queue.depth_high as u64,
        depth_low: queue.depth_low as u64,
        delayed: queue.delayed as u64,
        in_work: queue.processing as u64,
        oldest_ms: oldest.filter(|age| !age.is_zero()).map(millis),
        longest_running_ms: millis(queue.longest_running),
        adds: flow.rate(|stats| stats.queue.adds),
        retries: flow.rate(|stats| stats.queue.retries),
        runs: flow.rate(kinform::controller::ControllerStats::reconciles),
        failures: flow.rate(|stats| stats.failed),
        panics: stats.panics,
        conflicts: stats.conflicts,
        parked: stats.parked,
        elided: stats.elided,
        noop_writes: stats.noop_writes,
        waited: flow.waited,
        took: flow.took,
        running: running
            .take(IN_WORK)
            .map(|one| InWork {
                namespace: one.key.namespace().map(str::to_owned),
                name: one.key.name().to_owned(),
                since_ms: millis(one.since),
            })
            .collect(),
    }
}

fn keys(controller: &Controller, sight: &Sight, q: &str) -> Vec<KeyRow> {
    let of = controller.metrics.resources().first();
    let is_whole = q.is_empty() && of.is_some_and(|info| sight.sees_all(&info.resource));
    let limit = if is_whole { ROWS } else { LOOKED_AT };
    let waiting = controller.metrics.waiting(limit).into_iter();
    let seen =
        waiting.filter(|one| matches(one.key(), q) && sees_key(sight, controller, one.key()));
    seen.take(ROWS).map(|one| key_row(&one, sight)).collect()
}

pub(super) fn key_row(waiting: &WaitingKey, sight: &Sight) -> KeyRow {
    let (waits_for, time) = match waiting.waits {
        Waits::Worker(age) => ("worker", age),
        Waits::Itself(age) => ("itself", age),
        Waits::Time(due) => ("time", due),
        _ => ("unknown", std::time::Duration::ZERO),
    };
    KeyRow {
        namespace: waiting.key().namespace().map(str::to_owned),
        name: waiting.key().name().to_owned(),
        waits_for: waits_for.to_owned(),
        ms: millis(time),
        priority: match waiting.priority {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        }
        .to_owned(),
        failures: u64::from(waiting.failures),
        causes: cause_list(&waiting.causes, sight),
    }
}

/// The last runs of a controller that are asked for and may be seen, the newest first.
pub(super) fn runs(
    controller: &Controller,
    sight: &Sight,
    is_asked: impl Fn(&RecentRun) -> bool,
) -> Vec<RunRow> {
    let runs = controller.metrics.recent_runs().into_iter().rev();
    let seen = runs.filter(|run| is_asked(run) && sees_key(sight, controller, run.key()));
    let row = |run: RecentRun| RunRow {
        controller: controller.name.clone(),
        namespace: run.key().namespace().map(str::to_owned),
        name: run.key().name().to_owned(),
        started: run.started.to_string(),
        took_ms: millis(run.took),
        outcome: match run.outcome {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Failed => "failed",
            RunOutcome::Gone => "gone",
            RunOutcome::Undecodable => "undecodable",
            RunOutcome::Lost => "lost",
            _ => "unknown",
        }
        .to_owned(),
        causes: cause_list(&run.causes, sight),
    };
    seen.take(ROWS).map(row).collect()
}

fn cause_list(causes: &Causes, sight: &Sight) -> CauseList {
    CauseList {
        causes: causes.iter().map(|cause| cause_row(cause, sight)).collect(),
        total: causes.total(),
        are_own: causes.are_own(),
    }
}

fn cause_row(cause: Cause<'_>, sight: &Sight) -> CauseRow {
    let source = cause.source();
    let sees_object = |info: &ResourceInfo| sight.sees(&info.resource, cause.key().namespace());
    // Causes that are no events of an object are about the key itself, which is seen.
    let key = Some(cause.key()).filter(|_| source.is_some_and(sees_object));
    CauseRow {
        event: cause.event().name().to_owned(),
        resource: source
            .filter(|info| sight.sees_some(&info.resource))
            .map(type_name),
        namespace: key.and_then(|key| key.namespace()).map(str::to_owned),
        name: key.map(|key| key.name().to_owned()),
        object_version: cause.version(),
        changed: cause.changed().to_string(),
        origin: match cause.origin() {
            Origin::Own => "own",
            Origin::Foreign => "foreign",
            Origin::Unknown => "unknown",
        }
        .to_owned(),
        merged: u64::from(cause.merged()),
        waited_ms: millis(cause.waited()),
    }
}

/// Returns whether a key of a controller may be named.
pub(super) fn sees_key(sight: &Sight, controller: &Controller, key: &ObjectKey) -> bool {
    let of = controller.metrics.resources().first();
    of.is_some_and(|info| sight.sees(&info.resource, key.namespace()))
}

fn matches(key: &ObjectKey, q: &str) -> bool {
    q.is_empty() || key.to_string().contains(q)
}
