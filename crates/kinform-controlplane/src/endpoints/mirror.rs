//! The slices that mirror Endpoints of others.
//!
//! ```text
//! Endpoints + Service without a selector + slices ─▶ a slice a subset and family ─▶ create, replace, delete
//! ```
//!
//! Upstream counterpart: `kubernetes:pkg/controller/endpointslicemirroring/reconciler.go`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use super::plan::MANAGED_BY as WRITTEN_BY;
use crate::endpoint_slice::service::TRIGGER;
use crate::json::{annotation, canonical, name, set, text, texts};
use crate::pods::owner_reference;

const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
const SERVICE: &str = "kubernetes.io/service-name";
const SKIPPED: &str = "endpointslice.kubernetes.io/skip-mirror";
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations of Endpoints that are not those of their mirrors.
const NOT_COPIED: [&str; 2] = [TRIGGER, "kubectl.kubernetes.io/last-applied-configuration"];
/// BOUND: addresses that are mirrored of one subset, and of all with the same ports, as upstream's
/// default.
const ADDRESSES_MAX: usize = 1000;

/// One write.
#[derive(Debug, PartialEq)]
pub(super) enum Write {
    Create(Value),
    Replace(Value),
    Delete(String),
}

/// Returns whether a slice is a mirror.
pub(super) fn is_managed(slice: &Value) -> bool {
    slice["metadata"]["labels"][MANAGED_BY] == MANAGER
}

/// Returns whether Endpoints have mirrors.
fn is_mirrored(endpoints: &Value, service: Option<&Value>) -> bool {
    let labels = texts(endpoints, "/metadata/labels");
    let skipped = labels.get(SKIPPED).is_some_and(|skipped| skipped == "true");
    let has_no_selector = |service: &Value| texts(service, "/spec/selector").is_empty();
    service.is_some_and(has_no_selector)
        && !skipped
        && !labels.contains_key(WRITTEN_BY)
        && annotation(endpoints, LEADER).is_none()
}

/// Decides the writes to the mirrors of Endpoints.
pub(super) fn plan(
    endpoints: &Value,
    service: Option<&Value>,
    slices: &[Arc<Value>],
) -> Vec<Write> {
    let mut wanted: BTreeMap<(String, String), Value> = BTreeMap::new();
    if is_mirrored(endpoints, service) {
        let subsets = endpoints.get("subsets").and_then(Value::as_array);
        for subset in subsets.into_iter().flatten() {
            for (family, slice) in mirrors(endpoints, subset) {
                let key = (family.to_owned(), canonical(&slice["ports"]));
                match wanted.entry(key) {
                    Entry::Vacant(new) => drop(new.insert(slice)),
                    Entry::Occupied(mut known) => join(known.get_mut(), &slice),
                }
            }
        }
    }
    let mut writes = Vec::new();
    for slice in slices {
        let ports = slice.get("ports").unwrap_or(&Value::Null);
        let key = (text(slice, "/addressType").to_owned(), canonical(ports));
        match wanted.remove(&key) {
            None => writes.push(Write::Delete(name(slice).to_owned())),
            Some(next) => writes.extend(replaced(slice, &next).map(Write::Replace)),
        }
    }
    writes.extend(wanted.into_values().map(Write::Create));
    writes
}

/// Adds the endpoints of a subset to the slice of another one with the same ports.
fn join(slice: &mut Value, other: &Value) {
    let more = other.get("endpoints").and_then(Value::as_array).cloned();
    if let Some(all) = slice["endpoints"].as_array_mut() {
        all.extend(more.unwrap_or_default());
        all.truncate(ADDRESSES_MAX);
    }
}

/// A slice with the endpoints, labels and annotations that it must have; `None` if it has them.
fn replaced(slice: &Value, next: &Value) -> Option<Value> {
    let mut replaced = slice.clone();
    set(&mut replaced, &["endpoints"], next["endpoints"].clone());
    for part in ["labels", "annotations"] {
        let wanted = texts(next, &format!("/metadata/{part}"));
        if wanted != texts(slice, &format!("/metadata/{part}")) {
            set(&mut replaced, &["metadata", part], json!(wanted));
        }
    }
    (canonical(&replaced) != canonical(slice)).then_some(replaced)
}

/// The slices of one subset, by address family.
fn mirrors<'e>(endpoints: &'e Value, subset: &'e Value) -> Vec<(&'static str, Value)> {
    let of = |list: &str, is_ready: bool| {
        let all = subset.get(list).and_then(Value::as_array);
        let all = all.into_iter().flatten();
        all.map(move |address| (address, is_ready))
            .collect::<Vec<_>>()
    };
    let mut addresses = [of("addresses", true), of("notReadyAddresses", false)].concat();
    addresses.truncate(ADDRESSES_MAX);
    let family_of = |address: &Value| {
        let ip: IpAddr = text(address, "/ip").parse().ok()?;
        Some(if ip.is_ipv6() { "IPv6" } else { "IPv4" })
    };
    let mut slices = Vec::new();
    for family in ["IPv4", "IPv6"] {
        let of_family: Vec<Value> = addresses
            .iter()
            .filter(|(address, _)| family_of(address) == Some(family))
            .map(|(address, is_ready)| endpoint(address, *is_ready))
            .collect();
        if !of_family.is_empty() {
            slices.push((family, new_slice(endpoints, subset, family, of_family)));
        }
    }
    slices
}

fn endpoint(address: &Value, is_ready: bool) -> Value {
    let mut endpoint = json!({
        "addresses": [text(address, "/ip")],
        "conditions": {"ready": is_ready},
    });
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.get(field) {
            endpoint[field] = value.clone();
        }
    }
    endpoint
}

fn new_slice(endpoints: &Value, subset: &Value, family: &str, addresses: Vec<Value>) -> Value {
    let ports = subset.get("ports").and_then(Value::as_array);
    let port = |port: &Value| {
        let mut port = port.clone();
        if port.get("name").is_none() {
            set(&mut port, &["name"], "".into());
        }
        port
    };
    let mut labels = texts(endpoints, "/metadata/labels");
    labels.insert(SERVICE.to_owned(), name(endpoints).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    let mut annotations = texts(endpoints, "/metadata/annotations");
    annotations.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": format!("{}-", name(endpoints)),
            "namespace": text(endpoints, "/metadata/namespace"),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(endpoints)],
        },
        "addressType": family,
        "endpoints": addresses,
        "ports": ports.map(|all| all.iter().map(port).collect::<Vec<_>>()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(ips: &[&str]) -> Value {
        let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "e", "namespace": "a", "uid": "u"},
            "subsets": [{"addresses": addresses, "ports": [{"port": 1, "protocol": "TCP"}]}],
        })
    }

    fn made(writes: Vec<Write>) -> Vec<Value> {
        let created = |write| match write {
            Write::Create(slice) => slice,
            other => panic!("{other:?}"),
        };
        writes.into_iter().map(created).collect()
    }

    #[test]
    fn each_family_has_a_slice() {
        let service = json!({"spec": {}});
        let slices = made(plan(
            &endpoints(&["10.0.0.1", "fd00::1"]),
            Some(&service),
            &[],
        ));
        let families: Vec<_> = slices
            .iter()
            .map(|slice| text(slice, "/addressType"))
            .collect();
        assert_eq!(families, ["IPv4", "IPv6"]);
        assert_eq!(slices[0]["ports"][0]["name"], "");
        let slices: Vec<_> = slices.into_iter().map(Arc::new).collect();
        let none = plan(
            &endpoints(&["10.0.0.1", "fd00::1"]),
            Some(&service),
            &slices,
        );
        assert_eq!(none, []);
        let writes = plan(&endpoints(&["10.0.0.2"]), Some(&service), &slices);
        let [Write::Replace(four), Write::Delete(_)] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!(four["endpoints"][0]["addresses"], json!(["10.0.0.2"]));
    }

    #[test]
    fn endpoints_of_controllers_and_of_services_with_selectors_have_none() {
        let service = |spec: Value| json!({"spec": spec});
        let check = |changes: &[(&[&str], Value)], service: Option<Value>, count: usize| {
            let mut of = endpoints(&["10.0.0.1"]);
            for (path, value) in changes {
                set(&mut of, path, value.clone());
            }
            assert_eq!(plan(&of, service.as_ref(), &[]).len(), count, "{of}");
        };
        let label: &[&str] = &["metadata", "labels"];
        check(&[], Some(service(json!({}))), 1);
        check(&[], None, 0);
        check(&[], Some(service(json!({"selector": {"a": "b"}}))), 0);
        check(
            &[(label, json!({SKIPPED: "true"}))],
            Some(service(json!({}))),
            0,
        );
        check(
            &[(label, json!({WRITTEN_BY: "x"}))],
            Some(service(json!({}))),
            0,
        );
        let leader: &[&str] = &["metadata", "annotations"];
        check(
            &[(leader, json!({LEADER: "x"}))],
            Some(service(json!({}))),
            0,
        );
    }

    #[test]
    fn subsets_with_the_same_ports_share_a_slice() {
        let mut all = endpoints(&["10.0.0.1"]);
        let second = endpoints(&["10.0.0.2"])["subsets"][0].clone();
        all["subsets"].as_array_mut().unwrap().push(second);
        let [slice] = &made(plan(&all, Some(&json!({"spec": {}})), &[]))[..] else {
            panic!("one slice");
        };
        let of = |at: usize| slice["endpoints"][at]["addresses"][0].clone();
        assert_eq!((of(0), of(1)), (json!("10.0.0.1"), json!("10.0.0.2")));
    }

    #[test]
    fn labels_and_annotations_are_followed() {
        let service = json!({"spec": {}});
        let mut of = endpoints(&["10.0.0.1"]);
        let slices = made(plan(&of, Some(&service), &[]));
        let slices: Vec<_> = slices.into_iter().map(Arc::new).collect();
        set(&mut of, &["metadata", "labels", "a"], "1".into());
        set(&mut of, &["metadata", "annotations", "b"], "2".into());
        set(&mut of, &["metadata", "annotations", TRIGGER], "now".into());
        let writes = plan(&of, Some(&service), &slices);
        let [Write::Replace(slice)] = &writes[..] else {
            panic!("{writes:?}");
        };
        assert_eq!(slice["metadata"]["labels"]["a"], "1");
        assert_eq!(slice["metadata"]["annotations"], json!({"b": "2"}));
        assert_eq!(plan(&of, Some(&service), &[Arc::new(slice.clone())]), []);
    }
}
