//! Checks of services, endpoints and routes to them.
//!
//! ```text
//! :service_ports -> a service has ports, with names if there are several
//! ```
//!
//! Upstream: `ValidateService`, `ValidateEndpoints` in
//! `kubernetes/kubernetes:pkg/apis/core/validation/validation.go`,
//! `pkg/apis/{discovery,networking}/validation`.

use std::collections::HashSet;

use kinform_api::{FieldError, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, words};
use crate::object::metadata::shown;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":addresses" => addresses,
        ":cluster_addresses" => cluster_addresses,
        ":host" => host,
        ":ingress_backend" => ingress_backend,
        ":ingress_path" => ingress_path,
        ":ip_block" => ip_block,
        ":node_ports" => node_ports,
        ":policy_port" => policy_port,
        ":port_name_needed" => port_name_needed,
        ":service_change" => service_change,
        ":service_ports" => service_ports,
        ":slice_addresses" => slice_addresses,
        _ => return None,
    })
}

fn service_ports(site: &Site<'_>, errors: &mut Errors<'_>) {
    let spec = site.scope.value;
    let is_headless = text(spec, &["clusterIP"]) == "None";
    if site.items().is_empty() && !is_headless && text(spec, &["type"]) != "ExternalName" {
        errors.push(FieldError::required(site.path(), ""));
    }
    let mut seen: HashSet<&str> = HashSet::new();
    let is_many = site.items().len() > 1;
    for (place, port) in site.items().iter().enumerate() {
        let field = |name: &str| format!("{}[{place}].{name}", site.path());
        match text(port, &["name"]) {
            "" if is_many => errors.push(FieldError::required(field("name"), "")),
            "" => {}
            name => {
                for detail in names::dns_label_errors(name) {
                    errors.push(FieldError::invalid(field("name"), name, detail));
                }
                if !seen.insert(name) {
                    errors.push(FieldError::duplicate(field("name"), name));
                }
            }
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if let Some(detail) = words::port_number(number) {
            errors.push(FieldError::invalid(field("port"), number, detail));
        }
        let protocol = text(port, &["protocol"]);
        if !matches!(protocol, "TCP" | "UDP" | "SCTP") {
            let supported = ["SCTP", "TCP", "UDP"];
            errors.push(FieldError::not_supported(
                field("protocol"),
                protocol,
                &supported,
            ));
        }
        errors.extend(words::port(&field("targetPort"), port.get("targetPort")));
        let application = text(port, &["appProtocol"]);
        if !application.is_empty() {
            for detail in names::label_key_errors(application) {
                errors.push(FieldError::invalid(
                    field("appProtocol"),
                    application,
                    detail,
                ));
            }
        }
    }
}

/// Only services that nodes serve have node ports, and each port occurs once.
fn node_ports(site: &Site<'_>, errors: &mut Errors<'_>) {
    let kind = text(site.scope.value, &["type"]);
    let mut seen: HashSet<(&str, i64)> = HashSet::new();
    let mut ports: HashSet<(&str, i64)> = HashSet::new();
    for (place, port) in site.items().iter().enumerate() {
        let field = format!("{}[{place}]", site.path());
        let node_port = port.get("nodePort").and_then(Value::as_i64).unwrap_or(0);
        if node_port != 0 && kind == "ClusterIP" {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{field}.nodePort"), detail));
        } else if node_port != 0 && !seen.insert((text(port, &["protocol"]), node_port)) {
            errors.push(FieldError::duplicate(
                format!("{field}.nodePort"),
                node_port,
            ));
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        let same = (text(port, &["protocol"]), number);
        if !ports.insert(same) {
            errors.push(FieldError::duplicate(field, shown(Some(port))));
        }
    }
}

fn cluster_addresses(site: &Site<'_>, errors: &mut Errors<'_>) {
    let addresses: Vec<&str> = site.items().iter().filter_map(Value::as_str).collect();
    for (place, address) in addresses.iter().enumerate() {
        if *address != "None" && !words::is_address(address) {
            let field = format!("{}[{place}]", site.path());
            errors.push(FieldError::invalid(field, *address, words::NO_ADDRESS));
        }
    }
    if let [first, second, ..] = addresses[..] {
        if first.contains(':') == second.contains(':') {
            let detail = "may specify no more than one IP for each IP family";
            errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
        }
        if addresses.len() > 2 {
            let detail = "may only hold up to 2 values";
            errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
        }
    }
    let first = text(site.scope.value, &["clusterIP"]);
    if addresses.first().is_some_and(|listed| *listed != first) {
        let detail = "first value must match `clusterIP`";
        errors.push(FieldError::invalid(
            format!("{}[0]", site.path()),
            addresses[0],
            detail,
        ));
    }
}

fn service_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (Some(new), Some(old)) = (site.value, site.old()) else {
        return;
    };
    let has_address = |spec: &Value| {
        matches!(
            text(spec, &["type"]),
            "ClusterIP" | "NodePort" | "LoadBalancer"
        )
    };
    if !has_address(new) || !has_address(old) {
        return;
    }
    let (before, after) = (text(old, &["clusterIP"]), text(new, &["clusterIP"]));
    if !before.is_empty() && before != after {
        let detail = "primary clusterIP can not be unset";
        if after.is_empty() {
            errors.push(FieldError::invalid(
                format!("{}.clusterIPs[0]", site.path()),
                "",
                detail,
            ));
        } else {
            let detail = "may not change once set";
            let field = format!("{}.clusterIPs[0]", site.path());
            let list = shown(at(new, &["clusterIPs"]));
            errors.push(FieldError::invalid(field, list, detail));
        }
    }
}

/// Addresses of endpoints; addresses local to a machine are refused.
fn addresses(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, address) in site.items().iter().enumerate() {
        let field = format!("{}[{place}].ip", site.path());
        let said = text(address, &["ip"]);
        if words::is_address(said) {
            special_address(&field, said, errors);
        } else {
            errors.push(FieldError::invalid(field.clone(), said, words::NO_ADDRESS));
            errors.push(FieldError::invalid(
                field,
                said,
                "must be a valid IP address",
            ));
        }
        let host = text(address, &["hostname"]);
        if !host.is_empty() {
            for detail in names::dns_label_errors(host) {
                errors.push(FieldError::invalid(
                    format!("{}[{place}].hostname", site.path()),
                    host,
                    detail,
                ));
            }
        }
    }
}

fn special_address(field: &str, said: &str, errors: &mut Errors<'_>) {
    let Ok(address) = said.parse::<std::net::IpAddr>() else {
        return;
    };
    let is_link_local = match address {
        std::net::IpAddr::V4(address) => address.is_link_local(),
        std::net::IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let detail = if address.is_unspecified() {
        format!("may not be unspecified ({said})")
    } else if address.is_loopback() {
        "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()
    } else if is_link_local {
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()
    } else {
        return;
    };
    errors.push(FieldError::invalid(field, said, detail));
}

fn port_name_needed(site: &Site<'_>, errors: &mut Errors<'_>) {
    let is_many = site.items().len() > 1;
    for (place, port) in site.items().iter().enumerate() {
        if is_many && text(port, &["name"]).is_empty() {
            errors.push(FieldError::required(
                format!("{}[{place}].name", site.path()),
                "",
            ));
        }
    }
}

fn slice_addresses(site: &Site<'_>, errors: &mut Errors<'_>) {
    let kind = text(site.scope.value, &["addressType"]);
    for (place, endpoint) in site.items().iter().enumerate() {
        let field = format!("{}[{place}].addresses", site.path());
        let list = at(endpoint, &["addresses"]).and_then(Value::as_array);
        let list: Vec<&str> = list
            .into_iter()
            .flatten()
            .map(|address| address.as_str().unwrap_or_default())
            .collect();
        if list.is_empty() {
            errors.push(FieldError::required(
                field.clone(),
                "must contain at least 1 address",
            ));
        }
        for (number, address) in list.iter().enumerate() {
            let field = format!("{field}[{number}]");
            let is_fine = match kind {
                "IPv4" => address.parse::<std::net::Ipv4Addr>().is_ok(),
                "IPv6" => address.parse::<std::net::Ipv6Addr>().is_ok(),
                _ => {
                    for detail in names::dns_subdomain_errors(address) {
                        errors.push(FieldError::invalid(field.clone(), *address, detail));
                    }
                    continue;
                }
            };
            if is_fine {
                special_address(&field, address, errors);
            } else if words::is_address(address) {
                let family = if kind == "IPv4" { "an IPv4" } else { "an IPv6" };
                let list = format!("{}[{place}].addresses", site.path());
                errors.push(FieldError::invalid(
                    list,
                    *address,
                    format!("must be {family} address"),
                ));
                special_address(&field, address, errors);
            } else {
                errors.push(FieldError::invalid(field, *address, words::NO_ADDRESS));
            }
        }
    }
}

fn host(site: &Site<'_>, errors: &mut Errors<'_>) {
    let host = site.text();
    // Items of a list of hosts must not be empty.
    if host.is_empty() && !site.rule.each {
        return;
    }
    if words::is_address(host) {
        let detail = "must be a DNS name, not an IP address";
        errors.push(FieldError::invalid(site.path(), host, detail));
        return;
    }
    let wrong = if host.contains('*') {
        words::wildcard_subdomain(host)
    } else {
        names::dns_subdomain_errors(host)
    };
    super::checks::form(site, errors, wrong);
}

fn ingress_path(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (path, kind) = (text(site.scope.value, &["path"]), site.text());
    let field = |name: &str| {
        let at = site.scope.path();
        format!("{at}.{name}")
    };
    match kind {
        "" => errors.push(FieldError::required(
            field("pathType"),
            "pathType must be specified",
        )),
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                errors.push(FieldError::invalid(
                    field("path"),
                    path,
                    "must be an absolute path",
                ));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    errors.push(FieldError::invalid(
                        field("path"),
                        path,
                        format!("must not contain '{part}'"),
                    ));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    errors.push(FieldError::invalid(
                        field("path"),
                        path,
                        format!("cannot end with '{end}'"),
                    ));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                errors.push(FieldError::invalid(
                    field("path"),
                    path,
                    "must be an absolute path",
                ));
            }
        }
        other => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(
                field("pathType"),
                other,
                &supported,
            ));
        }
    }
}

fn ingress_backend(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(backend) = site.value else { return };
    let (service, resource) = (backend.get("service"), backend.get("resource"));
    let path = site.path();
    match (service, resource) {
        (Some(_), Some(_)) => {
            let detail = "cannot set both resource and service backends";
            errors.push(FieldError::invalid(path, "", detail));
        }
        (None, None) => {
            let detail = "resource or service backend is required";
            errors.push(FieldError::invalid(path, "", detail));
        }
        (Some(service), None) => backend_service(&path, service, errors),
        (None, Some(_)) => {}
    }
}

fn backend_service(backend: &str, service: &Value, errors: &mut Errors<'_>) {
    let path = format!("{backend}.service");
    match text(service, &["name"]) {
        "" => errors.push(FieldError::required(format!("{path}.name"), "")),
        name => {
            for detail in names::dns_label_errors(name) {
                errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
            }
        }
    }
    let port = service.get("port").unwrap_or(&Value::Null);
    let name = text(port, &["name"]);
    let number = port.get("number").and_then(Value::as_i64).unwrap_or(0);
    if !name.is_empty() && number != 0 {
        let detail = "cannot set both port name & port number";
        errors.push(FieldError::invalid(backend, "", detail));
    } else if !name.is_empty() {
        for detail in words::port_name(name) {
            errors.push(FieldError::invalid(
                format!("{path}.port.name"),
                name,
                detail,
            ));
        }
    } else if number == 0 {
        errors.push(FieldError::required(
            backend,
            "port name or number is required",
        ));
    } else if let Some(detail) = words::port_number(number) {
        errors.push(FieldError::invalid(
            format!("{path}.port.number"),
            number,
            detail,
        ));
    }
}

fn ip_block(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(block) = site.value else { return };
    let path = site.path();
    let cidr = text(block, &["cidr"]);
    if cidr.is_empty() {
        errors.push(FieldError::required(format!("{path}.cidr"), ""));
        return;
    }
    let Some((base, length)) = words::network(cidr) else {
        errors.push(FieldError::invalid(
            format!("{path}.cidr"),
            cidr,
            words::NO_NETWORK,
        ));
        return;
    };
    let except = block.get("except").and_then(Value::as_array);
    for (place, inner) in except.into_iter().flatten().enumerate() {
        let field = format!("{path}.except[{place}]");
        let inner = inner.as_str().unwrap_or_default();
        match words::network(inner) {
            None => errors.push(FieldError::invalid(field, inner, words::NO_NETWORK)),
            Some((address, inner_length)) => {
                if inner_length <= length || !is_within(address, base, length) {
                    let detail = "must be a strict subset of `cidr`";
                    errors.push(FieldError::invalid(field, inner, detail));
                }
            }
        }
    }
}

fn is_within(address: std::net::IpAddr, base: std::net::IpAddr, length: u32) -> bool {
    use std::net::IpAddr;
    match (address, base) {
        (IpAddr::V4(address), IpAddr::V4(base)) => {
            let shift = 32 - length;
            (u64::from(address.to_bits()) >> shift) == (u64::from(base.to_bits()) >> shift)
        }
        (IpAddr::V6(address), IpAddr::V6(base)) => {
            let shift = |bits: u128| bits.checked_shr(128 - length).unwrap_or(0);
            shift(address.to_bits()) == shift(base.to_bits())
        }
        _ => false,
    }
}

fn policy_port(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(port) = site.value else { return };
    let path = site.path();
    let end = port.get("endPort").and_then(Value::as_i64);
    match port.get("port") {
        Some(Value::String(name)) => {
            if end.is_some() {
                let detail = "may not be specified when `port` is non-numeric";
                errors.push(FieldError::forbidden(format!("{path}.endPort"), detail));
            }
            for detail in words::port_name(name) {
                errors.push(FieldError::invalid(
                    format!("{path}.port"),
                    name.as_str(),
                    detail,
                ));
            }
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or(0);
            if let Some(detail) = words::port_number(number) {
                errors.push(FieldError::invalid(format!("{path}.port"), number, detail));
            }
            if let Some(end) = end {
                if end < number {
                    let detail = "must be greater than or equal to `port`";
                    errors.push(FieldError::invalid(format!("{path}.endPort"), end, detail));
                }
                if let Some(detail) = words::port_number(end) {
                    errors.push(FieldError::invalid(format!("{path}.endPort"), end, detail));
                }
            }
        }
        None if end.is_some() => {
            let detail = "may not be specified when `port` is not specified";
            errors.push(FieldError::forbidden(format!("{path}.endPort"), detail));
        }
        None => {}
    }
}
