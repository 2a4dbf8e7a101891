//! The slices of a Service: which endpoint stands where.
//!
//! ```text
//! Service + pods + existing slices ─▶ keep those that stay, fill what has room, then create ─▶ writes
//! ```
//!
//! Pods that serve different ports are in different slices. An endpoint stays in its slice, in its
//! place. A Service without endpoints has one empty slice.
//!
//! Upstream counterpart: `k8s.io/endpointslice:reconciler.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::endpoint::{endpoint, ports};
use super::service::{TRIGGER, labels};
use crate::json::{annotate, canonical, name, remove, set, text, texts};
use crate::pods::{owner_reference, readiness_changed};

/// BOUND: endpoints of one slice, as upstream's default.
const ENDPOINTS_MAX: usize = 100;
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Returns whether a slice is one of this controller's.
pub(super) fn is_managed(slice: &Value) -> bool {
    slice["metadata"]["labels"][MANAGED_BY] == MANAGER
}
const SERVICE: &str = "kubernetes.io/service-name";

/// One write.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    Create(Value),
    Replace(Value),
    Delete(String),
}

/// The endpoints of one set of ports.
struct Group {
    ports: Value,
    /// By the UIDs of their pods; those that are in a slice are taken out.
    endpoints: Vec<(String, Value, Option<String>)>,
}

/// Decides the writes to the slices of a Service. `zone` finds the zone of a pod's node.
pub(super) fn plan(
    service: &Value,
    pods: &[Arc<Pod>],
    slices: &[Value],
    zone: impl Fn(&Pod) -> Option<String>,
) -> Vec<Write> {
    let families = service
        .pointer("/spec/ipFamilies")
        .and_then(Value::as_array);
    let families = families.into_iter().flatten().filter_map(Value::as_str);
    let mut families: Vec<&str> = families.collect();
    if families.is_empty() {
        families.push("IPv4");
    }
    let mut writes = Vec::new();
    for family in &families {
        let of_family = slices
            .iter()
            .filter(|slice| text(slice, "/addressType") == *family);
        let of_family = of_family.cloned().collect();
        writes.extend(of_one(service, pods, of_family, family, &zone));
    }
    let is_other = |slice: &&Value| !families.contains(&text(slice, "/addressType"));
    let others = slices.iter().filter(is_other);
    writes.extend(others.map(|slice| Write::Delete(name(slice).to_owned())));
    writes
}

/// Decides the writes to the slices of one address family.
fn of_one(
    service: &Value,
    pods: &[Arc<Pod>],
    mut slices: Vec<Value>,
    family: &str,
    zone: &impl Fn(&Pod) -> Option<String>,
) -> Vec<Write> {
    slices.sort_by_key(|slice| name(slice).to_owned());
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let old = slices
        .iter()
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    let known: HashMap<&str, &Value> = old.map(|one| (text(one, "/targetRef/uid"), one)).collect();
    for pod in pods {
        let Some(endpoint) = endpoint(service, pod, family, zone(pod)) else {
            continue;
        };
        let ports = ports(service, pod);
        let group = groups.entry(canonical(&ports)).or_insert_with(|| Group {
            ports,
            endpoints: Vec::new(),
        });
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let is_known = known.get(uid.as_str()) == Some(&&endpoint);
        let changed = readiness_changed(pod).filter(|_| !is_known);
        let changed = changed.map(crate::clock::stamp);
        group.endpoints.push((uid, endpoint, changed));
    }
    let mut writes = Vec::new();
    let mut kept = Vec::new();
    for slice in slices {
        let of_slice = canonical(slice.get("ports").unwrap_or(&Value::Null));
        let stays = match groups.get_mut(&of_slice) {
            Some(group) => keep(slice, group),
            // Its ports are no pod's any more: an empty one is filled again.
            None => Kept::new(slice),
        };
        kept.push(stays);
    }
    for group in groups.into_values() {
        fill(service, family, group, &mut kept);
    }
    let is_used = |one: &Kept| !one.endpoints.is_empty();
    if kept.is_empty() {
        kept.push(Kept::new(new_slice(service, family)));
    }
    // One empty slice is kept, for a Service without endpoints.
    let mut has_one = kept.iter().any(is_used);
    for one in kept {
        let is_first = !std::mem::replace(&mut has_one, true);
        if is_used(&one) || is_first {
            writes.extend(one.write(service));
        } else if !name(&one.before).is_empty() {
            writes.push(Write::Delete(name(&one.before).to_owned()));
        }
    }
    writes
}

/// A slice as it will be.
struct Kept {
    before: Value,
    ports: Value,
    endpoints: Vec<Value>,
    /// The latest change of a pod that changed the slice.
    changed: Option<String>,
}

impl Kept {
    fn new(before: Value) -> Self {
        Self {
            before,
            ports: Value::Null,
            endpoints: Vec::new(),
            changed: None,
        }
    }

    /// The write of the slice, unless it is as it was.
    fn write(self, service: &Value) -> Option<Write> {
        let is_new = name(&self.before).is_empty();
        let mut slice = self.before.clone();
        let (endpoints, ports) = match self.endpoints.is_empty() {
            true => (Value::Null, Value::Null),
            false => (Value::Array(self.endpoints), self.ports),
        };
        // An empty list of endpoints is stored as null, or as an empty list.
        let same = |field: &str, value: &Value| {
            let old = slice.get(field).unwrap_or(&Value::Null);
            old == value || (value.is_null() && old.as_array().is_some_and(Vec::is_empty))
        };
        let is_same = same("endpoints", &endpoints) && same("ports", &ports);
        let labels = labels(service, &[(SERVICE, name(service)), (MANAGED_BY, MANAGER)]);
        if !is_new && is_same && texts(&slice, "/metadata/labels") == labels {
            return None;
        }
        set(&mut slice, &["endpoints"], endpoints);
        set(&mut slice, &["ports"], ports);
        set(&mut slice, &["metadata", "labels"], json!(labels));
        match self.changed {
            Some(changed) => drop(annotate(&mut slice, TRIGGER, &changed)),
            None if is_new => {
                let created = text(service, "/metadata/creationTimestamp");
                annotate(&mut slice, TRIGGER, created);
            }
            None => remove(&mut slice, &["metadata", "annotations", TRIGGER]),
        }
        Some(match is_new {
            true => Write::Create(slice),
            false => Write::Replace(slice),
        })
    }
}

/// Keeps the endpoints of a slice whose pods are still there, in their places.
fn keep(slice: Value, group: &mut Group) -> Kept {
    let mut kept = Kept::new(slice);
    kept.ports = group.ports.clone();
    let old = kept.before.get("endpoints").and_then(Value::as_array);
    for old in old.into_iter().flatten() {
        let uid = text(old, "/targetRef/uid");
        let Some(at) = group.endpoints.iter().position(|(of, ..)| of == uid) else {
            continue;
        };
        let (_, endpoint, changed) = group.endpoints.remove(at);
        if endpoint != *old {
            kept.changed = kept.changed.max(changed);
        }
        kept.endpoints.push(endpoint);
    }
    kept
}

/// Puts new endpoints into slices with room, then into new ones.
fn fill(service: &Value, family: &str, group: Group, kept: &mut Vec<Kept>) {
    let mut left = group.endpoints.into_iter().peekable();
    while left.peek().is_some() {
        let has_room = |one: &Kept| {
            one.endpoints.is_empty()
                || (one.ports == group.ports && one.endpoints.len() < ENDPOINTS_MAX)
        };
        let at = kept.iter().position(has_room).unwrap_or(kept.len());
        if at == kept.len() {
            kept.push(Kept::new(new_slice(service, family)));
        }
        let slice = &mut kept[at];
        slice.ports = group.ports.clone();
        let room = ENDPOINTS_MAX - slice.endpoints.len();
        for (_, endpoint, changed) in left.by_ref().take(room) {
            slice.changed = slice.changed.take().max(changed);
            slice.endpoints.push(endpoint);
        }
    }
}

fn new_slice(service: &Value, family: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", name(service)),
            "namespace": text(service, "/metadata/namespace"),
            "ownerReferences": [owner_reference(service)],
        },
        "addressType": family,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(changes: &[(&str, Value)]) -> Value {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "x", "namespace": "a", "uid": "s",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"l": "1"}},
            "spec": {"selector": {"app": "x"}, "ipFamilies": ["IPv4"], "ports": [{"port": 80}]},
        });
        for (path, value) in changes {
            set(
                &mut service,
                &path.split('/').collect::<Vec<_>>(),
                value.clone(),
            );
        }
        service
    }

    fn pod(index: usize) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": format!("p{index}"), "uid": format!("u{index}")},
            "status": {"phase": "Running", "podIPs": [{"ip": format!("10.0.0.{index}")}],
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn decide(service: &Value, pods: &[Arc<Pod>], slices: &[Value]) -> Vec<Write> {
        plan(service, pods, slices, |_| None)
    }

    /// The only slice that is created, with a name.
    fn created(writes: Vec<Write>) -> Value {
        let [Write::Create(slice)] = &writes[..] else {
            panic!("{writes:?}");
        };
        let mut slice = slice.clone();
        set(&mut slice, &["metadata", "name"], "x-1".into());
        slice
    }

    #[test]
    fn a_service_without_pods_has_an_empty_slice() {
        let slice = created(decide(&service(&[]), &[], &[]));
        assert_eq!(
            (&slice["endpoints"], &slice["ports"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(slice["metadata"]["generateName"], "x-");
        assert_eq!(slice["metadata"]["labels"]["l"], "1");
        assert_eq!(
            slice["metadata"]["annotations"][TRIGGER],
            "2026-01-01T00:00:00Z"
        );
        assert_eq!(decide(&service(&[]), &[], &[slice]), []);
    }

    #[test]
    fn endpoints_keep_their_places() {
        let slice = created(decide(&service(&[]), &[pod(1), pod(2)], &[]));
        assert_eq!(
            slice["ports"],
            json!([{"name": "", "protocol": "TCP", "port": 80}])
        );
        assert_eq!(
            decide(
                &service(&[]),
                &[pod(2), pod(1)],
                std::slice::from_ref(&slice)
            ),
            []
        );
        let writes = decide(&service(&[]), &[pod(3), pod(2)], &[slice]);
        let [Write::Replace(slice)] = &writes[..] else {
            panic!("{writes:?}");
        };
        let endpoints = slice["endpoints"].as_array().unwrap();
        let names: Vec<_> = endpoints
            .iter()
            .map(|one| text(one, "/targetRef/name"))
            .collect();
        assert_eq!(names, ["p2", "p3"]);
        assert_eq!(
            slice["metadata"]["annotations"][TRIGGER],
            "2026-01-01T00:00:05Z"
        );
    }

    #[test]
    fn a_full_slice_is_followed_by_another_one() {
        let pods: Vec<_> = (1..=150).map(pod).collect();
        let writes = decide(&service(&[]), &pods, &[]);
        let count = |write: &Write| match write {
            Write::Create(slice) => slice["endpoints"].as_array().unwrap().len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(writes.iter().map(count).collect::<Vec<_>>(), [100, 50]);
    }

    #[test]
    fn the_last_pod_leaves_an_empty_slice() {
        let slice = created(decide(&service(&[]), &[pod(1)], &[]));
        let mut second = slice.clone();
        set(&mut second, &["metadata", "name"], "x-2".into());
        let writes = decide(&service(&[]), &[], &[slice, second]);
        let [Write::Replace(first), Write::Delete(second)] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!((&first["endpoints"], &**second), (&Value::Null, "x-2"));
    }

    #[test]
    fn labels_follow_the_service() {
        let slice = created(decide(&service(&[]), &[pod(1)], &[]));
        let headless = service(&[("spec/clusterIP", "None".into())]);
        let writes = decide(&headless, &[pod(1)], &[slice]);
        let [Write::Replace(slice)] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!(
            slice["metadata"]["labels"]["service.kubernetes.io/headless"],
            ""
        );
    }
}
