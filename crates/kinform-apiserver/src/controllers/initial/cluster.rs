//! Namespaces, the server's own service, and what it tells of itself.
//!
//! ```text
//! Place { address, authority, now } ──▶ namespaces, service, endpoints, classes, API services
//! ```
//!
//! Without an address, as in process, the service has no endpoints.
//!
//! Upstream: `kubernetes/kubernetes:pkg/controlplane/controller`.

use std::net::SocketAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Initial, Place};
use crate::builtin::service_addresses::{FIRST_ADDRESS, NETWORK_TEXT};
use crate::object::metadata;

const NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "default", "kube-node-lease"];

/// Port of the service if the server has no socket: upstream's default.
const USUAL_PORT: u16 = 6443;

/// Classes of pods that the cluster needs: name, value, description.
const CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// The server's own groups: group, version, priority of the group, priority of the version.
const API_SERVICES: [(&str, &str, u32, u32); 22] = [
    ("", "v1", 18_000, 1),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("apps", "v1", 17_800, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("autoscaling", "v2", 17_500, 30),
    ("batch", "v1", 17_400, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("discovery.k8s.io", "v1", 16_200, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
    ("networking.k8s.io", "v1", 17_200, 15),
    ("node.k8s.io", "v1", 16_300, 15),
    ("policy", "v1", 17_100, 15),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("resource.k8s.io", "v1", 16_200, 21),
    ("scheduling.k8s.io", "v1", 16_600, 15),
    ("storage.k8s.io", "v1", 16_800, 15),
    ("storagemigration.k8s.io", "v1", 15_800, 15),
];

pub(super) fn objects(place: &Place<'_>) -> Vec<Initial> {
    let mut objects: Vec<Initial> = NAMESPACES.into_iter().map(namespace).collect();
    objects.push(network(place.now));
    if let Some(authority) = place.authority {
        objects.extend([authentication(authority), token_tracking(place.now)]);
    }
    objects.extend(
        API_SERVICES
            .into_iter()
            .map(|facts| api_service(facts, place.now)),
    );
    objects.extend(CLASSES.into_iter().map(class));
    objects.push(service(place.address));
    if let Some(address) = place.address {
        objects.extend([endpoints(address), endpoint_slice(address)]);
    }
    objects
}

fn namespace(name: &str) -> Initial {
    let labels = json!({"kubernetes.io/metadata.name": name});
    let object = json!({"metadata": {"name": name, "labels": labels}});
    Initial {
        unowned: json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        ..Initial::new(("", "v1", "namespaces"), object)
    }
}

fn network(now: Timestamp) -> Initial {
    let object = json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": [NETWORK_TEXT]}});
    let ready = json!({"conditions": [{
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": metadata::time(now),
        "message": "Kubernetes default Service CIDR is ready",
    }]});
    Initial {
        status: Some(("kubernetes-service-cidr-controller", ready)),
        ..Initial::new(("networking.k8s.io", "v1", "servicecidrs"), object)
    }
}

/// Returns the map from which aggregated servers learn which clients to trust.
fn authentication(authority: &str) -> Initial {
    let object = json!({
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": authority},
    });
    Initial::new(("", "v1", "configmaps"), object)
}

/// Returns the map that says since when old tokens of service accounts are counted.
fn token_tracking(now: Timestamp) -> Initial {
    let object = json!({
        "metadata": {
            "name": "kube-apiserver-legacy-service-account-token-tracking",
            "namespace": "kube-system",
        },
        "data": {"since": now.strftime("%Y-%m-%d").to_string()},
    });
    Initial::new(("", "v1", "configmaps"), object)
}

fn api_service(
    (group, version, minimum, priority): (&str, &str, u32, u32),
    now: Timestamp,
) -> Initial {
    let mut spec = json!({
        "version": version,
        "groupPriorityMinimum": minimum,
        "versionPriority": priority,
    });
    if !group.is_empty() {
        spec["group"] = Value::from(group);
    }
    let labels = json!({"kube-aggregator.kubernetes.io/automanaged": "onstart"});
    let object = json!({
        "metadata": {"name": format!("{version}.{group}"), "labels": labels},
        "spec": spec,
    });
    let available = json!({"conditions": [{
        "type": "Available",
        "status": "True",
        "lastTransitionTime": metadata::time(now),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }]});
    Initial {
        unowned: json!({"status": available}),
        ..Initial::new(("apiregistration.k8s.io", "v1", "apiservices"), object)
    }
}

fn class((name, value, description): (&str, i64, &str)) -> Initial {
    let object = json!({
        "metadata": {"name": name},
        "value": value,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    });
    Initial::new(("scheduling.k8s.io", "v1", "priorityclasses"), object)
}

fn service(address: Option<SocketAddr>) -> Initial {
    let port = address.map_or(USUAL_PORT, |address| address.port());
    let object = json!({
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": FIRST_ADDRESS,
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
    });
    Initial {
        unowned: json!({
            "spec": {"clusterIPs": [FIRST_ADDRESS], "ipFamilies": ["IPv4"]},
            "status": {"loadBalancer": {}},
        }),
        renews: address.is_some(),
        ..Initial::new(("", "v1", "services"), object)
    }
}

fn endpoints(address: SocketAddr) -> Initial {
    let labels = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    let object = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "subsets": [{
            "addresses": [{"ip": address.ip().to_string()}],
            "ports": [{"name": "https", "port": address.port(), "protocol": "TCP"}],
        }],
    });
    Initial {
        renews: true,
        ..Initial::new(("", "v1", "endpoints"), object)
    }
}

fn endpoint_slice(address: SocketAddr) -> Initial {
    let labels = json!({"kubernetes.io/service-name": "kubernetes"});
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let object = json!({
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "addressType": family,
        "endpoints": [{
            "addresses": [address.ip().to_string()],
            "conditions": {"ready": true},
        }],
        "ports": [{"name": "https", "protocol": "TCP", "port": address.port()}],
    });
    Initial {
        renews: true,
        ..Initial::new(("discovery.k8s.io", "v1", "endpointslices"), object)
    }
}
