//! The owners of claims: they go with their set, with their pod, or stay.
//!
//! ```text
//! claim + set (persistentVolumeClaimRetentionPolicy) + pod, in the set's range or not → changed claim | None
//! ```
//!
//! Garbage collection does the rest: a claim goes when its owner goes. A claim of another controller,
//! or of an earlier set or pod of the same name, is left alone.
//!
//! Upstream counterpart: `kubernetes:pkg/controller/statefulset/stateful_set_utils.go`
//! (`isClaimOwnerUpToDate`, `updateClaimOwnerRefForSetAndPod`).

use serde_json::{Value, json};

use crate::json::{name, set as put, text, uid};
use crate::pods::owner_reference;

/// A pod as an owner of claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder<'p> {
    pub(super) name: &'p str,
    pub(super) uid: &'p str,
    pub(super) place: Place,
}

/// The place of a pod in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The set asks for it.
    Kept,
    /// The set was scaled down below it.
    Surplus,
}

/// Returns whether claims go with pods that are scaled away.
pub(super) fn goes_when_scaled(set: &Value) -> bool {
    let policy = "/spec/persistentVolumeClaimRetentionPolicy/whenScaled";
    text(set, policy) == "Delete"
}

fn goes_when_deleted(set: &Value) -> bool {
    let policy = "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted";
    text(set, policy) == "Delete"
}

fn owners(claim: &Value) -> &[Value] {
    let owners = claim.pointer("/metadata/ownerReferences");
    owners.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_of(owner: &Value, api_version: &str, kind: &str, name: &str) -> bool {
    text(owner, "/apiVersion") == api_version
        && text(owner, "/kind") == kind
        && text(owner, "/name") == name
}

fn is_of_set(owner: &Value, set: &Value) -> bool {
    is_of(owner, "apps/v1", "StatefulSet", name(set))
}

fn is_of_pod(owner: &Value, pod: &str) -> bool {
    is_of(owner, "v1", "Pod", pod)
}

/// Returns whether a claim belongs to another pod of the same name, which it goes with.
pub(super) fn is_stale(claim: &Value, pod: &str, pod_uid: &str) -> bool {
    let mut owners = owners(claim).iter();
    owners.any(|owner| is_of_pod(owner, pod) && text(owner, "/uid") != pod_uid)
}

/// The claim with the owners that the policy wants; `None` if it has them, or is not the set's.
pub(super) fn settled(claim: &Value, set: &Value, pod: Holder<'_>) -> Option<Value> {
    let is_old = |owner: &Value| is_of_set(owner, set) && text(owner, "/uid") != uid(set);
    if owners(claim).iter().any(is_old) || is_stale(claim, pod.name, pod.uid) {
        return None;
    }
    let is_ours = |owner: &&Value| is_of_set(owner, set) || is_of_pod(owner, pod.name);
    let wanted = match (goes_when_deleted(set), goes_when_scaled(set), pod.place) {
        (_, true, Place::Surplus) => Some(json!({
            "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
            "controller": true, "blockOwnerDeletion": true,
        })),
        (true, ..) => Some(owner_reference(set)),
        _ => None,
    };
    let (ours, mut others): (Vec<&Value>, Vec<&Value>) = owners(claim).iter().partition(is_ours);
    let has_policy = goes_when_deleted(set) || goes_when_scaled(set);
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    // With a policy, another controller decides; without one, it does not matter.
    let wanted = wanted.filter(|_| !(has_policy && others.iter().any(controls)));
    let is_settled = match &wanted {
        Some(wanted) => {
            let same = |one: &&Value| controls(one) && uid_of(one) == uid_of(wanted);
            ours.len() == 1 && ours.iter().all(same)
        }
        None => ours.is_empty(),
    };
    if is_settled {
        return None;
    }
    others.extend(&wanted);
    let owners = others.into_iter().cloned().collect::<Vec<Value>>();
    let mut claim = claim.clone();
    put(&mut claim, &["metadata", "ownerReferences"], owners.into());
    Some(claim)
}

fn uid_of(owner: &Value) -> &str {
    text(owner, "/uid")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(deleted: &str, scaled: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x", "uid": "s"},
            "spec": {"persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": deleted, "whenScaled": scaled,
            }},
        })
    }

    fn owner(kind: &str, name: &str, uid: &str) -> Value {
        let api = if kind == "Pod" { "v1" } else { "apps/v1" };
        json!({
            "apiVersion": api, "kind": kind, "name": name, "uid": uid,
            "controller": true, "blockOwnerDeletion": true,
        })
    }

    /// The kinds of the owners after the decision; `None` if the claim stays as it is.
    fn check(owners: &[Value], policy: (&str, &str), place: Place, expected: Option<&[&str]>) {
        let claim = json!({"metadata": {"name": "data-x-0", "ownerReferences": owners}});
        let pod = Holder {
            name: "x-0",
            uid: "p",
            place,
        };
        let settled = settled(&claim, &set(policy.0, policy.1), pod);
        let kinds = settled.as_ref().map(|claim| {
            let owners = super::owners(claim).iter();
            owners.map(|one| text(one, "/kind")).collect::<Vec<_>>()
        });
        assert_eq!(
            kinds.as_deref(),
            expected,
            "{owners:?} {policy:?} {place:?}"
        );
    }

    #[test]
    fn the_policy_decides_about_the_owner() {
        use Place::{Kept, Surplus};
        let (of_set, of_pod) = (owner("StatefulSet", "x", "s"), owner("Pod", "x-0", "p"));
        let (retain, delete) = ("Retain", "Delete");
        check(&[], (retain, retain), Kept, None);
        check(&[], (retain, retain), Surplus, None);
        check(&[], (delete, retain), Kept, Some(&["StatefulSet"]));
        check(&[], (delete, retain), Surplus, Some(&["StatefulSet"]));
        check(&[], (retain, delete), Kept, None);
        check(&[], (retain, delete), Surplus, Some(&["Pod"]));
        check(&[], (delete, delete), Kept, Some(&["StatefulSet"]));
        // As recorded of a real controller manager: the set's claim becomes the pod's.
        let ours = std::slice::from_ref(&of_set);
        check(ours, (delete, delete), Kept, None);
        check(ours, (delete, delete), Surplus, Some(&["Pod"]));
        check(ours, (retain, retain), Kept, Some(&[]));
        check(&[of_pod], (delete, delete), Kept, Some(&["StatefulSet"]));
    }

    #[test]
    fn claims_of_others_are_left_alone() {
        let check_kept = |owners: &[Value], expected: Option<&[&str]>| {
            check(owners, ("Delete", "Delete"), Place::Kept, expected);
        };
        check_kept(&[owner("StatefulSet", "x", "an earlier one")], None);
        check_kept(&[owner("Pod", "x-0", "an earlier one")], None);
        check_kept(&[owner("Operator", "o", "o")], None);
        let both = [owner("Operator", "o", "o"), owner("StatefulSet", "x", "s")];
        check_kept(&both, Some(&["Operator"]));
        let mut plain = owner("Note", "n", "n");
        plain["controller"] = false.into();
        check_kept(&[plain], Some(&["Note", "StatefulSet"]));
        let mut weak = owner("StatefulSet", "x", "s");
        weak["controller"] = false.into();
        check_kept(&[weak], Some(&["StatefulSet"]));
    }
}
