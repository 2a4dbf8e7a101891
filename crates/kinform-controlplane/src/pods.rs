//! Pods as controllers see them: alive, ready, available, owned; and pods made of a template.
//!
//! ```text
//! Pod → is_active, is_ready, is_available          owner + template → body of a new pod
//! cache of pods → the pods of an owner, the pods without an owner
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/controller_utils.go`, `pkg/api/v1/pod`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, PodCondition};
use kinform::{Error, Index, IndexReader, Informer, ObjectKey};
use serde_json::{Value, json};

use crate::clock::{left, stamp};
use crate::json::{int, name, text, uid};
use crate::writer::collection;

/// The value of the index of pods without a controller, before their namespace.
const ORPHANS: &str = "orphans";
/// The index of pods on nodes by the claims that they mount.
const CLAIMS: &str = "claims";
/// The index of pods by their node.
const NODES: &str = "nodes";

/// The cache of pods, with the look-ups of the controllers that own pods.
#[derive(Clone)]
pub(crate) struct Pods {
    by_owner: IndexReader<Pod>,
    orphans: IndexReader<Pod>,
    by_claim: IndexReader<Pod>,
    by_node: IndexReader<Pod>,
}

impl Pods {
    /// # Errors
    /// The informer is stopped.
    pub(crate) fn new(informer: &Informer<Pod>) -> Result<Self, Error> {
        Ok(Self {
            by_owner: informer.add_index(Index::owner())?,
            orphans: informer.add_index(Index::by(ORPHANS, |pod: &Pod| {
                let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                controller_uid(pod).is_none().then_some(namespace)
            }))?,
            by_claim: informer.add_index(Index::by(CLAIMS, |pod: &Pod| match node(pod) {
                "" => Vec::new(),
                _ => claims_of(pod).map(|claim| claim.to_string()).collect(),
            }))?,
            by_node: informer.add_index(Index::by(NODES, |pod: &Pod| {
                Some(node(pod).to_owned()).filter(|node| !node.is_empty())
            }))?,
        })
    }

    /// The pods whose controller has this UID.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<Arc<Pod>> {
        let owned = self.by_owner.get(uid);
        let owned = owned.typed().filter(|pod| controller_uid(pod) == Some(uid));
        owned.collect()
    }

    /// The pods of a namespace without a controller.
    pub(crate) fn without_owner(&self, namespace: &str) -> Vec<Arc<Pod>> {
        self.orphans.get(namespace).typed().collect()
    }

    /// The pods with a node that mount a claim.
    pub(crate) fn mounting(&self, claim: &ObjectKey) -> Vec<Arc<Pod>> {
        self.by_claim.get(claim.to_string()).typed().collect()
    }

    /// The pods that are bound to a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<Arc<Pod>> {
        self.by_node.get(node).typed().collect()
    }

    /// The keys of the pods that are bound to a node.
    pub(crate) fn keys_on_node(&self, node: &str) -> Vec<ObjectKey> {
        self.by_node.get(node).keys()
    }
}

/// The UID of the controlling owner.
pub(crate) fn controller_uid(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    controller.map(|owner| owner.uid.as_str())
}

/// The keys of the claims that a pod mounts.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let namespace = pod.metadata.namespace.as_deref();
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref());
    let volumes = volumes.unwrap_or_default().iter();
    volumes.filter_map(move |volume| {
        let claim = volume.persistent_volume_claim.as_ref();
        // The claim of an ephemeral volume has the names of its pod and of the volume.
        let ephemeral = volume.ephemeral.as_ref().map(|_| {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            format!("{pod}-{}", volume.name)
        });
        let name = claim.map(|claim| claim.claim_name.clone()).or(ephemeral)?;
        Some(ObjectKey::new(namespace, &name))
    })
}

/// The path of a pod.
pub(crate) fn path(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    format!("{}/{name}", collection("/api/v1", namespace, "pods"))
}

/// The path of a pod's status.
pub(crate) fn status_path(pod: &Pod) -> String {
    format!("{}/status", path(pod))
}

/// The labels of an object in a cache as a map.
pub(crate) fn labels_of<'p>(
    labels: impl Iterator<Item = (Cow<'p, str>, Cow<'p, str>)>,
) -> BTreeMap<String, String> {
    labels
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

/// The phase; empty if there is none.
pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|s| s.phase.as_deref()).unwrap_or_default()
}

/// Returns whether the pod ended by itself.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns whether the pod is being deleted.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns whether the pod counts: it did not end, and is not being deleted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_terminating(pod)
}

/// The node that the pod is bound to; empty if there is none.
pub(crate) fn node(pod: &Pod) -> &str {
    let spec = pod.spec.as_ref();
    spec.and_then(|s| s.node_name.as_deref())
        .unwrap_or_default()
}

/// The condition of a type.
pub(crate) fn condition<'p>(pod: &'p Pod, kind: &str) -> Option<&'p PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|one| one.type_ == kind)
}

/// Returns whether the pod is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// The time at which a pod became ready, or no longer was.
pub(crate) fn readiness_changed(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready")?
        .last_transition_time
        .as_ref()
        .map(|time| time.0)
}

/// The time since which the pod is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    ready.last_transition_time.as_ref().map(|time| time.0)
}

/// The time that the pods of a set must be ready for before they are available.
pub(crate) fn min_ready(set: &Value) -> Duration {
    let seconds = int(set, "/spec/minReadySeconds");
    Duration::from_secs(seconds.try_into().unwrap_or(0))
}

/// The time until the next of a set's pods is available by its age alone.
pub(crate) fn next_available(set: &Value, pods: &[Arc<Pod>], now: Timestamp) -> Option<Duration> {
    let min_ready = min_ready(set);
    let waits = pods.iter();
    waits
        .filter_map(|pod| until_available(pod, min_ready, now))
        .min()
}

/// The time until a ready pod is available; `None` if it is, or if it is not ready.
pub(crate) fn until_available(pod: &Pod, min_ready: Duration, now: Timestamp) -> Option<Duration> {
    if min_ready.is_zero() {
        return None;
    }
    left(ready_since(pod)?, min_ready, now)
}

/// Returns whether the pod is ready for long enough.
pub(crate) fn is_available(pod: &Pod, min_ready: Duration, now: Timestamp) -> bool {
    is_ready(pod) && until_available(pod, min_ready, now).is_none()
}

/// The restarts of all containers.
pub(crate) fn restarts(pod: &Pod) -> i64 {
    let statuses = pod.status.as_ref();
    let statuses = statuses.and_then(|status| status.container_statuses.as_deref());
    let statuses = statuses.unwrap_or_default().iter();
    statuses.map(|status| i64::from(status.restart_count)).sum()
}

/// The reference to an owner that controls what it owns.
pub(crate) fn owner_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": text(owner, "/apiVersion"),
        "kind": text(owner, "/kind"),
        "name": name(owner),
        "uid": uid(owner),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The reference to an object in events.
pub(crate) fn reference(object: &Value) -> ObjectReference {
    let member = |pointer| Some(text(object, pointer).to_owned());
    ObjectReference {
        api_version: member("/apiVersion"),
        kind: member("/kind"),
        name: member("/metadata/name"),
        namespace: member("/metadata/namespace"),
        uid: member("/metadata/uid"),
        resource_version: member("/metadata/resourceVersion"),
        field_path: None,
    }
}

/// The condition that tells of a pod's end before it comes, in the form of a patch.
pub(crate) fn disruption_target(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": stamp(now),
        "observedGeneration": pod.metadata.generation,
    })
}

/// The body of a new pod of an owner's template, which gets a generated name.
pub(crate) fn from_template(owner: &Value) -> Value {
    let template = |part| owner.pointer(part).cloned();
    let mut metadata = json!({
        "generateName": format!("{}-", name(owner)),
        "ownerReferences": [owner_reference(owner)],
    });
    for (field, part) in [
        ("labels", "/spec/template/metadata/labels"),
        ("annotations", "/spec/template/metadata/annotations"),
        ("finalizers", "/spec/template/metadata/finalizers"),
    ] {
        if let (Some(value), Some(members)) = (template(part), metadata.as_object_mut()) {
            members.insert(field.to_owned(), value);
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template("/spec/template/spec").unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_of_a_template_has_its_labels_and_its_owner() {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "web", "uid": "u1"},
            "spec": {"template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }},
        });
        let pod = from_template(&set);
        assert_eq!(pod["metadata"]["generateName"], "web-");
        assert_eq!(pod["metadata"]["labels"]["app"], "web");
        assert_eq!(pod["metadata"].get("annotations"), None);
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u1");
        assert_eq!(pod["spec"]["containers"][0]["image"], "i");
    }

    #[test]
    fn a_ready_pod_is_available_after_the_least_ready_time() {
        let pod: Pod =
            serde_json::from_value(json!({"status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]}}))
            .unwrap();
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        let least = Duration::from_secs(10);
        assert!(is_available(
            &pod,
            Duration::ZERO,
            at("2026-01-01T00:00:00Z")
        ));
        assert!(!is_available(&pod, least, at("2026-01-01T00:00:09Z")));
        assert_eq!(
            until_available(&pod, least, at("2026-01-01T00:00:09Z")),
            Some(Duration::from_secs(1))
        );
        assert!(is_available(&pod, least, at("2026-01-01T00:00:10Z")));
    }

    #[test]
    fn a_pod_mounts_its_claims_and_those_of_ephemeral_volumes() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"containers": [], "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "b", "ephemeral": {}},
                {"name": "c", "emptyDir": {}},
            ]},
        }))
        .unwrap();
        let claims: Vec<String> = claims_of(&pod).map(|claim| claim.to_string()).collect();
        assert_eq!(claims, ["ns/data", "ns/p-b"]);
    }
}
