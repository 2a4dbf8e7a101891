//! The volume for a claim.
//!
//! ```text
//! claim + all volumes → the one that names it, or the smallest free one that suffices
//! claim that waits for its first consumer → the one that names it, or wait │ provision
//! ```
//!
//! Upstream counterpart: `k8s.io/component-helpers:storage/volume/pv_helpers.go` (`FindMatchingVolume`).

use std::sync::Arc;

use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::Value;

use super::SELECTED_NODE;
use crate::json::{annotation, is_terminating, name, text, texts, uid};
use crate::quantity::milli;
use crate::selector::selects;

/// Returns whether a volume names a claim: by name, and by UID if it says one.
pub(crate) fn names(volume: &Value, claim: &Value) -> bool {
    let of = |pointer: &str| text(volume, pointer);
    let is_uid = matches!(of("/spec/claimRef/uid"), said if said.is_empty() || said == uid(claim));
    !of("/spec/claimRef/name").is_empty()
        && of("/spec/claimRef/name") == name(claim)
        && of("/spec/claimRef/namespace") == text(claim, "/metadata/namespace")
        && is_uid
}

/// Returns whether a volume has what a claim asks for.
pub(super) fn suffices(volume: &Value, claim: &Value) -> bool {
    let modes = |of: &Value| {
        let all = of.pointer("/spec/accessModes").and_then(Value::as_array);
        let all = all.into_iter().flatten().filter_map(Value::as_str);
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let mode = |of: &Value| match text(of, "/spec/volumeMode") {
        "" => "Filesystem".to_owned(),
        mode => mode.to_owned(),
    };
    let offered = modes(volume);
    let asked = text(claim, "/spec/resources/requests/storage");
    let selector = claim.pointer("/spec/selector").filter(|of| !of.is_null());
    text(volume, "/spec/storageClassName") == text(claim, "/spec/storageClassName")
        && mode(volume) == mode(claim)
        && modes(claim).iter().all(|wanted| offered.contains(wanted))
        && milli(text(volume, "/spec/capacity/storage")) >= milli(asked)
        && selector.is_none_or(|of| selects(Some(of), &texts(volume, "/metadata/labels")))
}

/// Returns whether a volume is free for a claim, or named with it by either of them.
pub(crate) fn may_be(volume: &Value, claim: &Value) -> bool {
    let is_free = text(volume, "/spec/claimRef/name").is_empty();
    let is_asked = text(claim, "/spec/volumeName") == name(volume);
    is_asked || names(volume, claim) || is_free && suffices(volume, claim)
}

/// The volume for a claim.
pub(crate) fn best<'v>(claim: &Value, volumes: &'v [Arc<Value>]) -> Option<&'v Arc<Value>> {
    let is_free = |volume: &&Arc<Value>| {
        text(volume, "/spec/claimRef/name").is_empty() && !is_terminating(volume)
    };
    let fits = |volume: &&Arc<Value>| suffices(volume, claim);
    let named = volumes.iter().find(|volume| names(volume, claim));
    let size = |volume: &&Arc<Value>| {
        let size = milli(text(volume, "/spec/capacity/storage"));
        (size, name(volume).to_owned())
    };
    let free = || volumes.iter().filter(is_free).filter(fits).min_by_key(size);
    named.or_else(free)
}

/// The way in which a claim without a volume gets one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way<'v> {
    /// It takes this volume.
    Take(&'v Arc<Value>),
    /// None is there: one must be provisioned, or come.
    Provision,
    /// The scheduler chooses, when a pod comes.
    Wait,
}

impl<'v> Way<'v> {
    /// A claim of a class with late binding takes a volume that names it and no other one, also after
    /// the scheduler chose a node: a free one may be of another node.
    pub(super) fn of(
        claim: &Value,
        class: Option<&StorageClass>,
        volumes: &'v [Arc<Value>],
    ) -> Self {
        let mode = class.and_then(|class| class.volume_binding_mode.as_deref());
        let is_late = mode == Some("WaitForFirstConsumer");
        let found = match is_late {
            true => volumes.iter().find(|volume| names(volume, claim)),
            false => best(claim, volumes),
        };
        match found {
            Some(volume) => Self::Take(volume),
            None if is_late && annotation(claim, SELECTED_NODE).is_none() => Self::Wait,
            None => Self::Provision,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn volume(name: &str, size: &str, changes: Value) -> Arc<Value> {
        let mut volume = json!({"metadata": {"name": name}, "spec": {
            "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}});
        for (field, value) in changes.as_object().unwrap() {
            volume["spec"][field] = value.clone();
        }
        Arc::new(volume)
    }

    fn claim(changes: Value) -> Value {
        let mut claim = json!({"metadata": {"name": "c", "namespace": "a", "uid": "u"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        for (field, value) in changes.as_object().unwrap() {
            claim["spec"][field] = value.clone();
        }
        claim
    }

    #[test]
    fn the_smallest_free_volume_that_suffices_is_taken() {
        let taken = json!({"claimRef": {"name": "other", "namespace": "a"}});
        let volumes = [
            volume("large", "9Gi", json!({})),
            volume("small", "500Mi", json!({})),
            volume("taken", "1Gi", taken),
            volume("right", "2Gi", json!({})),
            volume("class", "1Gi", json!({"storageClassName": "fast"})),
            volume("block", "1Gi", json!({"volumeMode": "Block"})),
        ];
        let found = |changes: Value| {
            let claim = claim(changes);
            best(&claim, &volumes).map(|volume| name(volume).to_owned())
        };
        assert_eq!(found(json!({})).as_deref(), Some("right"));
        assert_eq!(
            found(json!({"storageClassName": "fast"})).as_deref(),
            Some("class")
        );
        assert_eq!(
            found(json!({"volumeMode": "Block"})).as_deref(),
            Some("block")
        );
        assert_eq!(found(json!({"accessModes": ["ReadWriteMany"]})), None);
        assert_eq!(
            found(json!({"selector": {"matchLabels": {"a": "b"}}})),
            None
        );
    }

    #[test]
    fn a_volume_that_names_the_claim_is_its() {
        let of = |uid: &str| json!({"claimRef": {"name": "c", "namespace": "a", "uid": uid}});
        let volumes = [
            volume("free", "1Gi", json!({})),
            volume("other", "1Gi", of("another")),
            volume(
                "named",
                "1Mi",
                json!({"claimRef": {"name": "c", "namespace": "a"}}),
            ),
        ];
        let found = best(&claim(json!({})), &volumes).map(|volume| name(volume).to_owned());
        assert_eq!(found.as_deref(), Some("named"));
    }

    // kubernetes: TestSync (delayed binding)
    #[test]
    fn a_late_claim_takes_only_a_volume_that_names_it() {
        let class = |mode: &str| -> StorageClass {
            let class = json!({"provisioner": "example.com/x", "volumeBindingMode": mode});
            serde_json::from_value(class).unwrap()
        };
        let named = json!({"claimRef": {"name": "c", "namespace": "a", "uid": "u"}});
        let (free, named) = (
            volume("free", "1Gi", json!({})),
            volume("named", "1Gi", named),
        );
        let mut selected = claim(json!({}));
        crate::json::annotate(&mut selected, SELECTED_NODE, "n");
        let check = |claim: &Value, mode: &str, volumes: &[Arc<Value>], expected: Way<'_>| {
            let found = Way::of(claim, Some(&class(mode)), volumes);
            assert_eq!(found, expected, "{mode}: {claim}");
        };
        let (late, now) = ("WaitForFirstConsumer", "Immediate");
        let open = claim(json!({}));
        let both = [free.clone(), named];
        let free = [free];
        check(&open, now, &free, Way::Take(&free[0]));
        check(&open, now, &[], Way::Provision);
        check(&open, late, &free, Way::Wait);
        check(&open, late, &both, Way::Take(&both[1]));
        check(&selected, late, &free, Way::Provision);
        check(&selected, late, &both, Way::Take(&both[1]));
        assert_eq!(Way::of(&open, None, &free), Way::Take(&free[0]));
    }
}
