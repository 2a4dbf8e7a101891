//! The controller of DaemonSets: a pod on every node that wants one.
//!
//! ```text
//! DaemonSet + its pods ─▶ adopt, release ─▶ revision of its template ─┐
//! nodes ──────────────────────────────────────────────────────────────┴─▶ plan (pure) ─▶ create, delete ─▶ status
//! ```
//!
//! `place.rs` decides which node wants a pod, `plan.rs` what to do, `status.rs` counts. The status is
//! that of the cache after the writes, as upstream's. A set that is deleted is left alone.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/daemon`.

mod backoff;
mod place;
mod plan;
#[cfg(test)]
mod plan_tests;
mod status;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kinform::events::EventRecorder;
use kinform::{
    Action, Controller, Ctx, DecodedValues, Enqueue, Error, Informer, ObjectKey, Reconciler, Target,
};
use serde_json::Value;

use self::backoff::Backoff;
use self::place::{HASH, Template};
use self::plan::{Input, Plan, about_ended, plan};
use crate::frame::Frame;
use crate::hash::template_hash;
use crate::json::{int, is_terminating, maybe_int, name, text, uid};
use crate::ownership::{claim_pods, selecting};
use crate::pod_control::PodControl;
use crate::pods::{next_available, phase, reference};
use crate::revision::{self, Naming, Revisions};
use crate::writer::{Failed, Writer, collection_of};

const WORKERS: usize = 2;
/// BOUND: pods that one reconcile creates or deletes, as upstream's burst.
const BURST: usize = 250;
const NAMING: Naming = Naming {
    index: "orphans of daemon sets",
    label: HASH,
    hash: |set, _, collisions| {
        let template = set.pointer("/spec/template").unwrap_or(&Value::Null);
        template_hash(template, (collisions > 0).then_some(collisions))
    },
};

/// The context of every reconcile.
struct State {
    frame: Frame,
    nodes: Informer<Node>,
    revisions: Revisions,
    events: EventRecorder,
    backoff: Mutex<Backoff>,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Result<Reconciler, Error> {
    let sets: Informer<DaemonSet> = frame.factory.informer();
    let sets: Informer<Value> = sets.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let nodes: Informer<Node> = frame
        .factory
        .select(Target::new())
        .decoded_values(DecodedValues::All)
        .build();
    let revisions = Revisions::new(frame, NAMING)?;
    let history = revisions.informer.clone();
    let state = State {
        frame: frame.clone(),
        nodes: nodes.clone(),
        revisions,
        events,
        backoff: Mutex::default(),
    };
    let (adopters, all) = (sets.clone(), sets.clone());
    Ok(Controller::of(&sets)
        .owns(&pods)
        .watches(&pods, move |pod| selecting(&adopters, pod))
        .owns(&history)
        .watches(&nodes, move |_| every(&all))
        .named("daemonset-controller")
        .client(frame.client("daemon-set-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

/// All sets: each may want a pod on a node that changed.
fn every(sets: &Informer<Value>) -> Vec<Enqueue> {
    let sets = sets.list();
    let key = |set: Arc<Value>| {
        let namespace = text(&set, "/metadata/namespace");
        Enqueue::from(ObjectKey::new(Some(namespace), name(&set)))
    };
    sets.typed().map(key).collect()
}

async fn reconcile(set: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    if is_terminating(&set) {
        return Ok(Action::await_change());
    }
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    let revisions = cx.revisions.claim(&writer, &set).await?;
    let current = cx.revisions.current(&writer, &set, &revisions).await?;
    let pods = claim_pods(&writer, &set, &cx.frame.pods, |_| true).await?;
    let nodes: Vec<Arc<Node>> = cx.nodes.list().typed().collect();
    let hash = format!("/metadata/labels/{HASH}");
    let template = Template::of(&set, text(&current.revision, &hash));
    let input = Input {
        set: &set,
        template: &template,
        nodes: &nodes,
        pods: &pods,
        now: cx.frame.clock.now(),
    };
    let mut plan = plan(&input);
    let later = clear(&set, &mut plan, &cx);
    let done = perform(&writer, &set, &template, &plan, &cx).await;
    if done.is_ok() {
        trim(&writer, &set, &pods, &revisions, name(&current.revision)).await?;
    }
    let pods = cx.frame.pods.owned_by(uid(&set));
    let input = Input {
        pods: &pods,
        now: cx.frame.clock.now(),
        ..input
    };
    // After a failure, too.
    let sets = collection_of("/apis/apps/v1", &set, "daemonsets");
    let next = status::next(&input, current.collisions);
    let written = writer.put_status(&sets, &set, next).await;
    done.and(written.map(drop))?;
    let available = next_available(&set, &pods, input.now);
    let later = later.into_iter().chain(available).min();
    Ok(later.map_or(Action::await_change(), Action::requeue))
}

/// Adds the pods that ended to those that are deleted. Returns the time until a failed one may go.
fn clear(set: &Value, plan: &mut Plan, cx: &State) -> Option<Duration> {
    let now = cx.frame.clock.now();
    let generation = int(set, "/status/observedGeneration");
    let mut later = None;
    for (node, pod) in std::mem::take(&mut plan.ended) {
        let about = cx.events.for_reference(reference(set));
        let (reason, note) = about_ended(&node, &pod);
        if phase(&pod) == "Failed" {
            let place = (uid(set).to_owned(), generation, node);
            let mut backoff = cx.backoff.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(wait) = backoff.admit(place, now) {
                later = later.into_iter().chain([wait]).min();
                continue;
            }
            about.warning(reason, &note);
        } else {
            about.normal(reason, &note);
        }
        plan.delete.push(pod);
    }
    later
}

/// Creates pods, then deletes.
async fn perform(
    writer: &Writer,
    set: &Value,
    template: &Template,
    plan: &Plan,
    cx: &Ctx<State>,
) -> Result<(), Failed> {
    let pods = PodControl {
        writer,
        owner: set,
        events: &cx.events,
    };
    let create = plan.create.iter().take(BURST);
    let bodies: Vec<Value> = create.map(|node| template.pod_for(node)).collect();
    let (_, not_created) = pods.create(&bodies).await;
    let (_, not_deleted) = pods
        .delete(&plan.delete[..plan.delete.len().min(BURST)])
        .await;
    not_deleted.or(not_created).map_or(Ok(()), Err)
}

/// Deletes revisions beyond the limit that no pod is of.
async fn trim(
    writer: &Writer,
    set: &Value,
    pods: &[Arc<Pod>],
    revisions: &[Value],
    current: &str,
) -> Result<(), Failed> {
    let labels = pods.iter().filter_map(|pod| pod.metadata.labels.as_ref());
    let live = labels.filter_map(|labels| labels.get(HASH));
    let live: BTreeSet<&str> = live.map(String::as_str).collect();
    let hash = format!("/metadata/labels/{HASH}");
    let is_live = |one: &Value| name(one) == current || live.contains(text(one, &hash));
    let old = revisions.iter().filter(|one| name(one) != current).count();
    let limit = maybe_int(set, "/spec/revisionHistoryLimit").unwrap_or(10);
    let excess = old.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let beyond = revision::beyond(revisions, excess, is_live);
    revision::delete(writer, text(set, "/metadata/namespace"), beyond).await
}
