//! The counting of a Job's pods, so that each is counted once, whatever fails.
//!
//! ```text
//! track: UIDs of ended pods, indexes, interim condition ─▶ status ─▶ their finalizers off
//! released: those without a finalizer leave the UIDs and are counted ─▶ end: Complete, Failed ─▶ status
//! ```
//!
//! A pod is in the status before its finalizer goes, and in a count only afterwards: a process that
//! dies between two of these writes counts neither twice nor not at all.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go`
//! (`trackJobStatusAndRemoveFinalizers`).

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::UncountedTerminatedPods;
use k8s_openapi::api::core::v1::Pod;

use super::member::{index, is_failed, is_indexed, is_tracked, uid, valid_index};
use super::policy::{Failure, failure};
use super::status::{COMPLETE, FAILED, MET, TARGET, ensure, number, same_reason, true_condition};
use super::sync::{Note, Sync};
use crate::pods::phase;

/// BOUND: UIDs in a status, as upstream's: about 20 KB.
const UNCOUNTED: usize = 500;

/// The pods whose finalizers are to be removed once the status is written.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) pods: Vec<Arc<Pod>>,
    /// The UIDs of all pods with the finalizer.
    with_finalizer: BTreeSet<String>,
    /// More pods ended than one status has room for.
    is_full: bool,
}

impl Sync {
    /// Puts pods that ended into the status.
    pub(super) fn track(&mut self) -> Tracked {
        let with_finalizer = self.pods.iter().filter(|pod| is_tracked(pod));
        let mut tracked = Tracked {
            pods: Vec::new(),
            with_finalizer: with_finalizer.map(|pod| uid(pod).to_owned()).collect(),
            is_full: false,
        };
        // What the status had before this sync decides about a pod that it has already.
        let before = self
            .status
            .uncounted_terminated_pods
            .clone()
            .unwrap_or_default();
        self.flush |= self.count_released(&tracked.with_finalizer);
        let mut new_indexes = BTreeSet::new();
        for pod in self.pods.clone() {
            if !is_tracked(&pod) || !self.may_release(&pod) {
                continue;
            }
            self.add(&pod, &before, &mut new_indexes);
            tracked.pods.push(pod);
            let uncounted = self.status.uncounted_terminated_pods.as_ref();
            let in_status = uncounted.map_or(0, |one| len(&one.succeeded) + len(&one.failed));
            if new_indexes.len() + in_status >= UNCOUNTED {
                tracked.is_full = true;
                break;
            }
        }
        if is_indexed(&self.spec) {
            self.add_indexes(&new_indexes);
        }
        self.add_interim();
        tracked
    }

    /// Returns whether the finalizer of a pod may go.
    fn may_release(&self, pod: &Pod) -> bool {
        if self.is_deleted || self.finish.is_some() || phase(pod) == "Succeeded" {
            return true;
        }
        let awaited = index(pod).and_then(|index| self.awaited.get(&index));
        is_failed(pod, &self.spec) && awaited.is_none_or(|awaited| uid(awaited) != uid(pod))
    }

    /// Puts one pod into the status: its UID, or its index if it succeeded and has one.
    fn add(
        &mut self,
        pod: &Pod,
        before: &UncountedTerminatedPods,
        new_indexes: &mut BTreeSet<i32>,
    ) {
        let is_in = |uids: &Option<Vec<String>>| uids.iter().flatten().any(|one| one == uid(pod));
        let is_indexed = is_indexed(&self.spec);
        let valid = valid_index(pod, &self.spec);
        let uncounted = self
            .status
            .uncounted_terminated_pods
            .get_or_insert_default();
        if phase(pod) == "Succeeded" && !is_in(&before.failed) {
            match valid {
                Some(index) if is_indexed && !self.counted_indexes.has(index) => {
                    new_indexes.insert(index);
                    self.flush = true;
                }
                _ if is_indexed || is_in(&before.succeeded) => {}
                _ => {
                    uncounted
                        .succeeded
                        .get_or_insert_default()
                        .push(uid(pod).to_owned());
                    self.flush = true;
                }
            }
            return;
        }
        // A pod that runs when the Job fails counts as failed, too.
        let fails = self
            .finish
            .as_ref()
            .is_some_and(|finish| finish.type_ != MET);
        let has_place = !is_indexed || valid.is_some();
        if !(is_failed(pod, &self.spec) || fails) || is_in(&before.failed) || !has_place {
            return;
        }
        if failure(self.spec.pod_failure_policy.as_ref(), pod) != Failure::Ignored {
            uncounted
                .failed
                .get_or_insert_default()
                .push(uid(pod).to_owned());
            self.flush = true;
        }
    }

    fn add_indexes(&mut self, new: &BTreeSet<i32>) {
        let new = new.iter().copied().collect();
        self.succeeded_indexes = self.succeeded_indexes.merged(&new);
        let completed = Some(self.succeeded_indexes.to_string()).filter(|text| !text.is_empty());
        let failed = self.failed_indexes.as_ref().map(ToString::to_string);
        let status = &mut self.status;
        self.flush |= completed != status.completed_indexes || failed != status.failed_indexes;
        status.succeeded = super::status::count(self.succeeded_indexes.total());
        status.completed_indexes = completed;
        status.failed_indexes = failed;
    }

    /// Adds the interim condition of an end, and prepares the last one.
    fn add_interim(&mut self) {
        let Some(finish) = self.finish.take() else {
            return;
        };
        let last = match finish.type_.as_str() {
            MET => COMPLETE,
            TARGET => FAILED,
            _ => {
                self.finish = Some(finish);
                return;
            }
        };
        self.finish = Some(same_reason(last, &finish, self.now));
        if true_condition(&self.status, &finish.type_).is_none() {
            self.status.conditions.get_or_insert_default().push(finish);
            self.flush = true;
        }
    }

    /// Counts the pods that lost their finalizers. Returns whether the status changed.
    pub(super) fn released(&mut self, tracked: &mut Tracked, released: &[Arc<Pod>]) -> bool {
        for pod in released {
            tracked.with_finalizer.remove(uid(pod));
        }
        self.count_released(&tracked.with_finalizer)
    }

    fn count_released(&mut self, with_finalizer: &BTreeSet<String>) -> bool {
        let status = &mut self.status;
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let mut changed = false;
        for (uids, total) in [
            (&mut uncounted.succeeded, &mut status.succeeded),
            (&mut uncounted.failed, &mut status.failed),
        ] {
            let before = len(uids);
            if let Some(uids) = uids {
                uids.retain(|uid| with_finalizer.contains(uid));
            }
            let counted = before - len(uids);
            uids.take_if(|uids| uids.is_empty());
            if counted > 0 {
                *total = Some(total.unwrap_or(0).saturating_add(number(counted)));
                changed = true;
            }
        }
        changed
    }

    /// Ends the Job, if nothing is left to count. Returns whether it ended.
    pub(super) fn end(&mut self, tracked: &Tracked) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let is_counted = uncounted.is_none_or(|one| len(&one.succeeded) + len(&one.failed) == 0);
        if tracked.is_full || !is_counted || self.counts.terminating > 0 {
            return false;
        }
        let Some(finish) = self.finish.take() else {
            return false;
        };
        let reason = finish.reason.clone().unwrap_or_default();
        let message = finish.message.clone().unwrap_or_default();
        match finish.type_.as_str() {
            COMPLETE => {
                self.status
                    .completion_time
                    .clone_from(&finish.last_transition_time);
                let succeeded = self.status.succeeded.unwrap_or(0);
                if self
                    .spec
                    .completions
                    .is_some_and(|completions| succeeded > completions)
                {
                    let message = "Too many succeeded pods running after completion count reached";
                    let reason = "TooManySucceededPods".to_owned();
                    self.notes.push(Note::Warning(reason, message.to_owned()));
                }
                self.notes
                    .push(Note::Normal("Completed", "Job completed".to_owned()));
            }
            _ => self.notes.push(Note::Warning(reason, message)),
        }
        ensure(&mut self.status, finish);
        true
    }
}

fn len(uids: &Option<Vec<String>>) -> usize {
    uids.as_ref().map_or(0, Vec::len)
}
