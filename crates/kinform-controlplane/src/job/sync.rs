//! One sync of a Job: its state, the decision whether it ended, and the work on its pods.
//!
//! ```text
//! Job + its pods + backoff + now ─▶ Sync ─▶ work: end all │ remove some │ create some
//!                          what was done ─▶ conditions ─▶ track.rs: status, finalizers, end
//! ```
//!
//! Pure: the shell performs the work and tells how much of it was done. An end that was decided in an
//! earlier sync stays; failures come before successes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go` (`syncJob`, `manageJob`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::serde::Deserialize;
use serde_json::Value;

use super::backoff::{Backoff, finish_time, left_after};
use super::intervals::Intervals;
use super::member::{
    failures_before, index, is_ending, is_failed, is_indexed, is_tracked, replaces_failed,
    to_remove, uid, valid_index,
};
use super::policy::{Failure, failure, success};
use super::status::{
    FAILED, MET, SUSPENDED, TARGET, condition, ensure, number, same_reason, true_condition,
};
use super::template::{indexed, plain};
use crate::clock::left;
use crate::json::is_terminating;
use crate::pods::{is_active, is_ready, phase};

/// The time for which changes of pods and statuses are gathered before a sync.
pub(super) const BATCH: Duration = Duration::from_millis(20);
/// BOUND: pods that one sync creates or deletes, as upstream's.
const BURST: usize = 500;

/// The work on pods.
#[derive(Debug, PartialEq)]
pub(super) enum Work {
    Nothing,
    /// The Job ended: all active pods are deleted. Their finalizers stay until they are counted.
    End(Vec<Arc<Pod>>),
    /// These pods are too many: without their finalizers they are deleted.
    Remove(Vec<Arc<Pod>>),
    Create(Vec<Value>),
}

/// The part of the work that succeeded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) created: i32,
    pub(super) deleted: i32,
    pub(super) deleted_ready: i32,
}

/// A count of the status, and more that are not in it yet.
fn total(counted: Option<i32>, more: usize) -> i32 {
    counted.unwrap_or(0).saturating_add(number(more))
}

impl Done {
    pub(super) fn created(count: usize) -> Self {
        Self {
            created: number(count),
            ..Self::default()
        }
    }

    pub(super) fn deleted(pods: &[Arc<Pod>]) -> Self {
        Self {
            deleted: number(pods.len()),
            deleted_ready: number(pods.iter().filter(|pod| is_ready(pod)).count()),
            ..Self::default()
        }
    }
}

/// A note about the Job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Note {
    Normal(&'static str, String),
    Warning(String, String),
}

/// Counts of pods, those that are not in the status yet included.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) active: i32,
    pub(super) ready: i32,
    pub(super) terminating: i32,
    succeeded: i32,
    failed: i32,
}

/// The state of one sync.
#[derive(Debug)]
pub(super) struct Sync {
    pub(super) spec: JobSpec,
    /// The status as it is to be written.
    pub(super) status: JobStatus,
    pub(super) is_deleted: bool,
    pub(super) pods: Vec<Arc<Pod>>,
    active: Vec<Arc<Pod>>,
    pub(super) counts: Counts,
    /// The indexes that the status counts, and those with pods that newly succeeded.
    pub(super) counted_indexes: Intervals,
    pub(super) succeeded_indexes: Intervals,
    pub(super) failed_indexes: Option<Intervals>,
    /// The last failed pod of each index whose replacement must still copy its counts.
    pub(super) awaited: HashMap<i32, Arc<Pod>>,
    pub(super) backoff: Backoff,
    pub(super) finish: Option<JobCondition>,
    /// The status is to be written.
    pub(super) flush: bool,
    pub(super) notes: Vec<Note>,
    pub(super) later: Option<Duration>,
    pub(super) now: Timestamp,
}

impl Sync {
    /// # Errors
    /// The Job is not one.
    pub(super) fn new(
        job: &Value,
        mut pods: Vec<Arc<Pod>>,
        backoff: Backoff,
        now: Timestamp,
    ) -> Result<Self, serde_json::Error> {
        let part = |part| job.get(part).unwrap_or(&Value::Null);
        let spec = JobSpec::deserialize(part("spec"))?;
        let mut status: JobStatus = Option::deserialize(part("status"))?.unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        if status.start_time.is_none() && !is_suspended(&spec) {
            status.start_time = Some(Time(now));
        }
        pods.sort_by_cached_key(|pod| (index(pod), pod.metadata.name.clone()));
        let active = pods.iter().filter(|pod| is_active(pod));
        let active: Vec<Arc<Pod>> = active.map(Arc::clone).collect();
        let mut sync = Self {
            counts: Counts {
                active: number(active.len()),
                ready: number(active.iter().filter(|pod| is_ready(pod)).count()),
                terminating: number(pods.iter().filter(|pod| is_ending(pod)).count()),
                ..Counts::default()
            },
            is_deleted: is_terminating(job),
            spec,
            status,
            pods,
            active,
            counted_indexes: Intervals::default(),
            succeeded_indexes: Intervals::default(),
            failed_indexes: None,
            awaited: HashMap::new(),
            backoff,
            finish: None,
            flush: false,
            notes: Vec::new(),
            later: None,
            now,
        };
        sync.count();
        sync.judge();
        if is_indexed(&sync.spec) {
            sync.judge_indexes();
        }
        Ok(sync)
    }

    /// The pods that are not counted yet and have a place, of one kind.
    fn uncounted(&self, is: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let has_place =
            |pod: &Pod| !is_indexed(&self.spec) || valid_index(pod, &self.spec).is_some();
        let pods = self.pods.iter();
        pods.filter(|pod| is_tracked(pod) && has_place(pod) && is(pod))
            .map(Arc::clone)
            .collect()
    }

    /// Counts the pods that ended.
    fn count(&mut self) {
        let counted = self.status.uncounted_terminated_pods.clone();
        let counted = counted.unwrap_or_default();
        let in_succeeded = counted.succeeded.unwrap_or_default();
        let in_failed = counted.failed.unwrap_or_default();
        let is_in = |uids: &[String], pod: &Pod| uids.iter().any(|one| one == uid(pod));
        let succeeded =
            self.uncounted(|pod| phase(pod) == "Succeeded" && !is_in(&in_succeeded, pod));
        let failed = self.uncounted(|pod| is_failed(pod, &self.spec) && !is_in(&in_failed, pod));
        let policy = self.spec.pod_failure_policy.as_ref();
        let counts = |pod: &&Arc<Pod>| failure(policy, pod) != Failure::Ignored;
        let failures = failed.iter().filter(counts).count();
        self.counts.succeeded = total(self.status.succeeded, succeeded.len() + in_succeeded.len());
        self.counts.failed = total(self.status.failed, failures + in_failed.len());
        self.backoff = self.backoff.after(&succeeded, &failed);
    }

    /// Decides whether the Job ended: as an earlier sync did, else whether it failed.
    fn judge(&mut self) {
        let now = self.now;
        let target = |reason: &str, message: &str| Some(condition(TARGET, reason, message, now));
        if let Some(met) = true_condition(&self.status, MET) {
            self.finish = Some(met.clone());
        } else if let Some(earlier) = true_condition(&self.status, TARGET) {
            self.finish = Some(same_reason(FAILED, earlier, now));
        } else if let Some(message) = self.failing_pod() {
            self.finish = target("PodFailurePolicy", &message);
        } else if self.counts.failed > self.spec.backoff_limit.unwrap_or(6) || self.restarted() {
            let message = "Job has reached the specified backoff limit";
            self.finish = target("BackoffLimitExceeded", message);
        } else if let Some(deadline) = self.spec.active_deadline_seconds
            && let Some(start) = &self.status.start_time
            && !is_suspended(&self.spec)
        {
            let deadline = Duration::from_secs(deadline.try_into().unwrap_or(0));
            match left(start.0, deadline, now) {
                Some(left) => self.look(left),
                None => {
                    let message = "Job was active longer than specified deadline";
                    self.finish = target("DeadlineExceeded", message);
                }
            }
        }
    }

    /// The message of the first failed pod that fails the Job.
    fn failing_pod(&self) -> Option<String> {
        let policy = self.spec.pod_failure_policy.as_ref()?;
        let mut failed = self.pods.iter().filter(|pod| is_failed(pod, &self.spec));
        failed.find_map(|pod| match failure(Some(policy), pod) {
            Failure::FailsJob(message) => Some(message),
            _ => None,
        })
    }

    /// Returns whether containers were restarted in place too often.
    fn restarted(&self) -> bool {
        let template = self.spec.template.spec.as_ref();
        let policy = template.and_then(|spec| spec.restart_policy.as_deref());
        let live = self
            .pods
            .iter()
            .filter(|pod| !crate::pods::is_finished(pod));
        let restarts: i32 = live
            .flat_map(|pod| {
                let status = pod.status.iter();
                status.flat_map(|status| {
                    let inits = status.init_container_statuses.iter().flatten();
                    inits.chain(status.container_statuses.iter().flatten())
                })
            })
            .fold(0, |sum, container| {
                sum.saturating_add(container.restart_count)
            });
        let limit = self.spec.backoff_limit.unwrap_or(6).max(1);
        policy == Some("OnFailure") && restarts >= limit
    }

    /// Counts indexes, and decides by their failures and by the policy of success.
    fn judge_indexes(&mut self) {
        let completions = self.spec.completions.unwrap_or(0);
        let counted = self.status.completed_indexes.as_deref().unwrap_or_default();
        self.counted_indexes = Intervals::parse(counted, completions);
        let new = self.uncounted(|pod| phase(pod) == "Succeeded");
        let new: Intervals = new.iter().filter_map(|pod| index(pod)).collect();
        self.succeeded_indexes = self.counted_indexes.merged(&new);
        self.counts.succeeded = self.succeeded_indexes.total();
        if let Some(limit) = self.spec.backoff_limit_per_index {
            let failed = self.failures_of_indexes(limit, completions);
            let (failures, successes) = (failed.total(), self.succeeded_indexes.total());
            let most = self.spec.max_failed_indexes;
            self.failed_indexes = Some(failed);
            let why = if most.is_some_and(|most| failures > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                Some(("MaxFailedIndexesExceeded", message))
            } else {
                let all = failures > 0 && failures.saturating_add(successes) >= completions;
                all.then_some(("FailedIndexes", "Job has failed indexes"))
            };
            if let (Some((reason, message)), None) = (why, &self.finish) {
                self.finish = Some(condition(TARGET, reason, message, self.now));
            }
            self.awaited = self.awaited_pods();
        }
        if self.finish.is_none() {
            let policy = self.spec.success_policy.as_ref();
            let met = success(policy, completions, &self.succeeded_indexes);
            let met = met.map(|message| condition(MET, "SuccessPolicy", &message, self.now));
            self.finish = met;
        }
    }

    fn failures_of_indexes(&self, limit: i32, completions: i32) -> Intervals {
        let before = self.status.failed_indexes.as_deref().unwrap_or_default();
        let policy = self.spec.pod_failure_policy.as_ref();
        let fails_index = |pod: &Pod| match failure(policy, pod) {
            Failure::FailsIndex => true,
            Failure::Ignored => false,
            Failure::Counts | Failure::FailsJob(_) => failures_before(pod).0 >= limit,
        };
        let new = self.uncounted(|pod| is_failed(pod, &self.spec) && fails_index(pod));
        let new = new.iter().filter_map(|pod| index(pod)).collect();
        Intervals::parse(before, completions).merged(&new)
    }

    /// The failed pods that stay until their indexes have new pods, which copy their counts.
    fn awaited_pods(&self) -> HashMap<i32, Arc<Pod>> {
        let active: Intervals = self.active.iter().filter_map(|pod| index(pod)).collect();
        let no_failures = Intervals::default();
        let failed = self.failed_indexes.as_ref().unwrap_or(&no_failures);
        let settled =
            |index| self.succeeded_indexes.has(index) || failed.has(index) || active.has(index);
        let mut awaited: HashMap<i32, Arc<Pod>> = HashMap::new();
        for pod in self.uncounted(|pod| is_failed(pod, &self.spec)) {
            let Some(index) = index(&pod).filter(|index| !settled(*index)) else {
                continue;
            };
            let failures = |pod: &Pod| {
                let (counted, ignored) = failures_before(pod);
                counted.saturating_add(ignored)
            };
            let is_later = awaited.get(&index).is_none_or(|other| {
                failures(other) <= failures(&pod) && finish_time(other) <= finish_time(&pod)
            });
            if is_later {
                awaited.insert(index, pod);
            }
        }
        awaited
    }

    /// Asks for a sync after a time, if none is asked for earlier.
    fn look(&mut self, after: Duration) {
        self.later = Some(self.later.map_or(after, |later| later.min(after)));
    }

    /// Decides the work on pods.
    pub(super) fn work(&mut self, job: &Value) -> Work {
        if self.finish.is_some() {
            return match self.active.is_empty() {
                true => Work::Nothing,
                false => Work::End(self.active.clone()),
            };
        }
        if self.is_deleted {
            return Work::Nothing;
        }
        let active = self.active.len();
        let wanted = usize::try_from(self.wanted()).unwrap_or(0);
        let surplus = active.saturating_sub(wanted);
        let mut remove = to_remove(&self.spec, &self.active, surplus);
        if !is_suspended(&self.spec) {
            remove.truncate(BURST);
        }
        if !remove.is_empty() {
            return Work::Remove(remove);
        }
        let ending = match replaces_failed(&self.spec) {
            true => usize::try_from(self.counts.terminating).unwrap_or(0),
            false => 0,
        };
        let missing = wanted.saturating_sub(active + ending).min(BURST);
        let bodies = self.bodies(job, missing);
        if bodies.is_empty() {
            return Work::Nothing;
        }
        Work::Create(bodies)
    }

    /// The number of pods that should be active.
    fn wanted(&self) -> i32 {
        let parallelism = self.spec.parallelism.unwrap_or(1);
        match self.spec.completions {
            _ if is_suspended(&self.spec) => 0,
            Some(completions) => (completions - self.counts.succeeded).clamp(0, parallelism.max(0)),
            None if self.counts.succeeded > 0 => number(self.active.len()),
            None => parallelism,
        }
    }

    /// The bodies of new pods; none while failures are backed off from.
    fn bodies(&mut self, job: &Value, missing: usize) -> Vec<Value> {
        if missing == 0 {
            return Vec::new();
        }
        let is_per_index = self.spec.backoff_limit_per_index.is_some();
        if let Some(left) = self.backoff.left(self.now).filter(|_| !is_per_index) {
            self.look(left.max(BATCH));
            return Vec::new();
        }
        if !is_indexed(&self.spec) {
            return vec![plain(job); missing];
        }
        let mut indexes = self.pending(missing);
        if is_per_index {
            let left = |index: &i32| {
                let failed = self.awaited.get(index)?;
                let (counted, ignored) = failures_before(failed);
                let failures = counted.saturating_add(ignored).saturating_add(1);
                left_after(failures, finish_time(failed), self.now)
            };
            let soonest = indexes.iter().filter_map(left).min();
            indexes.retain(|index| left(index).is_none());
            if let (true, Some(soonest)) = (indexes.is_empty(), soonest) {
                self.look(soonest.max(BATCH));
            }
        }
        let body = |index: i32| {
            let replaced = self.awaited.get(&index);
            indexed(job, &self.spec, index, replaced.map(|pod| &**pod))
        };
        indexes.into_iter().map(body).collect()
    }

    /// The first indexes without a pod and without an end.
    fn pending(&self, count: usize) -> Vec<i32> {
        let ending = self.pods.iter().filter(|pod| is_ending(pod));
        let ending = ending.filter(|_| replaces_failed(&self.spec));
        let taken = self.active.iter().chain(ending);
        let taken = taken.filter_map(|pod| index(pod)).collect();
        let mut settled = self.succeeded_indexes.merged(&taken);
        if let Some(failed) = &self.failed_indexes {
            settled = settled.merged(failed);
        }
        settled.missing(count, self.spec.completions.unwrap_or(0))
    }

    /// Takes note of the work that was done, and decides about success and suspension.
    pub(super) fn worked(&mut self, done: Done) {
        let was_ended = self.finish.is_some();
        if was_ended && done.deleted < self.counts.active {
            // Pods are left: the next sync ends the Job.
            self.finish = None;
        }
        self.counts.active += done.created - done.deleted;
        self.counts.terminating += done.deleted;
        self.counts.ready -= done.deleted_ready;
        if !was_ended {
            let succeeded = self.counts.succeeded;
            let is_met = match self.spec.completions {
                Some(completions) => succeeded >= completions,
                None => succeeded > 0,
            };
            if is_met && self.counts.active == 0 {
                let message = "Reached expected number of succeeded pods";
                self.finish = Some(condition(MET, "CompletionsReached", message, self.now));
            } else if !self.is_deleted {
                self.tell_suspension();
            }
        }
        let counts = (
            self.status.active.unwrap_or(0),
            self.status.ready,
            self.status.terminating,
        );
        let Counts {
            active,
            ready,
            terminating,
            ..
        } = self.counts;
        self.flush |= counts != (active, Some(ready), Some(terminating));
        self.status.active = super::status::count(active);
        self.status.ready = Some(ready);
        self.status.terminating = Some(terminating);
    }

    fn tell_suspension(&mut self) {
        let is_suspended = is_suspended(&self.spec);
        let (reason, message, note) = match is_suspended {
            true => ("JobSuspended", "Job suspended", "Suspended"),
            false => ("JobResumed", "Job resumed", "Resumed"),
        };
        let mut told = condition(SUSPENDED, reason, message, self.now);
        if !is_suspended {
            told.status = "False".to_owned();
        }
        if !ensure(&mut self.status, told) {
            return;
        }
        self.flush = true;
        self.notes.push(Note::Normal(note, message.to_owned()));
        // A deadline counts from the resumption.
        self.status.start_time = (!is_suspended).then_some(Time(self.now));
    }
}

/// Returns whether the Job has no pods for now.
pub(super) fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}
