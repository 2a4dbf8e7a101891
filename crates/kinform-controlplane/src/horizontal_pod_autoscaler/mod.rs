//! The controller of HorizontalPodAutoscalers: the size of a workload by the usage of its pods.
//!
//! ```text
//! autoscaler ─▶ /scale of its target ─▶ beyond min and max? │ usage of the pods ─▶ proposal (pure)
//!                                                                 └─▶ windows, policies (pure) ─▶ /scale, status
//! ```
//!
//! A new spec is looked at immediately, everything else every 15 seconds. `metrics.rs` tells where
//! usage comes from: PodMetrics objects, or annotations of the pods.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/podautoscaler`.

mod behavior;
#[cfg(test)]
mod behavior_tests;
mod metrics;
mod proposals;
#[cfg(test)]
mod proposals_tests;
mod replicas;
#[cfg(test)]
mod replicas_tests;
mod review;
mod target;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Informer, LabelSelector, ObjectKey, Reconciler, predicate};
use kube_client::Client;
use serde_json::Value;

use self::behavior::{Bounds, Memory, limited};
use self::metrics::Metrics;
use self::proposals::propose;
use self::review::{Note, Review};
use self::target::Target;
use crate::frame::Frame;
use crate::json::text;
use crate::pods::reference;
use crate::writer::{Failed, Writer, collection_of};

const ACCOUNT: &str = "horizontal-pod-autoscaler";
const WORKERS: usize = 5;
/// The time between two looks at an autoscaler.
const PERIOD: Duration = Duration::from_secs(15);

/// The context of every reconcile.
struct State {
    frame: Frame,
    pods: Informer<Pod>,
    events: EventRecorder,
    // BOUND: one an autoscaler.
    memories: Mutex<HashMap<ObjectKey, Memory>>,
}

impl State {
    fn memories(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        let memories = self.memories.lock();
        memories.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the memory of an autoscaler, or makes it.
    fn remember<T>(&self, key: &ObjectKey, change: impl FnOnce(&mut Memory) -> T) -> T {
        change(self.memories().entry(key.clone()).or_default())
    }

    fn tell(&self, autoscaler: &Value, notes: Vec<Note>) {
        for note in notes {
            let about = self.events.for_reference(reference(autoscaler));
            match note {
                Note::Normal(reason, note) => about.normal(reason, &note),
                Note::Warning(reason, note) => about.warning(reason, &note),
            }
        }
    }
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Reconciler {
    let autoscalers: Informer<HorizontalPodAutoscaler> = frame.factory.informer();
    let autoscalers: Informer<Value> = autoscalers.cast();
    let state = State {
        frame: frame.clone(),
        pods: frame.factory.informer(),
        events,
        memories: Mutex::default(),
    };
    Controller::of(&autoscalers)
        .filter(predicate::generation_changed())
        .named(ACCOUNT)
        .client(frame.client(ACCOUNT))
        .workers(WORKERS)
        .context(state)
        .on_gone(gone)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

async fn gone(key: ObjectKey, cx: Ctx<State>) -> Result<Action, Infallible> {
    cx.memories().remove(&key);
    Ok(Action::await_change())
}

async fn reconcile(autoscaler: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let client = cx.client()?;
    let writer = Writer::new(client.clone(), "kube-controller-manager");
    let mut review = Review::of(&autoscaler, cx.frame.clock.now());
    match Target::read(&client, &autoscaler).await {
        Ok(target) => {
            review.scale_read(Ok(()));
            size(&autoscaler, target, &mut review, (&client, &writer), &cx).await;
        }
        Err(why) => review.scale_read(Err(&why)),
    }
    let notes = std::mem::take(&mut review.notes);
    if let Some(status) = review.changed() {
        let path = collection_of(
            "/apis/autoscaling/v2",
            &autoscaler,
            "horizontalpodautoscalers",
        );
        if let Err(error) = writer.put_status(&path, &autoscaler, status).await {
            let note = Note::Warning("FailedUpdateStatus", error.message());
            cx.tell(&autoscaler, vec![note]);
        }
    }
    cx.tell(&autoscaler, notes);
    // A failure waits for the next look as well, as upstream's.
    Ok(Action::requeue(PERIOD))
}

/// Gives the target the size that bounds and metrics ask for.
async fn size(
    autoscaler: &Value,
    mut target: Target,
    review: &mut Review,
    (client, writer): (&Client, &Writer),
    cx: &Ctx<State>,
) {
    let (current, bounds) = (target.size(), Bounds::of(autoscaler));
    cx.remember(cx.key(), |memory| memory.begin(current, review.now));
    let (wanted, reason, statuses) = if current == 0 {
        let message = "scaling is disabled since the replica count of the target is zero";
        review.condition("ScalingActive", "False", ("ScalingDisabled", message));
        (0, String::new(), None)
    } else if current > bounds.max {
        let reason = "Current number of replicas above Spec.MaxReplicas";
        (bounds.max, reason.to_owned(), None)
    } else if current < bounds.min {
        let reason = "Current number of replicas below Spec.MinReplicas";
        (bounds.min, reason.to_owned(), None)
    } else {
        match by_metrics(autoscaler, &target, review, client, cx).await {
            Ok((wanted, reason, statuses)) => (wanted, reason, Some(statuses)),
            Err((why, statuses)) => {
                review.counts(current, review.desired_before(), statuses);
                review.warn("FailedComputeMetricsReplicas", &why);
                return;
            }
        }
    };
    if wanted != current {
        if let Err(error) = target.resize(client, writer, wanted).await {
            review.not_rescaled(wanted, &reason, &error.message());
            review.counts(current, review.desired_before(), statuses);
            return;
        }
        review.rescaled(wanted, &reason);
        cx.remember(cx.key(), |memory| {
            memory.rescaled(autoscaler, current, wanted, review.now);
        });
    }
    review.counts(current, wanted, statuses);
}

/// The size by the metrics, its reason, and the statuses of the metrics.
async fn by_metrics(
    autoscaler: &Value,
    target: &Target,
    review: &mut Review,
    client: &Client,
    cx: &Ctx<State>,
) -> Result<(i64, String, Vec<Value>), (String, Option<Vec<Value>>)> {
    let current = target.size();
    let pods = selected(target.selector(), review, cx).map_err(|why| (why, None))?;
    let namespace = text(autoscaler, "/metadata/namespace");
    let about = (namespace, target.selector());
    let metrics = Metrics::read(client, about, pods, review.now).await;
    let proposed = propose(autoscaler, current, &metrics, review)
        .map_err(|failure| (failure.why, Some(failure.statuses)))?;
    let reason = match proposed.size > current {
        true => format!("{} above target", proposed.metric),
        false => "All metrics below target".to_owned(),
    };
    let wanted = cx.remember(cx.key(), |memory| {
        limited(autoscaler, memory, (current, proposed.size), review)
    });
    Ok((wanted, reason, proposed.statuses))
}

/// The pods of a selector, which no other autoscaler may select.
fn selected(selector: &str, review: &mut Review, cx: &Ctx<State>) -> Result<Vec<Arc<Pod>>, String> {
    let mut refuse = |reason: &'static str, condition: &str, why: String| {
        review.warn(reason, &why);
        review.condition("ScalingActive", "False", (condition, &why));
        why
    };
    if selector.is_empty() {
        let why = refuse(
            "SelectorRequired",
            "InvalidSelector",
            "selector is required".to_owned(),
        );
        let message = "the HPA target's scale is missing a selector";
        review.condition("ScalingActive", "False", ("InvalidSelector", message));
        return Err(why);
    }
    let parsed: LabelSelector = selector.parse().map_err(|error| {
        let why = format!(
            "couldn't convert selector into a corresponding internal selector object: {error}"
        );
        refuse("InvalidSelector", "InvalidSelector", why)
    })?;
    let namespace = cx.key().namespace();
    let has = |pod: &Pod, selector: &LabelSelector| {
        let labels = pod.metadata.labels.as_ref();
        selector.matches(|key| labels?.get(key))
    };
    // Only the pods that it selects are decoded.
    let pods = cx.pods.lister().namespace(namespace.unwrap_or_default());
    let pods = pods.list(&parsed);
    let pods: Vec<Arc<Pod>> = pods.iter().filter_map(|pod| pod.typed().ok()).collect();
    let others = {
        let mut memories = cx.memories();
        memories.entry(cx.key().clone()).or_default().selector = Some(parsed);
        let selects = |memory: &Memory| {
            let selector = memory.selector.as_ref();
            selector.is_some_and(|selector| pods.iter().any(|pod| has(pod, selector)))
        };
        let ours = memories
            .iter()
            .filter(|(key, memory)| key.namespace() == namespace && selects(memory));
        let mut ours: Vec<String> = ours.map(|(key, _)| key.name().to_owned()).collect();
        ours.sort();
        ours
    };
    if others.len() > 1 {
        let namespace = namespace.unwrap_or_default();
        let named = others[..2]
            .iter()
            .map(|name| format!("{{{name} {namespace}}}"));
        let named: Vec<String> = named.collect();
        let why = format!(
            "pods by selector {selector} are controlled by more than one HPA (e.g. [{}])",
            named.join(" ")
        );
        return Err(refuse("AmbiguousSelector", "AmbiguousSelector", why));
    }
    Ok(pods)
}
