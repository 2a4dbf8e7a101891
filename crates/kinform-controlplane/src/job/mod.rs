//! The controller of Jobs: pods that run to their end, each counted once.
//!
//! ```text
//! Job + its pods ─▶ claim ─▶ Sync (pure) ─▶ create, delete pods ─▶ status ─▶ finalizers off ─▶ status
//! changes of pods and statuses, gathered ─▶ queue        pods whose Job is gone or done ─▶ orphans.rs
//! ```
//!
//! `sync.rs` decides, `track.rs` counts. This file reads caches and writes. Nothing is kept between
//! two syncs but the failures that pods are backed off for: they are counted anew after a restart, as
//! upstream's.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/job/job_controller.go`. Difference: changes are
//! gathered for 20 ms, not for a second.

mod backoff;
mod intervals;
mod member;
mod orphans;
mod policy;
mod status;
mod sync;
#[cfg(test)]
mod sync_tests;
mod template;
mod track;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, Enqueue, Informer, Limiter, Obj, ObjectKey, Reconciler, WorkQueue,
    predicate,
};
use serde_json::{Value, json};

use self::backoff::Backoff;
use self::member::{TRACKING, is_tracked};
pub(crate) use self::status::finished;
use self::sync::{BATCH, Done, Note, Sync, Work};
use crate::frame::Frame;
use crate::json::{is_terminating, text, uid};
use crate::pod_control::PodControl;
use crate::pods::{self, labels_of, owner_reference, reference};
use crate::selector::selects;
use crate::writer::{Failed, Writer, collection_of};

const WORKERS: usize = 5;
const API: &str = "/apis/batch/v1";
const MANAGER: &str = "kube-controller-manager";
/// The delays of a Job whose sync failed, as upstream's.
const RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// This controller's name in `spec.managedBy`.
const MANAGED_BY: &str = "kubernetes.io/job-controller";

/// The context of every reconcile.
struct State {
    frame: Frame,
    events: EventRecorder,
    /// The pods of finished Jobs go there.
    orphans: WorkQueue<ObjectKey>,
    // BOUND: one an unfinished Job.
    backoffs: Mutex<HashMap<ObjectKey, (String, Backoff)>>,
}

impl State {
    /// The failures of a Job so far.
    fn backoff(&self, key: &ObjectKey, uid: &str) -> Backoff {
        let backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = backoffs.get(key).filter(|(of, _)| of == uid);
        known.map(|(_, backoff)| *backoff).unwrap_or_default()
    }

    fn keep_backoff(&self, key: &ObjectKey, uid: &str, backoff: Backoff) {
        let mut backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.insert(key.clone(), (uid.to_owned(), backoff));
    }

    fn forget(&self, key: &ObjectKey) {
        let mut backoffs = self.backoffs.lock().unwrap_or_else(PoisonError::into_inner);
        backoffs.remove(key);
    }
}

/// Makes the two loops: of Jobs, of pods that no Job counts any more.
pub(crate) fn controllers(frame: &Frame, events: EventRecorder) -> [Reconciler; 2] {
    let jobs: Informer<Job> = frame.factory.informer();
    let jobs: Informer<Value> = jobs.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let (orphans, orphan_queue) = orphans::controller(frame, &jobs);
    let state = State {
        frame: frame.clone(),
        events,
        orphans: orphan_queue,
        backoffs: Mutex::default(),
    };
    let controller = Controller::of(&jobs)
        // A change of the spec is news at once; changes of pods and statuses are gathered.
        .filter(predicate::generation_changed())
        .named("job-controller")
        .limiter(Limiter::exponential(RETRY, LAST_RETRY));
    let [by_status, by_pod] = [(); 2].map(|()| controller.queue());
    let of_pods = jobs.clone();
    let jobs_loop = controller
        .watches(&jobs, move |job| gathered(&by_status, [job.key()]))
        .watches(&pods, move |pod| gathered(&by_pod, jobs_of(&of_pods, pod)))
        .client(frame.client("job-controller"))
        .workers(WORKERS)
        .context(state)
        .on_gone(gone)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile);
    [jobs_loop, orphans]
}

/// Queues Jobs for a sync after the time in which changes are gathered.
fn gathered(
    queue: &WorkQueue<ObjectKey>,
    jobs: impl IntoIterator<Item = ObjectKey>,
) -> Option<Enqueue> {
    for job in jobs {
        queue.add_after(job, BATCH);
    }
    None
}

/// The Job of a pod; of a pod without a controller, those that may adopt it.
fn jobs_of(jobs: &Informer<Value>, pod: &Obj<Pod>) -> Vec<ObjectKey> {
    let owners = pod.owner_references();
    if let Some(owner) = owners.iter().find(|owner| owner.controller) {
        let is_job = owner.kind == "Job" && owner.api_version.starts_with("batch/");
        let key = is_job.then(|| ObjectKey::new(pod.namespace(), &owner.name));
        return key.into_iter().collect();
    }
    let labels = labels_of(pod.labels());
    if labels.is_empty() {
        return Vec::new();
    }
    let jobs = jobs
        .snapshot()
        .in_namespace(pod.namespace().unwrap_or_default());
    let fits = jobs.iter().filter_map(|job| {
        let value = job.typed().ok()?;
        selects(value.pointer("/spec/selector"), &labels).then(|| job.key())
    });
    fits.collect()
}

/// Returns whether another program runs the Job's pods.
fn is_managed_elsewhere(job: &Value) -> bool {
    !matches!(text(job, "/spec/managedBy"), "" | MANAGED_BY)
}

async fn gone(key: ObjectKey, cx: Ctx<State>) -> Result<Action, Infallible> {
    cx.forget(&key);
    Ok(Action::await_change())
}

async fn reconcile(job: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    if is_managed_elsewhere(&job) {
        return Ok(Action::await_change());
    }
    let key = cx.key().clone();
    if finished(&job).is_some() {
        cx.forget(&key);
        for pod in cx
            .frame
            .pods
            .owned_by(uid(&job))
            .iter()
            .filter(|pod| is_tracked(pod))
        {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            cx.orphans
                .add(ObjectKey::new(pod.metadata.namespace.as_deref(), name));
        }
        return Ok(Action::await_change());
    }
    let writer = Writer::new(cx.client()?, MANAGER);
    let pods = claim(&writer, &job, &cx).await?;
    let backoff = cx.backoff(&key, uid(&job));
    let mut sync = match Sync::new(&job, pods, backoff, cx.frame.clock.now()) {
        Ok(sync) => sync,
        Err(error) => {
            tracing::warn!(%error, "the Job cannot be read; waiting for its next version");
            return Ok(Action::await_change());
        }
    };
    let work = sync.work(&job);
    let (done, failed) = perform(&writer, &job, work, &cx).await;
    sync.worked(done);
    record(&writer, &job, &mut sync, &cx).await?;
    match failed {
        Some(failed) => Err(failed),
        None => Ok(sync.later.map_or(Action::await_change(), Action::requeue)),
    }
}

/// The pods that the Job controls. Those without a controller that it selects are adopted, those that
/// it no longer selects released.
async fn claim(writer: &Writer, job: &Value, cx: &State) -> Result<Vec<Arc<Pod>>, Failed> {
    let selector = job.pointer("/spec/selector");
    let no_labels = BTreeMap::new();
    let is_selected = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
        selects(selector, labels)
    };
    let mut pods = Vec::new();
    for pod in cx.frame.pods.owned_by(uid(job)) {
        if is_selected(&pod) {
            pods.push(pod);
        } else if !is_terminating(job) {
            let patch = json!({"metadata": {
                "uid": pod.metadata.uid,
                "ownerReferences": [{"$patch": "delete", "uid": uid(job)}],
                "$deleteFromPrimitiveList/finalizers": [TRACKING],
            }});
            match writer.patch(&pods::path(&pod), &patch).await {
                // A pod that is gone, or another one of its name, is released.
                Err(error) if matches!(error.code(), Some(404 | 422)) => {}
                released => drop(released?),
            }
        }
    }
    if is_terminating(job) {
        return Ok(pods);
    }
    for pod in cx
        .frame
        .pods
        .without_owner(text(job, "/metadata/namespace"))
    {
        if !is_selected(&pod) || pods::is_terminating(&pod) {
            continue;
        }
        let patch = json!({"metadata": {
            "uid": pod.metadata.uid,
            "ownerReferences": [owner_reference(job)],
            "finalizers": [TRACKING],
        }});
        match writer.patch(&pods::path(&pod), &patch).await {
            Err(error) if error.code() == Some(404) => {}
            // Its event counts it.
            adopted => drop(adopted?),
        }
    }
    Ok(pods)
}

/// Performs the work on pods. Returns the part that was done, and the last failure.
async fn perform(writer: &Writer, job: &Value, work: Work, cx: &State) -> (Done, Option<Failed>) {
    let pods = PodControl {
        writer,
        owner: job,
        events: &cx.events,
    };
    match work {
        Work::Nothing => (Done::default(), None),
        Work::Create(bodies) => {
            let (created, failed) = pods.create(&bodies).await;
            (Done::created(created), failed)
        }
        Work::End(ended) => {
            let (deleted, failed) = pods.delete(&ended).await;
            (Done::deleted(&deleted), failed)
        }
        Work::Remove(removed) => {
            let (released, stuck) = release(writer, &removed).await;
            let (deleted, failed) = pods.delete(&released).await;
            (Done::deleted(&deleted), stuck.or(failed))
        }
    }
}

/// Removes the finalizer of pods. Returns those that have none any more, and the last failure.
async fn release(writer: &Writer, pods: &[Arc<Pod>]) -> (Vec<Arc<Pod>>, Option<Failed>) {
    let (mut released, mut failed) = (Vec::new(), None);
    let all = pods
        .iter()
        .map(|pod| async move { (pod, without_finalizer(writer, pod).await) });
    for (pod, outcome) in join_all(all).await {
        match outcome {
            Ok(()) => released.push(Arc::clone(pod)),
            Err(error) => failed = Some(error),
        }
    }
    (released, failed)
}

/// Removes the finalizer of a pod, if it has it.
async fn without_finalizer(writer: &Writer, pod: &Pod) -> Result<(), Failed> {
    if !is_tracked(pod) {
        return Ok(());
    }
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}});
    match writer.patch(&pods::path(pod), &patch).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        patched => patched.map(drop),
    }
}

/// Counts pods: into the status, off with their finalizers, into the totals.
async fn record(
    writer: &Writer,
    job: &Value,
    sync: &mut Sync,
    cx: &Ctx<State>,
) -> Result<(), Failed> {
    let mut tracked = sync.track();
    let jobs = collection_of(API, job, "jobs");
    let mut body = job.clone();
    if sync.flush {
        let stored = writer.put_status(&jobs, &body, json!(sync.status)).await?;
        body = stored.unwrap_or(body);
        cx.keep_backoff(cx.key(), uid(job), sync.backoff);
        tell(sync, job, cx);
    }
    let (released, failed) = release(writer, &tracked.pods).await;
    let is_counted = sync.released(&mut tracked, &released);
    if let Some(failed) = failed {
        if is_counted {
            writer.put_status(&jobs, &body, json!(sync.status)).await?;
        }
        return Err(failed);
    }
    if sync.end(&tracked) || is_counted {
        writer.put_status(&jobs, &body, json!(sync.status)).await?;
    }
    tell(sync, job, cx);
    Ok(())
}

/// Writes the events of a sync that are due.
fn tell(sync: &mut Sync, job: &Value, cx: &State) {
    for note in sync.notes.drain(..) {
        let about = cx.events.for_reference(reference(job));
        match note {
            Note::Normal(reason, note) => about.normal(reason, &note),
            Note::Warning(reason, note) => about.warning(&reason, &note),
        }
    }
}
