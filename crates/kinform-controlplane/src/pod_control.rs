//! The pods that a controller creates and deletes, with the events about them.
//!
//! ```text
//! bodies ─▶ POST in batches of 1, 2, 4, …      pods ─▶ DELETE all at once
//!                 └──────────────┬──────────────────────────┘
//!                  an event for each one at their owner
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_utils.go` (`RealPodControl`,
//! `slowStartBatch`).

use std::borrow::Borrow;
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::{EventRecorder, ObjectEvents};
use serde_json::{Value, json};

use crate::json::{name, text};
use crate::pods::{self, reference};
use crate::writer::{Failed, Writer, collection};

/// Creates and deletes the pods of one owner.
pub(crate) struct PodControl<'a> {
    pub(crate) writer: &'a Writer,
    pub(crate) owner: &'a Value,
    pub(crate) events: &'a EventRecorder,
}

impl PodControl<'_> {
    /// Creates pods. A batch with a failure is the last one. Returns how many there are now, and the
    /// last failure.
    pub(crate) async fn create(
        &self,
        bodies: &[impl Borrow<Value> + Sync],
    ) -> (usize, Option<Failed>) {
        let pods = &collection("/api/v1", text(self.owner, "/metadata/namespace"), "pods");
        let (mut count, mut failed) = (0, None);
        let (mut left, mut batch) = (bodies, 1);
        while failed.is_none() && !left.is_empty() {
            let (now, later) = left.split_at(batch.min(left.len()));
            let create = |body| self.writer.create(pods, body);
            for created in join_all(now.iter().map(Borrow::borrow).map(create)).await {
                match created {
                    Ok(pod) => {
                        count += 1;
                        let note = format!("Created pod: {}", name(&pod));
                        self.about().normal("SuccessfulCreate", &note);
                    }
                    Err(error) => {
                        let note = format!("Error creating: {}", error.message());
                        self.about().warning("FailedCreate", &note);
                        failed = Some(error);
                    }
                }
            }
            (left, batch) = (later, batch * 2);
        }
        (count, failed)
    }

    /// Deletes pods. Returns those that are gone or on their way, and the last failure. A pod that
    /// was gone before has no event.
    pub(crate) async fn delete(&self, pods: &[Arc<Pod>]) -> (Vec<Arc<Pod>>, Option<Failed>) {
        let no_options = &json!({});
        let delete = pods.iter().map(|pod| async move {
            let path = pods::path(pod);
            (pod, self.writer.delete(&path, no_options).await)
        });
        let (mut gone, mut failed) = (Vec::new(), None);
        for (pod, deleted) in join_all(delete).await {
            match deleted {
                Ok(was_there) => {
                    gone.push(Arc::clone(pod));
                    if was_there {
                        let name = pod.metadata.name.as_deref().unwrap_or_default();
                        let note = format!("Deleted pod: {name}");
                        self.about().normal("SuccessfulDelete", &note);
                    }
                }
                Err(error) => {
                    let note = format!("Error deleting: {}", error.message());
                    self.about().warning("FailedDelete", &note);
                    failed = Some(error);
                }
            }
        }
        (gone, failed)
    }

    fn about(&self) -> ObjectEvents<'_> {
        self.events.for_reference(reference(self.owner))
    }
}
