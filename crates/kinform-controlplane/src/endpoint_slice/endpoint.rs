//! One endpoint of a Service, and the ports that its pod serves.
//!
//! ```text
//! Service + pod + zone → (endpoint, ports)        no address, or the pod ended → `None`
//! ```
//!
//! Upstream counterpart: `k8s.io/endpointslice:utils.go` (`podToEndpoint`, `getEndpointPorts`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use super::service::publishes_not_ready;
use crate::json::{maybe_int, name, set, text};
use crate::pods::{is_finished, is_ready, is_terminating, node};

/// The endpoint of a pod; `None` if it has no address of the family, or ended.
pub(super) fn endpoint(
    service: &Value,
    pod: &Pod,
    family: &str,
    zone: Option<String>,
) -> Option<Value> {
    if is_finished(pod) {
        return None;
    }
    let address = address(pod, family)?;
    let publishes = publishes_not_ready(service);
    let (serving, terminating) = (is_ready(pod), is_terminating(pod));
    let mut endpoint = json!({
        "addresses": [address],
        "conditions": {
            "ready": publishes || (serving && !terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
        },
    });
    let spec = pod.spec.as_ref();
    let is_of_service = spec.and_then(|s| s.subdomain.as_deref()) == Some(name(service));
    let hostname = spec
        .and_then(|s| s.hostname.as_deref())
        .filter(|_| is_of_service);
    let node = Some(node(pod)).filter(|node| !node.is_empty());
    for (field, value) in [
        ("nodeName", node),
        ("zone", zone.as_deref()),
        ("hostname", hostname),
    ] {
        if let Some(value) = value {
            set(&mut endpoint, &[field], value.into());
        }
    }
    Some(endpoint)
}

/// The address of a pod in a family.
pub(crate) fn address<'p>(pod: &'p Pod, family: &str) -> Option<&'p str> {
    let ips = pod.status.as_ref()?.pod_ips.as_deref()?;
    let is_of_family = |ip: &&str| {
        let ip: Option<IpAddr> = ip.parse().ok();
        ip.is_some_and(|ip| ip.is_ipv6() == (family == "IPv6"))
    };
    ips.iter().map(|ip| ip.ip.as_str()).find(is_of_family)
}

/// The ports of a Service as a pod serves them; those that the pod does not name are left out.
/// `null` if the Service has none.
pub(crate) fn ports(service: &Value, pod: &Pod) -> Value {
    let Some(ports) = service.pointer("/spec/ports").and_then(Value::as_array) else {
        return Value::Null;
    };
    let served = ports.iter().filter_map(|port| {
        let number = target(port, pod)?;
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        let mut served = json!({"name": text(port, "/name"), "protocol": protocol, "port": number});
        if let Some(app) = port.get("appProtocol") {
            set(&mut served, &["appProtocol"], app.clone());
        }
        Some(served)
    });
    Value::Array(served.collect())
}

/// The number of a port of a Service at a pod.
fn target(port: &Value, pod: &Pod) -> Option<i64> {
    let target = port.get("targetPort");
    let Some(wanted) = target.and_then(Value::as_str) else {
        let number = target.and_then(Value::as_i64).filter(|number| *number != 0);
        return number.or_else(|| maybe_int(port, "/port"));
    };
    let protocol = match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    };
    let spec = pod.spec.as_ref()?;
    let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let mut all = spec.containers.iter().chain(sidecars);
    all.find_map(|container| {
        let named = container.ports.iter().flatten().find(|one| {
            one.name.as_deref() == Some(wanted)
                && one.protocol.as_deref().unwrap_or("TCP") == protocol
        })?;
        Some(i64::from(named.container_port))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(changes: &[(&str, Value)]) -> Pod {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "a", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [
                {"name": "web", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"},
            ]}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        for (path, value) in changes {
            set(
                &mut pod,
                &path.split('/').collect::<Vec<_>>(),
                value.clone(),
            );
        }
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn conditions_follow_readiness_and_deletion() {
        let check = |service: Value, pod: &Pod, expected: Option<[bool; 3]>| {
            let found = endpoint(&service, pod, "IPv4", None).map(|endpoint| {
                let of = |name: &str| endpoint["conditions"][name].as_bool().unwrap();
                [of("ready"), of("serving"), of("terminating")]
            });
            assert_eq!(found, expected, "{pod:?}");
        };
        let plain = || json!({"spec": {}});
        let publishing = || json!({"spec": {"publishNotReadyAddresses": true}});
        let unready = pod(&[("status/conditions", json!([]))]);
        let ending = pod(&[("metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into())]);
        check(plain(), &pod(&[]), Some([true, true, false]));
        check(plain(), &unready, Some([false, false, false]));
        check(publishing(), &unready, Some([true, false, false]));
        check(plain(), &ending, Some([false, true, true]));
        check(publishing(), &ending, Some([true, true, true]));
        check(plain(), &pod(&[("status/phase", "Succeeded".into())]), None);
        check(plain(), &pod(&[("status/podIPs", json!([]))]), None);
    }

    #[test]
    fn addresses_are_of_the_family() {
        let service = json!({"spec": {}});
        let six = endpoint(&service, &pod(&[]), "IPv6", Some("z".to_owned())).unwrap();
        assert_eq!(six["addresses"], json!(["fd00::1"]));
        assert_eq!((&six["nodeName"], &six["zone"]), (&json!("n"), &json!("z")));
    }

    #[test]
    fn ports_are_those_of_the_pod() {
        let check = |port: Value, expected: Value| {
            let service = json!({"spec": {"ports": [port]}});
            assert_eq!(ports(&service, &pod(&[])), expected);
        };
        let tcp = |port: i64| json!([{"name": "", "protocol": "TCP", "port": port}]);
        check(json!({"port": 80}), tcp(80));
        check(json!({"port": 80, "targetPort": 81}), tcp(81));
        check(json!({"port": 80, "targetPort": "web"}), tcp(8080));
        check(json!({"port": 80, "targetPort": "dns"}), json!([]));
        check(json!({"port": 80, "targetPort": "none"}), json!([]));
        assert_eq!(ports(&json!({"spec": {}}), &pod(&[])), Value::Null);
    }
}
