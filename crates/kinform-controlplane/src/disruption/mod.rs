//! The controller of PodDisruptionBudgets: how many pods may be evicted now.
//!
//! ```text
//! budget + pods that it covers ─▶ scale of their owners ─▶ counts (pure) ─▶ status
//! ```
//!
//! The server's eviction counts a budget down by itself and remembers the pod in its status; this
//! controller forgets it when the pod is gone, or was not deleted within two minutes.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/disruption`. Difference: the condition
//! DisruptionTarget of pods that were not deleted is left alone.

mod plan;
mod scale;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Enqueue, Informer, Obj, Reconciler};
use serde_json::{Value, json};

use self::plan::{Counted, Rule, counted, covers, expected, failed};
use self::scale::{Caches, Scale, scale};
use crate::frame::Frame;
use crate::json::text;
use crate::pods::{labels_of, reference};
use crate::selector::printed;
use crate::writer::{Failed, Writer, collection_of};

/// The context of every reconcile.
struct State {
    frame: Frame,
    pods: Informer<Pod>,
    owners: Caches,
    events: EventRecorder,
}

/// Makes the controller.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Reconciler {
    let budgets: Informer<PodDisruptionBudget> = frame.factory.informer();
    let budgets: Informer<Value> = budgets.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let sets: Informer<ReplicaSet> = frame.factory.informer();
    let deployments: Informer<Deployment> = frame.factory.informer();
    let state = State {
        frame: frame.clone(),
        pods: pods.clone(),
        owners: Caches {
            sets: sets.cast(),
            deployments: deployments.cast(),
        },
        events,
    };
    let of_pods = budgets.clone();
    Controller::of(&budgets)
        .watches(&pods, move |pod| budgets_of(&of_pods, pod))
        .named("disruption-controller")
        .client(frame.client("disruption-controller"))
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile)
}

/// The budgets that cover a pod.
fn budgets_of(budgets: &Informer<Value>, pod: &Obj<Pod>) -> Vec<Enqueue> {
    let budgets = budgets
        .snapshot()
        .in_namespace(pod.namespace().unwrap_or_default());
    let labels = labels_of(pod.labels());
    let covering = budgets.iter().filter_map(|budget| {
        let value = budget.typed().ok()?;
        covers(&value, &labels).then(|| Enqueue::from(budget.key()))
    });
    covering.collect()
}

async fn reconcile(budget: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let pods = pods_of(&budget, &cx);
    let about = || cx.events.for_reference(reference(&budget));
    if pods.is_empty() {
        about().normal("NoPods", "No matching pods found");
    }
    let now = cx.frame.clock.now();
    let (status, later) = match count(&budget, &pods, &cx).await {
        Ok(counted) => {
            tell_not_deleted(&budget, &counted, &cx);
            (counted.status, counted.later)
        }
        Err(error) => {
            let note = format!("Failed to calculate the number of expected pods: {error}");
            about().warning("CalculateExpectedPodCountFailed", &note);
            (failed(&budget, &error, now), None)
        }
    };
    let budgets = collection_of("/apis/policy/v1", &budget, "poddisruptionbudgets");
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    writer.put_status(&budgets, &budget, status).await?;
    Ok(later.map_or(Action::await_change(), Action::requeue))
}

/// The pods that a budget covers.
fn pods_of(budget: &Value, cx: &State) -> Vec<Arc<Pod>> {
    let pods = cx
        .pods
        .snapshot()
        .in_namespace(text(budget, "/metadata/namespace"));
    let covered = pods
        .iter()
        .filter_map(|pod| covers(budget, &labels_of(pod.labels())).then(|| pod.typed().ok())?);
    covered.collect()
}

async fn count(budget: &Value, pods: &[Arc<Pod>], cx: &Ctx<State>) -> Result<Counted, String> {
    let rule = Rule::of(budget);
    let scale = match rule.needs_scale() {
        true => {
            let client = cx.client().map_err(|error| error.to_string())?;
            scale(&cx.owners, &client, pods).await?
        }
        false => Scale::default(),
    };
    let expected = expected(rule, pods.len(), scale.total)?;
    if scale.unmanaged {
        let note = format!(
            "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. \
             As a result, the status of the PDB cannot be calculated correctly, which may result in \
             undefined behavior. To account for these pods please set \".spec.minAvailable\" field \
             of the PDB to an integer value.",
            printed(budget.pointer("/spec/selector"))
        );
        let about = cx.events.for_reference(reference(budget));
        about.warning("UnmanagedPods", &note);
    }
    Ok(counted(budget, pods, expected, cx.frame.clock.now()))
}

fn tell_not_deleted(budget: &Value, counted: &Counted, cx: &State) {
    // Upstream names the namespace twice.
    let namespace = text(budget, "/metadata/namespace");
    for pod in &counted.not_deleted {
        let note =
            format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": pod.metadata});
        cx.events
            .for_reference(reference(&pod))
            .warning("NotDeleted", &note);
    }
}
