//! The controller that deletes finished Jobs when their time to live is over.
//!
//! ```text
//! Job with ttlSecondsAfterFinished, finished ─▶ a look at its end │ DELETE, dependents first
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/ttlafterfinished`. Difference: the version is a
//! precondition of the delete, where upstream reads the Job once more.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use kinform::{Action, Controller, Ctx, Informer, Reconciler};
use serde_json::{Value, json};

use crate::clock::left;
use crate::frame::Frame;
use crate::job::finished;
use crate::json::{is_terminating, maybe_int, name, text, time, uid};
use crate::writer::{Failed, Writer, collection};

const WORKERS: usize = 5;

/// Makes the controller.
pub(crate) fn controller(frame: &Frame) -> Reconciler {
    let jobs: Informer<Job> = frame.factory.informer();
    let jobs: Informer<Value> = jobs.cast();
    Controller::of(&jobs)
        .named("ttl-after-finished-controller")
        .client(frame.client("ttl-after-finished-controller"))
        .workers(WORKERS)
        .context(frame.clone())
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

/// The rest of a Job's life: `Some(None)` if it is over, `None` if it has no end.
fn life_left(job: &Value, now: Timestamp) -> Option<Option<Duration>> {
    let seconds = maybe_int(job, "/spec/ttlSecondsAfterFinished")?;
    let end = time(finished(job)?, "/lastTransitionTime")?;
    if is_terminating(job) {
        return None;
    }
    let seconds = Duration::from_secs(seconds.try_into().unwrap_or(0));
    Some(left(end, seconds, now))
}

async fn reconcile(job: Arc<Value>, cx: Ctx<Frame>) -> Result<Action, Failed> {
    match life_left(&job, cx.clock.now()) {
        None => Ok(Action::await_change()),
        Some(Some(left)) => Ok(Action::requeue(left)),
        Some(None) => {
            let version = text(&job, "/metadata/resourceVersion");
            let options = json!({
                "propagationPolicy": "Foreground",
                "preconditions": {"uid": uid(&job), "resourceVersion": version},
            });
            let jobs = collection("/apis/batch/v1", text(&job, "/metadata/namespace"), "jobs");
            let writer = Writer::new(cx.client()?, "kube-controller-manager");
            match writer
                .delete(&format!("{jobs}/{}", name(&job)), &options)
                .await
            {
                // It changed: its event decides anew.
                Err(error) if error.code() == Some(409) => Ok(Action::await_change()),
                deleted => deleted.map(|_| Action::await_change()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // kubernetes: TestTimeLeft
    #[test]
    fn a_job_lives_for_a_while_after_its_end() {
        let job = |ttl: Option<i64>, condition: &str| {
            json!({"spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": [{
                "type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}})
        };
        let check = |job: &Value, now: &str, expected: Option<Option<u64>>| {
            let left = life_left(job, format!("2026-01-01T{now}Z").parse().unwrap());
            assert_eq!(
                left,
                expected.map(|left| left.map(Duration::from_secs)),
                "{job} {now}"
            );
        };
        check(&job(Some(10), "Complete"), "00:00:04", Some(Some(6)));
        check(&job(Some(10), "Failed"), "00:00:10", Some(None));
        check(&job(Some(0), "Complete"), "00:00:00", Some(None));
        check(&job(None, "Complete"), "00:01:00", None);
        check(&job(Some(10), "SuccessCriteriaMet"), "00:01:00", None);
        let mut deleted = job(Some(10), "Complete");
        deleted["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:20Z"});
        check(&deleted, "00:01:00", None);
    }
}
