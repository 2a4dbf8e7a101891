//! The binder of PersistentVolumeClaims and PersistentVolumes.
//!
//! ```text
//! claim without a volume ─▶ matching (pure) ─▶ volume names the claim ─▶ claim names the volume ─▶ Bound
//! volume ─▶ Available, Bound, or Released once its claim is gone; deleted and not bound ─▶ it may go
//! ```
//!
//! Nothing is provisioned: a claim of a class with a provisioner waits for that program. A claim of a
//! class with WaitForFirstConsumer waits for the scheduler, which names the claim in a volume, or the
//! node of a pod in the claim.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/volume/persistentvolume`, `pkg/controller/volume/pvprotection`.

pub(crate) mod matching;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kinform::events::EventRecorder;
use kinform::{Action, Controller, Ctx, Enqueue, Informer, ObjectKey, Reconciler};
use serde_json::{Value, json};

use self::matching::Way;
use crate::frame::Frame;
use crate::json::{annotate, annotation, is_terminating, name, set, text, uid};
use crate::pods::reference;
use crate::writer::{Failed, Writer, collection};

const ACCOUNT: &str = "persistent-volume-binder";
const MANAGER: &str = "kube-controller-manager";
pub(crate) const COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The node that the scheduler chose for the first consumer of a claim.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const PROTECTED: &str = "kubernetes.io/pv-protection";
pub(crate) const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The time after which a claim without a volume is looked at again, as upstream's period.
const AGAIN: Duration = Duration::from_secs(15);

/// The context of every reconcile.
#[derive(Clone)]
struct State {
    frame: Frame,
    claims: Informer<Value>,
    volumes: Informer<Value>,
    classes: Informer<StorageClass>,
    events: EventRecorder,
}

/// Makes the two loops: of claims, of volumes.
pub(crate) fn controllers(frame: &Frame, events: EventRecorder) -> [Reconciler; 2] {
    let claims: Informer<PersistentVolumeClaim> = frame.factory.informer();
    let claims: Informer<Value> = claims.cast();
    let volumes: Informer<PersistentVolume> = frame.factory.informer();
    let volumes: Informer<Value> = volumes.cast();
    let state = State {
        frame: frame.clone(),
        claims: claims.clone(),
        volumes: volumes.clone(),
        classes: frame.factory.informer(),
        events,
    };
    let waiting = claims.clone();
    let of_claims = Controller::of(&claims)
        // A volume that comes may be what a claim waits for.
        .watches(&volumes, move |volume| {
            let claims = waiting.list();
            let volume = volume.typed().ok();
            let waits = |claim: &Arc<Value>| {
                let volume = volume.as_deref();
                volume.is_some_and(|volume| {
                    text(claim, "/spec/volumeName") == name(volume)
                        || text(claim, "/status/phase") != "Bound"
                            && matching::may_be(volume, claim)
                })
            };
            let open = claims.typed().filter(waits);
            let keys = open.map(|claim| Enqueue::from(key_of(&claim)));
            keys.collect::<Vec<_>>()
        })
        .named("persistentvolume-binder")
        .client(frame.client(ACCOUNT))
        .context(state.clone())
        .shutdown_on(frame.stop.clone())
        .reconciling(bind);
    let of_volumes = Controller::of(&volumes)
        .watches(&claims, |claim| {
            let claim = claim.typed().ok()?;
            let volume = Some(text(&claim, "/spec/volumeName")).filter(|name| !name.is_empty())?;
            Some(Enqueue::from(ObjectKey::new(None::<&str>, volume)))
        })
        .named("persistentvolume-phases")
        .client(frame.client(ACCOUNT))
        .context(state)
        .shutdown_on(frame.stop.clone())
        .reconciling(settle);
    [of_claims, of_volumes]
}

fn key_of(claim: &Value) -> ObjectKey {
    ObjectKey::new(Some(text(claim, "/metadata/namespace")), name(claim))
}

/// The path of a claim.
pub(crate) fn claim_path(claim: &Value) -> String {
    let namespace = text(claim, "/metadata/namespace");
    format!(
        "{}/{}",
        collection("/api/v1", namespace, "persistentvolumeclaims"),
        name(claim)
    )
}

/// The path of a volume.
pub(crate) fn volume_path(volume: &Value) -> String {
    format!("/api/v1/persistentvolumes/{}", name(volume))
}

async fn bind(claim: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    if is_terminating(&claim) {
        return Ok(Action::await_change());
    }
    let chosen = text(&claim, "/spec/volumeName");
    let volumes: Vec<Arc<Value>> = cx.volumes.list().typed().collect();
    if annotation(&claim, COMPLETED).is_some() {
        let volume = volumes.iter().find(|volume| name(volume) == chosen);
        return match volume {
            Some(volume) if is_its(volume, &claim) => complete(&claim, volume, &cx).await,
            Some(_) => {
                let why = "Two claims are bound to the same volume, this one is bound incorrectly";
                lose(&claim, ("ClaimMisbound", why), &cx).await
            }
            None => {
                let why =
                    "Bound claim has lost its PersistentVolume. Any data on the volume is lost!";
                lose(&claim, ("ClaimLost", why), &cx).await
            }
        };
    }
    if !chosen.is_empty() {
        // The user chose one: it is taken, unless it is somebody else's.
        let mut volumes = volumes.iter();
        let volume = volumes.find(|volume| name(volume) == chosen && is_its(volume, &claim));
        return match volume {
            Some(volume) => complete(&claim, volume, &cx).await,
            None => explain(&claim, &cx).await,
        };
    }
    let class = text(&claim, "/spec/storageClassName");
    let class = cx.classes.get(&ObjectKey::new(None::<&str>, class));
    let class = class.and_then(|class| class.typed().ok());
    match Way::of(&claim, class.as_deref(), &volumes) {
        Way::Take(volume) => complete(&claim, volume, &cx).await,
        Way::Provision => explain(&claim, &cx).await,
        Way::Wait => {
            let why = "waiting for first consumer to be created before binding";
            let about = cx.events.for_reference(reference(&claim));
            about.normal("WaitForFirstConsumer", why);
            Ok(Action::await_change())
        }
    }
}

/// Returns whether a volume is a claim's, or nobody's.
fn is_its(volume: &Value, claim: &Value) -> bool {
    matching::names(volume, claim) || text(volume, "/spec/claimRef/name").is_empty()
}

/// Makes what is missing of four writes: the volume names the claim and is Bound, the claim names the
/// volume and is Bound.
async fn complete(claim: &Value, volume: &Value, cx: &Ctx<State>) -> Result<Action, Failed> {
    let writer = Writer::new(cx.client()?, MANAGER);
    let mut volume = volume.clone();
    if name_claim(&mut volume, claim) {
        volume = writer.replace(&volume_path(&volume), &volume).await?;
    }
    phase(&writer, &mut volume, "Bound", cx).await?;
    let mut claim = claim.clone();
    if text(&claim, "/spec/volumeName").is_empty() || annotation(&claim, COMPLETED).is_none() {
        if text(&claim, "/spec/volumeName").is_empty() {
            set(&mut claim, &["spec", "volumeName"], name(&volume).into());
            annotate(&mut claim, BY_CONTROLLER, "yes");
        }
        annotate(&mut claim, COMPLETED, "yes");
        claim = writer.replace(&claim_path(&claim), &claim).await?;
    }
    if text(&claim, "/status/phase") != "Bound" {
        set(&mut claim, &["status", "phase"], "Bound".into());
        let of = |pointer: &str| volume.pointer(pointer).cloned().unwrap_or_default();
        let (modes, capacity) = (of("/spec/accessModes"), of("/spec/capacity"));
        set(&mut claim, &["status", "accessModes"], modes);
        set(&mut claim, &["status", "capacity"], capacity);
        let class = text(&volume, "/spec/volumeAttributesClassName");
        if !class.is_empty() {
            let member = ["status", "currentVolumeAttributesClassName"];
            set(&mut claim, &member, class.into());
        }
        writer
            .replace(&format!("{}/status", claim_path(&claim)), &claim)
            .await?;
    }
    Ok(Action::await_change())
}

/// Names a claim in a volume. Returns whether it was not named before.
pub(crate) fn name_claim(volume: &mut Value, claim: &Value) -> bool {
    if text(volume, "/spec/claimRef/uid") == uid(claim) {
        return false;
    }
    let is_ours = text(volume, "/spec/claimRef/name").is_empty();
    set(
        volume,
        &["spec", "claimRef"],
        json!({
            "kind": "PersistentVolumeClaim", "apiVersion": "v1", "uid": uid(claim),
            "namespace": text(claim, "/metadata/namespace"), "name": name(claim),
            "resourceVersion": text(claim, "/metadata/resourceVersion"),
        }),
    );
    if is_ours {
        annotate(volume, BY_CONTROLLER, "yes");
    }
    true
}

/// Tells that the volume of a bound claim is gone.
async fn lose(
    claim: &Value,
    (reason, why): (&str, &str),
    cx: &Ctx<State>,
) -> Result<Action, Failed> {
    if text(claim, "/status/phase") != "Lost" {
        let mut next = claim.clone();
        set(&mut next, &["status"], json!({"phase": "Lost"}));
        let path = format!("{}/status", claim_path(claim));
        Writer::new(cx.client()?, MANAGER)
            .replace(&path, &next)
            .await?;
        cx.events
            .for_reference(reference(claim))
            .warning(reason, why);
    }
    Ok(Action::await_change())
}

/// Tells what a claim without a volume waits for.
async fn explain(claim: &Value, cx: &Ctx<State>) -> Result<Action, Failed> {
    let about = cx.events.for_reference(reference(claim));
    let class = text(claim, "/spec/storageClassName");
    if class.is_empty() {
        let why = "no persistent volumes available for this claim and no storage class is set";
        about.normal("FailedBinding", why);
        return Ok(Action::requeue(AGAIN));
    }
    let found = cx.classes.get(&ObjectKey::new(None::<&str>, class));
    let Some(found) = found.and_then(|class| class.typed().ok()) else {
        let why = format!("storageclass.storage.k8s.io \"{class}\" not found");
        about.warning("ProvisioningFailed", &why);
        return Ok(Action::requeue(AGAIN));
    };
    let provisioner = &*found.provisioner;
    if provisioner == NO_PROVISIONER {
        let why = format!("no volume plugin matched name: {provisioner}");
        about.warning("ProvisioningFailed", &why);
        return Ok(Action::requeue(AGAIN));
    }
    let mut next = claim.clone();
    let mut is_new = false;
    for key in [
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-provisioner",
    ] {
        is_new |= annotate(&mut next, key, provisioner);
    }
    if is_new {
        Writer::new(cx.client()?, MANAGER)
            .replace(&claim_path(claim), &next)
            .await?;
    }
    let why = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or \
         manually by the system administrator. If volume creation is delayed, please verify that the \
         provisioner is running and correctly registered."
    );
    about.normal("ExternalProvisioning", &why);
    Ok(Action::requeue(AGAIN))
}

/// Writes the phase of a volume, unless it has it.
async fn phase(writer: &Writer, volume: &mut Value, phase: &str, cx: &State) -> Result<(), Failed> {
    if text(volume, "/status/phase") == phase {
        return Ok(());
    }
    let now = crate::clock::stamp(cx.frame.clock.now());
    set(volume, &["status", "phase"], phase.into());
    set(volume, &["status", "lastPhaseTransitionTime"], now.into());
    let path = format!("{}/status", volume_path(volume));
    *volume = writer.replace(&path, volume).await?;
    Ok(())
}

async fn settle(volume: Arc<Value>, cx: Ctx<State>) -> Result<Action, Failed> {
    let writer = Writer::new(cx.client()?, MANAGER);
    let mut volume = Value::clone(&volume);
    let claimed = text(&volume, "/spec/claimRef/uid").to_owned();
    let claim = ObjectKey::new(
        Some(text(&volume, "/spec/claimRef/namespace")),
        text(&volume, "/spec/claimRef/name"),
    );
    let claim = cx.claims.get(&claim).and_then(|claim| claim.typed().ok());
    if claimed.is_empty() {
        phase(&writer, &mut volume, "Available", &cx).await?;
    } else if claim.is_none_or(|claim| uid(&claim) != claimed) {
        phase(&writer, &mut volume, "Released", &cx).await?;
    }
    if is_terminating(&volume) && text(&volume, "/status/phase") != "Bound" {
        let finalizers = volume
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let left = finalizers.into_iter().flatten();
        let left: Vec<Value> = left.filter(|one| **one != PROTECTED).cloned().collect();
        if finalizers.is_some_and(|all| all.len() > left.len()) {
            set(&mut volume, &["metadata", "finalizers"], left.into());
            // It is gone, or goes on changing: the watch tells.
            match writer.replace(&volume_path(&volume), &volume).await {
                Err(error) if matches!(error.code(), Some(404 | 409)) => {}
                replaced => drop(replaced?),
            }
        }
    }
    Ok(Action::await_change())
}
