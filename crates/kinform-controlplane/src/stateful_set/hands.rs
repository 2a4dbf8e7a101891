//! The writes of a StatefulSet's tasks, and their events.
//!
//! ```text
//! Task ─▶ claims (POST), pod (POST, PATCH, DELETE), owners of claims (PUT) ─▶ events about the set
//! ```
//!
//! A claim is there before its pod is. A task ends at its first failure, which its event tells.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset/stateful_pod_control.go`.

use std::fmt::Display;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use serde_json::{Value, json};

use super::identity::{claims, identity_patch, ordinal, pod_name};
use super::plan::{Pace, Task};
use super::retention::{Holder, Place, settled};
use crate::json::{is_terminating, name, text, uid};
use crate::pods::reference;
use crate::writer::{Failed, Writer, collection};

/// The writer of one reconcile.
pub(super) struct Hands<'h> {
    pub(super) writer: &'h Writer,
    pub(super) set: &'h Value,
    pub(super) events: &'h EventRecorder,
    /// Looks up a claim by its name.
    pub(super) claim: &'h (dyn Fn(&str) -> Option<Arc<Value>> + Sync),
}

/// The words of an event.
#[derive(Clone, Copy)]
enum Verb {
    Create,
    Update,
    Delete,
}

impl Verb {
    fn word(self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::Update => "Update",
            Self::Delete => "Delete",
        }
    }
}

impl Hands<'_> {
    /// Does the tasks of a phase. A failure ends it: after the task, or after the batch with it.
    pub(super) async fn run(&self, tasks: &[Task], pace: Pace) -> Result<(), Failed> {
        let (mut left, mut batch) = (tasks, 1);
        while !left.is_empty() {
            let (now, later) = left.split_at(batch.min(left.len()));
            let done = join_all(now.iter().map(|task| self.perform(task))).await;
            done.into_iter().collect::<Result<(), Failed>>()?;
            left = later;
            if pace == Pace::Batches {
                batch *= 2;
            }
        }
        Ok(())
    }

    async fn perform(&self, task: &Task) -> Result<(), Failed> {
        match task {
            Task::Create(ordinal, pod) => self.create(*ordinal, pod).await,
            Task::Supply(pod) => self.supply(pod).await,
            Task::Mend(pod) => self.mend(pod).await,
            Task::Settle(pod) => self.settle(pod, Place::Surplus).await,
            Task::Delete(pod) => self.delete(pod).await,
        }
    }

    fn pod_path(&self, name: &str) -> String {
        let namespace = text(self.set, "/metadata/namespace");
        format!("{}/{name}", collection("/api/v1", namespace, "pods"))
    }

    fn claims_path(&self) -> String {
        let namespace = text(self.set, "/metadata/namespace");
        collection("/api/v1", namespace, "persistentvolumeclaims")
    }

    async fn create(&self, ordinal: i64, body: &Value) -> Result<(), Failed> {
        let supplied = self.make_claims(ordinal, name(body)).await;
        let claims = match supplied {
            Ok(claims) => claims,
            Err(error) => return self.tell(Verb::Create, name(body), Err(error)),
        };
        let namespace = text(self.set, "/metadata/namespace");
        let pods = collection("/api/v1", namespace, "pods");
        let pod = match self.writer.create(&pods, body).await {
            Ok(pod) => pod,
            // It is there, as the cache will tell.
            Err(error) if error.code() == Some(409) => return Err(error),
            Err(error) => return self.tell(Verb::Create, name(body), Err(error)),
        };
        let holder = Holder {
            name: name(&pod),
            uid: uid(&pod),
            place: Place::Kept,
        };
        if let Err(error) = self.settle_claims(&claims, holder).await {
            return self.tell(Verb::Update, name(&pod), Err(error));
        }
        self.tell(Verb::Create, name(&pod), Ok(()))
    }

    async fn supply(&self, pod: &Pod) -> Result<(), Failed> {
        let Some(ordinal) = ordinal(name(self.set), pod_name(pod)) else {
            return Ok(());
        };
        let claims = self.make_claims(ordinal, pod_name(pod)).await?;
        let settled = self.settle_claims(&claims, holder(pod, Place::Kept)).await;
        match settled {
            Ok(()) => Ok(()),
            failed => self.tell(Verb::Update, pod_name(pod), failed),
        }
    }

    async fn mend(&self, pod: &Pod) -> Result<(), Failed> {
        let mut mended = self.settle(pod, Place::Kept).await;
        let ordinal = ordinal(name(self.set), pod_name(pod));
        let patch = ordinal.and_then(|ordinal| identity_patch(pod, ordinal));
        if let (Ok(()), Some(patch)) = (&mended, patch) {
            let path = self.pod_path(pod_name(pod));
            mended = self.writer.patch(&path, &patch).await.map(drop);
        }
        self.tell(Verb::Update, pod_name(pod), mended)
    }

    /// Gives the claims of a pod their owners.
    async fn settle(&self, pod: &Pod, place: Place) -> Result<(), Failed> {
        let Some(ordinal) = ordinal(name(self.set), pod_name(pod)) else {
            return Ok(());
        };
        let claims = claims(self.set, ordinal).into_iter();
        let claims = claims.filter_map(|claim| (self.claim)(name(&claim)));
        let claims: Vec<Arc<Value>> = claims.collect();
        self.settle_claims(&claims, holder(pod, place)).await
    }

    async fn settle_claims(&self, claims: &[Arc<Value>], holder: Holder<'_>) -> Result<(), Failed> {
        for claim in claims {
            if let Some(claim) = settled(claim, self.set, holder) {
                let path = format!("{}/{}", self.claims_path(), name(&claim));
                self.writer.replace(&path, &claim).await?;
            }
        }
        Ok(())
    }

    /// Creates the claims that a pod lacks. Returns all of them.
    async fn make_claims(&self, ordinal: i64, pod: &str) -> Result<Vec<Arc<Value>>, Failed> {
        let mut made = Vec::new();
        for body in claims(self.set, ordinal) {
            let claim = name(&body);
            match (self.claim)(claim) {
                Some(known) if is_terminating(&known) => {
                    return Err(Failed::ClaimEnds(claim.to_owned()));
                }
                Some(known) => made.push(known),
                None => {
                    let created = self.writer.create(&self.claims_path(), &body).await;
                    let about = self.events.for_reference(reference(self.set));
                    let set = name(self.set);
                    match created {
                        Ok(created) => {
                            let note = format!(
                                "Create Claim {claim} Pod {pod} in StatefulSet {set} success"
                            );
                            about.normal("SuccessfulCreate", &note);
                            made.push(Arc::new(created));
                        }
                        Err(error) => {
                            if error.code() != Some(409) {
                                let note = format!(
                                    "Create Claim {claim} for Pod {pod} in StatefulSet {set} \
                                     failed error: {}",
                                    error.message()
                                );
                                about.warning("FailedCreate", &note);
                            }
                            return Err(error);
                        }
                    }
                }
            }
        }
        Ok(made)
    }

    /// Deletes a pod. One that is gone already is deleted.
    pub(super) async fn delete(&self, pod: &Pod) -> Result<(), Failed> {
        let path = self.pod_path(pod_name(pod));
        match self.writer.delete(&path, &json!({})).await {
            Ok(false) => Ok(()),
            deleted => self.tell(Verb::Delete, pod_name(pod), deleted.map(drop)),
        }
    }

    /// Tells the outcome of a write to a pod, and returns it.
    fn tell(&self, verb: Verb, pod: &str, outcome: Result<(), Failed>) -> Result<(), Failed> {
        let about = self.events.for_reference(reference(self.set));
        let verb = verb.word();
        let note = |how: &dyn Display| {
            let set = name(self.set);
            format!("{verb} Pod {pod} in StatefulSet {set} {how}")
        };
        match &outcome {
            Ok(()) => about.normal(&format!("Successful{verb}"), &note(&"successful")),
            Err(error) => {
                let how = format!("failed error: {}", error.message());
                about.warning(&format!("Failed{verb}"), &note(&how));
            }
        }
        outcome
    }
}

fn holder(pod: &Pod, place: Place) -> Holder<'_> {
    Holder {
        name: pod_name(pod),
        uid: pod.metadata.uid.as_deref().unwrap_or_default(),
        place,
    }
}
