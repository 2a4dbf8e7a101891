//! The decision about a CronJob: its status by its jobs, and whether a job starts now.
//!
//! ```text
//! CronJob + its Jobs + now ─▶ old jobs to delete
//!                          ─▶ Plan { status, notes, start: job, those that it replaces; next look }
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/cronjob/cronjob_controllerv2.go` (`syncCronJob`,
//! `cleanupFinishedJobs`). Difference: caches have the controller's own writes, so no job and no
//! CronJob is read again from the server.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::serde::Deserialize;
use serde_json::{Value, json};

use super::schedule::Schedule;
use super::times::{Missed, most_recent, until_next};
use crate::job::finished;
use crate::json::{is_terminating, maybe_int, name, set, text, time, uid};
use crate::pods::owner_reference;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// An event about the CronJob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Note {
    Normal(&'static str, String),
    Warning(&'static str, String),
}

/// A job to start.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Start {
    pub(super) body: Value,
    pub(super) time: Timestamp,
    /// Jobs that still run and are deleted before.
    pub(super) replaces: Vec<ObjectReference>,
}

/// The outcome of a decision.
#[derive(Debug)]
pub(super) struct Plan {
    /// The status as it is to be written, if it changed.
    pub(super) status: CronJobStatus,
    pub(super) changed: bool,
    pub(super) notes: Vec<Note>,
    pub(super) start: Option<Start>,
    /// The time until the next start.
    pub(super) later: Option<Duration>,
}

/// The finished jobs beyond the limits, oldest first.
pub(super) fn beyond_limits(cron: &Value, jobs: &[Arc<Value>]) -> Vec<Arc<Value>> {
    let mut beyond = Vec::new();
    for (kind, limit) in [
        ("Complete", "/spec/successfulJobsHistoryLimit"),
        ("Failed", "/spec/failedJobsHistoryLimit"),
    ] {
        let Some(limit) = maybe_int(cron, limit) else {
            continue;
        };
        let is_kind =
            |job: &&Arc<Value>| finished(job).is_some_and(|one| text(one, "/type") == kind);
        let mut jobs: Vec<&Arc<Value>> = jobs.iter().filter(is_kind).collect();
        jobs.sort_by_key(|job| {
            let start = time(job, "/status/startTime");
            (start.is_none(), start, name(job).to_owned())
        });
        let surplus = jobs
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        beyond.extend(jobs.into_iter().take(surplus).map(Arc::clone));
    }
    beyond
}

/// The time zone of a CronJob.
///
/// # Errors
/// The event that says that there is none of this name.
fn zone(cron: &Value) -> Result<TimeZone, Note> {
    match text(cron, "/spec/timeZone") {
        "" => Ok(TimeZone::UTC),
        zone => TimeZone::get(zone).map_err(|error| {
            let message = format!("invalid timeZone: {zone:?}: {error}");
            Note::Warning("UnknownTimeZone", message)
        }),
    }
}

/// The schedule of a CronJob.
///
/// # Errors
/// The event that says what is wrong with it.
fn schedule(cron: &Value, zone: TimeZone) -> Result<Schedule, Note> {
    let text = text(cron, "/spec/schedule");
    Schedule::parse(text, zone).map_err(|error| {
        Note::Warning(
            "UnparseableSchedule",
            format!("unparseable schedule: {text:?} : {error}"),
        )
    })
}

impl Plan {
    /// Sees what became of the jobs. `deleted` are the UIDs of those that were deleted just before.
    ///
    /// # Errors
    /// The status of the CronJob is none.
    pub(super) fn seen(
        cron: &Value,
        jobs: &[Arc<Value>],
        deleted: &[String],
    ) -> Result<Self, serde_json::Error> {
        let status = cron.get("status").unwrap_or(&Value::Null);
        let status: Option<CronJobStatus> = Option::deserialize(status)?;
        let mut plan = Self {
            status: status.unwrap_or_default(),
            changed: !deleted.is_empty(),
            notes: Vec::new(),
            start: None,
            later: None,
        };
        for uid in deleted {
            plan.deactivate(uid);
        }
        for job in jobs {
            plan.see(job);
        }
        plan.drop_missing(jobs);
        Ok(plan)
    }

    fn active(&self) -> &[ObjectReference] {
        self.status.active.as_deref().unwrap_or_default()
    }

    pub(super) fn is_active(&self, uid: &str) -> bool {
        self.active()
            .iter()
            .any(|one| one.uid.as_deref() == Some(uid))
    }

    /// Takes a job off the list of those that run.
    pub(super) fn deactivate(&mut self, uid: &str) {
        if let Some(active) = &mut self.status.active {
            active.retain(|one| one.uid.as_deref() != Some(uid));
        }
        self.status.active.take_if(|active| active.is_empty());
    }

    /// Puts a job that was started on the list.
    pub(super) fn activate(&mut self, job: &Value, start: Timestamp) {
        let member = |pointer| Some(text(job, pointer).to_owned());
        self.status
            .active
            .get_or_insert_default()
            .push(ObjectReference {
                kind: Some("Job".to_owned()),
                api_version: Some("batch/v1".to_owned()),
                namespace: member("/metadata/namespace"),
                name: member("/metadata/name"),
                uid: member("/metadata/uid"),
                resource_version: member("/metadata/resourceVersion"),
                field_path: None,
            });
        self.status.last_schedule_time = Some(Time(start));
        self.changed = true;
    }

    /// Takes note of a job: it runs, or has ended.
    fn see(&mut self, job: &Value) {
        let is_active = self.is_active(uid(job));
        let Some(finish) = finished(job) else {
            if !is_active {
                let message = format!(
                    "Saw a job that the controller did not create or forgot: {}",
                    name(job)
                );
                self.notes.push(Note::Warning("UnexpectedJob", message));
            }
            return;
        };
        let kind = text(finish, "/type");
        if is_active {
            self.deactivate(uid(job));
            let message = format!("Saw completed job: {}, condition: {kind}", name(job));
            self.notes.push(Note::Normal("SawCompletedJob", message));
            self.changed = true;
        }
        let ended = time(job, "/status/completionTime").filter(|_| kind == "Complete");
        let last = self.status.last_successful_time.as_ref().map(|time| time.0);
        if let Some(ended) = ended.filter(|ended| last.is_none_or(|last| *ended > last)) {
            self.status.last_successful_time = Some(Time(ended));
            self.changed = true;
        }
    }

    /// Drops running jobs that are gone.
    fn drop_missing(&mut self, jobs: &[Arc<Value>]) {
        let is_missing = |one: &ObjectReference| {
            let one = one.uid.as_deref().unwrap_or_default();
            !jobs.iter().any(|job| uid(job) == one)
        };
        let missing = self.active().iter().filter(|one| is_missing(one));
        for one in missing.cloned().collect::<Vec<_>>() {
            let name = one.name.unwrap_or_default();
            self.notes.push(Note::Normal(
                "MissingJob",
                format!("Active job went missing: {name}"),
            ));
            self.deactivate(&one.uid.unwrap_or_default());
            self.changed = true;
        }
    }

    /// Decides whether a job starts now, and when to look again.
    pub(super) fn decide(&mut self, cron: &Value, now: Timestamp) {
        if is_terminating(cron) {
            return;
        }
        let zone = match zone(cron) {
            Ok(zone) => zone,
            Err(note) => return self.notes.push(note),
        };
        if cron.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
            return;
        }
        let schedule = match schedule(cron, zone.clone()) {
            Ok(schedule) => schedule,
            Err(note) => return self.notes.push(note),
        };
        let last = self.status.last_schedule_time.as_ref().map(|time| time.0);
        let last = last
            .or_else(|| time(cron, "/metadata/creationTimestamp"))
            .unwrap_or(now);
        let deadline = maybe_int(cron, "/spec/startingDeadlineSeconds");
        let deadline = deadline.map(SignedDuration::from_secs);
        let window = deadline.and_then(|deadline| now.checked_sub(deadline).ok());
        let recent = match most_recent(
            &schedule,
            window.map_or(last, |window| window.max(last)),
            now,
        ) {
            Ok(recent) => recent,
            Err(error) => {
                let text = text(cron, "/spec/schedule");
                let message = format!("invalid schedule: {text} : {error}");
                return self.notes.push(Note::Warning("InvalidSchedule", message));
            }
        };
        self.later = until_next(&schedule, last, now);
        let Some(start) = recent.time else {
            return;
        };
        if recent.missed == Missed::Many {
            let message = "too many missed start times. Set or decrease \
                           .spec.startingDeadlineSeconds or check clock skew";
            self.notes
                .push(Note::Warning("TooManyMissedTimes", message.to_owned()));
        }
        let job = format!("{}-{}", name(cron), start.as_second().div_euclid(60));
        if self.is_started(&job, start) {
            return;
        }
        let policy = text(cron, "/spec/concurrencyPolicy");
        if policy == "Forbid" && !self.active().is_empty() {
            let message = "Not starting job because prior execution is running and concurrency \
                           policy is Forbid";
            return self
                .notes
                .push(Note::Normal("JobAlreadyActive", message.to_owned()));
        }
        self.start = Some(Start {
            body: body(cron, &job, &start.to_zoned(zone)),
            time: start,
            replaces: match policy {
                "Replace" => self.active().to_vec(),
                _ => Vec::new(),
            },
        });
        self.later = until_next(&schedule, start, now);
    }

    /// Waits for the first time of a schedule that was changed: times before the change are not
    /// missed. Returns whether there is such a time.
    pub(super) fn await_new_schedule(&mut self, cron: &Value, now: Timestamp) -> bool {
        let schedule = zone(cron).and_then(|zone| schedule(cron, zone));
        let last = self.status.last_schedule_time.as_ref().map(|time| time.0);
        let last = last.or_else(|| time(cron, "/metadata/creationTimestamp"));
        self.later = schedule
            .ok()
            .zip(last)
            .and_then(|(schedule, last)| until_next(&schedule, last, now));
        self.later.is_some()
    }

    /// Returns whether the job of a time was started before.
    fn is_started(&self, job: &str, start: Timestamp) -> bool {
        let last = self.status.last_schedule_time.as_ref();
        let mut active = self.active().iter();
        last.is_some_and(|last| last.0 == start)
            || active.any(|one| one.name.as_deref() == Some(job))
    }
}

/// The body of the job of a time.
fn body(cron: &Value, job: &str, start: &jiff::Zoned) -> Value {
    let template = |part: &str| cron.pointer(&format!("/spec/jobTemplate/{part}")).cloned();
    let mut body = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": job, "ownerReferences": [owner_reference(cron)]},
        "spec": template("spec").unwrap_or_default(),
    });
    for part in ["labels", "annotations"] {
        if let Some(value) = template(&format!("metadata/{part}")) {
            set(&mut body, &["metadata", part], value);
        }
    }
    // Go writes an offset of zero as Z.
    let format = match start.offset().seconds() {
        0 => "%Y-%m-%dT%H:%M:%SZ",
        _ => "%Y-%m-%dT%H:%M:%S%:z",
    };
    let start = start.strftime(format).to_string();
    set(
        &mut body,
        &["metadata", "annotations", SCHEDULED],
        start.into(),
    );
    body
}
