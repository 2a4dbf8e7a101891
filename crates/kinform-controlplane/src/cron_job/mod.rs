//! The controller of CronJobs: Jobs at the times of a schedule.
//!
//! ```text
//! CronJob + its Jobs ─▶ old jobs deleted ─▶ plan (pure) ─▶ running ones deleted, a job created ─▶ status
//!                                                       └─▶ a look at the next time
//! ```
//!
//! `schedule.rs` reads schedules, `times.rs` finds missed times, `plan.rs` decides. Without a time zone
//! a schedule is of UTC.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/cronjob`.

mod plan;
#[cfg(test)]
mod plan_tests;
mod schedule;
mod times;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, Error, Index, IndexReader, Informer, ObjectKey, Reconciler,
};
use serde_json::{Value, json};

use self::plan::{Note, Plan, Start, beyond_limits};
use crate::frame::Frame;
use crate::json::{name, text, uid};
use crate::ownership::controller_uid;
use crate::pods::reference;
use crate::writer::{Failed, Writer, collection_of};

const WORKERS: usize = 5;
const API: &str = "/apis/batch/v1";

/// The context of every reconcile.
struct State {
    frame: Frame,
    jobs: IndexReader<Value>,
    events: EventRecorder,
    /// The schedule that each CronJob had when it was seen last, with its UID.
    // BOUND: one a CronJob.
    schedules: Mutex<HashMap<ObjectKey, [String; 3]>>,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Result<Reconciler, Error> {
    let crons: Informer<CronJob> = frame.factory.informer();
    let crons: Informer<Value> = crons.cast();
    let jobs: Informer<Job> = frame.factory.informer();
    let jobs: Informer<Value> = jobs.cast();
    let state = State {
        frame: frame.clone(),
        jobs: jobs.add_index(Index::owner())?,
        events,
        schedules: Mutex::default(),
    };
    Ok(Controller::of(&crons)
        .owns(&jobs)
        .named("cronjob-controller")
        .client(frame.client("cronjob-controller"))
        .workers(WORKERS)
        .context(state)
        .on_gone(gone)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

async fn gone(key: ObjectKey, cx: Ctx<State>) -> Result<Action, Infallible> {
    let mut schedules = cx.schedules.lock().unwrap_or_else(PoisonError::into_inner);
    schedules.remove(&key);
    Ok(Action::await_change())
}

impl State {
    /// Returns whether the schedule of a known CronJob was changed.
    fn is_rescheduled(&self, key: &ObjectKey, cron: &Value) -> bool {
        let seen = ["/metadata/uid", "/spec/schedule", "/spec/timeZone"];
        let seen = seen.map(|pointer| text(cron, pointer).to_owned());
        let mut schedules = self
            .schedules
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let before = schedules.insert(key.clone(), seen.clone());
        before.is_some_and(|before| before[0] == seen[0] && before != seen)
    }

    fn tell(&self, cron: &Value, notes: Vec<Note>) {
        for note in notes {
            let about = self.events.for_reference(reference(cron));
            match note {
                Note::Normal(reason, note) => about.normal(reason, &note),
                Note::Warning(reason, note) => about.warning(reason, &note),
            }
        }
    }
}

async fn reconcile(cron: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let now = cx.frame.clock.now();
    let jobs = cx.jobs.get(uid(&cron));
    let is_its = |job: &Arc<Value>| controller_uid(job) == Some(uid(&cron));
    let jobs: Vec<Arc<Value>> = jobs.typed().filter(is_its).collect();
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let mut deleted = Vec::new();
    for job in beyond_limits(&cron, &jobs) {
        // The next sync tries a failed delete again.
        if delete(&writer, &cron, name(&job), &cx).await.is_ok() {
            deleted.push(uid(&job).to_owned());
        }
    }
    let mut plan = match Plan::seen(&cron, &jobs, &deleted) {
        Ok(plan) => plan,
        Err(error) => {
            tracing::warn!(%error, "the CronJob cannot be read; waiting for its next version");
            return Ok(Action::await_change());
        }
    };
    if !(cx.is_rescheduled(cx.key(), &cron) && plan.await_new_schedule(&cron, now)) {
        plan.decide(&cron, now);
    }
    cx.tell(&cron, std::mem::take(&mut plan.notes));
    let started = match plan.start.take() {
        Some(begin) => start(&writer, &cron, &jobs, begin, &mut plan, &cx).await,
        None => Ok(()),
    };
    if plan.changed {
        let crons = collection_of(API, &cron, "cronjobs");
        writer.put_status(&crons, &cron, json!(plan.status)).await?;
    }
    started?;
    Ok(plan.later.map_or(Action::await_change(), Action::requeue))
}

/// Deletes a job and its pods.
async fn delete(writer: &Writer, cron: &Value, job: &str, cx: &State) -> Result<(), Failed> {
    let jobs = collection_of(API, cron, "jobs");
    let options = json!({"propagationPolicy": "Background"});
    let deleted = writer.delete(&format!("{jobs}/{job}"), &options).await;
    let note = match &deleted {
        Ok(_) => Note::Normal("SuccessfulDelete", format!("Deleted job {job}")),
        Err(error) => Note::Warning("FailedDelete", format!("Deleted job: {}", error.message())),
    };
    cx.tell(cron, vec![note]);
    deleted.map(drop)
}

/// Starts a job, in place of those that it replaces.
async fn start(
    writer: &Writer,
    cron: &Value,
    jobs: &[Arc<Value>],
    begin: Start,
    plan: &mut Plan,
    cx: &State,
) -> Result<(), Failed> {
    for running in begin.replaces {
        delete(
            writer,
            cron,
            running.name.as_deref().unwrap_or_default(),
            cx,
        )
        .await?;
        plan.deactivate(running.uid.as_deref().unwrap_or_default());
        plan.changed = true;
    }
    let path = collection_of(API, cron, "jobs");
    let note = match writer.create(&path, &begin.body).await {
        Ok(job) => {
            plan.activate(&job, begin.time);
            Note::Normal("SuccessfulCreate", format!("Created job {}", name(&job)))
        }
        Err(error) if error.code() == Some(409) => {
            // Its own, started before the status was written; any other job is not its business.
            let own = jobs.iter().find(|job| name(job) == name(&begin.body));
            if let Some(job) = own.filter(|job| !plan.is_active(uid(job))) {
                plan.activate(job, begin.time);
            }
            return Ok(());
        }
        Err(error) => {
            let note = format!("Error creating job: {}", error.message());
            cx.tell(cron, vec![Note::Warning("FailedCreate", note)]);
            return Err(error);
        }
    };
    cx.tell(cron, vec![note]);
    Ok(())
}
