//! The claims of a pod: whether it may look for a node yet, and the volumes that a node would give it.
//!
//! ```text
//! claims of a pod + volumes + classes ─▶ Needs │ why the pod waits
//! Needs + node ─▶ steps: bind this volume, let this claim be provisioned here │ why the node does not fit
//! ```
//!
//! A claim that its class binds immediately must be bound. One that waits for its first consumer is
//! bound here: the scheduler names it in a free volume, or the node in the claim for its provisioner.
//! No controller makes the claims of ephemeral volumes: a pod does not wait for one that is absent.
//!
//! Upstream counterpart: `kubernetes:pkg/scheduler/framework/plugins/volumebinding`. Not considered:
//! zones of volumes, capacity and attach limits of drivers. Difference: a claim that a volume names is
//! not provisioned on a node without access to that volume; upstream binds it, and tries again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeSelector, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kinform::ObjectKey;
use serde_json::Value;

use super::fit::{label, matches_term, name as name_of};
use crate::json::{annotation, is_terminating, name, text};
use crate::pods::claims_of;
use crate::quantity::milli;
use crate::volumes::matching::{best, may_be, names};
use crate::volumes::{COMPLETED, NO_PROVISIONER, SELECTED_NODE};

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const ELSEWHERE: &str = "node(s) didn't match PersistentVolume's node affinity";
const LOST: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// The caches of storage.
#[derive(Clone, Copy)]
pub(super) struct Storage<'s> {
    pub(super) claim: &'s dyn Fn(&ObjectKey) -> Option<Arc<Value>>,
    pub(super) class: &'s dyn Fn(&str) -> Option<Arc<StorageClass>>,
    pub(super) volumes: &'s dyn Fn() -> Vec<Arc<Value>>,
}

/// The volumes that a pod has and needs.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// The node affinity of the volumes that are bound.
    bound: Vec<NodeSelector>,
    is_lost: bool,
    open: Vec<Open>,
    volumes: Vec<(Arc<Value>, Option<NodeSelector>)>,
    /// The answers of the nodes that were asked before.
    answers: HashMap<String, Answer>,
}

/// The writes that give a pod its volumes on a node, or why the node does not fit.
type Answer = Result<Vec<Step>, &'static str>;

/// A claim that waits for the pod's node.
#[derive(Debug)]
struct Open {
    claim: Arc<Value>,
    class: Arc<StorageClass>,
}

/// A write that gives a claim its volume.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Bind {
        volume: Arc<Value>,
        claim: Arc<Value>,
    },
    Provision(Arc<Value>),
}

/// The claims of a pod, seen from the node that is kept for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// All are bound, to volumes of the node.
    Bound,
    /// Some are not bound yet.
    Open,
    /// The node is gone, or cannot give the pod its volumes any longer.
    Lost,
}

impl Progress {
    pub(super) fn of(needs: Result<Needs, String>, node: Option<&Node>) -> Self {
        let (Ok(needs), Some(node)) = (needs, node) else {
            return Self::Lost;
        };
        match needs.steps(node) {
            Err(_) => Self::Lost,
            Ok(_) if needs.is_open() => Self::Open,
            Ok(_) => Self::Bound,
        }
    }
}

/// Returns whether a pod mounts claims.
pub(super) fn minds_claims(pod: &Pod) -> bool {
    claims_of(pod).next().is_some()
}

impl Needs {
    /// # Errors
    /// The pod waits for one of its claims; this is why.
    pub(super) fn of(pod: &Pod, storage: Storage<'_>) -> Result<Self, String> {
        let mut needs = Self::default();
        if !minds_claims(pod) {
            return Ok(needs);
        }
        let claims = claims(pod, storage)?;
        let volumes = (storage.volumes)();
        let mut is_unbound = false;
        for claim in claims {
            let volume = text(&claim, "/spec/volumeName");
            if !volume.is_empty() && annotation(&claim, COMPLETED).is_some() {
                let volume = volumes.iter().find(|one| name(one) == volume);
                needs.is_lost |= volume.is_none();
                needs
                    .bound
                    .extend(volume.and_then(|volume| affinity(volume)));
                continue;
            }
            let class = (storage.class)(text(&claim, "/spec/storageClassName"));
            let late = class.filter(|class| {
                let mode = class.volume_binding_mode.as_deref();
                mode == Some("WaitForFirstConsumer") && volume.is_empty()
            });
            match late {
                Some(class) => needs.open.push(Open { claim, class }),
                None => is_unbound = true,
            }
        }
        if is_unbound {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        if !needs.open.is_empty() {
            let with_affinity = |volume: Arc<Value>| {
                let affinity = affinity(&volume);
                (volume, affinity)
            };
            let may_serve = |volume: &Arc<Value>| {
                let mut open = needs.open.iter();
                open.any(|one| may_be(volume, &one.claim))
            };
            let volumes = volumes.into_iter().filter(may_serve);
            needs.volumes = volumes.map(with_affinity).collect();
        }
        // The smallest claim first, so that it gets the smallest volume.
        let size = |open: &Open| milli(text(&open.claim, "/spec/resources/requests/storage"));
        needs.open.sort_by_key(size);
        Ok(needs)
    }

    /// Returns whether claims wait for the pod's node.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Asks all nodes: the answers are there before the ledger is locked.
    // Complexity: O(nodes times volumes that may serve).
    pub(super) fn ask(&mut self, nodes: &[Arc<Node>]) {
        if self.is_open() || self.is_lost || !self.bound.is_empty() {
            let answers = nodes
                .iter()
                .map(|node| (name_of(node).to_owned(), self.answer(node)));
            self.answers = answers.collect();
        }
    }

    /// The writes that give the pod its volumes on a node.
    ///
    /// # Errors
    /// The node does not fit; this is why.
    pub(super) fn steps(&self, node: &Node) -> Answer {
        match self.answers.get(name_of(node)) {
            Some(answer) => answer.clone(),
            None => self.answer(node),
        }
    }

    fn answer(&self, node: &Node) -> Answer {
        let fits = |affinity: &NodeSelector| {
            let mut terms = affinity.node_selector_terms.iter();
            terms.any(|term| matches_term(term, node))
        };
        if !self.bound.iter().all(fits) {
            return Err(ELSEWHERE);
        }
        if self.is_lost {
            return Err(LOST);
        }
        let volumes = self.volumes.iter();
        let volumes = volumes.filter(|(_, affinity)| affinity.as_ref().is_none_or(fits));
        let mut volumes: Vec<Arc<Value>> = volumes.map(|(volume, _)| Arc::clone(volume)).collect();
        let mut steps = Vec::new();
        for open in &self.open {
            let selected = annotation(&open.claim, SELECTED_NODE);
            if selected.is_some_and(|selected| selected != name_of(node)) {
                return Err(NO_VOLUME);
            }
            // The claim of a volume gets no other one.
            let mut named = self.volumes.iter();
            let named = named.find(|(volume, _)| names(volume, &open.claim));
            if named.is_some_and(|(_, affinity)| !affinity.as_ref().is_none_or(fits)) {
                return Err(NO_VOLUME);
            }
            let claim = Arc::clone(&open.claim);
            let found = best(&claim, &volumes).filter(|_| selected.is_none());
            if let Some(volume) = found.cloned() {
                volumes.retain(|other| name(other) != name(&volume));
                steps.push(Step::Bind { volume, claim });
            } else if provisions(&open.class, node) {
                steps.push(Step::Provision(claim));
            } else {
                return Err(NO_VOLUME);
            }
        }
        Ok(steps)
    }
}

/// The claims of a pod, all of which must be there.
fn claims(pod: &Pod, storage: Storage<'_>) -> Result<Vec<Arc<Value>>, String> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref());
    let volumes = volumes.unwrap_or_default();
    let named: BTreeSet<&str> = volumes
        .iter()
        .filter_map(|volume| Some(&*volume.persistent_volume_claim.as_ref()?.claim_name))
        .collect();
    let mut claims = Vec::new();
    for key in claims_of(pod) {
        let claimed = key.name();
        let Some(claim) = (storage.claim)(&key) else {
            // The claim of an ephemeral volume.
            if !named.contains(claimed) {
                continue;
            }
            return Err(format!("persistentvolumeclaim {claimed:?} not found"));
        };
        if text(&claim, "/status/phase") == "Lost" {
            let volume = text(&claim, "/spec/volumeName");
            return Err(format!(
                "persistentvolumeclaim {claimed:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if is_terminating(&claim) {
            return Err(format!(
                "persistentvolumeclaim {claimed:?} is being deleted"
            ));
        }
        claims.push(claim);
    }
    Ok(claims)
}

/// The nodes that have access to a volume; `None` is every node.
fn affinity(volume: &Value) -> Option<NodeSelector> {
    let required = volume.pointer("/spec/nodeAffinity/required")?;
    serde_json::from_value(required.clone()).ok()
}

/// Returns whether a class has a program that makes volumes for a node.
fn provisions(class: &StorageClass, node: &Node) -> bool {
    let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
    let allows = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
        let mut expressions = term.match_label_expressions.iter().flatten();
        expressions.all(|one| label(node, &one.key).is_some_and(|value| one.values.contains(value)))
    };
    !class.provisioner.is_empty()
        && class.provisioner != NO_PROVISIONER
        && (topologies.is_empty() || topologies.iter().any(allows))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn claim(name: &str, class: &str, changes: Value) -> (ObjectKey, Arc<Value>) {
        let mut claim = json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {}},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}},
        });
        for (pointer, value) in changes.as_object().unwrap() {
            let path: Vec<&str> = pointer.split(' ').collect();
            crate::json::set(&mut claim, &path, value.clone());
        }
        (ObjectKey::new(Some("ns"), name), Arc::new(claim))
    }

    fn volume(name: &str, class: &str, zone: Option<&str>) -> Arc<Value> {
        let mut volume = json!({
            "metadata": {"name": name},
            "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "2Gi"}},
        });
        if let Some(zone) = zone {
            volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
            ]}});
        }
        Arc::new(volume)
    }

    fn class(provisioner: &str) -> Arc<StorageClass> {
        let class = json!({"metadata": {"name": "c"}, "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer"});
        Arc::new(serde_json::from_value(class).unwrap())
    }

    fn node(zone: &str) -> Node {
        let node = json!({"metadata": {"name": zone, "labels": {"zone": zone}}});
        serde_json::from_value(node).unwrap()
    }

    fn needs(
        mounts: &[&str],
        claims: &[(ObjectKey, Arc<Value>)],
        volumes: &[Arc<Value>],
    ) -> Result<Needs, String> {
        let mounts = mounts
            .iter()
            .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let pod = json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {
            "containers": [], "volumes": mounts.collect::<Vec<_>>(),
        }});
        let claims: BTreeMap<ObjectKey, Arc<Value>> = claims.iter().cloned().collect();
        let classes = |name: &str| match name {
            "late" => Some(class(NO_PROVISIONER)),
            "made" => Some(class("example.com/x")),
            _ => None,
        };
        let storage = Storage {
            claim: &|key| claims.get(key).cloned(),
            class: &classes,
            volumes: &|| volumes.to_vec(),
        };
        Needs::of(&serde_json::from_value(pod).unwrap(), storage)
    }

    // kubernetes: TestVolumeBinding
    #[test]
    fn a_pod_waits_for_claims_that_are_bound_without_it() {
        let why = |claims: &[(ObjectKey, Arc<Value>)]| needs(&["a"], claims, &[]).unwrap_err();
        assert_eq!(why(&[]), "persistentvolumeclaim \"a\" not found");
        assert_eq!(
            why(&[claim("a", "now", json!({}))]),
            "pod has unbound immediate PersistentVolumeClaims"
        );
        let chosen = claim("a", "late", json!({"spec volumeName": "v"}));
        assert_eq!(
            why(&[chosen]),
            "pod has unbound immediate PersistentVolumeClaims"
        );
        let ending = json!({"metadata deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(
            why(&[claim("a", "late", ending)]),
            "persistentvolumeclaim \"a\" is being deleted"
        );
        let lost = json!({"status phase": "Lost", "spec volumeName": "v"});
        assert_eq!(
            why(&[claim("a", "now", lost)]),
            "persistentvolumeclaim \"a\" bound to non-existent persistentvolume \"v\""
        );
        assert!(!needs(&[], &[], &[]).unwrap().is_open());
    }

    #[test]
    fn a_bound_volume_restricts_the_nodes() {
        let mut bound = claim("a", "now", json!({"spec volumeName": "v"}));
        crate::json::annotate(Arc::make_mut(&mut bound.1), COMPLETED, "yes");
        let here = [volume("v", "now", Some("z"))];
        let needs_here = needs(&["a"], std::slice::from_ref(&bound), &here).unwrap();
        assert_eq!(needs_here.steps(&node("z")), Ok(vec![]));
        assert_eq!(needs_here.steps(&node("y")), Err(ELSEWHERE));
        let gone = needs(&["a"], &[bound], &[]).unwrap();
        assert_eq!(gone.steps(&node("z")), Err(LOST));
    }

    #[test]
    fn a_claim_that_a_volume_names_gets_no_other_one() {
        let mut named = volume("v", "late", Some("z"));
        let claim_ref = json!({"name": "a", "namespace": "ns", "uid": "a"});
        Arc::make_mut(&mut named)["spec"]["claimRef"] = claim_ref;
        for class in ["late", "made"] {
            let claims = [claim("a", class, json!({}))];
            let volumes = [Arc::clone(&named), volume("w", class, None)];
            let found = needs(&["a"], &claims, &volumes).unwrap();
            let bind = Step::Bind {
                volume: Arc::clone(&named),
                claim: Arc::clone(&claims[0].1),
            };
            assert_eq!(found.steps(&node("z")), Ok(vec![bind]), "{class}");
            assert_eq!(found.steps(&node("y")), Err(NO_VOLUME), "{class}");
        }
    }

    // kubernetes: TestCheckBindings
    #[test]
    fn a_node_is_kept_as_long_as_it_can_give_the_pod_its_volumes() {
        let mut bound = claim("a", "late", json!({"spec volumeName": "v"}));
        crate::json::annotate(Arc::make_mut(&mut bound.1), COMPLETED, "yes");
        let mut moved = claim("a", "made", json!({}));
        crate::json::annotate(Arc::make_mut(&mut moved.1), SELECTED_NODE, "y");
        let open = claim("a", "late", json!({}));
        let volumes = [volume("v", "late", Some("z"))];
        let check = |claims: &[(ObjectKey, Arc<Value>)], kept: Option<&str>, expected| {
            let kept = kept.map(node);
            let found = Progress::of(needs(&["a"], claims, &volumes), kept.as_ref());
            assert_eq!(found, expected, "{claims:?}");
        };
        check(std::slice::from_ref(&bound), Some("z"), Progress::Bound);
        check(std::slice::from_ref(&bound), Some("y"), Progress::Lost);
        check(&[bound], None, Progress::Lost);
        check(std::slice::from_ref(&open), Some("z"), Progress::Open);
        check(&[open], Some("y"), Progress::Lost);
        check(&[moved], Some("z"), Progress::Lost);
        check(&[], Some("z"), Progress::Lost);
    }

    // kubernetes: TestFindPodVolumesWithoutProvisioning, TestFindPodVolumesWithProvisioning
    #[test]
    fn a_late_claim_takes_a_volume_of_the_node_or_is_provisioned_there() {
        let volumes = [
            volume("v", "late", Some("z")),
            volume("w", "late", Some("y")),
            volume("x", "other", None),
        ];
        let one = [claim("a", "late", json!({}))];
        let bind = |volume: &Arc<Value>, claim: &Arc<Value>| Step::Bind {
            volume: Arc::clone(volume),
            claim: Arc::clone(claim),
        };
        let found = needs(&["a"], &one, &volumes).unwrap();
        assert!(found.is_open());
        let steps = found.steps(&node("y"));
        assert_eq!(steps, Ok(vec![bind(&volumes[1], &one[0].1)]));
        assert_eq!(found.steps(&node("q")), Err(NO_VOLUME));
        let two = [claim("a", "late", json!({})), claim("b", "late", json!({}))];
        let found = needs(&["a", "b"], &two, &volumes).unwrap();
        assert_eq!(
            found.steps(&node("z")),
            Err(NO_VOLUME),
            "one volume for two claims"
        );
        let made = [claim("a", "made", json!({}))];
        let found = needs(&["a"], &made, &volumes).unwrap();
        let steps = found.steps(&node("z"));
        assert_eq!(steps, Ok(vec![Step::Provision(Arc::clone(&made[0].1))]));
        let mut selected = claim("a", "made", json!({}));
        crate::json::annotate(Arc::make_mut(&mut selected.1), SELECTED_NODE, "z");
        let found = needs(&["a"], &[selected], &volumes).unwrap();
        assert!(found.steps(&node("z")).is_ok());
        assert_eq!(found.steps(&node("y")), Err(NO_VOLUME));
    }
}
