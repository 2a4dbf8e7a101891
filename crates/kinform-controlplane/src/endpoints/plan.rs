//! The Endpoints of a Service: its pods, grouped by the ports that they serve.
//!
//! ```text
//! Service + pods + Endpoints as they are → Create | Replace | nothing to write
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/endpoint/endpoints_controller.go`,
//! `pkg/api/v1/endpoints/util.go`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::endpoint_slice::endpoint::{address, ports};
use crate::endpoint_slice::service::{TRIGGER, labels, publishes_not_ready};
use crate::json::{annotate, canonical, name, remove, set, text, texts};
use crate::pods::{is_finished, is_ready, is_terminating, node, readiness_changed};

/// BOUND: addresses of one object, as upstream's.
const ADDRESSES_MAX: usize = 1000;
pub(super) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub(super) const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// The write that an object of Endpoints needs.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    Create(Value),
    Replace(Value),
}

/// The addresses of pods that serve the same ports.
#[derive(Default)]
struct Subset {
    ports: Value,
    ready: Vec<Value>,
    not_ready: Vec<Value>,
}

/// Decides the write for a Service; `before` is what is stored.
pub(super) fn plan(service: &Value, pods: &[Arc<Pod>], before: Option<&Value>) -> Option<Write> {
    let (subsets, is_cut) = subsets(service, pods);
    let mut next = before.cloned().unwrap_or_else(|| {
        json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {
            "name": name(service), "namespace": text(service, "/metadata/namespace"),
        }})
    });
    let labels = labels(service, &[(MANAGED_BY, MANAGER)]);
    let old = before.and_then(|before| before.get("subsets")).cloned();
    let old = old
        .filter(|old| !old.is_null())
        .unwrap_or_else(|| json!([]));
    let is_same = canonical(&old) == canonical(&subsets);
    if before.is_some_and(|before| is_same && texts(before, "/metadata/labels") == labels) {
        return None;
    }
    match changed(service, pods, &old, before.is_none()) {
        Some(changed) => drop(annotate(&mut next, TRIGGER, &changed)),
        None => remove(&mut next, &["metadata", "annotations", TRIGGER]),
    }
    match is_cut {
        true => drop(annotate(&mut next, OVER_CAPACITY, "truncated")),
        false => remove(&mut next, &["metadata", "annotations", OVER_CAPACITY]),
    }
    set(&mut next, &["metadata", "labels"], json!(labels));
    set(&mut next, &["subsets"], subsets);
    Some(match before {
        None => Write::Create(next),
        Some(_) => Write::Replace(next),
    })
}

/// The time of the latest change of a pod that is new among the addresses, or has another readiness.
fn changed(service: &Value, pods: &[Arc<Pod>], old: &Value, is_new: bool) -> Option<String> {
    let of = |list: &str| {
        let subsets = old.as_array().into_iter().flatten();
        let addresses = subsets
            .filter_map(|subset| subset.get(list)?.as_array())
            .flatten();
        let uids = addresses.map(|address| text(address, "/targetRef/uid"));
        uids.collect::<HashSet<&str>>()
    };
    let (ready, not_ready) = (of("addresses"), of("notReadyAddresses"));
    let is_changed = |pod: &&Arc<Pod>| {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        match is_ready(pod) {
            true => !ready.contains(uid),
            false => !not_ready.contains(uid),
        }
    };
    let times = pods
        .iter()
        .filter(is_changed)
        .filter_map(|pod| readiness_changed(pod));
    let latest = times.max().map(crate::clock::stamp);
    let created = || text(service, "/metadata/creationTimestamp").to_owned();
    latest.or_else(|| is_new.then(created))
}

/// The subsets of a Service, and whether addresses were left out.
fn subsets(service: &Value, pods: &[Arc<Pod>]) -> (Value, bool) {
    let publishes = publishes_not_ready(service);
    let family = service
        .pointer("/spec/ipFamilies/0")
        .and_then(Value::as_str);
    let mut groups: BTreeMap<String, Subset> = BTreeMap::new();
    let mut pods: Vec<&Arc<Pod>> = pods.iter().collect();
    pods.sort_by_key(|pod| address(pod, family.unwrap_or("IPv4")).map(str::to_owned));
    let (mut count, mut is_cut) = (0, false);
    for pod in pods {
        let Some(ip) = address(pod, family.unwrap_or("IPv4")) else {
            continue;
        };
        if is_finished(pod) || is_terminating(pod) && !publishes {
            continue;
        }
        let served = ports(service, pod);
        // A pod that serves none of the ports has no endpoint; a headless Service needs none.
        if served.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        if count == ADDRESSES_MAX {
            is_cut = true;
            break;
        }
        count += 1;
        let group = groups.entry(canonical(&served)).or_default();
        group.ports = without_names(served);
        let address = address_of(service, pod, ip);
        match publishes || is_ready(pod) {
            true => group.ready.push(address),
            false => group.not_ready.push(address),
        }
    }
    let subset = |group: Subset| {
        let mut subset = json!({});
        for (field, list) in [
            ("addresses", group.ready),
            ("notReadyAddresses", group.not_ready),
        ] {
            if !list.is_empty() {
                subset[field] = list.into();
            }
        }
        if !group.ports.is_null() {
            subset["ports"] = group.ports;
        }
        subset
    };
    (groups.into_values().map(subset).collect(), is_cut)
}

/// Ports without a name have no field for it here.
fn without_names(mut ports: Value) -> Value {
    for port in ports.as_array_mut().into_iter().flatten() {
        if text(port, "/name").is_empty() {
            remove(port, &["name"]);
        }
    }
    ports
}

fn address_of(service: &Value, pod: &Pod, ip: &str) -> Value {
    let spec = pod.spec.as_ref();
    let is_of_service = spec.and_then(|s| s.subdomain.as_deref()) == Some(name(service));
    let hostname = spec.and_then(|s| s.hostname.as_deref());
    let mut address = json!({
        "ip": ip,
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    });
    let node = Some(node(pod)).filter(|node| !node.is_empty());
    for (field, value) in [
        ("nodeName", node),
        ("hostname", hostname.filter(|_| is_of_service)),
    ] {
        if let Some(value) = value {
            address[field] = value.into();
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({
            "metadata": {"name": "x", "namespace": "a", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"l": "1"}},
            "spec": {"ipFamilies": ["IPv4"], "ports": [{"port": 80, "targetPort": "web"}]},
        })
    }

    fn pod(index: usize, changes: &[(&str, Value)]) -> Arc<Pod> {
        let mut pod = json!({
            "metadata": {"name": format!("p{index}"), "namespace": "a", "uid": format!("u{index}")},
            "spec": {"nodeName": "n", "containers": [
                {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]},
            ]},
            "status": {"phase": "Running", "podIPs": [{"ip": format!("10.0.{}.{}", index / 250, index % 250)}],
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
        });
        for (path, value) in changes {
            set(
                &mut pod,
                &path.split('/').collect::<Vec<_>>(),
                value.clone(),
            );
        }
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn created(pods: &[Arc<Pod>]) -> Value {
        match plan(&service(), pods, None) {
            Some(Write::Create(made)) => made,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_service_without_pods_has_an_empty_object() {
        let made = created(&[]);
        assert_eq!(made["subsets"], json!([]));
        assert_eq!(
            made["metadata"]["labels"],
            json!({"l": "1", MANAGED_BY: MANAGER})
        );
        assert_eq!(
            made["metadata"]["annotations"][TRIGGER],
            "2026-01-01T00:00:00Z"
        );
        assert_eq!(plan(&service(), &[], Some(&made)), None);
    }

    #[test]
    fn pods_are_ready_or_not_or_left_out() {
        let unready = json!([{"type": "Ready", "status": "False",
            "lastTransitionTime": "2026-01-01T00:00:09Z"}]);
        let ending = ("metadata/deletionTimestamp", json!("2026-01-01T00:00:09Z"));
        let pods = [
            pod(2, &[]),
            pod(1, &[("status/conditions", unready)]),
            pod(3, &[ending]),
            pod(4, &[("status/phase", "Failed".into())]),
            pod(5, &[("spec/containers", json!([{"name": "c"}]))]),
        ];
        let made = created(&pods);
        let subsets = made["subsets"].as_array().unwrap();
        assert_eq!(subsets.len(), 1);
        let names = |list: &str| {
            let all = subsets[0][list].as_array().unwrap();
            all.iter()
                .map(|one| text(one, "/targetRef/name"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (names("addresses"), names("notReadyAddresses")),
            (vec!["p2"], vec!["p1"])
        );
        assert_eq!(
            subsets[0]["ports"],
            json!([{"port": 8080, "protocol": "TCP"}])
        );
        assert_eq!(
            made["metadata"]["annotations"][TRIGGER],
            "2026-01-01T00:00:09Z"
        );
    }

    #[test]
    fn a_pod_that_goes_is_no_change_of_a_pod() {
        let made = created(&[pod(1, &[]), pod(2, &[])]);
        let Some(Write::Replace(next)) = plan(&service(), &[pod(2, &[])], Some(&made)) else {
            panic!("nothing is written");
        };
        assert_eq!(next["metadata"]["annotations"][TRIGGER], Value::Null);
    }

    #[test]
    fn an_object_has_at_most_a_thousand_addresses() {
        let pods: Vec<_> = (0..1_001).map(|index| pod(index, &[])).collect();
        let made = created(&pods);
        assert_eq!(
            made["subsets"][0]["addresses"].as_array().unwrap().len(),
            1_000
        );
        assert_eq!(made["metadata"]["annotations"][OVER_CAPACITY], "truncated");
    }
}
