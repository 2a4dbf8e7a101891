//! The addresses and node ports of services: allocated on demand, and kept.
//!
//! ```text
//! services stored -> Taken        service + Taken -> the service with clusterIP, ipFamilies, nodePort
//! ```
//!
//! No traffic is routed to these addresses: clients only read them back. One network of addresses
//! and one range of ports serve all namespaces; a request for a taken one is refused. Two
//! simultaneous writes may be assigned the same one, which has no consequences here.
//!
//! Complexity: the write of a service is linear in the services; other writes cost nothing.
//!
//! Upstream: `kubernetes/kubernetes:pkg/registry/core/service/storage/alloc.go`.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use kinform_api::{FieldError, ShownValue};
use serde_json::{Value, json};

use crate::object::metadata;
use crate::object::{at, text};
use crate::resource::ResourceInfo;

/// The network of services' addresses, `10.96.0.0/12`, as most clusters have it.
const NETWORK: u32 = 0x0a60_0000;
const NETWORK_SIZE: u32 = 1 << 20;
pub(crate) const NETWORK_TEXT: &str = "10.96.0.0/12";
/// The address of the server's own service: the first of the network.
pub(crate) const FIRST_ADDRESS: &str = "10.96.0.1";
/// The node ports that are given.
const PORTS: std::ops::Range<i64> = 30_000..32_768;

/// Addresses and ports that services hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Taken {
    addresses: HashSet<String>,
    ports: HashSet<i64>,
    /// Offset at which the search for a free address begins.
    start: u32,
}

impl Taken {
    /// The addresses and ports of services; the search for free ones begins at `start`.
    pub(crate) fn of(services: impl Iterator<Item = Value>, start: u32) -> Self {
        let mut taken = Self {
            start,
            ..Self::default()
        };
        for service in services {
            let address = text(&service, &["spec", "clusterIP"]);
            taken.addresses.insert(address.to_owned());
            taken.ports.extend(node_ports(&service));
        }
        taken
    }
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let ports = at(service, &["spec", "ports"]).and_then(Value::as_array);
    let port = |port: &Value| port.get("nodePort").and_then(Value::as_i64);
    ports.into_iter().flatten().filter_map(port)
}

/// Allocates the addresses and ports of a new service.
pub(crate) fn assign(resource: &ResourceInfo, taken: &Taken, service: &mut Value) {
    if resource.is_core("services") {
        give(taken, service);
    }
}

/// Keeps the addresses and ports that an update omits, and allocates those that it needs now.
pub(crate) fn keep(resource: &ResourceInfo, taken: &Taken, new: &mut Value, old: &Value) {
    if !resource.is_core("services") {
        return;
    }
    let (before, after) = (
        text(old, &["spec", "type"]),
        text(new, &["spec", "type"]).to_owned(),
    );
    for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        let stays = has_address(before) && has_address(&after);
        let (Some(spec), kept) = (new["spec"].as_object_mut(), at(old, &["spec", name])) else {
            continue;
        };
        // An empty policy counts as set, and is refused.
        let is_unset = |value: &Value| match name {
            "ipFamilyPolicy" => value.is_null(),
            _ => metadata::is_unset(value),
        };
        if stays && spec.get(name).is_none_or(is_unset) {
            if let Some(kept) = kept {
                spec.insert(name.to_owned(), kept.clone());
            }
        } else if !has_address(&after) && spec.get(name) == kept {
            spec.remove(name);
        }
    }
    let is_moved = at(new, &["spec", "clusterIP"]) != at(old, &["spec", "clusterIP"]);
    if is_moved && at(new, &["spec", "clusterIPs"]) == at(old, &["spec", "clusterIPs"]) {
        // Older clients write only the first address.
        if let Some(spec) = new["spec"].as_object_mut()
            && spec.contains_key("clusterIPs")
        {
            let address = spec.get("clusterIP").cloned().unwrap_or_default();
            spec.insert("clusterIPs".to_owned(), json!([address]));
        }
    }
    keep_ports(new, old, &after);
    drop_unneeded(new, old, &after);
    give(taken, new);
}

/// Drops members that belong to the former type of a service, unless the update sets them anew.
///
/// Upstream: `dropTypeDependentFields`.
fn drop_unneeded(new: &mut Value, old: &Value, after: &str) {
    let is_balanced = after == "LoadBalancer";
    let is_local = text(new, &["spec", "externalTrafficPolicy"]) == "Local";
    let Some(spec) = new["spec"].as_object_mut() else {
        return;
    };
    let has_addresses = spec.get("externalIPs").is_some_and(|list| !list.is_null());
    for (name, is_needed) in [
        ("externalTrafficPolicy", has_ports(after) || has_addresses),
        ("healthCheckNodePort", is_balanced && is_local),
        ("allocateLoadBalancerNodePorts", is_balanced),
        ("loadBalancerClass", is_balanced),
    ] {
        if !is_needed && spec.get(name) == at(old, &["spec", name]) {
            spec.remove(name);
        }
    }
}

fn keep_ports(new: &mut Value, old: &Value, after: &str) {
    let Some(ports) = new["spec"].get_mut("ports").and_then(Value::as_array_mut) else {
        return;
    };
    let mut had: HashMap<(&Value, &Value), &Value> = HashMap::new();
    let before = at(old, &["spec", "ports"]).and_then(Value::as_array);
    for port in before.into_iter().flatten() {
        had.entry((&port["port"], &port["protocol"]))
            .or_insert(port);
    }
    for port in ports.iter_mut().filter(|port| port.is_object()) {
        let same = had.get(&(&port["port"], &port["protocol"]));
        let Some(number) = same.and_then(|old| old.get("nodePort")) else {
            continue;
        };
        let has = port.get("nodePort").cloned();
        if has_ports(after) && has.is_none() {
            port["nodePort"] = number.clone();
        } else if !has_ports(after)
            && has.as_ref() == Some(number)
            && let Some(port) = port.as_object_mut()
        {
            port.remove("nodePort");
        }
    }
}

fn has_address(kind: &str) -> bool {
    matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer")
}

fn has_ports(kind: &str) -> bool {
    matches!(kind, "NodePort" | "LoadBalancer")
}

fn give(taken: &Taken, service: &mut Value) {
    let kind = text(service, &["spec", "type"]).to_owned();
    if !has_address(&kind) {
        return;
    }
    let said = match text(service, &["spec", "clusterIP"]) {
        "" => at(service, &["spec", "clusterIPs"])
            .and_then(|list| list[0].as_str())
            .unwrap_or_default(),
        said => said,
    };
    let address = match said {
        "" => free_address(taken),
        said => said.to_owned(),
    };
    let wants_ports = has_ports(&kind)
        && at(service, &["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
    let Some(spec) = service["spec"].as_object_mut() else {
        return;
    };
    let is_selecting = spec
        .get("selector")
        .is_some_and(|selector| !selector.is_null());
    let (families, policy) = match address.as_str() {
        // Other components provide the endpoints, of any family.
        "None" if !is_selecting => (json!(["IPv4", "IPv6"]), "RequireDualStack"),
        address if address.contains(':') => (json!(["IPv6"]), "SingleStack"),
        _ => (json!(["IPv4"]), "SingleStack"),
    };
    for (name, value) in [
        ("clusterIP", json!(address)),
        ("clusterIPs", json!([address])),
        ("ipFamilies", families),
        ("ipFamilyPolicy", json!(policy)),
    ] {
        let is_said = name == "ipFamilyPolicy" && spec.get(name) == Some(&json!(""));
        if !is_said && spec.get(name).is_none_or(metadata::is_unset) {
            spec.insert(name.to_owned(), value);
        }
    }
    if !wants_ports {
        return;
    }
    let mut own: HashSet<i64> = HashSet::new();
    let mut free = free_ports(taken);
    // The same port in two protocols is one on the nodes, too.
    let mut by_port: HashMap<i64, (String, i64)> = HashMap::new();
    for port in spec
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        let number = |name: &str| port.get(name).and_then(Value::as_i64).unwrap_or(0);
        let (has, of) = (number("nodePort"), number("port"));
        let protocol = text(port, &["protocol"]).to_owned();
        let shared = by_port.get(&of).filter(|(other, _)| *other != protocol);
        let given = shared.map(|(_, number)| *number);
        if has == 0
            && port.is_object()
            && let Some(number) = given.or_else(|| free.find(|port| !own.contains(port)))
        {
            port["nodePort"] = Value::from(number);
        }
        if let Some(number) = port.get("nodePort").and_then(Value::as_i64) {
            own.insert(number);
            by_port.entry(of).or_insert((protocol, number));
        }
    }
}

fn free_address(taken: &Taken) -> String {
    // The first addresses are for services with a fixed one, such as DNS.
    let candidates = (0..NETWORK_SIZE).map(|step| taken.start.wrapping_add(step) % NETWORK_SIZE);
    let mut addresses = candidates
        .filter(|at| (256..NETWORK_SIZE - 1).contains(at))
        .map(|at| Ipv4Addr::from(NETWORK + at).to_string());
    addresses
        .find(|address| !taken.addresses.contains(address))
        .unwrap_or_default()
}

/// The ports that no other service has. Those that a service passes over are its own.
fn free_ports(taken: &Taken) -> impl Iterator<Item = i64> {
    let count = PORTS.end - PORTS.start;
    let start = i64::from(taken.start) % count;
    let candidates = (0..count).map(move |step| PORTS.start + (start + step) % count);
    candidates.filter(|port| !taken.ports.contains(port))
}

/// The state that a service's addresses and ports are checked against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) taken: &'a Taken,
    pub(crate) range: Range,
}

/// Check of node ports against the range: a dry run does not check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Checked,
    Unchecked,
}

/// Errors of the address that a new service asks for; if it has none, errors of the ports.
pub(crate) fn errors(
    resource: &ResourceInfo,
    asked: Asked<'_>,
    service: &Value,
) -> Vec<FieldError> {
    let address = text(service, &["spec", "clusterIP"]);
    let parsed: Option<Ipv4Addr> = address.parse().ok();
    if !resource.is_core("services") || !has_address(text(service, &["spec", "type"])) {
        return Vec::new();
    }
    let Some(number) = parsed else {
        return port_errors(asked, service, &HashSet::new());
    };
    let shown = || ShownValue::raw(json!([address]).to_string());
    let in_network = (NETWORK..NETWORK + NETWORK_SIZE).contains(&u32::from(number));
    let detail = if !in_network {
        format!(
            "failed to allocate IP {address}: the provided network does not match the current \
             range ({NETWORK_TEXT})"
        )
    } else if asked.taken.addresses.contains(address) {
        format!("failed to allocate IP {address}: provided IP is already allocated")
    } else {
        return port_errors(asked, service, &HashSet::new());
    };
    vec![FieldError::invalid("spec.clusterIPs", shown(), detail)]
}

/// Errors of the ports that an update of a service adds.
pub(crate) fn change_errors(
    resource: &ResourceInfo,
    asked: Asked<'_>,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    if !resource.is_core("services") {
        return Vec::new();
    }
    port_errors(asked, new, &node_ports(old).collect())
}

/// The first port that a service may not have, as upstream finds it: a dry run does not check the
/// range.
fn port_errors(asked: Asked<'_>, service: &Value, own: &HashSet<i64>) -> Vec<FieldError> {
    let ports = at(service, &["spec", "ports"]).and_then(Value::as_array);
    let wrong = |(place, port): (usize, &Value)| {
        let number = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        let detail = if number == 0 || own.contains(&number) {
            return None;
        } else if !PORTS.contains(&number) && asked.range == Range::Checked {
            let (first, last) = (PORTS.start, PORTS.end - 1);
            format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            )
        } else if asked.taken.ports.contains(&number) {
            "provided port is already allocated".to_owned()
        } else {
            return None;
        };
        let field = format!("spec.ports[{place}].nodePort");
        Some(FieldError::invalid(field, number, detail))
    };
    let mut ports = ports.into_iter().flatten().enumerate();
    ports.find_map(wrong).into_iter().collect()
}
