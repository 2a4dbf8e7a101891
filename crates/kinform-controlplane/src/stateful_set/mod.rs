//! The controller of StatefulSets: pods with names, in order, each with its own claims.
//!
//! ```text
//! StatefulSet + its pods ─▶ adopt, release ─▶ revision of its template ─▶ plan (pure) ─▶ tasks ─▶ status
//! ```
//!
//! `plan.rs` decides the tasks, `hands.rs` does them, `identity.rs` names pods and claims,
//! `retention.rs` decides whose the claims are, `status.rs` counts. The status is that of the pods
//! before the tasks, as upstream's.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset`. Differences: the labels of an
//! adopted pod are patched, its volumes stay; of a set that is deleted only the status is kept.

mod hands;
mod identity;
mod plan;
#[cfg(test)]
mod plan_tests;
mod retention;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Enqueue, Error, Informer, Obj, ObjectKey, Reconciler};
use serde_json::Value;

use self::hands::Hands;
use self::identity::{Version, ordinal, pod_name, revision_of};
use self::plan::{Input, plan};
use self::status::Status;
use crate::frame::Frame;
use crate::hash::data_hash;
use crate::json::{is_terminating, maybe_int, name, text, uid};
use crate::ownership::{claim_pods, selecting};
use crate::pods::next_available;
use crate::revision::{self, Current, Naming, Revisions};
use crate::writer::{Failed, Writer, collection_of};

const WORKERS: usize = 5;
const NAMING: Naming = Naming {
    index: "orphans of stateful sets",
    label: "controller.kubernetes.io/hash",
    hash: |_, data, collisions| data_hash(data, collisions),
};

/// The context of every reconcile.
struct State {
    frame: Frame,
    claims: Informer<Value>,
    revisions: Revisions,
    events: EventRecorder,
}

/// Makes the controller.
///
/// # Errors
/// The informers are stopped.
pub(crate) fn controller(frame: &Frame, events: EventRecorder) -> Result<Reconciler, Error> {
    let sets: Informer<StatefulSet> = frame.factory.informer();
    let sets: Informer<Value> = sets.cast();
    let pods: Informer<Pod> = frame.factory.informer();
    let claims: Informer<PersistentVolumeClaim> = frame.factory.informer();
    let claims: Informer<Value> = claims.cast();
    let revisions = Revisions::new(frame, NAMING)?;
    let history = revisions.informer.clone();
    let state = State {
        frame: frame.clone(),
        claims: claims.clone(),
        revisions,
        events,
    };
    let adopters = sets.clone();
    Ok(Controller::of(&sets)
        .owns(&pods)
        .watches(&pods, move |pod| selecting(&adopters, pod))
        .owns(&history)
        .watches(&claims, sets_of)
        .named("statefulset-controller")
        .client(frame.client("statefulset-controller"))
        .workers(WORKERS)
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(reconcile))
}

/// The sets that wait for a claim to go: its owner, or the one of its owner's pod.
fn sets_of(claim: &Obj<Value>) -> Vec<Enqueue> {
    let owners = claim.owner_references();
    let sets = owners.iter().filter_map(|owner| match owner.kind.as_str() {
        "StatefulSet" => Some(owner.name.as_str()),
        "Pod" => owner.name.rsplit_once('-').map(|(set, _)| set),
        _ => None,
    });
    let key = |set| Enqueue::from(ObjectKey::new(claim.namespace(), set));
    sets.map(key).collect()
}

async fn reconcile(set: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let writer = Writer::new(cx.client()?, "kube-controller-manager");
    if is_terminating(&set) {
        let of = |field: &str| text(&set, &format!("/status/{field}")).to_owned();
        let names = (of("currentRevision"), of("updateRevision"));
        let pods = cx.frame.pods.owned_by(uid(&set));
        let status = Status::of(&set, &pods, (&names.0, &names.1), cx.frame.clock.now());
        write_status(&writer, &set, &status).await?;
        return Ok(Action::await_change());
    }
    let revisions = cx.revisions.claim(&writer, &set).await?;
    let is_member = |pod: &Pod| ordinal(name(&set), pod_name(pod)).is_some();
    let pods = claim_pods(&writer, &set, &cx.frame.pods, is_member).await?;
    let update = cx.revisions.current(&writer, &set, &revisions).await?;
    let current = text(&set, "/status/currentRevision");
    let current = revisions.iter().find(|one| name(one) == current);
    let current = version(current.unwrap_or(&update.revision));
    let later = roll(&writer, &set, &pods, (&current, &update), &cx).await?;
    let named = [current.name.as_str(), name(&update.revision)];
    trim(&writer, &set, &pods, &revisions, named).await?;
    Ok(later)
}

fn version(revision: &Value) -> Version {
    Version {
        name: name(revision).to_owned(),
        template: revision::template(revision),
    }
}

/// Does what the plan says, and writes the status.
async fn roll(
    writer: &Writer,
    set: &Value,
    pods: &[Arc<Pod>],
    (current, update): (&Version, &Current),
    cx: &Ctx<State>,
) -> Result<Action, Failed> {
    let now = cx.frame.clock.now();
    let namespace = text(set, "/metadata/namespace");
    let claim = |name: &str| {
        let claim = cx.claims.get(&ObjectKey::new(Some(namespace), name))?;
        claim.typed().ok()
    };
    let next = version(&update.revision);
    let plan = plan(Input {
        set,
        current,
        update: &next,
        pods,
        claim: &claim,
        now,
    });
    let mut status = Status::of(set, pods, (&current.name, &next.name), now);
    status.collisions = update.collisions;
    let hands = Hands {
        writer,
        set,
        events: &cx.events,
        claim: &claim,
    };
    let mut done = Ok(());
    for phase in &plan.phases {
        done = hands.run(phase, plan.pace).await;
        if done.is_err() {
            break;
        }
    }
    if done.is_ok() {
        for pod in &plan.outdated {
            done = hands.delete(pod).await;
            if done.is_err() {
                break;
            }
            status.current -= 1;
        }
    }
    status.complete(set);
    // After a failure, too.
    let written = write_status(writer, set, &status).await;
    done.and(written)?;
    Ok(next_available(set, pods, now).map_or(Action::await_change(), Action::requeue))
}

async fn write_status(writer: &Writer, set: &Value, status: &Status) -> Result<(), Failed> {
    let sets = collection_of("/apis/apps/v1", set, "statefulsets");
    let written = writer.put_status(&sets, set, status.to_json(set)).await;
    written.map(drop)
}

/// Deletes revisions beyond the limit that no pod is of.
async fn trim(
    writer: &Writer,
    set: &Value,
    pods: &[Arc<Pod>],
    revisions: &[Value],
    named: [&str; 2],
) -> Result<(), Failed> {
    let mut live: BTreeSet<&str> = pods.iter().map(|pod| revision_of(pod)).collect();
    live.extend(named);
    let is_live = |one: &Value| live.contains(name(one));
    let history = revisions.iter().filter(|one| !is_live(one)).count();
    let limit = maybe_int(set, "/spec/revisionHistoryLimit").unwrap_or(10);
    let excess = history.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let beyond = revision::beyond(revisions, excess, is_live);
    revision::delete(writer, text(set, "/metadata/namespace"), beyond).await
}
