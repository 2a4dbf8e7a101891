//! Checks of single values, and of lists of them, that only one or two kinds have.
//!
//! ```text
//! :driver_name driver -> a DNS subdomain, whatever its case, of 63 bytes
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/{core,storage,batch,networking,resource}/validation`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, checks, words};
use crate::object::metadata::shown;
use crate::object::names::path_segment_errors;
use crate::object::{at, text};

/// BOUND: upstream's, for names of drivers.
const MAX_DRIVER: usize = 63;
/// Message of the CEL compiler for an empty expression.
const NO_EXPRESSION: &str = "compilation failed: ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' \
     expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
     BYTES, IDENTIFIER}";

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":at_most" => at_most,
        ":flow_namespace" => flow_namespace,
        ":known_container" => known_container,
        ":affinity_change" => affinity_change,
        ":data_source" => data_source,
        ":device_expression" => device_expression,
        ":dns_1035" => dns_1035,
        ":driver_name" => driver_name,
        ":exit_codes" => exit_codes,
        ":hand_size" => hand_size,
        ":host_ports" => host_ports,
        ":no_dots" => no_dots,
        ":pool_name" => pool_name,
        ":segment" => segment,
        ":topology_keys" => topology_keys,
        ":two_networks" => two_networks,
        _ => return None,
    })
}

/// Upstream: `ValidateCSIDriverName`.
fn driver_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name.is_empty() {
        errors.push(FieldError::required(site.path(), ""));
        return;
    }
    if name.len() > MAX_DRIVER {
        errors.push(FieldError::too_long(site.path(), MAX_DRIVER));
    }
    for detail in names::dns_subdomain_errors(&name.to_lowercase()) {
        errors.push(FieldError::invalid(site.path(), name, detail));
    }
}

/// A name that is one part of a path.
fn segment(site: &Site<'_>, errors: &mut Errors<'_>) {
    checks::form(site, errors, path_segment_errors(site.text()));
}

fn dns_1035(site: &Site<'_>, errors: &mut Errors<'_>) {
    checks::form(site, errors, words::dns_1035_label(site.text()));
}

/// Limits the bytes of a string; the error does not quote the string.
fn at_most(site: &Site<'_>, errors: &mut Errors<'_>) {
    let most = site.words().first().and_then(|word| word.parse().ok());
    if let Some(most) = most.filter(|most: &usize| site.text().len() > *most) {
        let detail = format!("can have at most {most} characters");
        errors.push(FieldError::invalid(site.path(), "", detail));
    }
}

fn flow_namespace(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name != "*" {
        for detail in names::dns_label_errors(name) {
            let detail =
                format!("each member of this list must be '*' or a DNS-1123 label; {detail}");
            errors.push(FieldError::invalid(site.path(), name, detail));
        }
    }
}

/// A rule about exit codes names a container of its job's template.
fn known_container(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (name, Some(job)) = (site.text(), site.scope.around("JobSpec")) else {
        return;
    };
    let has = |errors: &mut Errors<'_>, list: &str| {
        let list = at(job, &["template", "spec", list]);
        errors.names_in(list).contains(name)
    };
    // Init containers are looked into only for names of no other container.
    if site.value.is_some() && !has(errors, "containers") && !has(errors, "initContainers") {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(site.path(), name, detail));
    }
}

/// The name has no dots: names of pods and their hosts derive from it.
fn no_dots(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().contains('.') {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            "must not contain dots",
        ));
    }
}

/// Keys of labels, without duplicates; errors are reported at the driver that has them.
fn topology_keys(site: &Site<'_>, errors: &mut Errors<'_>) {
    let keys: Vec<&str> = site
        .items()
        .iter()
        .map(|key| key.as_str().unwrap_or_default())
        .collect();
    let mut seen = HashSet::new();
    for key in &keys {
        if key.is_empty() {
            errors.push(FieldError::required(site.path(), ""));
        } else if !seen.insert(*key) {
            errors.push(FieldError::duplicate(site.path(), *key));
        }
        for detail in names::label_key_errors(key) {
            errors.push(FieldError::invalid(site.path(), *key, detail));
        }
    }
}

/// The size of a hand fits the number of queues.
fn hand_size(site: &Site<'_>, errors: &mut Errors<'_>) {
    let queues = site.scope.value["queues"].as_i64().unwrap_or(0);
    if site.number() > queues {
        let detail = format!("should not be greater than queues ({queues})");
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}

/// Upstream: `validatePoolName`.
fn pool_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name.is_empty() {
        return;
    }
    for part in name.split('/') {
        for detail in names::dns_subdomain_errors(part) {
            errors.push(FieldError::invalid(site.path(), part, detail));
        }
    }
}

/// Exit codes are ordered and unique; 0 is not a failure.
fn exit_codes(site: &Site<'_>, errors: &mut Errors<'_>) {
    let is_in = text(site.scope.value, &["operator"]) == "In";
    let codes: Vec<i64> = site
        .items()
        .iter()
        .map(|code| code.as_i64().unwrap_or(0))
        .collect();
    let mut seen = HashSet::new();
    for (place, code) in codes.iter().enumerate() {
        let field = format!("{}[{place}]", site.path());
        let is_new = seen.insert(*code);
        if *code == 0 && is_in {
            let detail = "must not be 0 for the In operator";
            errors.push(FieldError::invalid(field, *code, detail));
        } else if !is_new {
            errors.push(FieldError::duplicate(field, *code));
        }
    }
    if !codes.is_sorted() {
        let value = shown(site.value);
        errors.push(FieldError::invalid(site.path(), value, "must be ordered"));
    }
}

/// Containers do not share a port of the host.
fn host_ports(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut taken: HashSet<String> = HashSet::new();
    for (place, container) in site.items().iter().enumerate() {
        let ports = at(container, &["ports"]).and_then(Value::as_array);
        for (port_place, port) in ports.into_iter().flatten().enumerate() {
            let number = port.get("hostPort").and_then(Value::as_i64).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let (protocol, address) = (text(port, &["protocol"]), text(port, &["hostIP"]));
            let door = format!("{protocol}/{address}/{number}");
            if taken.contains(&door) {
                let field = format!("{}[{place}].ports[{port_place}].hostPort", site.path());
                errors.push(FieldError::duplicate(field, &door));
            } else {
                taken.insert(door);
            }
        }
    }
}

/// One network of each family at most.
fn two_networks(site: &Site<'_>, errors: &mut Errors<'_>) {
    let families: Vec<bool> = site
        .items()
        .iter()
        .filter_map(|network| words::network(network.as_str().unwrap_or_default()))
        .map(|(address, _)| address.is_ipv4())
        .collect();
    let is_doubled = families.len() > 2 || (families.len() == 2 && families[0] == families[1]);
    if is_doubled {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
             2001:db8::/64";
        errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
    }
}

/// A data source without a group is another claim.
fn data_source(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(source) = site.value else { return };
    let kind = text(source, &["kind"]);
    if text(source, &["apiGroup"]).is_empty() && !kind.is_empty() && kind != "PersistentVolumeClaim"
    {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(site.path(), kind, detail));
    }
}

/// The node affinity of a volume is immutable once set.
fn affinity_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.old().is_some() && site.value != site.old() {
        let detail = "field is immutable, except for updating from beta label to GA";
        let value = site
            .value
            .map_or_else(|| ShownValue::raw("null"), |value| shown(Some(value)));
        errors.push(FieldError::invalid("nodeAffinity", value, detail));
    }
}

/// Expressions are never evaluated here; an empty one is refused all the same.
fn device_expression(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().is_empty() {
        errors.push(FieldError::invalid(site.path(), "", NO_EXPRESSION));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::budget::Meter;

    fn check(kind: (&str, &str, &str), object: &Value, wanted: &[&str]) {
        let of = kinform_schema::builtin(kind.0, kind.1, kind.2).unwrap();
        let said = super::super::errors(of, object, &Meter::endless());
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        assert_eq!(said, wanted, "{object}");
    }

    #[test]
    fn codes_drivers_and_networks_are_checked_as_upstream_checks_them() {
        // TestValidateCSIDriverName
        let node = |name: &str| json!({"spec": {"drivers": [{"name": name, "nodeID": "n"}]}});
        check(
            ("storage.k8s.io", "v1", "CSINode"),
            &node("A.example.com"),
            &[],
        );
        check(
            ("storage.k8s.io", "v1", "CSINode"),
            &node(""),
            &["spec.drivers[0].name: Required value"],
        );
        let range = json!({"spec": {"cidrs": ["10.0.0.0/24", "10.1.0.0/24"]}});
        check(
            ("networking.k8s.io", "v1", "ServiceCIDR"),
            &range,
            &[
                "spec.cidrs: Invalid value: [\"10.0.0.0/24\",\"10.1.0.0/24\"]: may specify no more than \
               one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64",
            ],
        );
        let both = json!({"spec": {"cidrs": ["10.0.0.0/24", "fd00::/64"]}});
        check(("networking.k8s.io", "v1", "ServiceCIDR"), &both, &[]);
    }
}
