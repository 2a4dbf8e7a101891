//! The conditions of a Job, and the counts of its status.
//!
//! ```text
//! type, reason, message, now ─▶ condition ─▶ added, or set in place of the one of its type
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go`
//! (`ensureJobConditionStatus`), `pkg/controller/job/util`.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::json::text;

pub(super) const SUSPENDED: &str = "Suspended";
pub(super) const MET: &str = "SuccessCriteriaMet";
pub(super) const COMPLETE: &str = "Complete";
pub(super) const TARGET: &str = "FailureTarget";
pub(super) const FAILED: &str = "Failed";

/// The condition that says that a Job ended: Complete or Failed.
pub(crate) fn finished(job: &Value) -> Option<&Value> {
    let conditions = job.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|one| {
        matches!(text(one, "/type"), COMPLETE | FAILED) && text(one, "/status") == "True"
    })
}

/// A condition that is true as of now.
pub(super) fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: kind.to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// A condition of another type for the same reason.
pub(super) fn same_reason(kind: &str, of: &JobCondition, now: Timestamp) -> JobCondition {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    condition(kind, &text(&of.reason), &text(&of.message), now)
}

/// The condition of a type, if it is true.
pub(super) fn true_condition<'s>(status: &'s JobStatus, kind: &str) -> Option<&'s JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|one| one.type_ == kind && one.status == "True")
}

/// Adds a condition, or sets it in place of the one of its type. A false one is not added. Returns
/// whether something changed.
pub(super) fn ensure(status: &mut JobStatus, new: JobCondition) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|one| one.type_ == new.type_) {
        Some(old)
            if (&old.status, &old.reason, &old.message)
                == (&new.status, &new.reason, &new.message) =>
        {
            false
        }
        Some(old) => {
            *old = new;
            true
        }
        None if new.status == "False" => {
            status
                .conditions
                .take_if(|conditions| conditions.is_empty());
            false
        }
        None => {
            conditions.push(new);
            true
        }
    }
}

/// A count as a status has it: absent is 0.
pub(super) fn count(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// A number of pods as a count.
pub(super) fn number(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_set_in_its_place_and_a_false_one_not_added() {
        let now = Timestamp::UNIX_EPOCH;
        let mut status = JobStatus::default();
        let mut resumed = condition(SUSPENDED, "JobResumed", "", now);
        resumed.status = "False".to_owned();
        assert!(!ensure(&mut status, resumed.clone()));
        assert_eq!(status, JobStatus::default());
        let suspended = condition(SUSPENDED, "JobSuspended", "", now);
        assert!(ensure(&mut status, suspended.clone()));
        assert!(!ensure(&mut status, suspended));
        assert!(ensure(&mut status, condition(MET, "R", "", now)));
        assert!(ensure(&mut status, resumed));
        let types: Vec<_> = status.conditions.iter().flatten().collect();
        assert_eq!((&*types[0].status, &*types[1].type_), ("False", MET));
        assert!(true_condition(&status, SUSPENDED).is_none());
        assert!(true_condition(&status, MET).is_some());
    }

    #[test]
    fn a_job_has_finished_when_a_condition_says_so() {
        let job = |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert!(finished(&job(COMPLETE, "True")).is_some());
        assert!(finished(&job(FAILED, "True")).is_some());
        assert!(finished(&job(FAILED, "False")).is_none());
        assert!(finished(&job(TARGET, "True")).is_none());
        assert!(finished(&json!({})).is_none());
    }
}
